//! `DeformConv`: the image is sampled where each tap of each window looks, and the samples are multiplied by the weights.

use super::super::generate::iota;
use super::super::program::Program;
use super::super::window::Window;
use super::super::{Cx, Lowered};
use super::grid::sample;
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, prim::*};

pub(super) fn lower(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, w, offset) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    let (bias, mask) = (cx.opt(node, 3)?, cx.opt(node, 4)?);
    let kernel = cx.b.dims(w).get(2..).and_then(|k| cx.b.const_ints(k));
    let kernel: Option<Vec<u32>> = kernel.and_then(|k| k.into_iter().map(|k| u32::try_from(k).ok()).collect());
    let kernel = kernel.ok_or_else(|| Problem::new("the kernel's extents are not known"))?;
    let window = Window::of(node, kernel)?;
    let fit = window.fit(cx, x, false)?;
    let (group, offsets) = (node.int_or("group", 1)?, node.int_or("offset_group", 1)?);
    if group <= 0 || offsets <= 0 {
        return Err(Problem::new(format!("{group} groups, {offsets} of offsets")));
    }
    let (group, offsets) = (cx.b.int(group), cx.b.int(offsets));
    let taps: Vec<ExprId> = window.kernel.iter().map(|k| cx.b.int((*k).into())).collect();
    let taps = cx.b.exprs().product(taps);
    let (n, c, m) = (cx.b.dim(x, 0)?, cx.b.dim(x, 1)?, cx.b.dim(w, 0)?);
    let e = cx.b.exprs();
    let (images, members) = (e.mul(n, offsets), e.floor_div(c, offsets));
    let area = e.product(fit.out.iter().copied());
    let grid = grid(cx, &window, x, offset, images, &fit.out)?;
    let spatial = window.spatial_dims(cx, x)?;
    let split = cx.b.reshape(x, &[&[images, members], spatial.as_slice()].concat())?;
    let prim = GridSample { mode: ResizeMode::Linear, padding: GridPadding::Zeros, align_corners: false };
    let samples = sample(cx, split, grid, prim)?;
    let mut samples = cx.b.reshape(samples, &[n, offsets, members, taps, area])?;
    if let Some(mask) = mask {
        let one = cx.b.int(1);
        let mask = cx.b.reshape(mask, &[n, offsets, one, taps, area])?;
        samples = cx.b.binary(MapOp::Mul, samples, mask)?;
    }
    let e = cx.b.exprs();
    let (inner, outer) = (e.floor_div(c, group), e.floor_div(m, group));
    let depth = e.mul(inner, taps);
    let columns = cx.b.reshape(samples, &[n, group, depth, area])?;
    let weights = cx.b.reshape(w, &[group, outer, depth])?;
    let dtype = cx.b.dtype(x);
    let y = cx.b.matmul(weights, columns, dtype, [None, None])?;
    let mut y = cx.b.reshape(y, &[&[n, m], fit.out.as_slice()].concat())?;
    if let Some(bias) = bias {
        let behind: Vec<i64> = (1..=fit.out.len() as i64).collect();
        let bias = cx.b.unsqueeze(bias, &behind)?;
        y = cx.b.binary(MapOp::Add, y, bias)?;
    }
    Ok(vec![y.into()])
}

/// Where the taps look, between -1 and 1 with the edges of the image at both: `[images, taps * out 0, out 1.., d]`, the last axis
/// first.
fn grid(cx: &mut Cx<'_>, window: &Window, x: V, offset: V, images: ExprId, out: &[ExprId]) -> Result<V, Problem> {
    let axes = out.len();
    let (count, one) = (cx.b.int(axes as i64), cx.b.int(1));
    let kernel: Vec<ExprId> = window.kernel.iter().map(|k| cx.b.int((*k).into())).collect();
    let offset = cx.b.reshape(offset, &[&[images], kernel.as_slice(), &[count], out].concat())?;
    let spatial = window.spatial_dims(cx, x)?;
    let taps = cx.b.exprs().product(kernel.iter().copied());
    let Some((first, rest)) = out.split_first() else { return Err(Problem::new("no spatial axes")) };
    let rows = cx.b.exprs().mul(taps, *first);
    let target = [&[images, rows], rest, &[one]].concat();
    // In f64: a place that is whole stays whole.
    let dtype = DType::F64;
    let offset = cx.b.cast(offset, dtype)?;
    let mut parts = Vec::new();
    for axis in (0..axes).rev() {
        let place = cx.b.int(axis as i64);
        let own = cx.b.narrow(offset, 1 + axes, place, one)?;
        let own = cx.b.drop_axes(own, &[1 + axes], false)?;
        // Tap k of window o looks at `o * stride - before + k * dilation + offset`.
        let get = |l: &[u32]| f64::from(l.get(axis).copied().unwrap_or(1));
        let (stride, dilation) = (get(&window.strides), get(&window.dilations));
        let before = window.pads.get(axis).map_or(0, |p| p.0) as f64;
        let steps = line(cx, out[axis], axes + axis + 1, 2 * axes + 1, dtype)?;
        let tap = line(cx, kernel[axis], axis + 1, 2 * axes + 1, dtype)?;
        let extent = cx.b.of_exprs(DType::I64, &[], &[spatial[axis]])?;
        let extent = cx.b.cast(extent, dtype)?;
        let (mut p, [o, k, own, extent]) = Program::new(&cx.b, [steps, tap, own, extent]);
        let at = p.with(MapOp::Mul, o, stride)?;
        let at = p.with(MapOp::Sub, at, before)?;
        let k = p.with(MapOp::Mul, k, dilation)?;
        let at = p.two(MapOp::Add, at, k);
        let at = p.two(MapOp::Add, at, own);
        let at = p.with(MapOp::Mul, at, 2.0)?;
        let at = p.with(MapOp::Add, at, 1.0)?;
        let at = p.two(MapOp::Div, at, extent);
        p.with(MapOp::Sub, at, 1.0)?;
        let v = p.finish(&mut cx.b)?;
        parts.push(cx.b.reshape(v, &target)?);
    }
    cx.b.concat(&parts, axes + 1)
}

/// `0, 1, ..` along an axis of `rank`.
fn line(cx: &mut Cx<'_>, count: ExprId, axis: usize, rank: usize, dtype: DType) -> Result<V, Problem> {
    let index = iota(&mut cx.b, count)?;
    let index = cx.b.cast(index, dtype)?;
    let one = cx.b.int(1);
    let mut dims = vec![one; rank];
    if let Some(d) = dims.get_mut(axis) {
        *d = count;
    }
    cx.b.reshape(index, &dims)
}

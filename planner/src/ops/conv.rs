//! Convolutions and transposed convolutions.

use super::window::{AutoPad, Window, positive_list, spatial_list};
use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, prim::*};

pub(super) const OPERATORS: &[Operator] =
    &[op("Conv", conv), op("ConvInteger", conv_integer), op("ConvTranspose", conv_transpose)];

/// The kernel's extents: those of the weights from the third axis on.
fn kernel_of(cx: &mut Cx<'_>, node: &Node, w: V) -> Result<Vec<u32>, Problem> {
    let dims = cx.b.dims(w);
    let spatial = dims.get(2..).unwrap_or(&[]);
    if let Some(given) = node.opt_ints("kernel_shape")? {
        if given.len() != spatial.len() {
            return Err(Problem::new(format!("a kernel_shape of {} axes for {}", given.len(), cx.b.describe(w))));
        }
        for (g, d) in given.iter().zip(spatial) {
            let g = cx.b.int(*g);
            cx.b.require_equal(g, *d, "kernel_shape is that of the weights")?;
        }
        return positive_list(node, "kernel_shape", spatial.len(), 1);
    }
    let known: Option<Vec<u32>> =
        cx.b.const_ints(spatial)
            .and_then(|l| l.into_iter().map(|k| u32::try_from(k).ok().filter(|k| *k > 0)).collect());
    known.ok_or_else(|| Problem::new(format!("the kernel's extents in {} are not known", cx.b.describe(w))))
}

fn group_of(node: &Node) -> Result<u32, Problem> {
    let group = node.int_or("group", 1)?;
    u32::try_from(group).ok().filter(|g| *g > 0).ok_or_else(|| Problem::new(format!("{group} groups")))
}

/// A convolution of the data by the weights, both the node's, with operands `rest` after them (bias, none, zero points).
pub(super) fn convolve(cx: &mut Cx<'_>, node: &Node, x: V, w: V, rest: &[Option<V>], out: DType) -> Result<V, Problem> {
    let group = group_of(node)?;
    let window = Window::of(node, kernel_of(cx, node, w)?)?;
    let fit = window.fit(cx, x, false)?;
    let (n, c) = (cx.b.dim(x, 0)?, cx.b.dim(x, 1)?);
    let (m, per_group) = (cx.b.dim(w, 0)?, cx.b.dim(w, 1)?);
    let groups = cx.b.int(group.into());
    let channels = cx.b.exprs().mul(per_group, groups);
    cx.b.require_equal(c, channels, "channels of data and weights")?;
    let mut dims = vec![n, m];
    dims.extend(&fit.out);
    let prim = Conv {
        kernel: spatial_list(&window.kernel)?,
        strides: spatial_list(&window.strides)?,
        dilations: spatial_list(&window.dilations)?,
        before: spatial_list(&fit.before)?,
        group,
        activation: Activation::IDENTITY,
        weights: ConvLayout::Plain,
        data: DataLayout::ChannelsFirst,
    };
    let used = rest.len() - rest.iter().rev().take_while(|r| r.is_none()).count();
    let mut reads = vec![Some(x), Some(w)];
    reads.extend(rest.iter().take(used));
    cx.b.emit1(prim, &reads, out, &dims)
}

fn conv(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, w, bias) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.opt(node, 2)?);
    let dtype = cx.b.dtype(x);
    if [Some(w), bias].into_iter().flatten().any(|v| cx.b.dtype(v) != dtype) {
        return Err(Problem::new("data, weights and bias of a convolution have one type"));
    }
    Ok(vec![convolve(cx, node, x, w, &[bias], dtype)?.into()])
}

fn conv_integer(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, w) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let zero_points = [cx.opt(node, 2)?, cx.opt(node, 3)?];
    Ok(vec![convolve(cx, node, x, w, &[None, None, zero_points[0], zero_points[1]], DType::I32)?.into()])
}

/// Where a transposed convolution's result begins, and its extent, along one axis.
struct Place {
    before: ExprId,
    out: ExprId,
}

fn transposed_axis(
    cx: &mut Cx<'_>,
    window: &Window,
    axis: usize,
    extent: ExprId,
    added: i64,
    wanted: Option<i64>,
) -> Place {
    let stride = i64::from(window.strides.get(axis).copied().unwrap_or(1));
    let (stride, tail) = (cx.b.int(stride), cx.b.int(window.reach(axis).saturating_add(added)));
    let (zero, one, two) = (cx.b.int(0), cx.b.int(1), cx.b.int(2));
    let wanted = wanted.map(|w| cx.b.int(w));
    let pads = match window.auto {
        AutoPad::Explicit => window.pads.get(axis).copied().unwrap_or((0, 0)),
        _ => (0, 0),
    };
    let (before, after) = (cx.b.int(pads.0), cx.b.int(pads.1));
    let x = cx.b.exprs();
    let steps = x.sub(extent, one);
    let steps = x.mul(steps, stride);
    let full = x.add(steps, tail);
    let same = matches!(window.auto, AutoPad::SameUpper | AutoPad::SameLower);
    let wanted = wanted.or_else(|| same.then(|| x.mul(extent, stride)));
    let Some(out) = wanted else {
        let out = x.sub(full, before);
        return Place { before, out: x.sub(out, after) };
    };
    // What is too much is cut off on both sides.
    let total = x.sub(full, out);
    let total = x.max(total, zero);
    let half = x.floor_div(total, two);
    let before = if window.auto == AutoPad::SameUpper { half } else { x.sub(total, half) };
    Place { before, out }
}

fn conv_transpose(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, w, bias) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.opt(node, 2)?);
    let group = group_of(node)?;
    let window = Window::of(node, kernel_of(cx, node, w)?)?;
    let axes = window.kernel.len();
    let spatial = window.spatial_dims(cx, x)?;
    let added = node.ints_or("output_padding", &[])?.to_vec();
    let wanted = node.ints_or("output_shape", &[])?.to_vec();
    // The shape may name batch and channels, too.
    let wanted = wanted.get(wanted.len().saturating_sub(axes)..).unwrap_or(&[]);
    let (mut before, mut out) = (Vec::new(), Vec::new());
    for (i, extent) in spatial.into_iter().enumerate() {
        let added = added.get(i).copied().unwrap_or(0);
        let place = transposed_axis(cx, &window, i, extent, added, wanted.get(i).copied());
        before.push(place.before);
        out.push(cx.b.extent(place.out, "the result of a transposed convolution")?);
    }
    let (n, c) = (cx.b.dim(x, 0)?, cx.b.dim(x, 1)?);
    let (wc, per_group) = (cx.b.dim(w, 0)?, cx.b.dim(w, 1)?);
    cx.b.require_equal(c, wc, "channels of data and weights")?;
    let groups = cx.b.int(group.into());
    let m = cx.b.exprs().mul(per_group, groups);
    let mut dims = vec![n, m];
    dims.extend(out);
    let prim = ConvTranspose {
        strides: spatial_list(&window.strides)?,
        dilations: spatial_list(&window.dilations)?,
        before: spatial_list(&before)?,
        group,
    };
    let reads = [Some(x), Some(w), bias];
    let used = if bias.is_some() { &reads[..] } else { &reads[..2] };
    let dtype = cx.b.dtype(x);
    Ok(vec![cx.b.emit1(prim, used, dtype, &dims)?.into()])
}

//! Pooling.

use super::window::{Window, positive_list, spatial_list};
use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("MaxPool", |cx, n| pool(cx, n, PoolKind::Max)),
    op("AveragePool", |cx, n| pool(cx, n, PoolKind::Average)),
    op("LpPool", |cx, n| pool(cx, n, PoolKind::Lp { p: exponent(n)? })),
    op("GlobalAveragePool", |cx, n| global(cx, n, ReduceOp::Mean)),
    op("GlobalMaxPool", |cx, n| global(cx, n, ReduceOp::Max)),
    op("GlobalLpPool", global_lp),
    op("MaxUnpool", max_unpool),
];

fn exponent(node: &Node) -> Result<u32, Problem> {
    let p = node.int_or("p", 2)?;
    u32::try_from(p).ok().filter(|p| *p > 0).ok_or_else(|| Problem::new(format!("the exponent {p}")))
}

fn pool(cx: &mut Cx<'_>, node: &Node, kind: PoolKind) -> Lowered {
    let x = cx.input(node, 0)?;
    let kernel = positive_list(node, "kernel_shape", node.ints("kernel_shape")?.len(), 1)?;
    let window = Window::of(node, kernel)?;
    let fit = window.fit(cx, x, node.flag("ceil_mode", false)?)?;
    let mut dims = vec![cx.b.dim(x, 0)?, cx.b.dim(x, 1)?];
    dims.extend(&fit.out);
    let prim = Pool {
        kind,
        kernel: spatial_list(&window.kernel)?,
        strides: spatial_list(&window.strides)?,
        dilations: spatial_list(&window.dilations)?,
        before: spatial_list(&fit.before)?,
        after: spatial_list(&fit.after)?,
        count_include_pad: node.flag("count_include_pad", false)?,
        column_major: node.flag("storage_order", false)?,
        data: DataLayout::ChannelsFirst,
    };
    let dtype = cx.b.dtype(x);
    let mut writes = vec![(dtype, dims.clone())];
    if node.output(1).is_some() {
        writes.push((DType::I64, dims));
    }
    Ok(cx.b.emit(prim, &[Some(x)], &writes)?.into_iter().map(Into::into).collect())
}

/// The axes behind batch and channels.
fn spatial_axes(cx: &Cx<'_>, x: V) -> Result<Vec<usize>, Problem> {
    let rank = cx.b.rank(x);
    if rank < 2 { Err(Problem::new(format!("pooling of {}", cx.b.describe(x)))) } else { Ok((2..rank).collect()) }
}

fn global(cx: &mut Cx<'_>, node: &Node, op: ReduceOp) -> Lowered {
    let x = cx.input(node, 0)?;
    let axes = spatial_axes(cx, x)?;
    Ok(vec![cx.b.reduce(op, x, &axes, true)?.into()])
}

fn global_lp(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let axes = spatial_axes(cx, x)?;
    let p = exponent(node)?;
    let y = match p {
        1 => cx.b.reduce(ReduceOp::L1, x, &axes, true)?,
        2 => cx.b.reduce(ReduceOp::L2, x, &axes, true)?,
        _ => {
            let size = cx.b.unary(MapOp::Abs, x)?;
            let power = cx.b.binary_scalar(MapOp::Pow, size, p.into())?;
            let sum = cx.b.reduce(ReduceOp::Sum, power, &axes, true)?;
            cx.b.binary_scalar(MapOp::Pow, sum, 1.0 / f64::from(p))?
        }
    };
    Ok(vec![y.into()])
}

/// Scatters the pooled elements back to where they came from, among zeros.
fn max_unpool(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, places) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let kernel = positive_list(node, "kernel_shape", node.ints("kernel_shape")?.len(), 1)?;
    let window = Window::of(node, kernel)?;
    let mut dims = vec![cx.b.dim(x, 0)?, cx.b.dim(x, 1)?];
    for (i, extent) in window.spatial_dims(cx, x)?.into_iter().enumerate() {
        let stride = cx.b.int(window.strides.get(i).copied().unwrap_or(1).into());
        let pads = window.pads.get(i).copied().unwrap_or((0, 0));
        let rest = cx.b.int(window.reach(i).saturating_sub(pads.0).saturating_sub(pads.1));
        let one = cx.b.int(1);
        let e = cx.b.exprs();
        let steps = e.sub(extent, one);
        let steps = e.mul(steps, stride);
        dims.push(e.add(steps, rest));
    }
    let dtype = cx.b.dtype(x);
    let zero = cx.b.scalar(dtype, 0.0)?;
    let total = cx.b.exprs().product(dims.iter().copied());
    let (base, count) = (cx.b.broadcast(zero, &[total])?, cx.b.count(x));
    let (flat_places, flat_x) = (cx.b.reshape(places, &[count])?, cx.b.reshape(x, &[count])?);
    let prim = ScatterElements { axis: 0, reduction: Reduction::None };
    let y = cx.b.emit1(prim, &[Some(base), Some(flat_places), Some(flat_x)], dtype, &[total])?;
    let y = cx.b.reshape(y, &dims)?;
    // The indices are those of the smallest tensor that can have been pooled; a larger one ends in zeros.
    let Some(wanted) = cx.opt_exprs(node, 2)? else { return Ok(vec![y.into()]) };
    if wanted == dims {
        return Ok(vec![y.into()]);
    }
    if wanted.len() != dims.len() {
        return Err(Problem::new("output_shape must have an extent for each axis"));
    }
    let none: Vec<ExprId> = vec![cx.b.int(0); dims.len()];
    let before = plan::Axes::from_slice(&none).unwrap_or_default();
    Ok(vec![cx.b.emit1(Pad { before, mode: PadMode::Constant }, &[Some(y)], dtype, &wanted)?.into()])
}

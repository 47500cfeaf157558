//! Reductions, arg-reductions and running sums.

use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("ReduceSum", |cx, n| reduce(cx, n, ReduceOp::Sum)),
    op("ReduceMean", |cx, n| reduce(cx, n, ReduceOp::Mean)),
    op("ReduceProd", |cx, n| reduce(cx, n, ReduceOp::Prod)),
    op("ReduceMin", |cx, n| reduce(cx, n, ReduceOp::Min)),
    op("ReduceMax", |cx, n| reduce(cx, n, ReduceOp::Max)),
    op("ReduceL1", |cx, n| reduce(cx, n, ReduceOp::L1)),
    op("ReduceL2", |cx, n| reduce(cx, n, ReduceOp::L2)),
    op("ReduceLogSum", |cx, n| reduce(cx, n, ReduceOp::LogSum)),
    op("ReduceLogSumExp", |cx, n| reduce(cx, n, ReduceOp::LogSumExp)),
    op("ReduceSumSquare", |cx, n| reduce(cx, n, ReduceOp::SumSquare)),
    op("ArgMax", |cx, n| arg_reduce(cx, n, true)),
    op("ArgMin", |cx, n| arg_reduce(cx, n, false)),
    op("CumSum", |cx, n| cumulative(cx, n, false)),
    op("CumProd", |cx, n| cumulative(cx, n, true)),
];

/// The axes of a list, ascending.
pub(super) fn sorted_axes(cx: &Cx<'_>, v: V, axes: &[i64]) -> Result<Vec<usize>, Problem> {
    let rank = cx.b.rank(v);
    let mut list = axes.iter().map(|a| cx.b.axis(*a, rank)).collect::<Result<Vec<_>, _>>()?;
    list.sort();
    list.dedup();
    Ok(list)
}

/// Axes are an attribute in older operator sets and an input in newer ones.
fn reduce(cx: &mut Cx<'_>, node: &Node, op: ReduceOp) -> Lowered {
    let x = cx.input(node, 0)?;
    let keep = node.flag("keepdims", true)?;
    let given = cx.ints_attr_or_input(node, "axes", 1)?.unwrap_or_default();
    let axes = if !given.is_empty() {
        sorted_axes(cx, x, &given)?
    } else if node.flag("noop_with_empty_axes", false)? {
        Vec::new()
    } else {
        (0..cx.b.rank(x)).collect()
    };
    let identity = matches!(op, ReduceOp::Sum | ReduceOp::Mean | ReduceOp::Prod | ReduceOp::Min | ReduceOp::Max);
    if axes.is_empty() && identity {
        return Ok(vec![x.into()]);
    }
    // The largest of booleans is that of their bytes.
    if cx.b.dtype(x) == DType::Bool {
        let bytes = cx.b.cast(x, DType::U8)?;
        let y = cx.b.reduce(op, bytes, &axes, keep)?;
        return Ok(vec![cx.b.cast(y, DType::Bool)?.into()]);
    }
    Ok(vec![cx.b.reduce(op, x, &axes, keep)?.into()])
}

fn arg_reduce(cx: &mut Cx<'_>, node: &Node, max: bool) -> Lowered {
    let x = cx.input(node, 0)?;
    let axis = cx.b.axis(node.int_or("axis", 0)?, cx.b.rank(x))?;
    let (one, mut dims) = (cx.b.int(1), cx.b.dims(x));
    if let Some(d) = dims.get_mut(axis) {
        *d = one;
    }
    let prim = ArgReduce { max, axis: axis as u8, last: node.flag("select_last_index", false)? };
    let y = cx.b.emit1(prim, &[Some(x)], DType::I64, &dims)?;
    Ok(vec![cx.b.drop_axes(y, &[axis], node.flag("keepdims", true)?)?.into()])
}

fn cumulative(cx: &mut Cx<'_>, node: &Node, product: bool) -> Lowered {
    let x = cx.input(node, 0)?;
    let axis = match cx.opt_const_ints(node, 1)?.as_deref() {
        Some([axis]) => cx.b.axis(*axis, cx.b.rank(x))?,
        _ => return Err(Problem::new("the axis must be one integer")),
    };
    let prim = Cumulative {
        product,
        axis: axis as u8,
        exclusive: node.flag("exclusive", false)?,
        reverse: node.flag("reverse", false)?,
    };
    let (dtype, dims) = (cx.b.dtype(x), cx.b.dims(x));
    Ok(vec![cx.b.emit1(prim, &[Some(x)], dtype, &dims)?.into()])
}

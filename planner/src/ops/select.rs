//! Selection by data: non-zero elements, top-k, unique.

use super::generate::whole;
use super::{Cx, Lowered, Operator, op};
use crate::graph::{Counted, Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, Relation, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("Compress", compress),
    op("NonMaxSuppression", non_max_suppression),
    op("NonZero", non_zero),
    op("TopK", top_k),
    op("Unique", unique),
];

fn all(values: Vec<V>) -> Lowered {
    Ok(values.into_iter().map(Into::into).collect())
}

/// The elements in one axis.
fn flat(cx: &mut Cx<'_>, v: V) -> Result<(V, ExprId), Problem> {
    let count = cx.b.count(v);
    Ok((cx.b.reshape(v, &[count])?, count))
}

fn non_zero(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    // A scalar counts as a vector of one.
    let v = if cx.b.rank(v) == 0 { flat(cx, v)?.0 } else { v };
    let rank = cx.b.int(cx.b.rank(v) as i64);
    let bound = cx.b.count(v);
    let write = Counted::new(DType::I64, vec![rank, bound], 1);
    all(cx.b.emit_counted(NonZero {}, &[Some(v)], &[write], bound)?)
}

fn compress(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (mut v, cond) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let axis = match node.opt_int("axis")? {
        Some(axis) => Some(cx.b.axis(axis, cx.b.rank(v))?),
        None => {
            v = flat(cx, v)?.0;
            None
        }
    };
    let at = axis.unwrap_or(0);
    let (extent, given) = (cx.b.dim(v, at)?, cx.b.dim(cond, 0)?);
    // What lies beyond the end of the condition is not taken.
    let bound = cx.b.exprs().min(extent, given);
    let zero = cx.b.int(0);
    v = cx.b.narrow(v, at, zero, bound)?;
    let cond = cx.b.narrow(cond, 0, zero, bound)?;
    let write = Counted::new(cx.b.dtype(v), cx.b.dims(v), at);
    let prim = Compress { axis: axis.map(|a| a as u8) };
    all(cx.b.emit_counted(prim, &[Some(v), Some(cond)], &[write], bound)?)
}

fn unique(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let mut v = cx.input(node, 0)?;
    let axis = match node.opt_int("axis")? {
        Some(axis) => Some(cx.b.axis(axis, cx.b.rank(v))?),
        None => {
            v = flat(cx, v)?.0;
            None
        }
    };
    let at = axis.unwrap_or(0);
    let bound = cx.b.dim(v, at)?;
    let indices = |axis| Counted::new(DType::I64, vec![bound], axis);
    let writes = [Counted::new(cx.b.dtype(v), cx.b.dims(v), at), indices(Some(0)), indices(None), indices(Some(0))];
    let prim = Unique { axis: axis.map(|a| a as u8), sorted: node.flag("sorted", true)? };
    all(cx.b.emit_counted(prim, &[Some(v)], &writes, bound)?)
}

fn top_k(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let axis = cx.b.axis(node.int_or("axis", -1)?, cx.b.rank(v))?;
    let k = match node.opt_int("k")? {
        Some(k) => cx.b.int(k),
        None => {
            let k = cx.input(node, 1)?;
            whole(&mut cx.b, k).ok_or_else(|| cx.not_known(node, 1))?
        }
    };
    let (extent, mut dims) = (cx.b.dim(v, axis)?, cx.b.dims(v));
    at_most(cx, k, extent, "the largest `k` elements of an axis")?;
    dims[axis] = k;
    let prim = TopK { axis: axis as u8, largest: node.flag("largest", true)?, sorted: node.flag("sorted", true)? };
    all(cx.b.emit(prim, &[Some(v)], &[(cx.b.dtype(v), dims.clone()), (DType::I64, dims)])?)
}

/// Requires `a <= b`: proven, or checked when a run begins.
fn at_most(cx: &mut Cx<'_>, a: ExprId, b: ExprId, what: &str) -> Result<(), Problem> {
    let difference = cx.b.exprs().sub(a, b);
    let (lo, hi) = cx.b.exprs().range(difference);
    if hi <= 0 {
        return Ok(());
    }
    if lo > 0 || cx.b.depends_on_run(difference) {
        let (a, b) = (cx.b.graph.exprs.display(a), cx.b.graph.exprs.display(b));
        return Err(Problem::new(format!("{what}: {a} is more than {b}, or may be")));
    }
    let guard = crate::graph::Guard { left: a, relation: Relation::LessOrEqual, right: b, what: what.to_owned() };
    if !cx.b.graph.guards.contains(&guard) {
        cx.b.graph.guards.push(guard);
    }
    Ok(())
}

fn non_max_suppression(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (boxes, scores) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let dims = cx.b.dims(scores);
    let [batch, classes, n] = dims.as_slice() else {
        return Err(Problem::new(format!("scores {} are not [batch, classes, boxes]", cx.b.describe(scores))));
    };
    let (zero, three) = (cx.b.int(0), cx.b.int(3));
    let mut reads = vec![Some(boxes), Some(scores)];
    // Without a limit nothing is kept.
    let limit = match cx.opt(node, 2)? {
        Some(v) => {
            let v = cx.b.cast(v, DType::I64)?;
            cx.b.reshape(v, &[])?
        }
        None => cx.b.of_exprs(DType::I64, &[], &[zero])?,
    };
    reads.push(Some(limit));
    for i in [3, 4] {
        reads.push(match cx.opt(node, i)? {
            Some(v) => Some(cx.b.reshape(v, &[])?),
            None => None,
        });
    }
    let per_class = match whole(&mut cx.b, limit) {
        Some(limit) => {
            let limit = cx.b.exprs().max(limit, zero);
            cx.b.exprs().min(limit, *n)
        }
        None => *n,
    };
    let bound = cx.b.exprs().product([*batch, *classes, per_class]);
    let write = Counted::new(DType::I64, vec![bound, three], 0);
    let prim = NonMaxSuppression { center_point_box: node.int_or("center_point_box", 0)? != 0 };
    all(cx.b.emit_counted(prim, &reads, &[write], bound)?)
}

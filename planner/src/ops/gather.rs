//! Gathers and scatters.

use super::generate::iota;
use super::{Cx, Lowered, Operator, op};
use crate::graph::{Builder, Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("Gather", gather),
    op("GatherElements", gather_elements),
    op("GatherND", gather_nd),
    op("OneHot", one_hot),
    op("Scatter", scatter_elements),
    op("ScatterElements", scatter_elements),
    op("ScatterND", scatter_nd),
    op("TensorScatter", tensor_scatter),
    op("ai.onnx.ml::ArrayFeatureExtractor", array_feature_extractor),
];

fn gather(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (data, indices) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let axis = cx.b.axis(node.int_or("axis", 0)?, cx.b.rank(data))?;
    Ok(vec![gathered(&mut cx.b, data, indices, axis)?.into()])
}

/// Slices of `data` along an axis by index.
pub(super) fn gathered(b: &mut Builder, data: V, indices: V, axis: usize) -> Result<V, Problem> {
    let (own, picked, dtype) = (b.dims(data), b.dims(indices), b.dtype(data));
    let extent = b.dim(data, axis)?;
    let (front, back) = (&own[..axis], &own[axis + 1..]);
    let dims = [front, &picked, back].concat();
    // A single known index is a view.
    if let Some([at]) = b.known(indices).as_deref()
        && let Some(start) = inside(b, *at, extent)?
    {
        let one = b.int(1);
        let part = b.narrow(data, axis, start, one)?;
        return b.reshape(part, &dims);
    }
    b.emit1(Gather { axis: axis as u8 }, &[Some(data), Some(indices)], dtype, &dims)
}

/// The index counted from the front, if it is proven to lie inside an axis.
fn inside(b: &mut Builder, at: ExprId, extent: ExprId) -> Result<Option<ExprId>, Problem> {
    let at = if b.exprs().range(at).1 < 0 { b.exprs().add(at, extent) } else { at };
    let past = b.exprs().sub(at, extent);
    let ((lo, hi), (past_lo, past_hi)) = (b.exprs().range(at), b.exprs().range(past));
    if hi < 0 || past_lo >= 0 {
        let (at, extent) = (b.graph.exprs.display(at), b.graph.exprs.display(extent));
        return Err(Problem::new(format!("index {at} is outside an axis of extent {extent}")));
    }
    Ok((lo >= 0 && past_hi < 0).then_some(at))
}

fn gather_elements(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (data, indices) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let rank = cx.b.rank(data);
    let axis = cx.b.axis(node.int_or("axis", 0)?, rank)?;
    if cx.b.rank(indices) != rank {
        return Err(Problem::new(format!("{} by {}", cx.b.describe(data), cx.b.describe(indices))));
    }
    let (dims, dtype) = (cx.b.dims(indices), cx.b.dtype(data));
    let prim = GatherElements { axis: axis as u8 };
    Ok(vec![cx.b.emit1(prim, &[Some(data), Some(indices)], dtype, &dims)?.into()])
}

/// The length of the index tuples along the last axis.
fn tuple_length(b: &Builder, indices: V, limit: usize) -> Result<(Vec<ExprId>, usize), Problem> {
    let dims = b.dims(indices);
    let Some((last, front)) = dims.split_last() else { return Err(Problem::new("indices without axes")) };
    let length =
        b.graph.exprs.as_const(*last).and_then(|k| usize::try_from(k).ok()).ok_or_else(|| {
            Problem::new(format!("the last extent of the indices {} must be known", b.describe(indices)))
        })?;
    if length > limit {
        return Err(Problem::new(format!("index tuples of {length} for {limit} axes")));
    }
    Ok((front.to_vec(), length))
}

fn gather_nd(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (data, indices) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let own = cx.b.dims(data);
    let batch = node.int_or("batch_dims", 0)?;
    let batch = usize::try_from(batch).ok().filter(|b| *b <= own.len());
    let batch = batch.ok_or_else(|| Problem::new("batch_dims is out of range"))?;
    let (front, length) = tuple_length(&cx.b, indices, own.len() - batch)?;
    if front.len() < batch {
        return Err(Problem::new(format!("{batch} batch axes of {}", cx.b.describe(indices))));
    }
    for (a, b) in front.iter().zip(&own).take(batch) {
        cx.b.require_equal(*a, *b, "data and indices share their batch axes")?;
    }
    let dims = [front.as_slice(), &own[batch + length..]].concat();
    let (prim, dtype) = (GatherNd { batch_dims: batch as u8 }, cx.b.dtype(data));
    Ok(vec![cx.b.emit1(prim, &[Some(data), Some(indices)], dtype, &dims)?.into()])
}

fn reduction(node: &Node) -> Result<Reduction, Problem> {
    Ok(match node.string_or("reduction", "none")? {
        "none" => Reduction::None,
        "add" => Reduction::Add,
        "mul" => Reduction::Mul,
        "min" => Reduction::Min,
        "max" => Reduction::Max,
        other => return Err(Problem::new(format!("reduction {other}"))),
    })
}

fn scatter_elements(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (data, indices, updates) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    let rank = cx.b.rank(data);
    let axis = cx.b.axis(node.int_or("axis", 0)?, rank)?;
    if cx.b.rank(indices) != rank || cx.b.rank(updates) != rank || cx.b.dtype(updates) != cx.b.dtype(data) {
        return Err(Problem::new(format!(
            "{} at {} into {}",
            cx.b.describe(updates),
            cx.b.describe(indices),
            cx.b.describe(data)
        )));
    }
    for (a, b) in cx.b.dims(indices).into_iter().zip(cx.b.dims(updates)) {
        cx.b.require_equal(a, b, "indices and updates have the same dims")?;
    }
    let prim = ScatterElements { axis: axis as u8, reduction: reduction(node)? };
    let (dims, dtype) = (cx.b.dims(data), cx.b.dtype(data));
    Ok(vec![cx.b.emit1(prim, &[Some(data), Some(indices), Some(updates)], dtype, &dims)?.into()])
}

fn scatter_nd(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (data, indices, updates) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    let own = cx.b.dims(data);
    let (front, length) = tuple_length(&cx.b, indices, own.len())?;
    let wanted = [front.as_slice(), &own[length..]].concat();
    if cx.b.rank(updates) != wanted.len() || cx.b.dtype(updates) != cx.b.dtype(data) {
        return Err(Problem::new(format!(
            "{} at {} into {}",
            cx.b.describe(updates),
            cx.b.describe(indices),
            cx.b.describe(data)
        )));
    }
    for (a, b) in cx.b.dims(updates).into_iter().zip(wanted) {
        cx.b.require_equal(a, b, "updates have the dims of the indices and of what they name")?;
    }
    let (prim, dtype) = (ScatterNd { reduction: reduction(node)? }, cx.b.dtype(data));
    Ok(vec![cx.b.emit1(prim, &[Some(data), Some(indices), Some(updates)], dtype, &own)?.into()])
}

fn tensor_scatter(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (cache, update) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let rank = cx.b.rank(cache);
    let axis = cx.b.axis(node.int_or("axis", -2)?, rank)?;
    if axis == 0 || cx.b.rank(update) != rank {
        return Err(Problem::new(format!("{} into axis {axis} of {}", cx.b.describe(update), cx.b.describe(cache))));
    }
    let (dims, dtype, one) = (cx.b.dims(update), cx.b.dtype(cache), cx.b.int(1));
    let along = |axis: usize| {
        let mut out = vec![one; rank];
        out[axis] = dims[axis];
        out
    };
    let position = iota(&mut cx.b, dims[axis])?;
    let mut position = cx.b.reshape(position, &along(axis))?;
    if let Some(from) = cx.opt(node, 2)? {
        let from = cx.b.cast(from, DType::I64)?;
        let from = cx.b.reshape(from, &along(0))?;
        position = cx.b.binary(MapOp::Add, position, from)?;
    }
    match node.string_or("mode", "linear")? {
        "linear" => {}
        "circular" => {
            let length = cx.b.dim(cache, axis)?;
            let length = cx.b.of_exprs(DType::I64, &[], &[length])?;
            position = cx.b.binary(MapOp::Mod, position, length)?;
        }
        other => return Err(Problem::new(format!("mode {other}"))),
    }
    let position = cx.b.broadcast(position, &dims)?;
    let prim = ScatterElements { axis: axis as u8, reduction: Reduction::None };
    let own = cx.b.dims(cache);
    Ok(vec![cx.b.emit1(prim, &[Some(cache), Some(position), Some(update)], dtype, &own)?.into()])
}

fn one_hot(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (indices, values) = (cx.input(node, 0)?, cx.input(node, 2)?);
    let depth = cx.input(node, 1)?;
    let depth = super::generate::whole(&mut cx.b, depth).ok_or_else(|| cx.not_known(node, 1))?;
    let rank = cx.b.rank(indices) + 1;
    let axis = cx.b.axis(node.int_or("axis", -1)?, rank)?;
    let indices = cx.b.cast(indices, DType::I64)?;
    let size = cx.b.of_exprs(DType::I64, &[], &[depth])?;
    // Negative indices count from the end; what lies outside is off everywhere.
    let shifted = cx.b.binary(MapOp::Add, indices, size)?;
    let negative = cx.b.binary_scalar(MapOp::Lt, indices, 0.0)?;
    let indices = cx.b.select(negative, shifted, indices)?;
    let indices = cx.b.unsqueeze(indices, &[axis as i64])?;
    let one = cx.b.int(1);
    let mut along = vec![one; rank];
    along[axis] = depth;
    let classes = iota(&mut cx.b, depth)?;
    let classes = cx.b.reshape(classes, &along)?;
    let hot = cx.b.binary(MapOp::Eq, indices, classes)?;
    let two = cx.b.int(2);
    let values = cx.b.reshape(values, &[two])?;
    let zero = cx.b.int(0);
    let off = cx.b.narrow(values, 0, zero, one)?;
    let off = cx.b.reshape(off, &[])?;
    let on = cx.b.narrow(values, 0, one, one)?;
    let on = cx.b.reshape(on, &[])?;
    Ok(vec![cx.b.select(hot, on, off)?.into()])
}

fn array_feature_extractor(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (data, indices) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let data = if cx.b.rank(data) == 1 { cx.b.unsqueeze(data, &[0])? } else { data };
    let axis = cx.b.axis(-1, cx.b.rank(data))?;
    let count = cx.b.count(indices);
    let indices = cx.b.reshape(indices, &[count])?;
    Ok(vec![gathered(&mut cx.b, data, indices, axis)?.into()])
}

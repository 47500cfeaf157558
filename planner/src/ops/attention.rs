//! Attention.

use super::lower::dtype_attr;
use super::{Cx, Lowered, Operator, Val, op};
use crate::graph::{Problem, V};
use crate::onnx::{Graph, Node};
use plan::{DType, ExprId, List, prim::*};

mod linear;
mod rotary;

pub(super) const OPERATORS: &[Operator] = &[
    op("Attention", attention),
    op("RotaryEmbedding", rotary::lower),
    op("LinearAttention", linear::linear_attention),
    op("CausalConvWithState", linear::causal_conv),
];

/// `[batch, length, heads * size]` as `[batch, heads, length, size]`.
pub(super) fn split_heads(cx: &mut Cx<'_>, v: V, heads: i64) -> Result<V, Problem> {
    let dims = cx.b.dims(v);
    let [batch, length, packed] = dims.as_slice() else {
        return Err(Problem::new(format!("heads packed in {}", cx.b.describe(v))));
    };
    if heads <= 0 {
        return Err(Problem::new(format!("{heads} heads")));
    }
    let heads = cx.b.int(heads);
    let size = cx.b.exprs().floor_div(*packed, heads);
    let v = cx.b.reshape(v, &[*batch, *length, heads, size])?;
    cx.b.permute(v, &[0, 2, 1, 3])
}

/// `[batch, heads, length, size]` as `[batch, length, heads * size]`.
pub(super) fn join_heads(cx: &mut Cx<'_>, v: V) -> Result<V, Problem> {
    let v = cx.b.permute(v, &[0, 2, 1, 3])?;
    let (batch, length) = (cx.b.dim(v, 0)?, cx.b.dim(v, 1)?);
    let (heads, size) = (cx.b.dim(v, 2)?, cx.b.dim(v, 3)?);
    let packed = cx.b.exprs().mul(heads, size);
    cx.b.reshape(v, &[batch, length, packed])
}

/// The mask with the dims of the scores; keys that it does not name are masked.
fn full_mask(cx: &mut Cx<'_>, mask: V, scores: &[ExprId; 4], dtype: DType) -> Result<V, Problem> {
    let boolean = cx.b.dtype(mask) == DType::Bool;
    let mut mask = if boolean { mask } else { cx.b.cast(mask, dtype)? };
    let (rank, keys) = (cx.b.rank(mask), scores[3]);
    let own = cx.b.dim(mask, rank.saturating_sub(1))?;
    if own != keys && cx.b.exprs().as_const(own) != Some(1) {
        let (zero, missing) = (cx.b.int(0), cx.b.exprs().sub(keys, own));
        let (before, mut after) = (vec![zero; rank], vec![zero; rank]);
        if let Some(last) = after.last_mut() {
            *last = missing;
        }
        let fill = if boolean { None } else { Some(cx.b.scalar(dtype, f64::NEG_INFINITY)?) };
        mask = super::slice::padded(&mut cx.b, mask, &before, &after, PadMode::Constant, fill)?;
    }
    cx.b.broadcast(mask, scores)
}

fn attention(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (mut q, mut k, mut v) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    let packed = cx.b.rank(q) == 3;
    if packed {
        let (q_heads, kv_heads) = (node.int("q_num_heads")?, node.int("kv_num_heads")?);
        q = split_heads(cx, q, q_heads)?;
        k = split_heads(cx, k, kv_heads)?;
        v = split_heads(cx, v, kv_heads)?;
    }
    let mut past = List::EMPTY;
    if let (Some(past_k), Some(past_v)) = (cx.opt(node, 4)?, cx.opt(node, 5)?) {
        past = List::of([cx.b.dim(past_k, 2)?]);
        k = cx.b.concat(&[past_k, k], 2)?;
        v = cx.b.concat(&[past_v, v], 2)?;
    }
    let window = [node.int_or("left_window_size", -1)?, node.int_or("right_window_size", -1)?];
    let window = window.map(|w| i32::try_from(w).unwrap_or(-1));
    let mode = node.int_or("qk_matmul_output_mode", 0)?;
    let prim = Attention {
        past,
        scale: node.float_or("scale", 0.0)?,
        causal: node.flag("is_causal", false)?,
        window: if window == [-1, -1] { List::EMPTY } else { List::of(window) },
        softcap: node.float_or("softcap", 0.0)?,
        softmax: match node.int_or("softmax_precision", 0)? {
            0 => cx.b.dtype(q),
            number => dtype_attr(number)?,
        },
        scores: u8::try_from(mode).map_err(|_| Problem::new(format!("qk_matmul_output_mode {mode}")))?,
    };
    let (batch, heads, length) = (cx.b.dim(q, 0)?, cx.b.dim(q, 1)?, cx.b.dim(q, 2)?);
    let (keys, size) = (cx.b.dim(k, 2)?, cx.b.dim(v, 3)?);
    let scores = [batch, heads, length, keys];
    let dtype = cx.b.dtype(q);
    let (same_k, same_v) = (cx.b.cast(k, dtype)?, cx.b.cast(v, dtype)?);
    let mask = match cx.opt(node, 3)? {
        Some(mask) => Some(full_mask(cx, mask, &scores, dtype)?),
        None => None,
    };
    let mut reads = vec![Some(q), Some(same_k), Some(same_v), mask, cx.opt(node, 6)?];
    while reads.last().is_some_and(Option::is_none) {
        reads.pop();
    }
    let mut writes = vec![(dtype, vec![batch, heads, length, size])];
    if node.output(3).is_some() {
        writes.push((dtype, scores.to_vec()));
    }
    let out = cx.b.emit(prim, &reads, &writes)?;
    let Some((y, rest)) = out.split_first() else { return Err(Problem::new("attention without a result")) };
    let y = if packed { join_heads(cx, *y)? } else { *y };
    let mut outputs = vec![y.into(), k.into(), v.into()];
    outputs.extend(rest.iter().map(|v| Val::from(*v)));
    Ok(outputs)
}

/// Attention whose scores and probabilities are changed by bodies.
pub(super) fn flex<'m>(cx: &mut Cx<'m>, node: &'m Node) -> Lowered {
    let (q, k, v) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    if [q, k, v].iter().any(|x| cx.b.rank(*x) != 4) {
        return Err(Problem::new("the operands have four axes"));
    }
    let dtype = cx.b.dtype(q);
    let work = match node.int_or("softmax_precision", 0)? {
        0 if dtype == DType::F64 => DType::F64,
        0 => DType::F32,
        number => dtype_attr(number)?,
    };
    let heads = cx.b.dim(q, 1)?;
    let (k, v) = (repeat_heads(cx, k, heads)?, repeat_heads(cx, v, heads)?);
    let (q, k, v) = (cx.b.cast(q, work)?, cx.b.cast(k, work)?, cx.b.cast(v, work)?);
    let scale = match node.opt_float("scale")? {
        Some(scale) => f64::from(scale),
        None => {
            let size = cx.b.dim(q, 3)?;
            let size = cx.b.exprs().as_const(size).filter(|s| *s > 0);
            1.0 / (size.ok_or_else(|| Problem::new("the size of a head is not known"))? as f64).sqrt()
        }
    };
    let q = cx.b.binary_scalar(MapOp::Mul, q, scale)?;
    let k = cx.b.permute(k, &[0, 1, 3, 2])?;
    let scores = cx.b.matmul(q, k, work, [None, None])?;
    let scores = modified(cx, node.opt_graph("score_mod")?, scores)?;
    let dims = cx.b.dims(scores);
    let probabilities = cx.b.emit1(Softmax { kind: SoftmaxKind::Softmax, axis: 3 }, &[Some(scores)], work, &dims)?;
    let probabilities = modified(cx, node.opt_graph("prob_mod")?, probabilities)?;
    let y = cx.b.matmul(probabilities, v, work, [None, None])?;
    Ok(vec![cx.b.cast(y, dtype)?.into()])
}

/// What a body makes of `v`.
fn modified<'m>(cx: &mut Cx<'m>, body: Option<&'m Graph>, v: V) -> Result<V, Problem> {
    let Some(body) = body else { return Ok(v) };
    let Some(name) = body.inputs.first() else { return Err(Problem::new("the body has no input")) };
    let bound = vec![(name.name.as_str(), Val::from(v))];
    match cx.graph(body, bound).first() {
        Some(Val::Tensor(out)) => Ok(*out),
        Some(Val::Poison) => Err(Problem::new("the body cannot be lowered")),
        _ => Err(Problem::new("the body gives no tensor")),
    }
}

/// Heads `[batch, kv, ...]` repeated so that each of `heads` has its own: those of a group lie side by side.
pub(super) fn repeat_heads(cx: &mut Cx<'_>, v: V, heads: ExprId) -> Result<V, Problem> {
    let (mut dims, own) = (cx.b.dims(v), cx.b.dim(v, 1)?);
    if own == heads {
        return Ok(v);
    }
    let group = cx.b.exprs().floor_div(heads, own);
    let spread = cx.b.unsqueeze(v, &[2])?;
    let mut wide = cx.b.dims(spread);
    if let (Some(g), Some(h)) = (wide.get_mut(2), dims.get_mut(1)) {
        (*g, *h) = (group, heads);
    }
    let spread = cx.b.broadcast(spread, &wide)?;
    cx.b.reshape(spread, &dims)
}

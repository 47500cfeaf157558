//! Attention by a recurrent state, and the convolution that goes with it.

use super::super::program::unary_program;
use super::super::{Cx, Lowered};
use super::{join_heads, repeat_heads, split_heads};
use crate::graph::{LoopOp, Op, Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, List, prim::*};

/// The tensors of linear attention, in f32 with the axes `[batch, heads, length, ...]`.
struct Heads {
    query: V,
    key: V,
    value: V,
    decay: Option<V>,
    beta: Option<V>,
    scale: f64,
}

/// A packed tensor as f32 heads.
fn heads_of(cx: &mut Cx<'_>, v: V, heads: i64) -> Result<V, Problem> {
    let v = split_heads(cx, v, heads)?;
    cx.b.cast(v, DType::F32)
}

pub(super) fn linear_attention(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (q, k, v) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    let (q_heads, kv_heads) = (node.int("q_num_heads")?, node.int("kv_num_heads")?);
    let rule = node.string_or("update_rule", "gated_delta")?;
    let (gated, delta) = match rule {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(Problem::new(format!("the update rule {other}"))),
    };
    let (dtype, query) = (cx.b.dtype(q), heads_of(cx, q, q_heads)?);
    let (key, value) = (heads_of(cx, k, kv_heads)?, heads_of(cx, v, kv_heads)?);
    let decay = if gated { Some(cx.input(node, 4)?) } else { None };
    let decay = decay.map(|d| heads_of(cx, d, kv_heads)).transpose()?;
    let beta = match delta {
        true => {
            let beta = cx.input(node, 5)?;
            let last = cx.b.dim(beta, 2)?;
            let heads = if cx.b.exprs().as_const(last) == Some(1) { 1 } else { kv_heads };
            Some(heads_of(cx, beta, heads)?)
        }
        false => None,
    };
    let (batch, heads) = (cx.b.dim(key, 0)?, cx.b.dim(key, 1)?);
    let (size, value_size) = (cx.b.dim(key, 3)?, cx.b.dim(value, 3)?);
    let scale = match f64::from(node.float_or("scale", 0.0)?) {
        0.0 => {
            let size = cx.b.exprs().as_const(size).filter(|s| *s > 0);
            1.0 / (size.ok_or_else(|| Problem::new("the size of a head is not known"))? as f64).sqrt()
        }
        scale => scale,
    };
    let (state, state_type) = match cx.opt(node, 3)? {
        Some(past) => (cx.b.cast(past, DType::F32)?, cx.b.dtype(past)),
        None => {
            let zero = cx.b.scalar(DType::F32, 0.0)?;
            (cx.b.broadcast(zero, &[batch, heads, size, value_size])?, dtype)
        }
    };
    let all = Heads { query, key, value, decay, beta, scale };
    let length = cx.b.dim(query, 2)?;
    let (state, rows) = counted_loop(cx, length, state, |cx, at, state| all.step(cx, at, state))?;
    // Rows are stacked in front: `[length, batch, heads, size]`.
    let y = cx.b.permute(rows, &[1, 2, 0, 3])?;
    let y = join_heads(cx, y)?;
    Ok(vec![cx.b.cast(y, dtype)?.into(), cx.b.cast(state, state_type)?.into()])
}

impl Heads {
    /// The vectors of one position as `[batch, heads, 1, size]`.
    fn at(&self, cx: &mut Cx<'_>, v: V, at: ExprId) -> Result<V, Problem> {
        let one = cx.b.int(1);
        cx.b.narrow(v, 2, at, one)
    }

    /// The state after a position, and what is read from it.
    fn step(&self, cx: &mut Cx<'_>, at: ExprId, state: V) -> Result<(V, V), Problem> {
        let (q, k, mut v) = (self.at(cx, self.query, at)?, self.at(cx, self.key, at)?, self.at(cx, self.value, at)?);
        let column = cx.b.permute(k, &[0, 1, 3, 2])?;
        let mut state = state;
        if let Some(decay) = self.decay {
            let decay = self.at(cx, decay, at)?;
            let decay = cx.b.permute(decay, &[0, 1, 3, 2])?;
            let factor = cx.b.unary(MapOp::Exp, decay)?;
            state = cx.b.binary(MapOp::Mul, state, factor)?;
        }
        if let Some(beta) = self.beta {
            let beta = self.at(cx, beta, at)?;
            let known = cx.b.matmul(k, state, DType::F32, [None, None])?;
            let new = cx.b.binary(MapOp::Sub, v, known)?;
            v = cx.b.binary(MapOp::Mul, beta, new)?;
        }
        let outer = cx.b.binary(MapOp::Mul, column, v)?;
        let state = cx.b.binary(MapOp::Add, state, outer)?;
        let heads = cx.b.dim(q, 1)?;
        let read = repeat_heads(cx, state, heads)?;
        let y = cx.b.matmul(q, read, DType::F32, [None, None])?;
        let y = cx.b.binary_scalar(MapOp::Mul, y, self.scale)?;
        Ok((state, cx.b.drop_axes(y, &[2], false)?))
    }
}

/// Runs `step` for each index below `count`: the last state, and the rows that it gave, stacked.
fn counted_loop(
    cx: &mut Cx<'_>,
    count: ExprId,
    state: V,
    step: impl Fn(&mut Cx<'_>, ExprId, V) -> Result<(V, V), Problem>,
) -> Result<(V, V), Problem> {
    if cx.b.exprs().as_const(count) == Some(1) {
        let zero = cx.b.int(0);
        let (state, row) = step(cx, zero, state)?;
        return Ok((state, cx.b.unsqueeze(row, &[0])?));
    }
    let counter = cx.b.run_symbol(format!("iteration of {}", cx.b.origin), count)?;
    let (dtype, dims) = (cx.b.dtype(state), cx.b.dims(state));
    let seen = cx.b.carried(dtype, &dims)?;
    let at = cx.b.exprs().of_symbol(counter);
    let (block, outer) = cx.b.open_block();
    let done = step(cx, at, seen);
    let results = done.as_ref().map_or(Vec::new(), |(state, row)| vec![*state, *row]);
    cx.b.close_block(results, outer);
    let (_, row) = done?;
    let trip = cx.b.of_exprs(DType::I64, &[], &[count])?;
    let rows = [&[count], cx.b.dims(row).as_slice()].concat();
    let writes = [(dtype, dims), (cx.b.dtype(row), rows)];
    let op = LoopOp { body: block, counter, carried: vec![seen], has_cond: false, max_trips: count };
    match cx.b.control(Op::Loop(op), &[Some(trip), None, Some(state)], &writes)?.as_slice() {
        [state, rows] => Ok((*state, *rows)),
        _ => Err(Problem::new("a loop without results")),
    }
}

/// A depthwise convolution whose padding is the end of what came before.
pub(super) fn causal_conv(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, w, bias) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.opt(node, 2)?);
    let (batch, channels, length) = (cx.b.dim(x, 0)?, cx.b.dim(x, 1)?, cx.b.dim(x, 2)?);
    let (taps, one, zero) = (cx.b.dim(w, 2)?, cx.b.int(1), cx.b.int(0));
    let known = |e: ExprId| cx.b.graph.exprs.as_const(e).and_then(|k| u32::try_from(k).ok());
    let (Some(kernel), Some(group)) = (known(taps), known(channels)) else {
        return Err(Problem::new(format!("a causal convolution by {}", cx.b.describe(w))));
    };
    let dtype = cx.b.dtype(x);
    let kept = cx.b.exprs().sub(taps, one);
    let before = match cx.opt(node, 3)? {
        Some(past) => past,
        None => {
            let nothing = cx.b.scalar(dtype, 0.0)?;
            cx.b.broadcast(nothing, &[batch, channels, kept])?
        }
    };
    let padded = if kernel > 1 { cx.b.concat(&[before, x], 2)? } else { x };
    let prim = Conv {
        kernel: List::of([kernel]),
        strides: List::of([1]),
        dilations: List::of([1]),
        before: List::of([zero]),
        group,
        activation: Activation::IDENTITY,
        weights: ConvLayout::Plain,
        data: DataLayout::ChannelsFirst,
    };
    let reads = [Some(padded), Some(w), bias];
    let used = if bias.is_some() { &reads[..] } else { &reads[..2] };
    let y = cx.b.emit1(prim, used, dtype, &[batch, channels, length])?;
    let y = match node.string_or("activation", "none")? {
        "none" => y,
        "silu" | "swish" => unary_program(&mut cx.b, y, |p, r| Ok(p.one(MapOp::Silu, r)))?,
        other => return Err(Problem::new(format!("the activation {other}"))),
    };
    let state = cx.b.narrow(padded, 2, length, kept)?;
    Ok(vec![y.into(), state.into()])
}

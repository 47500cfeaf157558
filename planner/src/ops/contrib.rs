//! Quantised and fused operators of the domain `com.microsoft`, as quantisers and optimisers of ONNX Runtime write them.

use super::attention::{join_heads, split_heads};
use super::conv::convolve;
use super::matmul::{integer_product, product};
use super::program::{Program, unary_program};
use super::quantize::{dynamic_quantize, quantized};
use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, List, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("com.microsoft::QLinearAdd", |cx, n| qlinear_binary(cx, n, MapOp::Add)),
    op("com.microsoft::QLinearMul", |cx, n| qlinear_binary(cx, n, MapOp::Mul)),
    op("com.microsoft::QLinearSigmoid", |cx, n| qlinear_unary(cx, n, |cx, _, x| cx.b.unary(MapOp::Sigmoid, x))),
    op("com.microsoft::QLinearLeakyRelu", |cx, n| qlinear_unary(cx, n, leaky_relu)),
    op("com.microsoft::QLinearGlobalAveragePool", |cx, n| qlinear_unary(cx, n, global_average)),
    op("com.microsoft::QLinearSoftmax", qlinear_softmax),
    op("com.microsoft::QLinearConcat", qlinear_concat),
    op("com.microsoft::QGemm", qgemm),
    op("com.microsoft::DynamicQuantizeMatMul", dynamic_quantize_matmul),
    op("com.microsoft::MatMulIntegerToFloat", matmul_integer_to_float),
    op("com.microsoft::MatMulNBits", matmul_nbits),
    op("com.microsoft::FusedConv", fused_conv),
    op("com.microsoft::FusedGemm", fused_gemm),
    op("com.microsoft::MultiHeadAttention", multi_head_attention),
];

/// `(x - zero) * scale` in f32, of inputs `i`, `i + 1` and `i + 2`.
fn dequantized(cx: &mut Cx<'_>, node: &Node, i: usize) -> Result<V, Problem> {
    let (x, scale, zero) = (cx.input(node, i)?, cx.input(node, i + 1)?, cx.opt(node, i + 2)?);
    let scale = single(cx, scale)?;
    let x = match zero {
        None => cx.b.cast(x, DType::F32)?,
        Some(zero) => {
            let zero = single(cx, zero)?;
            let (x, zero) = (cx.b.cast(x, DType::F32)?, cx.b.cast(zero, DType::F32)?);
            cx.b.binary(MapOp::Sub, x, zero)?
        }
    };
    cx.b.binary(MapOp::Mul, x, scale)
}

/// A parameter of one element as a scalar.
fn single(cx: &mut Cx<'_>, v: V) -> Result<V, Problem> {
    let (one, count) = (cx.b.int(1), cx.b.count(v));
    if cx.b.exprs().always_equal(one, count) { cx.b.reshape(v, &[]) } else { Ok(v) }
}

/// `v` quantised with the scale and the zero point in inputs `i` and `i + 1`; of the type of input `like` without a zero point.
fn requantized(cx: &mut Cx<'_>, node: &Node, v: V, i: usize, like: usize) -> Lowered {
    let (scale, zero) = (cx.input(node, i)?, cx.opt(node, i + 1)?);
    let zero = match zero {
        Some(zero) => zero,
        None => {
            let dtype = cx.b.dtype(cx.input(node, like)?);
            cx.b.scalar(dtype, 0.0)?
        }
    };
    let (scale, zero) = (single(cx, scale)?, single(cx, zero)?);
    Ok(vec![quantized(cx, v, scale, zero)?.into()])
}

fn qlinear_binary(cx: &mut Cx<'_>, node: &Node, op: MapOp) -> Lowered {
    let (a, b) = (dequantized(cx, node, 0)?, dequantized(cx, node, 3)?);
    let y = cx.b.binary(op, a, b)?;
    requantized(cx, node, y, 6, 0)
}

fn qlinear_unary(cx: &mut Cx<'_>, node: &Node, f: fn(&mut Cx<'_>, &Node, V) -> Result<V, Problem>) -> Lowered {
    let x = dequantized(cx, node, 0)?;
    let y = f(cx, node, x)?;
    requantized(cx, node, y, 3, 0)
}

fn leaky_relu(cx: &mut Cx<'_>, node: &Node, x: V) -> Result<V, Problem> {
    cx.b.binary_scalar(MapOp::Prelu, x, node.float_or("alpha", 0.01)?.into())
}

fn global_average(cx: &mut Cx<'_>, node: &Node, x: V) -> Result<V, Problem> {
    let rank = cx.b.rank(x);
    let last = node.flag("channels_last", false)?;
    let axes: Vec<usize> = if last { (1..rank.saturating_sub(1)).collect() } else { (2..rank).collect() };
    cx.b.reduce(ReduceOp::Mean, x, &axes, true)
}

fn qlinear_softmax(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    qlinear_unary(cx, node, |cx, node, x| {
        let (dims, rank) = (cx.b.dims(x), cx.b.rank(x));
        if node.int_or("opset", 13)? < 13 {
            return Err(Problem::new("the softmax of operator sets before 13"));
        }
        let axis = cx.b.axis(node.int_or("axis", -1)?, rank)? as u8;
        cx.b.emit1(Softmax { kind: SoftmaxKind::Softmax, axis }, &[Some(x)], DType::F32, &dims)
    })
}

/// Inputs: the result's scale and zero point, then each operand with its own.
fn qlinear_concat(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let mut parts = Vec::new();
    for i in (2..node.inputs.len()).step_by(3) {
        parts.push(dequantized(cx, node, i)?);
    }
    let Some(first) = parts.first().copied() else { return Err(Problem::new("nothing to concatenate")) };
    let axis = cx.b.axis(node.int("axis")?, cx.b.rank(first))?;
    let y = cx.b.concat(&parts, axis)?;
    requantized(cx, node, y, 0, 2)
}

/// An i32 sum as f32, times scales that are broadcast to it.
fn scaled_sum(cx: &mut Cx<'_>, sum: V, scales: [V; 2]) -> Result<V, Problem> {
    let [a, b] = scales;
    let (mut p, [sum, a, b]) = Program::new(&cx.b, [sum, a, b]);
    let factor = p.two(MapOp::Mul, a, b);
    let sum = p.cast(sum, DType::F32);
    p.two(MapOp::Mul, sum, factor);
    p.finish(&mut cx.b)
}

fn transposed(cx: &mut Cx<'_>, v: V, yes: bool) -> Result<V, Problem> {
    if yes { cx.b.permute(v, &[1, 0]) } else { Ok(v) }
}

fn qgemm(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (a, b) = (cx.input(node, 0)?, cx.input(node, 3)?);
    if node.float_or("alpha", 1.0)? != 1.0 {
        return Err(Problem::new("QGemm with an alpha other than 1"));
    }
    let a = transposed(cx, a, node.flag("transA", false)?)?;
    let b = transposed(cx, b, node.flag("transB", false)?)?;
    let mut sum = integer_product(cx, a, b, [cx.opt(node, 2)?, cx.opt(node, 5)?])?;
    if let Some(c) = cx.opt(node, 6)? {
        sum = cx.b.binary(MapOp::Add, sum, c)?;
    }
    let scales = [cx.input(node, 1)?, cx.input(node, 4)?];
    let y = scaled_sum(cx, sum, scales)?;
    if node.input(7).is_none() { Ok(vec![y.into()]) } else { requantized(cx, node, y, 7, 0) }
}

fn with_bias(cx: &mut Cx<'_>, y: V, bias: Option<V>) -> Result<V, Problem> {
    match bias {
        Some(bias) => cx.b.binary(MapOp::Add, y, bias),
        None => Ok(y),
    }
}

fn dynamic_quantize_matmul(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (a, b, b_scale) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    let q = dynamic_quantize(cx, a)?;
    let sum = integer_product(cx, q.y, b, [Some(q.zero), cx.opt(node, 3)?])?;
    let y = scaled_sum(cx, sum, [q.scale, b_scale])?;
    let bias = cx.opt(node, 4)?;
    Ok(vec![with_bias(cx, y, bias)?.into()])
}

fn matmul_integer_to_float(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (a, b) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let (a_scale, b_scale) = (cx.input(node, 2)?, cx.input(node, 3)?);
    let (a_zero, b_zero) = (cx.opt(node, 4)?, cx.opt(node, 5)?);
    let sum = integer_product(cx, a, b, [a_zero, b_zero])?;
    let y = scaled_sum(cx, sum, [a_scale, b_scale])?;
    let bias = cx.opt(node, 6)?;
    Ok(vec![with_bias(cx, y, bias)?.into()])
}

/// Packed numbers of a constant of bytes, the first in the low bits.
fn unpacked(cx: &mut Cx<'_>, v: V, bits: i64, dims: &[usize]) -> Result<V, Problem> {
    let dtype = match bits {
        2 => DType::U2,
        4 => DType::U4,
        8 => DType::U8,
        _ => return Err(Problem::new(format!("weights of {bits} bits"))),
    };
    let bytes = cx.b.graph.constant_of(v).cloned();
    let bytes = bytes.ok_or_else(|| Problem::new("packed weights must be constants"))?;
    cx.b.constant(dtype, dims, bytes, false)
}

/// `a` times the transpose of weights in blocks: `[n, blocks, size]` with a scale and a zero point for each block.
fn matmul_nbits(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (a, b, scales) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    if node.input(4).is_some() {
        return Err(Problem::new("MatMulNBits with an order of groups"));
    }
    let (bits, size) = (node.int_or("bits", 4)?, node.int("block_size")?);
    let positive = |v: i64| usize::try_from(v).ok().filter(|v| *v > 0);
    let (Some(n), Some(k), Some(size)) = (positive(node.int("N")?), positive(node.int("K")?), positive(size)) else {
        return Err(Problem::new("N, K and block_size must be positive"));
    };
    let blocks = k.div_ceil(size);
    if blocks.checked_mul(size).and_then(|k| k.checked_mul(n)).is_none_or(|all| all > 1 << 48) {
        return Err(Problem::new(format!("weights of {n} rows of {k} in blocks of {size}")));
    }
    let weights = unpacked(cx, b, bits, &[n, blocks, size])?;
    let dims = [n as i64, blocks as i64, 1].map(|d| cx.b.int(d));
    let scales = cx.b.reshape(scales, &dims)?;
    let dtype = cx.b.dtype(scales);
    let zero = match cx.opt(node, 3)? {
        None => cx.b.scalar(dtype, f64::from(1u32 << (bits.clamp(1, 8) - 1)))?,
        Some(zero) if cx.b.dtype(zero).is_float() => cx.b.reshape(zero, &dims)?,
        Some(zero) => {
            // Each row of zero points fills whole bytes.
            let row = blocks.div_ceil(8 / bits.clamp(1, 8) as usize) * (8 / bits.clamp(1, 8) as usize);
            let zero = unpacked(cx, zero, bits, &[n, row])?;
            let zero = cx.b.cast(zero, dtype)?;
            let (from, count) = (cx.b.int(0), cx.b.int(blocks as i64));
            let zero = cx.b.narrow(zero, 1, from, count)?;
            cx.b.reshape(zero, &dims)?
        }
    };
    let (mut p, [w, scales, zero]) = Program::new(&cx.b, [weights, scales, zero]);
    let w = p.cast(w, dtype);
    let w = p.two(MapOp::Sub, w, zero);
    p.two(MapOp::Mul, w, scales);
    let w = p.finish(&mut cx.b)?;
    let (rows, whole, used) = (cx.b.int(n as i64), cx.b.int((blocks * size) as i64), cx.b.int(k as i64));
    let w = cx.b.reshape(w, &[rows, whole])?;
    let from = cx.b.int(0);
    let w = cx.b.narrow(w, 1, from, used)?;
    let w = cx.b.permute(w, &[1, 0])?;
    let y = product(cx, a, w)?;
    let bias = cx.opt(node, 5)?;
    Ok(vec![with_bias(cx, y, bias)?.into()])
}

/// The activation that a fused operator names, with its parameters.
fn activated(cx: &mut Cx<'_>, name: &str, [alpha, beta]: [Option<f32>; 2], y: V) -> Result<V, Problem> {
    let alpha_or = |default: f32| f64::from(alpha.unwrap_or(default));
    match name {
        "" => Ok(y),
        "Relu" => cx.b.unary(MapOp::Relu, y),
        "Sigmoid" => cx.b.unary(MapOp::Sigmoid, y),
        "Tanh" => cx.b.unary(MapOp::Tanh, y),
        "HardSwish" => cx.b.unary(MapOp::HardSwish, y),
        "LeakyRelu" => cx.b.binary_scalar(MapOp::Prelu, y, alpha_or(0.01)),
        "Clip" => {
            let y = cx.b.binary_scalar(MapOp::Max, y, alpha_or(f32::MIN))?;
            cx.b.binary_scalar(MapOp::Min, y, beta.unwrap_or(f32::MAX).into())
        }
        "HardSigmoid" => unary_program(&mut cx.b, y, |p, x| {
            let x = p.with(MapOp::Mul, x, alpha_or(0.2))?;
            let x = p.with(MapOp::Add, x, beta.unwrap_or(0.5).into())?;
            let x = p.with(MapOp::Max, x, 0.0)?;
            p.with(MapOp::Min, x, 1.0)
        }),
        other => Err(Problem::new(format!("the activation {other}"))),
    }
}

fn fused_conv(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, w, bias, other) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.opt(node, 2)?, cx.opt(node, 3)?);
    let dtype = cx.b.dtype(x);
    let mut y = convolve(cx, node, x, w, &[bias], dtype)?;
    if let Some(other) = other {
        y = cx.b.binary(MapOp::Add, y, other)?;
    }
    let params = node.floats_or("activation_params", &[])?;
    let params = [params.first().copied(), params.get(1).copied()];
    Ok(vec![activated(cx, node.string_or("activation", "")?, params, y)?.into()])
}

fn fused_gemm(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let y = super::matmul::gemm_of(cx, node)?;
    let params = [node.opt_float("activation_alpha")?, node.opt_float("activation_beta")?];
    Ok(vec![activated(cx, node.string_or("activation", "")?, params, y)?.into()])
}

/// Query, key and value packed as `[batch, length, heads * size]`, with an additive bias of the scores.
fn multi_head_attention(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    for i in [4, 8, 9] {
        if node.input(i).is_some() {
            return Err(Problem::new(format!("input {i} of MultiHeadAttention is not supported")));
        }
    }
    let heads = node.int("num_heads")?;
    let mut parts = [cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?];
    if let Some(bias) = cx.opt(node, 3)? {
        // The biases of query, key and value lie one after another.
        let mut from = cx.b.int(0);
        for part in &mut parts {
            let width = cx.b.dim(*part, 2)?;
            let own = cx.b.narrow(bias, 0, from, width)?;
            *part = cx.b.binary(MapOp::Add, *part, own)?;
            from = cx.b.exprs().add(from, width);
        }
    }
    for part in &mut parts {
        *part = split_heads(cx, *part, heads)?;
    }
    let [q, mut k, mut v] = parts;
    let mut past = List::EMPTY;
    if let (Some(past_k), Some(past_v)) = (cx.opt(node, 6)?, cx.opt(node, 7)?) {
        past = List::of([cx.b.dim(past_k, 2)?]);
        k = cx.b.concat(&[past_k, k], 2)?;
        v = cx.b.concat(&[past_v, v], 2)?;
    }
    let prim = Attention {
        past,
        scale: node.float_or("scale", 0.0)?,
        causal: node.flag("unidirectional", false)?,
        window: List::EMPTY,
        softcap: 0.0,
        // Where nothing is said, more precise than 16 bits.
        softmax: if cx.b.dtype(q) == DType::F64 { DType::F64 } else { DType::F32 },
        scores: 0,
    };
    let (batch, length, keys) = (cx.b.dim(q, 0)?, cx.b.dim(q, 2)?, cx.b.dim(k, 2)?);
    let (count, size) = (cx.b.dim(q, 1)?, cx.b.dim(v, 3)?);
    let mut reads = vec![Some(q), Some(k), Some(v)];
    if let Some(mask) = cx.opt(node, 5)? {
        reads.push(Some(cx.b.broadcast(mask, &[batch, count, length, keys])?));
    }
    let dtype = cx.b.dtype(q);
    let y = cx.b.emit1(prim, &reads, dtype, &[batch, count, length, size])?;
    Ok(vec![join_heads(cx, y)?.into(), k.into(), v.into()])
}

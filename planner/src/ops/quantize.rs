//! Quantising, and operators on quantised tensors.

use super::conv::convolve;
use super::lower::dtype_attr;
use super::matmul::{integer_product, product};
use super::program::{Program, Reg};
use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("QuantizeLinear", quantize_linear),
    op("DequantizeLinear", dequantize_linear),
    op("com.microsoft::QuantizeLinear", quantize_linear),
    op("com.microsoft::DequantizeLinear", dequantize_linear),
    op("DynamicQuantizeLinear", dynamic_quantize_linear),
    op("QLinearMatMul", qlinear_matmul),
    op("QLinearConv", qlinear_conv),
];

/// How scales and zero points belong to the elements of a tensor.
struct Blocks {
    /// The tensor's dims while it is computed with: those of `x`, or with the axis split into blocks.
    work: Vec<ExprId>,
    /// Brings a scale or a zero point to dims that are broadcast to `work`.
    fit: Fit,
}

enum Fit {
    Scalar,
    /// A vector along the axis: the axes behind it.
    Axis(usize),
    /// One for each block: an axis of extent 1 behind `axis`.
    Split(usize),
    /// Blocks of `size` that do not divide the extent: repeated, then cut.
    Cut {
        axis: usize,
        size: i64,
    },
}

impl Blocks {
    fn of(cx: &mut Cx<'_>, node: &Node, x: V, scale: V) -> Result<Blocks, Problem> {
        let (dims, rank) = (cx.b.dims(x), cx.b.rank(x));
        let scale_rank = cx.b.rank(scale);
        let count = cx.b.count(scale);
        if scale_rank == 0 || (scale_rank == 1 && cx.b.exprs().as_const(count) == Some(1)) {
            return Ok(Blocks { work: dims, fit: Fit::Scalar });
        }
        let axis = cx.b.axis(node.int_or("axis", 1)?, rank)?;
        let block = node.int_or("block_size", 0)?;
        if block == 0 && scale_rank == 1 {
            return Ok(Blocks { work: dims, fit: Fit::Axis(rank - 1 - axis) });
        }
        if block <= 0 || scale_rank != rank {
            return Err(Problem::new(format!("blocks of {block} with a scale {}", cx.b.describe(scale))));
        }
        let (extent, blocks, size) = (cx.b.dim(x, axis)?, cx.b.dim(scale, axis)?, cx.b.int(block));
        let whole = cx.b.exprs().mul(blocks, size);
        if !cx.b.exprs().always_equal(whole, extent) {
            let needed = cx.b.exprs().ceil_div(extent, size);
            cx.b.require_equal(needed, blocks, "a scale for each block")?;
            return Ok(Blocks { work: dims, fit: Fit::Cut { axis, size: block } });
        }
        let mut work = dims;
        work.splice(axis..=axis, [blocks, size]);
        Ok(Blocks { work, fit: Fit::Split(axis) })
    }

    /// A scale or a zero point, in the type `to`, with dims that are broadcast to those of the work.
    fn parameter(&self, cx: &mut Cx<'_>, v: V, to: DType) -> Result<V, Problem> {
        let v = cx.b.cast(v, to)?;
        match self.fit {
            Fit::Scalar => cx.b.reshape(v, &[]),
            Fit::Axis(0) => Ok(v),
            Fit::Axis(behind) => cx.b.unsqueeze(v, &(1..=behind as i64).collect::<Vec<_>>()),
            Fit::Split(axis) => cx.b.unsqueeze(v, &[axis as i64 + 1]),
            Fit::Cut { axis, size } => {
                let dims = cx.b.dims(v);
                let spread = cx.b.unsqueeze(v, &[axis as i64 + 1])?;
                let mut repeated = cx.b.dims(spread);
                let size = cx.b.int(size);
                if let Some(d) = repeated.get_mut(axis + 1) {
                    *d = size;
                }
                let v = cx.b.broadcast(spread, &repeated)?;
                let mut flat = dims;
                if let Some(d) = flat.get_mut(axis) {
                    *d = cx.b.exprs().mul(*d, size);
                }
                let v = cx.b.reshape(v, &flat)?;
                let (zero, extent) = (cx.b.int(0), self.work.get(axis).copied());
                cx.b.narrow(v, axis, zero, extent.unwrap_or(zero))
            }
        }
    }
}

/// Whether a quotient is rounded to integers before it is stored.
fn rounds(to: DType) -> bool {
    to.is_integer()
}

/// The conversion at the end of quantising. Only floats may become infinite instead.
fn narrow(p: &mut Program, v: Reg, to: DType, saturate: bool) -> Reg {
    p.cast_as(if saturate || !to.is_float() { MapOp::CastSaturate } else { MapOp::CastNoSaturate }, v, to)
}

/// The type to compute in: f64 stays, everything else is exact enough in f32.
fn work_type(of: DType) -> DType {
    if of == DType::F64 { DType::F64 } else { DType::F32 }
}

fn quantize_linear(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, scale, zero) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.opt(node, 2)?);
    let to = match (zero, node.int_or("output_dtype", 0)?) {
        (Some(z), _) => cx.b.dtype(z),
        (None, 0) => DType::U8,
        (None, number) => dtype_attr(number)?,
    };
    let precision = match node.int_or("precision", 0)? {
        0 => cx.b.dtype(scale),
        number => dtype_attr(number)?,
    };
    // Scales of 8 bits are only stored as such.
    let precision = if precision.bits() < 16 { DType::F32 } else { precision };
    let y = quantize(cx, node, x, scale, zero, precision, to)?;
    Ok(vec![y.into()])
}

fn quantize(
    cx: &mut Cx<'_>,
    node: &Node,
    x: V,
    scale: V,
    zero: Option<V>,
    precision: DType,
    to: DType,
) -> Result<V, Problem> {
    let dims = cx.b.dims(x);
    let blocks = Blocks::of(cx, node, x, scale)?;
    let work = work_type(precision);
    let x = cx.b.reshape(x, &blocks.work)?;
    let scale = blocks.parameter(cx, scale, precision)?;
    let saturate = node.flag("saturate", true)?;
    let y = match zero {
        None => {
            let (mut p, [x, scale]) = Program::new(&cx.b, [x, scale]);
            let v = quotient(&mut p, x, scale, precision, work, to);
            narrow(&mut p, v, to, saturate);
            p.finish(&mut cx.b)?
        }
        Some(zero) => {
            let zero = blocks.parameter(cx, zero, work)?;
            let (mut p, [x, scale, zero]) = Program::new(&cx.b, [x, scale, zero]);
            let v = quotient(&mut p, x, scale, precision, work, to);
            let v = p.two(MapOp::Add, v, zero);
            narrow(&mut p, v, to, saturate);
            p.finish(&mut cx.b)?
        }
    };
    cx.b.reshape(y, &dims)
}

/// `x / scale` in the type that the operator asks for, rounded where the result is an integer.
fn quotient(p: &mut Program, x: Reg, scale: Reg, precision: DType, work: DType, to: DType) -> Reg {
    let x = p.cast(x, precision);
    let v = p.two(MapOp::Div, x, scale);
    let v = p.cast(v, work);
    if rounds(to) { p.one(MapOp::Round, v) } else { v }
}

fn dequantize_linear(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, scale, zero) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.opt(node, 2)?);
    let to = match node.int_or("output_dtype", 0)? {
        0 => cx.b.dtype(scale),
        number => dtype_attr(number)?,
    };
    let dims = cx.b.dims(x);
    let blocks = Blocks::of(cx, node, x, scale)?;
    let work = work_type(to);
    let x = cx.b.reshape(x, &blocks.work)?;
    let scale = blocks.parameter(cx, scale, work)?;
    let y = match zero {
        None => {
            let (mut p, [x, scale]) = Program::new(&cx.b, [x, scale]);
            let v = p.cast(x, work);
            let v = p.two(MapOp::Mul, v, scale);
            p.cast(v, to);
            p.finish(&mut cx.b)?
        }
        Some(zero) => {
            let zero = blocks.parameter(cx, zero, work)?;
            let (mut p, [x, scale, zero]) = Program::new(&cx.b, [x, scale, zero]);
            let v = p.cast(x, work);
            let v = p.two(MapOp::Sub, v, zero);
            let v = p.two(MapOp::Mul, v, scale);
            p.cast(v, to);
            p.finish(&mut cx.b)?
        }
    };
    Ok(vec![cx.b.reshape(y, &dims)?.into()])
}

/// `saturate(round(x / scale) + zero)` of f32, with a scale and a zero point that are broadcast to it.
pub(super) fn quantized(cx: &mut Cx<'_>, x: V, scale: V, zero: V) -> Result<V, Problem> {
    let to = cx.b.dtype(zero);
    let (mut p, [x, scale, zero]) = Program::new(&cx.b, [x, scale, zero]);
    let v = quotient(&mut p, x, scale, DType::F32, DType::F32, to);
    let zero = p.cast(zero, DType::F32);
    let v = p.two(MapOp::Add, v, zero);
    narrow(&mut p, v, to, true);
    p.finish(&mut cx.b)
}

/// An 8-bit quantised tensor that was made during the run.
pub(super) struct Quantized {
    pub y: V,
    pub scale: V,
    pub zero: V,
}

/// `x` as u8, with a scale and a zero point for its range, in which 0 lies.
pub(super) fn dynamic_quantize(cx: &mut Cx<'_>, x: V) -> Result<Quantized, Problem> {
    let all: Vec<usize> = (0..cx.b.rank(x)).collect();
    let high = cx.b.reduce(ReduceOp::Max, x, &all, false)?;
    let low = cx.b.reduce(ReduceOp::Min, x, &all, false)?;
    let (mut p, [low_r, high]) = Program::new(&cx.b, [low, high]);
    let low_r = p.with(MapOp::Min, low_r, 0.0)?;
    let high = p.with(MapOp::Max, high, 0.0)?;
    let range = p.two(MapOp::Sub, high, low_r);
    p.with(MapOp::Div, range, 255.0)?;
    let scale = p.finish(&mut cx.b)?;
    let (mut p, [low_r, scale_r]) = Program::new(&cx.b, [low, scale]);
    let low_r = p.with(MapOp::Min, low_r, 0.0)?;
    let below = p.one(MapOp::Neg, low_r);
    let z = p.two(MapOp::Div, below, scale_r);
    // A range of nothing has the zero point 0: 0 / 0 is no number, which becomes 0.
    let z = p.one(MapOp::Round, z);
    narrow(&mut p, z, DType::U8, true);
    let zero = p.finish(&mut cx.b)?;
    let (mut p, [x, scale_r, zero_r]) = Program::new(&cx.b, [x, scale, zero]);
    let v = p.two(MapOp::Div, x, scale_r);
    let v = p.one(MapOp::Round, v);
    let z = p.cast(zero_r, DType::F32);
    let v = p.two(MapOp::Add, v, z);
    narrow(&mut p, v, DType::U8, true);
    Ok(Quantized { y: p.finish(&mut cx.b)?, scale, zero })
}

fn dynamic_quantize_linear(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let q = dynamic_quantize(cx, x)?;
    Ok(vec![q.y.into(), q.scale.into(), q.zero.into()])
}

/// `saturate(round(sum * a * b / y) + zero)`: an i32 sum as a quantised result. The scales are broadcast to the dims of the sum.
fn requantize(cx: &mut Cx<'_>, sum: V, [a, b, y]: [V; 3], zero: V) -> Result<V, Problem> {
    let to = cx.b.dtype(zero);
    let (mut p, [a, b, y]) = Program::new(&cx.b, [a, b, y]);
    let f = [a, b, y].map(|r| p.cast(r, DType::F32));
    let factor = p.two(MapOp::Mul, f[0], f[1]);
    p.two(MapOp::Div, factor, f[2]);
    let factor = p.finish(&mut cx.b)?;
    let zero = cx.b.cast(zero, DType::F32)?;
    let (mut p, [sum, factor, zero]) = Program::new(&cx.b, [sum, factor, zero]);
    let v = p.cast(sum, DType::F32);
    let v = p.two(MapOp::Mul, v, factor);
    let v = if rounds(to) { p.one(MapOp::Round, v) } else { v };
    let v = p.two(MapOp::Add, v, zero);
    narrow(&mut p, v, to, true);
    p.finish(&mut cx.b)
}

/// A parameter of the rows of a matrix stands in front of the columns; one of the whole tensor is a scalar.
fn of_rows(cx: &mut Cx<'_>, v: V) -> Result<V, Problem> {
    let count = cx.b.count(v);
    match cx.b.rank(v) {
        1 if cx.b.exprs().as_const(count) == Some(1) => cx.b.reshape(v, &[]),
        1 => cx.b.unsqueeze(v, &[1]),
        _ => Ok(v),
    }
}

fn qlinear_matmul(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let all = cx.inputs(node)?;
    let [a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero] =
        <[V; 8]>::try_from(all).map_err(|v| Problem::new(format!("{} inputs", v.len())))?;
    let sum = if cx.b.dtype(a).is_float() {
        let zero_a = of_rows(cx, a_zero)?;
        let (a, b) = (less(cx, a, zero_a)?, less(cx, b, b_zero)?);
        product(cx, a, b)?
    } else {
        integer_product(cx, a, b, [Some(a_zero), Some(b_zero)])?
    };
    let (a_scale, y_scale, y_zero) = (of_rows(cx, a_scale)?, of_rows(cx, y_scale)?, of_rows(cx, y_zero)?);
    Ok(vec![requantize(cx, sum, [a_scale, b_scale, y_scale], y_zero)?.into()])
}

/// `x - zero` in f32.
fn less(cx: &mut Cx<'_>, x: V, zero: V) -> Result<V, Problem> {
    let (x, zero) = (cx.b.cast(x, DType::F32)?, cx.b.cast(zero, DType::F32)?);
    cx.b.binary(MapOp::Sub, x, zero)
}

fn qlinear_conv(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let [x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero] = {
        let mut all = [cx.input(node, 0)?; 8];
        for (i, v) in all.iter_mut().enumerate() {
            *v = cx.input(node, i)?;
        }
        all
    };
    let rest = [cx.opt(node, 8)?, None, Some(x_zero), Some(w_zero)];
    let sum = convolve(cx, node, x, w, &rest, DType::I32)?;
    let count = cx.b.count(w_scale);
    let w_scale = if cx.b.exprs().as_const(count) == Some(1) {
        cx.b.reshape(w_scale, &[])?
    } else {
        let behind: Vec<i64> = (1..cx.b.rank(x) as i64 - 1).collect();
        cx.b.unsqueeze(w_scale, &behind)?
    };
    let mut scalars = [x_scale, y_scale, y_zero];
    for v in &mut scalars {
        *v = cx.b.reshape(*v, &[])?;
    }
    Ok(vec![requantize(cx, sum, [scalars[0], w_scale, scalars[1]], scalars[2])?.into()])
}

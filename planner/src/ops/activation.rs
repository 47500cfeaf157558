//! Activations, the softmax family and dropout.

use super::program::{Program, Reg, unary_program};
use super::{Cx, Lowered, Operator, op};
use crate::graph::Problem;
use crate::onnx::Node;
use plan::{DType, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("Relu", |cx, n| single(cx, n, MapOp::Relu)),
    op("Sigmoid", |cx, n| single(cx, n, MapOp::Sigmoid)),
    op("Softplus", |cx, n| single(cx, n, MapOp::Softplus)),
    op("HardSwish", |cx, n| single(cx, n, MapOp::HardSwish)),
    op("LeakyRelu", leaky_relu),
    op("Elu", |cx, n| written(cx, n, elu)),
    op("Selu", |cx, n| written(cx, n, selu)),
    op("Celu", |cx, n| written(cx, n, celu)),
    op("Softsign", |cx, n| written(cx, n, softsign)),
    op("HardSigmoid", hard_sigmoid),
    op("Mish", |cx, n| written(cx, n, mish)),
    op("Swish", |cx, n| written(cx, n, swish)),
    op("ThresholdedRelu", |cx, n| written(cx, n, thresholded_relu)),
    op("Shrink", |cx, n| written(cx, n, shrink)),
    op("com.microsoft::QuickGelu", |cx, n| written(cx, n, quick_gelu)),
    op("Gelu", gelu),
    op("com.microsoft::Gelu", |cx, n| single(cx, n, MapOp::Gelu)),
    op("com.microsoft::BiasGelu", |cx, n| bias_gelu(cx, n, MapOp::Gelu)),
    op("com.microsoft::FastGelu", |cx, n| bias_gelu(cx, n, MapOp::GeluTanh)),
    op("PRelu", prelu),
    op("SwiGLU", swiglu),
    op("Softmax", |cx, n| softmax(cx, n, SoftmaxKind::Softmax)),
    op("LogSoftmax", |cx, n| softmax(cx, n, SoftmaxKind::LogSoftmax)),
    op("Hardmax", |cx, n| softmax(cx, n, SoftmaxKind::Hardmax)),
    op("Dropout", dropout),
];

fn single(cx: &mut Cx<'_>, node: &Node, op: MapOp) -> Lowered {
    let x = cx.input(node, 0)?;
    Ok(vec![cx.b.unary(op, x)?.into()])
}

/// An activation that is a short program of the operand and the node's attributes.
fn written(cx: &mut Cx<'_>, node: &Node, f: fn(&Node, &mut Program, Reg) -> Result<Reg, Problem>) -> Lowered {
    let x = cx.input(node, 0)?;
    Ok(vec![unary_program(&mut cx.b, x, |p, r| f(node, p, r))?.into()])
}

fn leaky_relu(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    Ok(vec![cx.b.binary_scalar(MapOp::Prelu, x, node.float_or("alpha", 0.01)?.into())?.into()])
}

/// `scale * (exp(x) - 1)`.
fn scaled_expm1(p: &mut Program, x: Reg, scale: f64) -> Result<Reg, Problem> {
    let e = p.one(MapOp::Exp, x);
    let e = p.with(MapOp::Sub, e, 1.0)?;
    p.with(MapOp::Mul, e, scale)
}

fn elu(node: &Node, p: &mut Program, x: Reg) -> Result<Reg, Problem> {
    let low = scaled_expm1(p, x, node.float_or("alpha", 1.0)?.into())?;
    let below = p.with(MapOp::Lt, x, 0.0)?;
    Ok(p.select(below, low, x))
}

fn selu(node: &Node, p: &mut Program, x: Reg) -> Result<Reg, Problem> {
    let alpha = node.float_or("alpha", 1.673_263_2)?;
    let gamma = node.float_or("gamma", 1.050_701)?;
    let low = scaled_expm1(p, x, alpha.into())?;
    let above = p.constant(x.dtype(), 0.0)?;
    let above = p.two(MapOp::Lt, above, x);
    let y = p.select(above, x, low);
    p.with(MapOp::Mul, y, gamma.into())
}

fn celu(node: &Node, p: &mut Program, x: Reg) -> Result<Reg, Problem> {
    let alpha = f64::from(node.float_or("alpha", 1.0)?);
    let scaled = p.with(MapOp::Div, x, alpha)?;
    let low = scaled_expm1(p, scaled, alpha)?;
    let below = p.with(MapOp::Lt, x, 0.0)?;
    Ok(p.select(below, low, x))
}

fn softsign(_: &Node, p: &mut Program, x: Reg) -> Result<Reg, Problem> {
    let size = p.one(MapOp::Abs, x);
    let by = p.with(MapOp::Add, size, 1.0)?;
    Ok(p.two(MapOp::Div, x, by))
}

/// `min(max(alpha * x + beta, 0), 1)` in three nodes: the first two can go into the product that comes before.
fn hard_sigmoid(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let y = cx.b.binary_scalar(MapOp::Mul, x, node.float_or("alpha", 0.2)?.into())?;
    let y = cx.b.binary_scalar(MapOp::Add, y, node.float_or("beta", 0.5)?.into())?;
    let dtype = cx.b.dtype(y);
    let (low, high) = (cx.b.scalar(dtype, 0.0)?, cx.b.scalar(dtype, 1.0)?);
    Ok(vec![cx.b.map(MapOp::Clip, dtype, dtype, &[y, low, high])?.into()])
}

fn mish(_: &Node, p: &mut Program, x: Reg) -> Result<Reg, Problem> {
    let y = p.one(MapOp::Softplus, x);
    let y = p.one(MapOp::Tanh, y);
    Ok(p.two(MapOp::Mul, x, y))
}

fn swish(node: &Node, p: &mut Program, x: Reg) -> Result<Reg, Problem> {
    swish_by(p, x, node.float_or("alpha", 1.0)?)
}

/// `x * sigmoid(alpha * x)`.
fn swish_by(p: &mut Program, x: Reg, alpha: f32) -> Result<Reg, Problem> {
    if alpha == 1.0 {
        return Ok(p.one(MapOp::Silu, x));
    }
    let y = p.with(MapOp::Mul, x, alpha.into())?;
    let y = p.one(MapOp::Sigmoid, y);
    Ok(p.two(MapOp::Mul, x, y))
}

fn quick_gelu(node: &Node, p: &mut Program, x: Reg) -> Result<Reg, Problem> {
    swish_by(p, x, node.float_or("alpha", 1.702)?)
}

fn thresholded_relu(node: &Node, p: &mut Program, x: Reg) -> Result<Reg, Problem> {
    let alpha = p.constant(x.dtype(), node.float_or("alpha", 1.0)?.into())?;
    let above = p.two(MapOp::Lt, alpha, x);
    let zero = p.constant(x.dtype(), 0.0)?;
    Ok(p.select(above, x, zero))
}

fn shrink(node: &Node, p: &mut Program, x: Reg) -> Result<Reg, Problem> {
    let (limit, bias) = (f64::from(node.float_or("lambd", 0.5)?), f64::from(node.float_or("bias", 0.0)?));
    // Integers are compared and moved as numbers.
    let wide = if x.dtype().is_integer() { p.cast(x, DType::F32) } else { x };
    let (up, down) = (p.with(MapOp::Add, wide, bias)?, p.with(MapOp::Sub, wide, bias)?);
    let below = p.with(MapOp::Lt, wide, -limit)?;
    let high = p.constant(wide.dtype(), limit)?;
    let above = p.two(MapOp::Lt, high, wide);
    let zero = p.constant(wide.dtype(), 0.0)?;
    let y = p.select(above, down, zero);
    let y = p.select(below, up, y);
    Ok(p.cast(y, x.dtype()))
}

fn gelu(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    match node.string_or("approximate", "none")? {
        "none" => single(cx, node, MapOp::Gelu),
        "tanh" => single(cx, node, MapOp::GeluTanh),
        other => Err(Problem::new(format!("the approximation {other} of Gelu"))),
    }
}

fn bias_gelu(cx: &mut Cx<'_>, node: &Node, op: MapOp) -> Lowered {
    let mut x = cx.input(node, 0)?;
    if let Some(bias) = cx.opt(node, 1)? {
        x = cx.b.binary(MapOp::Add, x, bias)?;
    }
    Ok(vec![cx.b.unary(op, x)?.into()])
}

fn prelu(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, mut slope) = (cx.input(node, 0)?, cx.input(node, 1)?);
    // Before operator set 7 a vector of slopes belonged to the channels.
    if node.opset < 7 && cx.b.rank(slope) == 1 && cx.b.rank(x) > 2 {
        let behind: Vec<i64> = (1..cx.b.rank(x) as i64 - 1).collect();
        slope = cx.b.unsqueeze(slope, &behind)?;
    }
    if cx.b.dtype(x).is_float() {
        return Ok(vec![cx.b.binary(MapOp::Prelu, x, slope)?.into()]);
    }
    let scaled = cx.b.binary(MapOp::Mul, x, slope)?;
    let below = cx.b.binary_scalar(MapOp::Lt, x, 0.0)?;
    Ok(vec![cx.b.select(below, scaled, x)?.into()])
}

fn swiglu(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (gate, value) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let (mut p, [a, b]) = Program::new(&cx.b, [gate, value]);
    let y = swish_by(&mut p, a, node.float_or("alpha", 1.0)?)?;
    p.two(MapOp::Mul, y, b);
    Ok(vec![p.finish(&mut cx.b)?.into()])
}

/// Before operator set 13 the axes from `axis` on count as one.
fn softmax(cx: &mut Cx<'_>, node: &Node, kind: SoftmaxKind) -> Lowered {
    let x = cx.input(node, 0)?;
    let (dtype, dims) = (cx.b.dtype(x), cx.b.dims(x));
    if node.opset >= 13 {
        let axis = cx.b.axis(node.int_or("axis", -1)?, dims.len())?;
        return Ok(vec![cx.b.emit1(Softmax { kind, axis: axis as u8 }, &[Some(x)], dtype, &dims)?.into()]);
    }
    let axis = cx.b.axis(node.int_or("axis", 1)?, dims.len())?;
    let (lead, rest) = dims.split_at(axis);
    let one = cx.b.int(1);
    // Where only one axis is longer than 1, it can stand where it is.
    if rest.iter().skip(1).all(|d| *d == one) {
        return Ok(vec![cx.b.emit1(Softmax { kind, axis: axis as u8 }, &[Some(x)], dtype, &dims)?.into()]);
    }
    let flat = [cx.b.exprs().product(lead.iter().copied()), cx.b.exprs().product(rest.iter().copied())];
    let flat_x = cx.b.reshape(x, &flat)?;
    let y = cx.b.emit1(Softmax { kind, axis: 1 }, &[Some(flat_x)], dtype, &flat)?;
    Ok(vec![cx.b.reshape(y, &dims)?.into()])
}

/// Nothing is dropped outside training.
fn dropout(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    if let Some(mode) = cx.opt(node, 2)? {
        let training = cx.b.known_ints(mode).is_none_or(|m| m.iter().any(|m| *m != 0));
        let ratio = match cx.opt(node, 1)? {
            Some(_) => cx.opt_const_floats(node, 1)?.and_then(|r| r.first().copied()),
            None => Some(0.5),
        };
        if training && ratio != Some(0.0) {
            return Err(Problem::new("Dropout in training mode drops at random")
                .with("export the model for inference, or fix its input training_mode to false"));
        }
    }
    if node.opset < 7 && !node.flag("is_test", false)? {
        return Err(Problem::new("Dropout without `is_test` drops at random").with("export the model for inference"));
    }
    let mut outputs = vec![x.into()];
    if node.output(1).is_some() {
        let dims = cx.b.dims(x);
        let dtype = if node.opset >= 10 { DType::Bool } else { cx.b.dtype(x) };
        let one = cx.b.scalar(dtype, 1.0)?;
        outputs.push(cx.b.broadcast(one, &dims)?.into());
    }
    Ok(outputs)
}

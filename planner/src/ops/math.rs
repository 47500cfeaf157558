//! Elementwise arithmetic, functions, comparisons, logic and bits.

use super::program::Program;
use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, prim::MapOp};

pub(super) const OPERATORS: &[Operator] = &[
    op("Abs", |cx, n| unary(cx, n, MapOp::Abs)),
    op("Neg", |cx, n| unary(cx, n, MapOp::Neg)),
    op("Sign", |cx, n| unary(cx, n, MapOp::Sign)),
    op("Sqrt", |cx, n| unary(cx, n, MapOp::Sqrt)),
    op("Reciprocal", |cx, n| unary(cx, n, MapOp::Reciprocal)),
    op("Exp", |cx, n| unary(cx, n, MapOp::Exp)),
    op("Log", |cx, n| unary(cx, n, MapOp::Log)),
    op("Sin", |cx, n| unary(cx, n, MapOp::Sin)),
    op("Cos", |cx, n| unary(cx, n, MapOp::Cos)),
    op("Tan", |cx, n| unary(cx, n, MapOp::Tan)),
    op("Asin", |cx, n| unary(cx, n, MapOp::Asin)),
    op("Acos", |cx, n| unary(cx, n, MapOp::Acos)),
    op("Atan", |cx, n| unary(cx, n, MapOp::Atan)),
    op("Sinh", |cx, n| unary(cx, n, MapOp::Sinh)),
    op("Cosh", |cx, n| unary(cx, n, MapOp::Cosh)),
    op("Tanh", |cx, n| unary(cx, n, MapOp::Tanh)),
    op("Asinh", |cx, n| unary(cx, n, MapOp::Asinh)),
    op("Acosh", |cx, n| unary(cx, n, MapOp::Acosh)),
    op("Atanh", |cx, n| unary(cx, n, MapOp::Atanh)),
    op("Erf", |cx, n| unary(cx, n, MapOp::Erf)),
    op("Floor", |cx, n| unary(cx, n, MapOp::Floor)),
    op("Ceil", |cx, n| unary(cx, n, MapOp::Ceil)),
    op("Round", |cx, n| unary(cx, n, MapOp::Round)),
    op("Not", |cx, n| unary(cx, n, MapOp::Not)),
    op("BitwiseNot", |cx, n| unary(cx, n, MapOp::BitNot)),
    op("IsNaN", |cx, n| unary(cx, n, MapOp::IsNan)),
    op("IsInf", is_inf),
    op("Add", |cx, n| binary(cx, n, MapOp::Add)),
    op("Sub", |cx, n| binary(cx, n, MapOp::Sub)),
    op("Mul", |cx, n| binary(cx, n, MapOp::Mul)),
    op("Div", |cx, n| binary(cx, n, MapOp::Div)),
    op("And", |cx, n| binary(cx, n, MapOp::And)),
    op("Or", |cx, n| binary(cx, n, MapOp::Or)),
    op("Xor", |cx, n| binary(cx, n, MapOp::Xor)),
    op("BitwiseAnd", |cx, n| binary(cx, n, MapOp::BitAnd)),
    op("BitwiseOr", |cx, n| binary(cx, n, MapOp::BitOr)),
    op("BitwiseXor", |cx, n| binary(cx, n, MapOp::BitXor)),
    op("Equal", |cx, n| binary(cx, n, MapOp::Eq)),
    op("Less", |cx, n| binary(cx, n, MapOp::Lt)),
    op("LessOrEqual", |cx, n| binary(cx, n, MapOp::Le)),
    op("Greater", |cx, n| swapped(cx, n, MapOp::Lt)),
    op("GreaterOrEqual", |cx, n| swapped(cx, n, MapOp::Le)),
    op("Mod", modulo),
    op("Pow", pow),
    op("BitShift", bit_shift),
    op("Where", select),
    op("Sum", |cx, n| variadic(cx, n, MapOp::Add)),
    op("Max", |cx, n| variadic(cx, n, MapOp::Max)),
    op("Min", |cx, n| variadic(cx, n, MapOp::Min)),
    op("Mean", mean),
    op("Clip", clip),
    op("Det", det),
];

fn unary(cx: &mut Cx<'_>, node: &Node, op: MapOp) -> Lowered {
    let x = cx.input(node, 0)?;
    Ok(vec![cx.b.unary(op, x)?.into()])
}

/// The two operands. Operator sets before 7 say where the second one stands.
fn pair(cx: &mut Cx<'_>, node: &Node) -> Result<(V, V), Problem> {
    let (a, mut b) = (cx.input(node, 0)?, cx.input(node, 1)?);
    if node.opset < 7
        && node.flag("broadcast", false)?
        && let Some(axis) = node.opt_int("axis")?
    {
        let axis = cx.b.axis(axis, cx.b.rank(a))?;
        let behind = cx.b.rank(a).saturating_sub(axis + cx.b.rank(b));
        let rank = cx.b.rank(b);
        let axes: Vec<i64> = (rank..rank + behind).map(|a| a as i64).collect();
        b = cx.b.unsqueeze(b, &axes)?;
    }
    Ok((a, b))
}

fn binary(cx: &mut Cx<'_>, node: &Node, op: MapOp) -> Lowered {
    let (a, b) = pair(cx, node)?;
    Ok(vec![cx.b.binary(op, a, b)?.into()])
}

fn swapped(cx: &mut Cx<'_>, node: &Node, op: MapOp) -> Lowered {
    let (a, b) = pair(cx, node)?;
    Ok(vec![cx.b.binary(op, b, a)?.into()])
}

fn is_inf(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let (positive, negative) = (node.flag("detect_positive", true)?, node.flag("detect_negative", true)?);
    let (mut p, [r]) = Program::new(&cx.b, [x]);
    match (positive, negative) {
        (true, true) => {
            let (a, b) = (p.one(MapOp::IsPosInf, r), p.one(MapOp::IsNegInf, r));
            p.two(MapOp::Or, a, b);
        }
        (true, false) => {
            p.one(MapOp::IsPosInf, r);
        }
        (false, true) => {
            p.one(MapOp::IsNegInf, r);
        }
        (false, false) => {
            p.constant(DType::Bool, 0.0)?;
        }
    }
    Ok(vec![p.finish(&mut cx.b)?.into()])
}

fn modulo(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    binary(cx, node, if node.flag("fmod", false)? { MapOp::Fmod } else { MapOp::Mod })
}

/// The exponent may have another type than the base, whose type the result has.
fn pow(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (a, b) = pair(cx, node)?;
    let (base, exponent) = (cx.b.dtype(a), cx.b.dtype(b));
    let out = if base.is_integer() && exponent.is_float() {
        let (x, y) = (cx.b.cast(a, DType::F64)?, cx.b.cast(b, DType::F64)?);
        let power = cx.b.binary(MapOp::Pow, x, y)?;
        cx.b.cast(power, base)?
    } else {
        let y = cx.b.cast(b, base)?;
        cx.b.binary(MapOp::Pow, a, y)?
    };
    Ok(vec![out.into()])
}

fn bit_shift(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    match node.string("direction")? {
        "LEFT" => binary(cx, node, MapOp::Shl),
        "RIGHT" => binary(cx, node, MapOp::Shr),
        other => Err(Problem::new(format!("a shift in the direction {other}"))),
    }
}

fn select(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (a, b, c) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    Ok(vec![cx.b.select(a, b, c)?.into()])
}

fn fold(cx: &mut Cx<'_>, node: &Node, op: MapOp) -> Result<V, Problem> {
    let all = cx.inputs(node)?;
    let Some((first, rest)) = all.split_first() else { return Err(Problem::new("no inputs")) };
    let mut total = *first;
    for v in rest {
        total = cx.b.binary(op, total, *v)?;
    }
    Ok(total)
}

fn variadic(cx: &mut Cx<'_>, node: &Node, op: MapOp) -> Lowered {
    Ok(vec![fold(cx, node, op)?.into()])
}

fn mean(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let sum = fold(cx, node, MapOp::Add)?;
    Ok(vec![cx.b.binary_scalar(MapOp::Div, sum, node.inputs.len() as f64)?.into()])
}

/// Bounds are attributes before operator set 11, and scalar inputs from then on; either may be absent.
fn clip(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let dtype = cx.b.dtype(x);
    let bound = |cx: &mut Cx<'_>, name: &str, i: usize| -> Result<Option<V>, Problem> {
        match node.opt_float(name)? {
            Some(v) => cx.b.scalar(dtype, v.into()).map(Some),
            None => {
                let Some(v) = cx.opt(node, i)? else { return Ok(None) };
                let (one, count) = (cx.b.int(1), cx.b.count(v));
                cx.b.require_equal(count, one, "a bound of Clip has one element")?;
                cx.b.reshape(v, &[]).map(Some)
            }
        }
    };
    let (low, high) = (bound(cx, "min", 1)?, bound(cx, "max", 2)?);
    let out = match (low, high) {
        (None, None) => x,
        (Some(low), None) => cx.b.binary(MapOp::Max, x, low)?,
        (None, Some(high)) => cx.b.binary(MapOp::Min, x, high)?,
        (Some(low), Some(high)) => {
            if [low, high].iter().any(|v| cx.b.dtype(*v) != dtype) {
                return Err(Problem::new("the bounds of Clip have another type than its data"));
            }
            cx.b.map(MapOp::Clip, dtype, dtype, &[x, low, high])?
        }
    };
    Ok(vec![out.into()])
}

fn det(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let dims = cx.b.dims(x);
    let [lead @ .., rows, columns] = dims.as_slice() else {
        return Err(Problem::new(format!("the determinant of {}", cx.b.describe(x))));
    };
    cx.b.require_equal(*rows, *columns, "a determinant is that of a square matrix")?;
    let dtype = cx.b.dtype(x);
    Ok(vec![cx.b.emit1(plan::prim::Det {}, &[Some(x)], dtype, lead)?.into()])
}

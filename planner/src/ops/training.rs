//! Steps of optimisers.

use super::program::{Program, Reg};
use super::{Cx, Lowered, Operator, Val, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, prim::MapOp};

pub(super) const OPERATORS: &[Operator] = &[
    op("ai.onnx.preview.training::Adagrad", adagrad),
    op("ai.onnx.preview.training::Adam", adam),
    op("ai.onnx.preview.training::Momentum", momentum),
];

/// The learning rate, the step's number as a float, and the tensors of each optimised one: `N` of them.
type Tensors<const N: usize> = (V, V, Vec<[V; N]>);

fn tensors<const N: usize>(cx: &mut Cx<'_>, node: &Node) -> Result<Tensors<N>, Problem> {
    let all = cx.inputs(node)?;
    let [rate, step, rest @ ..] = all.as_slice() else { return Err(Problem::new("too few inputs")) };
    let n = rest.len() / N;
    if n == 0 || n * N != rest.len() {
        return Err(Problem::new(format!("{} tensors are not {N} for each optimised one", rest.len())));
    }
    let step = cx.b.cast(*step, cx.b.dtype(*rate))?;
    let pick = |i: usize| -> Option<[V; N]> {
        let list: Vec<V> = (0..N).filter_map(|k| rest.get(k * n + i).copied()).collect();
        list.try_into().ok()
    };
    let sets: Option<Vec<[V; N]>> = (0..n).map(pick).collect();
    Ok((*rate, step, sets.ok_or_else(|| Problem::new("too few tensors"))?))
}

/// The outputs in order: first all of the first kind, and so on.
fn in_order<const N: usize>(sets: Vec<[V; N]>) -> Vec<Val> {
    (0..N).flat_map(|k| sets.iter().filter_map(move |s| s.get(k).copied())).map(Val::from).collect()
}

fn float(node: &Node, name: &str, default: f32) -> Result<f64, Problem> {
    Ok(node.float_or(name, default)?.into())
}

/// `norm_coefficient * x + g`.
fn regularised(p: &mut Program, node: &Node, x: Reg, g: Reg) -> Result<Reg, Problem> {
    let pull = p.with(MapOp::Mul, x, float(node, "norm_coefficient", 0.0)?)?;
    Ok(p.two(MapOp::Add, pull, g))
}

/// `a * x + b * y`.
fn blend(p: &mut Program, x: Reg, a: f64, y: Reg, b: f64) -> Result<Reg, Problem> {
    let (x, y) = (p.with(MapOp::Mul, x, a)?, p.with(MapOp::Mul, y, b)?);
    Ok(p.two(MapOp::Add, x, y))
}

fn adagrad(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (rate, step, sets) = tensors::<3>(cx, node)?;
    let (mut p, [r, t]) = Program::new(&cx.b, [rate, step]);
    let by = p.with(MapOp::Mul, t, float(node, "decay_factor", 0.0)?)?;
    let by = p.with(MapOp::Add, by, 1.0)?;
    p.two(MapOp::Div, r, by);
    let rate = p.finish(&mut cx.b)?;
    let mut out = Vec::new();
    for [x, g, h] in sets {
        let (mut p, [x_r, g_r, h_r]) = Program::new(&cx.b, [x, g, h]);
        let pull = regularised(&mut p, node, x_r, g_r)?;
        let square = p.two(MapOp::Mul, pull, pull);
        p.two(MapOp::Add, h_r, square);
        let h = p.finish(&mut cx.b)?;
        let (mut p, [x, g, h_r, rate]) = Program::new(&cx.b, [x, g, h, rate]);
        let pull = regularised(&mut p, node, x, g)?;
        let move_by = p.two(MapOp::Mul, rate, pull);
        let root = p.one(MapOp::Sqrt, h_r);
        let root = p.with(MapOp::Add, root, float(node, "epsilon", 1e-6)?)?;
        let move_by = p.two(MapOp::Div, move_by, root);
        p.two(MapOp::Sub, x, move_by);
        out.push([p.finish(&mut cx.b)?, h]);
    }
    Ok(in_order(out))
}

/// `1 - base^t`.
fn one_less_power(p: &mut Program, base: f64, t: Reg) -> Result<Reg, Problem> {
    let base = p.constant(t.dtype(), base)?;
    let power = p.two(MapOp::Pow, base, t);
    let one = p.constant(t.dtype(), 1.0)?;
    Ok(p.two(MapOp::Sub, one, power))
}

fn adam(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (rate, step, sets) = tensors::<4>(cx, node)?;
    let (alpha, beta) = (float(node, "alpha", 0.9)?, float(node, "beta", 0.999)?);
    let (mut p, [r, t]) = Program::new(&cx.b, [rate, step]);
    let top = one_less_power(&mut p, beta, t)?;
    let top = p.one(MapOp::Sqrt, top);
    let bottom = one_less_power(&mut p, alpha, t)?;
    let corrected = p.two(MapOp::Mul, r, top);
    let corrected = p.two(MapOp::Div, corrected, bottom);
    let zero = p.constant(t.dtype(), 0.0)?;
    let later = p.two(MapOp::Lt, zero, t);
    p.select(later, corrected, r);
    let rate = p.finish(&mut cx.b)?;
    let mut out = Vec::new();
    for [x, g, v, h] in sets {
        let (mut p, [x_r, g_r, v_r]) = Program::new(&cx.b, [x, g, v]);
        let pull = regularised(&mut p, node, x_r, g_r)?;
        blend(&mut p, v_r, alpha, pull, 1.0 - alpha)?;
        let v = p.finish(&mut cx.b)?;
        let (mut p, [x_r, g_r, h_r]) = Program::new(&cx.b, [x, g, h]);
        let pull = regularised(&mut p, node, x_r, g_r)?;
        let square = p.two(MapOp::Mul, pull, pull);
        blend(&mut p, h_r, beta, square, 1.0 - beta)?;
        let h = p.finish(&mut cx.b)?;
        let (mut p, [x, v_r, h_r, rate]) = Program::new(&cx.b, [x, v, h, rate]);
        let root = p.one(MapOp::Sqrt, h_r);
        let root = p.with(MapOp::Add, root, float(node, "epsilon", 1e-6)?)?;
        let move_by = p.two(MapOp::Div, v_r, root);
        let move_by = p.two(MapOp::Mul, rate, move_by);
        let x = p.two(MapOp::Sub, x, move_by);
        p.with(MapOp::Mul, x, 1.0 - float(node, "norm_coefficient_post", 0.0)?)?;
        out.push([p.finish(&mut cx.b)?, v, h]);
    }
    Ok(in_order(out))
}

fn momentum(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (rate, step, sets) = tensors::<3>(cx, node)?;
    let (alpha, beta) = (float(node, "alpha", 0.0)?, float(node, "beta", 0.0)?);
    let nesterov = match node.string("mode")? {
        "nesterov" => true,
        "standard" => false,
        other => return Err(Problem::new(format!("the mode {other}"))),
    };
    // The first gradient counts in full.
    let dtype: DType = cx.b.dtype(step);
    let first = cx.b.binary_scalar(MapOp::Le, step, 0.0)?;
    let (one, later) = (cx.b.scalar(dtype, 1.0)?, cx.b.scalar(dtype, beta)?);
    let beta = cx.b.select(first, one, later)?;
    let mut out = Vec::new();
    for [x, g, v] in sets {
        let (mut p, [x_r, g_r, v_r, beta]) = Program::new(&cx.b, [x, g, v, beta]);
        let pull = regularised(&mut p, node, x_r, g_r)?;
        let old = p.with(MapOp::Mul, v_r, alpha)?;
        let new = p.two(MapOp::Mul, beta, pull);
        p.two(MapOp::Add, old, new);
        let v = p.finish(&mut cx.b)?;
        let (mut p, [x, g, v_r, rate]) = Program::new(&cx.b, [x, g, v, rate]);
        let move_by = if nesterov {
            let pull = regularised(&mut p, node, x, g)?;
            let ahead = p.with(MapOp::Mul, v_r, alpha)?;
            p.two(MapOp::Add, pull, ahead)
        } else {
            v_r
        };
        let move_by = p.two(MapOp::Mul, rate, move_by);
        p.two(MapOp::Sub, x, move_by);
        out.push([p.finish(&mut cx.b)?, v]);
    }
    Ok(in_order(out))
}

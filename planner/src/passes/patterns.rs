//! Compositions that have a name: `x * sigmoid(x)` is SiLU, and the like.

use super::{Changed, Context};
use crate::graph::{Graph, N, Op, V};
use plan::{DType, List, prim::*};

pub(super) fn run(graph: &mut Graph, _: &mut Context) -> Changed {
    let mut changed = Changed::No;
    for n in 0..graph.nodes().len() {
        let n = N(n as u32);
        let found =
            silu(graph, n).or_else(|| hard_swish(graph, n)).or_else(|| gelu(graph, n)).or_else(|| relu(graph, n));
        if let Some((op, x)) = found {
            let dtype = graph.value(x).dtype;
            let instr = MapInstr { op, dtype, out: dtype, args: [0; 3], bits: 0 };
            graph.replace(n, Op::Prim(Map { code: List::of([instr]) }.into()), vec![Some(x)], &[]);
            changed = Changed::Yes;
        }
    }
    changed
}

/// The operands of a node that is one instruction `op` on floats.
fn operands(graph: &Graph, n: N, op: MapOp) -> Option<(V, V)> {
    let i = graph.single_instruction(n)?;
    let arg = |k: usize| graph.read(n, *i.args.get(k)? as usize);
    (i.op == op && i.dtype.is_float()).then_some((arg(0)?, arg(if op.arity() > 1 { 1 } else { 0 })?))
}

/// As `operands`, of the node that makes `v`.
fn made_by(graph: &Graph, v: V, op: MapOp) -> Option<(V, V)> {
    operands(graph, graph.prim_of(v)?.0, op)
}

/// The operand that is no number, and the number.
fn with_number(graph: &Graph, (a, b): (V, V)) -> Option<(V, f64)> {
    graph.splat(b).map(|k| (a, k)).or_else(|| graph.splat(a).map(|k| (b, k)))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs()
}

/// `max(x, 0)`.
fn relu(graph: &Graph, n: N) -> Option<(MapOp, V)> {
    let i = graph.single_instruction(n)?;
    match i.op {
        MapOp::Max => {
            let (x, k) = with_number(graph, operands(graph, n, MapOp::Max)?)?;
            (k == 0.0).then_some((MapOp::Relu, x))
        }
        MapOp::Clip => {
            let arg = |k: usize| graph.read(n, *i.args.get(k)? as usize);
            let largest = match i.dtype {
                DType::F32 => f64::from(f32::MAX),
                DType::F64 => f64::MAX,
                _ => return None,
            };
            (graph.splat(arg(1)?)? == 0.0 && graph.splat(arg(2)?)? >= largest).then_some((MapOp::Relu, arg(0)?))
        }
        _ => None,
    }
}

/// `x * sigmoid(x)`.
fn silu(graph: &Graph, n: N) -> Option<(MapOp, V)> {
    let (a, b) = operands(graph, n, MapOp::Mul)?;
    let sigmoid_of = |s: V, x: V| made_by(graph, s, MapOp::Sigmoid).is_some_and(|(of, _)| of == x);
    if sigmoid_of(b, a) {
        Some((MapOp::Silu, a))
    } else if sigmoid_of(a, b) {
        Some((MapOp::Silu, b))
    } else {
        None
    }
}

/// `x * clip(x + 3, 0, 6) / 6`, with the division last or a product with a sixth.
fn hard_swish(graph: &Graph, n: N) -> Option<(MapOp, V)> {
    let (product, six) = if let Some((p, k)) = operands(graph, n, MapOp::Div) {
        (p, graph.splat(k)?)
    } else {
        let (p, k) = with_number(graph, operands(graph, n, MapOp::Mul)?)?;
        (p, 1.0 / k)
    };
    if !near(six, 6.0) {
        return None;
    }
    let (a, b) = made_by(graph, product, MapOp::Mul)?;
    let gate_of = |gate: V, x: V| -> Option<()> {
        let (clip, _) = graph.prim_of(gate)?;
        let i = graph.single_instruction(clip).filter(|i| i.op == MapOp::Clip)?;
        let arg = |k: usize| graph.read(clip, *i.args.get(k)? as usize);
        let (sum, lo, hi) = (arg(0)?, graph.splat(arg(1)?)?, graph.splat(arg(2)?)?);
        let (of, three) = with_number(graph, made_by(graph, sum, MapOp::Add)?)?;
        (of == x && lo == 0.0 && hi == 6.0 && three == 3.0).then_some(())
    };
    if gate_of(b, a).is_some() {
        Some((MapOp::HardSwish, a))
    } else if gate_of(a, b).is_some() {
        Some((MapOp::HardSwish, b))
    } else {
        None
    }
}

/// `x * (1 + erf(x / sqrt 2)) / 2`, the factors in any order.
fn gelu(graph: &Graph, n: N) -> Option<(MapOp, V)> {
    let (mut factors, mut number, mut rest) = (Vec::new(), 1.0, vec![]);
    let (a, b) = operands(graph, n, MapOp::Mul)?;
    rest.extend([a, b]);
    // Flatten the product: at most three factors and a number.
    while let Some(v) = rest.pop() {
        if let Some(k) = graph.splat(v) {
            number *= k;
        } else if let (Some((a, b)), true) = (made_by(graph, v, MapOp::Mul), factors.len() + rest.len() < 3) {
            rest.extend([a, b]);
        } else {
            factors.push(v);
        }
    }
    let [p, q] = factors.as_slice() else { return None };
    let gate_of = |gate: V, x: V| -> Option<()> {
        let (erf, one) = with_number(graph, made_by(graph, gate, MapOp::Add)?)?;
        let (inner, _) = made_by(graph, erf, MapOp::Erf)?;
        let (of, scale) = match made_by(graph, inner, MapOp::Div) {
            Some((of, k)) => (of, 1.0 / graph.splat(k)?),
            None => with_number(graph, made_by(graph, inner, MapOp::Mul)?)?,
        };
        (of == x && one == 1.0 && near(scale, std::f64::consts::FRAC_1_SQRT_2)).then_some(())
    };
    if !near(number, 0.5) {
        return None;
    }
    if gate_of(*p, *q).is_some() {
        Some((MapOp::Gelu, *q))
    } else if gate_of(*q, *p).is_some() {
        Some((MapOp::Gelu, *p))
    } else {
        None
    }
}

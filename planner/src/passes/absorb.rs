//! What follows a product or a convolution elementwise goes into it: per-channel scale and shift (so batch normalisation), bias,
//! residual, activation.
//!
//! The elementwise node becomes the product; the product that stood before is dead then. Walking in order, a chain collapses.

use super::{Changed, Context, rewrite};
use crate::graph::{Graph, N, Op, Problem, V};
use plan::{DType, Primitive, prim::*};

pub(super) fn run(graph: &mut Graph, context: &mut Context) -> Changed {
    let blocks = rewrite::blocks_of_nodes(graph);
    let mut uses: Vec<u32> = rewrite::use_counts(graph);
    let mut changed = Changed::No;
    rewrite::each_node(graph, |graph, n| {
        if graph.single_instruction(n).is_none() {
            return Vec::new();
        }
        for (target, x) in candidates(graph, n) {
            let alone = uses.get(x.index()) == Some(&1);
            if !alone || blocks.get(&target) != blocks.get(&n) {
                if !alone {
                    context.notes.push(format!(
                        "{}: not merged into {}, whose result has other users",
                        graph.node(n).name,
                        graph.node(target).name
                    ));
                }
                continue;
            }
            if let Some(before) = merge(graph, n, target, x) {
                // The merged node's result has the uses it had; `x` has none left.
                uses.resize(graph.values.len(), 1);
                changed = Changed::Yes;
                return before;
            }
        }
        Vec::new()
    });
    changed
}

/// Operands of an elementwise node that a product or convolution makes whole, the latest first.
fn candidates(graph: &Graph, n: N) -> Vec<(N, V)> {
    let Some(out) = graph.write(n, 0) else { return Vec::new() };
    let mut found: Vec<(N, V)> = graph
        .node(n)
        .reads
        .iter()
        .flatten()
        .filter_map(|v| {
            let (target, prim) = graph.prim_of(*v)?;
            let product = matches!(prim, Primitive::Conv(_) | Primitive::MatMul(_));
            (product
                && graph.value(*v).dims == graph.value(out).dims
                && graph.value(*v).dtype == graph.value(out).dtype)
                .then_some((target, *v))
        })
        .collect();
    found.sort_by_key(|(t, _)| std::cmp::Reverse(*t));
    found.dedup();
    found
}

/// Merges the elementwise node `n` into the product `target` that makes `x`; the nodes that have to stand before it.
fn merge(graph: &mut Graph, n: N, target: N, x: V) -> Option<Vec<N>> {
    let i = graph.single_instruction(n)?;
    let dtype = graph.value(x).dtype;
    if !matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16) || i.out != dtype {
        return None;
    }
    let activation = activation_of(&graph.node(target).op)?;
    let plain = activation.kind == ActivationKind::Identity;
    let args: Vec<V> = i.args.iter().take(i.op.arity()).map(|a| graph.read(n, *a as usize)).collect::<Option<_>>()?;
    if args.iter().filter(|a| **a == x).count() != 1 {
        return None;
    }
    let other = args.iter().copied().find(|a| *a != x);
    match (i.op, other) {
        (MapOp::Add, Some(c)) if plain => {
            shift(graph, n, target, x, c, 1.0).or_else(|| residual(graph, n, target, x, c))
        }
        (MapOp::Sub, Some(c)) if plain && args.first() == Some(&x) => shift(graph, n, target, x, c, -1.0),
        (MapOp::Mul, Some(c)) if plain => scale(graph, n, target, x, c),
        (MapOp::Clip, _) if plain => {
            let (lo, hi) = (graph.splat(*args.get(1)?)?, graph.splat(*args.get(2)?)?);
            let clip = Activation { kind: ActivationKind::Clip, alpha: lo as f32, beta: hi as f32 };
            (dtype == DType::F32 && args.first() == Some(&x)).then_some(())?;
            become_product(graph, n, target, |a| *a = clip, |_| {});
            Some(Vec::new())
        }
        (MapOp::Prelu, Some(slope)) if plain && dtype == DType::F32 => {
            let alpha = graph.splat(slope)? as f32;
            let leaky = Activation { kind: ActivationKind::LeakyRelu, alpha, beta: 0.0 };
            become_product(graph, n, target, |a| *a = leaky, |_| {});
            Some(Vec::new())
        }
        (op, None) if plain => {
            let kind = match op {
                MapOp::Relu => ActivationKind::Relu,
                MapOp::Sigmoid => ActivationKind::Sigmoid,
                MapOp::Tanh => ActivationKind::Tanh,
                MapOp::Silu => ActivationKind::Silu,
                MapOp::HardSwish => ActivationKind::HardSwish,
                MapOp::Gelu => ActivationKind::Gelu,
                MapOp::GeluTanh => ActivationKind::GeluTanh,
                _ => return None,
            };
            let hard = kind == ActivationKind::HardSwish;
            let (alpha, beta) = if hard { (1.0 / 6.0, 0.5) } else { (0.0, 0.0) };
            become_product(graph, n, target, |a| *a = Activation { kind, alpha, beta }, |_| {});
            Some(Vec::new())
        }
        _ => None,
    }
}

fn activation_of(op: &Op) -> Option<Activation> {
    match op {
        Op::Prim(Primitive::Conv(c)) => Some(c.activation),
        Op::Prim(Primitive::MatMul(m)) => Some(m.activation),
        _ => None,
    }
}

/// Turns the elementwise node into the product, changed.
fn become_product(
    graph: &mut Graph,
    n: N,
    target: N,
    activation: impl FnOnce(&mut Activation),
    reads: impl FnOnce(&mut Vec<Option<V>>),
) {
    let mut op = graph.node(target).op.clone();
    match &mut op {
        Op::Prim(Primitive::Conv(c)) => activation(&mut c.activation),
        Op::Prim(Primitive::MatMul(m)) => activation(&mut m.activation),
        _ => return,
    }
    let mut list = graph.node(target).reads.clone();
    list.resize(list.len().max(4), None);
    reads(&mut list);
    while list.len() > 2 && list.last() == Some(&None) {
        list.pop();
    }
    graph.replace(n, op, list, &[target]);
}

/// The axis of the result that the weights' outputs lie along.
fn channel_axis(graph: &Graph, target: N, x: V) -> Option<usize> {
    let rank = graph.value(x).dims.len();
    match &graph.node(target).op {
        Op::Prim(Primitive::Conv(c)) if c.data == DataLayout::ChannelsFirst => Some(1),
        Op::Prim(Primitive::Conv(_)) => rank.checked_sub(1),
        Op::Prim(Primitive::MatMul(_)) => rank.checked_sub(1),
        _ => None,
    }
}

/// `x ± c` with `c` along the channels: a bias.
fn shift(graph: &mut Graph, n: N, target: N, x: V, c: V, sign: f64) -> Option<Vec<N>> {
    let axis = channel_axis(graph, target, x)?;
    let base = graph.varies_along(c, axis)?;
    let extent = *graph.value(x).dims.get(axis)?;
    let conv = matches!(graph.node(target).op, Op::Prim(Primitive::Conv(_)));
    if !conv && graph.node(target).reads.len() > 4 {
        return None;
    }
    let old = graph.read(target, 2);
    // A bias that is there already must be a constant, to be added to while planning.
    if (old.is_some() || sign < 0.0) && graph.constant_of(base).is_none() {
        return None;
    }
    let dims = graph.value(x).dims.to_vec();
    let (made, before) = rewrite::build(graph, "bias", |b| {
        let mut v = b.reshape_or_spread(base, extent)?;
        if sign < 0.0 {
            v = b.unary(MapOp::Neg, v)?;
        }
        if let Some(old) = old {
            let old = b.graph.behind_views(old);
            if !b.is_const(old) {
                return Err(Problem::new("a bias that is no constant"));
            }
            let old = b.reshape_or_spread(old, extent)?;
            v = b.binary(MapOp::Add, old, v)?;
        }
        if conv { Ok(v) } else { b.broadcast(v, &dims) }
    });
    let bias = made.ok()?;
    become_product(graph, n, target, |_| {}, |r| r[2] = Some(bias));
    Some(before)
}

/// `x + c` with `c` of the same dims: a residual.
fn residual(graph: &mut Graph, n: N, target: N, x: V, c: V) -> Option<Vec<N>> {
    let node = graph.node(target);
    let taken = node.reads.get(3).is_some_and(Option::is_some) || node.reads.len() > 4;
    let same = graph.value(c).dims == graph.value(x).dims && graph.behind_broadcast(c) == c;
    if taken || !same {
        return None;
    }
    become_product(graph, n, target, |_| {}, |r| r[3] = Some(c));
    Some(Vec::new())
}

/// `x * c` with constants `c` along the channels: into the weights and the bias.
fn scale(graph: &mut Graph, n: N, target: N, x: V, c: V) -> Option<Vec<N>> {
    let axis = channel_axis(graph, target, x)?;
    let base = graph.varies_along(c, axis).filter(|b| graph.constant_of(*b).is_some())?;
    let extent = *graph.value(x).dims.get(axis)?;
    let conv = matches!(graph.node(target).op, Op::Prim(Primitive::Conv(_)));
    let weights = graph.read(target, 1)?;
    let weights = if conv { weights } else { graph.behind_broadcast(weights) };
    let bias = graph.read(target, 2).map(|b| graph.behind_views(b));
    let constant = |v: V| graph.constant_of(v).is_some();
    if !constant(weights) || bias.is_some_and(|b| !constant(b)) || graph.node(target).reads.len() > 3 {
        return None;
    }
    // Weights that others use too would be doubled.
    if !conv && graph.value(weights).dims.len() != 2 {
        return None;
    }
    let old_dims: Vec<_> = graph.value(graph.read(target, 1)?).dims.to_vec();
    let out_dims = graph.value(x).dims.to_vec();
    let (made, before) = rewrite::build(graph, "scale", |b| {
        let s = b.reshape_or_spread(base, extent)?;
        let one = b.int(1);
        let along = if conv {
            let mut d = vec![one; b.rank(weights)];
            d[0] = extent;
            b.reshape(s, &d)?
        } else {
            s
        };
        let mut w = b.binary(MapOp::Mul, weights, along)?;
        if !conv {
            w = b.broadcast(w, &old_dims)?;
        }
        let bias = match bias {
            Some(old) => {
                let old = b.reshape_or_spread(old, extent)?;
                let scaled = b.binary(MapOp::Mul, old, s)?;
                Some(if conv { scaled } else { b.broadcast(scaled, &out_dims)? })
            }
            None => None,
        };
        Ok((w, bias))
    });
    let (w, bias) = made.ok()?;
    become_product(graph, n, target, |_| {}, |r| (r[1], r[2]) = (Some(w), bias));
    Some(before)
}

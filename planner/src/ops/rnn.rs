//! Recurrent layers.

use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, List, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("RNN", |cx, n| recurrent(cx, n, RnnKind::Rnn)),
    op("GRU", |cx, n| recurrent(cx, n, RnnKind::Gru { linear_before_reset: n.flag("linear_before_reset", false)? })),
    op("com.microsoft::DynamicQuantizeLSTM", quantized_lstm),
    op("LSTM", |cx, n| recurrent(cx, n, RnnKind::Lstm { input_forget: n.flag("input_forget", false)? })),
];

/// The gates of a cell.
pub(super) fn gates(kind: RnnKind) -> i64 {
    match kind {
        RnnKind::Rnn => 1,
        RnnKind::Gru { .. } => 3,
        RnnKind::Lstm { .. } => 4,
    }
}

/// The tensors of a recurrent layer, as the node gives them.
pub(super) struct Operands {
    pub x: V,
    pub w: V,
    pub r: V,
    /// Bias, lengths, initial h, initial c, peepholes.
    pub rest: [Option<V>; 5],
}

fn recurrent(cx: &mut Cx<'_>, node: &Node, kind: RnnKind) -> Lowered {
    let mut rest = [None; 5];
    for (i, r) in rest.iter_mut().enumerate() {
        *r = cx.opt(node, 3 + i)?;
    }
    let operands = Operands { x: cx.input(node, 0)?, w: cx.input(node, 1)?, r: cx.input(node, 2)?, rest };
    layer(cx, node, kind, operands)
}

/// An LSTM with weights of 8 bits, stored `[d, input, 4 * hidden]`. They are widened while planning, and the layer computes in
/// f32: its inputs lose nothing to quantisation.
fn quantized_lstm(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let mut weights = [x; 2];
    for (i, to) in weights.iter_mut().enumerate() {
        let stored = cx.input(node, 1 + i)?;
        let (scale, zero) = (cx.input(node, 8 + 2 * i)?, cx.opt(node, 9 + 2 * i)?);
        let mut wide = cx.b.cast(stored, DType::F32)?;
        if let Some(zero) = zero {
            let zero = cx.b.cast(zero, DType::F32)?;
            let zero = per_direction(cx, zero)?;
            wide = cx.b.binary(MapOp::Sub, wide, zero)?;
        }
        let scale = per_direction(cx, scale)?;
        wide = cx.b.binary(MapOp::Mul, wide, scale)?;
        *to = cx.b.permute(wide, &[0, 2, 1])?;
    }
    let mut rest = [None; 5];
    for (i, r) in rest.iter_mut().enumerate() {
        *r = cx.opt(node, 3 + i)?;
    }
    let kind = RnnKind::Lstm { input_forget: node.flag("input_forget", false)? };
    layer(cx, node, kind, Operands { x, w: weights[0], r: weights[1], rest })
}

/// A parameter of each direction, or of each direction's gate rows, broadcast to `[d, input, rows]`.
fn per_direction(cx: &mut Cx<'_>, v: V) -> Result<V, Problem> {
    match cx.b.rank(v) {
        1 => cx.b.unsqueeze(v, &[1, 2]),
        2 => cx.b.unsqueeze(v, &[1]),
        _ => Err(Problem::new(format!("a parameter of quantisation {}", cx.b.describe(v)))),
    }
}

/// The layer that a node's attributes describe.
pub(super) fn layer(cx: &mut Cx<'_>, node: &Node, kind: RnnKind, operands: Operands) -> Lowered {
    let Operands { mut x, w, r, mut rest } = operands;
    let batch_first = node.int_or("layout", 0)? == 1;
    if batch_first {
        x = cx.b.permute(x, &[1, 0, 2])?;
        for i in [2, 3] {
            if let Some(v) = rest[i] {
                rest[i] = Some(cx.b.permute(v, &[1, 0, 2])?);
            }
        }
    }
    let direction = match node.string_or("direction", "forward")? {
        "forward" => RnnDirection::Forward,
        "reverse" => RnnDirection::Reverse,
        "bidirectional" => RnnDirection::Bidirectional,
        other => return Err(Problem::new(format!("the direction {other}"))),
    };
    let directions = if direction == RnnDirection::Bidirectional { 2 } else { 1 };
    let dims = check(cx, x, w, r, rest, directions, gates(kind))?;
    let prim = Rnn {
        kind,
        direction,
        hidden: dims.hidden,
        activations: activations(node, kind, directions)?,
        clip: node.float_or("clip", 0.0)?,
        weights: RnnLayout::Plain,
    };
    let mut reads = vec![Some(x), Some(w), Some(r)];
    reads.extend(rest);
    while reads.last().is_some_and(Option::is_none) {
        reads.pop();
    }
    let dtype = cx.b.dtype(x);
    let state = vec![dims.directions, dims.batch, dims.units];
    let mut writes = vec![(dtype, [&[dims.length], state.as_slice()].concat()), (dtype, state.clone())];
    if matches!(kind, RnnKind::Lstm { .. }) {
        writes.push((dtype, state));
    }
    let mut outputs = Vec::new();
    for (i, v) in cx.b.emit(prim, &reads, &writes)?.into_iter().enumerate() {
        let perm: &[usize] = if i == 0 { &[2, 0, 1, 3] } else { &[1, 0, 2] };
        outputs.push(if batch_first { cx.b.permute(v, perm)? } else { v }.into());
    }
    Ok(outputs)
}

struct LayerDims {
    length: ExprId,
    batch: ExprId,
    directions: ExprId,
    units: ExprId,
    hidden: u32,
}

/// Checks the operands' dims against each other.
fn check(
    cx: &mut Cx<'_>,
    x: V,
    w: V,
    r: V,
    rest: [Option<V>; 5],
    directions: i64,
    gates: i64,
) -> Result<LayerDims, Problem> {
    let (length, batch, input) = (cx.b.dim(x, 0)?, cx.b.dim(x, 1)?, cx.b.dim(x, 2)?);
    let units = cx.b.dim(r, 2)?;
    let hidden = cx.b.exprs().as_const(units).and_then(|h| u32::try_from(h).ok());
    let hidden = hidden.ok_or_else(|| Problem::new(format!("the number of units in {}", cx.b.describe(r))))?;
    let n = i64::from(hidden);
    let [d, rows, both, peep] = [directions, gates * n, 2 * gates * n, 3 * n].map(|v| cx.b.int(v));
    let state = vec![d, batch, units];
    let wanted: [(&str, Option<V>, Vec<ExprId>); 7] = [
        ("W", Some(w), vec![d, rows, input]),
        ("R", Some(r), vec![d, rows, units]),
        ("B", rest[0], vec![d, both]),
        ("sequence_lens", rest[1], vec![batch]),
        ("initial_h", rest[2], state.clone()),
        ("initial_c", rest[3], state),
        ("P", rest[4], vec![d, peep]),
    ];
    for (name, v, dims) in wanted {
        let Some(v) = v else { continue };
        let own = cx.b.dims(v);
        if own.len() != dims.len() {
            return Err(Problem::new(format!("{name} is {}", cx.b.describe(v))));
        }
        for (a, b) in own.into_iter().zip(dims) {
            cx.b.require_equal(a, b, format!("the dims of {name} of a recurrent layer"))?;
        }
    }
    if let Some(lengths) = rest[1]
        && cx.b.dtype(lengths) != DType::I32
    {
        return Err(Problem::new(format!("sequence_lens is {}", cx.b.describe(lengths))));
    }
    Ok(LayerDims { length, batch, directions: d, units, hidden })
}

/// The activations of all directions. Parameters are taken from the lists in order, by those that have one.
fn activations(node: &Node, kind: RnnKind, directions: i64) -> Result<List<Activation, 6>, Problem> {
    let defaults: &[&str] = match kind {
        RnnKind::Rnn => &["Tanh"],
        RnnKind::Gru { .. } => &["Sigmoid", "Tanh"],
        RnnKind::Lstm { .. } => &["Sigmoid", "Tanh", "Tanh"],
    };
    let names = match node.opt_strings("activations")? {
        Some(names) => names,
        None => defaults.repeat(directions as usize),
    };
    if names.len() != defaults.len() * directions as usize {
        return Err(Problem::new(format!("{} activations", names.len())));
    }
    let mut alphas = node.floats_or("activation_alpha", &[])?.iter().copied();
    let mut betas = node.floats_or("activation_beta", &[])?.iter().copied();
    let mut list = List::EMPTY;
    for name in names {
        let (kind, alpha, beta) = activation(name)?;
        let alpha = alpha.map_or(0.0, |default| alphas.next().unwrap_or(default));
        let beta = beta.map_or(0.0, |default| betas.next().unwrap_or(default));
        list.push(Activation { kind, alpha, beta }).ok_or_else(|| Problem::new("more than six activations"))?;
    }
    Ok(list)
}

/// An activation by its name, and the defaults of the parameters that it has.
fn activation(name: &str) -> Result<(ActivationKind, Option<f32>, Option<f32>), Problem> {
    use ActivationKind as A;
    Ok(match name.to_ascii_lowercase().as_str() {
        "relu" => (A::Relu, None, None),
        "tanh" => (A::Tanh, None, None),
        "sigmoid" => (A::Sigmoid, None, None),
        "softsign" => (A::Softsign, None, None),
        "softplus" => (A::Softplus, None, None),
        "affine" => (A::Affine, Some(1.0), Some(0.0)),
        "leakyrelu" => (A::LeakyRelu, Some(0.01), None),
        "thresholdedrelu" => (A::ThresholdedRelu, Some(1.0), None),
        "scaledtanh" => (A::ScaledTanh, Some(1.0), Some(1.0)),
        "hardsigmoid" => (A::HardSigmoid, Some(0.2), Some(0.5)),
        "elu" => (A::Elu, Some(1.0), None),
        _ => return Err(Problem::new(format!("the activation {name}"))),
    })
}

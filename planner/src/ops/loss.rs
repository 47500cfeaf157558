//! Losses.

use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, prim::*};

pub(super) const OPERATORS: &[Operator] =
    &[op("NegativeLogLikelihoodLoss", likelihood), op("SoftmaxCrossEntropyLoss", cross_entropy)];

fn likelihood(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, target, weight) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.opt(node, 2)?);
    Ok(vec![loss(cx, node, x, target, weight)?.into()])
}

fn cross_entropy(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, target, weight) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.opt(node, 2)?);
    let (dtype, dims) = (cx.b.dtype(x), cx.b.dims(x));
    let log = cx.b.emit1(Softmax { kind: SoftmaxKind::LogSoftmax, axis: 1 }, &[Some(x)], dtype, &dims)?;
    Ok(vec![loss(cx, node, log, target, weight)?.into(), log.into()])
}

/// The loss of log-probabilities `[n, classes, ...]` by the classes `target [n, ...]`.
fn loss(cx: &mut Cx<'_>, node: &Node, log: V, target: V, weight: Option<V>) -> Result<V, Problem> {
    let dtype = cx.b.dtype(log);
    let ignored = match node.opt_int("ignore_index")? {
        Some(i) => Some(cx.b.binary_scalar(MapOp::Eq, target, i as f64)?),
        None => None,
    };
    // An ignored class need not be one: class 0 stands in its place.
    let class = match ignored {
        Some(ignored) => {
            let zero = cx.b.scalar(cx.b.dtype(target), 0.0)?;
            cx.b.select(ignored, zero, target)?
        }
        None => target,
    };
    let at = cx.b.unsqueeze(class, &[1])?;
    let dims = cx.b.dims(at);
    let picked = cx.b.emit1(GatherElements { axis: 1 }, &[Some(log), Some(at)], dtype, &dims)?;
    let picked = cx.b.drop_axes(picked, &[1], false)?;
    let mut loss = cx.b.unary(MapOp::Neg, picked)?;
    let weights = weights(cx, dtype, class, ignored, weight)?;
    if let Some(w) = weights {
        loss = cx.b.binary(MapOp::Mul, loss, w)?;
    }
    let all: Vec<usize> = (0..cx.b.rank(loss)).collect();
    match node.string_or("reduction", "mean")? {
        "none" => Ok(loss),
        "sum" => cx.b.reduce(ReduceOp::Sum, loss, &all, false),
        "mean" => match weights {
            None => cx.b.reduce(ReduceOp::Mean, loss, &all, false),
            Some(w) => {
                let (sum, by) =
                    (cx.b.reduce(ReduceOp::Sum, loss, &all, false)?, cx.b.reduce(ReduceOp::Sum, w, &all, false)?);
                cx.b.binary(MapOp::Div, sum, by)
            }
        },
        other => Err(Problem::new(format!("the reduction {other}"))),
    }
}

/// What each sample counts: the weight of its class, 0 where it is ignored; none where each counts 1.
fn weights(
    cx: &mut Cx<'_>,
    dtype: DType,
    class: V,
    ignored: Option<V>,
    weight: Option<V>,
) -> Result<Option<V>, Problem> {
    let own = match weight {
        Some(weight) => Some(super::gather::gathered(&mut cx.b, weight, class, 0)?),
        None => None,
    };
    let Some(ignored) = ignored else { return Ok(own) };
    let (zero, one) = (cx.b.scalar(dtype, 0.0)?, cx.b.scalar(dtype, 1.0)?);
    cx.b.select(ignored, zero, own.unwrap_or(one)).map(Some)
}

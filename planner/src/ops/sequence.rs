//! Sequences and optionals, which are taken apart while planning: their structure must be known, their tensors need not be.

use super::slice::parts;
use super::{Cx, Lowered, Operator, Val, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId};

pub(super) const OPERATORS: &[Operator] = &[
    op("ConcatFromSequence", concat_from_sequence),
    op("Optional", optional),
    op("OptionalGetElement", optional_get_element),
    op("OptionalHasElement", optional_has_element),
    op("SequenceAt", at),
    op("SequenceConstruct", construct),
    op("SequenceEmpty", empty),
    op("SequenceErase", erase),
    op("SequenceInsert", insert),
    op("SequenceLength", length),
    op("SplitToSequence", split),
];

/// Sequences of more parts are taken for a mistake.
const MOST_PARTS: i64 = 1 << 16;

fn list(cx: &Cx<'_>, node: &Node, i: usize) -> Result<Vec<Val>, Problem> {
    match cx.val(node, i)? {
        Val::Sequence(items) => Ok(items),
        Val::Optional(Some(inner)) => match *inner {
            Val::Sequence(items) => Ok(items),
            _ => Err(Problem::new(format!("input {i} is no sequence"))),
        },
        _ => Err(Problem::new(format!("input {i} is no sequence"))),
    }
}

/// The position that input `i` names in a sequence, of which `end` is the largest; none where it is absent.
fn position(cx: &Cx<'_>, node: &Node, i: usize, length: usize, end: usize) -> Result<Option<usize>, Problem> {
    let Some(list) = cx.opt_const_ints(node, i)? else { return Ok(None) };
    let [at] = list.as_slice() else { return Err(Problem::new("a position is a single number")) };
    let from_front = if *at < 0 { at.saturating_add(length as i64) } else { *at };
    let found = usize::try_from(from_front).ok().filter(|p| *p <= end);
    found.map(Some).ok_or_else(|| Problem::new(format!("position {at} of a sequence of {length}")))
}

fn construct(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let items = (0..node.inputs.len()).map(|i| cx.val(node, i)).collect::<Result<_, _>>()?;
    Ok(vec![Val::Sequence(items)])
}

fn empty(_: &mut Cx<'_>, _: &Node) -> Lowered {
    Ok(vec![Val::Sequence(Vec::new())])
}

fn at(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let items = list(cx, node, 0)?;
    let outside = || Problem::new("a sequence without elements has none to give");
    let last = items.len().checked_sub(1).ok_or_else(outside)?;
    let at = position(cx, node, 1, items.len(), last)?.ok_or_else(|| Problem::new("input 1 is absent"))?;
    Ok(vec![items.get(at).cloned().ok_or_else(outside)?])
}

fn erase(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let mut items = list(cx, node, 0)?;
    let Some(last) = items.len().checked_sub(1) else {
        return Err(Problem::new("a sequence without elements has none to erase"));
    };
    let at = position(cx, node, 1, items.len(), last)?.unwrap_or(last);
    items.remove(at);
    Ok(vec![Val::Sequence(items)])
}

fn insert(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let mut items = list(cx, node, 0)?;
    let item = cx.val(node, 1)?;
    let at = position(cx, node, 2, items.len(), items.len())?.unwrap_or(items.len());
    items.insert(at, item);
    Ok(vec![Val::Sequence(items)])
}

fn length(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let n = list(cx, node, 0)?.len() as i64;
    Ok(vec![cx.b.const_of_ints(DType::I64, &[], &[n])?.into()])
}

fn split(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let axis = cx.b.axis(node.int_or("axis", 0)?, cx.b.rank(v))?;
    let d = cx.b.dim(v, axis)?;
    let given = cx.opt(node, 1)?;
    let what = format!("split of axis {axis} of {}", cx.b.describe(v));
    let sizes = match given {
        Some(sizes) if cx.b.rank(sizes) > 0 => {
            let sizes = cx.opt_exprs(node, 1)?.unwrap_or_default();
            let zero = cx.b.int(0);
            let total = sizes.iter().fold(zero, |t, s| cx.b.exprs().add(t, *s));
            cx.b.require_equal(total, d, what)?;
            sizes
        }
        _ => {
            let size = cx.opt_const_ints(node, 1)?.and_then(|s| s.first().copied()).unwrap_or(1);
            chunks(cx, d, size)?
        }
    };
    let keep = given.is_some() || node.flag("keepdims", true)?;
    let mut items = Vec::new();
    for part in parts(&mut cx.b, v, axis, &sizes)? {
        items.push(Val::from(cx.b.drop_axes(part, &[axis], keep)?));
    }
    Ok(vec![Val::Sequence(items)])
}

/// Pieces of `size`, the last perhaps smaller.
fn chunks(cx: &mut Cx<'_>, d: ExprId, size: i64) -> Result<Vec<ExprId>, Problem> {
    let Some(extent) = cx.b.exprs().as_const(d) else {
        let d = cx.b.graph.exprs.display(d);
        return Err(Problem::new(format!("how many parts an axis of extent {d} has must be known"))
            .with("give that dim a value instead of a range"));
    };
    if size < 1 || extent / size > MOST_PARTS {
        return Err(Problem::new(format!("{extent} elements in parts of {size}")));
    }
    let mut sizes = Vec::new();
    let mut left = extent;
    while left > 0 {
        sizes.push(cx.b.int(left.min(size)));
        left -= size;
    }
    Ok(sizes)
}

fn concat_from_sequence(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let items = list(cx, node, 0)?;
    let new_axis = node.flag("new_axis", false)?;
    let mut tensors: Vec<V> = Vec::new();
    for item in items {
        let Val::Tensor(v) = item else { return Err(Problem::new("the sequence holds something that is no tensor")) };
        tensors.push(v);
    }
    let Some(first) = tensors.first() else {
        return Err(Problem::new("a sequence without elements cannot be concatenated"));
    };
    let rank = cx.b.rank(*first) + usize::from(new_axis);
    let axis = cx.b.axis(node.int("axis")?, rank)?;
    if new_axis {
        for v in &mut tensors {
            *v = cx.b.unsqueeze(*v, &[axis as i64])?;
        }
    }
    Ok(vec![cx.b.concat(&tensors, axis)?.into()])
}

fn optional(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    Ok(vec![match cx.opt_val(node, 0) {
        Some(val @ Val::Optional(_)) => val,
        other => Val::Optional(other.map(Box::new)),
    }])
}

fn optional_has_element(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let has = !matches!(cx.opt_val(node, 0), None | Some(Val::Optional(None)));
    Ok(vec![cx.b.const_of_ints(DType::Bool, &[], &[i64::from(has)])?.into()])
}

fn optional_get_element(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    match cx.val(node, 0)? {
        Val::Optional(Some(inner)) => Ok(vec![*inner]),
        Val::Optional(None) => Err(Problem::new("an empty optional has no element")),
        other => Ok(vec![other]),
    }
}

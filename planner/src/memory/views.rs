//! Which tensor of a buffer the others are views of.

use super::{
    Error,
    lives::touches,
    rules::{Rule, Rules},
};
use plan::{Expr, ExprId, Plan, Value, ValueId};

/// Names the root of every view of a naive plan, where one buffer holds one tensor and its views: the tensor that is
/// written, or else the one that fills the buffer.
pub fn name_roots(plan: &mut Plan, rules: Rules) -> Result<(), Error> {
    let mut rank = vec![0u8; plan.values.len()];
    let mark = |rank: &mut Vec<u8>, v: ValueId, at_least: u8| {
        if let Some(r) = rank.get_mut(v.index()) {
            *r = (*r).max(at_least);
        }
    };
    for step in plan.blocks.iter().flat_map(|b| &b.steps) {
        touches(plan, step, &mut |t| {
            if let (Some(v), true) = (t.value, t.write) {
                mark(&mut rank, v, 1);
            }
        });
    }
    plan.inputs.iter().for_each(|p| mark(&mut rank, p.value, 8));
    plan.states.iter().for_each(|s| mark(&mut rank, s.current, 8));
    let mut best: Vec<Option<(u8, ValueId)>> = vec![None; plan.buffers.len()];
    for (i, value) in plan.values.iter().enumerate() {
        let score = rank[i] + if value.root.is_none() { 4 } else { 0 } + if fills(plan, value) { 2 } else { 0 };
        if let Some(slot) = best.get_mut(value.place.buffer.index())
            && slot.is_none_or(|(s, _)| score > s)
        {
            *slot = Some((score, ValueId(i as u32)));
        }
    }
    for (i, value) in plan.values.iter_mut().enumerate() {
        if value.root.is_none() {
            let root = best.get(value.place.buffer.index()).copied().flatten().map(|(_, v)| v);
            value.root = root.filter(|r| r.index() != i);
        }
    }
    if rules.hold(Rule::FlatViews) { flatten(plan) } else { Ok(()) }
}

/// Makes views of views views of what lies beneath.
fn flatten(plan: &mut Plan) -> Result<(), Error> {
    for i in 0..plan.values.len() {
        let mut root = plan.values[i].root;
        for _ in 0..=plan.values.len() {
            match root.and_then(|r| plan.values.get(r.index())).and_then(|r| r.root) {
                Some(beneath) if beneath.index() != i => root = Some(beneath),
                Some(_) => return Err(Error::Index { what: "root of view", index: i }),
                None => break,
            }
        }
        plan.values[i].root = root;
    }
    Ok(())
}

/// Whether a tensor lies contiguously at the start of its buffer.
fn fills(plan: &Plan, value: &Value) -> bool {
    value.place.strides.is_none() && is_zero(plan, value.place.offset)
}

fn is_zero(plan: &Plan, e: ExprId) -> bool {
    matches!(plan.exprs.get(e.index()), Some(Expr::Const(0)))
}

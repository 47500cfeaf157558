//! States in place: the next value of a state is written straight over it.
//!
//! Only where its writer is, or follows, the last reader, and neither it nor any later step can fail: a failed run leaves the
//! state as it was. Else the copy at the end stays.

use super::{
    alias::{Alias, Use, can_fail},
    rules::Rule,
    take::Refused,
    tree::bodies,
};
use plan::{Action, BlockId, Plan, Primitive, State, ValueId};

/// Adds the copies that the plan needs and does not have, then takes what may be taken.
pub fn take(alias: &mut Alias<'_>) {
    for state in alias.plan.states.clone() {
        let Some(commit) = commit(alias, &state) else { continue };
        match may_take(alias, &state, commit) {
            Ok(()) => {
                alias.join(alias.buffer(state.current), alias.buffer(state.next));
                alias.replaced.insert((0, commit), Vec::new());
            }
            Err(why) => alias.refuse(0, commit, state.next, format!("the state is copied: {why}")),
        }
    }
}

/// The step that copies a state's next value to where the next run finds it.
fn commit(alias: &Alias<'_>, state: &State) -> Option<u32> {
    let steps = &alias.plan.blocks.first()?.steps;
    let found = steps.iter().position(|s| match &s.action {
        Action::Run { prim: Primitive::Copy(_), reads, writes, .. } => {
            let read = reads.first().copied().flatten();
            writes.first().copied().flatten() == Some(state.current)
                && read.is_some_and(|r| r == state.next || alias.root(r) == alias.root(state.next))
        }
        _ => false,
    });
    found.map(|i| i as u32)
}

fn may_take(alias: &Alias<'_>, state: &State, commit: u32) -> Result<(), Refused> {
    let (persist, next) = (alias.buffer(state.current), alias.buffer(state.next));
    let ask = |rule, given, why| alias.rules.ask(rule, given, why);
    alias.ground().of_the_run(next).map_err(|_| "its next value is no activation")?;
    if alias.rules.hold(Rule::StateShape) {
        alias.same_shape(state.next, state.current)?;
    }
    let life = alias.ground().owned(next, 0)?;
    let steps = alias.plan.blocks.first().map_or(0, |b| b.steps.len());
    let writer = life.first;
    let safe = !(writer as usize..steps).any(|i| fails(alias.plan, 0, i));
    ask(Rule::StateSafe, safe, "a step after its last use can fail")?;
    for u in &alias.uses[persist.index()] {
        let step = if u.block == 0 { Some(u.step) } else { alias.tree.step_in(0, u.block) };
        match step {
            Some(s) if s < writer || (s == commit && u.write) => {}
            Some(s) if s == writer && u.block == 0 => in_place(alias, u, state.next, writer)?,
            _ => ask(Rule::StateRead, false, "it is read after its next value is written")?,
        }
    }
    Ok(())
}

/// Whether the writer of the next value may write over what it reads of the state.
fn in_place(alias: &Alias<'_>, read: &Use, next: ValueId, step: u32) -> Result<(), Refused> {
    if !alias.rules.hold(Rule::StatePermits) {
        return Ok(());
    }
    let step = alias.plan.blocks.first().and_then(|b| b.steps.get(step as usize));
    let Some(Action::Run { prim, reads, writes, .. }) = step.map(|s| &s.action) else {
        return Err("its next value is written by a branch or loop that reads it");
    };
    let buffer = alias.buffer(read.value);
    let once = reads.iter().flatten().filter(|v| alias.buffer(**v) == buffer).count() == 1;
    let target = writes.iter().position(|w| w.is_some_and(|w| alias.buffer(w) == alias.buffer(next)));
    let pair = |(i, j): &(u8, u8)| Some(*i as usize) == read.operand && Some(*j as usize) == target;
    let written = target.and_then(|j| writes.get(j).copied().flatten());
    if !once || !prim.traits().in_place.iter().any(pair) {
        return Err("the writer of its next value reads it and may not write over it");
    }
    written.map_or(Err("its next value is not written"), |w| alias.same_shape(read.value, w))
}

/// Whether a step, or one in its bodies, can fail.
fn fails(plan: &Plan, block: u32, step: usize) -> bool {
    let Some(step) = plan.blocks.get(block as usize).and_then(|b| b.steps.get(step)) else { return false };
    if let Action::Run { prim, .. } = &step.action {
        return can_fail(prim);
    }
    let inner = |b: BlockId| {
        let steps = plan.blocks.get(b.index()).map_or(0, |b| b.steps.len());
        (0..steps).any(|i| fails(plan, b.0, i))
    };
    bodies(step).into_iter().flatten().any(inner)
}

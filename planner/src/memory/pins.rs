//! What keeps memory longer than the tensor it was made for, and what it would cost to keep it longer still.

use super::{
    lives::{Life, touches},
    schedule::size,
    tree::Tree,
};
use plan::{Class, Plan, ValueId};

/// How long memory in which several tensors lie (views, and what was written over it) is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// Until the last use of the last of them.
    #[default]
    Exact,
    /// Until the block that it belongs to ends, as runtimes do that count no uses of views.
    Monotone,
}

/// How many tensors lie in each buffer.
fn crowds(plan: &Plan) -> Vec<usize> {
    let mut crowds = vec![0usize; plan.buffers.len()];
    for value in &plan.values {
        if let Some(n) = crowds.get_mut(value.place.buffer.index()) {
            *n += 1;
        }
    }
    crowds
}

/// Makes lives longer, if they are to be.
pub fn stretch(plan: &Plan, lives: &mut [Option<Life>], pin: Pin) {
    if pin == Pin::Exact {
        return;
    }
    for ((life, buffer), crowd) in lives.iter_mut().zip(&plan.buffers).zip(crowds(plan)) {
        if let Some(life) = life
            && crowd > 1
            && buffer.class == Class::Act
        {
            let steps = plan.blocks.get(life.block as usize).map_or(0, |b| b.steps.len()) as u32;
            life.last = life.last.max(steps.saturating_sub(1));
        }
    }
}

/// Bytes, at the plan's alignment, that the eager executor gives back before the end of the block that they belong to, and that
/// [`Pin::Monotone`] would hold until then.
pub fn saved_bytes(plan: &Plan) -> u64 {
    let mut saved = 0u64;
    for (i, (buffer, crowd)) in plan.buffers.iter().zip(crowds(plan)).enumerate() {
        let freed = buffer.eager.is_some_and(|e| e.free.is_some());
        if freed && crowd > 1 && buffer.class == Class::Act {
            saved = saved.saturating_add(size(plan, i).unwrap_or(u64::MAX));
        }
    }
    saved
}

/// The step after which each buffer is given back, by name; none: it is held to the run's end.
pub fn until<'p>(plan: &'p Plan, buffer: &plan::Buffer) -> Option<&'p str> {
    let eager = buffer.eager?;
    let steps = &plan.blocks.get(eager.block.index())?.steps;
    steps.get(eager.free? as usize).map(|s| &*s.name)
}

/// What keeps each buffer alive beyond the last use of the tensor it was made for.
pub fn name(plan: &mut Plan, lives: &[Option<Life>], tree: &Tree) {
    // The last use of each tensor, in the block that owns its buffer.
    let mut last: Vec<Option<u32>> = vec![None; plan.values.len()];
    let mut first: Vec<Option<(u32, ValueId)>> = vec![None; plan.buffers.len()];
    let mut note = |plan: &Plan, v: ValueId, block: u32, step: u32| {
        let Some(buffer) = plan.values.get(v.index()).map(|v| v.place.buffer.index()) else { return };
        let Some(life) = lives.get(buffer).copied().flatten() else { return };
        let step = if life.block == block { Some(step) } else { tree.step_in(life.block, block) };
        if let (Some(step), Some(slot)) = (step, last.get_mut(v.index())) {
            *slot = (*slot).max(Some(step));
            let made_for = &mut first[buffer];
            if made_for.is_none_or(|(s, _)| step < s) {
                *made_for = Some((step, v));
            }
        }
    };
    for (b, block) in plan.blocks.iter().enumerate() {
        for (i, step) in block.steps.iter().enumerate() {
            touches(plan, step, &mut |t| {
                if let Some(v) = t.value {
                    note(plan, v, b as u32, i as u32);
                }
            });
        }
    }
    let end = plan.blocks.first().map_or(0, |b| b.steps.len()) as u32;
    plan.outputs.iter().for_each(|p| note(plan, p.value, 0, end));
    let mut pins: Vec<Vec<(u32, ValueId)>> = vec![Vec::new(); plan.buffers.len()];
    for (i, value) in plan.values.iter().enumerate() {
        let (v, buffer) = (ValueId(i as u32), value.place.buffer.index());
        let Some((_, made_for)) = first.get(buffer).copied().flatten() else { continue };
        if let Some(step) = last[i]
            && v != made_for
            && Some(step) > last.get(made_for.index()).copied().flatten()
            && let Some(list) = pins.get_mut(buffer)
        {
            list.push((step, v));
        }
    }
    for (buffer, mut list) in plan.buffers.iter_mut().zip(pins) {
        list.sort_unstable();
        let arena = matches!(buffer.class, Class::Act);
        buffer.pinned_by = if arena { list.into_iter().map(|(_, v)| v).collect() } else { Vec::new() };
    }
}

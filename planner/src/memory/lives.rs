//! From which step to which a buffer is in use.

use super::{
    rules::{Rule, Rules},
    tree::Tree,
};
use plan::{Action, BufferId, Plan, Step, ValueId};

/// One use of a buffer by a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The buffer.
    pub buffer: BufferId,
    /// The tensor in it; none for a workspace.
    pub value: Option<ValueId>,
    /// Whether it is written.
    pub write: bool,
}

/// What a step itself touches, not the steps of its bodies; reads before writes.
pub fn touches(plan: &Plan, step: &Step, f: &mut dyn FnMut(Touch)) {
    let mut value = |v: ValueId, write: bool| {
        if let Some(tensor) = plan.values.get(v.index()) {
            f(Touch { buffer: tensor.place.buffer, value: Some(v), write });
        }
    };
    match &step.action {
        Action::Run { reads, writes, workspace, .. } => {
            reads.iter().flatten().for_each(|v| value(*v, false));
            writes.iter().flatten().for_each(|v| value(*v, true));
            if let Some(buffer) = *workspace {
                f(Touch { buffer, value: None, write: true });
            }
        }
        Action::If { cond, .. } => value(*cond, false),
        Action::Loop { trip, cond, .. } => trip.iter().chain(cond).for_each(|v| value(*v, false)),
        Action::Define { .. } => {}
    }
}

/// The steps `first..=last` of one block, the innermost that holds every use. `last` is the number of the block's steps
/// where the buffer is held to the run's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The block.
    pub block: u32,
    /// The first step.
    pub first: u32,
    /// The last step.
    pub last: u32,
}

impl Life {
    /// One step.
    pub fn at(block: u32, step: u32) -> Life {
        Life { block, first: step, last: step }
    }

    /// The life that holds both.
    pub fn join(mut self, mut other: Life, tree: &Tree) -> Life {
        while self.block != other.block {
            let deeper = if tree.depth(self.block) >= tree.depth(other.block) { &mut self } else { &mut other };
            match tree.parent(deeper.block) {
                Some((block, step)) => *deeper = Life::at(block, step),
                // Unreachable in a tree: two roots.
                None => return self,
            }
        }
        Life { block: self.block, first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// The life of every buffer; none for those that no step touches and no port names.
pub fn lives(plan: &Plan, tree: &Tree) -> Vec<Option<Life>> {
    lives_by(plan, tree, Rules::default())
}

/// As [`lives`], by these rules.
pub fn lives_by(plan: &Plan, tree: &Tree, rules: Rules) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; plan.buffers.len()];
    let mut join = |buffer: BufferId, life: Life| {
        if let Some(slot) = lives.get_mut(buffer.index()) {
            *slot = Some(slot.map_or(life, |old| {
                if old.block == life.block || rules.hold(Rule::Captures) { old.join(life, tree) } else { old }
            }));
        }
    };
    for &b in &tree.order {
        let Some(block) = plan.blocks.get(b as usize) else { continue };
        for (i, step) in block.steps.iter().enumerate() {
            touches(plan, step, &mut |t| {
                let counts = match t.value {
                    None => rules.hold(Rule::Workspaces),
                    Some(_) => !t.write || rules.hold(Rule::DeadOutputs),
                };
                if counts {
                    join(t.buffer, Life::at(b, i as u32));
                }
            });
        }
    }
    // Outputs are held to the end.
    let end = plan.blocks.first().map_or(0, |b| b.steps.len()) as u32;
    for port in plan.outputs.iter().filter(|_| rules.hold(Rule::HeldOutputs)) {
        if let Some(value) = plan.values.get(port.value.index()) {
            join(value.place.buffer, Life::at(0, end));
        }
    }
    lives
}

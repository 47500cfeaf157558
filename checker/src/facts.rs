//! What the simulation needs to know of a plan: how blocks nest, and within which block each tensor has its meaning.

use crate::{Reason, Rejection};
use plan::{Action, BlockId, BufferId, Class, ExprId, Plan, Primitive, Step, ValueId};
use std::collections::BTreeMap;

const MAX_DEPTH: usize = 100;

/// Facts of a plan.
pub struct Facts {
    parents: Vec<Option<(u32, u32)>>,
    in_loop: Vec<bool>,
    /// Parents before children.
    pub order: Vec<u32>,
    /// For each tensor the innermost block that holds all its uses and those of its views.
    pub scopes: Vec<u32>,
    /// For each block and step the buffers that the eager executor takes before it.
    pub takes: Vec<Vec<Vec<BufferId>>>,
    /// For each block and step the buffers that the eager executor gives back after it.
    pub gives: Vec<Vec<Vec<BufferId>>>,
    /// Buffers that hold outputs.
    pub holds_output: Vec<bool>,
    /// Whether there is any branch or loop.
    pub control: bool,
    /// Tensors that are states as a run finds them.
    pub is_state: Vec<bool>,
    /// Tensors of one element that a step writes out from an extent.
    pub literals: BTreeMap<ValueId, ExprId>,
}

/// The blocks that a step runs.
pub fn bodies(step: &Step) -> Vec<BlockId> {
    match step.action {
        Action::If { then_block, else_block, .. } => vec![then_block, else_block],
        Action::Loop { body, .. } => vec![body],
        Action::Run { .. } | Action::Define { .. } => Vec::new(),
    }
}

/// The tensor that a view is a view of.
pub fn root(plan: &Plan, v: ValueId) -> ValueId {
    plan.values.get(v.index()).and_then(|x| x.root).unwrap_or(v)
}

impl Facts {
    /// Reads a plan whose indices are in order.
    pub fn new(plan: &Plan) -> Result<Facts, Rejection> {
        let (parents, in_loop, order) = tree(plan)?;
        let empty = || plan.blocks.iter().map(|b| vec![Vec::new(); b.steps.len()]).collect();
        let mut facts = Facts {
            parents,
            in_loop,
            control: order.len() > 1,
            order,
            scopes: Vec::new(),
            takes: empty(),
            gives: empty(),
            holds_output: vec![false; plan.buffers.len()],
            is_state: vec![false; plan.values.len()],
            literals: BTreeMap::new(),
        };
        for state in &plan.states {
            if let Some(slot) = facts.is_state.get_mut(state.current.index()) {
                *slot = true;
            }
        }
        for step in plan.blocks.iter().flat_map(|b| &b.steps) {
            if let Action::Run { prim: Primitive::Literal(p), writes, .. } = &step.action
                && let (Some(Some(v)), Some(e)) = (writes.first(), p.elements.first())
            {
                facts.literals.insert(*v, *e);
            }
        }
        for (i, buffer) in plan.buffers.iter().enumerate() {
            let Some(eager) = buffer.eager else { continue };
            let id = BufferId(i as u32);
            let list = |lists: &mut Vec<Vec<Vec<BufferId>>>, step: u32| {
                if let Some(l) = lists.get_mut(eager.block.index()).and_then(|b| b.get_mut(step as usize)) {
                    l.push(id);
                }
            };
            list(&mut facts.takes, eager.alloc);
            eager.free.iter().for_each(|f| list(&mut facts.gives, *f));
        }
        for port in &plan.outputs {
            if let Some(v) = plan.values.get(port.value.index())
                && let Some(slot) = facts.holds_output.get_mut(v.place.buffer.index())
            {
                *slot = true;
            }
        }
        facts.scopes = scopes(plan, &facts);
        Ok(facts)
    }

    /// The block and step that run a block.
    pub fn parent(&self, block: u32) -> Option<(u32, u32)> {
        self.parents.get(block as usize).copied().flatten()
    }

    /// The innermost body of a loop that a block is, or lies in, within an ancestor of it.
    pub fn repeats(&self, mut block: u32, ancestor: u32) -> Option<u32> {
        while block != ancestor {
            if self.in_loop.get(block as usize).copied().unwrap_or(false) {
                return Some(block);
            }
            (block, _) = self.parent(block)?;
        }
        None
    }

    /// Whether a block is another one, or lies in it.
    pub fn within(&self, mut block: u32, ancestor: u32) -> bool {
        while block != ancestor {
            let Some((parent, _)) = self.parent(block) else { return false };
            block = parent;
        }
        true
    }

    /// Buffers that the eager executor gives back after a step that does not touch them.
    pub fn loose(&self, plan: &Plan) -> Vec<BufferId> {
        let mut tight = vec![false; plan.buffers.len()];
        for &b in &self.order {
            let Some(block) = plan.blocks.get(b as usize) else { continue };
            for (i, step) in block.steps.iter().enumerate() {
                let mut touch = |buffer: BufferId| {
                    let Some(eager) = plan.buffers.get(buffer.index()).and_then(|b| b.eager) else { return };
                    let last = self.step_in(eager.block.0, b, i as u32);
                    if let Some(slot) = tight.get_mut(buffer.index()) {
                        *slot |= last.is_some() && last == eager.free;
                    }
                };
                let mut value = |v: &ValueId| plan.values.get(v.index()).iter().for_each(|v| touch(v.place.buffer));
                match &step.action {
                    Action::Run { reads, writes, workspace, .. } => {
                        reads.iter().chain(writes).flatten().for_each(&mut value);
                        workspace.iter().for_each(|b| touch(*b));
                    }
                    Action::If { cond, .. } => value(cond),
                    Action::Loop { trip, cond, .. } => trip.iter().chain(cond).for_each(&mut value),
                    Action::Define { .. } => {}
                }
            }
        }
        let freed = |b: &plan::Buffer| b.eager.is_some_and(|e| e.free.is_some());
        let loose = plan.buffers.iter().zip(tight).enumerate().filter(|(_, (b, tight))| freed(b) && !tight);
        loose.map(|(i, _)| BufferId(i as u32)).collect()
    }

    /// The step of `ancestor` within which a step of `block` runs.
    fn step_in(&self, ancestor: u32, mut block: u32, mut step: u32) -> Option<u32> {
        while block != ancestor {
            (block, step) = self.parent(block)?;
        }
        Some(step)
    }

    fn path(&self, mut block: u32) -> Vec<u32> {
        let mut path = vec![block];
        while let Some((parent, _)) = self.parent(block) {
            path.push(parent);
            block = parent;
        }
        path.reverse();
        path
    }

    /// The innermost block that holds both.
    fn common(&self, a: u32, b: u32) -> u32 {
        if a == b {
            return a;
        }
        self.path(a).into_iter().zip(self.path(b)).take_while(|(x, y)| x == y).last().map_or(0, |(x, _)| x)
    }
}

type Tree = (Vec<Option<(u32, u32)>>, Vec<bool>, Vec<u32>);

fn tree(plan: &Plan) -> Result<Tree, Rejection> {
    let n = plan.blocks.len();
    let wrong = |block: u32, what: &str| Err(Rejection::new(Reason::Blocks, format!("block {block} {what}")));
    if n == 0 {
        return wrong(0, "does not exist");
    }
    let (mut parents, mut in_loop, mut order) = (vec![None; n], vec![false; n], vec![0u32]);
    let mut depths = vec![0usize; n];
    let mut next = 0;
    while let Some(&b) = order.get(next) {
        next += 1;
        let Some(block) = plan.blocks.get(b as usize) else { continue };
        for (i, step) in block.steps.iter().enumerate() {
            for child in bodies(step) {
                let c = child.index();
                match parents.get(c) {
                    None => return wrong(child.0, "does not exist"),
                    Some(None) if c != 0 => {}
                    Some(_) => return wrong(child.0, "is run from more than one place"),
                }
                let depth = depths.get(b as usize).map_or(0, |d| d + 1);
                if depth > MAX_DEPTH {
                    return wrong(child.0, "is nested too deeply");
                }
                let repeats = matches!(step.action, Action::Loop { .. });
                parents.get_mut(c).into_iter().for_each(|p| *p = Some((b, i as u32)));
                in_loop.get_mut(c).into_iter().for_each(|l| *l = repeats);
                depths.get_mut(c).into_iter().for_each(|d| *d = depth);
                order.push(child.0);
            }
        }
    }
    if order.len() < n {
        return wrong(0, "does not run all the others");
    }
    Ok((parents, in_loop, order))
}

/// For each tensor the innermost block that holds all uses of it and of its views. What is in the arena before a run, or is
/// looked at after it, belongs to the first block.
fn scopes(plan: &Plan, facts: &Facts) -> Vec<u32> {
    let mut scopes: Vec<Option<u32>> = vec![None; plan.values.len()];
    let mut touch = |v: ValueId, block: u32| {
        if let Some(slot) = scopes.get_mut(root(plan, v).index()) {
            *slot = Some(slot.map_or(block, |old| facts.common(old, block)));
        }
    };
    for &b in &facts.order {
        let Some(block) = plan.blocks.get(b as usize) else { continue };
        for step in &block.steps {
            match &step.action {
                Action::Run { reads, writes, .. } => reads.iter().chain(writes).flatten().for_each(|v| touch(*v, b)),
                Action::If { cond, .. } => touch(*cond, b),
                Action::Loop { trip, cond, .. } => trip.iter().chain(cond).for_each(|v| touch(*v, b)),
                Action::Define { .. } => {}
            }
        }
    }
    plan.outputs.iter().for_each(|p| touch(p.value, 0));
    plan.states.iter().for_each(|s| [s.current, s.next].iter().for_each(|v| touch(*v, 0)));
    scopes.into_iter().map(|s| s.unwrap_or(0)).collect()
}

/// Whether the buffer of a class lies in the arena.
pub fn in_arena(class: Class) -> bool {
    matches!(class, Class::Act | Class::Work | Class::Persist)
}

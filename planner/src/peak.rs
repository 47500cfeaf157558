//! Which buffers are live at which step, and where that is most: for reports, at any sizes.

use plan::{Action, BlockId, Class, Plan, Step};

/// The step at which most is live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Bytes that are live there, states included.
    pub bytes: u64,
    /// Its name; those of the steps around it come first.
    pub step: Vec<String>,
    /// Indices of the buffers that are live, largest first.
    pub buffers: Vec<usize>,
}

/// The bytes of every buffer at the plan's alignment, at the largest extents of the ranges.
pub fn largest_sizes(plan: &Plan) -> Vec<u64> {
    plan.buffers.iter().map(|b| aligned(plan, b.max_bytes)).collect()
}

/// That many bytes at the plan's alignment.
pub fn aligned(plan: &Plan, bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(plan.align.max(1)).unwrap_or(u64::MAX)
}

/// The peak for buffers of these sizes.
pub fn peak(plan: &Plan, sizes: &[u64]) -> Peak {
    let mut top = block(plan, sizes, BlockId(0), 0);
    for (i, _) in plan.buffers.iter().enumerate().filter(|(_, b)| b.class == Class::Persist) {
        top.bytes = top.bytes.saturating_add(size(sizes, i));
        top.buffers.push(i);
    }
    top.buffers.sort_by_key(|i| (u64::MAX - size(sizes, *i), *i));
    top
}

fn size(sizes: &[u64], buffer: usize) -> u64 {
    sizes.get(buffer).copied().unwrap_or(0)
}

fn block(plan: &Plan, sizes: &[u64], id: BlockId, depth: usize) -> Peak {
    let Some(steps) = plan.blocks.get(id.index()).filter(|_| depth < plan.blocks.len()) else { return Peak::default() };
    let mine: Vec<(usize, u32, u32)> = plan
        .buffers
        .iter()
        .enumerate()
        .filter_map(|(i, b)| b.eager.filter(|e| e.block == id).map(|e| (i, e.alloc, e.free.unwrap_or(u32::MAX))))
        .collect();
    let mut best = Peak::default();
    for (at, step) in (0u32..).zip(&steps.steps) {
        let live = || mine.iter().filter(|(_, alloc, free)| *alloc <= at && at <= *free).map(|(i, _, _)| *i);
        let inner = inside(plan, sizes, step, depth);
        let bytes = live().fold(inner.bytes, |n, i| n.saturating_add(size(sizes, i)));
        if bytes > best.bytes {
            let mut names = vec![step.name.clone()];
            names.extend(inner.step);
            best = Peak { bytes, step: names, buffers: live().chain(inner.buffers).collect() };
        }
    }
    best
}

/// The peak inside a step that runs blocks.
fn inside(plan: &Plan, sizes: &[u64], step: &Step, depth: usize) -> Peak {
    match &step.action {
        Action::If { then_block, else_block, .. } => {
            let (a, b) = (block(plan, sizes, *then_block, depth + 1), block(plan, sizes, *else_block, depth + 1));
            if b.bytes > a.bytes { b } else { a }
        }
        Action::Loop { body, .. } => block(plan, sizes, *body, depth + 1),
        Action::Run { .. } | Action::Define { .. } => Peak::default(),
    }
}

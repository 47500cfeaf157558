//! Which buffers are live at which step, and where that is most: for reports, at any sizes.

use crate::memory::Needs;
use plan::{Action, BlockId, Class, Plan, Step};

/// The step at which most is live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Bytes that are live there, states included.
    pub bytes: u64,
    /// Its name; those of the steps around it come first.
    pub step: Vec<String>,
    /// Indices of the buffers that are live and the bytes of each that are needed there, largest first.
    pub buffers: Vec<(usize, u64)>,
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
    // A plan that is not well formed has no needs but whole buffers.
    let live = Live { plan, sizes, needs: Needs::new(plan).ok() };
    let mut top = live.block(BlockId(0), 0);
    for (i, _) in plan.buffers.iter().enumerate().filter(|(_, b)| b.class == Class::Persist) {
        top.bytes = top.bytes.saturating_add(live.size(i));
        top.buffers.push((i, live.size(i)));
    }
    top.buffers.sort_by_key(|(i, bytes)| (u64::MAX - bytes, *i));
    top
}

struct Live<'a> {
    plan: &'a Plan,
    sizes: &'a [u64],
    needs: Option<Needs>,
}

impl Live<'_> {
    fn size(&self, buffer: usize) -> u64 {
        self.sizes.get(buffer).copied().unwrap_or(0)
    }

    /// Bytes of a buffer that are needed at a step.
    fn bytes(&self, buffer: usize, block: BlockId, step: u32) -> u64 {
        let size = self.size(buffer);
        self.needs.as_ref().map_or(size, |n| n.bytes(buffer, block, step, size))
    }

    fn block(&self, id: BlockId, depth: usize) -> Peak {
        let blocks = &self.plan.blocks;
        let Some(steps) = blocks.get(id.index()).filter(|_| depth < blocks.len()) else { return Peak::default() };
        let mut mine: Vec<(usize, u32, u32)> = Vec::new();
        for (i, buffer) in self.plan.buffers.iter().enumerate() {
            if let Some(e) = buffer.eager.filter(|e| e.block == id) {
                mine.push((i, e.alloc, e.free.unwrap_or(u32::MAX)));
            }
        }
        // By when they begin, so that each step looks only at what is live.
        mine.sort_by_key(|(i, alloc, _)| (*alloc, *i));
        let (mut next, mut live): (usize, Vec<(usize, u32)>) = (0, Vec::new());
        let mut best = Peak::default();
        for (at, step) in (0u32..).zip(&steps.steps) {
            live.retain(|(_, free)| at <= *free);
            while let Some((i, _, free)) = mine.get(next).filter(|(_, alloc, _)| *alloc <= at) {
                live.push((*i, *free));
                next += 1;
            }
            live.retain(|(_, free)| at <= *free);
            let inner = self.inside(step, depth);
            let now = live.iter().map(|(i, _)| (*i, self.bytes(*i, id, at))).filter(|(_, bytes)| *bytes > 0);
            let now: Vec<(usize, u64)> = now.collect();
            let bytes = now.iter().fold(inner.bytes, |n, (_, bytes)| n.saturating_add(*bytes));
            if bytes > best.bytes {
                let mut names = vec![step.name.clone()];
                names.extend(inner.step);
                best = Peak { bytes, step: names, buffers: now.into_iter().chain(inner.buffers).collect() };
            }
        }
        best
    }

    /// The peak inside a step that runs blocks.
    fn inside(&self, step: &Step, depth: usize) -> Peak {
        match &step.action {
            Action::If { then_block, else_block, .. } => {
                let (a, b) = (self.block(*then_block, depth + 1), self.block(*else_block, depth + 1));
                if b.bytes > a.bytes { b } else { a }
            }
            Action::Loop { body, .. } => self.block(*body, depth + 1),
            Action::Run { .. } | Action::Define { .. } => Peak::default(),
        }
    }
}

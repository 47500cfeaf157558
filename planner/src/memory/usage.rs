//! What is live when, over a whole run: for reports and pictures.

use super::{
    Error, Needs,
    lives::lives,
    pack::Window,
    schedule::in_arena,
    tree::{Timeline, Tree},
};
use crate::peak::aligned;
use plan::{BlockId, Class, Plan, SymbolId, evaluate_all};

/// A stretch of the timeline: from the first tick to before the second.
pub type Ticks = (usize, usize);

/// A plan on a line of ticks: a step takes one, a step that runs blocks those of their steps, the branches of an `If` one
/// after the other. One more tick stands for the end of the run, at which outputs are held.
pub struct Usage {
    /// The step of each tick but the last, as the block and its place there; the innermost one.
    pub ticks: Vec<(BlockId, u32)>,
    /// The ticks of every step of every block.
    pub steps: Vec<Vec<Ticks>>,
    /// The ticks in which each buffer has its place in the arena; none for constants, inputs and what nobody uses.
    pub arena: Vec<Option<Ticks>>,
    /// The ticks in which the eager executor holds each buffer.
    pub eager: Vec<Option<Ticks>>,
    needs: Needs,
}

impl Usage {
    /// Lays a finished plan out.
    ///
    /// # Errors
    /// When it is not well formed.
    pub fn new(plan: &Plan) -> Result<Usage, Error> {
        let tree = Tree::new(plan)?;
        let (timeline, lives) = (Timeline::new(plan, &tree), lives(plan, &tree));
        let count = |tick: u64| usize::try_from(tick).map_err(|_| Error::TooLarge);
        let span = |block: u32, first: u32, last: u32| {
            let (start, end) = timeline.span(block, first, last);
            Ok::<Ticks, Error>((count(start)?, count(end)?))
        };
        let mut ticks = vec![(BlockId(0), 0); count(timeline.end)?.saturating_sub(1)];
        let mut steps: Vec<Vec<Ticks>> = vec![Vec::new(); plan.blocks.len()];
        // Parents first, so that the innermost step of a tick remains.
        for &b in &tree.order {
            let count = plan.blocks.get(b as usize).map_or(0, |block| block.steps.len() as u32);
            for i in 0..count {
                let (start, end) = span(b, i, i)?;
                ticks.iter_mut().take(end).skip(start).for_each(|t| *t = (BlockId(b), i));
                if let Some(list) = steps.get_mut(b as usize) {
                    list.push((start, end));
                }
            }
        }
        let (mut arena, mut eager) = (Vec::new(), Vec::new());
        for (buffer, life) in plan.buffers.iter().zip(&lives) {
            let whole = if buffer.class == Class::Persist { Some((0, count(timeline.end)?)) } else { None };
            let placed = match life {
                Some(life) if in_arena(buffer.class) => Some(span(life.block, life.first, life.last)?),
                _ => None,
            };
            let held = match buffer.eager {
                Some(e) => Some(span(e.block.0, e.alloc, e.free.unwrap_or(u32::MAX))?),
                None => None,
            };
            arena.push(whole.or(placed));
            eager.push(whole.or(held));
        }
        Ok(Usage { ticks, steps, arena, eager, needs: Needs::new(plan)? })
    }

    /// When which bytes of a buffer are needed; none: all of them, as long as it lives.
    pub fn windows(&self, buffer: usize) -> Option<&[Window]> {
        self.needs.windows(buffer)
    }

    /// The bytes of the arena that are needed in each tick, for buffers of these sizes.
    pub fn live(&self, sizes: &[u64]) -> Vec<u64> {
        let mut live = self.curve(&self.arena, sizes);
        for (i, (ticks, size)) in self.arena.iter().zip(sizes).enumerate() {
            let (Some((start, end)), Some(windows)) = (*ticks, self.windows(i)) else { continue };
            let mut needed = vec![0u64; end.saturating_sub(start)];
            for w in windows {
                let (from, to) = ((w.start as usize).saturating_sub(start), (w.end as usize).saturating_sub(start));
                let bytes = (w.high - w.low).min(*size);
                needed.iter_mut().take(to).skip(from).for_each(|n| *n = bytes);
            }
            for (at, needed) in live.iter_mut().skip(start).zip(needed) {
                *at -= size - needed;
            }
        }
        live
    }

    /// The bytes live in each tick, for buffers with these ticks and sizes.
    pub fn curve(&self, held: &[Option<Ticks>], sizes: &[u64]) -> Vec<u64> {
        let mut change = vec![0i128; self.ticks.len() + 1];
        for (ticks, size) in held.iter().zip(sizes) {
            let Some((start, end)) = *ticks else { continue };
            if let Some(at) = change.get_mut(start) {
                *at += i128::from(*size);
            }
            if let Some(at) = change.get_mut(end) {
                *at -= i128::from(*size);
            }
        }
        let mut live = 0i128;
        let sums = change.into_iter().map(|c| {
            live += c;
            u64::try_from(live).unwrap_or(u64::MAX)
        });
        sums.collect()
    }
}

/// The bytes of every buffer at the plan's alignment where the symbols have these values. What they do not tell is at its
/// proven maximum.
pub fn sizes(plan: &Plan, value: impl Fn(SymbolId) -> Option<i64>) -> Vec<u64> {
    let exprs = evaluate_all(&plan.exprs, value);
    let bytes = plan.buffers.iter().map(|b| {
        let bytes = exprs.get(b.bytes.index()).copied().flatten().and_then(|n| u64::try_from(n).ok());
        aligned(plan, bytes.unwrap_or(b.max_bytes))
    });
    bytes.collect()
}

//! From lives to offsets, the eager schedule and the certificate.

use super::{
    Error, Options,
    lives::{Life, lives, touches},
    pack::{Item, Window, pack_windows},
    tree::{Timeline, Tree, bodies},
    windows,
};
use plan::{BlockId, Class, Eager, Plan, ValueId};

/// Bytes of a buffer at the plan's alignment, at the range's maximum.
pub fn size(plan: &Plan, buffer: usize) -> Result<u64, Error> {
    let bytes = plan.buffers.get(buffer).map_or(0, |b| b.max_bytes);
    bytes.checked_next_multiple_of(plan.align).filter(|b| *b < 1 << 62).ok_or(Error::TooLarge)
}

/// Whether a buffer of this class lies in the arena.
pub fn in_arena(class: Class) -> bool {
    matches!(class, Class::Act | Class::Work | Class::Persist)
}

fn sum(mut sizes: impl Iterator<Item = Result<u64, Error>>) -> Result<u64, Error> {
    sizes.try_fold(0u64, |a, b| a.checked_add(b?).filter(|s| *s < 1 << 62).ok_or(Error::TooLarge))
}

/// The sum of all activations and workspaces.
pub fn naive_bytes(plan: &Plan) -> Result<u64, Error> {
    let all = plan.buffers.iter().enumerate().filter(|(_, b)| matches!(b.class, Class::Act | Class::Work));
    sum(all.map(|(i, _)| size(plan, i)))
}

/// Places every buffer of the arena, and writes the eager schedule and the certificate.
pub fn finish(plan: &mut Plan, tree: &Tree, options: &Options) -> Result<(), Error> {
    let lives = lives(plan, tree);
    let timeline = Timeline::new(plan, tree);
    let persist = plan.buffers.iter().enumerate().filter(|(_, b)| b.class == Class::Persist);
    plan.certificate.persist_bytes = sum(persist.map(|(i, _)| size(plan, i)))?;
    let windows = windows::of_plan(plan, tree, &timeline, &lives);
    place(plan, &lives, &timeline, &windows, options)?;
    eager(plan, &lives);
    super::known::settle(plan, tree);
    plan.certificate.eager_peak_bytes = eager_peak(plan, tree)?;
    plan.certificate.order_bound_bytes = order_bound(plan)?;
    pins(plan, &lives, tree);
    Ok(())
}

/// The buffers of the arena, and what is to be packed for them.
fn items(plan: &Plan, lives: &[Option<Life>], timeline: &Timeline) -> Result<(Vec<usize>, Vec<Item>), Error> {
    let (mut owners, mut items) = (Vec::new(), Vec::new());
    for (i, buffer) in plan.buffers.iter().enumerate().filter(|(_, b)| in_arena(b.class)) {
        let (start, end) = match lives.get(i).copied().flatten() {
            _ if buffer.class == Class::Persist => (0, timeline.end),
            Some(life) => timeline.span(life.block, life.first, life.last),
            None => continue,
        };
        owners.push(i);
        items.push(Item { size: size(plan, i)?, align: plan.align, start, end, fixed: None });
    }
    sum(items.iter().map(|i| Ok(i.size)))?;
    Ok((owners, items))
}

/// The most bytes live at once.
pub fn peak(
    plan: &Plan,
    lives: &[Option<Life>],
    timeline: &Timeline,
    windows: &[Option<Vec<Window>>],
) -> Result<u64, Error> {
    let (owners, items) = items(plan, lives, timeline)?;
    let mut delta = vec![0i128; timeline.end as usize + 1];
    for (owner, item) in owners.iter().zip(&items) {
        let whole = [Window::whole(item)];
        for w in windows.get(*owner).and_then(|w| w.as_deref()).unwrap_or(&whole) {
            delta[w.start as usize] += i128::from(w.high - w.low);
            delta[w.end as usize] -= i128::from(w.high - w.low);
        }
    }
    let live = delta.iter().scan(0i128, |live, d| {
        *live += d;
        Some(*live)
    });
    u64::try_from(live.max().unwrap_or(0)).map_err(|_| Error::TooLarge)
}

fn place(
    plan: &mut Plan,
    lives: &[Option<Life>],
    timeline: &Timeline,
    windows: &[Option<Vec<Window>>],
    options: &Options,
) -> Result<(), Error> {
    let (owners, items) = items(plan, lives, timeline)?;
    let windows: Vec<Option<Vec<Window>>> = owners.iter().map(|i| windows.get(*i).cloned().flatten()).collect();
    let packing = pack_windows(&items, &windows, None, options.pack_budget);
    for (owner, offset) in owners.iter().zip(&packing.offsets) {
        if let Some(buffer) = plan.buffers.get_mut(*owner) {
            buffer.offset = *offset;
        }
    }
    plan.arena_bytes = packing.height;
    plan.certificate.lower_bound_bytes = packing.bound;
    plan.certificate.optimal = packing.optimal;
    Ok(())
}

/// Taken before the first use, given back after the last; outputs are held.
fn eager(plan: &mut Plan, lives: &[Option<Life>]) {
    let lengths: Vec<u32> = plan.blocks.iter().map(|b| b.steps.len() as u32).collect();
    for (buffer, life) in plan.buffers.iter_mut().zip(lives) {
        buffer.eager = match (buffer.class, life) {
            (Class::Act | Class::Work, Some(life)) => {
                let held = lengths.get(life.block as usize).is_none_or(|n| life.last >= *n);
                let free = if held { None } else { Some(life.last) };
                Some(Eager { block: BlockId(life.block), alloc: life.first, free })
            }
            _ => None,
        };
    }
}

/// The eager executor's peak: what is live before each block's steps, and the largest step within.
fn eager_peak(plan: &Plan, tree: &Tree) -> Result<u64, Error> {
    let mut takes: Vec<Vec<(u32, Option<u32>, u64)>> = vec![Vec::new(); plan.blocks.len()];
    for (i, buffer) in plan.buffers.iter().enumerate() {
        if let Some(eager) = buffer.eager
            && let Some(list) = takes.get_mut(eager.block.index())
        {
            list.push((eager.alloc, eager.free, size(plan, i)?));
        }
    }
    // The most that a block adds, children first.
    let mut peaks = vec![0u64; plan.blocks.len()];
    for &b in tree.order.iter().rev() {
        let Some(block) = plan.blocks.get(b as usize) else { continue };
        let n = block.steps.len();
        let mut delta = vec![0i128; n + 2];
        for &(alloc, free, bytes) in &takes[b as usize] {
            delta[(alloc as usize).min(n)] += i128::from(bytes);
            delta[free.map_or(n + 1, |f| f as usize + 1).min(n + 1)] -= i128::from(bytes);
        }
        let (mut live, mut peak) = (0i128, 0i128);
        for (i, change) in delta.iter().take(n + 1).enumerate() {
            live += change;
            let inner = block.steps.get(i).into_iter().flat_map(bodies).flatten();
            let inner = inner.map(|c| peaks.get(c.index()).copied().unwrap_or(0)).max().unwrap_or(0);
            peak = peak.max(live + i128::from(inner));
        }
        peaks[b as usize] = u64::try_from(peak).map_err(|_| Error::TooLarge)?;
    }
    peaks.first().copied().unwrap_or(0).checked_add(plan.certificate.persist_bytes).ok_or(Error::TooLarge)
}

/// The most that one step needs for itself, states included.
fn order_bound(plan: &Plan) -> Result<u64, Error> {
    let mut most = 0u64;
    for step in plan.blocks.iter().flat_map(|b| &b.steps) {
        let mut touched = Vec::new();
        touches(plan, step, &mut |t| touched.push(t.buffer.index()));
        touched.sort_unstable();
        touched.dedup();
        touched.retain(|b| plan.buffers.get(*b).is_some_and(|b| matches!(b.class, Class::Act | Class::Work)));
        most = most.max(sum(touched.into_iter().map(|b| size(plan, b)))?);
    }
    most.checked_add(plan.certificate.persist_bytes).ok_or(Error::TooLarge)
}

/// What keeps each buffer alive beyond the last use of the tensor it was made for.
fn pins(plan: &mut Plan, lives: &[Option<Life>], tree: &Tree) {
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

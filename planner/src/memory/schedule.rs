//! From lives to offsets, the eager schedule and the certificate.

use super::{
    Error, Options,
    lives::{Life, lives_by, touches},
    pack::{Item, Window, pack_windows},
    pins,
    rules::{Rule, Rules},
    take::Ground,
    tree::{Timeline, Tree, bodies},
    windows,
};
use plan::{BlockId, BufferId, Class, Eager, Plan};

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
pub fn finish(plan: &mut Plan, tree: &Tree, options: &Options, rules: Rules) -> Result<(), Error> {
    let mut lives = lives_by(plan, tree, rules);
    pins::stretch(plan, &mut lives, options.pin);
    let timeline = Timeline::new(plan, tree);
    let persist = plan.buffers.iter().enumerate().filter(|(_, b)| b.class == Class::Persist);
    plan.certificate.persist_bytes = sum(persist.map(|(i, _)| size(plan, i)))?;
    let mut windows = windows::of_plan(plan, tree, &timeline, &lives);
    if options.pin == pins::Pin::Monotone {
        windows.fill(None);
    }
    place(plan, &lives, &timeline, &windows, options, rules)?;
    eager(plan, &lives, rules);
    if rules.hold(Rule::KnownSizes) {
        super::known::settle(plan, tree);
    }
    plan.certificate.eager_peak_bytes = eager_peak(plan, tree, rules)?;
    plan.certificate.order_bound_bytes = order_bound(plan)?;
    pins::name(plan, &lives, tree);
    Ok(())
}

/// The buffers of the arena, and what is to be packed for them.
fn items(
    plan: &Plan,
    lives: &[Option<Life>],
    timeline: &Timeline,
    rules: Rules,
) -> Result<(Vec<usize>, Vec<Item>), Error> {
    let (mut owners, mut items) = (Vec::new(), Vec::new());
    for (i, buffer) in plan.buffers.iter().enumerate().filter(|(_, b)| in_arena(b.class)) {
        let (start, end) = match lives.get(i).copied().flatten() {
            _ if buffer.class == Class::Persist && rules.hold(Rule::States) => (0, timeline.end),
            Some(life) => timeline.span(life.block, life.first, life.last),
            None => continue,
        };
        owners.push(i);
        let (size, align) =
            if rules.hold(Rule::Aligned) { (size(plan, i)?, plan.align) } else { (buffer.max_bytes, 1) };
        items.push(Item { size, align, start, end, fixed: None });
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
    let (owners, items) = items(plan, lives, timeline, Rules::default())?;
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
    rules: Rules,
) -> Result<(), Error> {
    let (owners, items) = items(plan, lives, timeline, rules)?;
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

/// Taken before the first use, given back after the last by whoever may take it then; outputs are held.
fn eager(plan: &mut Plan, lives: &[Option<Life>], rules: Rules) {
    let ground = Ground { plan, lives, rules };
    let schedule = |i: usize| {
        let (life, id) = (lives.get(i).copied().flatten()?, BufferId(i as u32));
        ground.of_the_run(id).ok()?;
        let free = ground.may_take(id, (life.block, life.last)).ok().map(|()| life.last);
        Some(Eager { block: BlockId(life.block), alloc: life.first, free })
    };
    let all: Vec<Option<Eager>> = (0..plan.buffers.len()).map(schedule).collect();
    plan.buffers.iter_mut().zip(all).for_each(|(buffer, eager)| buffer.eager = eager);
}

/// The eager executor's peak: what is live before each block's steps, and the largest step within.
pub fn eager_peak(plan: &Plan, tree: &Tree, rules: Rules) -> Result<u64, Error> {
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
            let inner = if rules.hold(Rule::InnerPeaks) { inner } else { 0 };
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

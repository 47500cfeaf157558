//! Which bytes of a buffer are needed when: a buffer in which several tensors lie side by side holds each only while it lives.
//!
//! The result of a concatenation grows with the parts that are written straight into it, and shrinks as they die. Only buffers that
//! are written in parts count, and only places that are the same for all extents: a tensor that is merely read through views is
//! needed until the last of them.

use super::{
    exprs::constant,
    lives::{Life, touches},
    pack::Window,
    tree::{Timeline, Tree},
};
use plan::{BlockId, Class, Plan, Value};
use std::collections::BTreeMap;

/// Bytes `low..high` of a buffer, and how long they are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From where to where.
    pub life: Life,
    /// The first byte.
    pub low: u64,
    /// The byte after the last.
    pub high: u64,
}

/// The most parts of a buffer that are told apart.
const MAX_PARTS: usize = 512;

/// The ranges of a buffer that tensors fill, each with its life, and whether one of them is written that is not all of it.
type Ranges = (BTreeMap<(u64, u64), Life>, bool);

/// The parts of every buffer that does not need all of its bytes for all of its life.
pub fn parts(plan: &Plan, tree: &Tree) -> Vec<Option<Vec<Part>>> {
    let mut ranges: Vec<Ranges> = vec![(BTreeMap::new(), false); plan.buffers.len()];
    let mut touch = |value: &Value, life: Life, write: bool| {
        let i = value.place.buffer.index();
        if let (Some((map, apart)), Some(range), Some(buffer)) =
            (ranges.get_mut(i), range(plan, value), plan.buffers.get(i))
        {
            let slot = map.entry(range).or_insert(life);
            *slot = slot.join(life, tree);
            *apart |= write && range != (0, buffer.max_bytes);
        }
    };
    for &b in &tree.order {
        let Some(block) = plan.blocks.get(b as usize) else { continue };
        for (i, step) in block.steps.iter().enumerate() {
            touches(plan, step, &mut |t| {
                if let Some(value) = t.value.and_then(|v| plan.values.get(v.index())) {
                    touch(value, Life::at(b, i as u32), t.write);
                }
            });
        }
    }
    let end = plan.blocks.first().map_or(0, |b| b.steps.len()) as u32;
    for port in &plan.outputs {
        if let Some(value) = plan.values.get(port.value.index()) {
            touch(value, Life::at(0, end), false);
        }
    }
    let all = plan.buffers.iter().zip(ranges).map(|(buffer, (map, apart))| {
        let list = || map.into_iter().map(|((low, high), life)| Part { life, low, high }).collect();
        (buffer.class == Class::Act && apart).then(list)
    });
    all.collect()
}

/// The bytes of its buffer that a tensor takes up; all of them where its place depends on extents.
fn range(plan: &Plan, value: &Value) -> Option<(u64, u64)> {
    let size = plan.buffers.get(value.place.buffer.index())?.max_bytes;
    if value.dims.iter().any(|d| constant(plan, *d) == Some(0)) {
        return None;
    }
    Some(fixed_range(plan, value).filter(|(low, high)| low < high && *high <= size).unwrap_or((0, size)))
}

/// The bytes of its buffer that a tensor takes up, where these are the same for all extents.
pub fn fixed_range(plan: &Plan, value: &Value) -> Option<(u64, u64)> {
    let first = constant(plan, value.place.offset)?;
    let (mut low, mut high, mut step) = (first, first.checked_add(1)?, 1i64);
    for (axis, dim) in value.dims.iter().enumerate().rev() {
        let dim = constant(plan, *dim)?;
        let stride = match &value.place.strides {
            Some(strides) => constant(plan, *strides.get(axis)?)?,
            None => step,
        };
        let reach = stride.checked_mul(dim.checked_sub(1)?)?;
        (low, high) = (low.checked_add(reach.min(0))?, high.checked_add(reach.max(0))?);
        step = step.checked_mul(dim)?;
    }
    let bits = value.dtype.bits() as u64;
    let bytes = |elements: i64| u64::try_from(elements).ok()?.checked_mul(bits);
    Some((bytes(low)? / 8, bytes(high)?.div_ceil(8)))
}

/// When which bytes of a buffer with this life and these parts are needed, rounded to the alignment; none: always all.
pub fn windows(
    plan: &Plan,
    tree: &Tree,
    timeline: &Timeline,
    size: u64,
    life: Life,
    parts: &[Part],
) -> Option<Vec<Window>> {
    if parts.is_empty() || parts.len() > MAX_PARTS {
        return None;
    }
    let align = plan.align.max(1);
    let mut cuts: Vec<u64> = parts.iter().flat_map(|p| [p.low, p.high]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    // From one cut to the next the same parts lie.
    let mut runs: Vec<Window> = Vec::with_capacity(cuts.len());
    for pair in cuts.windows(2) {
        let [low, high] = pair else { continue };
        let over = parts.iter().filter(|p| p.low <= *low && *high <= p.high);
        let Some(used) = over.map(|p| p.life).reduce(|a, b| a.join(b, tree)) else { continue };
        let used =
            if used.block == life.block { used } else { Life::at(life.block, tree.step_in(life.block, used.block)?) };
        let (start, end) = timeline.span(used.block, used.first, used.last);
        let high = high.checked_next_multiple_of(align)?.min(size);
        runs.push(Window { start, end, low: low / align * align, high });
    }
    let mut ticks: Vec<u64> = runs.iter().flat_map(|r| [r.start, r.end]).collect();
    ticks.sort_unstable();
    ticks.dedup();
    let mut hulls: Vec<Window> = Vec::new();
    for pair in ticks.windows(2) {
        let [start, end] = *pair else { continue };
        let live = runs.iter().filter(|r| r.start <= start && end <= r.end);
        let Some((low, high)) = live.map(|r| (r.low, r.high)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
            continue;
        };
        match hulls.last_mut() {
            Some(last) if last.end == start && (last.low, last.high) == (low, high) => last.end = end,
            _ => hulls.push(Window { start, end, low, high }),
        }
    }
    let (start, end) = timeline.span(life.block, life.first, life.last);
    let whole = matches!(hulls.as_slice(), [w] if *w == Window { start, end, low: 0, high: size });
    (!whole).then_some(hulls)
}

/// The windows of every buffer.
pub fn of_plan(plan: &Plan, tree: &Tree, timeline: &Timeline, lives: &[Option<Life>]) -> Vec<Option<Vec<Window>>> {
    let parts = parts(plan, tree);
    let one = |i: usize| {
        let (parts, life) = (parts.get(i)?.as_ref()?, lives.get(i).copied().flatten()?);
        windows(plan, tree, timeline, super::schedule::size(plan, i).ok()?, life, parts)
    };
    (0..plan.buffers.len()).map(one).collect()
}

/// What a finished plan's buffers need, step by step.
pub struct Needs {
    timeline: Timeline,
    windows: Vec<Option<Vec<Window>>>,
}

impl Needs {
    /// Reads a plan.
    ///
    /// # Errors
    /// When it is not well formed.
    pub fn new(plan: &Plan) -> Result<Needs, super::Error> {
        let tree = Tree::new(plan)?;
        let timeline = Timeline::new(plan, &tree);
        let windows = of_plan(plan, &tree, &timeline, &super::lives::lives(plan, &tree));
        Ok(Needs { timeline, windows })
    }

    /// When which bytes of a buffer are needed; none: all of them, as long as it lives.
    pub fn windows(&self, buffer: usize) -> Option<&[Window]> {
        self.windows.get(buffer)?.as_deref()
    }

    /// Bytes of a buffer of this size that are needed while a step runs within the buffer's life.
    pub fn bytes(&self, buffer: usize, block: BlockId, step: u32, size: u64) -> u64 {
        let Some(windows) = self.windows(buffer) else { return size };
        let (start, end) = self.timeline.span(block.0, step, step);
        let now = windows.iter().filter(|w| w.start < end && start < w.end);
        now.map(|w| w.high - w.low).max().unwrap_or(0).min(size)
    }
}

//! Items that need only some of their bytes at a time: the result of a concatenation, say, of which the parts are born one by one.

use super::{Item, sections::Problem};

/// Bytes `low..high` of an item, needed in the ticks `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Window {
    /// The first tick.
    pub start: u64,
    /// The tick after the last.
    pub end: u64,
    /// The first byte, from the item's offset.
    pub low: u64,
    /// The byte after the last.
    pub high: u64,
}

impl Window {
    /// All of an item, for all of its life.
    pub fn whole(item: &Item) -> Window {
        Window { start: item.start, end: item.end, low: 0, high: item.size }
    }
}

/// The most bytes needed at one tick.
pub fn most_live(items: &[Item], windows: &[Option<Vec<Window>>]) -> u64 {
    let mut events: Vec<(u64, bool, u64)> = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let whole = [Window::whole(item)];
        let list = windows.get(i).and_then(|w| w.as_deref()).unwrap_or(&whole);
        for w in list.iter().filter(|w| w.start < w.end && w.low < w.high) {
            events.push((w.start, true, w.high - w.low));
            events.push((w.end, false, w.high - w.low));
        }
    }
    // What ends comes before what begins at the same tick.
    events.sort_unstable();
    let (mut live, mut most) = (0u64, 0u64);
    for (_, begins, bytes) in events {
        live = if begins { live.saturating_add(bytes) } else { live.saturating_sub(bytes) };
        most = most.max(live);
    }
    most
}

/// Offsets that an item cannot have: those between the two, not these themselves.
pub type Forbidden = (i64, u64);

/// Collects the offsets at which item `i` would meet item `j`, which lies at `offset`.
pub fn forbid(problem: &Problem<'_>, i: u32, j: u32, offset: u64, into: &mut Vec<Forbidden>) {
    let (Some(a), Some(b)) = (problem.items.get(i as usize), problem.items.get(j as usize)) else { return };
    let below = |end: u64, bytes: u64| signed(end).saturating_sub(signed(bytes));
    let (of_a, of_b) = (problem.windows_of(i), problem.windows_of(j));
    if of_a.is_none() && of_b.is_none() {
        into.push((below(offset, a.size), offset.saturating_add(b.size)));
        return;
    }
    let (whole_a, whole_b) = ([Window::whole(a)], [Window::whole(b)]);
    let of_b = of_b.unwrap_or(&whole_b);
    for x in of_a.unwrap_or(&whole_a) {
        for y in of_b.iter().filter(|y| x.start < y.end && y.start < x.end) {
            let from = below(offset.saturating_add(y.low), x.high);
            into.push((from, offset.saturating_add(y.high).saturating_sub(x.low)));
        }
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

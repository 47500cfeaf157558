//! Time reduced to what matters: the maximal sets of items that live together.

use super::{Item, Window, windows};

/// Pairs of items that live together beyond which they are not listed.
const MAX_PAIRS: usize = 30_000_000;

/// A packing problem, prepared.
pub struct Problem<'a> {
    /// The items.
    pub items: &'a [Item],
    /// The windows of those that have any.
    pub windows: &'a [Option<Vec<Window>>],
    /// The half-open range of sections in which each item lives; empty for items without size or life.
    pub spans: Vec<(u32, u32)>,
    /// The sum of sizes in each section.
    pub totals: Vec<u64>,
    /// Items that share a section with each item, ascending: a list in one piece with `starts`.
    neighbours: Vec<u32>,
    starts: Vec<usize>,
}

impl<'a> Problem<'a> {
    /// Sweeps over the items' starts and ends.
    pub fn new(items: &'a [Item], windows: &'a [Option<Vec<Window>>]) -> Self {
        let live = |i: &u32| items.get(*i as usize).is_some_and(|i| i.size > 0 && i.end > i.start);
        let mut by_start: Vec<u32> = (0..items.len() as u32).filter(live).collect();
        let mut by_end = by_start.clone();
        by_start.sort_by_key(|i| (items[*i as usize].start, *i));
        by_end.sort_by_key(|i| (items[*i as usize].end, *i));
        let mut spans = vec![(0u32, 0u32); items.len()];
        let (mut section, mut grew) = (0u32, false);
        let mut ends = by_end.iter().peekable();
        let mut close = |limit: u64, section: &mut u32, grew: &mut bool, spans: &mut Vec<(u32, u32)>| {
            while let Some(i) = ends.next_if(|i| items[**i as usize].end <= limit) {
                if std::mem::take(grew) {
                    *section += 1;
                }
                spans[*i as usize].1 = *section;
            }
        };
        for i in &by_start {
            close(items[*i as usize].start, &mut section, &mut grew, &mut spans);
            spans[*i as usize].0 = section;
            grew = true;
        }
        close(u64::MAX, &mut section, &mut grew, &mut spans);
        let mut totals = vec![0i128; section as usize + 1];
        for (item, span) in items.iter().zip(&spans).filter(|(_, s)| s.1 > s.0) {
            totals[span.0 as usize] += i128::from(item.size);
            totals[span.1 as usize] -= i128::from(item.size);
        }
        let mut running = 0i128;
        let totals = totals.iter().take(section as usize).map(|d| {
            running += d;
            u64::try_from(running).unwrap_or(u64::MAX)
        });
        let totals = totals.collect();
        let (neighbours, starts) = neighbours(&by_start, &spans, items.len()).unwrap_or_default();
        Problem { items, windows, spans, totals, neighbours, starts }
    }

    /// The most bytes that live together, and no less than any item itself, or its end if it is pinned.
    pub fn bound(&self) -> u64 {
        if !self.has_windows() {
            return self.whole_bound();
        }
        let ends = self.items.iter().map(|i| i.fixed.unwrap_or(0).saturating_add(i.size));
        windows::most_live(self.items, self.windows).max(ends.max().unwrap_or(0))
    }

    /// The same where windows count for nothing.
    pub fn whole_bound(&self) -> u64 {
        let pinned = self.items.iter().filter_map(|i| i.fixed.map(|o| o.saturating_add(i.size))).max().unwrap_or(0);
        self.totals.iter().copied().max().unwrap_or(0).max(pinned)
    }

    /// Whether any item has windows.
    pub fn has_windows(&self) -> bool {
        self.windows.iter().any(Option::is_some)
    }

    /// The windows of an item, if it has any.
    pub fn windows_of(&self, item: u32) -> Option<&[Window]> {
        self.windows.get(item as usize).and_then(|w| w.as_deref())
    }

    /// Whether the items that live together are listed; not so for problems that are too large.
    pub fn is_listed(&self) -> bool {
        !self.starts.is_empty()
    }

    /// The items that live at some time together with `item`, where they are listed.
    pub fn neighbours(&self, item: u32) -> &[u32] {
        let i = item as usize;
        match (self.starts.get(i), self.starts.get(i + 1)) {
            (Some(a), Some(b)) => self.neighbours.get(*a..*b).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// The largest total of the sections in which an item lives.
    pub fn total_over(&self, item: u32) -> u64 {
        let (a, b) = self.spans[item as usize];
        self.totals.get(a as usize..b as usize).and_then(|t| t.iter().max()).copied().unwrap_or(0)
    }

    /// The items of each section.
    pub fn members(&self) -> Vec<Vec<u32>> {
        let mut members = vec![Vec::new(); self.totals.len()];
        for (i, span) in self.spans.iter().enumerate() {
            (span.0..span.1).for_each(|s| members[s as usize].push(i as u32));
        }
        members
    }

    /// Parts that share no section, each by the start of their items' lives.
    pub fn parts(&self) -> Vec<Vec<u32>> {
        let mut live: Vec<u32> =
            (0..self.items.len() as u32).filter(|i| self.spans[*i as usize].0 < self.spans[*i as usize].1).collect();
        live.sort_by_key(|i| (self.spans[*i as usize], *i));
        let mut parts: Vec<Vec<u32>> = Vec::new();
        let mut end = 0;
        for i in live {
            let span = self.spans[i as usize];
            match parts.last_mut() {
                Some(part) if span.0 < end => part.push(i),
                _ => parts.push(vec![i]),
            }
            end = end.max(span.1);
        }
        parts
    }

    /// The end of the highest item.
    pub fn height(&self, offsets: &[u64]) -> u64 {
        self.items.iter().zip(offsets).map(|(i, o)| o.saturating_add(i.size)).max().unwrap_or(0)
    }
}

/// For each item the others that share a section, in one list; none where that is too long.
fn neighbours(by_start: &[u32], spans: &[(u32, u32)], n: usize) -> Option<(Vec<u32>, Vec<usize>)> {
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let mut active: Vec<u32> = Vec::new();
    for &i in by_start {
        let start = spans[i as usize].0;
        active.retain(|j| spans[*j as usize].1 > start);
        if pairs.len() + active.len() > MAX_PAIRS {
            return None;
        }
        pairs.extend(active.iter().map(|j| (i, *j)));
        active.push(i);
    }
    let mut starts = vec![0usize; n + 1];
    for &(i, j) in &pairs {
        starts[i as usize + 1] += 1;
        starts[j as usize + 1] += 1;
    }
    for k in 1..starts.len() {
        starts[k] += starts[k - 1];
    }
    let mut fill = starts.clone();
    let mut list = vec![0u32; pairs.len() * 2];
    for &(i, j) in &pairs {
        for (a, b) in [(i, j), (j, i)] {
            list[fill[a as usize]] = b;
            fill[a as usize] += 1;
        }
    }
    for k in 0..n {
        list[starts[k]..starts[k + 1]].sort_unstable();
    }
    Some((list, starts))
}

//! Branch and bound: whether items fit under a capacity.
//!
//! Any placement can be pushed down until every item rests on the ground or on another. Such a placement is built in exactly
//! one way by placing items in ascending (offset, rank), each at the lowest offset that those already placed leave it. On
//! the way a section is given up where what is still to be placed in it does not fit above the lowest offset that any of it
//! can have; an item is not placed where it would leave a hole for another; identical items keep one order; and where no item
//! left reaches over a moment, what lies before and after it is solved apart.

use super::sections::Problem;
use std::{cmp::Reverse, collections::BinaryHeap};

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The offsets are in [`Search::offsets`].
    Fits,
    /// It is proven that nothing fits.
    Impossible,
    /// The limit of steps was reached.
    Unknown,
}

/// Something that a step changed, to be undone.
enum Undo {
    Low(u32, u64),
    Floor(u32, Floor),
    Placed(u32),
    Rank(u32, u32),
}

/// An item to be placed, and the offset that it can have.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Floor {
    low: u64,
    item: u32,
}

/// Puts items in order, given what is still to be placed in each section.
pub type Ranker<'r> = &'r dyn Fn(&[u32], &[u64]) -> Vec<u32>;

/// The place of the last item: the next one must come after it.
type Last = Option<(u64, u32)>;

struct Frame {
    /// Items to be placed, by the start of their life.
    items: Vec<u32>,
    /// Items that may come next, the lowest (offset, rank) on top.
    candidates: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// Where to undo to before the next candidate.
    mark: usize,
    /// Parts that are left after the current candidate, the first last.
    parts: Vec<(Vec<u32>, Last)>,
    /// No other candidate can do better than the current one.
    hatless: bool,
    /// The offset at which the sections were found to have room.
    roomy: Option<u64>,
}

/// A search over some items of a problem that meet no others.
pub struct Search<'a, 'p> {
    problem: &'a Problem<'p>,
    members: &'a [Vec<u32>],
    capacity: u64,
    rank: Vec<u32>,
    twin: Vec<Option<u32>>,
    low: Vec<u64>,
    placed: Vec<bool>,
    /// What is still to be placed in each section, and an offset that some of it can have: the lowest, or one that is low enough.
    rest: Vec<u64>,
    floor: Vec<Floor>,
    log: Vec<Undo>,
    /// Steps taken.
    pub nodes: u64,
}

fn up(offset: u64, align: u64) -> u64 {
    offset.checked_next_multiple_of(align.max(1)).unwrap_or(u64::MAX)
}

impl<'a, 'p> Search<'a, 'p> {
    /// A search for all items of `problem`; `members` lists the items of each section.
    pub fn new(problem: &'a Problem<'p>, members: &'a [Vec<u32>], capacity: u64) -> Self {
        let n = problem.items.len();
        let low: Vec<u64> = problem.items.iter().map(|i| i.fixed.unwrap_or(0)).collect();
        let mut search = Search {
            problem,
            members,
            capacity,
            rank: vec![0; n],
            twin: vec![None; n],
            low,
            placed: vec![false; n],
            rest: problem.totals.clone(),
            floor: Vec::new(),
            log: Vec::new(),
            nodes: 0,
        };
        search.floor = (0..members.len()).map(|s| search.lowest(s as u32)).collect();
        search
    }

    /// Where each item lies after [`Outcome::Fits`].
    pub fn offset(&self, item: u32) -> u64 {
        self.low[item as usize]
    }

    /// Looks for a placement of `items` (by the start of their life, a part that meets no other) in the order that `ranker` gives,
    /// in at most `limit` steps. Where none is found, everything is as before.
    pub fn run(&mut self, items: &[u32], ranker: Ranker<'_>, limit: u64) -> Outcome {
        let ranked = ranker(items, &self.rest);
        self.order(&ranked);
        let limit = self.nodes.saturating_add(limit);
        let mut stack = vec![self.frame(items.to_vec(), None)];
        let start = self.log.len();
        // The result of the frame that was left last.
        let mut result: Option<bool> = None;
        loop {
            let Some(top) = stack.last_mut() else {
                return if result == Some(true) { Outcome::Fits } else { Outcome::Impossible };
            };
            match result.take() {
                Some(false) => {
                    let (mark, hatless) = (top.mark, top.hatless);
                    self.undo(mark);
                    top.parts.clear();
                    if hatless {
                        top.candidates.clear();
                    }
                }
                Some(true) => {
                    if let Some((part, last)) = top.parts.pop() {
                        let frame = self.frame(part, last);
                        stack.push(frame);
                    } else {
                        result = Some(true);
                        stack.pop();
                    }
                    continue;
                }
                None => {}
            }
            if self.nodes >= limit {
                self.undo(start);
                return Outcome::Unknown;
            }
            match self.advance(top, ranker) {
                Some(true) => {
                    if let Some((part, last)) = top.parts.pop() {
                        let frame = self.frame(part, last);
                        stack.push(frame);
                    } else {
                        result = Some(true);
                        stack.pop();
                    }
                }
                Some(false) => {}
                None => {
                    result = Some(false);
                    stack.pop();
                }
            }
        }
    }

    fn order(&mut self, ranked: &[u32]) {
        let mut previous: std::collections::BTreeMap<(u64, u64, (u32, u32)), u32> = std::collections::BTreeMap::new();
        for (r, i) in ranked.iter().enumerate() {
            self.rank[*i as usize] = r as u32;
            let item = &self.problem.items[*i as usize];
            self.twin[*i as usize] = match item.fixed {
                None => previous.insert((item.size, item.align, self.problem.spans[*i as usize]), *i),
                Some(_) => None,
            };
        }
    }

    fn frame(&self, items: Vec<u32>, last: Last) -> Frame {
        let size = |i: u32| self.problem.items[i as usize].size;
        // Placed at this or above, an item would leave a hole for the one that ends there.
        let hole = items.iter().map(|i| self.low[*i as usize].saturating_add(size(*i))).min().unwrap_or(0);
        let candidates: Vec<Reverse<(u64, u32, u32)>> = items
            .iter()
            .map(|i| (self.low[*i as usize], self.rank[*i as usize], *i))
            .filter(|(low, rank, _)| *low < hole && last.is_none_or(|l| (*low, *rank) > l))
            .filter(|(_, _, i)| self.twin[*i as usize].is_none_or(|t| self.placed[t as usize]))
            .map(Reverse)
            .collect();
        Frame {
            items,
            candidates: candidates.into(),
            mark: self.log.len(),
            parts: Vec::new(),
            hatless: false,
            roomy: None,
        }
    }

    /// Takes the next candidate of a frame: true where it could be placed, none where there is no other.
    fn advance(&mut self, frame: &mut Frame, ranker: Ranker<'_>) -> Option<bool> {
        let Reverse((offset, rank, item)) = frame.candidates.pop()?;
        self.nodes += 1;
        if frame.roomy != Some(offset) {
            // Everything else comes at this offset or above.
            if !self.has_room(&frame.items, offset) {
                frame.candidates.clear();
                return None;
            }
            frame.roomy = Some(offset);
        }
        frame.mark = self.log.len();
        frame.hatless = !self.problem.neighbours(item).iter().any(|j| !self.placed[*j as usize]);
        if !self.place(item, offset) {
            self.undo(frame.mark);
            if frame.hatless {
                frame.candidates.clear();
            }
            return Some(false);
        }
        let left: Vec<u32> = frame.items.iter().copied().filter(|i| *i != item).collect();
        frame.parts = self.parts(left, (offset, rank));
        if frame.parts.len() > 1 {
            // Parts have an order of their own, by what is left in them.
            for (part, _) in &frame.parts {
                for (r, i) in ranker(part, &self.rest).into_iter().enumerate() {
                    let old = std::mem::replace(&mut self.rank[i as usize], r as u32);
                    self.log.push(Undo::Rank(i, old));
                }
            }
        }
        Some(true)
    }

    /// Splits what is left where nothing reaches over. One part goes on in order; several begin anew.
    fn parts(&self, left: Vec<u32>, last: (u64, u32)) -> Vec<(Vec<u32>, Last)> {
        let mut end = 0;
        let whole = left.iter().enumerate().all(|(k, i)| {
            let span = self.problem.spans[*i as usize];
            let joined = k == 0 || span.0 < end;
            end = end.max(span.1);
            joined
        });
        if whole {
            return if left.is_empty() { Vec::new() } else { vec![(left, Some(last))] };
        }
        let (mut parts, mut end): (Vec<Vec<u32>>, u32) = (Vec::new(), 0);
        for i in left {
            let span = self.problem.spans[i as usize];
            match parts.last_mut() {
                Some(part) if span.0 < end => part.push(i),
                _ => parts.push(vec![i]),
            }
            end = end.max(span.1);
        }
        parts.into_iter().rev().map(|p| (p, None)).collect()
    }

    /// Whether every section that the items live in can still hold what is left of it from an offset on.
    fn has_room(&self, items: &[u32], offset: u64) -> bool {
        let first = items.first().map_or(0, |i| self.problem.spans[*i as usize].0);
        let end = items.iter().map(|i| self.problem.spans[*i as usize].1).max().unwrap_or(0);
        (first..end).all(|s| self.fits(s, offset))
    }

    fn fits(&self, section: u32, offset: u64) -> bool {
        let (rest, floor) = (self.rest[section as usize], self.floor[section as usize]);
        rest == 0 || floor.low.max(offset).saturating_add(rest) <= self.capacity
    }

    /// Places an item and pushes up what lives with it.
    fn place(&mut self, item: u32, offset: u64) -> bool {
        let i = item as usize;
        let (size, span) = (self.problem.items[i].size, self.problem.spans[i]);
        let top = offset.saturating_add(size);
        if top > self.capacity {
            return false;
        }
        self.placed[i] = true;
        self.log.push(Undo::Placed(item));
        for s in span.0..span.1 {
            self.rest[s as usize] -= size;
        }
        // The sections in which something changes.
        let (mut first, mut end) = span;
        let problem = self.problem;
        for &j in problem.neighbours(item) {
            let (other, old) = (&problem.items[j as usize], self.low[j as usize]);
            if self.placed[j as usize] || old >= top {
                continue;
            }
            let new = up(top, other.align);
            if new.saturating_add(other.size) > self.capacity || other.fixed.is_some_and(|f| new > f) {
                return false;
            }
            if new <= old {
                continue;
            }
            self.log.push(Undo::Low(j, old));
            self.low[j as usize] = new;
            let span = problem.spans[j as usize];
            (first, end) = (first.min(span.0), end.max(span.1));
        }
        for s in first..end {
            if self.rest[s as usize] > 0 && !self.holds(s) {
                self.lift(s);
                if !self.fits(s, offset) {
                    return false;
                }
            }
        }
        true
    }

    /// Whether a section's floor is still what it was.
    fn holds(&self, section: u32) -> bool {
        let floor = self.floor[section as usize];
        self.low[floor.item as usize] == floor.low && !self.placed[floor.item as usize]
    }

    /// Finds a section's floor again.
    fn lift(&mut self, section: u32) {
        let (old, new) = (self.floor[section as usize], self.lowest(section));
        self.log.push(Undo::Floor(section, old));
        self.floor[section as usize] = new;
    }

    /// An item to be placed in a section from whose offset on all that is left fits; the lowest, where none is so low.
    ///
    /// What is left only gets less, so that the one stays good enough for as long as it is there.
    fn lowest(&self, section: u32) -> Floor {
        let enough = self.capacity.saturating_sub(self.rest[section as usize]);
        let mut lowest = Floor { low: u64::MAX, item: 0 };
        for i in &self.members[section as usize] {
            let low = self.low[*i as usize];
            if low < lowest.low && !self.placed[*i as usize] {
                lowest = Floor { low, item: *i };
                if low <= enough {
                    break;
                }
            }
        }
        lowest
    }

    fn undo(&mut self, mark: usize) {
        while self.log.len() > mark {
            match self.log.pop() {
                Some(Undo::Low(i, low)) => self.low[i as usize] = low,
                Some(Undo::Rank(i, rank)) => self.rank[i as usize] = rank,
                Some(Undo::Floor(s, floor)) => self.floor[s as usize] = floor,
                Some(Undo::Placed(item)) => {
                    self.placed[item as usize] = false;
                    let (size, span) = (self.problem.items[item as usize].size, self.problem.spans[item as usize]);
                    for s in span.0..span.1 {
                        self.rest[s as usize] += size;
                    }
                }
                None => return,
            }
        }
    }
}

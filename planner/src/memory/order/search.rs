//! The best order of a block, by best-first search over what has been done, as far as a number of states allows; where it
//! does not, a good one by a search of limited width.
//!
//! A ready step that neither exceeds the peak so far nor leaves more than it found is run at once: no order is lost by that.
//! What has been done decides what is live, so that one way to each set of done steps is enough: the one with the lowest peak.

use super::flow::{Flow, Progress};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

/// The most states for a block of few steps; a block of many gets fewer.
const MAX_STATES: usize = 50_000;
/// States times steps beyond which the search gives up.
const MAX_WORK: usize = 4_000_000;
/// The most states that are kept at a time where not all are.
const WIDTH: usize = 64;
/// Fewer are not worth the time.
const MIN_WIDTH: usize = 16;
/// What is kept at a time, times steps.
const WIDE_WORK: usize = 100_000;
/// The most steps that are tried from one state where not all are.
const BRANCHES: usize = 32;

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The order.
    pub order: Vec<u32>,
    /// Whether no other has a lower peak.
    pub proven: bool,
}

/// An order with a lower peak than `peak` if one is found, else `order`.
pub fn improve(flow: &Flow, order: Vec<u32>, peak: u64) -> Found {
    if peak <= flow.bound() {
        return Found { order, proven: true };
    }
    let states = MAX_STATES.min(MAX_WORK / (flow.len() + 1));
    let mut search = Search { flow, nodes: Vec::new(), limit: peak };
    match search.exact(states) {
        Outcome::Best(order) => return Found { order, proven: true },
        Outcome::None => return Found { order, proven: true },
        Outcome::GaveUp => search.nodes.clear(),
    }
    let width = WIDTH.min(WIDE_WORK / (flow.len() + 1));
    let better = if width >= MIN_WIDTH { search.wide(width) } else { None };
    Found { order: better.unwrap_or(order), proven: false }
}

enum Outcome {
    /// The best order, which is below the limit.
    Best(Vec<u32>),
    /// No order is below the limit.
    None,
    /// There were too many states.
    GaveUp,
}

/// A state of the search.
#[derive(Clone)]
struct State {
    progress: Progress,
    ready: Vec<u32>,
    peak: u64,
    done: usize,
    /// The way to it.
    node: usize,
}

/// A part of a way.
struct Node {
    parent: usize,
    /// The steps run since the parent.
    steps: Vec<u32>,
}

struct Search<'a> {
    flow: &'a Flow,
    nodes: Vec<Node>,
    /// Only lower peaks are of interest.
    limit: u64,
}

impl Search<'_> {
    fn exact(&mut self, most: usize) -> Outcome {
        let mut seen: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
        // The lowest peak first, then the furthest, then the first found.
        let mut open: BinaryHeap<(Reverse<u64>, usize, Reverse<usize>)> = BinaryHeap::new();
        let root = self.root();
        open.push((Reverse(root.peak), root.done, Reverse(0)));
        let mut states = vec![Some(root)];
        while let Some((Reverse(peak), _, Reverse(i))) = open.pop() {
            let Some(state) = states.get_mut(i).and_then(Option::take) else { continue };
            if state.done == self.flow.len() {
                return Outcome::Best(self.path(state.node));
            }
            if seen.get(&state.progress.done).is_some_and(|better| *better < peak) {
                continue;
            }
            if states.len() > most {
                return Outcome::GaveUp;
            }
            for step in state.ready.clone() {
                let Some(next) = self.after(&state, step) else { continue };
                if seen.get(&next.progress.done).is_some_and(|known| *known <= next.peak) {
                    continue;
                }
                seen.insert(next.progress.done.clone(), next.peak);
                open.push((Reverse(next.peak), next.done, Reverse(states.len())));
                states.push(Some(next));
            }
        }
        Outcome::None
    }

    /// Goes forward with the best states of each depth alone.
    fn wide(&mut self, width: usize) -> Option<Vec<u32>> {
        let mut best = None;
        let mut level = vec![self.root()];
        while !level.is_empty() {
            let mut next: BTreeMap<Vec<u64>, State> = BTreeMap::new();
            for state in &level {
                for step in self.branches(state) {
                    let Some(after) = self.after(state, step) else { continue };
                    if after.done == self.flow.len() {
                        self.limit = after.peak;
                        best = Some(after.node);
                        continue;
                    }
                    let key = |s: &State| (s.peak, s.progress.live);
                    match next.get_mut(&after.progress.done) {
                        Some(known) if key(known) <= key(&after) => {}
                        Some(known) => *known = after,
                        None => {
                            next.insert(after.progress.done.clone(), after);
                        }
                    }
                }
            }
            level = next.into_values().filter(|s| s.peak < self.limit).collect();
            // Stable, and from a sorted map: equals stay in the order of what has been done.
            level.sort_by_key(|s| (s.peak, s.progress.live));
            level.truncate(width);
        }
        best.map(|node| self.path(node))
    }

    /// The steps to be tried from a state, those that need and leave least.
    fn branches(&self, state: &State) -> Vec<u32> {
        let mut ready = state.ready.clone();
        if ready.len() > BRANCHES {
            ready.sort_by_key(|s| {
                let cost = self.flow.cost(&state.progress, *s);
                (cost.during.max(state.peak), cost.after, *s)
            });
            ready.truncate(BRANCHES);
        }
        ready
    }

    fn root(&mut self) -> State {
        let progress = self.flow.start();
        let ready = self.flow.ready(&progress);
        let mut state = State { progress, ready, peak: 0, done: 0, node: 0 };
        self.settle(&mut state, usize::MAX, Vec::new());
        state
    }

    /// The state after a step; none where the limit is reached.
    fn after(&mut self, state: &State, step: u32) -> Option<State> {
        let peak = state.peak.max(self.flow.cost(&state.progress, step).during);
        if peak >= self.limit {
            return None;
        }
        let mut next = State { peak, ..state.clone() };
        self.advance(&mut next, step);
        self.settle(&mut next, state.node, vec![step]);
        Some(next)
    }

    /// Runs whatever can be run at no cost, and notes the way.
    fn settle(&mut self, state: &mut State, parent: usize, mut steps: Vec<u32>) {
        while let Some(step) = state.ready.iter().copied().filter(|s| self.is_safe(state, *s)).min() {
            self.advance(state, step);
            steps.push(step);
        }
        state.node = self.nodes.len();
        self.nodes.push(Node { parent, steps });
    }

    fn is_safe(&self, state: &State, step: u32) -> bool {
        let cost = self.flow.cost(&state.progress, step);
        cost.during <= state.peak && cost.after <= state.progress.live
    }

    fn advance(&self, state: &mut State, step: u32) {
        self.flow.run(&mut state.progress, step);
        state.ready.retain(|s| *s != step);
        for next in &self.flow.after[step as usize] {
            if self.flow.is_ready(&state.progress, *next) {
                state.ready.push(*next);
            }
        }
        state.done += 1;
    }

    fn path(&self, mut i: usize) -> Vec<u32> {
        let mut parts = Vec::new();
        while let Some(node) = self.nodes.get(i) {
            parts.push(node.steps.as_slice());
            i = node.parent;
        }
        parts.into_iter().rev().flatten().copied().collect()
    }
}

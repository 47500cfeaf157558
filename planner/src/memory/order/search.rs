//! The best order of a block, by best-first search over what has been done, as far as a number of states allows.
//!
//! A ready step that neither exceeds the peak so far nor leaves more than it found is run at once: no order is lost by that.
//! What has been done decides what is live, so that one way to each set of done steps is enough: the one with the lowest peak.

use super::flow::{Flow, Progress};
use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

/// The most states for a block of few steps; a block of many gets fewer.
const MAX_STATES: usize = 20_000;

struct Node {
    progress: Progress,
    ready: Vec<u32>,
    peak: u64,
    parent: usize,
    /// The steps run since the parent.
    steps: Vec<u32>,
    done: usize,
}

/// An order with a lower peak than `peak` if one is found, else `order`.
pub fn improve(flow: &Flow, order: Vec<u32>, peak: u64) -> Vec<u32> {
    if peak <= flow.bound() {
        return order;
    }
    Search { flow, nodes: Vec::new(), limit: peak }.run().unwrap_or(order)
}

struct Search<'a> {
    flow: &'a Flow,
    nodes: Vec<Node>,
    /// Only lower peaks are of interest.
    limit: u64,
}

impl Search<'_> {
    fn run(&mut self) -> Option<Vec<u32>> {
        let most = MAX_STATES.min(4_000_000 / (self.flow.len() + 1));
        let mut seen: BTreeSet<Vec<u64>> = BTreeSet::new();
        // The lowest peak first, then the furthest, then the first found.
        let mut open: BinaryHeap<(Reverse<u64>, usize, Reverse<usize>)> = BinaryHeap::new();
        let start = self.flow.start();
        let ready = self.flow.ready(&start);
        let root = Node { progress: start, ready, peak: 0, parent: usize::MAX, steps: Vec::new(), done: 0 };
        self.push(root, &mut open)?;
        while let Some((_, _, Reverse(i))) = open.pop() {
            let node = self.nodes.get(i)?;
            if node.done == self.flow.len() {
                return Some(self.path(i));
            }
            if !seen.insert(node.progress.done.clone()) {
                continue;
            }
            if self.nodes.len() > most {
                return None;
            }
            for step in node.ready.clone() {
                let Some(node) = self.nodes.get(i) else { continue };
                let peak = node.peak.max(self.flow.cost(&node.progress, step).during);
                if peak >= self.limit {
                    continue;
                }
                let mut next = Node {
                    progress: node.progress.clone(),
                    ready: node.ready.clone(),
                    peak,
                    parent: i,
                    steps: Vec::new(),
                    done: node.done,
                };
                self.advance(&mut next, step);
                if !seen.contains(&next.progress.done) {
                    self.push(next, &mut open);
                }
            }
        }
        None
    }

    /// Adds a node after running whatever can be run at no cost.
    fn push(&mut self, mut node: Node, open: &mut BinaryHeap<(Reverse<u64>, usize, Reverse<usize>)>) -> Option<()> {
        while let Some(step) = node.ready.iter().copied().filter(|s| self.is_safe(&node, *s)).min() {
            self.advance(&mut node, step);
        }
        open.push((Reverse(node.peak), node.done, Reverse(self.nodes.len())));
        self.nodes.push(node);
        Some(())
    }

    fn is_safe(&self, node: &Node, step: u32) -> bool {
        let cost = self.flow.cost(&node.progress, step);
        cost.during <= node.peak && cost.after <= node.progress.live
    }

    fn advance(&self, node: &mut Node, step: u32) {
        self.flow.run(&mut node.progress, step);
        node.ready.retain(|s| *s != step);
        for next in &self.flow.after[step as usize] {
            if self.flow.is_ready(&node.progress, *next) {
                node.ready.push(*next);
            }
        }
        node.steps.push(step);
        node.done += 1;
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

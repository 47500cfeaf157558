//! Changing nodes. Whatever becomes of a node, here is said what becomes of the workspace that was reserved for it: rewrites have no
//! other way to change one, so that none can forget.

use super::{B, Graph, N, Node, Op, V};
use crate::workspace::Bound;
use std::collections::BTreeMap;

impl Graph {
    /// The nodes, in no order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The nodes that run: those of the first block and of the blocks that they own, in order.
    pub fn live_nodes(&self) -> Vec<N> {
        fn add(graph: &Graph, b: B, found: &mut Vec<N>) {
            for n in &graph.blocks[b.index()].nodes {
                found.push(*n);
                Graph::blocks_of(&graph.node(*n).op).into_iter().for_each(|inner| add(graph, inner, found));
            }
        }
        let mut found = Vec::new();
        if !self.blocks.is_empty() {
            add(self, Graph::MAIN, &mut found);
        }
        found
    }

    /// Reserves workspace for a node.
    pub(crate) fn reserve(&mut self, n: N, bound: Bound) {
        self.nodes[n.index()].reserved = Some(bound);
    }

    /// Gives a node another operation and other operands. It does the work of the nodes in `taken`, too, and what was reserved for
    /// them is added to its own: the two may have to lie side by side.
    pub(crate) fn replace(&mut self, n: N, op: Op, reads: Vec<Option<V>>, taken: &[N]) {
        for from in taken.iter().filter(|from| **from != n) {
            self.hand_over(*from, n);
        }
        let node = &mut self.nodes[n.index()];
        (node.op, node.reads) = (op, reads);
    }

    /// `new` does the work of `old` from now on.
    pub(crate) fn succeed(&mut self, old: N, new: N) {
        self.hand_over(old, new);
    }

    fn hand_over(&mut self, from: N, to: N) {
        if let Some(more) = self.nodes[from.index()].reserved.take() {
            let own = &mut self.nodes[to.index()].reserved;
            *own = Some(own.take().map_or(more.clone(), |own| own.plus(&more)));
        }
    }

    /// Gives back what was reserved for a node that does not run any more, and for the nodes of its blocks.
    pub(crate) fn retire(&mut self, n: N) {
        self.nodes[n.index()].reserved = None;
        for b in Graph::blocks_of(&self.nodes[n.index()].op) {
            for inner in self.blocks[b.index()].nodes.clone() {
                self.retire(inner);
            }
        }
    }

    /// A node makes one of its writes no more.
    pub(crate) fn drop_write(&mut self, n: N, port: usize) {
        if let Some(write) = self.nodes[n.index()].writes.get_mut(port) {
            *write = None;
        }
    }

    /// Replaces values everywhere. The new ones are defined wherever the old ones were.
    pub(crate) fn substitute(&mut self, map: &BTreeMap<V, V>) {
        if map.is_empty() {
            return;
        }
        let follow = |mut v: V| {
            while let Some(next) = map.get(&v) {
                v = *next;
            }
            v
        };
        for node in &mut self.nodes {
            node.reads.iter_mut().flatten().for_each(|v| *v = follow(*v));
        }
        for block in &mut self.blocks {
            block.results.iter_mut().for_each(|v| *v = follow(*v));
        }
        self.outputs.iter_mut().for_each(|p| p.value = follow(p.value));
    }
}

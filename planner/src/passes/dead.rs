//! Dead code: nodes that nothing uses go, and writes that nobody wants are dropped. A node is used, too, where it finds an extent
//! that something else names.

use super::{Changed, Context};
use crate::graph::{B, Graph, N, Op, V, View};
use plan::{ExprId, SymbolId};
use std::collections::BTreeSet;

pub(super) fn run(graph: &mut Graph, _: &mut Context) -> Changed {
    let mut live = Live::default();
    for port in 0..graph.outputs.len() {
        live.value(graph, graph.outputs[port].value);
    }
    let mut changed = Changed::No;
    sweep(graph, Graph::MAIN, &mut live, &mut changed);
    for v in (0..graph.values.len()).map(|i| V(i as u32)).filter(|v| !live.values.contains(v)) {
        graph.forget(v);
    }
    changed
}

/// What somebody needs.
#[derive(Default)]
struct Live {
    values: BTreeSet<V>,
    /// Extents that a node finds while it runs.
    symbols: BTreeSet<SymbolId>,
    /// Those that were looked at.
    exprs: BTreeSet<ExprId>,
}

impl Live {
    fn value(&mut self, graph: &Graph, v: V) {
        if self.values.insert(v) {
            let value = graph.value(v);
            value.dims.iter().chain(value.known.iter().flat_map(|k| k.iter())).for_each(|e| self.expr(graph, *e));
        }
    }

    fn expr(&mut self, graph: &Graph, e: ExprId) {
        if self.exprs.insert(e) && graph.exprs.as_const(e).is_none() {
            self.symbols.extend(graph.exprs.symbols_of(e));
        }
    }

    /// Whether a node makes anything that is needed.
    fn needs(&self, graph: &Graph, n: N) -> bool {
        let node = graph.node(n);
        let inner = Graph::blocks_of(&node.op).into_iter().flat_map(|b| &graph.blocks[b.index()].defines);
        node.writes.iter().flatten().any(|w| self.values.contains(w))
            || node.defines.iter().chain(inner.map(|(s, _)| s)).any(|s| self.symbols.contains(s))
    }

    /// Marks what a node needs itself.
    fn node(&mut self, graph: &Graph, n: N) {
        let node = graph.node(n);
        let dims = node.writes.iter().flatten().flat_map(|v| graph.value(*v).dims.iter());
        dims.for_each(|e| self.expr(graph, *e));
        node.reads.iter().flatten().for_each(|v| self.value(graph, *v));
        match &node.op {
            Op::Prim(prim) => {
                prim.map_extents(&mut |e| {
                    self.expr(graph, e);
                    e
                });
            }
            Op::View(View::Slice { start, .. }) => start.iter().for_each(|e| self.expr(graph, *e)),
            Op::View(_) | Op::If { .. } => {}
            Op::Loop(l) => self.expr(graph, l.max_trips),
        }
        for block in Graph::blocks_of(&node.op) {
            let block = &graph.blocks[block.index()];
            block.results.iter().for_each(|v| self.value(graph, *v));
            block.defines.iter().for_each(|(_, e)| self.expr(graph, *e));
        }
    }
}

/// Walks a block backwards: a node lives if a write of it does, or an extent that it finds.
fn sweep(graph: &mut Graph, b: B, live: &mut Live, changed: &mut Changed) {
    let nodes = std::mem::take(&mut graph.blocks[b.index()].nodes);
    let mut kept = Vec::with_capacity(nodes.len());
    for n in nodes.iter().rev() {
        if !live.needs(graph, *n) {
            *changed = Changed::Yes;
            graph.retire(*n);
            continue;
        }
        live.node(graph, *n);
        for block in Graph::blocks_of(&graph.node(*n).op) {
            sweep(graph, block, live, changed);
        }
        drop_writes(graph, *n, &live.values);
        kept.push(*n);
    }
    kept.reverse();
    graph.blocks[b.index()].nodes = kept;
}

/// Optional writes that nobody wants are not made. The first of a primitive always is.
fn drop_writes(graph: &mut Graph, n: N, live: &BTreeSet<V>) {
    let node = graph.node(n);
    let Op::Prim(prim) = &node.op else { return };
    let (required, recurrent) = (prim.traits().writes.0, matches!(prim, plan::Primitive::Rnn(_)));
    let unwanted = |(i, w): (usize, &Option<V>)| {
        let dropped = w.is_some_and(|w| !live.contains(&w)) && (i >= required || recurrent);
        dropped.then_some(i)
    };
    let ports: Vec<usize> = node.writes.iter().enumerate().filter_map(unwanted).collect();
    ports.into_iter().for_each(|port| graph.drop_write(n, port));
}

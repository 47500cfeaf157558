//! Dead code: nodes that nothing uses go, and writes that nobody wants are dropped.

use super::{Changed, Context};
use crate::graph::{B, Graph, Op, V};
use std::collections::BTreeSet;

pub(super) fn run(graph: &mut Graph, _: &mut Context) -> Changed {
    let mut live: BTreeSet<V> = graph.outputs.iter().map(|p| p.value).collect();
    let mut changed = Changed::No;
    sweep(graph, Graph::MAIN, &mut live, &mut changed);
    changed
}

/// Walks a block backwards: a node lives if a write of it does.
fn sweep(graph: &mut Graph, b: B, live: &mut BTreeSet<V>, changed: &mut Changed) {
    let nodes = std::mem::take(&mut graph.blocks[b.index()].nodes);
    let mut kept = Vec::with_capacity(nodes.len());
    for n in nodes.iter().rev() {
        let node = graph.node(*n);
        // A node that defines an extent lives as long as any value whose dims may name it, so it is kept.
        if !node.writes.iter().flatten().any(|w| live.contains(w)) {
            *changed = Changed::Yes;
            continue;
        }
        let inner = Graph::blocks_of(&node.op);
        live.extend(node.reads.iter().flatten().copied());
        for block in &inner {
            live.extend(graph.blocks[block.index()].results.iter().copied());
        }
        for block in inner {
            sweep(graph, block, live, changed);
        }
        drop_writes(graph, *n, live);
        kept.push(*n);
    }
    kept.reverse();
    graph.blocks[b.index()].nodes = kept;
}

/// Optional writes that nobody wants are not made. The first of a primitive always is.
fn drop_writes(graph: &mut Graph, n: crate::graph::N, live: &BTreeSet<V>) {
    let node = &mut graph.nodes[n.index()];
    let Op::Prim(prim) = &node.op else { return };
    let required = prim.traits().writes.0;
    for (i, w) in node.writes.iter_mut().enumerate() {
        if w.is_some_and(|w| !live.contains(&w)) && (i >= required || matches!(prim, plan::Primitive::Rnn(_))) {
            *w = None;
        }
    }
}

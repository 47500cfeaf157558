//! Common subexpressions: of equal nodes with equal operands, the first stays.

use super::{Changed, Context};
use crate::graph::{B, Graph, Op, V};
use plan::Primitive;
use std::collections::BTreeMap;

type Seen = BTreeMap<(String, Vec<Option<V>>), Vec<Option<V>>>;

pub(super) fn run(graph: &mut Graph, _: &mut Context) -> Changed {
    let mut map = BTreeMap::new();
    constants(graph, &mut map);
    let mut seen = Seen::new();
    block(graph, Graph::MAIN, &mut seen, &mut map);
    graph.substitute(&map);
    if map.is_empty() { Changed::No } else { Changed::Yes }
}

/// Equal constants: those that share their bytes, and small ones with equal bytes.
fn constants(graph: &Graph, map: &mut BTreeMap<V, V>) {
    let mut seen = BTreeMap::new();
    for i in 0..graph.values.len() {
        let v = V(i as u32);
        let Some(data) = graph.constant_of(v) else { continue };
        let value = graph.value(v);
        let small = if data.len() <= 4096 { data.to_vec() } else { Vec::new() };
        let key = (
            value.dtype,
            value.dims.to_vec(),
            data.len(),
            if small.is_empty() { data.as_ptr() as usize } else { 0 },
            small,
        );
        match seen.get(&key) {
            Some(first) => {
                map.insert(v, *first);
            }
            None => {
                seen.insert(key, v);
            }
        }
    }
}

fn block(graph: &Graph, b: B, seen: &mut Seen, map: &mut BTreeMap<V, V>) {
    for n in &graph.blocks[b.index()].nodes {
        let node = graph.node(*n);
        for inner in Graph::blocks_of(&node.op) {
            block(graph, inner, &mut seen.clone(), map);
        }
        let pure = match &node.op {
            Op::Prim(Primitive::Random(_)) => false,
            Op::Prim(_) | Op::View(_) => node.defines.is_empty(),
            Op::If { .. } | Op::Loop(_) => false,
        };
        if !pure {
            continue;
        }
        let reads: Vec<Option<V>> = node.reads.iter().map(|r| r.map(|v| map.get(&v).copied().unwrap_or(v))).collect();
        let dims: Vec<_> = node.writes.iter().map(|w| w.map(|w| (graph.value(w).dtype, graph.value(w).dims))).collect();
        let key = (format!("{:?} {dims:?}", node.op), reads);
        match seen.get(&key) {
            Some(first) if first.iter().map(Option::is_some).eq(node.writes.iter().map(Option::is_some)) => {
                for (old, new) in node.writes.iter().zip(first) {
                    if let (Some(old), Some(new)) = (old, new) {
                        map.insert(*old, *new);
                    }
                }
            }
            Some(_) => {}
            None => {
                seen.insert(key, node.writes.clone());
            }
        }
    }
}

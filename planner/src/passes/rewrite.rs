//! What rewrites share: who uses what, recognising constants, adding nodes in the middle of a block.

use crate::graph::{B, Builder, Graph, N, Op, Problem, V, View};
use plan::{DType, Primitive, prim::*};
use std::collections::BTreeMap;

/// How often each value is used: by nodes, as an output, as a body's result.
pub(super) fn use_counts(graph: &Graph) -> Vec<u32> {
    let mut uses = vec![0u32; graph.values.len()];
    let mut count = |v: V| {
        if let Some(u) = uses.get_mut(v.index()) {
            *u += 1;
        }
    };
    for block in &graph.blocks {
        for n in &block.nodes {
            graph.node(*n).reads.iter().flatten().for_each(|v| count(*v));
        }
        block.results.iter().for_each(|v| count(*v));
    }
    graph.outputs.iter().for_each(|p| count(p.value));
    uses
}

/// Runs `f` with a builder whose new nodes are returned, to be placed by the caller.
pub(super) fn build<T>(
    graph: &mut Graph,
    origin: &str,
    f: impl FnOnce(&mut Builder) -> Result<T, Problem>,
) -> (Result<T, Problem>, Vec<N>) {
    let mut builder = Builder::new("");
    builder.graph = std::mem::take(graph);
    builder.origin = origin.to_owned();
    let (block, outer) = builder.open_block();
    let done = f(&mut builder);
    builder.close_block(Vec::new(), outer);
    *graph = builder.graph;
    let nodes = std::mem::take(&mut graph.blocks[block.index()].nodes);
    // The block was a place to write to only.
    if block.index() + 1 == graph.blocks.len() {
        graph.blocks.pop();
    }
    (done, nodes)
}

/// Calls `f` for each node of each block, in order; it returns nodes to be placed before that node.
pub(super) fn each_node(graph: &mut Graph, mut f: impl FnMut(&mut Graph, N) -> Vec<N>) -> bool {
    let mut inserted = false;
    for b in 0..graph.blocks.len() {
        let nodes = std::mem::take(&mut graph.blocks[b].nodes);
        let mut out = Vec::with_capacity(nodes.len());
        for n in nodes {
            let before = f(graph, n);
            inserted |= !before.is_empty();
            out.extend(before);
            out.push(n);
        }
        graph.blocks[b].nodes = out;
    }
    inserted
}

/// The block of each node.
pub(super) fn blocks_of_nodes(graph: &Graph) -> BTreeMap<N, B> {
    let mut map = BTreeMap::new();
    for (b, block) in graph.blocks.iter().enumerate() {
        map.extend(block.nodes.iter().map(|n| (*n, B(b as u32))));
    }
    map
}

impl Graph {
    /// The value that a broadcast or a reshape looks at, through any number of them.
    pub(super) fn behind_views(&self, mut v: V) -> V {
        while let Some((n, _)) = self.producer_of(v)
            && let Op::View(View::Broadcast | View::Reshape) = &self.node(n).op
            && let Some(Some(from)) = self.node(n).reads.first()
        {
            v = *from;
        }
        v
    }

    /// The value that a broadcast repeats; the value itself where it is none.
    pub(super) fn behind_broadcast(&self, v: V) -> V {
        match self.producer_of(v) {
            Some((n, _)) if self.node(n).op == Op::View(View::Broadcast) => {
                self.node(n).reads.first().copied().flatten().unwrap_or(v)
            }
            _ => v,
        }
    }

    /// The number that a value is in every element, where it is a constant of one element, perhaps broadcast.
    pub(super) fn splat(&self, v: V) -> Option<f64> {
        let v = self.behind_views(v);
        let data = self.constant_of(v)?;
        let dtype = self.value(v).dtype;
        if Some(data.len()) != dtype.size() {
            return None;
        }
        Some(match dtype {
            DType::F32 => f32::from_le_bytes(data.as_ref().try_into().ok()?).into(),
            DType::F64 => f64::from_le_bytes(data.as_ref().try_into().ok()?),
            DType::F16 => half::f16::from_le_bytes(data.as_ref().try_into().ok()?).to_f64(),
            DType::BF16 => half::bf16::from_le_bytes(data.as_ref().try_into().ok()?).to_f64(),
            _ => {
                let known = self.value(v).known.as_ref()?;
                self.exprs.as_const(*known.first()?)? as f64
            }
        })
    }

    /// The bits of the element that a value is everywhere, where it is a constant of one element, perhaps broadcast.
    pub(super) fn splat_bits(&self, v: V) -> Option<u64> {
        let v = self.behind_views(v);
        let data = self.constant_of(v)?;
        if Some(data.len()) != self.value(v).dtype.size() || data.len() > 8 {
            return None;
        }
        let mut bits = [0u8; 8];
        bits.get_mut(..data.len())?.copy_from_slice(data);
        Some(u64::from_le_bytes(bits))
    }

    /// Where `v`, which has `rank` axes, varies only along `axis`: what it is a broadcast of, and that one's element count is the
    /// extent of the axis (or 1).
    pub(super) fn varies_along(&self, v: V, axis: usize) -> Option<V> {
        let rank = self.value(v).dims.len();
        let base = self.behind_broadcast(v);
        let dims = &self.value(base).dims;
        let lead = rank.checked_sub(dims.len())?;
        let one = |d: &plan::ExprId| self.exprs.as_const(*d) == Some(1);
        dims.iter().enumerate().all(|(i, d)| i + lead == axis || one(d)).then_some(base)
    }

    /// The only instruction of an elementwise node.
    pub(super) fn single_instruction(&self, n: N) -> Option<MapInstr> {
        match &self.node(n).op {
            Op::Prim(Primitive::Map(map)) if map.code.len() == 1 => map.code.first().copied(),
            _ => None,
        }
    }

    /// Read `i` of a node.
    pub(super) fn read(&self, n: N, i: usize) -> Option<V> {
        self.node(n).reads.get(i).copied().flatten()
    }

    /// Write `i` of a node.
    pub(super) fn write(&self, n: N, i: usize) -> Option<V> {
        self.node(n).writes.get(i).copied().flatten()
    }

    /// The primitive that makes a value.
    pub(super) fn prim_of(&self, v: V) -> Option<(N, &Primitive<plan::ExprId>)> {
        let (n, _) = self.producer_of(v)?;
        match &self.node(n).op {
            Op::Prim(p) => Some((n, p)),
            _ => None,
        }
    }
}

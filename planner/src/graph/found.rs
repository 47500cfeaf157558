//! Primitives that find an extent while they run, and going back to an earlier state of the graph.

use super::{B, Builder, Op, V, builder::Result};
use plan::{DType, ExprId, Primitive};
use std::collections::BTreeSet;

/// One write of a primitive that finds a count.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Element type.
    pub dtype: DType,
    /// Extents, with room for the largest count.
    pub dims: Vec<ExprId>,
    /// The axis of which only the first so many are written; none: all is written.
    pub axis: Option<usize>,
}

impl Counted {
    /// A write of which all is written up to the count along an axis.
    pub fn new(dtype: DType, dims: Vec<ExprId>, axis: impl Into<Option<usize>>) -> Counted {
        Counted { dtype, dims, axis: axis.into() }
    }
}

/// A state of the graph to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    values: usize,
    nodes: usize,
    blocks: usize,
    constants: usize,
    guards: usize,
    warnings: usize,
    block: B,
    in_block: usize,
}

impl Builder {
    /// Adds a primitive that finds a count, at most `bound`, while it runs. It writes tensors with room for `bound`; the results are
    /// views of the part that it fills. Where all operands are constants the count is one, too.
    ///
    /// # Errors
    /// When nothing bounds the count, or a constant makes the kernel fail.
    pub fn emit_counted(
        &mut self,
        prim: impl Into<Primitive<ExprId>>,
        reads: &[Option<V>],
        writes: &[Counted],
        bound: ExprId,
    ) -> Result<Vec<V>> {
        let prim = prim.into();
        let (parts, count) = match self.fold_counted(&prim, reads, writes)? {
            Some((parts, count)) => (parts, self.int(count)),
            None => {
                let name = format!("{} of {}", prim.traits().name, self.origin);
                let symbol = self.run_symbol(name, bound)?;
                let targets: Vec<(DType, Vec<ExprId>)> = writes.iter().map(|w| (w.dtype, w.dims.clone())).collect();
                let parts = self.push(Op::Prim(prim), reads, &targets)?;
                if let Some(node) = self.graph.nodes.last_mut() {
                    node.defines = vec![symbol];
                }
                (parts, self.graph.exprs.of_symbol(symbol))
            }
        };
        let (zero, mut out) = (self.int(0), Vec::new());
        for (part, write) in parts.into_iter().zip(writes) {
            out.push(match write.axis {
                Some(axis) => self.narrow(part, axis, zero, count)?,
                None => part,
            });
        }
        Ok(out)
    }

    fn fold_counted(
        &mut self,
        prim: &Primitive<ExprId>,
        reads: &[Option<V>],
        writes: &[Counted],
    ) -> Result<Option<(Vec<V>, i64)>> {
        let targets: Vec<(DType, Vec<ExprId>)> = writes.iter().map(|w| (w.dtype, w.dims.clone())).collect();
        let mut found = [0];
        let folded = self.fold_with(prim, reads, &targets, &mut found)?;
        Ok(folded.map(|(out, found)| (out, found.first().copied().unwrap_or(0))))
    }

    /// The state of the graph, to go back to with [`Builder::rollback`].
    pub fn mark(&self) -> Mark {
        let g = &self.graph;
        Mark {
            values: g.values.len(),
            nodes: g.nodes.len(),
            blocks: g.blocks.len(),
            constants: g.constants.len(),
            guards: g.guards.len(),
            warnings: self.warnings.len(),
            block: self.block,
            in_block: g.blocks.get(self.block.index()).map_or(0, |b| b.nodes.len()),
        }
    }

    /// Gives back the constants that were computed since `mark` on the way to `kept`, and that no node reads.
    pub fn forget_steps(&mut self, mark: &Mark, kept: &[V]) {
        let g = &mut self.graph;
        if g.constants.len() == mark.constants {
            return;
        }
        let mut read: BTreeSet<V> = kept.iter().copied().collect();
        read.extend(g.nodes.iter().skip(mark.nodes).flat_map(|n| n.reads.iter().flatten().copied()));
        read.extend(g.blocks.iter().skip(mark.blocks).flat_map(|b| b.results.iter().copied()));
        for v in (mark.values..g.values.len()).map(|i| V(i as u32)).filter(|v| !read.contains(v)) {
            g.forget(v);
        }
    }

    /// Forgets everything that was added since `mark`, but for expressions and symbols, which do no harm.
    pub fn rollback(&mut self, mark: &Mark) {
        let g = &mut self.graph;
        g.values.truncate(mark.values);
        g.nodes.truncate(mark.nodes);
        g.blocks.truncate(mark.blocks);
        for gone in g.constants.drain(mark.constants..).filter(|c| c.counted) {
            g.folded_bytes = g.folded_bytes.saturating_sub(gone.bytes.len());
        }
        g.guards.truncate(mark.guards);
        self.warnings.truncate(mark.warnings);
        self.block = mark.block;
        if let Some(block) = g.blocks.get_mut(mark.block.index()) {
            block.nodes.truncate(mark.in_block);
        }
    }
}

//! Primitives that find an extent while they run, and going back to an earlier state of the graph.

use super::{B, Builder, Op, Problem, V, builder::Result, emit};
use kernels::Fault;
use plan::{DType, ExprId, Primitive};

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
        let mut sources = Vec::new();
        for r in reads {
            let Some(v) = r else {
                sources.push(None);
                continue;
            };
            let (Some(bytes), Some(dims)) = (self.graph.constant_of(*v), self.graph.static_dims(*v)) else {
                return Ok(None);
            };
            sources.push(Some((self.dtype(*v), dims, bytes.clone())));
        }
        let mut targets = Vec::new();
        for w in writes {
            let Some(dims) = self.const_ints(&w.dims) else { return Ok(None) };
            targets.push((w.dtype, dims.into_iter().map(|d| d.max(0) as usize).collect::<Vec<_>>()));
        }
        let mut unknown = false;
        let concrete = prim.map_extents(&mut |e| {
            self.graph.exprs.as_const(e).unwrap_or_else(|| {
                unknown = true;
                0
            })
        });
        if unknown {
            return Ok(None);
        }
        let mut found = [0];
        match emit::run(&concrete, &sources, &targets, &mut found, self.isa) {
            Ok(list) => {
                let mut out = Vec::new();
                for ((dtype, dims), bytes) in targets.into_iter().zip(list) {
                    out.push(self.constant(dtype, &dims, bytes, false)?);
                }
                Ok(Some((out, found[0])))
            }
            Err(Fault::Unsupported(_)) => Ok(None),
            Err(fault) => Err(Problem::new(format!("{} of constants: {fault}", prim.traits().name))),
        }
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

    /// Forgets everything that was added since `mark`, but for expressions and symbols, which do no harm.
    pub fn rollback(&mut self, mark: &Mark) {
        let g = &mut self.graph;
        g.values.truncate(mark.values);
        g.nodes.truncate(mark.nodes);
        g.blocks.truncate(mark.blocks);
        g.constants.truncate(mark.constants);
        g.guards.truncate(mark.guards);
        self.warnings.truncate(mark.warnings);
        self.block = mark.block;
        if let Some(block) = g.blocks.get_mut(mark.block.index()) {
            block.nodes.truncate(mark.in_block);
        }
    }
}

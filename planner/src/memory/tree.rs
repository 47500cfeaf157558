//! How the blocks of a plan nest, and a timeline on which they lie flat.

use super::Error;
use plan::{Action, BlockId, Plan, Step};

/// The deepest nesting of control flow that is planned.
const MAX_DEPTH: u32 = 100;

/// The tree of blocks: each but the first hangs on one step of another.
pub struct Tree {
    parents: Vec<Option<(u32, u32)>>,
    depths: Vec<u32>,
    /// Every block, parents before children.
    pub order: Vec<u32>,
}

impl Tree {
    /// The tree of a plan's blocks; checks every index in the plan on the way.
    pub fn new(plan: &Plan) -> Result<Tree, Error> {
        check_indices(plan)?;
        let n = plan.blocks.len();
        let mut tree = Tree { parents: vec![None; n], depths: vec![0; n], order: vec![0] };
        let mut next = 0;
        while let Some(&block) = tree.order.get(next) {
            next += 1;
            let depth = at(&tree.depths, block as usize, "block")? + 1;
            for (i, step) in at(&plan.blocks, block as usize, "block")?.steps.iter().enumerate() {
                for child in bodies(step).into_iter().flatten() {
                    let child = child.0;
                    if child == 0 || at(&tree.parents, child as usize, "block")?.is_some() {
                        return Err(Error::Blocks { block: child, why: "is run from more than one place" });
                    }
                    if depth > MAX_DEPTH {
                        return Err(Error::Blocks { block: child, why: "is nested too deeply" });
                    }
                    tree.parents[child as usize] = Some((block, i as u32));
                    tree.depths[child as usize] = depth;
                    tree.order.push(child);
                }
            }
        }
        match tree.parents.iter().skip(1).position(Option::is_none) {
            Some(i) => Err(Error::Blocks { block: i as u32 + 1, why: "is never run" }),
            None => Ok(tree),
        }
    }

    /// The block and step that run a block; none for the first.
    pub fn parent(&self, block: u32) -> Option<(u32, u32)> {
        self.parents.get(block as usize).copied().flatten()
    }

    /// How many steps of control flow a block lies in.
    pub fn depth(&self, block: u32) -> u32 {
        self.depths.get(block as usize).copied().unwrap_or(0)
    }

    /// The step of `ancestor` within which block `block` runs; none where it is not an ancestor, or the block itself.
    pub fn step_in(&self, ancestor: u32, mut block: u32) -> Option<u32> {
        loop {
            let (parent, step) = self.parent(block)?;
            if parent == ancestor {
                return Some(step);
            }
            block = parent;
        }
    }
}

/// The blocks that a step runs.
pub fn bodies(step: &Step) -> [Option<BlockId>; 2] {
    match step.action {
        Action::If { then_block, else_block, .. } => [Some(then_block), Some(else_block)],
        Action::Loop { body, .. } => [Some(body), None],
        Action::Run { .. } | Action::Define { .. } => [None, None],
    }
}

/// The element at an index, or an error that says what is missing.
pub fn at<'a, T>(list: &'a [T], index: usize, what: &'static str) -> Result<&'a T, Error> {
    list.get(index).ok_or(Error::Index { what, index })
}

fn check_indices(plan: &Plan) -> Result<(), Error> {
    at(&plan.blocks, 0, "block")?;
    let value = |v: plan::ValueId| at(&plan.values, v.index(), "value").map(drop);
    let expr = |e: plan::ExprId| at(&plan.exprs, e.index(), "expression").map(drop);
    let symbol = |s: plan::SymbolId| at(&plan.symbols, s.index(), "symbol").map(drop);
    for (i, e) in plan.exprs.iter().enumerate() {
        if let Some(operand) = e.operands().find(|o| o.index() >= i) {
            return Err(Error::Index { what: "earlier expression", index: operand.index() });
        }
        if let plan::Expr::Symbol(s) = e {
            symbol(*s)?;
        }
    }
    for v in &plan.values {
        at(&plan.buffers, v.place.buffer.index(), "buffer")?;
        expr(v.place.offset)?;
        v.dims.iter().chain(v.place.strides.iter().flat_map(|s| s.iter())).try_for_each(|e| expr(*e))?;
        v.root.map_or(Ok(()), value)?;
    }
    plan.buffers.iter().try_for_each(|b| expr(b.bytes))?;
    plan.inputs.iter().chain(&plan.outputs).try_for_each(|p| value(p.value))?;
    plan.states.iter().try_for_each(|s| value(s.current).and(value(s.next)))?;
    for step in plan.blocks.iter().flat_map(|b| &b.steps) {
        match &step.action {
            Action::Run { prim, reads, writes, workspace, defines } => {
                reads.iter().chain(writes).flatten().try_for_each(|v| value(*v))?;
                workspace.map_or(Ok(()), |b| at(&plan.buffers, b.index(), "buffer").map(drop))?;
                defines.iter().try_for_each(|s| symbol(*s))?;
                let mut bad = None;
                prim.map_extents(&mut |e: plan::ExprId| {
                    if let Err(error) = expr(e) {
                        bad = Some(error);
                    }
                    e
                });
                bad.map_or(Ok(()), Err)?;
            }
            Action::If { cond, .. } => value(*cond)?,
            Action::Loop { trip, cond, counter, max_trips, .. } => {
                trip.iter().chain(cond).try_for_each(|v| value(*v))?;
                symbol(*counter)?;
                expr(*max_trips)?;
            }
            Action::Define { symbol: s, value: v } => symbol(*s).and(expr(*v))?,
        }
    }
    Ok(())
}

/// The steps of all blocks laid out on one line: a body lies within the ticks of the step that runs it, the branches of an
/// `If` one after the other, so that they never meet.
pub struct Timeline {
    spans: Vec<Vec<(u64, u64)>>,
    /// The tick after the last.
    pub end: u64,
}

impl Timeline {
    /// The timeline of a plan.
    pub fn new(plan: &Plan, tree: &Tree) -> Timeline {
        let mut spans: Vec<Vec<(u64, u64)>> = plan.blocks.iter().map(|b| vec![(0, 0); b.steps.len()]).collect();
        // How many ticks each block takes, children first.
        let mut lengths = vec![0u64; plan.blocks.len()];
        for &b in tree.order.iter().rev() {
            let Some(block) = plan.blocks.get(b as usize) else { continue };
            lengths[b as usize] = block.steps.iter().map(|s| step_length(s, &lengths)).sum();
        }
        let mut starts = vec![0u64; plan.blocks.len()];
        for &b in &tree.order {
            let Some(block) = plan.blocks.get(b as usize) else { continue };
            let mut tick = starts[b as usize];
            for (i, step) in block.steps.iter().enumerate() {
                let mut inner = tick;
                for child in bodies(step).into_iter().flatten() {
                    starts[child.index()] = inner;
                    inner += lengths[child.index()];
                }
                let end = tick + step_length(step, &lengths);
                spans[b as usize][i] = (tick, end);
                tick = end;
            }
        }
        Timeline { spans, end: lengths.first().copied().unwrap_or(0) + 1 }
    }

    /// The half-open ticks of steps `first..=last` of a block; a `last` beyond the block's end means the run's end.
    pub fn span(&self, block: u32, first: u32, last: u32) -> (u64, u64) {
        let of = |step: u32| self.spans.get(block as usize).and_then(|b| b.get(step as usize)).copied();
        let start = of(first).map_or(self.end - 1, |s| s.0);
        (start, of(last).map_or(self.end, |s| s.1))
    }
}

fn step_length(step: &Step, lengths: &[u64]) -> u64 {
    let inner: u64 = bodies(step).into_iter().flatten().map(|b| lengths.get(b.index()).copied().unwrap_or(0)).sum();
    inner.max(1)
}

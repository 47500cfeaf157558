//! Blocks of the graph as blocks of steps.

use super::{Scheduler, copy_step, run_step};
use crate::graph::{B, LoopOp, N, Op, Problem, V};
use crate::workspace::{Bound, Declared, Operand};
use plan::{Action, Axes, Capture, Class, ExprId, Primitive, Step, ValueId};
use std::collections::BTreeMap;

/// The steps of a block so far, and the contiguous copies that they have made.
#[derive(Default)]
pub(super) struct Body {
    pub steps: Vec<Step>,
    pub copies: BTreeMap<V, ValueId>,
    /// Views that were placed on copies made here: nothing outside may look at them.
    pub local: Vec<V>,
}

impl Scheduler<'_> {
    pub(super) fn block(&mut self, b: B, body: &mut Body) -> Result<(), Problem> {
        for n in self.graph.blocks[b.index()].nodes.clone() {
            let name = self.graph.node(n).name.clone();
            self.node(n, body).map_err(|p| Problem { what: format!("{name}: {}", p.what), remedy: p.remedy })?;
        }
        Ok(())
    }

    fn node(&mut self, n: N, body: &mut Body) -> Result<(), Problem> {
        match self.graph.node(n).op.clone() {
            Op::View(_) => Ok(()),
            Op::Prim(prim) => self.primitive(n, &prim, body),
            Op::If { then_block, else_block } => self.branches(n, then_block, else_block, body),
            Op::Loop(l) => self.repetition(n, &l, body),
        }
    }

    fn primitive(&mut self, n: N, prim: &Primitive<ExprId>, body: &mut Body) -> Result<(), Problem> {
        let node = self.graph.node(n).clone();
        let traits = prim.traits();
        let mut reads = Vec::new();
        for (i, r) in node.reads.iter().enumerate() {
            reads.push(match r {
                Some(v) => Some(self.operand(*v, traits.read_may_be_strided(i), body)?),
                None => None,
            });
        }
        let mut writes = Vec::new();
        for w in &node.writes {
            writes.push(match w {
                Some(v) => Some(self.define(*v)?),
                None => None,
            });
        }
        let workspace = self.workspace(n, prim, &reads, &writes)?;
        let mut step = run_step(&node.name, *prim, reads, writes);
        if let Action::Run { workspace: w, defines, .. } = &mut step.action {
            *w = workspace;
            *defines = node.defines.clone();
        }
        if !node.defines.is_empty() {
            step.capture = Capture::Seam { reason: "an extent that only the data can tell".to_owned() };
        }
        body.steps.push(step);
        Ok(())
    }

    /// A value as a step reads it: contiguous unless `strided` is allowed.
    fn operand(&mut self, v: V, strided: bool, body: &mut Body) -> Result<ValueId, Problem> {
        let place = self.place(v, body)?;
        if strided || place.is_contiguous() { self.id(v) } else { self.copied(v, body) }
    }

    /// The buffer of a node's workspace, which is declared here; none where it is known to need nothing. What nobody can size is
    /// refused: nothing runs without.
    fn workspace(
        &mut self,
        n: N,
        prim: &Primitive<ExprId>,
        reads: &[Option<ValueId>],
        writes: &[Option<ValueId>],
    ) -> Result<Option<plan::BufferId>, Problem> {
        let operands = |list: &[Option<ValueId>]| -> Vec<Option<Operand>> {
            let value = |id: ValueId| self.plan.values.get(id.index()).map(|v| (v.dtype, v.dims));
            list.iter().map(|id| id.and_then(value)).collect()
        };
        let (reads, writes) = (operands(reads), operands(writes));
        let bound = self.sizer.bound(&self.graph.exprs, prim, &reads, &writes);
        let primitive = prim.traits().name;
        self.declared.push(Declared { node: n, primitive, bound: bound.clone() });
        let bytes = match bound {
            Bound::Known(0) => return Ok(None),
            Bound::Known(bytes) => bytes,
            // The operands that no machine holds are told all together.
            Bound::Unavailable(_) if !self.huge.is_empty() => return Ok(None),
            Bound::Unavailable(why) => {
                let problem = Problem::new(format!("{primitive}: its workspace is not known: {why}"));
                return Err(problem.with("give the free dims smaller ranges"));
            }
        };
        let bytes = i64::try_from(bytes).map_err(|_| Problem::new("a workspace larger than memory"))?;
        let bytes = self.graph.exprs.int(bytes);
        let name = format!("{} (workspace)", self.graph.node(n).name);
        self.new_buffer(&name, Class::Work, bytes, 0).map(Some)
    }

    fn branches(&mut self, n: N, then_block: B, else_block: B, body: &mut Body) -> Result<(), Problem> {
        let node = self.graph.node(n).clone();
        let Some(Some(cond)) = node.reads.first().copied() else { return Err(Problem::new("no condition")) };
        let cond = self.operand(cond, false, body)?;
        for w in node.writes.iter().flatten() {
            self.define(*w)?;
        }
        let mut blocks = Vec::new();
        for b in [then_block, else_block] {
            let writes = node.writes.clone();
            blocks.push(self.sub_block(b, body, |s, inner| s.hand_over(b, &writes, inner))?);
        }
        let (Some(yes), Some(no)) = (blocks.first().copied(), blocks.get(1).copied()) else {
            return Err(Problem::new("a branch is missing"));
        };
        body.steps.push(Step {
            name: node.name,
            action: Action::If { cond, then_block: yes, else_block: no },
            capture: Capture::Seam { reason: "a branch that the data chooses".to_owned() },
        });
        Ok(())
    }

    /// Copies a block's results to the values that its owner writes, and defines the extents they have.
    fn hand_over(&mut self, b: B, writes: &[Option<V>], body: &mut Body) -> Result<(), Problem> {
        let block = self.graph.blocks[b.index()].clone();
        for (symbol, value) in &block.defines {
            body.steps.push(define_step(*symbol, *value));
        }
        for (result, write) in block.results.iter().zip(writes) {
            let Some(write) = write else { continue };
            let from = self.operand(*result, true, body)?;
            let to = self.id(*write)?;
            body.steps.push(copy_step(&self.graph.value(*write).name.clone(), from, to));
        }
        Ok(())
    }

    fn repetition(&mut self, n: N, l: &LoopOp, body: &mut Body) -> Result<(), Problem> {
        let node = self.graph.node(n).clone();
        let read = |i: usize| node.reads.get(i).copied().flatten();
        let trip = match read(0) {
            Some(v) => Some(self.operand(v, false, body)?),
            None => None,
        };
        // The condition lives in a buffer of its own, which the body writes.
        let cond = match read(1) {
            Some(v) => {
                let from = self.operand(v, true, body)?;
                let value = self.graph.value(v);
                let (name, dtype, dims) = (value.name.clone(), value.dtype, value.dims);
                let to = self.fresh(&format!("{name} (loop)"), dtype, dims)?;
                body.steps.push(copy_step(&name, from, to));
                Some(to)
            }
            None => None,
        };
        let mut carried = Vec::new();
        for (i, inner) in l.carried.iter().enumerate() {
            let Some(initial) = read(i + 2) else { return Err(Problem::new("a carried value without a start")) };
            let from = self.operand(initial, true, body)?;
            let to = self.define(*inner)?;
            body.steps.push(copy_step(&self.graph.value(*inner).name.clone(), from, to));
            carried.push(to);
            // What the loop leaves is what it carried last.
            if let Some(Some(w)) = node.writes.get(i) {
                let place = self.place(*inner, body)?;
                self.places.insert(*w, place);
            }
        }
        let mut rows = Vec::new();
        for w in node.writes.iter().skip(l.carried.len()) {
            rows.push(match w {
                Some(w) => Some((*w, self.define_stacked(*w, l)?)),
                None => None,
            });
        }
        let block = self.sub_block(l.body, body, |s, inner| s.end_iteration(l, cond, &carried, &rows, inner))?;
        body.steps.push(Step {
            name: node.name,
            action: Action::Loop { trip, cond, counter: l.counter, body: block, max_trips: l.max_trips },
            capture: Capture::Seam { reason: "a loop that the data may end".to_owned() },
        });
        Ok(())
    }

    /// A stacked output: room for the most iterations.
    fn define_stacked(&mut self, w: V, l: &LoopOp) -> Result<ValueId, Problem> {
        let value = self.graph.value(w).clone();
        let mut dims = value.dims.to_vec();
        if let Some(first) = dims.first_mut() {
            *first = l.max_trips;
        }
        let bytes = self.bytes_of(value.dtype, &dims);
        let buffer = self.new_buffer(&value.name, Class::Act, bytes, 0)?;
        self.places.insert(w, super::place::Where::whole(w, buffer, self.graph));
        self.id(w)
    }

    fn end_iteration(
        &mut self,
        l: &LoopOp,
        cond: Option<ValueId>,
        carried: &[ValueId],
        rows: &[Option<(V, ValueId)>],
        body: &mut Body,
    ) -> Result<(), Problem> {
        let results = self.graph.blocks[l.body.index()].results.clone();
        let mut results = results.into_iter();
        let mut copies = Vec::new();
        if l.has_cond {
            let next = results.next().ok_or_else(|| Problem::new("a loop without its condition"))?;
            if let Some(to) = cond {
                copies.push((self.operand(next, true, body)?, to));
            }
        }
        for to in carried {
            let next = results.next().ok_or_else(|| Problem::new("a loop without a carried result"))?;
            let from = self.operand(next, true, body)?;
            copies.push((from, *to));
        }
        for (row, result) in rows.iter().zip(results) {
            let Some((w, whole)) = row else { continue };
            let from = self.operand(result, true, body)?;
            let to = self.row_of(*w, *whole, l)?;
            body.steps.push(copy_step(&self.graph.value(*w).name.clone(), from, to));
        }
        self.carry(copies, body)
    }

    /// Copies next values over current ones. A next value that is itself another's current one is set aside first.
    fn carry(&mut self, copies: Vec<(ValueId, ValueId)>, body: &mut Body) -> Result<(), Problem> {
        let buffer_of = |s: &Self, id: ValueId| s.plan.values.get(id.index()).map(|v| v.place.buffer);
        let targets: Vec<_> = copies.iter().map(|(_, to)| buffer_of(self, *to)).collect();
        let mut late = Vec::new();
        for (from, to) in copies {
            if from == to {
                continue;
            }
            let source = buffer_of(self, from);
            if targets.contains(&source) {
                let Some(value) = self.plan.values.get(from.index()).cloned() else { continue };
                let aside = self.fresh(&format!("{} (next)", value.name), value.dtype, value.dims)?;
                body.steps.push(copy_step(&value.name, from, aside));
                late.push((aside, to));
            } else {
                late.push((from, to));
            }
        }
        for (from, to) in late {
            body.steps.push(copy_step("carried", from, to));
        }
        Ok(())
    }

    /// The row of a stacked output that this iteration writes.
    fn row_of(&mut self, w: V, whole: ValueId, l: &LoopOp) -> Result<ValueId, Problem> {
        let value = self.graph.value(w).clone();
        let row = Axes::from_slice(value.dims.get(1..).unwrap_or(&[])).unwrap_or_default();
        let x = &mut self.graph.exprs;
        let count = x.product(row.iter().copied());
        let counter = x.of_symbol(l.counter);
        let offset = x.mul(counter, count);
        let buffer = self
            .plan
            .values
            .get(whole.index())
            .map(|v| v.place.buffer)
            .ok_or_else(|| Problem::new("no stacked output"))?;
        let place = plan::Place { buffer, offset, strides: None };
        let name = format!("{} (row)", value.name);
        Ok(self.new_plan_value(plan::Value { name, dtype: value.dtype, dims: row, place, root: Some(whole) }))
    }
}

fn define_step(symbol: plan::SymbolId, value: ExprId) -> Step {
    Step {
        name: "extent".to_owned(),
        action: Action::Define { symbol, value },
        capture: Capture::Seam { reason: "an extent that only the run can tell".to_owned() },
    }
}

//! The interpreter: a plan, its weights, and the memory of its runs.

use super::{
    call::call,
    layout::{Layout, Mode},
    numbers::Numbers,
    tensor::{InputTensor, Inputs, OutputTensor, align_inputs, gather, scatter},
};
use crate::{AlignedBytes, Error, Fault, Frame, Operand, Scratch, Space, TensorProblem};
use alloc::{borrow::ToOwned, boxed::Box, format, vec::Vec};
use kernels::Isa;
use plan::{Action, BlockId, Class, ExprId, Plan, Relation, Step, Symbol, SymbolId, SymbolKind, ValueId};

/// Blocks may not nest deeper.
const DEPTH: usize = 64;

/// What poisoned memory holds: NaN as a float, -1 as a signed integer.
const POISON: u8 = 0xff;

/// Runs a plan, again and again.
pub struct Interpreter {
    plan: Plan,
    weights: Box<dyn AsRef<[u8]> + Send>,
    mode: Mode,
    isa: Isa,
    /// The number of the first step of each block, counted through all blocks: how messages number steps.
    first_steps: Vec<usize>,
    arena: AlignedBytes,
    state: RunState,
}

/// What changes during a run, apart from memory.
struct RunState {
    numbers: Numbers,
    layout: Layout,
    operands: Vec<Option<Operand>>,
}

impl Interpreter {
    /// An interpreter over the plan's static arena. All memory is taken here.
    ///
    /// # Errors
    /// When the weights are not the plan's, or memory cannot be had.
    pub fn new(plan: Plan, weights: impl AsRef<[u8]> + Send + 'static) -> Result<Interpreter, Error> {
        Interpreter::with_mode(plan, weights, Mode::Static)
    }

    /// An interpreter with this memory layout.
    ///
    /// # Errors
    /// As [`Interpreter::new`].
    pub fn with_mode(plan: Plan, weights: impl AsRef<[u8]> + Send + 'static, mode: Mode) -> Result<Interpreter, Error> {
        let found = weights.as_ref().len();
        if found as u64 != plan.weight_bytes {
            return Err(Error::weights(format!("{found} bytes where the plan has {}", plan.weight_bytes)));
        }
        crate::verify(weights.as_ref(), plan.weight_check)?;
        let weights: Box<dyn AsRef<[u8]> + Send> = if weights.as_ref().as_ptr().addr().is_multiple_of(64) {
            Box::new(weights)
        } else {
            Box::new(AlignedBytes::copy_of(weights.as_ref())?)
        };
        let numbers = Numbers::new(&plan);
        let (layout, bytes) = match mode {
            Mode::Static => {
                let layout = Layout::of_plan(&plan)?;
                let bytes = layout.arena;
                (layout, bytes)
            }
            Mode::Naive => {
                let layout = Layout::naive(&plan, &numbers)?;
                let kept = layout.kept;
                (layout, kept)
            }
        };
        let arena = AlignedBytes::zeroed(bytes)?;
        let operands = alloc::vec![None; plan.values.len()];
        let mut first_steps = Vec::with_capacity(plan.blocks.len());
        let mut count = 0usize;
        for block in &plan.blocks {
            first_steps.push(count);
            count = count.saturating_add(block.steps.len());
        }
        let state = RunState { numbers, layout, operands };
        Ok(Interpreter { plan, weights, mode, isa: Isa::detect(), first_steps, arena, state })
    }

    /// Uses this instruction set from now on.
    pub fn set_isa(&mut self, isa: Isa) {
        self.isa = isa;
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the plan. `inputs` are in the plan's order. Inputs that are aligned for their elements are not copied.
    ///
    /// # Errors
    /// When the inputs do not fit the plan (then nothing was touched), or a step fails.
    pub fn run(&mut self, inputs: &[InputTensor<'_>]) -> Result<(), Error> {
        self.run_observed(inputs, &mut |_, _| {})
    }

    /// As [`Interpreter::run`], telling `observer` of each step (its block, and its place in it) before it runs.
    ///
    /// # Errors
    /// As [`Interpreter::run`].
    pub fn run_observed(
        &mut self,
        inputs: &[InputTensor<'_>],
        observer: &mut dyn FnMut(BlockId, usize),
    ) -> Result<(), Error> {
        self.bind(inputs)?;
        self.check_guards()?;
        if self.mode == Mode::Naive {
            self.lay_out_naively()?;
        }
        for (i, value) in self.plan.values.iter().enumerate() {
            // What has no place may belong to a branch that this run does not take: only its use is an error.
            let operand = self.state.layout.operand(&self.plan, value, &self.state.numbers);
            if let Some(place) = self.state.operands.get_mut(i) {
                *place = operand.unwrap_or(None);
            }
        }
        let copies = align_inputs(inputs)?;
        let inputs = Inputs::new(inputs, &copies);
        let frame = Frame::new(&mut self.arena, (*self.weights).as_ref(), &inputs.slices, self.isa);
        let first_steps = &self.first_steps;
        let mut machine = Machine { plan: &self.plan, state: &mut self.state, frame, first_steps, observer };
        machine.block(BlockId(0), 0)
    }

    /// Output `i` of the last run.
    ///
    /// # Errors
    /// When there is no such output, or no run has left it.
    pub fn output(&self, i: usize) -> Result<OutputTensor, Error> {
        let port = self.plan.outputs.get(i).ok_or_else(|| Error::plan(format!("there is no output {i}")))?;
        self.tensor(&port.name, port.value)
    }

    /// What state `i` holds.
    ///
    /// # Errors
    /// When there is no such state.
    pub fn state(&self, i: usize) -> Result<OutputTensor, Error> {
        let state = self.plan.states.get(i).ok_or_else(|| Error::plan(format!("there is no state {i}")))?;
        self.tensor(&state.input, state.current)
    }

    /// Gives state `i` these contents, row-major.
    ///
    /// # Errors
    /// When there is no such state, or its size is another.
    pub fn set_state(&mut self, i: usize, bytes: &[u8]) -> Result<(), Error> {
        let state = self.plan.states.get(i).ok_or_else(|| Error::plan(format!("there is no state {i}")))?;
        let operand = self.place(&state.input, state.current)?;
        let wanted = operand.dtype.bytes_of(operand.shape.len()).unwrap_or(usize::MAX);
        if wanted != bytes.len() {
            let problem = TensorProblem::Bytes { found: bytes.len(), wanted };
            return Err(Error::tensor(state.input.clone(), problem));
        }
        scatter(&mut self.arena, &operand, bytes).map_err(|f| Error::extent(state.input.clone(), f))
    }

    /// Sets every state to zero.
    ///
    /// # Errors
    /// When the plan puts a state outside the arena.
    pub fn reset(&mut self) -> Result<(), Error> {
        for (buffer, start) in self.plan.buffers.iter().zip(&self.state.layout.offsets) {
            if buffer.class == Class::Persist {
                let end = usize::try_from(buffer.max_bytes).ok().and_then(|b| start.checked_add(b));
                let bytes = end.and_then(|end| self.arena.get_mut(*start..end));
                bytes.ok_or_else(|| Error::plan(format!("state {} lies outside the arena", buffer.name)))?.fill(0);
            }
        }
        Ok(())
    }

    /// Where a tensor lies now.
    fn place(&self, name: &str, value: ValueId) -> Result<Operand, Error> {
        let missing = || Error::plan(format!("{name} has no place yet"));
        let value = self.plan.values.get(value.index()).ok_or_else(missing)?;
        let operand = self.state.layout.operand(&self.plan, value, &self.state.numbers);
        operand.map_err(|f| Error::extent(name.to_owned(), f))?.ok_or_else(missing)
    }

    fn tensor(&self, name: &str, value: ValueId) -> Result<OutputTensor, Error> {
        let operand = self.place(name, value)?;
        let memory = match operand.space {
            Space::Arena => &self.arena[..],
            Space::Weights => (*self.weights).as_ref(),
            Space::Input(_) => return Err(Error::plan(format!("output {name} lies in an input"))),
        };
        let bytes = gather(memory, &operand).map_err(|f| Error::extent(name.to_owned(), f))?;
        Ok(OutputTensor { dtype: operand.dtype, dims: operand.dims().to_vec(), bytes })
    }

    /// Binds the symbols to the dims of the inputs, and checks dtypes and dims. Touches no memory of the run.
    fn bind(&mut self, inputs: &[InputTensor<'_>]) -> Result<(), Error> {
        let plan = &self.plan;
        if inputs.len() != plan.inputs.len() {
            let problem = TensorProblem::Count { found: inputs.len(), wanted: plan.inputs.len() };
            return Err(Error::tensor(plan.name.clone(), problem));
        }
        let numbers = &mut self.state.numbers;
        numbers.forget();
        for (i, symbol) in (0u32..).zip(&plan.symbols) {
            if let SymbolKind::Input { input, axis } = symbol.kind {
                let dim = inputs.get(input as usize).and_then(|t| t.dims.get(axis as usize));
                let Some(dim) = dim.and_then(|d| i64::try_from(*d).ok()) else { continue };
                check_range(symbol, dim)?;
                numbers.set(SymbolId(i), dim);
            }
        }
        numbers.evaluate(&plan.exprs);
        for (port, tensor) in plan.inputs.iter().zip(inputs) {
            let value = plan.values.get(port.value.index()).ok_or_else(|| Error::plan("an input has no tensor"))?;
            check_input(&port.name, value, tensor, numbers)?;
        }
        Ok(())
    }

    /// Checks the conditions on the symbols.
    fn check_guards(&self) -> Result<(), Error> {
        for guard in &self.plan.guards {
            let value = |e: ExprId| {
                let value = self.state.numbers.get(e);
                value.ok_or_else(|| Error::extent(guard.what.clone(), Fault::Extent))
            };
            let (left, right) = (value(guard.left)?, value(guard.right)?);
            let (holds, relation) = match guard.relation {
                Relation::Equal => (left == right, "="),
                Relation::LessOrEqual => (left <= right, "<="),
            };
            if !holds {
                return Err(Error::guard(guard.what.clone(), left, relation, right));
            }
        }
        Ok(())
    }

    /// Lays out memory for this run's sizes, keeping the states.
    fn lay_out_naively(&mut self) -> Result<(), Error> {
        self.state.layout = Layout::naive(&self.plan, &self.state.numbers)?;
        let (arena, kept) = (self.state.layout.arena, self.state.layout.kept);
        if self.arena.len() < arena {
            let mut grown = AlignedBytes::zeroed(arena)?;
            if let (Some(to), Some(from)) = (grown.get_mut(..kept), self.arena.get(..kept)) {
                to.copy_from_slice(from);
            }
            self.arena = grown;
        }
        if let Some(rest) = self.arena.get_mut(kept..) {
            rest.fill(POISON);
        }
        Ok(())
    }
}

/// Whether a value is one of those that a symbol was planned for.
fn check_range(symbol: &Symbol, value: i64) -> Result<(), Error> {
    let inside = (symbol.lo..=symbol.hi).contains(&value);
    let step = symbol.step.max(1);
    if inside && value.checked_sub(symbol.lo).is_some_and(|d| d % step == 0) {
        return Ok(());
    }
    Err(Error::envelope(symbol.name.clone(), value, symbol.lo, symbol.hi, step))
}

/// Whether the caller's tensor is the one that the plan reads.
fn check_input(name: &str, value: &plan::Value, tensor: &InputTensor<'_>, numbers: &Numbers) -> Result<(), Error> {
    let problem = |problem| Err(Error::tensor(name.to_owned(), problem));
    if tensor.dtype != value.dtype {
        return problem(TensorProblem::DType { found: tensor.dtype, wanted: value.dtype });
    }
    if tensor.dims.len() != value.dims.len() {
        return problem(TensorProblem::Rank { found: tensor.dims.len(), wanted: value.dims.len() });
    }
    for (axis, (found, wanted)) in tensor.dims.iter().zip(value.dims.iter()).enumerate() {
        let wanted = numbers.get(*wanted).ok_or_else(|| Error::extent(name.to_owned(), Fault::Extent))?;
        let found = i64::try_from(*found).unwrap_or(i64::MAX);
        if found != wanted {
            return problem(TensorProblem::Dim { axis, found, wanted });
        }
    }
    let count = tensor.dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let wanted = count.and_then(|n| value.dtype.bytes_of(n)).unwrap_or(usize::MAX);
    if tensor.bytes.len() != wanted {
        return problem(TensorProblem::Bytes { found: tensor.bytes.len(), wanted });
    }
    Ok(())
}

/// One run.
struct Machine<'r> {
    plan: &'r Plan,
    state: &'r mut RunState,
    frame: Frame<'r>,
    first_steps: &'r [usize],
    observer: &'r mut dyn FnMut(BlockId, usize),
}

impl<'r> Machine<'r> {
    fn block(&mut self, block: BlockId, depth: usize) -> Result<(), Error> {
        let plan = self.plan;
        if depth > DEPTH {
            return Err(Error::plan("blocks nest too deeply"));
        }
        let steps = plan.blocks.get(block.index()).ok_or_else(|| Error::plan("a block is missing"))?;
        let first = self.first_steps.get(block.index()).copied().unwrap_or(0);
        for (i, step) in steps.steps.iter().enumerate() {
            (self.observer)(block, i);
            self.step(step, first.saturating_add(i), depth)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &'r Step, index: usize, depth: usize) -> Result<(), Error> {
        let plan = self.plan;
        // Only a message needs the hash. A plan without one has no text either, so its name has to do.
        let fail = |primitive, fault| {
            let hash = plan.hash().unwrap_or_else(|_| plan.name.clone());
            Error::step(index, step.name.clone(), primitive, hash, fault)
        };
        match &step.action {
            Action::Run { prim, reads, writes, workspace, defines } => self
                .primitive(prim, reads, writes, *workspace, defines)
                .map_err(|fault| fail(prim.traits().name, fault)),
            Action::If { cond, then_block, else_block } => {
                let flag = self.operand(*cond).and_then(|c| self.frame.flag(&c)).map_err(|f| fail("If", f))?;
                self.block(if flag { *then_block } else { *else_block }, depth + 1)
            }
            Action::Loop { trip, cond, counter, body, max_trips } => {
                let limit = match trip {
                    Some(trip) => {
                        let count = self.operand(*trip).and_then(|t| self.frame.integer(&t));
                        count.map_err(|f| fail("Loop", f))?
                    }
                    None => i64::MAX,
                };
                let room = self.state.numbers.get(*max_trips).ok_or_else(|| fail("Loop", Fault::Extent))?;
                let mut done = 0i64;
                while done < limit {
                    if let Some(cond) = cond
                        && !self.operand(*cond).and_then(|c| self.frame.flag(&c)).map_err(|f| fail("Loop", f))?
                    {
                        break;
                    }
                    if done >= room {
                        let fault = Fault::Capacity { needed: extent(done).saturating_add(1), planned: extent(room) };
                        return Err(fail("Loop", fault));
                    }
                    self.define(*counter, done).map_err(|f| fail("Loop", f))?;
                    self.block(*body, depth + 1)?;
                    done += 1;
                }
                self.define(*counter, done).map_err(|f| fail("Loop", f))
            }
            Action::Define { symbol, value } => {
                let value = self.state.numbers.get(*value).ok_or_else(|| fail("Define", Fault::Extent))?;
                self.define(*symbol, value).map_err(|f| fail("Define", f))
            }
        }
    }

    fn primitive(
        &mut self,
        prim: &plan::Primitive<ExprId>,
        reads: &[Option<ValueId>],
        writes: &[Option<ValueId>],
        workspace: Option<plan::BufferId>,
        defines: &[SymbolId],
    ) -> Result<(), Fault> {
        let mut missing = false;
        let numbers = &self.state.numbers;
        let concrete = prim.map_extents(&mut |e| {
            numbers.get(e).unwrap_or_else(|| {
                missing = true;
                0
            })
        });
        if missing {
            return Err(Fault::Extent);
        }
        let scratch = match workspace {
            Some(buffer) => self.state.layout.scratch(self.plan, buffer, numbers)?,
            None => Scratch::NONE,
        };
        let mut found = [0i64; 8];
        let found =
            found.get_mut(..defines.len()).ok_or(Fault::Unsupported("a step that defines more than 8 symbols"))?;
        let operands = &self.state.operands;
        // Most steps have few operands: those need no allocation.
        const FEW: usize = 8;
        if reads.len() <= FEW && writes.len() <= FEW {
            let (mut read_refs, mut write_refs) = ([None; FEW], [None; FEW]);
            collect(operands, reads, &mut read_refs)?;
            collect(operands, writes, &mut write_refs)?;
            let (Some(reads), Some(writes)) = (read_refs.get(..reads.len()), write_refs.get(..writes.len())) else {
                return Err(Fault::OutOfBounds);
            };
            call(&mut self.frame, &concrete, reads, writes, scratch, found)?;
        } else {
            let (mut read_refs, mut write_refs): (Vec<_>, Vec<_>) =
                (alloc::vec![None; reads.len()], alloc::vec![None; writes.len()]);
            collect(operands, reads, &mut read_refs)?;
            collect(operands, writes, &mut write_refs)?;
            call(&mut self.frame, &concrete, &read_refs, &write_refs, scratch, found)?;
        }
        for (symbol, value) in defines.iter().zip(found.iter()) {
            self.define(*symbol, *value)?;
        }
        Ok(())
    }

    /// Where a tensor lies.
    fn operand(&self, value: ValueId) -> Result<Operand, Fault> {
        let found = self.state.operands.get(value.index()).copied().flatten();
        found.ok_or(Fault::Extent)
    }

    /// Gives a symbol its value, and computes what depends on it.
    fn define(&mut self, symbol: SymbolId, value: i64) -> Result<(), Fault> {
        let known = self.plan.symbols.get(symbol.index()).ok_or(Fault::Extent)?;
        if value > known.hi || value < known.lo {
            return Err(Fault::Capacity { needed: extent(value), planned: extent(known.hi) });
        }
        if self.state.numbers.symbol(symbol) == Some(value) {
            return Ok(());
        }
        self.state.numbers.set(symbol, value);
        self.state.numbers.update(&self.plan.exprs, symbol);
        let RunState { numbers, layout, operands } = &mut *self.state;
        for index in numbers.dependent_values(symbol) {
            if let (Some(value), Some(place)) = (self.plan.values.get(index), operands.get_mut(index)) {
                *place = layout.operand(self.plan, value, numbers).unwrap_or(None);
            }
        }
        Ok(())
    }
}

/// A count in a message.
fn extent(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}

/// The operands of these values.
fn collect<'o>(
    operands: &'o [Option<Operand>],
    values: &[Option<ValueId>],
    into: &mut [Option<&'o Operand>],
) -> Result<(), Fault> {
    for (value, place) in values.iter().zip(into) {
        if let Some(value) = value {
            let found = operands.get(value.index()).and_then(Option::as_ref);
            *place = Some(found.ok_or(Fault::Extent)?);
        }
    }
    Ok(())
}

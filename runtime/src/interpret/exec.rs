//! The interpreter: a plan, its weights, and the memory of its runs.

use super::{
    eager::{Eager, Schedule},
    entry::{bind, check_guards},
    host::{Host, POISON},
    layout::{Layout, Mode},
    numbers::Numbers,
    tensor::{InputTensor, Inputs, OutputTensor, align_inputs, gather, scatter},
    walk::{Walk, first_steps},
};
use crate::{Account, AlignedBytes, Error, Frame, Heap, Operand, Space, TensorProblem};
use alloc::{borrow::ToOwned, boxed::Box, format, vec::Vec};
use kernels::Isa;
use plan::{BlockId, Class, Plan, ValueId};

/// Runs a plan, again and again.
pub struct Interpreter {
    plan: Plan,
    weights: Box<dyn AsRef<[u8]> + Send>,
    mode: Mode,
    isa: Isa,
    /// The number of the first step of each block, counted through all blocks: how messages number steps.
    first_steps: Vec<usize>,
    arena: AlignedBytes,
    /// Of the eager mode: what is taken and given back, and when.
    heap: Heap,
    schedule: Schedule,
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
            Mode::Eager => {
                let layout = Layout::eager(&plan)?;
                let kept = layout.kept;
                (layout, kept)
            }
        };
        let (buffers, schedule) = match mode {
            Mode::Eager => (plan.buffers.len(), Schedule::new(&plan)),
            Mode::Static | Mode::Naive => (0, Schedule::default()),
        };
        let heap = Heap::new(buffers, usize::try_from(plan.align).unwrap_or(1));
        let arena = AlignedBytes::zeroed(bytes)?;
        let operands = alloc::vec![None; plan.values.len()];
        let first_steps = first_steps(&plan);
        let state = RunState { numbers, layout, operands };
        Ok(Interpreter { plan, weights, mode, isa: Isa::detect(), first_steps, arena, heap, schedule, state })
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
        bind(&self.plan, &mut self.state.numbers, inputs)?;
        check_guards(&self.plan, &self.state.numbers)?;
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
        let (weights, isa) = ((*self.weights).as_ref(), self.isa);
        let RunState { numbers, layout, operands } = &mut self.state;
        let (plan, first_steps) = (&self.plan, &self.first_steps);
        if self.mode != Mode::Eager {
            let frame = Frame::new(&mut self.arena, weights, &inputs.slices, isa);
            let memory = Host { plan, layout, operands, frame, observer };
            return Walk { plan, numbers, first_steps, memory }.run();
        }
        self.heap.begin();
        let frame = Frame::with_heap(&mut self.arena, &mut self.heap, weights, &inputs.slices, isa);
        let host = Host { plan, layout, operands, frame, observer };
        let memory = Eager { host, schedule: &self.schedule };
        let result = Walk { plan, numbers, first_steps, memory }.run();
        if result.is_err() {
            self.heap.clear();
        }
        result
    }

    /// What the eager mode holds, as it changes: activations and workspaces, without states.
    pub fn account(&self) -> &Account {
        self.heap.account()
    }

    /// Gives back what the eager mode holds between runs: the outputs of the last one.
    pub fn release(&mut self) {
        self.heap.clear();
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
            Space::Heap(buffer) => self.heap.bytes(buffer).map_err(|f| Error::extent(name.to_owned(), f))?,
            Space::Weights => (*self.weights).as_ref(),
            Space::Input(_) => return Err(Error::plan(format!("output {name} lies in an input"))),
        };
        let bytes = gather(memory, &operand).map_err(|f| Error::extent(name.to_owned(), f))?;
        Ok(OutputTensor { dtype: operand.dtype, dims: operand.dims().to_vec(), bytes })
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

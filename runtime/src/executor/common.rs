//! What both executors are made of: a plan with its numbers, and how a device's failures are told.

use crate::device::{Allocation, Device, Failure, Label, MemoryClass, Span, Stage};
use crate::interpret::entry::{bind, check_guards};
use crate::interpret::layout::within_buffer;
use crate::interpret::numbers::Numbers;
use crate::interpret::tensor::gather;
use crate::interpret::walk::{failed, first_steps, kind};
use crate::interpret::{InputTensor, OutputTensor};
use crate::{DeviceProblem, Error, ErrorKind, Fault, Operand, TensorProblem};
use plan::{Buffer, Class, Plan, Step, Value, ValueId};
use std::sync::Arc;

/// A plan, and what is known of it in a run.
pub(super) struct Bound {
    pub(super) plan: Arc<Plan>,
    pub(super) first_steps: Vec<usize>,
    pub(super) numbers: Numbers,
    /// Where each tensor lies in its buffer, as far as that is known.
    pub(super) operands: Vec<Option<Operand>>,
}

impl Bound {
    /// A plan and the weights that belong to it.
    pub(super) fn new(plan: Arc<Plan>, weights: &[u8]) -> Result<Bound, Error> {
        if weights.len() as u64 != plan.weight_bytes {
            let found = weights.len();
            return Err(Error::weights(format!("{found} bytes where the plan has {}", plan.weight_bytes)));
        }
        crate::verify(weights, plan.weight_check)?;
        let numbers = Numbers::new(&plan);
        let mut bound = Bound { first_steps: first_steps(&plan), numbers, operands: Vec::new(), plan };
        bound.settle();
        Ok(bound)
    }

    /// Checks a run's inputs and learns its sizes. Touches no memory.
    pub(super) fn enter(&mut self, inputs: &[InputTensor<'_>]) -> Result<(), Error> {
        bind(&self.plan, &mut self.numbers, inputs)?;
        check_guards(&self.plan, &self.numbers)?;
        self.settle();
        Ok(())
    }

    /// Looks where every tensor lies.
    fn settle(&mut self) {
        // What has no place may belong to a branch that this run does not take: only its use is an error.
        let place = |value| within_buffer(value, &self.numbers).unwrap_or(None);
        self.operands = self.plan.values.iter().map(place).collect();
    }

    /// A step by its number, counted through all blocks.
    fn step(&self, index: usize) -> Option<&Step> {
        let block = self.first_steps.iter().rposition(|first| *first <= index)?;
        let within = index.checked_sub(*self.first_steps.get(block)?)?;
        self.plan.blocks.get(block)?.steps.get(within)
    }

    /// A device's failure as an error of the run.
    pub(super) fn told(&self, failure: Failure) -> Error {
        let Failure { call, problem, step, value, bytes } = failure;
        match problem {
            DeviceProblem::Fault(fault) => {
                let index = step.unwrap_or(0);
                let (name, primitive) = match self.step(index) {
                    Some(step) => (step.name.as_str(), kind(&step.action)),
                    None => ("", "step"),
                };
                failed(&self.plan, index, name, primitive, fault)
            }
            DeviceProblem::Capturing => Error::new(ErrorKind::CaptureViolation { call, step, value: value.into() }),
            problem => Error::new(ErrorKind::DeviceCall { call, step, value: value.into(), bytes, problem }),
        }
    }

    /// A tensor and the place of its buffer among the plan's.
    pub(super) fn value(&self, value: ValueId) -> Result<(&Value, &Buffer), Error> {
        let value = self.plan.values.get(value.index()).ok_or_else(|| Error::plan("a tensor is missing"))?;
        let buffer =
            self.plan.buffers.get(value.place.buffer.index()).ok_or_else(|| Error::plan("a buffer is missing"))?;
        Ok((value, buffer))
    }

    /// Where a tensor lies now in its buffer.
    pub(super) fn operand(&self, name: &str, value: ValueId) -> Result<Operand, Error> {
        let found = self.operands.get(value.index()).copied().flatten();
        found.ok_or_else(|| Error::extent(name.to_owned(), Fault::Extent))
    }

    /// The part of its buffer that a tensor covers.
    pub(super) fn extent(&self, name: &str, value: ValueId, buffer: Span) -> Result<(Span, Operand), Error> {
        let operand = self.operand(name, value)?;
        let (low, high) = if operand.low == operand.high {
            (operand.offset, operand.offset)
        } else {
            let end = |by| operand.offset.checked_add_signed(by);
            let both = end(operand.low).zip(end(operand.high));
            both.ok_or_else(|| Error::extent(name.to_owned(), Fault::OutOfBounds))?
        };
        let bytes = high - low;
        let span = Span { pointer: buffer.pointer.plus(low), bytes };
        // Seen from the span, the tensor begins where it does.
        Ok((span, Operand { offset: operand.offset - low, ..operand }))
    }
}

/// A copy of the weights on the device.
pub(super) fn weights<D: Device>(bound: &Bound, device: &D, weights: &[u8]) -> Result<Allocation<D>, Error> {
    let taken = device.alloc(weights.len(), &Label::new(MemoryClass::Const, "weights"));
    let taken = taken.map_err(|f| bound.told(f))?;
    device.write(taken.span(), weights).map_err(|f| bound.told(f))?;
    Ok(taken)
}

/// Staging memory of a tensor.
pub(super) fn stage<D: Device>(bound: &Bound, device: &D, bytes: usize, name: &str) -> Result<Stage<D>, Error> {
    device.stage(bytes, &Label::new(MemoryClass::Stage, name)).map_err(|f| bound.told(f))
}

/// What staging memory holds of a tensor, row-major.
pub(super) fn unstage<D: Device>(
    bound: &Bound,
    device: &D,
    name: &str,
    stage: &Stage<D>,
    operand: &Operand,
    bytes: usize,
) -> Result<OutputTensor, Error> {
    let mut memory = vec![0; bytes];
    device.read_stage(stage.first(bytes), &mut memory).map_err(|f| bound.told(f))?;
    let bytes = gather(&memory, operand).map_err(|f| Error::extent(name.to_owned(), f))?;
    Ok(OutputTensor { dtype: operand.dtype, dims: operand.dims().to_vec(), bytes })
}

/// The states of an executor, whose buffers lie in `rooms`.
pub(super) struct States<'e, D> {
    pub(super) bound: &'e Bound,
    pub(super) device: &'e D,
    pub(super) rooms: &'e [Option<Span>],
}

impl<D: Device> States<'_, D> {
    /// What state `i` holds, row-major.
    pub(super) fn read(&self, i: usize) -> Result<OutputTensor, Error> {
        let (name, span, operand) = self.extent(i)?;
        let mut memory = vec![0; span.bytes];
        let _pass = self.device.gate().pass();
        self.device.read(span, &mut memory).map_err(|f| self.bound.told(f))?;
        let bytes = gather(&memory, &operand).map_err(|f| Error::extent(name.to_owned(), f))?;
        Ok(OutputTensor { dtype: operand.dtype, dims: operand.dims().to_vec(), bytes })
    }

    /// Gives state `i` these contents, row-major.
    pub(super) fn write(&self, i: usize, bytes: &[u8]) -> Result<(), Error> {
        let (name, span, _) = self.extent(i)?;
        if span.bytes != bytes.len() {
            let problem = TensorProblem::Bytes { found: bytes.len(), wanted: span.bytes };
            return Err(Error::tensor(name.to_owned(), problem));
        }
        let _pass = self.device.gate().pass();
        self.device.write(span, bytes).map_err(|f| self.bound.told(f))
    }

    /// Sets every state to zero.
    pub(super) fn reset(&self) -> Result<(), Error> {
        let _pass = self.device.gate().pass();
        for (buffer, room) in self.bound.plan.buffers.iter().zip(self.rooms) {
            if let (Class::Persist, Some(room)) = (buffer.class, room) {
                self.device.fill(*room, 0).map_err(|f| self.bound.told(f))?;
            }
        }
        Ok(())
    }

    /// The name of state `i`, and where it lies.
    fn extent(&self, i: usize) -> Result<(&str, Span, Operand), Error> {
        let state = self.bound.plan.states.get(i).ok_or_else(|| Error::plan(format!("there is no state {i}")))?;
        let buffer = self.bound.value(state.current)?.0.place.buffer;
        let room = self.rooms.get(buffer.index()).copied().flatten();
        let room = room.ok_or_else(|| Error::plan("a state has no memory"))?;
        let (span, operand) = self.bound.extent(&state.input, state.current, room)?;
        Ok((&state.input, span, operand))
    }
}

/// Bytes that the plan says, as this machine counts them.
pub(super) fn size(bytes: u64) -> Result<usize, Error> {
    usize::try_from(bytes).map_err(|_| Error::plan(format!("{bytes} bytes do not fit this machine's addresses")))
}

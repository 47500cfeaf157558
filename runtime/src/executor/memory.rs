//! Device memory as the walker sees it.

use super::common::Bound;
use crate::device::{Arg, Device, Failure, Launch, Span};
use crate::interpret::layout::{buffer_bytes, within_buffer};
use crate::interpret::numbers::Numbers;
use crate::interpret::walk::{At, Memory, Operands, Stop, Walk};
use crate::{Error, Fault, Operand};
use core::ops::Range;
use plan::{BlockId, Plan, Primitive, SymbolId, ValueId};

/// What happens to memory around a step.
pub(super) trait Around {
    /// Before it.
    fn enter(&mut self, at: At, numbers: &Numbers, rooms: &mut [Option<Span>]) -> Result<(), Told>;
    /// After it.
    fn leave(&mut self, at: At, rooms: &mut [Option<Span>]) -> Result<(), Told>;
}

/// A failure, told or still to be told.
pub(super) enum Told {
    Failure(Failure),
    Error(Error),
}

impl From<Failure> for Told {
    fn from(failure: Failure) -> Told {
        Told::Failure(failure)
    }
}

impl From<Error> for Told {
    fn from(error: Error) -> Told {
        Told::Error(error)
    }
}

/// Memory that is there before the run and after it: nothing happens.
pub(super) struct Fixed;

impl Around for Fixed {
    fn enter(&mut self, _: At, _: &Numbers, _: &mut [Option<Span>]) -> Result<(), Told> {
        Ok(())
    }

    fn leave(&mut self, _: At, _: &mut [Option<Span>]) -> Result<(), Told> {
        Ok(())
    }
}

/// Walks those steps of the model's own block on a device. `rooms` is the memory of each buffer.
pub(super) fn walk<D: Device>(
    bound: &mut Bound,
    device: &D,
    rooms: &mut [Option<Span>],
    schedule: &mut impl Around,
    range: Range<usize>,
) -> Result<(), Error> {
    let mut failure = None;
    let Bound { plan, first_steps, numbers, operands } = &mut *bound;
    let plan: &Plan = plan;
    let memory = OnDevice { plan, device, operands, rooms, schedule, failure: &mut failure };
    let result = Walk { plan, numbers, first_steps, memory }.steps(BlockId(0), range, 0);
    // The walker carries errors; how a failure of the device reads, only `bound` can tell.
    failure.map_or(result, |failure| Err(bound.told(failure)))
}

/// A device's memory during a walk.
struct OnDevice<'r, D, S> {
    plan: &'r Plan,
    device: &'r D,
    operands: &'r mut [Option<Operand>],
    rooms: &'r mut [Option<Span>],
    schedule: &'r mut S,
    /// What the device failed at, which ends the walk.
    failure: &'r mut Option<Failure>,
}

/// Operands of a step that need no allocation on the host.
const FEW: usize = 8;

impl<D: Device, S: Around> OnDevice<'_, D, S> {
    /// Keeps a failure, and gives the walker something to stop with.
    fn stop(&mut self, told: Told) -> Error {
        match told {
            Told::Error(error) => error,
            Told::Failure(failure) => {
                *self.failure = Some(failure);
                Error::plan("a device failed")
            }
        }
    }

    fn failed(&mut self, failure: Failure) -> Stop {
        Stop::Error(self.stop(failure.into()))
    }

    fn arg(&self, value: ValueId) -> Result<Arg, Fault> {
        let operand = self.operands.get(value.index()).copied().flatten().ok_or(Fault::Extent)?;
        let buffer = self.plan.values.get(value.index()).ok_or(Fault::OutOfBounds)?.place.buffer;
        let room = self.rooms.get(buffer.index()).copied().flatten().ok_or(Fault::OutOfBounds)?;
        Ok(Arg { room, operand })
    }

    fn collect(&self, values: &[Option<ValueId>], into: &mut [Option<Arg>]) -> Result<(), Fault> {
        for (value, place) in values.iter().zip(into) {
            *place = value.map(|v| self.arg(v)).transpose()?;
        }
        Ok(())
    }

    /// The bytes of a tensor that has this many, on the host.
    fn fetch<const N: usize>(&mut self, value: ValueId) -> Result<[u8; N], Stop> {
        let arg = self.arg(value)?;
        if arg.operand.shape.len() != 1 || arg.operand.dtype.size() != Some(N) {
            return Err(Fault::Shape("a condition or trip count has one element").into());
        }
        let span = Span { pointer: arg.room.pointer.plus(arg.operand.offset), bytes: N };
        let mut bytes = [0; N];
        self.device.read(span, &mut bytes).map_err(|f| self.failed(f))?;
        Ok(bytes)
    }

    fn issue(
        &mut self,
        prim: &Primitive<i64>,
        (reads, writes): (&[Option<Arg>], &[Option<Arg>]),
        workspace: Option<Span>,
        step: usize,
        defines: &mut [i64],
    ) -> Result<(), Stop> {
        let launch = Launch { prim, reads, writes, workspace, step };
        self.device.launch(&launch, defines).map_err(|f| self.failed(f))
    }
}

impl<D: Device, S: Around> Memory for OnDevice<'_, D, S> {
    fn enter(&mut self, at: At, numbers: &Numbers) -> Result<(), Error> {
        self.schedule.enter(at, numbers, self.rooms).map_err(|t| self.stop(t))
    }

    fn leave(&mut self, at: At, _: &Numbers) -> Result<(), Error> {
        self.schedule.leave(at, self.rooms).map_err(|t| self.stop(t))
    }

    fn launch(
        &mut self,
        at: At,
        prim: &Primitive<i64>,
        of: Operands<'_>,
        numbers: &Numbers,
        defines: &mut [i64],
    ) -> Result<(), Stop> {
        let workspace = match of.workspace {
            None => None,
            Some(id) => {
                let buffer = self.plan.buffers.get(id.index()).ok_or(Fault::OutOfBounds)?;
                let room = self.rooms.get(id.index()).copied().flatten().ok_or(Fault::OutOfBounds)?;
                // Where the room has been taken for less than is now known to be needed, the kernel is to say so.
                Some(Span { bytes: buffer_bytes(buffer, numbers)?.min(room.bytes), ..room })
            }
        };
        let (r, w) = (of.reads.len(), of.writes.len());
        if r <= FEW && w <= FEW {
            let (mut reads, mut writes) = ([None; FEW], [None; FEW]);
            self.collect(of.reads, &mut reads)?;
            self.collect(of.writes, &mut writes)?;
            let (Some(reads), Some(writes)) = (reads.get(..r), writes.get(..w)) else {
                return Err(Fault::OutOfBounds.into());
            };
            return self.issue(prim, (reads, writes), workspace, at.index, defines);
        }
        let (mut reads, mut writes) = (vec![None; r], vec![None; w]);
        self.collect(of.reads, &mut reads)?;
        self.collect(of.writes, &mut writes)?;
        self.issue(prim, (&reads, &writes), workspace, at.index, defines)
    }

    fn flag(&mut self, value: ValueId) -> Result<bool, Stop> {
        Ok(self.fetch::<1>(value)? != [0])
    }

    fn integer(&mut self, value: ValueId) -> Result<i64, Stop> {
        Ok(i64::from_ne_bytes(self.fetch(value)?))
    }

    fn moved(&mut self, symbol: SymbolId, numbers: &Numbers) {
        for index in numbers.dependent_values(symbol) {
            if let (Some(value), Some(place)) = (self.plan.values.get(index), self.operands.get_mut(index)) {
                *place = within_buffer(value, numbers).unwrap_or(None);
            }
        }
    }
}

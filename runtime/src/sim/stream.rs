//! The stream of a simulated device: what was asked, in order, and what it does to memory.

use super::{
    QueueMode, Traced,
    faults::{FaultAt, Faults},
    stage::Stages,
    table::Table,
};
use crate::device::{Arg, Failure, MemoryClass, Span, Staged};
use crate::interpret::call::call;
use crate::{DeviceCall, DeviceProblem, Frame, Isa, Operand, Scratch, Space};
use plan::Primitive;
use std::collections::VecDeque;
use std::thread::ThreadId;

/// A kernel and what it works on.
#[derive(Clone)]
pub(super) struct Kernel {
    pub(super) prim: Primitive<i64>,
    pub(super) reads: Vec<Option<Arg>>,
    pub(super) writes: Vec<Option<Arg>>,
    pub(super) workspace: Option<Span>,
    pub(super) step: usize,
}

/// Something to do.
#[derive(Clone)]
pub(super) enum Op {
    /// The memory of an allocation is there from here on.
    Begin(u64),
    /// It is gone from here on.
    End(u64),
    Launch(Box<Kernel>),
    Fill {
        to: Span,
        byte: u8,
    },
    Upload {
        from: Staged,
        to: Span,
    },
    Download {
        from: Span,
        to: Staged,
    },
}

impl Op {
    fn call(&self) -> DeviceCall {
        match self {
            Op::Begin(_) => DeviceCall::Alloc,
            Op::End(_) => DeviceCall::Free,
            Op::Launch(_) => DeviceCall::Launch,
            Op::Fill { .. } => DeviceCall::Fill,
            Op::Upload { .. } => DeviceCall::Upload,
            Op::Download { .. } => DeviceCall::Download,
        }
    }

    pub(super) fn failure(&self, problem: DeviceProblem) -> Failure {
        let step = if let Op::Launch(kernel) = self { Some(kernel.step) } else { None };
        Failure { step, ..Failure::new(self.call(), problem) }
    }
}

/// A capture that records.
pub(super) struct Recording {
    pub(super) thread: ThreadId,
    pub(super) ops: Vec<Op>,
    /// The call that made it invalid.
    pub(super) broken: Option<DeviceCall>,
}

/// All of a simulated device but its handle.
pub(super) struct State {
    pub(super) table: Table,
    pub(super) stages: Stages,
    pub(super) faults: Faults,
    pub(super) queue: VecDeque<Op>,
    pub(super) mode: QueueMode,
    /// What failed in the queue, until someone waits.
    pub(super) latched: Option<Failure>,
    pub(super) recording: Option<Recording>,
    /// What no right program does.
    pub(super) violations: Vec<String>,
    pub(super) trace: Option<Vec<Traced>>,
    pub(super) isa: Isa,
}

impl State {
    /// Writes a failure down if it is one that no right program meets.
    pub(super) fn note(&mut self, failure: Failure) -> Failure {
        let program = match failure.problem {
            DeviceProblem::OutOfMemory { .. } | DeviceProblem::Refused(_) => true,
            DeviceProblem::Fault(fault) => !matches!(fault, kernels::Fault::OutOfBounds | kernels::Fault::Overlap),
            _ => false,
        };
        if !program {
            let step = failure.step.map(|s| format!("step {s}: ")).unwrap_or_default();
            self.violations.push(format!("{step}{failure}"));
        }
        failure
    }

    /// Refuses a call while a capture records, which it makes invalid.
    pub(super) fn forbid(&mut self, call: DeviceCall) -> Result<(), Failure> {
        let Some(recording) = &mut self.recording else { return Ok(()) };
        recording.broken = recording.broken.or(Some(call));
        Err(self.note(Failure::new(call, DeviceProblem::Capturing)))
    }

    /// Queues something, writes it down for a capture, or does it.
    pub(super) fn submit(&mut self, op: Op) -> Result<(), Failure> {
        if let Some(recording) = &mut self.recording {
            if recording.thread != std::thread::current().id() {
                return self.forbid(op.call());
            }
            self.check(&op).map_err(|p| self.note(op.failure(p)))?;
            self.faults.check(FaultAt::Record).map_err(|p| op.failure(p))?;
            if let Some(recording) = &mut self.recording {
                recording.ops.push(op);
            }
            return Ok(());
        }
        self.check(&op).map_err(|p| self.note(op.failure(p)))?;
        self.enqueue(op)
    }

    /// Queues something that has been checked, or does it.
    pub(super) fn enqueue(&mut self, op: Op) -> Result<(), Failure> {
        match self.mode {
            QueueMode::Immediate => self.perform(&op),
            QueueMode::Lazy => {
                self.queue.push_back(op);
                Ok(())
            }
        }
    }

    /// Whether all the memory of an operation is there, as far as its owners are concerned.
    pub(super) fn check(&self, op: &Op) -> Result<(), DeviceProblem> {
        match op {
            Op::Begin(_) | Op::End(_) => Ok(()),
            Op::Launch(kernel) => {
                let args = kernel.reads.iter().chain(&kernel.writes).flatten();
                args.map(|a| a.room).chain(kernel.workspace).try_for_each(|span| self.table.check(span))
            }
            Op::Fill { to, .. } => self.table.check(*to),
            Op::Upload { from: staged, to: span } | Op::Download { from: span, to: staged } => {
                self.stages.check(*staged).and_then(|()| self.table.check(*span))
            }
        }
    }

    /// Does all that is queued. What fails first is returned.
    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        while let Some(op) = self.queue.pop_front() {
            if self.latched.is_some() && !matches!(op, Op::Begin(_) | Op::End(_)) {
                continue;
            }
            if let Err(failure) = self.perform(&op) {
                self.latched.get_or_insert(failure);
            }
        }
        self.latched.take().map_or(Ok(()), Err)
    }

    /// Does something now, and looks whether it has left everything else alone.
    fn perform(&mut self, op: &Op) -> Result<(), Failure> {
        self.perform_with(op, &mut [])
    }

    pub(super) fn perform_with(&mut self, op: &Op, defines: &mut [i64]) -> Result<(), Failure> {
        let done = match op {
            Op::Begin(generation) => {
                self.table.begin(*generation);
                Ok(())
            }
            Op::End(generation) => {
                self.table.end(*generation);
                Ok(())
            }
            Op::Launch(kernel) => self.kernel(kernel, defines),
            Op::Fill { to, byte } => self.faults.check(FaultAt::Copy).and_then(|()| {
                self.bytes(*to)?.fill(*byte);
                Ok(())
            }),
            Op::Upload { from, to } => self.upload(*from, *to),
            Op::Download { from, to } => self.download(*from, *to),
        };
        done.map_err(|p| self.note(op.failure(p)))?;
        match self.table.torn().map(|r| r.address) {
            Some(address) => Err(self.note(op.failure(DeviceProblem::RedZone { address }))),
            None => Ok(()),
        }
    }

    /// The bytes of a span.
    pub(super) fn bytes(&mut self, span: Span) -> Result<&mut [u8], DeviceProblem> {
        let start = self.table.locate(span)?;
        let address = span.pointer.address;
        let bytes = self.table.slab.bytes_mut().get_mut(start..start + span.bytes);
        bytes.ok_or(DeviceProblem::Unknown { address })
    }

    fn upload(&mut self, from: Staged, to: Span) -> Result<(), DeviceProblem> {
        self.faults.check(FaultAt::Copy)?;
        let start = self.table.locate(to)?;
        let into = self.table.slab.bytes_mut().get_mut(start..start + to.bytes);
        self.stages.read(from, into.ok_or(DeviceProblem::Unknown { address: to.pointer.address })?)?;
        self.table.stats.uploads.count += 1;
        self.table.stats.uploads.bytes += to.bytes as u64;
        Ok(())
    }

    fn download(&mut self, from: Span, to: Staged) -> Result<(), DeviceProblem> {
        self.faults.check(FaultAt::Copy)?;
        let start = self.table.locate(from)?;
        let bytes = self.table.slab.bytes().get(start..start + from.bytes);
        self.stages.write(to, bytes.ok_or(DeviceProblem::Unknown { address: from.pointer.address })?)?;
        self.table.stats.downloads.count += 1;
        self.table.stats.downloads.bytes += from.bytes as u64;
        Ok(())
    }

    fn kernel(&mut self, kernel: &Kernel, defines: &mut [i64]) -> Result<(), DeviceProblem> {
        self.faults.check(FaultAt::Kernel)?;
        let place = |arg: &Option<Arg>| arg.as_ref().map(|a| self.operand(a)).transpose();
        let reads: Vec<Option<Operand>> = kernel.reads.iter().map(place).collect::<Result<_, _>>()?;
        let writes: Vec<Option<Operand>> = kernel.writes.iter().map(place).collect::<Result<_, _>>()?;
        for write in kernel.writes.iter().flatten() {
            if self.table.class(write.room.pointer) == Some(MemoryClass::Const) {
                return Err(DeviceProblem::ReadOnly);
            }
        }
        let scratch = match kernel.workspace {
            Some(span) => Scratch::at(self.table.locate(span)?, span.bytes),
            None => Scratch::NONE,
        };
        let (reads, writes): (Vec<_>, Vec<_>) =
            (reads.iter().map(Option::as_ref).collect(), writes.iter().map(Option::as_ref).collect());
        let mut frame = Frame::new(self.table.slab.bytes_mut(), &[], &[], self.isa);
        call(&mut frame, &kernel.prim, &reads, &writes, scratch, defines)?;
        self.table.stats.kernels += 1;
        if self.faults.strikes(FaultAt::Scribble) {
            let first = kernel.writes.iter().flatten().next();
            let behind = first.and_then(|w| self.table.behind(w.room.pointer));
            if let Some(byte) = behind.and_then(|at| self.table.slab.bytes_mut().get_mut(at)) {
                *byte = !*byte;
            }
        }
        Ok(())
    }

    /// A tensor's place in the slab.
    fn operand(&self, arg: &Arg) -> Result<Operand, DeviceProblem> {
        let start = self.table.locate(arg.room)?;
        let operand = arg.operand;
        let (low, high) = super::reach(arg);
        if low < 0 || high > arg.room.bytes as i128 {
            let address = arg.room.pointer.address;
            let bytes = usize::try_from(high).unwrap_or(usize::MAX);
            return Err(DeviceProblem::Outside { address, bytes, room: arg.room.bytes });
        }
        let offset = start.checked_add(operand.offset).ok_or(kernels::Fault::OutOfBounds)?;
        Ok(Operand { space: Space::Arena, offset, ..operand })
    }
}

//! A simulated device, for tests: real bytes behind made-up addresses.
//!
//! It finds what a real device would let pass. Memory is poisoned when it is handed out and when it is given back, has red
//! zones around it that are looked at after every operation, and is known by generations: whoever uses it too long, or another
//! device's, is told. The queue can be made to run only when the host waits. Captures are written down and replayed from what
//! was written, pointers and host pointers included. Faults come when they are asked for. Kernels are those of the processor,
//! so results are the same bits as everywhere.

mod addresses;
mod differential;
mod faults;
mod slab;
mod stage;
mod stream;
mod table;
#[cfg(test)]
mod tests;

pub use addresses::Addresses;
pub use differential::{Difference, Differential, differential};
pub use faults::FaultAt;
pub use table::Record;

use crate::device::{
    Allocation, Arg, Device, Failure, Gate, Label, Launch, Release, ReleaseStage, Span, Stage, Staged, Stats,
};
use crate::{DeviceCall, DeviceProblem, Error, Isa};
use faults::Faults;
use plan::Primitive;
use stage::Stages;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stream::{Kernel, Op, Recording, State};
use table::Table;

/// When queued operations happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueMode {
    /// At once.
    Immediate,
    /// When the host waits.
    Lazy,
}

/// What a simulated device is like.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// Where allocations lie.
    pub addresses: Addresses,
    /// When operations happen.
    pub queue: QueueMode,
    /// Bytes that there are; none: as many as the host has.
    pub capacity: Option<usize>,
    /// Whether memory that was given back is told from what has its address now. Without, a pointer that is too old reads
    /// whatever is there, as on a real device.
    pub generations: bool,
    /// Whether the device counts.
    pub stats: bool,
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        SimOptions {
            addresses: Addresses::NeverReuse,
            queue: QueueMode::Immediate,
            capacity: None,
            generations: true,
            stats: true,
        }
    }
}

/// What a kernel was launched with, in a run or for a capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// The step.
    pub step: usize,
    /// The kernel and its parameters.
    pub prim: Primitive<i64>,
    /// Address, bytes and generation of each operand, reads first, and of the workspace last.
    pub args: Vec<(u64, usize, u64)>,
}

/// A simulated device. A clone is the same device.
#[derive(Clone)]
pub struct SimDevice(Arc<Shared>);

struct Shared {
    number: u32,
    stats: bool,
    gate: Gate,
    state: Mutex<State>,
}

/// What a capture wrote down.
pub struct SimGraph {
    device: u32,
    ops: Vec<Op>,
}

impl SimGraph {
    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}

impl SimDevice {
    /// A device with this number.
    ///
    /// # Errors
    /// When the host has no memory for it.
    pub fn new(number: u32, options: SimOptions) -> Result<SimDevice, Error> {
        let space = addresses::Space::new(options.addresses, number);
        let state = State {
            table: Table::new(number, space, options.capacity, options.generations)?,
            stages: Stages::new(number, !options.generations),
            faults: Faults::default(),
            queue: VecDeque::new(),
            mode: options.queue,
            latched: None,
            recording: None,
            violations: Vec::new(),
            trace: None,
            isa: Isa::detect(),
        };
        Ok(SimDevice(Arc::new(Shared {
            number,
            stats: options.stats,
            gate: Gate::default(),
            state: Mutex::new(state),
        })))
    }

    /// From now on, lets the `n`-th of these fail (from 0), once; and counts them anew. None: nothing fails.
    pub fn fail(&self, fault: Option<(FaultAt, u64)>) {
        self.state().faults.plan(fault);
    }

    /// How many of these there were since [`SimDevice::fail`].
    pub fn count(&self, at: FaultAt) -> u64 {
        self.state().faults.count(at)
    }

    /// What no right program does, and was done: uses of memory that is not there, writes beyond it, and calls that are
    /// forbidden while a capture records.
    pub fn violations(&self) -> Vec<String> {
        let state = self.state();
        let mut found = state.violations.clone();
        if let Some(record) = state.table.torn() {
            found.push(format!("the bytes around `{}` have been written", record.value));
        }
        found
    }

    /// The allocations that are alive.
    pub fn living(&self) -> Vec<Record> {
        self.state().table.records().cloned().collect()
    }

    /// The most recent launches since the trace was begun, which begins anew.
    pub fn trace(&self) -> Vec<Traced> {
        self.state().trace.replace(Vec::new()).unwrap_or_default()
    }

    /// What the device has counted, whether or not it says so as a [`Device`].
    pub fn counted(&self) -> Stats {
        self.state().table.stats.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes that a tensor covers, counted from the start of its room.
fn reach(arg: &Arg) -> (i128, i128) {
    let o = &arg.operand;
    if o.low == o.high {
        return (0, 0);
    }
    (o.offset as i128 + o.low as i128, o.offset as i128 + o.high as i128)
}

fn traced(launch: &Launch<'_>) -> Traced {
    let arg = |a: &Arg| {
        let (low, high) = reach(a);
        let at = a.room.pointer.plus(usize::try_from(low).unwrap_or(usize::MAX));
        (at.address, usize::try_from(high - low).unwrap_or(usize::MAX), at.generation)
    };
    let mut args: Vec<_> = launch.reads.iter().chain(launch.writes).flatten().map(arg).collect();
    args.extend(launch.workspace.map(|w| (w.pointer.address, w.bytes, w.pointer.generation)));
    Traced { step: launch.step, prim: *launch.prim, args }
}

fn failure(call: DeviceCall, label: &Label<'_>, bytes: usize, problem: DeviceProblem) -> Failure {
    Failure { call, problem, step: label.step, value: label.value.to_owned(), bytes }
}

impl Device for SimDevice {
    type Graph = SimGraph;

    fn number(&self) -> u32 {
        self.0.number
    }

    fn gate(&self) -> &Gate {
        &self.0.gate
    }

    fn alloc(&self, bytes: usize, label: &Label<'_>) -> Result<Allocation<SimDevice>, Failure> {
        let mut state = self.state();
        state.forbid(DeviceCall::Alloc)?;
        let taken = state.faults.check(FaultAt::Alloc).and_then(|()| state.table.take(bytes, label));
        let span = taken.map_err(|p| failure(DeviceCall::Alloc, label, bytes, p))?;
        state.enqueue(Op::Begin(span.pointer.generation))?;
        drop(state);
        Ok(Allocation::adopt(self.clone(), span))
    }

    fn release(&self, release: &Release) -> Result<(), Failure> {
        let mut state = self.state();
        let span = release.span();
        let generation = span.pointer.generation;
        if let Err(failure) = state.forbid(DeviceCall::Free) {
            state.table.quarantine(generation, true);
            return Err(failure);
        }
        if state.faults.strikes(FaultAt::LostFree) {
            state.table.quarantine(generation, false);
            return Ok(());
        }
        if let Err(problem) = state.faults.check(FaultAt::Free) {
            state.table.quarantine(generation, true);
            let of = state.table.record_of(generation);
            let (step, value) = of.map(|r| (r.step, r.value.clone())).unwrap_or_default();
            return Err(Failure { call: DeviceCall::Free, problem, step, value, bytes: span.bytes });
        }
        if let Err(problem) = state.table.give(span) {
            return Err(state.note(Failure::new(DeviceCall::Free, problem)));
        }
        state.enqueue(Op::End(generation))
    }

    fn stage(&self, bytes: usize, label: &Label<'_>) -> Result<Stage<SimDevice>, Failure> {
        let mut state = self.state();
        state.forbid(DeviceCall::Stage)?;
        let fault = state.faults.check(FaultAt::Alloc);
        fault.map_err(|p| failure(DeviceCall::Stage, label, bytes, p))?;
        let staged = state.stages.take(bytes);
        state.table.charge_stage(bytes, true);
        drop(state);
        Ok(Stage::adopt(self.clone(), staged))
    }

    fn release_stage(&self, release: &ReleaseStage) -> Result<(), Failure> {
        let mut state = self.state();
        state.forbid(DeviceCall::FreeStage)?;
        let given = state.stages.give(release.staged());
        given.map_err(|p| state.note(Failure::new(DeviceCall::FreeStage, p)))?;
        state.table.charge_stage(release.staged().bytes, false);
        Ok(())
    }

    fn write_stage(&self, to: Staged, bytes: &[u8]) -> Result<(), Failure> {
        let mut state = self.state();
        let written = state.stages.write(to, bytes);
        written.map_err(|p| state.note(Failure::new(DeviceCall::Write, p)))
    }

    fn read_stage(&self, from: Staged, into: &mut [u8]) -> Result<(), Failure> {
        let mut state = self.state();
        let read = state.stages.read(from, into);
        read.map_err(|p| state.note(Failure::new(DeviceCall::Read, p)))
    }

    fn write(&self, to: Span, bytes: &[u8]) -> Result<(), Failure> {
        let mut state = self.state();
        state.forbid(DeviceCall::Write)?;
        state.table.stats.syncs += 1;
        state.drain()?;
        state.faults.check(FaultAt::Copy).map_err(|p| Failure::new(DeviceCall::Write, p))?;
        let address = to.pointer.address;
        let problem = match state.bytes(to) {
            Ok(memory) if memory.len() == bytes.len() => {
                memory.copy_from_slice(bytes);
                return Ok(());
            }
            Ok(_) => DeviceProblem::Outside { address, bytes: bytes.len(), room: to.bytes },
            Err(problem) => problem,
        };
        Err(state.note(Failure::new(DeviceCall::Write, problem)))
    }

    fn read(&self, from: Span, into: &mut [u8]) -> Result<(), Failure> {
        let mut state = self.state();
        state.forbid(DeviceCall::Read)?;
        state.table.stats.syncs += 1;
        state.drain()?;
        state.faults.check(FaultAt::Copy).map_err(|p| Failure::new(DeviceCall::Read, p))?;
        let address = from.pointer.address;
        let problem = match state.bytes(from) {
            Ok(memory) if memory.len() == into.len() => {
                into.copy_from_slice(memory);
                return Ok(());
            }
            Ok(_) => DeviceProblem::Outside { address, bytes: into.len(), room: from.bytes },
            Err(problem) => problem,
        };
        Err(state.note(Failure::new(DeviceCall::Read, problem)))
    }

    fn fill(&self, to: Span, byte: u8) -> Result<(), Failure> {
        self.state().submit(Op::Fill { to, byte })
    }

    fn upload(&self, from: Staged, to: Span) -> Result<(), Failure> {
        self.state().submit(Op::Upload { from, to })
    }

    fn download(&self, from: Span, to: Staged) -> Result<(), Failure> {
        self.state().submit(Op::Download { from, to })
    }

    fn launch(&self, launch: &Launch<'_>, defines: &mut [i64]) -> Result<(), Failure> {
        let mut state = self.state();
        if let Some(trace) = &mut state.trace {
            trace.push(traced(launch));
        }
        let op = Op::Launch(Box::new(Kernel {
            prim: *launch.prim,
            reads: launch.reads.to_vec(),
            writes: launch.writes.to_vec(),
            workspace: launch.workspace,
            step: launch.step,
        }));
        if defines.is_empty() {
            return state.submit(op);
        }
        state.forbid(DeviceCall::Sync)?;
        if let Err(problem) = state.check(&op) {
            return Err(state.note(op.failure(problem)));
        }
        state.table.stats.syncs += 1;
        state.drain()?;
        state.perform_with(&op, defines)
    }

    fn sync(&self) -> Result<(), Failure> {
        let mut state = self.state();
        state.forbid(DeviceCall::Sync)?;
        state.table.stats.syncs += 1;
        state.drain()
    }

    fn begin_capture(&self) -> Result<(), Failure> {
        let mut state = self.state();
        state.forbid(DeviceCall::BeginCapture)?;
        state.recording = Some(Recording { thread: std::thread::current().id(), ops: Vec::new(), broken: None });
        Ok(())
    }

    fn end_capture(&self) -> Result<SimGraph, Failure> {
        let fail = |problem| Failure::new(DeviceCall::EndCapture, problem);
        let mut state = self.state();
        let recording = state.recording.take().ok_or_else(|| fail(DeviceProblem::NotCapturing))?;
        if let Some(by) = recording.broken {
            return Err(fail(DeviceProblem::Invalidated { by }));
        }
        state.faults.check(FaultAt::CaptureEnd).map_err(fail)?;
        Ok(SimGraph { device: self.0.number, ops: recording.ops })
    }

    fn abort_capture(&self) {
        self.state().recording = None;
    }

    fn replay(&self, graph: &SimGraph) -> Result<(), Failure> {
        let mut state = self.state();
        state.forbid(DeviceCall::Replay)?;
        if graph.device != self.0.number {
            let problem = DeviceProblem::Foreign { owner: graph.device };
            return Err(state.note(Failure::new(DeviceCall::Replay, problem)));
        }
        // All of it is looked at before any of it is done.
        if let Some((op, problem)) = graph.ops.iter().find_map(|op| state.check(op).err().map(|p| (op, p))) {
            let step = op.failure(problem).step;
            return Err(state.note(Failure { step, ..Failure::new(DeviceCall::Replay, problem) }));
        }
        state.table.stats.replays += 1;
        graph.ops.iter().try_for_each(|op| state.enqueue(op.clone()))
    }

    fn stats(&self) -> Option<Stats> {
        self.0.stats.then(|| self.counted())
    }
}

//! What executors ask of a device. Its memory, copies and kernels are in one stream: what is asked later happens later.

use super::gate::Gate;
use super::memory::{Allocation, Arg, Label, MemoryClass, Release, ReleaseStage, Span, Stage, Staged};
use crate::{DeviceCall, DeviceProblem};
use alloc::string::String;
use plan::Primitive;

/// A device that did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {problem}")]
pub struct Failure {
    /// The call.
    pub call: DeviceCall,
    /// Why it failed.
    pub problem: DeviceProblem,
    /// The step of the plan that it was for.
    pub step: Option<usize>,
    /// What the memory was for, as far as memory is concerned.
    pub value: String,
    /// Bytes of that memory.
    pub bytes: usize,
}

impl Failure {
    /// A failure of no step and no memory.
    pub fn new(call: DeviceCall, problem: DeviceProblem) -> Failure {
        Failure { call, problem, step: None, value: String::new(), bytes: 0 }
    }
}

/// A kernel and what it works on.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The primitive, its parameters computed.
    pub prim: &'a Primitive<i64>,
    /// What it reads.
    pub reads: &'a [Option<Arg>],
    /// What it writes.
    pub writes: &'a [Option<Arg>],
    /// Its scratch memory.
    pub workspace: Option<Span>,
    /// The step's number, counted through all blocks of the plan.
    pub step: usize,
}

/// How many, and how many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Copies {
    pub count: u64,
    pub bytes: u64,
}

/// What a device has counted since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Times that the host waited for the stream: syncs, reads, and writes from pageable memory.
    pub syncs: u64,
    /// Allocations of device memory.
    pub allocs: u64,
    /// Allocations given back.
    pub frees: u64,
    /// Allocations that could not be given back; their bytes stay charged.
    pub failed_frees: u64,
    /// Bytes of those.
    pub quarantined: u64,
    /// Kernels that ran, replayed ones among them.
    pub kernels: u64,
    /// Graphs that were replayed.
    pub replays: u64,
    /// Copies from the host.
    pub uploads: Copies,
    /// Copies to the host.
    pub downloads: Copies,
    /// Bytes in use, by [`MemoryClass::index`].
    pub live: [u64; MemoryClass::COUNT],
    /// The most bytes in use, by class.
    pub peak: [u64; MemoryClass::COUNT],
    /// The most bytes of activations, workspaces and states in use at once.
    pub run_peak: u64,
}

impl Stats {
    /// Bytes of a class in use.
    pub fn live(&self, class: MemoryClass) -> u64 {
        self.live.get(class.index()).copied().unwrap_or(0)
    }

    /// The most bytes of a class in use.
    pub fn peak(&self, class: MemoryClass) -> u64 {
        self.peak.get(class.index()).copied().unwrap_or(0)
    }
}

/// A device. A clone is the same device.
///
/// Calls return when they are queued, but for [`sync`](Device::sync), [`read`](Device::read) and [`write`](Device::write),
/// which wait until all that was queued has happened. A kernel that fails makes those fail that wait after it (or itself, on
/// a device that does not queue); all that was queued behind it but for the memory that is given back does not happen.
///
/// While a capture records, kernels, fills and copies from and to staging memory are written down instead of done; all other
/// calls are forbidden and make the capture invalid.
pub trait Device: Clone + Send + Sync + 'static {
    /// What a capture leaves. It says nothing about whether the memory that it names still is there.
    type Graph: Send;

    /// The device's number.
    fn number(&self) -> u32;

    /// What keeps captures and calls that would break them apart.
    fn gate(&self) -> &Gate;

    /// Memory with undefined contents.
    ///
    /// # Errors
    /// When there is not enough, or a capture records.
    fn alloc(&self, bytes: usize, label: &Label<'_>) -> Result<Allocation<Self>, Failure>;

    /// Takes memory back, after all that was queued before. For [`Allocation`], which alone can ask for it.
    ///
    /// # Errors
    /// When the memory is not this device's, or a capture records. Its bytes then stay charged.
    fn release(&self, release: &Release) -> Result<(), Failure>;

    /// Host memory that queued copies may use.
    ///
    /// # Errors
    /// When there is not enough, or a capture records.
    fn stage(&self, bytes: usize, label: &Label<'_>) -> Result<Stage<Self>, Failure>;

    /// Takes staging memory back. For [`Stage`], which alone can ask for it.
    ///
    /// # Errors
    /// When it is not this device's, or a capture records.
    fn release_stage(&self, release: &ReleaseStage) -> Result<(), Failure>;

    /// Writes staging memory, now.
    ///
    /// # Errors
    /// When it is not there, or has another length than `bytes`.
    fn write_stage(&self, to: Staged, bytes: &[u8]) -> Result<(), Failure>;

    /// Reads staging memory, now.
    ///
    /// # Errors
    /// When it is not there, or has another length than `into`.
    fn read_stage(&self, from: Staged, into: &mut [u8]) -> Result<(), Failure>;

    /// Writes device memory from any memory of the host, and waits for it.
    ///
    /// # Errors
    /// When the span does not lie within living memory of the device, or a capture records.
    fn write(&self, to: Span, bytes: &[u8]) -> Result<(), Failure>;

    /// Reads device memory, and waits for it.
    ///
    /// # Errors
    /// As [`Device::write`]; and what failed in the queue.
    fn read(&self, from: Span, into: &mut [u8]) -> Result<(), Failure>;

    /// Queues a fill.
    ///
    /// # Errors
    /// When the span does not lie within living memory of the device.
    fn fill(&self, to: Span, byte: u8) -> Result<(), Failure>;

    /// Queues a copy from staging memory.
    ///
    /// # Errors
    /// When either does not lie within living memory.
    fn upload(&self, from: Staged, to: Span) -> Result<(), Failure>;

    /// Queues a copy to staging memory.
    ///
    /// # Errors
    /// When either does not lie within living memory.
    fn download(&self, from: Span, to: Staged) -> Result<(), Failure>;

    /// Queues a kernel. With `defines`, waits for it and leaves there the values of the symbols that it found.
    ///
    /// # Errors
    /// When an operand does not lie within living memory of the device; when the kernel fails and is waited for.
    fn launch(&self, launch: &Launch<'_>, defines: &mut [i64]) -> Result<(), Failure>;

    /// Waits for all that was queued.
    ///
    /// # Errors
    /// What failed in the queue; the device is usable again.
    fn sync(&self) -> Result<(), Failure>;

    /// Begins a capture.
    ///
    /// # Errors
    /// When one records already.
    fn begin_capture(&self) -> Result<(), Failure>;

    /// Ends a capture.
    ///
    /// # Errors
    /// When none records, or it has become invalid. In any case none records any more.
    fn end_capture(&self) -> Result<Self::Graph, Failure>;

    /// Gives a capture up, if one records.
    fn abort_capture(&self);

    /// Queues all that a capture wrote down.
    ///
    /// # Errors
    /// When memory that it names is not there any more; then nothing is queued.
    fn replay(&self, graph: &Self::Graph) -> Result<(), Failure>;

    /// What the device has counted; none: it does not count.
    fn stats(&self) -> Option<Stats>;
}

/// Captures what `issue` asks of the device. Nobody else's waiting calls come in between, and memory given back meanwhile
/// is given back afterwards.
///
/// # Errors
/// What `issue` returns, or [`Device::end_capture`] does. In any case the device records no longer.
pub fn record<D: Device, E: From<Failure>>(device: &D, issue: impl FnOnce() -> Result<(), E>) -> Result<D::Graph, E> {
    let exclusive = device.gate().capture();
    let result = device.begin_capture().map_err(E::from).and_then(|()| match issue() {
        Ok(()) => device.end_capture().map_err(E::from),
        Err(error) => {
            device.abort_capture();
            Err(error)
        }
    });
    let (memory, stages) = exclusive.end();
    // A release that fails leaves its bytes charged, and the device has counted it.
    memory.iter().for_each(|r| drop(device.release(r)));
    stages.iter().for_each(|r| drop(device.release_stage(r)));
    result
}

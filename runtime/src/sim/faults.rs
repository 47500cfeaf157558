//! Faults on demand.

use crate::DeviceProblem;

/// What a fault befalls. Each kind is counted for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultAt {
    /// An allocation finds no memory.
    Alloc,
    /// Memory is not taken back, and the caller is told.
    Free,
    /// Memory is not taken back, and nobody is told: as if its owner had forgotten it.
    LostFree,
    /// A copy, fill, read or write fails.
    Copy,
    /// A kernel fails before it has done anything.
    Kernel,
    /// A kernel also writes the byte behind the allocation of its first write.
    Scribble,
    /// A call fails that a capture would have written down.
    Record,
    /// A capture does not end well.
    CaptureEnd,
}

impl FaultAt {
    /// All of them.
    pub const ALL: [FaultAt; 8] = [
        FaultAt::Alloc,
        FaultAt::Free,
        FaultAt::LostFree,
        FaultAt::Copy,
        FaultAt::Kernel,
        FaultAt::Scribble,
        FaultAt::Record,
        FaultAt::CaptureEnd,
    ];
}

/// Counts, and the one fault that is to come.
#[derive(Debug, Default)]
pub(super) struct Faults {
    counts: [u64; FaultAt::ALL.len()],
    coming: Option<(FaultAt, u64)>,
}

impl Faults {
    /// The next fault: the `n`-th from now (from 0), once. Counts begin anew.
    pub(super) fn plan(&mut self, coming: Option<(FaultAt, u64)>) {
        *self = Faults { counts: [0; FaultAt::ALL.len()], coming };
    }

    /// How many there were since [`Faults::plan`].
    pub(super) fn count(&self, at: FaultAt) -> u64 {
        self.counts.get(at as usize).copied().unwrap_or(0)
    }

    /// Whether this is the one that fails.
    pub(super) fn strikes(&mut self, at: FaultAt) -> bool {
        let Some(count) = self.counts.get_mut(at as usize) else { return false };
        let n = *count;
        *count += 1;
        if self.coming == Some((at, n)) {
            self.coming = None;
            return true;
        }
        false
    }

    /// An error if this is the one that fails.
    pub(super) fn check(&mut self, at: FaultAt) -> Result<(), DeviceProblem> {
        if self.strikes(at) { Err(DeviceProblem::Refused("a fault was asked for")) } else { Ok(()) }
    }
}

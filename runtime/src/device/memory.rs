//! Device memory and those who own it.

use super::api::{Device, Failure};
use crate::Operand;
use plan::DType;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryClass {
    /// Weights and other constants.
    Const,
    /// States, which survive runs.
    Persist,
    /// Inputs and outputs.
    Io,
    /// Activations; the arena of the static executor.
    Act,
    /// Workspace of kernels.
    Work,
    /// Host memory that queued copies use.
    Stage,
    /// What only loading needs.
    InitScratch,
}

impl MemoryClass {
    /// How many there are.
    pub const COUNT: usize = 7;

    /// The class's place in lists.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Who needs memory, for messages and accounts.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    /// What it is for.
    pub class: MemoryClass,
    /// The step that takes it.
    pub step: Option<usize>,
    /// The tensor or buffer.
    pub value: &'a str,
    /// The type of its elements, where they have one.
    pub dtype: Option<DType>,
    /// Bytes are charged in multiples of this.
    pub align: usize,
}

impl<'a> Label<'a> {
    /// Memory of no step.
    pub const fn new(class: MemoryClass, value: &'a str) -> Label<'a> {
        Label { class, step: None, value, dtype: None, align: 1 }
    }
}

/// An address in a device's memory, and the allocation that it is of. Copies of it own nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// The device.
    pub device: u32,
    /// The address there.
    pub address: u64,
    /// The allocation: no two of a device have the same.
    pub generation: u64,
}

impl Pointer {
    /// The address that many bytes further. Where there is no such address, it is one that no allocation has.
    #[must_use]
    pub fn plus(self, bytes: usize) -> Pointer {
        let address = u64::try_from(bytes).ok().and_then(|b| self.address.checked_add(b)).unwrap_or(u64::MAX);
        Pointer { address, ..self }
    }
}

/// A range of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Span {
    pub pointer: Pointer,
    pub bytes: usize,
}

/// A tensor in device memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arg {
    /// The memory of its buffer.
    pub room: Span,
    /// Type, shape, and the place counted from the start of that memory.
    pub operand: Operand,
}

/// A range of staging memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Staged {
    /// The device whose it is.
    pub device: u32,
    /// The host's address.
    pub address: u64,
    /// The allocation.
    pub generation: u64,
    /// Bytes from the start of the allocation.
    pub offset: usize,
    /// Bytes.
    pub bytes: usize,
}

/// The end of an allocation. Only [`Allocation`] makes it, once.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    span: Span,
}

impl Release {
    /// The memory.
    pub fn span(&self) -> Span {
        self.span
    }
}

/// The end of staging memory. Only [`Stage`] makes it, once.
#[derive(Debug, PartialEq, Eq)]
pub struct ReleaseStage {
    staged: Staged,
}

impl ReleaseStage {
    /// The memory.
    pub fn staged(&self) -> Staged {
        self.staged
    }
}

/// Device memory that is given back when this is dropped.
#[must_use = "memory that nobody keeps is given back at once"]
pub struct Allocation<D: Device> {
    device: D,
    /// None once it has been given back.
    span: Option<Span>,
}

impl<D: Device> Allocation<D> {
    /// The owner of memory that a device has just handed out. For devices.
    pub fn adopt(device: D, span: Span) -> Allocation<D> {
        Allocation { device, span: Some(span) }
    }

    /// The memory.
    pub fn span(&self) -> Span {
        // There is none only while it is being dropped.
        self.span.unwrap_or(Span { pointer: Pointer { device: u32::MAX, address: u64::MAX, generation: 0 }, bytes: 0 })
    }

    /// Gives the memory back, after all that has been queued; while a capture records, when that has ended.
    ///
    /// # Errors
    /// When the device does not take it; its bytes stay charged.
    pub fn free(mut self) -> Result<(), Failure> {
        self.give()
    }

    fn give(&mut self) -> Result<(), Failure> {
        let Some(span) = self.span.take() else { return Ok(()) };
        match self.device.gate().defer(Release { span }) {
            Ok(()) => Ok(()),
            Err((release, _pass)) => self.device.release(&release),
        }
    }
}

impl<D: Device> Drop for Allocation<D> {
    fn drop(&mut self) {
        // The device counts a release that fails; there is nobody here to tell.
        drop(self.give());
    }
}

/// Host memory for queued copies, given back when this is dropped.
#[must_use = "memory that nobody keeps is given back at once"]
pub struct Stage<D: Device> {
    device: D,
    staged: Option<Staged>,
}

impl<D: Device> Stage<D> {
    /// The owner of staging memory that a device has just handed out. For devices.
    pub fn adopt(device: D, staged: Staged) -> Stage<D> {
        Stage { device, staged: Some(staged) }
    }

    /// All of it.
    pub fn staged(&self) -> Staged {
        self.staged.unwrap_or(Staged { device: u32::MAX, address: u64::MAX, generation: 0, offset: 0, bytes: 0 })
    }

    /// The first bytes of it.
    pub fn first(&self, bytes: usize) -> Staged {
        Staged { bytes, ..self.staged() }
    }

    /// Gives the memory back.
    ///
    /// # Errors
    /// When the device does not take it.
    pub fn free(mut self) -> Result<(), Failure> {
        self.give()
    }

    fn give(&mut self) -> Result<(), Failure> {
        let Some(staged) = self.staged.take() else { return Ok(()) };
        match self.device.gate().defer_stage(ReleaseStage { staged }) {
            Ok(()) => Ok(()),
            Err((release, _pass)) => self.device.release_stage(&release),
        }
    }
}

impl<D: Device> Drop for Stage<D> {
    fn drop(&mut self) {
        // As for an allocation.
        drop(self.give());
    }
}

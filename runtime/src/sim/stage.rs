//! Host memory that queued copies use.

use super::table::DEAD;
use crate::DeviceProblem;
use crate::device::Staged;
use std::collections::BTreeMap;

/// All staging memory of a device.
#[derive(Default)]
pub(super) struct Stages {
    living: BTreeMap<u64, Vec<u8>>,
    next: u64,
    device: u32,
    /// Memory that was given back reads as poison; else as an error.
    lenient: bool,
}

impl Stages {
    pub(super) fn new(device: u32, lenient: bool) -> Stages {
        Stages { living: BTreeMap::new(), next: 1, device, lenient }
    }

    pub(super) fn take(&mut self, bytes: usize) -> Staged {
        let generation = self.next;
        self.next += 1;
        self.living.insert(generation, vec![super::table::FRESH; bytes]);
        Staged { device: self.device, address: generation << 32, generation, offset: 0, bytes }
    }

    pub(super) fn give(&mut self, staged: Staged) -> Result<(), DeviceProblem> {
        self.check(staged)?;
        self.living.remove(&staged.generation);
        Ok(())
    }

    /// Whether that memory is there.
    pub(super) fn check(&self, staged: Staged) -> Result<(), DeviceProblem> {
        if self.lenient && staged.device == self.device { Ok(()) } else { self.there(staged).map(drop) }
    }

    fn there(&self, staged: Staged) -> Result<&[u8], DeviceProblem> {
        if staged.device != self.device {
            return Err(DeviceProblem::Foreign { owner: staged.device });
        }
        let Staged { address, generation, offset, bytes, .. } = staged;
        let memory = self.living.get(&generation).ok_or(match generation < self.next {
            true => DeviceProblem::Dead { address, generation },
            false => DeviceProblem::Unknown { address },
        })?;
        let range = offset.checked_add(bytes).and_then(|end| memory.get(offset..end));
        range.ok_or(DeviceProblem::Outside { address, bytes, room: memory.len().saturating_sub(offset) })
    }

    /// Copies staging memory to `into`, of the same length.
    pub(super) fn read(&self, from: Staged, into: &mut [u8]) -> Result<(), DeviceProblem> {
        if into.len() != from.bytes {
            return Err(DeviceProblem::Outside { address: from.address, bytes: into.len(), room: from.bytes });
        }
        match self.there(from) {
            Ok(bytes) => into.copy_from_slice(bytes),
            Err(DeviceProblem::Dead { .. }) if self.lenient => into.fill(DEAD),
            Err(problem) => return Err(problem),
        }
        Ok(())
    }

    /// Staging memory, to be written with that many bytes.
    pub(super) fn write(&mut self, to: Staged, bytes: &[u8]) -> Result<(), DeviceProblem> {
        self.there(to)?;
        let memory = self.living.get_mut(&to.generation).and_then(|m| m.get_mut(to.offset..to.offset + to.bytes));
        match memory.filter(|m| m.len() == bytes.len()) {
            Some(memory) => memory.copy_from_slice(bytes),
            None => return Err(DeviceProblem::Outside { address: to.address, bytes: bytes.len(), room: to.bytes }),
        }
        Ok(())
    }
}

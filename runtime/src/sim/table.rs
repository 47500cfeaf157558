//! The allocations of a simulated device: which are alive, for whom, and whether their surroundings are whole.

use super::{addresses::Space, slab::Slab};
use crate::device::{Label, MemoryClass, Pointer, Span, Stats};
use crate::{DeviceProblem, Error};
use plan::DType;
use std::collections::BTreeMap;

/// What memory holds when it has just been allocated, and once it has been given back.
pub(super) const FRESH: u8 = 0xa5;
pub(super) const DEAD: u8 = 0xdd;

/// An allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub bytes: usize,
    /// What it is for.
    pub class: MemoryClass,
    /// The step that took it.
    pub step: Option<usize>,
    /// The tensor or buffer that it is for.
    pub value: String,
    /// The type of its elements, where they have one.
    pub dtype: Option<DType>,
    /// Bytes charged for it.
    pub charged: u64,
    /// Whether it could not be given back.
    pub quarantined: bool,
    /// Where its bytes are.
    slab: usize,
    /// The room at its address.
    room: u64,
    /// Whether its owner still has it; the queue may lag behind.
    owned: bool,
    /// Whether the queue has come to its beginning.
    begun: bool,
}

/// All allocations that are alive, for their owner or in the queue.
pub(super) struct Table {
    pub(super) slab: Slab,
    pub(super) stats: Stats,
    records: BTreeMap<u64, Record>,
    space: Space,
    device: u32,
    next: u64,
    capacity: Option<usize>,
    /// Bytes that owners have.
    owned: usize,
    /// Whether memory is found by its generation; else by its address alone, as a device does.
    by_generation: bool,
}

impl Table {
    pub(super) fn new(device: u32, space: Space, capacity: Option<usize>, by_generation: bool) -> Result<Table, Error> {
        Ok(Table {
            slab: Slab::new()?,
            stats: Stats::default(),
            records: BTreeMap::new(),
            space,
            device,
            next: 1,
            capacity,
            owned: 0,
            by_generation,
        })
    }

    /// A new allocation; [`Table::begin`] fills it.
    pub(super) fn take(&mut self, bytes: usize, label: &Label<'_>) -> Result<Span, DeviceProblem> {
        let short = |capacity| DeviceProblem::OutOfMemory { bytes, used: self.owned, capacity };
        let charged = bytes.checked_next_multiple_of(label.align.max(1)).ok_or(short(usize::MAX))?;
        let owned = self.owned.checked_add(charged).ok_or(short(usize::MAX))?;
        if let Some(capacity) = self.capacity
            && owned > capacity
        {
            return Err(short(capacity));
        }
        let slab = self.slab.take(bytes)?;
        let (address, room) = self.space.take(bytes);
        let generation = self.next;
        self.next += 1;
        self.owned = owned;
        self.stats.allocs += 1;
        let record = Record {
            address,
            bytes,
            class: label.class,
            step: label.step,
            value: label.value.to_owned(),
            dtype: label.dtype,
            charged: charged as u64,
            quarantined: false,
            slab,
            room,
            owned: true,
            begun: false,
        };
        self.records.insert(generation, record);
        Ok(Span { pointer: Pointer { device: self.device, address, generation }, bytes })
    }

    /// The queue has come to the beginning of an allocation.
    pub(super) fn begin(&mut self, generation: u64) {
        let Some(record) = self.records.get_mut(&generation) else { return };
        record.begun = true;
        if let Some(bytes) = self.slab.bytes_mut().get_mut(record.slab..record.slab + record.bytes) {
            poison(bytes, record.dtype, FRESH);
        }
        let stats = &mut self.stats;
        if let Some(live) = stats.live.get_mut(record.class.index()) {
            *live += record.charged;
            if let Some(peak) = stats.peak.get_mut(record.class.index()) {
                *peak = (*peak).max(*live);
            }
        }
        let run = [MemoryClass::Act, MemoryClass::Work, MemoryClass::Persist].map(|c| stats.live(c)).iter().sum();
        stats.run_peak = stats.run_peak.max(run);
    }

    /// The owner gives an allocation back; [`Table::end`] makes its memory free.
    pub(super) fn give(&mut self, span: Span) -> Result<(), DeviceProblem> {
        self.check(span)?;
        if let Some(record) = self.records.get_mut(&span.pointer.generation) {
            record.owned = false;
            self.owned = self.owned.saturating_sub(usize::try_from(record.charged).unwrap_or(usize::MAX));
            self.space.give(record.address, record.room);
            self.stats.frees += 1;
        }
        Ok(())
    }

    /// An allocation cannot be given back: it stays charged, and nobody owns it.
    pub(super) fn quarantine(&mut self, generation: u64, told: bool) {
        let Some(record) = self.records.get_mut(&generation) else { return };
        record.quarantined = true;
        if told {
            self.stats.failed_frees += 1;
            self.stats.quarantined += record.charged;
        }
    }

    /// The queue has come to the end of an allocation.
    pub(super) fn end(&mut self, generation: u64) {
        let Some(record) = self.records.remove(&generation) else { return };
        if let Some(bytes) = self.slab.bytes_mut().get_mut(record.slab..record.slab + record.bytes) {
            poison(bytes, record.dtype, DEAD);
        }
        self.slab.give(record.slab, record.bytes);
        if let Some(live) = self.stats.live.get_mut(record.class.index()) {
            *live = live.saturating_sub(record.charged);
        }
    }

    /// Whether a span lies within memory that its owner still has.
    pub(super) fn check(&self, span: Span) -> Result<(), DeviceProblem> {
        let (_, record) = self.record(span.pointer)?;
        if !record.owned && self.by_generation {
            return Err(dead(span.pointer));
        }
        inside(record, span).map(drop)
    }

    /// Where the bytes of a span are, for the queue.
    pub(super) fn locate(&self, span: Span) -> Result<usize, DeviceProblem> {
        let (_, record) = self.record(span.pointer)?;
        if !record.begun {
            return Err(dead(span.pointer));
        }
        Ok(record.slab + inside(record, span)?)
    }

    /// What memory at a pointer is for.
    pub(super) fn class(&self, pointer: Pointer) -> Option<MemoryClass> {
        self.record(pointer).ok().map(|(_, r)| r.class)
    }

    /// Where the byte behind an allocation is.
    pub(super) fn behind(&self, pointer: Pointer) -> Option<usize> {
        self.record(pointer).ok().map(|(_, r)| r.slab + r.bytes)
    }

    fn record(&self, pointer: Pointer) -> Result<(u64, &Record), DeviceProblem> {
        if pointer.device != self.device {
            return Err(DeviceProblem::Foreign { owner: pointer.device });
        }
        if self.by_generation {
            let generation = pointer.generation;
            return match self.records.get(&generation) {
                Some(record) => Ok((generation, record)),
                None if generation > 0 && generation < self.next => Err(dead(pointer)),
                None => Err(DeviceProblem::Unknown { address: pointer.address }),
            };
        }
        // The youngest that is there: in the queue an older one at the same address may not have ended yet.
        let there = |r: &Record| pointer.address >= r.address && pointer.address - r.address <= r.bytes as u64;
        let found = self.records.iter().rev().find(|(_, r)| there(r));
        found.map(|(g, r)| (*g, r)).ok_or(DeviceProblem::Unknown { address: pointer.address })
    }

    /// An allocation.
    pub(super) fn record_of(&self, generation: u64) -> Option<&Record> {
        self.records.get(&generation)
    }

    /// Staging memory comes or goes.
    pub(super) fn charge_stage(&mut self, bytes: usize, taken: bool) {
        let at = MemoryClass::Stage.index();
        if let (Some(live), Some(peak)) = (self.stats.live.get_mut(at), self.stats.peak.get_mut(at)) {
            *live = if taken { *live + bytes as u64 } else { live.saturating_sub(bytes as u64) };
            *peak = (*peak).max(*live);
        }
    }

    /// The first allocation whose surroundings have been written.
    pub(super) fn torn(&self) -> Option<&Record> {
        self.records.values().find(|r| r.begun && !self.slab.intact(r.slab, r.bytes))
    }

    /// What is alive.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }
}

fn dead(pointer: Pointer) -> DeviceProblem {
    DeviceProblem::Dead { address: pointer.address, generation: pointer.generation }
}

/// Where a span begins in an allocation.
fn inside(record: &Record, span: Span) -> Result<usize, DeviceProblem> {
    let address = span.pointer.address;
    let first = address.checked_sub(record.address).and_then(|f| usize::try_from(f).ok());
    let Some(first) = first.filter(|f| *f <= record.bytes) else { return Err(DeviceProblem::Unknown { address }) };
    let room = record.bytes - first;
    if span.bytes > room {
        return Err(DeviceProblem::Outside { address, bytes: span.bytes, room });
    }
    Ok(first)
}

/// Fills memory so that whoever reads it notices: floats are NaN.
fn poison(bytes: &mut [u8], dtype: Option<DType>, with: u8) {
    bytes.fill(with);
    let (size, high) = match dtype {
        Some(DType::F64) => (8, [0xf5 | (with & 0x0f), 0xff]),
        Some(DType::F32) => (4, [with, 0xff]),
        Some(DType::F16 | DType::BF16) => (2, [with, 0xff]),
        _ => return,
    };
    for element in bytes.chunks_exact_mut(size) {
        if let Some(top) = element.last_chunk_mut::<2>() {
            *top = high;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_is_no_number() {
        for with in [FRESH, DEAD] {
            let mut bytes = [0; 8];
            poison(&mut bytes, Some(DType::F64), with);
            assert!(f64::from_le_bytes(bytes).is_nan());
            let mut bytes = [0; 4];
            poison(&mut bytes, Some(DType::F32), with);
            assert!(f32::from_le_bytes(bytes).is_nan());
            let mut bytes = [0; 2];
            poison(&mut bytes, Some(DType::F16), with);
            assert!(half::f16::from_le_bytes(bytes).is_nan());
            assert!(half::bf16::from_le_bytes(bytes).is_nan());
        }
    }
}

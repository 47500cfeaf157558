//! Memory that is taken and given back while a model runs: the eager executor's.
//!
//! A buffer is held by an owning handle, and what an [`Account`] shows as live is what such handles hold: dropping one frees
//! the memory and takes its bytes off the account, and nothing else does either.

use crate::{AlignedBytes, Fault, Frame, Isa};
use alloc::{sync::Arc, vec::Vec};
use core::{
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The bytes that a heap holds, for those who watch it.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    live: AtomicUsize,
    peak: AtomicUsize,
}

impl Account {
    /// Bytes held now, each buffer rounded up to the heap's alignment.
    pub fn live_bytes(&self) -> usize {
        self.0.live.load(Ordering::Relaxed)
    }

    /// The most bytes held at once since the last run began.
    pub fn peak_bytes(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Bytes that count as live until the charge is dropped.
    fn charge(&self, bytes: usize) -> Charge {
        let before = self.0.live.fetch_add(bytes, Ordering::Relaxed);
        self.0.peak.fetch_max(before.saturating_add(bytes), Ordering::Relaxed);
        Charge { account: self.clone(), bytes }
    }
}

/// Bytes on an account.
#[derive(Debug)]
struct Charge {
    account: Account,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.0.live.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A buffer that is held. The memory is freed first, then its bytes leave the account.
#[must_use = "dropping it gives the buffer back"]
struct Held {
    memory: AlignedBytes,
    /// Bytes that operands may lie in; the rest is alignment.
    len: usize,
    _charge: Charge,
}

/// The buffers of one model that are held, by number.
pub struct Heap {
    held: Vec<Option<Held>>,
    align: usize,
    account: Account,
}

impl Heap {
    /// A heap of so many buffers, none of them held. Each will have a multiple of `align` bytes.
    pub fn new(buffers: usize, align: usize) -> Heap {
        let held = core::iter::repeat_with(|| None).take(buffers).collect();
        Heap { held, align: align.max(1), account: Account::default() }
    }

    /// What is held, as it changes.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Gives back whatever is held, and forgets the peak.
    pub(crate) fn begin(&mut self) {
        self.clear();
        self.account.0.peak.store(self.account.live_bytes(), Ordering::Relaxed);
    }

    /// Gives back whatever is held.
    pub fn clear(&mut self) {
        self.held.iter_mut().for_each(|held| drop(held.take()));
    }

    /// Takes `bytes` zeros for a buffer.
    ///
    /// # Errors
    /// [`Fault::Held`] where it is held already, [`Fault::OutOfMemory`] where there is no memory.
    pub(crate) fn take(&mut self, buffer: u32, bytes: usize) -> Result<(), Fault> {
        let place = self.held.get_mut(buffer as usize).ok_or(Fault::NotHeld { buffer })?;
        if place.is_some() {
            return Err(Fault::Held { buffer });
        }
        let charged = bytes.checked_next_multiple_of(self.align).ok_or(Fault::OutOfMemory { bytes })?;
        let memory = AlignedBytes::zeroed(charged).map_err(|_| Fault::OutOfMemory { bytes: charged })?;
        *place = Some(Held { memory, len: bytes, _charge: self.account.charge(charged) });
        Ok(())
    }

    /// Gives a buffer back.
    ///
    /// # Errors
    /// [`Fault::NotHeld`] where it is not held.
    pub(crate) fn give(&mut self, buffer: u32) -> Result<(), Fault> {
        let held = self.held.get_mut(buffer as usize).and_then(Option::take);
        held.map(drop).ok_or(Fault::NotHeld { buffer })
    }

    /// Where a buffer lies, and its bytes.
    pub(crate) fn site(&self, buffer: u32) -> Result<(NonNull<u8>, usize), Fault> {
        match self.held.get(buffer as usize) {
            Some(Some(held)) => Ok((held.memory.start(), held.len)),
            _ => Err(Fault::NotHeld { buffer }),
        }
    }

    /// The bytes of a buffer.
    ///
    /// # Errors
    /// [`Fault::NotHeld`] where it is not held.
    pub fn bytes(&self, buffer: u32) -> Result<&[u8], Fault> {
        let held = self.held.get(buffer as usize).and_then(Option::as_ref);
        held.and_then(|h| h.memory.get(..h.len)).ok_or(Fault::NotHeld { buffer })
    }

    /// Writes `byte` all over a buffer, so that what is read before it was written shows.
    #[cfg(feature = "interpret")]
    pub(crate) fn poison(&mut self, buffer: u32, byte: u8) {
        if let Some(Some(held)) = self.held.get_mut(buffer as usize) {
            held.memory.fill(byte);
        }
    }
}

/// What a step of the eager executor gives back and takes when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn<const G: usize, const T: usize> {
    gives: [u32; G],
    takes: [(u32, usize); T],
}

impl<const G: usize, const T: usize> Turn<G, T> {
    /// Buffers that are given back, and those that are taken, each with its bytes in this run.
    pub const fn new(gives: [u32; G], takes: [(u32, usize); T]) -> Turn<G, T> {
        Turn { gives, takes }
    }
}

/// The memory of one run of the eager executor: a [`Frame`] that can also take buffers and give them back. A plain frame, which
/// the static executor runs on, can do neither.
pub struct EagerFrame<'a>(Frame<'a>);

impl<'a> EagerFrame<'a> {
    /// A frame over states, a heap, weights and the caller's inputs. What the heap held is given back.
    pub fn new(
        states: &'a mut [u8],
        heap: &'a mut Heap,
        weights: &'a [u8],
        inputs: &'a [&'a [u8]],
        isa: Isa,
    ) -> EagerFrame<'a> {
        heap.begin();
        EagerFrame(Frame::with_heap(states, heap, weights, inputs, isa))
    }

    /// Begins a step: gives back what the steps before it were the last to use, then takes what it is the first to use.
    ///
    /// # Errors
    /// A [`Fault`] where the one is not held, or the other is, or there is no memory.
    pub fn begin<const G: usize, const T: usize>(
        &mut self,
        step: usize,
        turn: &Turn<G, T>,
    ) -> Result<&mut Frame<'a>, Fault> {
        self.turn(step, &turn.gives, &turn.takes)
    }

    #[inline(never)]
    fn turn(&mut self, step: usize, gives: &[u32], takes: &[(u32, usize)]) -> Result<&mut Frame<'a>, Fault> {
        self.give(gives)?;
        self.0.at(step);
        for (buffer, bytes) in takes {
            self.0.take(*buffer, *bytes)?;
        }
        Ok(&mut self.0)
    }

    /// Gives buffers back.
    ///
    /// # Errors
    /// [`Fault::NotHeld`] where one is not held.
    pub fn give(&mut self, buffers: &[u32]) -> Result<(), Fault> {
        buffers.iter().try_for_each(|buffer| self.0.give(*buffer))
    }
}

impl<'a> Deref for EagerFrame<'a> {
    type Target = Frame<'a>;
    fn deref(&self) -> &Frame<'a> {
        &self.0
    }
}

impl<'a> DerefMut for EagerFrame<'a> {
    fn deref_mut(&mut self) -> &mut Frame<'a> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row A8. What an account shows is what handles hold: a handle that is lost without freeing shows for ever.
    #[test]
    fn giving_back_returns_bytes() {
        let mut heap = Heap::new(2, 64);
        let account = heap.account().clone();
        let counts = || (account.live_bytes(), account.peak_bytes());
        heap.take(0, 100).unwrap();
        heap.take(1, 64).unwrap();
        assert_eq!(counts(), (192, 192));
        heap.give(0).unwrap();
        assert_eq!(counts(), (64, 192));
        heap.begin();
        assert_eq!(counts(), (0, 0));
        heap.take(0, 1).unwrap();
        core::mem::forget(heap.held[0].take());
        heap.clear();
        assert_eq!(counts(), (64, 64), "a handle that was lost is not counted as given back");
        drop(heap);
        assert_eq!(account.live_bytes(), 64);
    }

    /// Row A8. A model that is dropped gives back what it holds.
    #[test]
    fn a_heap_that_is_dropped_gives_back() {
        let mut heap = Heap::new(1, 64);
        let account = heap.account().clone();
        heap.take(0, 1).unwrap();
        assert_eq!(account.live_bytes(), 64);
        drop(heap);
        assert_eq!(account.live_bytes(), 0);
    }

    #[test]
    fn buffers_are_held_once() {
        let mut heap = Heap::new(1, 64);
        assert_eq!(heap.give(0), Err(Fault::NotHeld { buffer: 0 }));
        assert_eq!(heap.bytes(0), Err(Fault::NotHeld { buffer: 0 }));
        assert_eq!(heap.take(1, 8), Err(Fault::NotHeld { buffer: 1 }));
        heap.take(0, 8).unwrap();
        assert_eq!(heap.bytes(0), Ok(&[0u8; 8][..]));
        assert_eq!(heap.take(0, 8), Err(Fault::Held { buffer: 0 }));
        heap.give(0).unwrap();
        assert_eq!(heap.give(0), Err(Fault::NotHeld { buffer: 0 }));
        assert_eq!(heap.take(0, usize::MAX), Err(Fault::OutOfMemory { bytes: usize::MAX }));
        let huge = isize::MAX as usize & !63;
        assert_eq!(heap.take(0, huge), Err(Fault::OutOfMemory { bytes: huge }));
        assert_eq!(heap.account().live_bytes(), 0);
        heap.take(0, 0).unwrap();
        assert_eq!(heap.bytes(0), Ok(&[][..]));
    }

    #[test]
    fn a_step_gives_back_before_it_takes() {
        let (mut states, weights) = ([0u8; 0], [0u8; 0]);
        let mut heap = Heap::new(2, 64);
        let account = heap.account().clone();
        let mut frame = EagerFrame::new(&mut states, &mut heap, &weights, &[], Isa::Portable);
        frame.begin(0, &Turn::new([], [(0, 64)])).unwrap();
        frame.begin(1, &Turn::new([0], [(1, 64), (0, 32)])).unwrap();
        assert_eq!((account.live_bytes(), account.peak_bytes()), (128, 128));
        assert_eq!(frame.begin(2, &Turn::new([1], [(0, 8)])).err(), Some(Fault::Held { buffer: 0 }));
        assert_eq!(frame.0.step(), 2);
    }
}

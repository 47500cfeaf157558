//! The frame: the memory of one run, and the only place that makes views of it.
//!
//! A view is made after every operand of its step has been checked: inside its memory, aligned, writes only in the
//! arena or in buffers that are held, and no write overlapping another operand but as a permitted in-place pair.

#[cfg(feature = "alloc")]
use crate::Heap;
use crate::{Kernel, Operand, Space};
use core::{marker::PhantomData, ptr::NonNull};
use kernels::{Call, Dst, Fault, Isa, Src};
use plan::Traits;

/// A step's scratch memory, or a state: a range of the arena, or all of a buffer that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scratch {
    space: Space,
    /// Bytes from the start of the arena.
    offset: usize,
    /// Bytes in the arena.
    pub(crate) len: usize,
}

impl Scratch {
    /// No scratch memory.
    pub const NONE: Scratch = Scratch::at(0, 0);

    /// `len` bytes of the arena at `offset`.
    pub const fn at(offset: usize, len: usize) -> Scratch {
        Scratch { space: Space::Arena, offset, len }
    }

    /// All of a buffer of the eager executor.
    pub const fn held(buffer: u32) -> Scratch {
        Scratch { space: Space::Heap(buffer), offset: 0, len: 0 }
    }

    /// The same range, after checking that it lies within `bytes`. For constants.
    ///
    /// # Panics
    /// In a constant (so at compile time) when it does not.
    #[must_use]
    pub const fn within(self, bytes: usize) -> Scratch {
        assert!(self.offset <= bytes && self.len <= bytes - self.offset, "a workspace or state lies outside the arena");
        self
    }

    /// Sets the range to zero.
    pub fn clear(self, arena: &mut crate::Arena<'_>) {
        arena.clear(self.offset, self.len);
    }
}

/// The memory of one run: arena, weights, the caller's inputs; and the instruction set.
pub struct Frame<'a> {
    arena: NonNull<u8>,
    arena_len: usize,
    weights: &'a [u8],
    inputs: &'a [&'a [u8]],
    isa: Isa,
    step: usize,
    #[cfg(feature = "alloc")]
    heap: Option<&'a mut Heap>,
    memory: PhantomData<&'a mut [u8]>,
}

/// Where an operand's bytes lie: the first element, and the range of all. Bytes are numbered so that no two have the same number
/// that a step may write: those of the arena from 0, those of a buffer by their addresses, after all of the arena's.
#[derive(Clone, Copy)]
struct Site {
    first: NonNull<u8>,
    low: usize,
    high: usize,
}

impl<'a> Frame<'a> {
    /// A frame over this memory.
    pub fn new(arena: &'a mut [u8], weights: &'a [u8], inputs: &'a [&'a [u8]], isa: Isa) -> Frame<'a> {
        Frame {
            arena_len: arena.len(),
            arena: NonNull::from(arena).cast(),
            weights,
            inputs,
            isa,
            step: 0,
            #[cfg(feature = "alloc")]
            heap: None,
            memory: PhantomData,
        }
    }

    /// The frame of an eager executor, whose arena holds the states.
    #[cfg(feature = "alloc")]
    pub(crate) fn with_heap(
        states: &'a mut [u8],
        heap: &'a mut Heap,
        weights: &'a [u8],
        inputs: &'a [&'a [u8]],
        isa: Isa,
    ) -> Frame<'a> {
        Frame { heap: Some(heap), ..Frame::new(states, weights, inputs, isa) }
    }

    /// Takes a buffer.
    #[cfg(feature = "alloc")]
    pub(crate) fn take(&mut self, buffer: u32, bytes: usize) -> Result<(), Fault> {
        self.heap.as_mut().ok_or(Fault::NotHeld { buffer })?.take(buffer, bytes)
    }

    /// Gives a buffer back.
    #[cfg(feature = "alloc")]
    pub(crate) fn give(&mut self, buffer: u32) -> Result<(), Fault> {
        self.heap.as_mut().ok_or(Fault::NotHeld { buffer })?.give(buffer)
    }

    /// Writes a byte all over a buffer.
    #[cfg(feature = "interpret")]
    pub(crate) fn poison(&mut self, buffer: u32, byte: u8) {
        if let Some(heap) = &mut self.heap {
            heap.poison(buffer, byte);
        }
    }

    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Says which step runs now, for messages.
    #[inline]
    pub fn at(&mut self, step: usize) -> &mut Self {
        self.step = step;
        self
    }

    /// The step that ran last.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Runs a kernel on these operands. `defines` receives the values of the symbols that the step finds.
    ///
    /// # Errors
    /// A [`Fault`] when an operand does not lie within its memory or overlaps another, or the kernel fails.
    #[inline(never)]
    pub fn call<K: Kernel, const R: usize, const W: usize>(
        &mut self,
        kernel: &K,
        reads: [Option<&Operand>; R],
        writes: [Option<&Operand>; W],
        scratch: Scratch,
        defines: &mut [i64],
    ) -> Result<(), Fault> {
        let mut srcs = [const { None }; R];
        let mut dsts = [const { None }; W];
        let isa = self.isa;
        let workspace = self.views(&kernel.traits(), &reads, &writes, scratch, &mut srcs, &mut dsts)?;
        kernel.run(&mut Call::new(&srcs, &mut dsts, workspace, defines, isa))
    }

    /// The views of a step's operands, after checking them all.
    pub(crate) fn views<'m>(
        &'m mut self,
        traits: &Traits,
        reads: &[Option<&Operand>],
        writes: &[Option<&Operand>],
        scratch: Scratch,
        srcs: &mut [Option<Src<'m>>],
        dsts: &mut [Option<Dst<'m>>],
    ) -> Result<&'m mut [u8], Fault> {
        let room = self.room(scratch)?;
        for (i, (operand, place)) in reads.iter().zip(srcs.iter_mut()).enumerate() {
            let Some(operand) = operand else { continue };
            let site = self.site(operand)?;
            if operand.space.is_written() && overlap(site, room.low, room.high) {
                return Err(Fault::Overlap);
            }
            let shared = self.shares(traits, i, operand, site, writes)?;
            // SAFETY: `site` has checked that the whole span lies within memory that is initialised and borrowed for
            // `'m`, and that it is aligned. Weights and inputs are never written (`written`). In the arena and in buffers
            // no write of this call overlaps this span (`shares`) but for one of the same memory and shape, and then both
            // views are marked. The views end with the call, before arena or heap are used again, as they borrow `self`
            // for `'m`.
            *place = Some(unsafe { Src::from_raw(site.first, operand.dtype, operand.shape, shared) });
        }
        for (i, (operand, place)) in writes.iter().zip(dsts.iter_mut()).enumerate() {
            let Some(operand) = operand else { continue };
            let site = self.written(operand)?;
            if overlap(site, room.low, room.high) {
                return Err(Fault::Overlap);
            }
            for other in writes.iter().take(i).flatten() {
                let other = self.site(other)?;
                if overlap(site, other.low, other.high) {
                    return Err(Fault::Overlap);
                }
            }
            let shared = srcs.iter().flatten().any(|s| s.is_shared() && s.as_ptr() == site.first.as_ptr());
            // SAFETY: as above; no other write of this call and no part of its workspace overlaps this span.
            *place = Some(unsafe { Dst::from_raw(site.first, operand.dtype, operand.shape, shared) });
        }
        // SAFETY: `room` has checked that the range lies within the arena or a buffer that is held, which are borrowed for
        // `'m` and initialised; no view of this call overlaps it, as checked above.
        Ok(unsafe { core::slice::from_raw_parts_mut(room.first.as_ptr(), room.high - room.low) })
    }

    /// Where scratch memory lies.
    fn room(&self, scratch: Scratch) -> Result<Site, Fault> {
        if let Space::Heap(buffer) = scratch.space {
            let (first, len) = self.held(buffer)?;
            return self.numbered(Site { first, low: 0, high: len }, first);
        }
        if scratch.len == 0 {
            return Ok(NOWHERE);
        }
        let high = scratch.offset.checked_add(scratch.len).ok_or(Fault::OutOfBounds)?;
        if high > self.arena_len {
            return Err(Fault::OutOfBounds);
        }
        // SAFETY: the offset is below the length of the arena.
        let first = unsafe { self.arena.add(scratch.offset) };
        Ok(Site { first, low: scratch.offset, high })
    }

    /// A buffer that is held.
    fn held(&self, buffer: u32) -> Result<(NonNull<u8>, usize), Fault> {
        #[cfg(feature = "alloc")]
        if let Some(heap) = &self.heap {
            return heap.site(buffer);
        }
        Err(Fault::NotHeld { buffer })
    }

    /// The numbers of bytes that are counted from `base`, where a buffer begins.
    fn numbered(&self, site: Site, base: NonNull<u8>) -> Result<Site, Fault> {
        let number = |n: usize| self.arena_len.checked_add(base.as_ptr().addr())?.checked_add(n);
        match (number(site.low), number(site.high)) {
            (Some(low), Some(high)) => Ok(Site { first: site.first, low, high }),
            _ => Err(Fault::OutOfBounds),
        }
    }

    /// Where an operand lies, after checking that it lies within its memory and is aligned.
    fn site(&self, operand: &Operand) -> Result<Site, Fault> {
        let (base, len) = match operand.space {
            Space::Arena => (self.arena, self.arena_len),
            Space::Heap(buffer) => {
                let (base, len) = self.held(buffer)?;
                return self.numbered(locate(base, len, operand)?, base);
            }
            Space::Weights => (NonNull::from(self.weights).cast(), self.weights.len()),
            Space::Input(i) => {
                let input = self.inputs.get(i as usize).ok_or(Fault::Missing { operand: i as usize })?;
                (NonNull::from(*input).cast::<u8>(), input.len())
            }
        };
        locate(base, len, operand)
    }

    /// Where a write lies.
    fn written(&self, operand: &Operand) -> Result<Site, Fault> {
        if operand.space.is_written() { self.site(operand) } else { Err(Fault::ReadOnly) }
    }

    /// Whether read `i` shares its memory with a write, as it may; an error where it overlaps one as it may not.
    fn shares(
        &self,
        traits: &Traits,
        i: usize,
        operand: &Operand,
        site: Site,
        writes: &[Option<&Operand>],
    ) -> Result<bool, Fault> {
        if !operand.space.is_written() {
            return Ok(false);
        }
        let mut shared = false;
        for (w, write) in writes.iter().enumerate() {
            let Some(write) = write else { continue };
            let target = self.written(write)?;
            if !overlap(site, target.low, target.high) {
                continue;
            }
            // Spans that overlap lie in the same memory.
            let same = write.offset == operand.offset
                && write.dtype.bits() == operand.dtype.bits()
                && write.shape == operand.shape;
            let permitted = traits.in_place.iter().any(|(r, o)| (usize::from(*r), usize::from(*o)) == (i, w));
            if !same || !permitted || shared {
                return Err(Fault::Overlap);
            }
            shared = true;
        }
        Ok(shared)
    }

    /// The bytes of a row-major tensor, to be read.
    ///
    /// # Errors
    /// When it does not lie within its memory, or is strided.
    pub fn bytes(&self, operand: &Operand) -> Result<&[u8], Fault> {
        let site = self.site(operand)?;
        // SAFETY: `site` has checked that the span lies within memory that is initialised; it is borrowed with `self`.
        unsafe { Src::from_raw(site.first, operand.dtype, operand.shape, false) }.bytes()
    }

    /// The bytes of a row-major tensor in the arena or a buffer, to be written.
    ///
    /// # Errors
    /// When it does not lie within that, or is strided.
    pub fn bytes_mut(&mut self, operand: &Operand) -> Result<&mut [u8], Fault> {
        let site = self.written(operand)?;
        if !operand.shape.is_contiguous() {
            return Err(Fault::Strided);
        }
        // SAFETY: `written` has checked that these bytes lie within the arena or a buffer, which are borrowed with `self`.
        Ok(unsafe { core::slice::from_raw_parts_mut(site.first.as_ptr(), site.high - site.low) })
    }

    /// The only element of a boolean tensor of one element.
    ///
    /// # Errors
    /// When it is not that.
    pub fn flag(&self, operand: &Operand) -> Result<bool, Fault> {
        match self.bytes(operand)? {
            [byte] => Ok(*byte != 0),
            _ => Err(Fault::Shape("a condition has one element")),
        }
    }

    /// The only element of an i64 tensor of one element.
    ///
    /// # Errors
    /// When it is not that.
    pub fn integer(&self, operand: &Operand) -> Result<i64, Fault> {
        let bytes = self.bytes(operand)?;
        bytes.try_into().map(i64::from_ne_bytes).map_err(|_| Fault::Shape("a trip count is one i64"))
    }
}

/// Where nothing lies: any aligned address does.
const NOWHERE: Site = Site { first: NonNull::<u128>::dangling().cast(), low: 0, high: 0 };

/// Where an operand lies in the `len` bytes at `base`, after checking that it does and is aligned.
#[inline(always)]
fn locate(base: NonNull<u8>, len: usize, operand: &Operand) -> Result<Site, Fault> {
    if operand.low == operand.high {
        return Ok(NOWHERE);
    }
    let low = operand.offset.checked_add_signed(operand.low).ok_or(Fault::OutOfBounds)?;
    let high = operand.offset.checked_add_signed(operand.high).ok_or(Fault::OutOfBounds)?;
    if high > len || operand.offset >= len {
        return Err(Fault::OutOfBounds);
    }
    // SAFETY: the offset is below the length of the memory at `base`.
    let first = unsafe { base.add(operand.offset) };
    if !first.as_ptr().addr().is_multiple_of(operand.dtype.align()) {
        return Err(Fault::OutOfBounds);
    }
    Ok(Site { first, low, high })
}

/// Whether a span overlaps the bytes `low..high` of the same memory.
fn overlap(site: Site, low: usize, high: usize) -> bool {
    site.low < high && low < site.high && low < high
}

// SAFETY: a frame is mutable borrows of an arena and a heap, and shared borrows of bytes; all of these are `Send`.
unsafe impl Send for Frame<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{DType, prim};

    #[repr(align(64))]
    struct Memory([u8; 256]);

    /// What a step over a small arena comes to.
    fn check(
        kernel: &impl Kernel,
        reads: [Option<&Operand>; 2],
        write: &Operand,
        scratch: Scratch,
    ) -> Result<Vec<bool>, Fault> {
        let (mut memory, weights) = (Memory([0; 256]), Memory([0; 256]));
        let input = [0u8; 8];
        let inputs: [&[u8]; 1] = [&input];
        let mut frame = Frame::new(&mut memory.0, &weights.0, &inputs, Isa::Portable);
        let mut srcs = [None; 2];
        let mut dsts = [const { None }; 1];
        frame.views(&kernel.traits(), &reads, &[Some(write)], scratch, &mut srcs, &mut dsts)?;
        Ok(srcs.iter().flatten().map(Src::is_shared).collect())
    }

    const A: Operand = Operand::arena(0, DType::F32, [16]);
    const B: Operand = Operand::arena(64, DType::F32, [16]);
    const MAP: prim::Map = prim::Map { code: plan::List::EMPTY };

    #[test]
    fn each_rule_of_the_arena_is_seen_red() {
        let ok = check(&MAP, [Some(&A), None], &B, Scratch::at(128, 64));
        assert_eq!(ok, Ok(vec![false]));
        let beyond = Operand::arena(196, DType::F32, [16]);
        assert_eq!(check(&MAP, [Some(&beyond), None], &B, Scratch::NONE), Err(Fault::OutOfBounds));
        let before = Operand::strided(Space::Arena, 0, DType::F32, [2], [-1]);
        assert_eq!(check(&MAP, [Some(&before), None], &B, Scratch::NONE), Err(Fault::OutOfBounds));
        let crooked = Operand::arena(2, DType::F32, [4]);
        assert_eq!(check(&MAP, [Some(&crooked), None], &B, Scratch::NONE), Err(Fault::OutOfBounds));
        let weights = Operand::weights(0, DType::F32, [16]);
        assert_eq!(check(&MAP, [Some(&A), None], &weights, Scratch::NONE), Err(Fault::ReadOnly));
        let input = Operand::input(0, DType::U8, [8]);
        assert_eq!(check(&MAP, [Some(&A), None], &input, Scratch::NONE), Err(Fault::ReadOnly));
        let long = Operand::input(0, DType::U8, [9]);
        assert_eq!(check(&MAP, [Some(&long), None], &B, Scratch::NONE), Err(Fault::OutOfBounds));
        let other = Operand::input(1, DType::U8, [8]);
        assert_eq!(check(&MAP, [Some(&other), None], &B, Scratch::NONE), Err(Fault::Missing { operand: 1 }));
        let half = Operand::arena(32, DType::F32, [16]);
        assert_eq!(check(&MAP, [Some(&half), None], &B, Scratch::NONE), Err(Fault::Overlap));
        assert_eq!(check(&MAP, [Some(&A), None], &B, Scratch::at(60, 8)), Err(Fault::Overlap));
        assert_eq!(check(&MAP, [None, None], &B, Scratch::at(120, 64)), Err(Fault::Overlap));
        assert_eq!(check(&MAP, [None, None], &B, Scratch::at(250, 7)), Err(Fault::OutOfBounds));
    }

    /// What a step over buffers of 64 bytes comes to: 0 and 1 are held, 2 is not.
    #[cfg(feature = "alloc")]
    fn check_held(
        kernel: &impl Kernel,
        reads: [Option<&Operand>; 2],
        write: &Operand,
        scratch: Scratch,
    ) -> Result<(Vec<bool>, usize), Fault> {
        let (mut states, weights) = (Memory([0; 256]), Memory([0; 256]));
        let mut heap = Heap::new(3, 64);
        let mut frame = Frame::with_heap(&mut states.0, &mut heap, &weights.0, &[], Isa::Portable);
        frame.take(0, 64)?;
        frame.take(1, 60)?;
        let mut srcs = [None; 2];
        let mut dsts = [const { None }; 1];
        let workspace = frame.views(&kernel.traits(), &reads, &[Some(write)], scratch, &mut srcs, &mut dsts)?.len();
        Ok((srcs.iter().flatten().map(Src::is_shared).collect(), workspace))
    }

    #[cfg(feature = "alloc")]
    #[test]
    fn each_rule_of_the_heap_is_seen_red() {
        let held = |buffer, offset, n| Operand::held(buffer, offset, DType::F32, [n]);
        let (all, none) = (held(0, 0, 16), Scratch::NONE);
        assert_eq!(check_held(&MAP, [Some(&all), None], &held(1, 0, 15), none), Ok((vec![false], 0)));
        // States and buffers are apart, whatever their offsets.
        assert_eq!(check_held(&MAP, [Some(&A), None], &all, Scratch::held(1)), Ok((vec![false], 60)));
        assert_eq!(check_held(&MAP, [Some(&all), None], &A, Scratch::at(64, 64)), Ok((vec![false], 64)));
        // The bytes of this run, not of the alignment; what is held, and no other.
        assert_eq!(check_held(&MAP, [Some(&all), None], &held(1, 0, 16), none), Err(Fault::OutOfBounds));
        assert_eq!(check_held(&MAP, [Some(&held(0, 60, 2)), None], &held(1, 0, 2), none), Err(Fault::OutOfBounds));
        let before = Operand::strided(Space::Heap(0), 0, DType::F32, [2], [-1]);
        assert_eq!(check_held(&MAP, [Some(&before), None], &held(1, 0, 2), none), Err(Fault::OutOfBounds));
        assert_eq!(check_held(&MAP, [Some(&held(0, 2, 2)), None], &held(1, 0, 2), none), Err(Fault::OutOfBounds));
        assert_eq!(check_held(&MAP, [Some(&held(2, 0, 1)), None], &all, none), Err(Fault::NotHeld { buffer: 2 }));
        assert_eq!(check_held(&MAP, [None, None], &held(2, 0, 1), none), Err(Fault::NotHeld { buffer: 2 }));
        assert_eq!(check_held(&MAP, [None, None], &held(2, 0, 0), none), Err(Fault::NotHeld { buffer: 2 }));
        assert_eq!(check_held(&MAP, [None, None], &all, Scratch::held(2)), Err(Fault::NotHeld { buffer: 2 }));
        assert_eq!(check_held(&MAP, [None, None], &held(3, 0, 1), none), Err(Fault::NotHeld { buffer: 3 }));
        // Overlaps, in the same buffer alone.
        assert_eq!(check_held(&MAP, [Some(&held(0, 0, 2)), None], &held(0, 4, 2), none), Err(Fault::Overlap));
        assert_eq!(check_held(&MAP, [Some(&all), None], &held(1, 0, 1), Scratch::held(0)), Err(Fault::Overlap));
        assert_eq!(check_held(&MAP, [None, None], &all, Scratch::held(0)), Err(Fault::Overlap));
        // In place.
        assert_eq!(check_held(&MAP, [Some(&all), None], &all, Scratch::held(1)), Ok((vec![true], 60)));
        assert_eq!(check_held(&prim::Copy {}, [Some(&all), None], &all, none), Err(Fault::Overlap));
        // A static frame holds nothing.
        assert_eq!(check(&MAP, [Some(&all), None], &B, none), Err(Fault::NotHeld { buffer: 0 }));
    }

    #[test]
    fn in_place_only_where_the_table_says_so() {
        assert_eq!(check(&MAP, [Some(&B), None], &B, Scratch::NONE), Ok(vec![true]));
        assert_eq!(check(&MAP, [Some(&A), Some(&B)], &B, Scratch::NONE), Ok(vec![false, true]));
        assert_eq!(check(&prim::Copy {}, [Some(&B), None], &B, Scratch::NONE), Err(Fault::Overlap));
        let shape = Operand::arena(64, DType::F32, [4, 4]);
        assert_eq!(check(&MAP, [Some(&shape), None], &B, Scratch::NONE), Err(Fault::Overlap));
        let size = Operand::arena(64, DType::F64, [8]);
        assert_eq!(check(&MAP, [Some(&size), None], &B, Scratch::NONE), Err(Fault::Overlap));
    }

    #[test]
    fn nothing_is_nowhere() {
        let none = Operand::arena(10_000, DType::F32, [0, 3]);
        assert_eq!(check(&MAP, [Some(&none), None], &none, Scratch::NONE), Ok(vec![false]));
    }
}

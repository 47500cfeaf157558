//! The arena: one piece of memory for all of a model's activations, workspaces and states.

use crate::Error;

/// The largest alignment that an arena of ours has: that of every device.
#[cfg(feature = "alloc")]
pub const OWNED_ALIGN: usize = 256;

/// Zeroed bytes at an address that is a multiple of `OWNED_ALIGN`.
///
/// On Linux, large ones come in huge pages as far as the system gives them, and all of them at once: taking them one by one in the
/// first run would cost about a millisecond for each 4 MiB.
#[cfg(feature = "alloc")]
pub struct AlignedBytes {
    start: core::ptr::NonNull<u8>,
    len: usize,
    /// Where the bytes are, when the allocator does not own them.
    #[cfg(all(feature = "std", target_os = "linux"))]
    pages: Option<memmap2::MmapMut>,
}

/// From this size on, pages are asked of the system.
#[cfg(all(feature = "std", target_os = "linux"))]
const LARGE: usize = 1 << 20;

/// The size of a huge page on the processors that have some.
#[cfg(all(feature = "std", target_os = "linux"))]
const HUGE: usize = 2 << 20;

#[cfg(feature = "alloc")]
impl AlignedBytes {
    /// `len` zeros.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn zeroed(len: usize) -> Result<AlignedBytes, Error> {
        let dangling = core::ptr::NonNull::<Line>::dangling().cast();
        if len == 0 {
            return Ok(AlignedBytes::at(dangling, len));
        }
        #[cfg(all(feature = "std", target_os = "linux"))]
        if let Some(bytes) = (len >= LARGE).then(|| AlignedBytes::pages(len)).flatten() {
            return Ok(bytes);
        }
        let short = || Error::out_of_memory(len);
        let layout = core::alloc::Layout::from_size_align(len, OWNED_ALIGN).map_err(|_| short())?;
        // SAFETY: the layout's size is not zero.
        let start = core::ptr::NonNull::new(unsafe { alloc::alloc::alloc_zeroed(layout) }).ok_or_else(short)?;
        Ok(AlignedBytes::at(start, len))
    }

    /// Bytes that the allocator owns, or none.
    fn at(start: core::ptr::NonNull<u8>, len: usize) -> AlignedBytes {
        AlignedBytes {
            start,
            len,
            #[cfg(all(feature = "std", target_os = "linux"))]
            pages: None,
        }
    }

    /// Bytes in pages of their own, all of them present; none where the system does not give them.
    #[cfg(all(feature = "std", target_os = "linux"))]
    fn pages(len: usize) -> Option<AlignedBytes> {
        use memmap2::Advice;
        let mut pages = memmap2::MmapMut::map_anon(len.checked_add(HUGE)?).ok()?;
        let offset = pages.as_ptr().align_offset(HUGE);
        let bytes = pages.get_mut(offset..)?.get_mut(..len)?;
        let start = core::ptr::NonNull::from(bytes).cast();
        // Only whole huge pages, so that no more memory is used than asked for. Both are advice: without them, pages come
        // one by one when they are touched.
        let _ = pages.advise_range(Advice::HugePage, offset, len / HUGE * HUGE);
        let _ = pages.advise_range(Advice::PopulateWrite, offset, len);
        Some(AlignedBytes { start, len, pages: Some(pages) })
    }

    /// Where the bytes begin.
    pub(crate) fn start(&self) -> core::ptr::NonNull<u8> {
        self.start
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn copy_of(bytes: &[u8]) -> Result<AlignedBytes, Error> {
        let mut copy = AlignedBytes::zeroed(bytes.len())?;
        copy.copy_from_slice(bytes);
        Ok(copy)
    }
}

#[cfg(feature = "alloc")]
#[repr(align(256))]
struct Line;

#[cfg(feature = "alloc")]
impl core::ops::Deref for AlignedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised bytes, which `self` owns.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

#[cfg(feature = "alloc")]
impl core::ops::DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed for writing.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(feature = "alloc")]
impl Drop for AlignedBytes {
    fn drop(&mut self) {
        #[cfg(all(feature = "std", target_os = "linux"))]
        if self.pages.is_some() {
            return;
        }
        if let Ok(layout) = core::alloc::Layout::from_size_align(self.len, OWNED_ALIGN)
            && self.len > 0
        {
            // SAFETY: `start` was allocated with this layout, and nothing can use it after `drop`.
            unsafe { alloc::alloc::dealloc(self.start.as_ptr(), layout) }
        }
    }
}

#[cfg(feature = "alloc")]
impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

// SAFETY: the bytes are owned, as a boxed slice would own them.
#[cfg(feature = "alloc")]
unsafe impl Send for AlignedBytes {}
// SAFETY: as above.
#[cfg(feature = "alloc")]
unsafe impl Sync for AlignedBytes {}

/// A model's arena: its own memory, or the caller's.
pub struct Arena<'a>(Memory<'a>);

enum Memory<'a> {
    #[cfg(feature = "alloc")]
    Owned(AlignedBytes),
    Borrowed(&'a mut [u8]),
}

impl Arena<'static> {
    /// An arena of `bytes` zeros, allocated now.
    ///
    /// # Errors
    /// When the memory cannot be had.
    #[cfg(feature = "alloc")]
    pub fn owned(bytes: usize) -> Result<Arena<'static>, Error> {
        AlignedBytes::zeroed(bytes).map(|memory| Arena(Memory::Owned(memory)))
    }
}

impl<'a> Arena<'a> {
    /// The caller's memory, of which the first `bytes` are used and set to zero.
    ///
    /// # Errors
    /// When it is shorter, or not aligned to `align`.
    pub fn borrowed(memory: &'a mut [u8], bytes: usize, align: usize) -> Result<Arena<'a>, Error> {
        let given = memory.len();
        let aligned = memory.as_ptr().addr().is_multiple_of(align.max(1));
        match memory.get_mut(..bytes) {
            Some(memory) if aligned || bytes == 0 => {
                memory.fill(0);
                Ok(Arena(Memory::Borrowed(memory)))
            }
            _ => Err(Error::arena(bytes, given, align, aligned)),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            #[cfg(feature = "alloc")]
            Memory::Owned(memory) => memory,
            Memory::Borrowed(memory) => memory,
        }
    }

    /// Sets `len` bytes at `offset` to zero, as far as they lie within the arena.
    pub fn clear(&mut self, offset: usize, len: usize) {
        if let Some(bytes) = self.bytes_mut().get_mut(offset..).map(|b| b.iter_mut().take(len)) {
            bytes.for_each(|b| *b = 0);
        }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            #[cfg(feature = "alloc")]
            Memory::Owned(memory) => memory,
            Memory::Borrowed(memory) => memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowed_memory_is_checked_and_zeroed() {
        #[repr(align(64))]
        struct Space([u8; 128]);
        let mut space = Space([7; 128]);
        assert!(Arena::borrowed(&mut space.0, 129, 64).is_err());
        assert!(Arena::borrowed(&mut space.0[1..], 64, 64).is_err());
        assert!(Arena::borrowed(&mut space.0, 64, 64).is_ok_and(|a| a.bytes() == [0; 64]));
        assert_eq!(space.0[64], 7);
    }

    #[cfg(feature = "alloc")]
    #[test]
    fn owned_memory_is_aligned_and_zeroed() {
        let arena = Arena::owned(1000).unwrap();
        assert_eq!(arena.bytes().as_ptr().addr() % OWNED_ALIGN, 0);
        assert_eq!(arena.bytes(), [0; 1000]);
        assert!(AlignedBytes::zeroed(usize::MAX).is_err());
        for len in [(1 << 20) - 1, 1 << 20, (5 << 20) + 1] {
            let mut bytes = AlignedBytes::zeroed(len).unwrap();
            assert_eq!(bytes.as_ptr().addr() % OWNED_ALIGN, 0);
            assert!(bytes.len() == len && bytes.iter().all(|b| *b == 0));
            bytes.fill(7);
            assert_eq!(AlignedBytes::copy_of(&bytes).unwrap()[..], bytes[..]);
        }
    }
}

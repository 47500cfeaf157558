//! The arena: one piece of memory for all of a model's activations, workspaces and states.

use crate::Error;

/// The largest alignment that an arena of ours has: that of every device.
#[cfg(feature = "alloc")]
pub const OWNED_ALIGN: usize = 256;

/// Zeroed bytes at an address that is a multiple of `OWNED_ALIGN`.
#[cfg(feature = "alloc")]
pub struct AlignedBytes {
    start: core::ptr::NonNull<u8>,
    len: usize,
}

#[cfg(feature = "alloc")]
impl AlignedBytes {
    /// `len` zeros.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn zeroed(len: usize) -> Result<AlignedBytes, Error> {
        let dangling = core::ptr::NonNull::<Line>::dangling().cast();
        if len == 0 {
            return Ok(AlignedBytes { start: dangling, len });
        }
        let short = || Error::out_of_memory(len);
        let layout = core::alloc::Layout::from_size_align(len, OWNED_ALIGN).map_err(|_| short())?;
        // SAFETY: the layout's size is not zero.
        let start = core::ptr::NonNull::new(unsafe { alloc::alloc::alloc_zeroed(layout) }).ok_or_else(short)?;
        Ok(AlignedBytes { start, len })
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
    }
}

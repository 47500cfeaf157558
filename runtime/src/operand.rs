//! Operands: where a tensor lies, and its type and shape, before anyone has looked at the memory.

use crate::Size;
use kernels::{Fault, Meta, Shape};
use plan::{Axes, DType};

/// Which memory an operand lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The arena: activations, states and workspace; of the eager executor the states alone.
    Arena,
    /// The buffer of this number that the eager executor holds: an activation or a workspace.
    Heap(u32),
    /// The weights, which are read only.
    Weights,
    /// The caller's memory for an input, which is read only.
    Input(u32),
}

impl Space {
    /// Whether steps may write there.
    pub(crate) const fn is_written(self) -> bool {
        matches!(self, Space::Arena | Space::Heap(_))
    }
}

/// A tensor's place, type and shape. Making one touches no memory and checks none: [`Frame::call`](crate::Frame::call) does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand {
    pub(crate) space: Space,
    /// Bytes from the start of the space to the first element (not the lowest).
    pub(crate) offset: usize,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    /// Bytes from the first element to the lowest, and one past the highest; the widest range where they overflow.
    pub(crate) low: isize,
    pub(crate) high: isize,
}

/// The memory of one buffer, of which a tensor whose dims the run tells may take a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    space: Space,
    start: usize,
    end: usize,
}

impl Room {
    /// `len` bytes at `start` in a space of `bytes`. For constants.
    ///
    /// # Panics
    /// In a constant (so at compile time) when they do not lie within it.
    pub const fn new(space: Space, start: usize, len: usize, bytes: usize) -> Room {
        assert!(start <= bytes && len <= bytes - start, "a buffer lies outside its memory");
        Room { space, start, end: start + len }
    }

    /// A buffer of the eager executor, of at most `len` bytes.
    pub const fn held(buffer: u32, len: usize) -> Room {
        Room { space: Space::Heap(buffer), start: 0, end: len }
    }

    /// All of an input.
    pub const fn input(index: u32) -> Room {
        Room { space: Space::Input(index), start: 0, end: usize::MAX }
    }
}

/// The range of a shape that no memory can hold.
const NOWHERE: (isize, isize) = (isize::MIN, isize::MAX);

impl Operand {
    /// A row-major tensor.
    ///
    /// # Panics
    /// In a constant (so at compile time) when there are more than [`plan::MAX_RANK`] axes.
    pub const fn new<const N: usize>(space: Space, offset: usize, dtype: DType, dims: [usize; N]) -> Operand {
        let (low, high) = dense_range(dtype, &dims);
        Operand { space, offset, dtype, shape: Shape::of(dims), low, high }
    }

    /// A row-major tensor in the arena.
    ///
    /// # Panics
    /// As [`Operand::new`].
    pub const fn arena<const N: usize>(offset: usize, dtype: DType, dims: [usize; N]) -> Operand {
        Operand::new(Space::Arena, offset, dtype, dims)
    }

    /// A row-major tensor in a buffer of the eager executor.
    ///
    /// # Panics
    /// As [`Operand::new`].
    pub const fn held<const N: usize>(buffer: u32, offset: usize, dtype: DType, dims: [usize; N]) -> Operand {
        Operand::new(Space::Heap(buffer), offset, dtype, dims)
    }

    /// A row-major tensor among the weights.
    ///
    /// # Panics
    /// As [`Operand::new`].
    pub const fn weights<const N: usize>(offset: usize, dtype: DType, dims: [usize; N]) -> Operand {
        Operand::new(Space::Weights, offset, dtype, dims)
    }

    /// A row-major tensor in the caller's memory for an input.
    ///
    /// # Panics
    /// As [`Operand::new`].
    pub const fn input<const N: usize>(index: u32, dtype: DType, dims: [usize; N]) -> Operand {
        Operand::new(Space::Input(index), 0, dtype, dims)
    }

    /// A tensor with any strides, counted in elements.
    ///
    /// # Panics
    /// As [`Operand::new`].
    pub const fn strided<const N: usize>(
        space: Space,
        offset: usize,
        dtype: DType,
        dims: [usize; N],
        strides: [isize; N],
    ) -> Operand {
        let (low, high) = strided_range(dtype, &dims, &strides);
        Operand { space, offset, dtype, shape: Shape::of_strided(dims, strides), low, high }
    }

    /// A tensor whose rank is only known now; row-major without `strides`.
    ///
    /// # Errors
    /// More than [`plan::MAX_RANK`] axes, lists of different lengths, or more elements than can be counted.
    pub fn of_slices(
        space: Space,
        offset: usize,
        dtype: DType,
        dims: &[usize],
        strides: Option<&[isize]>,
    ) -> Result<Operand, Fault> {
        let (shape, (low, high)) = match strides {
            None => (Shape::contiguous(dims)?, dense_range(dtype, dims)),
            Some(strides) => (Shape::strided(dims, strides)?, strided_range(dtype, dims, strides)),
        };
        Ok(Operand { space, offset, dtype, shape, low, high })
    }

    /// The same operand, after checking that it lies within the first `bytes` of its space, aligned. For constants.
    ///
    /// # Panics
    /// In a constant (so at compile time) when it does not.
    #[must_use]
    pub const fn within(self, bytes: usize) -> Operand {
        assert!(self.fits(0, bytes), "a tensor lies outside its memory");
        assert!(self.offset.is_multiple_of(self.dtype.align()), "a tensor is not aligned for its elements");
        self
    }

    /// Whether the operand lies within these bytes of its space.
    const fn fits(&self, start: usize, end: usize) -> bool {
        if self.low == self.high {
            return true;
        }
        match (self.offset.checked_add_signed(self.low), self.offset.checked_add_signed(self.high)) {
            (Some(low), Some(high)) => start <= low && high <= end,
            _ => false,
        }
    }

    /// A tensor whose dims the run tells, `first` elements into `room`; row-major without `strides`.
    ///
    /// # Errors
    /// [`Fault::Extent`] where an extent is unknown or negative, [`Fault::OutOfBounds`] where the room is too small.
    pub fn dynamic<const N: usize>(
        room: Room,
        first: Size,
        dtype: DType,
        dims: [Size; N],
        strides: Option<[Size; N]>,
    ) -> Result<Operand, Fault> {
        let mut extents = [0usize; N];
        for (extent, dim) in extents.iter_mut().zip(dims) {
            *extent = dim.extent()?;
        }
        let bytes = dtype.bytes_of(first.extent()?).ok_or(Fault::Extent)?;
        let offset = room.start.checked_add(bytes).ok_or(Fault::Extent)?;
        let operand = match strides {
            None => Operand::of_slices(room.space, offset, dtype, &extents, None)?,
            Some(sizes) => {
                let mut strides = [0isize; N];
                for (stride, size) in strides.iter_mut().zip(sizes) {
                    *stride = isize::try_from(size.get()?).map_err(|_| Fault::Extent)?;
                }
                Operand::of_slices(room.space, offset, dtype, &extents, Some(&strides))?
            }
        };
        if operand.fits(room.start, room.end) { Ok(operand) } else { Err(Fault::OutOfBounds) }
    }

    /// The element type.
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    pub fn dims(&self) -> &[usize] {
        self.shape.dims()
    }

    /// Type and extents.
    pub fn meta(&self) -> Meta {
        Meta { dtype: self.dtype, dims: Axes::from_slice(self.dims()).unwrap_or_default() }
    }
}

/// The byte range of a row-major tensor.
#[allow(clippy::indexing_slicing, reason = "constant functions have no other access; the index is below the length")]
const fn dense_range(dtype: DType, dims: &[usize]) -> (isize, isize) {
    let mut count = 1usize;
    let mut empty = false;
    let mut i = 0;
    while i < dims.len() {
        if dims[i] == 0 {
            empty = true;
        } else {
            count = match count.checked_mul(dims[i]) {
                Some(count) => count,
                None => return NOWHERE,
            };
        }
        i += 1;
    }
    if empty {
        return (0, 0);
    }
    match dtype.bytes_of(count) {
        Some(bytes) if bytes <= isize::MAX as usize => (0, bytes as isize),
        _ => NOWHERE,
    }
}

/// The byte range of a strided tensor.
#[allow(clippy::indexing_slicing, reason = "constant functions have no other access; the index is below the length")]
const fn strided_range(dtype: DType, dims: &[usize], strides: &[isize]) -> (isize, isize) {
    if dims.len() != strides.len() {
        return NOWHERE;
    }
    let (mut low, mut high) = (0isize, 1isize);
    let mut dense = 1isize;
    let mut contiguous = true;
    let mut i = dims.len();
    while i > 0 {
        i -= 1;
        if dims[i] == 0 {
            return (0, 0);
        }
        if dims[i] > isize::MAX as usize {
            return NOWHERE;
        }
        if dims[i] > 1 && strides[i] != dense {
            contiguous = false;
        }
        dense = dense.saturating_mul(dims[i] as isize);
        let Some(reach) = (dims[i] as isize - 1).checked_mul(strides[i]) else { return NOWHERE };
        let side = if reach < 0 { &mut low } else { &mut high };
        match side.checked_add(reach) {
            Some(sum) => *side = sum,
            None => return NOWHERE,
        }
    }
    let Some(size) = dtype.size() else {
        // Packed elements have no addresses of their own.
        return if contiguous { dense_range(dtype, dims) } else { NOWHERE };
    };
    match (low.checked_mul(size as isize), high.checked_mul(size as isize)) {
        (Some(low), Some(high)) => (low, high),
        _ => NOWHERE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size;

    #[test]
    fn constants_agree_with_slices() {
        const DENSE: Operand = Operand::arena(64, DType::F32, [2, 3, 4]);
        const FLIPPED: Operand = Operand::strided(Space::Arena, 64, DType::F32, [2, 3], [3, -1]);
        assert_eq!(Ok(DENSE), Operand::of_slices(Space::Arena, 64, DType::F32, &[2, 3, 4], None));
        assert_eq!(Ok(FLIPPED), Operand::of_slices(Space::Arena, 64, DType::F32, &[2, 3], Some(&[3, -1])));
        assert_eq!((DENSE.low, DENSE.high), (0, 96));
        assert_eq!((FLIPPED.low, FLIPPED.high), (-8, 16));
    }

    #[test]
    fn dynamic_tensors_stay_in_their_room() {
        const ROOM: Room = Room::new(Space::Arena, 64, 64, 128);
        let of = |rows| Operand::dynamic(ROOM, size(0), DType::F32, [rows, size(4)], None);
        assert_eq!(of(size(4)), Ok(Operand::arena(64, DType::F32, [4, 4])));
        assert_eq!(of(size(5)), Err(Fault::OutOfBounds));
        assert_eq!(of(size(-1)), Err(Fault::Extent));
        assert_eq!(of(Size::UNKNOWN), Err(Fault::Extent));
        let flipped = Operand::dynamic(ROOM, size(0), DType::F32, [size(2)], Some([size(-1)]));
        assert_eq!(flipped, Err(Fault::OutOfBounds));
    }

    #[test]
    fn what_overflows_lies_nowhere() {
        let huge = Operand::arena(0, DType::F32, [usize::MAX, 2]);
        assert_eq!((huge.low, huge.high), NOWHERE);
        let packed = Operand::strided(Space::Arena, 0, DType::I4, [2, 4], [8, 1]);
        assert_eq!((packed.low, packed.high), NOWHERE);
        let row = Operand::strided(Space::Arena, 0, DType::I4, [1, 3], [8, 1]);
        assert_eq!((row.low, row.high), (0, 2));
    }
}

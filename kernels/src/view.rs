//! Views: typed, shaped windows on memory that the arena, the weights or the caller own.

use crate::{Element, Fault, Plain};
use core::{marker::PhantomData, ptr::NonNull};
use plan::{Axes, DType};

/// Extents and strides of a view, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Shape {
    dims: Axes<usize>,
    strides: Axes<isize>,
}

impl Shape {
    /// Row-major, for constants. Too many elements give strides that no memory can hold, so that [`Shape::span`] fails.
    ///
    /// # Panics
    /// In a constant (so at compile time) when there are more than [`plan::MAX_RANK`] axes.
    pub const fn of<const N: usize>(dims: [usize; N]) -> Shape {
        let mut strides = [1isize; N];
        let mut step = 1isize;
        let mut i = N;
        while i > 0 {
            i -= 1;
            strides[i] = step;
            let dim = if dims[i] == 0 { 1 } else { dims[i] };
            step = if dim > isize::MAX as usize { isize::MAX } else { step.saturating_mul(dim as isize) };
        }
        Shape { dims: Axes::of(dims), strides: Axes::of(strides) }
    }

    /// Any strides, for constants.
    ///
    /// # Panics
    /// As [`Shape::of`].
    pub const fn of_strided<const N: usize>(dims: [usize; N], strides: [isize; N]) -> Shape {
        Shape { dims: Axes::of(dims), strides: Axes::of(strides) }
    }

    /// Row-major: the last axis is dense.
    ///
    /// # Errors
    /// More than [`plan::MAX_RANK`] axes, or more elements than `isize` counts.
    pub fn contiguous(dims: &[usize]) -> Result<Shape, Fault> {
        let dims = Axes::from_slice(dims).ok_or(Fault::Shape("rank above 8"))?;
        let mut strides = dims.map(|_| 1isize);
        let mut step = 1isize;
        for (stride, dim) in strides.iter_mut().zip(dims.iter()).rev() {
            *stride = step;
            // An empty axis must not hide an overflow of the others.
            step = isize::try_from((*dim).max(1)).ok().and_then(|d| step.checked_mul(d)).ok_or(Fault::Extent)?;
        }
        Ok(Shape { dims, strides })
    }

    /// Any strides.
    ///
    /// # Errors
    /// Lists of different lengths, more than [`plan::MAX_RANK`] axes, or more elements than `isize` counts.
    pub fn strided(dims: &[usize], strides: &[isize]) -> Result<Shape, Fault> {
        if dims.len() != strides.len() {
            return Err(Fault::Shape("as many strides as dims"));
        }
        let mut shape = Shape::contiguous(dims)?;
        shape.strides.copy_from_slice(strides);
        shape.span().map(|_| shape)
    }

    /// The extents.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The strides, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Sets the stride of an axis to one of no larger reach, such as 0.
    pub(crate) fn set_stride(&mut self, axis: usize, stride: isize) {
        if let Some(place) = self.strides.get_mut(axis) {
            *place = stride;
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// Whether the elements lie one after another in row-major order.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1isize;
        for (dim, stride) in self.dims.iter().zip(self.strides.iter()).rev() {
            if *dim == 0 {
                return true;
            }
            if *dim != 1 {
                if *stride != step {
                    return false;
                }
                step = step.saturating_mul(*dim as isize);
            }
        }
        true
    }

    /// Offsets of the lowest and one past the highest element, counted from the first; `(0, 0)` for no elements.
    ///
    /// # Errors
    /// When they do not fit `isize`.
    pub fn span(&self) -> Result<(isize, isize), Fault> {
        if self.is_empty() {
            return Ok((0, 0));
        }
        let (mut low, mut high) = (0isize, 1isize);
        for (dim, stride) in self.dims.iter().zip(self.strides.iter()) {
            let reach = isize::try_from(*dim - 1).ok().and_then(|d| d.checked_mul(*stride)).ok_or(Fault::Extent)?;
            if reach < 0 {
                low = low.checked_add(reach).ok_or(Fault::Extent)?;
            } else {
                high = high.checked_add(reach).ok_or(Fault::Extent)?;
            }
        }
        Ok((low, high))
    }
}

macro_rules! view {
    ($(#[$m:meta])* $name:ident) => {
        $(#[$m])*
        pub struct $name<'a> {
            first: NonNull<u8>,
            dtype: DType,
            shape: Shape,
            /// Whether the memory is that of another operand of the same call, too.
            shared: bool,
            memory: PhantomData<&'a mut [u8]>,
        }

        impl<'a> $name<'a> {
            /// A view whose first element (not its lowest) is at `first`.
            ///
            /// # Safety
            /// For `'a`, the memory of the whole span of `shape` is valid, initialised and aligned for `dtype`. Nobody else
            /// writes it; and nobody reads it but through views marked as `shared`, if this one is to be written.
            /// With `shared`, exactly one read and one write of a call are views of the same memory and shape.
            pub unsafe fn from_raw(first: NonNull<u8>, dtype: DType, shape: Shape, shared: bool) -> Self {
                $name { first, dtype, shape, shared, memory: PhantomData }
            }

            /// The element type.
            pub fn dtype(&self) -> DType {
                self.dtype
            }

            /// Extents and strides.
            pub fn shape(&self) -> &Shape {
                &self.shape
            }

            /// The extents.
            pub fn dims(&self) -> &[usize] {
                self.shape.dims()
            }

            /// The strides, in elements.
            pub fn strides(&self) -> &[isize] {
                self.shape.strides()
            }

            /// How many elements there are.
            pub fn len(&self) -> usize {
                self.shape.len()
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.shape.is_empty()
            }

            /// Whether the elements lie one after another in row-major order.
            pub fn is_contiguous(&self) -> bool {
                self.shape.is_contiguous()
            }

            /// Whether a read and a write of this call share this memory.
            pub fn is_shared(&self) -> bool {
                self.shared
            }

            /// The address of the first element. For kernels that read and write in place; see `from_raw` for who may touch what.
            pub fn as_ptr(&self) -> *mut u8 {
                self.first.as_ptr()
            }

            /// The index of the first element in the slice that `span` gives: not 0 where a stride is negative.
            pub fn origin(&self) -> usize {
                self.shape.span().map_or(0, |(low, _)| low.unsigned_abs())
            }

            fn expect(&self, dtype: DType) -> Result<(), Fault> {
                if self.dtype == dtype { Ok(()) } else { Err(Fault::DType { found: self.dtype, wanted: dtype.name() }) }
            }

            /// Pointer and length of the span, for elements of `T`.
            fn span_raw<T>(&self) -> Result<(*mut T, usize), Fault> {
                if self.dtype.size() != Some(size_of::<T>()) {
                    return Err(Fault::DType { found: self.dtype, wanted: "another element size" });
                }
                let (low, high) = self.shape.span()?;
                let base = self.first.as_ptr().cast::<T>();
                if high == low {
                    return Ok((NonNull::dangling().as_ptr(), 0));
                }
                if base.align_offset(align_of::<T>()) != 0 {
                    return Err(Fault::OutOfBounds);
                }
                // `wrapping_offset`: the result is inside the memory that `from_raw` vouches for.
                Ok((base.wrapping_offset(low), high.abs_diff(low)))
            }
        }
    };
}

view! {
    /// A view to read.
    #[derive(Clone, Copy)]
    Src
}
view! {
    /// A view to write.
    Dst
}

// SAFETY: a `Src` only reads memory that outlives it, like `&[u8]`.
unsafe impl Send for Src<'_> {}
// SAFETY: as above.
unsafe impl Sync for Src<'_> {}
// SAFETY: a `Dst` is the only writer of its memory, like `&mut [u8]`.
unsafe impl Send for Dst<'_> {}

impl<'a> Src<'a> {
    /// A contiguous view of a slice.
    ///
    /// # Errors
    /// When `dims` do not have as many elements as the slice.
    pub fn from_slice<T: Element>(data: &'a [T], dims: &[usize]) -> Result<Src<'a>, Fault> {
        let shape = Shape::contiguous(dims)?;
        if shape.len() != data.len() {
            return Err(Fault::Shape("data length is not the product of the dims"));
        }
        // SAFETY: the slice covers the span, and lives and stays unwritten for `'a`.
        Ok(unsafe { Src::from_raw(NonNull::from(data).cast(), T::DTYPE, shape, false) })
    }

    /// A contiguous view of bytes holding elements of `dtype`.
    ///
    /// # Errors
    /// When the length is not that of `dims`, or the address is not aligned.
    pub fn from_bytes(data: &'a [u8], dtype: DType, dims: &[usize]) -> Result<Src<'a>, Fault> {
        let shape = Shape::contiguous(dims)?;
        if dtype.bytes_of(shape.len()) != Some(data.len()) {
            return Err(Fault::Shape("data length is not the product of the dims"));
        }
        if data.as_ptr().align_offset(dtype.align()) != 0 {
            return Err(Fault::OutOfBounds);
        }
        // SAFETY: the slice covers the span, is aligned, and lives and stays unwritten for `'a`.
        Ok(unsafe { Src::from_raw(NonNull::from(data).cast(), dtype, shape, false) })
    }

    /// The memory from the lowest to the highest element. Element `i` of an axis is at `origin() + i * stride`.
    ///
    /// # Errors
    /// When `T` is not the element type, or the memory is shared with a write.
    pub fn span<T: Element>(&self) -> Result<&'a [T], Fault> {
        self.expect(T::DTYPE)?;
        self.span_bits()
    }

    /// As [`Src::span`], for any type of the element's size.
    ///
    /// # Errors
    /// When `T` has another size, or the memory is shared with a write.
    pub fn span_bits<T: Plain>(&self) -> Result<&'a [T], Fault> {
        if self.shared {
            return Err(Fault::Shared);
        }
        let (start, len) = self.span_raw::<T>()?;
        // SAFETY: `from_raw` vouches for the memory; it is not shared with a write, and every bit pattern is a `T`.
        Ok(unsafe { core::slice::from_raw_parts(start, len) })
    }

    /// The elements of a contiguous view.
    ///
    /// # Errors
    /// When `T` is not the element type, or the view is strided or shared with a write.
    pub fn slice<T: Element>(&self) -> Result<&'a [T], Fault> {
        self.expect(T::DTYPE)?;
        self.bits()
    }

    /// As [`Src::slice`], for any type of the element's size.
    ///
    /// # Errors
    /// When `T` has another size, or the view is strided or shared with a write.
    pub fn bits<T: Plain>(&self) -> Result<&'a [T], Fault> {
        if !self.is_contiguous() {
            return Err(Fault::Strided);
        }
        self.span_bits()
    }

    /// The bytes of a contiguous view, of any element type.
    ///
    /// # Errors
    /// When the view is strided or shared with a write.
    pub fn bytes(&self) -> Result<&'a [u8], Fault> {
        if !self.is_contiguous() {
            return Err(Fault::Strided);
        }
        if self.shared {
            return Err(Fault::Shared);
        }
        let len = self.dtype.bytes_of(self.len()).ok_or(Fault::Extent)?;
        // SAFETY: as in `span_bits`.
        Ok(unsafe { core::slice::from_raw_parts(self.first.as_ptr(), len) })
    }

    /// The same memory under other extents and strides.
    ///
    /// # Errors
    /// As [`Src::window`].
    pub fn reshaped(&self, shape: Shape) -> Result<Src<'a>, Fault> {
        self.window(0, shape)
    }

    /// The same memory under other extents and strides, its first element `offset` elements from this one's.
    ///
    /// # Errors
    /// When the new span is not within the old one, or elements are smaller than a byte.
    pub fn window(&self, offset: isize, shape: Shape) -> Result<Src<'a>, Fault> {
        let ((low, high), (new_low, new_high)) = (self.shape.span()?, shape.span()?);
        if shape.is_empty() {
            return Ok(Src { shape, ..*self });
        }
        let within = |edge: isize| edge.checked_add(offset).ok_or(Fault::Extent);
        if within(new_low)? < low || within(new_high)? > high {
            return Err(Fault::OutOfBounds);
        }
        let size = self.dtype.size().ok_or(Fault::DType { found: self.dtype, wanted: "whole bytes" })?;
        let bytes = isize::try_from(size).ok().and_then(|s| s.checked_mul(offset)).ok_or(Fault::Extent)?;
        // SAFETY: the span of the result is within the span that `from_raw` vouched for.
        let first = unsafe { self.first.offset(bytes) };
        Ok(Src { first, shape, ..*self })
    }
}

impl<'a> Dst<'a> {
    /// A contiguous view of a slice.
    ///
    /// # Errors
    /// When `dims` do not have as many elements as the slice.
    pub fn from_slice<T: Element>(data: &'a mut [T], dims: &[usize]) -> Result<Dst<'a>, Fault> {
        let shape = Shape::contiguous(dims)?;
        if shape.len() != data.len() {
            return Err(Fault::Shape("data length is not the product of the dims"));
        }
        // SAFETY: the slice covers the span, and is borrowed for writing for `'a`.
        Ok(unsafe { Dst::from_raw(NonNull::from(data).cast(), T::DTYPE, shape, false) })
    }

    /// A contiguous view of bytes holding elements of `dtype`.
    ///
    /// # Errors
    /// When the length is not that of `dims`, or the address is not aligned.
    pub fn from_bytes(data: &'a mut [u8], dtype: DType, dims: &[usize]) -> Result<Dst<'a>, Fault> {
        let shape = Shape::contiguous(dims)?;
        if dtype.bytes_of(shape.len()) != Some(data.len()) {
            return Err(Fault::Shape("data length is not the product of the dims"));
        }
        if data.as_ptr().align_offset(dtype.align()) != 0 {
            return Err(Fault::OutOfBounds);
        }
        // SAFETY: the slice covers the span, is aligned, and is borrowed for writing for `'a`.
        Ok(unsafe { Dst::from_raw(NonNull::from(data).cast(), dtype, shape, false) })
    }

    /// The memory from the lowest to the highest element, to be written. Where the view is shared with a read, it holds that
    /// read's elements.
    ///
    /// # Errors
    /// When `T` is not the element type.
    pub fn span<T: Element>(&mut self) -> Result<&mut [T], Fault> {
        self.expect(T::DTYPE)?;
        self.span_bits()
    }

    /// As [`Dst::span`], for any type of the element's size.
    ///
    /// # Errors
    /// When `T` has another size.
    pub fn span_bits<T: Plain>(&mut self) -> Result<&mut [T], Fault> {
        let (start, len) = self.span_raw::<T>()?;
        // SAFETY: `from_raw` vouches for the memory; a read that shares it refuses to give a slice.
        Ok(unsafe { core::slice::from_raw_parts_mut(start, len) })
    }

    /// The elements of a contiguous view.
    ///
    /// # Errors
    /// When `T` is not the element type, or the view is strided.
    pub fn slice<T: Element>(&mut self) -> Result<&mut [T], Fault> {
        self.expect(T::DTYPE)?;
        self.bits()
    }

    /// As [`Dst::slice`], for any type of the element's size.
    ///
    /// # Errors
    /// When `T` has another size, or the view is strided.
    pub fn bits<T: Plain>(&mut self) -> Result<&mut [T], Fault> {
        if !self.is_contiguous() {
            return Err(Fault::Strided);
        }
        self.span_bits()
    }

    /// The bytes of a contiguous view, of any element type.
    ///
    /// # Errors
    /// When the view is strided.
    pub fn bytes(&mut self) -> Result<&mut [u8], Fault> {
        if !self.is_contiguous() {
            return Err(Fault::Strided);
        }
        let len = self.dtype.bytes_of(self.len()).ok_or(Fault::Extent)?;
        // SAFETY: as in `span_bits`.
        Ok(unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_strided_views() {
        let s = Shape::strided(&[2, 3], &[-3, 1]).unwrap();
        assert_eq!(s.span(), Ok((-3, 3)));
        assert!(!s.is_contiguous());
        assert!(Shape::strided(&[5, 1], &[1, 77]).unwrap().is_contiguous());
        assert_eq!(Shape::strided(&[2, 2], &[isize::MAX, isize::MAX]), Err(Fault::Extent));
        assert_eq!(Shape::contiguous(&[1 << 40, 1 << 40, 0]), Err(Fault::Extent));
    }

    #[test]
    fn shared_reads_give_no_slice() {
        let mut data = [1f32, 2.0];
        let shape = Shape::contiguous(&[2]).unwrap();
        // SAFETY: one read and one write of the same slice, marked as shared.
        let (r, mut w) = unsafe {
            let first = NonNull::from(&mut data[..]).cast();
            (Src::from_raw(first, DType::F32, shape, true), Dst::from_raw(first, DType::F32, shape, true))
        };
        assert_eq!(r.slice::<f32>(), Err(Fault::Shared));
        w.slice::<f32>().unwrap()[0] = 7.0;
        assert_eq!(data[0], 7.0);
    }
}

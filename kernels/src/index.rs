//! Indices in the data: i32 or i64, negative ones counted from the end.

use crate::{Fault, Src};
use plan::DType;

/// A view of indices.
#[derive(Clone, Copy)]
pub(crate) struct Indices<'a> {
    first: *const u8,
    wide: bool,
    view: Src<'a>,
}

impl<'a> Indices<'a> {
    /// # Errors
    /// When the type is neither i32 nor i64, or the memory is written in the same step.
    pub(crate) fn of(view: Src<'a>) -> Result<Self, Fault> {
        let wide = match view.dtype() {
            DType::I64 => true,
            DType::I32 => false,
            found => return Err(Fault::DType { found, wanted: "i32 or i64" }),
        };
        if view.is_shared() {
            return Err(Fault::Shared);
        }
        Ok(Indices { first: view.as_ptr(), wide, view })
    }

    /// Extents.
    pub(crate) fn dims(&self) -> &[usize] {
        self.view.dims()
    }

    /// Strides.
    pub(crate) fn strides(&self) -> &[isize] {
        self.view.strides()
    }

    /// The index at an offset, as a place in an axis of `extent`.
    ///
    /// # Errors
    /// When it is out of range.
    ///
    /// # Safety
    /// The offset is that of an element of the view.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, at: isize, extent: usize) -> Result<usize, Fault> {
        // SAFETY: passed on to the caller.
        let index = unsafe {
            if self.wide {
                *self.first.cast::<i64>().offset(at)
            } else {
                i64::from(*self.first.cast::<i32>().offset(at))
            }
        };
        let place = if index < 0 { index.wrapping_add(extent as i64) } else { index };
        if place >= 0 && (place as u64) < extent as u64 {
            Ok(place as usize)
        } else {
            Err(Fault::Index { index, extent })
        }
    }
}

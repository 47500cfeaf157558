//! Rust types of elements.

use plan::DType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type for which every bit pattern of the given size is a value.
///
/// # Safety
/// Implementors must allow every bit pattern and have no padding.
pub unsafe trait Plain: Copy + Default + PartialEq + Send + Sync + sealed::Sealed + 'static {}

/// A Rust type that stands for one [`DType`].
///
/// Booleans are read as `u8` (0 or 1) through [`Src::bits`](crate::Src::bits), since their memory is not proven to hold only those.
pub trait Element: Plain {
    /// The element type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($t:ty => $d:ident),*) => { $(
        impl sealed::Sealed for $t {}
        // SAFETY: a number type: every bit pattern is a value and there is no padding.
        unsafe impl Plain for $t {}
        impl Element for $t { const DTYPE: DType = DType::$d; }
    )* };
}
elements!(f32 => F32, f64 => F64, half::f16 => F16, half::bf16 => BF16, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64);

impl sealed::Sealed for u128 {}
// SAFETY: an integer: every bit pattern is a value and there is no padding.
unsafe impl Plain for u128 {}

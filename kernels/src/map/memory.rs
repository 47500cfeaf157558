//! Moving elements between memory and registers.

use crate::{
    Isa,
    simd::{Simd, isa_fn},
    small_float,
};
use plan::DType;

/// Copies `n` elements of `T`, each `stride` elements after the last.
///
/// # Safety
/// The elements can be read and `n` can be written.
#[inline(always)]
unsafe fn load_strided<T: Copy>(from: *const u8, stride: isize, to: *mut u8, n: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    // SAFETY: passed on to the caller.
    unsafe {
        if stride == 1 {
            core::ptr::copy_nonoverlapping(from, to, n);
        } else if stride == 0 {
            let value = from.read();
            core::slice::from_raw_parts_mut(to, n).fill(value);
        } else {
            for i in 0..n {
                to.add(i).write(from.offset(i as isize * stride).read());
            }
        }
    }
}

/// The other way.
///
/// # Safety
/// `n` elements can be read and the strided ones written.
#[inline(always)]
unsafe fn store_strided<T: Copy>(from: *const u8, to: *mut u8, stride: isize, n: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    // SAFETY: passed on to the caller.
    unsafe {
        if stride == 1 {
            core::ptr::copy_nonoverlapping(from, to, n);
        } else {
            for i in 0..n {
                to.offset(i as isize * stride).write(from.add(i).read());
            }
        }
    }
}

/// # Safety
/// `n` elements can be read and written, and the processor has `S`.
#[inline(always)]
unsafe fn f16_to_f32<S: Simd>(from: *const u16, to: *mut f32, n: usize) {
    let mut i = 0;
    // SAFETY: passed on to the caller; a tail goes element by element.
    unsafe {
        while i + S::LANES <= n {
            S::store(to.add(i), S::load_f16(from.add(i)));
            i += S::LANES;
        }
        while i < n {
            *to.add(i) = half::f16::from_bits(*from.add(i)).to_f32();
            i += 1;
        }
    }
}

/// # Safety
/// `n` elements can be read and written, and the processor has `S`.
#[inline(always)]
unsafe fn f32_to_f16<S: Simd>(from: *const f32, to: *mut u16, n: usize) {
    let mut i = 0;
    // SAFETY: passed on to the caller; a tail goes element by element.
    unsafe {
        while i + S::LANES <= n {
            S::store_f16(to.add(i), S::load(from.add(i)));
            i += S::LANES;
        }
        while i < n {
            *to.add(i) = half::f16::from_f32(*from.add(i)).to_bits();
            i += 1;
        }
    }
}

isa_fn! {
    /// f16 to f32.
    ///
    /// # Safety
    /// `n` elements can be read and written, and the processor has `isa`.
    pub(crate) unsafe fn widen_f16(from: *const u16, to: *mut f32, n: usize) = f16_to_f32;
    /// f32 to f16, rounded to nearest even.
    ///
    /// # Safety
    /// `n` elements can be read and written, and the processor has `isa`.
    pub(crate) unsafe fn narrow_f16(from: *const f32, to: *mut u16, n: usize) = f32_to_f16;
}

/// The bits of element `at` of packed elements of fewer than eight bits.
///
/// # Safety
/// The element can be read.
pub(crate) unsafe fn load_packed(dtype: DType, from: *const u8, at: isize) -> u8 {
    let bits = dtype.bits() as isize;
    let (byte, shift) = ((at * bits).div_euclid(8), (at * bits).rem_euclid(8));
    // SAFETY: passed on to the caller.
    let whole = unsafe { *from.offset(byte) };
    (whole >> shift) & ((1u8 << bits) - 1)
}

/// Sets the bits of element `at` of packed elements.
///
/// # Safety
/// The element can be written.
pub(crate) unsafe fn store_packed(dtype: DType, to: *mut u8, at: isize, value: u8) {
    let bits = dtype.bits() as isize;
    let (byte, shift) = ((at * bits).div_euclid(8), (at * bits).rem_euclid(8));
    let mask = ((1u8 << bits) - 1) << shift;
    // SAFETY: passed on to the caller.
    unsafe {
        let place = to.offset(byte);
        *place = (*place & !mask) | ((value << shift) & mask);
    }
}

/// The sign of the low `bits` extended over the byte.
fn extend(value: u8, bits: usize) -> i8 {
    let unused = 8 - bits as u32;
    ((value << unused) as i8) >> unused
}

/// Loads elements `first`, `first + stride`, ... of the memory at `from` into a register.
///
/// # Safety
/// The elements can be read, the register has room for `n`, and the processor has `isa`.
pub(super) unsafe fn load(isa: Isa, dtype: DType, from: *const u8, first: isize, stride: isize, to: *mut u8, n: usize) {
    let size = dtype.bits() as isize / 8;
    let start = from.wrapping_offset(first * size);
    let floats = to.cast::<f32>();
    // SAFETY: passed on to the caller; `start` is used for types of whole bytes.
    unsafe {
        match dtype {
            DType::I8 | DType::U8 | DType::Bool => load_strided::<u8>(start, stride, to, n),
            DType::I16 | DType::U16 => load_strided::<u16>(start, stride, to, n),
            DType::F32 | DType::I32 | DType::U32 => load_strided::<u32>(start, stride, to, n),
            DType::F64 | DType::I64 | DType::U64 => load_strided::<u64>(start, stride, to, n),
            DType::F16 if stride == 1 => widen_f16(isa, start.cast(), floats, n),
            DType::F16 => {
                for i in 0..n {
                    *floats.add(i) = (*start.cast::<half::f16>().offset(i as isize * stride)).to_f32();
                }
            }
            DType::BF16 => {
                for i in 0..n {
                    let bits = *start.cast::<u16>().offset(i as isize * stride);
                    *floats.add(i) = f32::from_bits(u32::from(bits) << 16);
                }
            }
            DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E5M2 | DType::F8E5M2FNUZ | DType::F8E8M0 => {
                for i in 0..n {
                    *floats.add(i) = small_float::decode(dtype, *start.offset(i as isize * stride));
                }
            }
            DType::F4E2M1 => {
                for i in 0..n {
                    *floats.add(i) = small_float::decode(dtype, load_packed(dtype, from, first + i as isize * stride));
                }
            }
            DType::I4 | DType::I2 => {
                for i in 0..n {
                    let value = load_packed(dtype, from, first + i as isize * stride);
                    *to.cast::<i8>().add(i) = extend(value, dtype.bits());
                }
            }
            DType::U4 | DType::U2 => {
                for i in 0..n {
                    *to.add(i) = load_packed(dtype, from, first + i as isize * stride);
                }
            }
            DType::C64 | DType::C128 => {}
        }
    }
}

/// Stores a register into elements `first`, `first + stride`, ... of the memory at `to`.
///
/// # Safety
/// The elements can be written, the register holds `n`, and the processor has `isa`.
pub(super) unsafe fn store(
    isa: Isa,
    dtype: DType,
    from: *const u8,
    to: *mut u8,
    first: isize,
    stride: isize,
    n: usize,
) {
    let size = dtype.bits() as isize / 8;
    let start = to.wrapping_offset(first * size);
    let floats = from.cast::<f32>();
    // SAFETY: passed on to the caller; `start` is used for types of whole bytes.
    unsafe {
        match dtype {
            DType::I8 | DType::U8 | DType::Bool => store_strided::<u8>(from, start, stride, n),
            DType::I16 | DType::U16 => store_strided::<u16>(from, start, stride, n),
            DType::F32 | DType::I32 | DType::U32 => store_strided::<u32>(from, start, stride, n),
            DType::F64 | DType::I64 | DType::U64 => store_strided::<u64>(from, start, stride, n),
            DType::F16 if stride == 1 => narrow_f16(isa, floats, start.cast(), n),
            DType::F16 => {
                for i in 0..n {
                    *start.cast::<half::f16>().offset(i as isize * stride) = half::f16::from_f32(*floats.add(i));
                }
            }
            DType::BF16 => {
                for i in 0..n {
                    *start.cast::<u16>().offset(i as isize * stride) = bf16_bits(*floats.add(i));
                }
            }
            DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E5M2 | DType::F8E5M2FNUZ | DType::F8E8M0 => {
                // What the format cannot hold was settled by the cast.
                for i in 0..n {
                    *start.offset(i as isize * stride) = small_float::encode(dtype, *floats.add(i), false);
                }
            }
            DType::F4E2M1 => {
                for i in 0..n {
                    let code = small_float::encode(dtype, *floats.add(i), true);
                    store_packed(dtype, to, first + i as isize * stride, code);
                }
            }
            DType::I4 | DType::I2 | DType::U4 | DType::U2 => {
                for i in 0..n {
                    store_packed(dtype, to, first + i as isize * stride, *from.add(i));
                }
            }
            DType::C64 | DType::C128 => {}
        }
    }
}

/// f32 to bf16, to nearest even; written without branches, so that loops are vectorised.
#[inline(always)]
pub(super) fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    // A NaN keeps its top bits and becomes quiet.
    if x.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded }
}

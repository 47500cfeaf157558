//! Copies and concatenations.
//!
//! Elements are moved by their bits. Where both sides are dense along a row it is a `memcpy`; where the inner axes of source and
//! destination differ (a transposition) planes are moved in square tiles, so that both sides use whole cache lines.

use crate::{Call, Dst, Fault, Shape, Src, walk::Walk};
use plan::{
    DType,
    prim::{Concat, Copy},
};

/// Runs [`Copy`](struct@Copy).
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn copy(_p: &Copy, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let dst = call.dst(0)?;
    let src = call.read(0).ok_or(Fault::Missing { operand: 0 })?;
    copy_view(src, dst)
}

/// Runs [`Concat`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn concat(p: &Concat, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let dst = call.dst(0)?;
    let axis = usize::from(p.axis);
    let extent = *dst.dims().get(axis).ok_or(Fault::Shape("the axis is not one of the result"))?;
    let step = dst.strides()[axis];
    let mut start = 0usize;
    for i in 0..call.reads() {
        let src = call.read(i).ok_or(Fault::Missing { operand: i })?;
        let part = *src.dims().get(axis).ok_or(Fault::Shape("operands of different rank"))?;
        let fits = src.dims().len() == dst.dims().len()
            && src.dims().iter().zip(dst.dims()).enumerate().all(|(a, (s, d))| a == axis || s == d);
        if !fits || part > extent - start {
            return Err(Fault::Shape("parts do not fit together"));
        }
        if src.dtype() != dst.dtype() {
            return Err(Fault::DType { found: src.dtype(), wanted: dst.dtype().name() });
        }
        let first = start as isize * step;
        // SAFETY: the part from `start` on is within the destination, because `start + part <= extent`.
        unsafe { move_elements(src, dst.as_ptr(), first, src.shape(), dst.strides())? }
        start += part;
    }
    if start == extent { Ok(()) } else { Err(Fault::Shape("parts do not fill the result")) }
}

/// Copies a view to another of the same dims, whose elements have as many bits.
///
/// # Errors
/// When they differ, or share memory.
pub(crate) fn copy_view(src: &Src<'_>, dst: Dst<'_>) -> Result<(), Fault> {
    let bool_made = dst.dtype() == DType::Bool && src.dtype() != DType::Bool;
    if src.dtype().bits() != dst.dtype().bits() || bool_made {
        return Err(Fault::DType { found: src.dtype(), wanted: dst.dtype().name() });
    }
    if src.dims() != dst.dims() {
        return Err(Fault::Shape("a copy between different dims"));
    }
    // SAFETY: the destination is written from its first element on, over its own shape.
    unsafe { move_elements(src, dst.as_ptr(), 0, src.shape(), dst.strides()) }
}

/// Moves the elements of `src` to the memory at `to`, from its element `first` on, with these strides.
///
/// # Safety
/// All elements so named can be written.
unsafe fn move_elements(
    src: &Src<'_>,
    to: *mut u8,
    first: isize,
    shape: &Shape,
    strides: &[isize],
) -> Result<(), Fault> {
    if src.is_shared() {
        return Err(Fault::Shared);
    }
    let walk = Walk::any_order(shape.dims(), [strides, src.strides()]);
    let bits = src.dtype().bits();
    let (from, to) = (src.as_ptr().cast_const(), to.wrapping_offset(first * (bits / 8) as isize));
    // SAFETY: the walk is that of the two views, whose memory does not overlap.
    unsafe {
        match bits {
            8 => moved::<u8>(&walk, from, to),
            16 => moved::<u16>(&walk, from, to),
            32 => moved::<u32>(&walk, from, to),
            64 => moved::<Bits64>(&walk, from, to),
            128 => moved::<Bits128>(&walk, from, to),
            _ => return packed(&walk, bits as isize, from, to, first),
        }
    }
    Ok(())
}

/// 64 bits with the alignment of the least aligned type of that size (two f32).
#[derive(Clone, Copy)]
#[repr(C)]
struct Bits64([u32; 2]);

/// 128 bits with the alignment of the least aligned type of that size (two f64).
#[derive(Clone, Copy)]
#[repr(C)]
struct Bits128([u64; 2]);

/// Edge of a tile of a transposition.
const TILE: usize = 16;

/// Moves elements of `T` over a walk of destination (0) and source (1).
///
/// # Safety
/// Both can be accessed at all offsets of the walk and do not overlap.
unsafe fn moved<T: core::marker::Copy>(walk: &Walk<2>, from: *const u8, to: *mut u8) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    let (row, [d, s]) = (walk.row(), walk.row_strides());
    let rank = walk.dims().len();
    // SAFETY: passed on to the caller.
    let result: Result<(), Fault> = unsafe {
        if (d == 1 && s == 1) || row == 1 {
            walk.rows(|[a, b]| {
                short_copy(from.offset(b), to.offset(a), row);
                Ok(())
            })
        } else if s == 0 {
            walk.rows(|[a, b]| {
                let (value, to) = (from.offset(b).read(), to.offset(a));
                for i in 0..row as isize {
                    to.offset(i * d).write(value);
                }
                Ok(())
            })
        } else if rank >= 2
            && walk.strides(rank - 2)[1].unsigned_abs() < s.unsigned_abs()
            && walk.strides(rank - 2)[1] != 0
        {
            let (rows, [row_d, row_s]) = (walk.dims()[rank - 2], *walk.strides(rank - 2));
            walk.planes(|[a, b]| {
                tiles(from.offset(b), to.offset(a), [rows, row], [row_d, d], [row_s, s]);
                Ok(())
            })
        } else {
            walk.rows(|[a, b]| {
                let (from, to) = (from.offset(b), to.offset(a));
                for i in 0..row as isize {
                    to.offset(i * d).write(from.offset(i * s).read());
                }
                Ok(())
            })
        }
    };
    debug_assert!(result.is_ok());
}

/// Copies a row; short ones without a call.
///
/// # Safety
/// As `copy_nonoverlapping`.
#[inline(always)]
unsafe fn short_copy<T: core::marker::Copy>(from: *const T, to: *mut T, n: usize) {
    // SAFETY: passed on to the caller.
    unsafe {
        if n <= 8 {
            for i in 0..n {
                to.add(i).write(from.add(i).read());
            }
        } else {
            core::ptr::copy_nonoverlapping(from, to, n);
        }
    }
}

/// Moves a plane of `dims` in tiles.
///
/// # Safety
/// All elements of the plane can be accessed.
unsafe fn tiles<T: core::marker::Copy>(from: *const T, to: *mut T, dims: [usize; 2], d: [isize; 2], s: [isize; 2]) {
    let mut i = 0;
    while i < dims[0] {
        let rows = (dims[0] - i).min(TILE);
        let mut j = 0;
        while j < dims[1] {
            let columns = (dims[1] - j).min(TILE);
            // SAFETY: the tile is within the plane.
            unsafe {
                let from = from.offset(i as isize * s[0] + j as isize * s[1]);
                let to = to.offset(i as isize * d[0] + j as isize * d[1]);
                for y in 0..rows as isize {
                    for x in 0..columns as isize {
                        to.offset(y * d[0] + x * d[1]).write(from.offset(y * s[0] + x * s[1]).read());
                    }
                }
            }
            j += columns;
        }
        i += rows;
    }
}

/// Moves elements of fewer than eight bits.
///
/// # Safety
/// As [`moved`]; `to` is already advanced by the whole bytes of none of the elements: `first` is the first element there.
unsafe fn packed(walk: &Walk<2>, bits: isize, from: *const u8, to: *mut u8, first: isize) -> Result<(), Fault> {
    let (row, [d, s]) = (walk.row(), walk.row_strides());
    let mask = (1u8 << bits) - 1;
    // SAFETY: passed on to the caller.
    unsafe {
        if walk.dims().len() == 1 && d == 1 && s == 1 && (first * bits) % 8 == 0 {
            let (total, to) = (row * bits as usize, to.offset(first * bits / 8));
            core::ptr::copy_nonoverlapping(from, to, total / 8);
            let rest = total % 8;
            if rest != 0 {
                let (from, to, mask) = (from.add(total / 8), to.add(total / 8), (1u8 << rest) - 1);
                to.write((to.read() & !mask) | (from.read() & mask));
            }
            return Ok(());
        }
        walk.rows(|[a, b]| {
            for i in 0..row as isize {
                let (x, y) = ((b + i * s) * bits, (first + a + i * d) * bits);
                let value = (from.offset(x.div_euclid(8)).read() >> x.rem_euclid(8)) & mask;
                let (to, shift) = (to.offset(y.div_euclid(8)), y.rem_euclid(8));
                to.write((to.read() & !(mask << shift)) | (value << shift));
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Fault, Isa,
        testing::{Rng, Tensor, run},
    };
    use plan::{
        DType,
        prim::{Concat, Copy},
    };
    use std::vec::Vec;

    fn numbered(dtype: DType, dims: &[usize], rng: &mut Rng) -> Tensor {
        let mut t = Tensor::zeros(dtype, dims);
        let bytes = dtype.bytes_of(dims.iter().product()).unwrap();
        for b in &mut t.bytes_mut()[..bytes] {
            *b = rng.next() as u8;
        }
        t
    }

    /// The bytes of each element in row-major order.
    fn elements(t: &Tensor) -> Vec<Vec<u8>> {
        let size = t.dtype.size().unwrap();
        t.offsets().into_iter().map(|o| t.bytes()[o * size..][..size].to_vec()).collect()
    }

    #[test]
    fn copies_between_any_strides() {
        let mut rng = Rng::new(20);
        let shapes: [&[usize]; 8] = [&[], &[5], &[64], &[33, 40], &[3, 17, 21], &[2, 3, 4, 5], &[4, 0], &[7, 1, 9]];
        for dtype in [DType::U8, DType::F16, DType::F32, DType::I64, DType::C64, DType::C128, DType::F8E5M2] {
            for dims in shapes {
                for _ in 0..6 {
                    let src = numbered(dtype, dims, &mut rng);
                    let mut dst = [Tensor::zeros(dtype, dims)];
                    if rng.below(3) > 0 {
                        dst[0] = dst[0].scattered(&mut rng);
                    }
                    let from = if rng.below(3) > 0 { src.scattered(&mut rng) } else { src.clone() };
                    run(&Copy {}.into(), &[Some(&from)], &mut dst, None, Isa::Portable).unwrap();
                    assert_eq!(elements(&dst[0]), elements(&src), "{dtype} {dims:?}");
                }
            }
        }
    }

    #[test]
    fn packed_elements() {
        let mut rng = Rng::new(21);
        for dtype in [DType::I4, DType::U2, DType::F4E2M1] {
            for n in [0usize, 1, 3, 7, 16] {
                let src = numbered(dtype, &[n], &mut rng);
                let mut dst = [Tensor::zeros(dtype, &[n])];
                run(&Copy {}.into(), &[Some(&src)], &mut dst, None, Isa::Portable).unwrap();
                for i in 0..n * dtype.bits() {
                    let bit = |t: &Tensor| t.bytes()[i / 8] >> (i % 8) & 1;
                    assert_eq!(bit(&dst[0]), bit(&src), "{dtype} {n} bit {i}");
                }
            }
        }
        // Odd lengths one after another.
        let parts =
            [Tensor::with_bits(DType::I4, &[0x21u8, 0x03], &[3]), Tensor::with_bits(DType::I4, &[0x54u8], &[2])];
        let mut dst = [Tensor::zeros(DType::I4, &[5])];
        let refs: Vec<_> = parts.iter().map(Some).collect();
        run(&Concat { axis: 0 }.into(), &refs, &mut dst, None, Isa::Portable).unwrap();
        assert_eq!(dst[0].bytes()[..3], [0x21, 0x43, 0x05]);
    }

    #[test]
    fn concat_lays_parts_side_by_side() {
        let mut rng = Rng::new(22);
        for axis in 0..3usize {
            for dtype in [DType::U8, DType::F32, DType::F64] {
                let mut dims = [3, 4, 5];
                let mut parts = Vec::new();
                for extent in [2, 0, 1, 6] {
                    dims[axis] = extent;
                    let t = numbered(dtype, &dims, &mut rng);
                    parts.push(if rng.below(2) == 0 { t.scattered(&mut rng) } else { t });
                }
                dims[axis] = 9;
                let mut dst = [Tensor::zeros(dtype, &dims).scattered(&mut rng)];
                let refs: Vec<_> = parts.iter().map(Some).collect();
                run(&Concat { axis: axis as u8 }.into(), &refs, &mut dst, None, Isa::Portable).unwrap();
                let (outer, inner): (usize, usize) = (dims[..axis].iter().product(), dims[axis + 1..].iter().product());
                let all: Vec<_> = parts.iter().map(|p| (elements(p), p.shape.dims()[axis] * inner)).collect();
                let want: Vec<_> = (0..outer)
                    .flat_map(|o| all.iter().flat_map(move |(e, row)| e[o * row..][..*row].iter().cloned()))
                    .collect();
                assert_eq!(elements(&dst[0]), want, "axis {axis} {dtype}");
            }
        }
    }

    #[test]
    fn parts_that_do_not_fit() {
        let (a, b) = (Tensor::of(&[1f32; 6], &[2, 3]), Tensor::of(&[1f32; 8], &[2, 4]));
        let mut dst = [Tensor::zeros(DType::F32, &[4, 3])];
        let got = run(&Concat { axis: 0 }.into(), &[Some(&a), Some(&b)], &mut dst, None, Isa::Portable);
        assert!(matches!(got, Err(Fault::Shape(_))));
        let got = run(&Concat { axis: 0 }.into(), &[Some(&a)], &mut dst, None, Isa::Portable);
        assert!(matches!(got, Err(Fault::Shape(_))));
    }
}

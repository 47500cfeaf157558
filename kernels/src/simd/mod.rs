//! Vectors of f32 behind one trait, so that a loop body is written once for every instruction set.
//!
//! A body is an `#[inline(always)]` function generic over [`Simd`]; `isa_fn!` makes an entry of it
//! that is compiled for each [`Isa`](crate::Isa) and picks one when called.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// The vector operations of one instruction set, over f32 lanes.
///
/// Arithmetic, comparisons, `sqrt`, `floor` and `round` give the same bits on every instruction set; `fma` alone may round once
/// or twice.
///
/// # Safety
/// Every function requires that the processor has the instruction set of the implementor. Those that take pointers require that
/// the lanes they name (all `LANES`, or the first `n <= LANES`) are valid to read or write; no alignment beyond that of the
/// element is needed.
#[allow(clippy::missing_safety_doc, missing_docs)]
pub unsafe trait Simd: Copy + Send + Sync + 'static {
    /// A vector of f32.
    type V: Copy;
    /// As many i32.
    type I: Copy;
    /// A truth value for each lane.
    type M: Copy;
    /// Lanes of a vector.
    const LANES: usize;

    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    /// The first `n` lanes from memory, the others zero.
    unsafe fn load_part(p: *const f32, n: usize) -> Self::V;
    /// The first `n` lanes to memory.
    unsafe fn store_part(p: *mut f32, v: Self::V, n: usize);
    /// Asks for the cache line at `p` to be brought near; `p` need not be valid.
    #[inline(always)]
    unsafe fn prefetch(_: *const f32) {}
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once or twice.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a < b ? a : b`: `b` where either is NaN.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `a > b ? a : b`: `b` where either is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sqrt(a: Self::V) -> Self::V;
    unsafe fn floor(a: Self::V) -> Self::V;
    unsafe fn ceil(a: Self::V) -> Self::V;
    unsafe fn trunc(a: Self::V) -> Self::V;
    /// To the nearest integer, halves to even.
    unsafe fn round(a: Self::V) -> Self::V;
    unsafe fn abs(a: Self::V) -> Self::V;
    unsafe fn neg(a: Self::V) -> Self::V;
    /// The magnitude of `a` with the sign of `s`.
    unsafe fn copysign(a: Self::V, s: Self::V) -> Self::V;
    unsafe fn lt(a: Self::V, b: Self::V) -> Self::M;
    unsafe fn le(a: Self::V, b: Self::V) -> Self::M;
    unsafe fn eq(a: Self::V, b: Self::V) -> Self::M;
    /// Lanes where either is NaN.
    unsafe fn unordered(a: Self::V, b: Self::V) -> Self::M;
    /// `m ? a : b`
    unsafe fn blend(m: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// Whether any lane is true.
    unsafe fn any(m: Self::M) -> bool;
    /// Bit `i` is lane `i`.
    unsafe fn mask_bits(m: Self::M) -> u32;
    /// The bits of the lanes.
    unsafe fn to_bits(a: Self::V) -> Self::I;
    unsafe fn from_bits(a: Self::I) -> Self::V;
    /// To the nearest integer; lanes outside the range of i32 give an arbitrary integer.
    unsafe fn to_int(a: Self::V) -> Self::I;
    unsafe fn from_int(a: Self::I) -> Self::V;
    unsafe fn isplat(x: i32) -> Self::I;
    unsafe fn iadd(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn isub(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn iand(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn ior(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn shl<const N: u32>(a: Self::I) -> Self::I;
    /// Arithmetic shift.
    unsafe fn shr<const N: u32>(a: Self::I) -> Self::I;
    /// `LANES` values of f16.
    unsafe fn load_f16(p: *const u16) -> Self::V;
    /// Rounds to f16, to nearest even.
    unsafe fn store_f16(p: *mut u16, v: Self::V);
    /// The sum of the lanes, pairwise: lane `i` with lane `i + LANES / 2` and so on.
    unsafe fn sum(a: Self::V) -> f32;
    /// The largest of the lanes; arbitrary where one is NaN.
    unsafe fn max_lane(a: Self::V) -> f32;
}

/// Defines functions compiled for every instruction set from one generic body.
///
/// ```text
/// isa_fn! {
///     /// Doc.
///     pub unsafe fn name(x: *const f32, n: usize) -> f32 = body;   // `body::<S: Simd>(x, n)`, `#[inline(always)] unsafe`
/// }
/// ```
/// makes `unsafe fn name(isa: Isa, x: *const f32, n: usize) -> f32`. Safety: that of `body`, and `isa` must not be above what the
/// processor has.
macro_rules! isa_fn {
    ($($(#[$m:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident;)*) => { $(
        $(#[$m])*
        #[allow(clippy::too_many_arguments)]
        #[inline]
        $vis unsafe fn $name(isa: $crate::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn avx2($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: passed on to the caller; the instruction set is enabled here.
                    unsafe { $body::<$crate::simd::Avx2>($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn avx512($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: passed on to the caller; the instruction set is enabled here.
                    unsafe { $body::<$crate::simd::Avx512>($($arg),*) }
                }
                match isa {
                    // SAFETY: passed on to the caller, who knows the processor to have `isa`.
                    $crate::Isa::Avx2 => return unsafe { avx2($($arg),*) },
                    // SAFETY: as above.
                    $crate::Isa::Avx512 => return unsafe { avx512($($arg),*) },
                    $crate::Isa::Portable => {}
                }
            }
            let _ = isa;
            // SAFETY: passed on to the caller; the portable vectors need no instruction set.
            unsafe { $body::<$crate::simd::Portable>($($arg),*) }
        }
    )* };
}
pub(crate) use isa_fn;

/// Calls `f` with the offset and the number of lanes of each vector of `n` elements.
///
/// # Safety
/// That of `f`.
#[inline(always)]
pub unsafe fn each<S: Simd>(n: usize, mut f: impl FnMut(usize, usize)) {
    let mut i = 0;
    while i + S::LANES <= n {
        f(i, S::LANES);
        i += S::LANES;
    }
    if i < n {
        f(i, n - i);
    }
}

/// `lanes1!(S, n, a, o, |x| f)`: `o[i] = f(a[i])` for `n` elements; `o` may be `a`. To be used where `n` elements can be read and
/// written, and the processor has `S`.
///
/// A macro and no function, since a large closure is not inlined, and then compiled without the instruction set of its caller.
macro_rules! lanes1 {
    ($s:ty, $n:expr, $a:expr, $o:expr, |$x:ident| $f:expr) => {{
        let (n, a, o): (usize, *const f32, *mut f32) = ($n, $a, $o);
        let mut i = 0;
        while i < n {
            let part = n - i;
            let whole = part >= <$s>::LANES;
            let $x = if whole { <$s>::load(a.add(i)) } else { <$s>::load_part(a.add(i), part) };
            let y = $f;
            if whole {
                <$s>::store(o.add(i), y);
            } else {
                <$s>::store_part(o.add(i), y, part);
            }
            i += <$s>::LANES;
        }
    }};
}
pub(crate) use lanes1;

/// `lanes2!(S, n, a, b, o, |x, y| f)`: `o[i] = f(a[i], b[i])`; as [`lanes1`].
macro_rules! lanes2 {
    ($s:ty, $n:expr, $a:expr, $b:expr, $o:expr, |$x:ident, $y:ident| $f:expr) => {{
        let (n, a, b, o): (usize, *const f32, *const f32, *mut f32) = ($n, $a, $b, $o);
        let mut i = 0;
        while i < n {
            let part = n - i;
            let whole = part >= <$s>::LANES;
            let ($x, $y) = if whole {
                (<$s>::load(a.add(i)), <$s>::load(b.add(i)))
            } else {
                (<$s>::load_part(a.add(i), part), <$s>::load_part(b.add(i), part))
            };
            let y = $f;
            if whole {
                <$s>::store(o.add(i), y);
            } else {
                <$s>::store_part(o.add(i), y, part);
            }
            i += <$s>::LANES;
        }
    }};
}
pub(crate) use lanes2;

/// `o[i] = f(a[0][i], a[1][i], a[2][i])` for `n` elements; `o` may be one of them.
///
/// # Safety
/// `n` elements can be read and written there, and the processor has `S`.
#[inline(always)]
pub unsafe fn lanes3<S: Simd>(n: usize, a: [*const f32; 3], o: *mut f32, f: impl Fn(S::V, S::V, S::V) -> S::V) {
    let mut i = 0;
    // SAFETY: `i + LANES <= n`, then `n - i` lanes are left.
    unsafe {
        while i + S::LANES <= n {
            S::store(o.add(i), f(S::load(a[0].add(i)), S::load(a[1].add(i)), S::load(a[2].add(i))));
            i += S::LANES;
        }
        if i < n {
            let k = n - i;
            let part = |p: *const f32| S::load_part(p.add(i), k);
            S::store_part(o.add(i), f(part(a[0]), part(a[1]), part(a[2])), k);
        }
    }
}

#[cfg(test)]
mod tests;

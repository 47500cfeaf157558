//! Vectors that every target can run: arrays, which the compiler vectorises as far as the target allows.

use super::Simd;

const N: usize = 8;

/// Eight lanes in an array.
#[derive(Clone, Copy)]
pub struct Portable;

/// Lanes, aligned as a vector register would be.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Lanes<T>(pub(crate) [T; N]);

type V = Lanes<f32>;
type I = Lanes<i32>;
type M = Lanes<bool>;

#[inline(always)]
fn map<T: Copy, U>(a: Lanes<T>, f: impl Fn(T) -> U) -> Lanes<U> {
    // Written out: a function on arrays would be compiled for each `f`, and that many times over.
    let a = a.0;
    Lanes([f(a[0]), f(a[1]), f(a[2]), f(a[3]), f(a[4]), f(a[5]), f(a[6]), f(a[7])])
}

#[inline(always)]
fn zip<T: Copy, U>(a: Lanes<T>, b: Lanes<T>, f: impl Fn(T, T) -> U) -> Lanes<U> {
    let (a, b) = (a.0, b.0);
    Lanes([
        f(a[0], b[0]),
        f(a[1], b[1]),
        f(a[2], b[2]),
        f(a[3], b[3]),
        f(a[4], b[4]),
        f(a[5], b[5]),
        f(a[6], b[6]),
        f(a[7], b[7]),
    ])
}

// SAFETY: no instruction set is needed, and only the lanes named in the trait are touched.
unsafe impl Simd for Portable {
    type V = V;
    type I = I;
    type M = M;
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn load(p: *const f32) -> V {
        // SAFETY: the caller vouches for `N` elements; they need not be aligned as an array of lanes is.
        Lanes(unsafe { p.cast::<[f32; N]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: V) {
        // SAFETY: as in `load`.
        unsafe { p.cast::<[f32; N]>().write_unaligned(v.0) }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize) -> V {
        // SAFETY: only the first `n` are read.
        Lanes(core::array::from_fn(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 }))
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, v: V, n: usize) {
        for (i, x) in v.0.iter().enumerate().take(n) {
            // SAFETY: only the first `n` are written.
            unsafe { *p.add(i) = *x }
        }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> V {
        Lanes([x; N])
    }
    #[inline(always)]
    unsafe fn add(a: V, b: V) -> V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(a: V, b: V) -> V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(a: V, b: V) -> V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(a: V, b: V) -> V {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn fma(a: V, b: V, c: V) -> V {
        Lanes(core::array::from_fn(|i| a.0[i] * b.0[i] + c.0[i]))
    }
    #[inline(always)]
    unsafe fn min(a: V, b: V) -> V {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    unsafe fn max(a: V, b: V) -> V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn sqrt(a: V) -> V {
        map(a, libm::sqrtf)
    }
    #[inline(always)]
    unsafe fn floor(a: V) -> V {
        map(a, libm::floorf)
    }
    #[inline(always)]
    unsafe fn ceil(a: V) -> V {
        map(a, libm::ceilf)
    }
    #[inline(always)]
    unsafe fn trunc(a: V) -> V {
        map(a, libm::truncf)
    }
    #[inline(always)]
    unsafe fn round(a: V) -> V {
        map(a, |x| {
            // Adding and taking away 1.5 * 2^23 leaves an integer, rounded as additions are; beyond 2^22 it is one already.
            const SHIFT: f32 = 12_582_912.0;
            let r = ((x + SHIFT) - SHIFT).copysign(x);
            if x.abs() < 4_194_304.0 { r } else { libm::rintf(x) }
        })
    }
    #[inline(always)]
    unsafe fn abs(a: V) -> V {
        map(a, f32::abs)
    }
    #[inline(always)]
    unsafe fn neg(a: V) -> V {
        map(a, |x| -x)
    }
    #[inline(always)]
    unsafe fn copysign(a: V, s: V) -> V {
        zip(a, s, f32::copysign)
    }
    #[inline(always)]
    unsafe fn lt(a: V, b: V) -> M {
        zip(a, b, |a, b| a < b)
    }
    #[inline(always)]
    unsafe fn le(a: V, b: V) -> M {
        zip(a, b, |a, b| a <= b)
    }
    #[inline(always)]
    unsafe fn eq(a: V, b: V) -> M {
        zip(a, b, |a, b| a == b)
    }
    #[inline(always)]
    unsafe fn unordered(a: V, b: V) -> M {
        zip(a, b, |a, b| a.is_nan() || b.is_nan())
    }
    #[inline(always)]
    unsafe fn blend(m: M, a: V, b: V) -> V {
        Lanes(core::array::from_fn(|i| if m.0[i] { a.0[i] } else { b.0[i] }))
    }
    #[inline(always)]
    unsafe fn any(m: M) -> bool {
        m.0.contains(&true)
    }
    #[inline(always)]
    unsafe fn mask_bits(m: M) -> u32 {
        m.0.iter().enumerate().fold(0, |bits, (i, b)| bits | u32::from(*b) << i)
    }
    #[inline(always)]
    unsafe fn to_bits(a: V) -> I {
        map(a, |x| x.to_bits() as i32)
    }
    #[inline(always)]
    unsafe fn from_bits(a: I) -> V {
        map(a, |x| f32::from_bits(x as u32))
    }
    #[inline(always)]
    unsafe fn to_int(a: V) -> I {
        // SAFETY: no instruction set is needed.
        map(unsafe { Self::round(a) }, |x| x as i32)
    }
    #[inline(always)]
    unsafe fn from_int(a: I) -> V {
        map(a, |x| x as f32)
    }
    #[inline(always)]
    unsafe fn isplat(x: i32) -> I {
        Lanes([x; N])
    }
    #[inline(always)]
    unsafe fn iadd(a: I, b: I) -> I {
        zip(a, b, i32::wrapping_add)
    }
    #[inline(always)]
    unsafe fn isub(a: I, b: I) -> I {
        zip(a, b, i32::wrapping_sub)
    }
    #[inline(always)]
    unsafe fn iand(a: I, b: I) -> I {
        zip(a, b, |a, b| a & b)
    }
    #[inline(always)]
    unsafe fn ior(a: I, b: I) -> I {
        zip(a, b, |a, b| a | b)
    }
    #[inline(always)]
    unsafe fn shl<const B: u32>(a: I) -> I {
        map(a, |a| a << B)
    }
    #[inline(always)]
    unsafe fn shr<const B: u32>(a: I) -> I {
        map(a, |a| a >> B)
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> V {
        // SAFETY: the caller vouches for `N` elements.
        Lanes(core::array::from_fn(|i| half::f16::from_bits(unsafe { *p.add(i) }).to_f32()))
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: V) {
        for (i, x) in v.0.iter().enumerate() {
            // SAFETY: the caller vouches for `N` elements.
            unsafe { *p.add(i) = half::f16::from_f32(*x).to_bits() }
        }
    }
    #[inline(always)]
    unsafe fn sum(a: V) -> f32 {
        let v = a.0;
        ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
    }
    #[inline(always)]
    unsafe fn max_lane(a: V) -> f32 {
        a.0.into_iter().fold(f32::NEG_INFINITY, |m, x| if x > m { x } else { m })
    }
}

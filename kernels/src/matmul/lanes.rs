//! The few vector operations that the micro-kernels are written in, for each instruction set.

/// A vector of `f32`.
///
/// # Safety
/// The operations of a type may be called only where its instruction set is present; they are inlined into
/// functions that enable it. Pointers must be valid for the elements named; no alignment beyond that of `f32` is needed.
pub(crate) trait Lanes: Copy {
    /// How many.
    const N: usize;
    /// All zero.
    unsafe fn zero() -> Self;
    /// All equal to `x`.
    unsafe fn splat(x: f32) -> Self;
    /// `N` elements.
    unsafe fn load(p: *const f32) -> Self;
    /// The first `count` elements (any number), zero after them.
    unsafe fn load_first(p: *const f32, count: usize) -> Self;
    /// Stores `N` elements.
    unsafe fn store(self, p: *mut f32);
    /// Stores the first `count` elements (any number).
    unsafe fn store_first(self, p: *mut f32, count: usize);
    /// `self * a + b`, perhaps rounded once.
    unsafe fn mul_add(self, a: Self, b: Self) -> Self;
    /// Sum.
    unsafe fn add(self, a: Self) -> Self;
    /// `min(max(self, lo), hi)`; NaN stays NaN.
    unsafe fn clip(self, lo: Self, hi: Self) -> Self;
}

/// Eight floats for any processor: the compiler makes of it what it can.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; 8]);

impl Lanes for Portable {
    const N: usize = 8;
    #[inline(always)]
    unsafe fn zero() -> Self {
        Portable([0.0; 8])
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Portable([x; 8])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller's pointer is valid for 8 elements.
        Portable(unsafe { p.cast::<[f32; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, count: usize) -> Self {
        let mut v = [0.0; 8];
        for (i, x) in v.iter_mut().enumerate().take(count) {
            // SAFETY: `i < count`, for which the caller's pointer is valid.
            *x = unsafe { *p.add(i) };
        }
        Portable(v)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller's pointer is valid for 8 elements.
        unsafe { p.cast::<[f32; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, count: usize) {
        for (i, x) in self.0.iter().enumerate().take(count) {
            // SAFETY: `i < count`, for which the caller's pointer is valid.
            unsafe { *p.add(i) = *x };
        }
    }
    #[inline(always)]
    unsafe fn mul_add(self, a: Self, b: Self) -> Self {
        let mut v = b.0;
        for ((v, x), y) in v.iter_mut().zip(self.0).zip(a.0) {
            *v += x * y;
        }
        Portable(v)
    }
    #[inline(always)]
    unsafe fn add(self, a: Self) -> Self {
        let mut v = self.0;
        for (v, x) in v.iter_mut().zip(a.0) {
            *v += x;
        }
        Portable(v)
    }
    #[inline(always)]
    unsafe fn clip(self, lo: Self, hi: Self) -> Self {
        let mut v = self.0;
        for ((v, lo), hi) in v.iter_mut().zip(lo.0).zip(hi.0) {
            *v = if *v < lo { lo } else { *v };
            *v = if *v > hi { hi } else { *v };
        }
        Portable(v)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use core::arch::x86_64::*;

    /// A window of this at `8 - count` is a mask of `count` lanes.
    const MASK: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

    #[inline(always)]
    unsafe fn mask8(count: usize) -> __m256i {
        // SAFETY: the window of 8 starts at 0..=8 of 16.
        unsafe { _mm256_loadu_si256(MASK.as_ptr().add(8 - count.min(8)).cast()) }
    }

    #[inline(always)]
    fn mask16(count: usize) -> __mmask16 {
        if count >= 16 { !0 } else { (1u16 << count) - 1 }
    }

    // SAFETY (of every block here): the trait asks its callers for AVX2 and FMA, and for valid pointers.
    impl Lanes for __m256 {
        const N: usize = 8;
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: see above.
            unsafe { _mm256_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: see above.
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self {
            // SAFETY: see above.
            unsafe { _mm256_loadu_ps(p) }
        }
        #[inline(always)]
        unsafe fn load_first(p: *const f32, count: usize) -> Self {
            // SAFETY: see above; lanes outside the mask are not touched.
            unsafe { _mm256_maskload_ps(p, mask8(count)) }
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f32) {
            // SAFETY: see above.
            unsafe { _mm256_storeu_ps(p, self) }
        }
        #[inline(always)]
        unsafe fn store_first(self, p: *mut f32, count: usize) {
            // SAFETY: see above; lanes outside the mask are not touched.
            unsafe { _mm256_maskstore_ps(p, mask8(count), self) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, a: Self, b: Self) -> Self {
            // SAFETY: see above.
            unsafe { _mm256_fmadd_ps(self, a, b) }
        }
        #[inline(always)]
        unsafe fn add(self, a: Self) -> Self {
            // SAFETY: see above.
            unsafe { _mm256_add_ps(self, a) }
        }
        #[inline(always)]
        unsafe fn clip(self, lo: Self, hi: Self) -> Self {
            // SAFETY: see above. Of a NaN and another operand, the instructions give the second.
            unsafe { _mm256_min_ps(hi, _mm256_max_ps(lo, self)) }
        }
    }

    // SAFETY (of every block here): the trait asks its callers for AVX-512 F, and for valid pointers.
    impl Lanes for __m512 {
        const N: usize = 16;
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: see above.
            unsafe { _mm512_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: see above.
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self {
            // SAFETY: see above.
            unsafe { _mm512_loadu_ps(p) }
        }
        #[inline(always)]
        unsafe fn load_first(p: *const f32, count: usize) -> Self {
            // SAFETY: see above; lanes outside the mask are not touched.
            unsafe { _mm512_maskz_loadu_ps(mask16(count), p) }
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f32) {
            // SAFETY: see above.
            unsafe { _mm512_storeu_ps(p, self) }
        }
        #[inline(always)]
        unsafe fn store_first(self, p: *mut f32, count: usize) {
            // SAFETY: see above; lanes outside the mask are not touched.
            unsafe { _mm512_mask_storeu_ps(p, mask16(count), self) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, a: Self, b: Self) -> Self {
            // SAFETY: see above.
            unsafe { _mm512_fmadd_ps(self, a, b) }
        }
        #[inline(always)]
        unsafe fn add(self, a: Self) -> Self {
            // SAFETY: see above.
            unsafe { _mm512_add_ps(self, a) }
        }
        #[inline(always)]
        unsafe fn clip(self, lo: Self, hi: Self) -> Self {
            // SAFETY: see above. Of a NaN and another operand, the instructions give the second.
            unsafe { _mm512_min_ps(hi, _mm512_max_ps(lo, self)) }
        }
    }
}

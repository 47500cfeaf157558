//! Vectors of AVX2 and AVX-512.

use super::Simd;
use core::arch::x86_64::*;

/// AVX2, FMA and F16C: eight lanes.
#[derive(Clone, Copy)]
pub struct Avx2;

/// AVX-512 F, BW, DQ and VL: sixteen lanes.
#[derive(Clone, Copy)]
pub struct Avx512;

/// All bits set in the first `n` lanes.
///
/// # Safety
/// The processor has AVX2, and `n <= 8`.
#[inline(always)]
unsafe fn first_lanes(n: usize) -> __m256i {
    static ONES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: eight lanes from `8 - n` on are within the sixteen.
    unsafe { _mm256_loadu_si256(ONES.as_ptr().add(8 - n).cast()) }
}

// SAFETY: each function is the instruction it names, and touches the lanes named in the trait.
unsafe impl Simd for Avx2 {
    type V = __m256;
    type I = __m256i;
    type M = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn prefetch(p: *const f32) {
        // SAFETY: a prefetch of an address that is not valid does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn sqrt(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_sqrt_ps(a) }
    }
    #[inline(always)]
    unsafe fn to_bits(a: Self::V) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_castps_si256(a) }
    }
    #[inline(always)]
    unsafe fn from_bits(a: Self::I) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_castsi256_ps(a) }
    }
    #[inline(always)]
    unsafe fn to_int(a: Self::V) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_cvtps_epi32(a) }
    }
    #[inline(always)]
    unsafe fn from_int(a: Self::I) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_cvtepi32_ps(a) }
    }
    #[inline(always)]
    unsafe fn isplat(x: i32) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_set1_epi32(x) }
    }
    #[inline(always)]
    unsafe fn iadd(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn isub(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_sub_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn iand(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_and_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn ior(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn shl<const N: u32>(a: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_sll_epi32(a, _mm_cvtsi32_si128(N as i32)) }
    }
    #[inline(always)]
    unsafe fn shr<const N: u32>(a: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_sra_epi32(a, _mm_cvtsi32_si128(N as i32)) }
    }
    #[inline(always)]
    unsafe fn floor(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_round_ps::<9>(a) }
    }
    #[inline(always)]
    unsafe fn ceil(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_round_ps::<10>(a) }
    }
    #[inline(always)]
    unsafe fn trunc(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_round_ps::<11>(a) }
    }
    #[inline(always)]
    unsafe fn round(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_round_ps::<8>(a) }
    }
    #[inline(always)]
    unsafe fn abs(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
    }
    #[inline(always)]
    unsafe fn neg(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_xor_ps(_mm256_set1_ps(-0.0), a) }
    }
    #[inline(always)]
    unsafe fn copysign(a: Self::V, s: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe {
            let sign = _mm256_set1_ps(-0.0);
            _mm256_or_ps(_mm256_andnot_ps(sign, a), _mm256_and_ps(sign, s))
        }
    }
    #[inline(always)]
    unsafe fn lt(a: Self::V, b: Self::V) -> Self::M {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn le(a: Self::V, b: Self::V) -> Self::M {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_cmp_ps::<_CMP_LE_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn eq(a: Self::V, b: Self::V) -> Self::M {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn unordered(a: Self::V, b: Self::V) -> Self::M {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b) }
    }
    #[inline(always)]
    unsafe fn blend(m: Self::M, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_blendv_ps(b, a, m) }
    }
    #[inline(always)]
    unsafe fn any(m: Self::M) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_movemask_ps(m) != 0 }
    }
    #[inline(always)]
    unsafe fn mask_bits(m: Self::M) -> u32 {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_movemask_ps(m) as u32 }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_maskload_ps(p, first_lanes(n)) }
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, v: Self::V, n: usize) {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_maskstore_ps(p, first_lanes(n), v) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: Self::V) {
        // SAFETY: passed on to the caller.
        unsafe { _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<0>(v)) }
    }
    #[inline(always)]
    unsafe fn sum(a: Self::V) -> f32 {
        // SAFETY: passed on to the caller.
        unsafe {
            let v = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps::<1>(v, v)))
        }
    }
    #[inline(always)]
    unsafe fn max_lane(a: Self::V) -> f32 {
        // SAFETY: passed on to the caller.
        unsafe {
            let v = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let v = _mm_max_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_max_ss(v, _mm_shuffle_ps::<1>(v, v)))
        }
    }
}

// SAFETY: each function is the instruction it names, and touches the lanes named in the trait.
unsafe impl Simd for Avx512 {
    type V = __m512;
    type I = __m512i;
    type M = __mmask16;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn prefetch(p: *const f32) {
        // SAFETY: a prefetch of an address that is not valid does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn sqrt(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_sqrt_ps(a) }
    }
    #[inline(always)]
    unsafe fn to_bits(a: Self::V) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_castps_si512(a) }
    }
    #[inline(always)]
    unsafe fn from_bits(a: Self::I) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_castsi512_ps(a) }
    }
    #[inline(always)]
    unsafe fn to_int(a: Self::V) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_cvtps_epi32(a) }
    }
    #[inline(always)]
    unsafe fn from_int(a: Self::I) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_cvtepi32_ps(a) }
    }
    #[inline(always)]
    unsafe fn isplat(x: i32) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_set1_epi32(x) }
    }
    #[inline(always)]
    unsafe fn iadd(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn isub(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn iand(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn ior(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn shl<const N: u32>(a: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_sll_epi32(a, _mm_cvtsi32_si128(N as i32)) }
    }
    #[inline(always)]
    unsafe fn shr<const N: u32>(a: Self::I) -> Self::I {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_sra_epi32(a, _mm_cvtsi32_si128(N as i32)) }
    }
    #[inline(always)]
    unsafe fn floor(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_roundscale_ps::<9>(a) }
    }
    #[inline(always)]
    unsafe fn ceil(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_roundscale_ps::<10>(a) }
    }
    #[inline(always)]
    unsafe fn trunc(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_roundscale_ps::<11>(a) }
    }
    #[inline(always)]
    unsafe fn round(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_roundscale_ps::<8>(a) }
    }
    #[inline(always)]
    unsafe fn abs(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_abs_ps(a) }
    }
    #[inline(always)]
    unsafe fn neg(a: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_xor_ps(_mm512_set1_ps(-0.0), a) }
    }
    #[inline(always)]
    unsafe fn copysign(a: Self::V, s: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe {
            let sign = _mm512_set1_ps(-0.0);
            _mm512_or_ps(_mm512_andnot_ps(sign, a), _mm512_and_ps(sign, s))
        }
    }
    #[inline(always)]
    unsafe fn lt(a: Self::V, b: Self::V) -> Self::M {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn le(a: Self::V, b: Self::V) -> Self::M {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn eq(a: Self::V, b: Self::V) -> Self::M {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn unordered(a: Self::V, b: Self::V) -> Self::M {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b) }
    }
    #[inline(always)]
    unsafe fn blend(m: Self::M, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_mask_blend_ps(m, b, a) }
    }
    #[inline(always)]
    unsafe fn any(m: Self::M) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_kortestz(m, m) == 0 }
    }
    #[inline(always)]
    unsafe fn mask_bits(m: Self::M) -> u32 {
        // SAFETY: passed on to the caller.
        unsafe { u32::from(_mm512_kor(m, m)) }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_maskz_loadu_ps(((1u32 << n) - 1) as u16, p) }
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, v: Self::V, n: usize) {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_mask_storeu_ps(p, ((1u32 << n) - 1) as u16, v) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: Self::V) {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<0>(v)) }
    }
    #[inline(always)]
    unsafe fn sum(a: Self::V) -> f32 {
        // SAFETY: passed on to the caller.
        unsafe {
            let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(a)));
            Avx2::sum(_mm256_add_ps(_mm512_castps512_ps256(a), high))
        }
    }
    #[inline(always)]
    unsafe fn max_lane(a: Self::V) -> f32 {
        // SAFETY: passed on to the caller.
        unsafe {
            let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(a)));
            Avx2::max_lane(_mm256_max_ps(_mm512_castps512_ps256(a), high))
        }
    }
}

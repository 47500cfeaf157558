//! Panels of a matrix whose columns are contiguous: a transposition on the way.

use super::micro::PANEL;
use crate::Isa;

/// Writes `terms` rows of a panel, whose 16 columns lie `col` apart and are contiguous, one after another to `to`.
///
/// # Safety
/// The columns can be read and the rows written, and the processor has `isa`.
pub(super) unsafe fn panel(isa: Isa, from: *const f32, col: isize, terms: usize, to: *mut f32) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx2 {
        done = terms / 8 * 8;
        // SAFETY: the caller's memory and instruction set.
        unsafe { x86::blocks(from, col, done, to) };
    }
    let _ = isa;
    for i in done..terms {
        for j in 0..PANEL {
            // SAFETY: the caller's columns and rows.
            unsafe { *to.add(i * PANEL + j) = *from.wrapping_offset(j as isize * col).add(i) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::PANEL;
    use core::arch::x86_64::*;

    /// The first `terms` rows, a multiple of 8.
    ///
    /// # Safety
    /// As for [`super::panel`], with AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn blocks(from: *const f32, col: isize, terms: usize, to: *mut f32) {
        for i in (0..terms).step_by(8) {
            for half in [0, 8] {
                let column = |j: usize| from.wrapping_offset((half + j) as isize * col).wrapping_add(i);
                // SAFETY: eight elements of each column.
                let columns = unsafe {
                    [
                        _mm256_loadu_ps(column(0)),
                        _mm256_loadu_ps(column(1)),
                        _mm256_loadu_ps(column(2)),
                        _mm256_loadu_ps(column(3)),
                        _mm256_loadu_ps(column(4)),
                        _mm256_loadu_ps(column(5)),
                        _mm256_loadu_ps(column(6)),
                        _mm256_loadu_ps(column(7)),
                    ]
                };
                for (r, row) in transposed(columns).into_iter().enumerate() {
                    // SAFETY: half of a row.
                    unsafe { _mm256_storeu_ps(to.add((i + r) * PANEL + half), row) };
                }
            }
        }
    }

    /// The transpose of 8 by 8 elements: pairs, then fours, then halves.
    #[target_feature(enable = "avx2")]
    fn transposed(c: [__m256; 8]) -> [__m256; 8] {
        let pairs = |a, b| (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let ((a0, a1), (b0, b1)) = (pairs(c[0], c[1]), pairs(c[2], c[3]));
        let ((d0, d1), (e0, e1)) = (pairs(c[4], c[5]), pairs(c[6], c[7]));
        let fours = |a, b| (_mm256_shuffle_ps::<0x44>(a, b), _mm256_shuffle_ps::<0xee>(a, b));
        let ((f0, f1), (f2, f3)) = (fours(a0, b0), fours(a1, b1));
        let ((g0, g1), (g2, g3)) = (fours(d0, e0), fours(d1, e1));
        [
            _mm256_permute2f128_ps::<0x20>(f0, g0),
            _mm256_permute2f128_ps::<0x20>(f1, g1),
            _mm256_permute2f128_ps::<0x20>(f2, g2),
            _mm256_permute2f128_ps::<0x20>(f3, g3),
            _mm256_permute2f128_ps::<0x31>(f0, g0),
            _mm256_permute2f128_ps::<0x31>(f1, g1),
            _mm256_permute2f128_ps::<0x31>(f2, g2),
            _mm256_permute2f128_ps::<0x31>(f3, g3),
        ]
    }
}

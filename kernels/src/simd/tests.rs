//! Every instruction set against scalar arithmetic.

use super::Simd;
use crate::{Isa, testing::Rng};
use std::vec::Vec;

type Row = [f32; 16];

/// Runs one operation on `n` elements with the vectors of an instruction set.
#[inline(always)]
unsafe fn run<S: Simd>(op: u8, a: &[f32], b: &[f32], o: &mut [f32]) {
    // SAFETY: the slices have equal lengths, and `isa_fn` has chosen an instruction set that the processor has.
    unsafe {
        super::lanes2!(S, a.len(), a.as_ptr(), b.as_ptr(), o.as_mut_ptr(), |a, b| match op {
            0 => S::add(a, b),
            1 => S::sub(a, b),
            2 => S::mul(a, b),
            3 => S::div(a, b),
            4 => S::min(a, b),
            5 => S::max(a, b),
            6 => S::floor(a),
            7 => S::ceil(a),
            8 => S::trunc(a),
            9 => S::round(a),
            10 => S::abs(a),
            11 => S::neg(a),
            12 => S::copysign(a, b),
            13 => S::blend(S::lt(a, b), a, b),
            14 => S::blend(S::le(a, b), a, b),
            15 => S::blend(S::eq(a, b), S::splat(1.0), b),
            16 => S::blend(S::unordered(a, b), S::splat(1.0), a),
            17 => S::sqrt(a),
            18 => S::from_bits(S::iadd(S::to_bits(a), S::shl::<3>(S::isplat(5)))),
            19 => S::from_bits(S::shr::<4>(S::isub(S::to_bits(a), S::isplat(77)))),
            20 => S::from_int(S::to_int(S::max(S::min(a, S::splat(1e6)), S::splat(-1e6)))),
            _ => S::splat(S::sum(S::splat(1.5)) / S::LANES as f32),
        });
    }
}
isa_fn! { unsafe fn run_on(op: u8, a: &[f32], b: &[f32], o: &mut [f32]) = run; }

fn scalar(op: u8, a: f32, b: f32) -> f32 {
    match op {
        0 => a + b,
        1 => a - b,
        2 => a * b,
        3 => a / b,
        4 => {
            if a < b {
                a
            } else {
                b
            }
        }
        5 => {
            if a > b {
                a
            } else {
                b
            }
        }
        6 => a.floor(),
        7 => a.ceil(),
        8 => a.trunc(),
        9 => a.round_ties_even(),
        10 => a.abs(),
        11 => -a,
        12 => a.copysign(b),
        13 => {
            if a < b {
                a
            } else {
                b
            }
        }
        14 => {
            if a <= b {
                a
            } else {
                b
            }
        }
        15 => {
            if a == b {
                1.0
            } else {
                b
            }
        }
        16 => {
            if a.is_nan() || b.is_nan() {
                1.0
            } else {
                a
            }
        }
        17 => a.sqrt(),
        18 => f32::from_bits(a.to_bits().wrapping_add(40)),
        19 => f32::from_bits(((a.to_bits() as i32).wrapping_sub(77) >> 4) as u32),
        20 => {
            let low = if a < 1e6 { a } else { 1e6 };
            (if low > -1e6 { low } else { -1e6 }).round_ties_even() + 0.0
        }
        _ => 1.5,
    }
}

#[test]
fn vectors_agree_with_scalars() {
    let special =
        [0.0, -0.0, 1.0, -1.5, 2.5, 0.5, -0.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-42, 8388609.0, 1e30];
    let mut rng = Rng::new(1);
    for isa in crate::testing::isas() {
        for n in [0usize, 1, 3, 7, 8, 9, 15, 16, 17, 40] {
            let mut draw = || -> Vec<f32> {
                (0..n)
                    .map(|_| if rng.below(3) == 0 { special[rng.below(special.len())] } else { rng.range(-9.0, 9.0) })
                    .collect()
            };
            let (a, b) = (draw(), draw());
            for op in 0..22 {
                let mut o = std::vec![7.0; n];
                // SAFETY: the slices have equal lengths and the processor has `isa`.
                unsafe { run_on(isa, op, &a, &b, &mut o) };
                for i in 0..n {
                    let want = scalar(op, a[i], b[i]);
                    let same = o[i].to_bits() == want.to_bits() || (o[i].is_nan() && want.is_nan());
                    assert!(same, "{isa:?} op {op}: {} {} gives {} not {want}", a[i], b[i], o[i]);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn halves<S: Simd>(h: &Row, o: &mut [u16; 16]) {
    let mut back = [0f32; 16];
    for i in (0..16).step_by(S::LANES) {
        // SAFETY: `LANES` divides 16.
        unsafe {
            S::store_f16(o.as_mut_ptr().add(i), S::load(h.as_ptr().add(i)));
            S::store(back.as_mut_ptr().add(i), S::load_f16(o.as_ptr().add(i)));
            S::store_f16(o.as_mut_ptr().add(i), S::load(back.as_ptr().add(i)));
        }
    }
}
isa_fn! { unsafe fn halves_on(h: &Row, o: &mut [u16; 16]) = halves; }

#[test]
fn f16_conversions_round_to_even() {
    let mut rng = Rng::new(2);
    for isa in crate::testing::isas() {
        for _ in 0..500 {
            let row: Row = core::array::from_fn(|_| f32::from_bits(rng.next() as u32));
            let mut got = [0u16; 16];
            // SAFETY: the processor has `isa`.
            unsafe { halves_on(isa, &row, &mut got) };
            for (x, h) in row.iter().zip(got) {
                let want = half::f16::from_f32(*x);
                assert!(want.to_bits() == h || want.is_nan() && half::f16::from_bits(h).is_nan(), "{isa:?} {x}");
            }
        }
    }
}

#[test]
fn detected_is_listed() {
    assert!(crate::testing::isas().contains(&Isa::detect()));
}

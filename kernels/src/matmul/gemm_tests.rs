//! The product against three loops.

use super::*;
use crate::testing::{Rng, isas};
use std::{vec, vec::Vec};

struct Case {
    size: Size,
    a: Vec<f32>,
    b: Vec<f32>,
    add: Vec<f32>,
    col_bias: Vec<f32>,
    row_bias: Vec<f32>,
}

fn floats(rng: &mut Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| rng.range(-1.0, 1.0)).collect()
}

fn case(rng: &mut Rng, size: Size) -> Case {
    Case {
        size,
        a: floats(rng, size.m * size.k),
        b: floats(rng, size.k * size.n),
        add: floats(rng, size.m * size.n),
        col_bias: floats(rng, size.n),
        row_bias: floats(rng, size.m),
    }
}

fn reference(c: &Case, epilogue: &Epilogue<'_>) -> Vec<f32> {
    let Size { m, n, k } = c.size;
    let mut out = vec![0f32; m * n];
    for i in 0..m {
        for j in 0..n {
            let mut sum: f64 = (0..k).map(|x| c.a[i * k + x] as f64 * c.b[x * n + j] as f64).sum();
            sum += epilogue.col_bias.map_or(0.0, |b| b[j] as f64) + epilogue.row_bias.map_or(0.0, |b| b[i] as f64);
            if !matches!(epilogue.add, Add::Nothing) {
                sum += c.add[i * n + j] as f64;
            }
            out[i * n + j] = activation::scalar(&epilogue.activation, sum as f32);
        }
    }
    out
}

/// `[rows, cols]` in panels of 16 columns, by (row stride, column stride).
fn panels(data: &[f32], rows: usize, cols: usize, row: usize, col: usize) -> Vec<f32> {
    let mut out = vec![0.0; cols.div_ceil(PANEL) * rows * PANEL];
    for i in 0..rows {
        for j in 0..cols {
            out[(j / PANEL * rows + i) * PANEL + j % PANEL] = data[i * row + j * col];
        }
    }
    out
}

fn transposed(data: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    (0..rows * cols).map(|x| data[x % rows * cols + x / rows]).collect()
}

fn run_case(isa: Isa, c: &Case, kind: usize, rng: &mut Rng) {
    let Size { m, n, k } = c.size;
    let epilogue = Epilogue {
        col_bias: (rng.below(2) == 1).then_some(&c.col_bias[..]),
        row_bias: (rng.below(2) == 1).then_some(&c.row_bias[..]),
        add: [Add::Nothing, Add::C, Add::Matrix(&c.add)][rng.below(3)],
        activation: Activation {
            kind: [ActivationKind::Identity, ActivationKind::Relu, ActivationKind::Clip, ActivationKind::Sigmoid]
                [rng.below(4)],
            alpha: -0.5,
            beta: 0.75,
        },
    };
    let expected = reference(c, &epilogue);
    // C is a part of wider rows, unless an addend shares its layout.
    let c_row = if matches!(epilogue.add, Add::Matrix(_)) { n } else { n + rng.below(3) };
    let mut out = vec![7.0; m * c_row];
    if matches!(epilogue.add, Add::C) {
        for i in 0..m {
            out[i * c_row..][..n].copy_from_slice(&c.add[i * n..][..n]);
        }
    }
    let a_t = transposed(&c.a, m, k);
    let spread: Vec<f32> = c.a.iter().flat_map(|x| [*x, 9.0]).collect();
    let mut fill_a = |rows: Range<usize>, terms: Range<usize>, block: &mut [f32], stride: usize| {
        for (i, r) in rows.enumerate() {
            block[i * stride..][..terms.len()].copy_from_slice(&c.a[r * k..][terms.clone()]);
        }
    };
    let (a, a_in_place) = match kind % 4 {
        0 => (A::Strided(Mat { data: &c.a, origin: 0, row: k as isize, col: 1 }), (rng.below(2) == 1)),
        1 => (A::Strided(Mat { data: &a_t, origin: 0, row: 1, col: m as isize }), (rng.below(2) == 1)),
        2 => (A::Strided(Mat { data: &spread, origin: 0, row: 2 * k as isize, col: 2 }), false),
        _ => (A::Fill(&mut fill_a), false),
    };
    let (b_t, b_panels) = (transposed(&c.b, k, n), panels(&c.b, k, n, n, 1));
    let backwards: Vec<f32> = c.b.iter().rev().copied().collect();
    let b = match kind / 4 {
        0 => B::Panels(&b_panels),
        1 => B::Strided(Mat { data: &c.b, origin: 0, row: n as isize, col: 1 }),
        2 => B::Strided(Mat { data: &b_t, origin: 0, row: 1, col: k as isize }),
        _ => B::Strided(Mat { data: &backwards, origin: (k * n).saturating_sub(1), row: -(n as isize), col: -1 }),
    };
    let mut scratch = vec![f32::NAN; workspace(c.size, a_in_place, kind / 4 == 0)];
    run(isa, c.size, a, b, C { data: &mut out, row: c_row }, &epilogue, &mut scratch).unwrap();
    for i in 0..m {
        for j in 0..c_row {
            let (found, wanted) = (out[i * c_row + j], if j < n { expected[i * n + j] } else { 7.0 });
            let bound = 1e-6 * (k as f32 + 4.0);
            assert!((found - wanted).abs() <= bound, "{isa:?} {:?} kind {kind} ({i}, {j}): {found} {wanted}", c.size);
        }
    }
}

#[test]
fn agrees_with_three_loops() {
    let mut rng = Rng::new(1);
    let sizes = [
        (1, 1, 1),
        (1, 16, 5),
        (1, 40, 7),
        (2, 33, 9),
        (3, 17, 8),
        (5, 31, 3),
        (6, 48, 1),
        (7, 129, 4),
        (13, 50, 33),
        (12, 32, 16),
        (97, 18, 5),
        (4, 5, 321),
        (20, 130, 12),
        (33, 16, 0),
        (0, 4, 4),
        (4, 0, 4),
        (25, 17, 330),
    ];
    for isa in isas() {
        for (m, n, k) in sizes {
            let c = case(&mut rng, Size { m, n, k });
            for kind in 0..16 {
                run_case(isa, &c, kind, &mut rng);
            }
        }
    }
}

#[test]
fn too_small_operands_are_refused() {
    let size = Size { m: 2, n: 3, k: 4 };
    let (a, b) = ([0.0; 8], [0.0; 64]);
    let mut scratch = [0.0; 256];
    let mut go = |a: &[f32], b: &[f32], c_len: usize, row: usize| {
        let a = A::Strided(Mat { data: a, origin: 0, row: 4, col: 1 });
        let mut c = vec![0.0; c_len];
        run(Isa::Portable, size, a, B::Panels(b), C { data: &mut c, row }, &Epilogue::NONE, &mut scratch)
    };
    assert_eq!(go(&a, &b, 6, 3), Ok(()));
    assert!(go(&a[1..], &b, 6, 3).is_err());
    assert!(go(&a, &b[1..], 6, 3).is_err());
    assert!(go(&a, &b, 5, 3).is_err());
    assert!(go(&a, &b, 6, 2).is_err());
    assert!(go(&a, &b, 6, usize::MAX).is_err());
}

#[test]
fn parts_cover_the_whole_once() {
    for len in [0, 1, 5, 96, 97, 100, 1000] {
        for (max, unit) in [(96, 12), (96, 16), (320, 4), (6, 1), (12, 1)] {
            let parts: Vec<_> = split(len, max, unit).collect();
            assert!(!parts.is_empty() && parts.iter().all(|p| p.len() <= max));
            let joined: Vec<usize> = parts.into_iter().flatten().collect();
            assert!(joined.into_iter().eq(0..len), "{len} {max} {unit}");
        }
    }
}

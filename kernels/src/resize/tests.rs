//! Resampling: known cases, and the fast level against the reference level.

use super::*;
use crate::execute;
use crate::spatial::testing::Numbers;
use crate::testing::isas;
use std::{vec, vec::Vec};

const PARAMS: Resize = Resize {
    mode: ResizeMode::Linear,
    coordinates: CoordinateMode::HalfPixel,
    nearest: NearestMode::RoundPreferFloor,
    cubic_coeff_a: -0.75,
    exclude_outside: false,
    extrapolation: 0.0,
    antialias: false,
};

fn run(
    p: Resize,
    isa: crate::Isa,
    x: &[f32],
    dims: &[usize],
    scales: Option<&[f32]>,
    regions: Option<&[f32]>,
    y_dims: &[usize],
) -> Vec<f32> {
    let mut y = vec![f32::NAN; y_dims.iter().product()];
    let reads = [
        Some(Src::from_slice(x, dims).unwrap()),
        scales.map(|s| Src::from_slice(s, &[s.len()]).unwrap()),
        regions.map(|s| Src::from_slice(s, &[s.len()]).unwrap()),
    ];
    let mut writes = [Some(Dst::from_slice(&mut y, y_dims).unwrap())];
    execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], isa)).unwrap();
    y
}

fn close(found: &[f32], wanted: &[f32], what: &dyn core::fmt::Debug) {
    assert_eq!(found.len(), wanted.len());
    for (f, w) in found.iter().zip(wanted) {
        assert!((f - w).abs() <= 2e-5, "{f} for {w} in {what:?}");
    }
}

/// One axis by the definition in the operator's description: neighbours are those with the nearest coordinates.
fn line(p: &Resize, x: &[f32], scale: f64, out: usize) -> Vec<f32> {
    let n = x.len() as f64;
    (0..out)
        .map(|o| {
            let o = o as f64;
            let at = match p.coordinates {
                CoordinateMode::Asymmetric => o / scale,
                CoordinateMode::AlignCorners => o * (n - 1.0) / (n * scale - 1.0),
                _ => (o + 0.5) / scale - 0.5,
            };
            let (floor, pixel) = (at.floor(), |i: f64| f64::from(x[i.clamp(0.0, n - 1.0) as usize]));
            let r = at - floor;
            (match p.mode {
                ResizeMode::Linear => (1.0 - r) * pixel(floor) + r * pixel(floor + 1.0),
                ResizeMode::Nearest => pixel(match p.nearest {
                    NearestMode::Floor => floor,
                    NearestMode::Ceil => at.ceil(),
                    NearestMode::RoundPreferCeil => (at + 0.5).floor(),
                    NearestMode::RoundPreferFloor => (at - 0.5).ceil(),
                }),
                ResizeMode::Cubic => {
                    let a = f64::from(p.cubic_coeff_a);
                    let near = |d: f64| (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0;
                    let far = |d: f64| a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a;
                    far(1.0 + r) * pixel(floor - 1.0)
                        + near(r) * pixel(floor)
                        + near(1.0 - r) * pixel(floor + 1.0)
                        + far(2.0 - r) * pixel(floor + 2.0)
                }
            }) as f32
        })
        .collect()
}

#[test]
fn two_axes_are_one_after_the_other() {
    let mut numbers = Numbers::new(6);
    for round in 0..120 {
        let mut p = PARAMS;
        p.mode = [ResizeMode::Nearest, ResizeMode::Linear, ResizeMode::Cubic][round % 3];
        p.coordinates =
            [CoordinateMode::HalfPixel, CoordinateMode::Asymmetric, CoordinateMode::AlignCorners][round / 3 % 3];
        p.nearest =
            [NearestMode::Floor, NearestMode::Ceil, NearestMode::RoundPreferCeil, NearestMode::RoundPreferFloor]
                [round / 9 % 4];
        let (h, w) = (numbers.range(2, 9), numbers.range(2, 300));
        let (oh, ow) = (numbers.range(2, 20), numbers.range(2, 300));
        let x = numbers.floats(2 * h * w);
        let mut want = vec![];
        for plane in x.chunks(h * w) {
            let rows: Vec<Vec<f32>> = plane.chunks(w).map(|row| line(&p, row, ow as f64 / w as f64, ow)).collect();
            let columns: Vec<Vec<f32>> = (0..ow)
                .map(|j| line(&p, &rows.iter().map(|r| r[j]).collect::<Vec<_>>(), oh as f64 / h as f64, oh))
                .collect();
            want.extend((0..oh * ow).map(|i| columns[i % ow][i / ow]));
        }
        for isa in isas() {
            close(&run(p, isa, &x, &[1, 2, h, w], None, None, &[1, 2, oh, ow]), &want, &(p, h, w, oh, ow));
        }
        let x64: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let mut y64 = vec![0f64; want.len()];
        let reads = [Some(Src::from_slice(&x64, &[2, h, w]).unwrap())];
        let mut writes = [Some(Dst::from_slice(&mut y64, &[2, oh, ow]).unwrap())];
        execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], crate::Isa::Portable)).unwrap();
        close(&y64.iter().map(|y| *y as f32).collect::<Vec<_>>(), &want, &p);
    }
}

#[test]
fn doubling_and_bytes() {
    let mut p = PARAMS;
    (p.mode, p.coordinates, p.nearest) = (ResizeMode::Nearest, CoordinateMode::Asymmetric, NearestMode::Floor);
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let y = run(p, crate::Isa::detect(), &x, &[2, 3], Some(&[2.0, 2.0]), None, &[4, 6]);
    assert_eq!(y[..12], [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    assert_eq!(y[12..18], [4.0, 4.0, 5.0, 5.0, 6.0, 6.0]);
    let (x, mut y) = ([0u8, 255], [0u8; 4]);
    let reads = [Some(Src::from_slice(&x, &[2]).unwrap())];
    let mut writes = [Some(Dst::from_slice(&mut y, &[4]).unwrap())];
    execute(&PARAMS.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], crate::Isa::detect())).unwrap();
    assert_eq!(y, [0, 64, 191, 255]);
}

#[test]
fn antialiasing_widens_the_filter() {
    let p = Resize { antialias: true, ..PARAMS };
    // Half the size: weights 1/8, 3/8, 3/8, 1/8.
    let y = run(p, crate::Isa::detect(), &[0.0, 0.0, 8.0, 0.0, 0.0, 0.0], &[6], None, None, &[3]);
    close(&y, &[1.0 / 0.875 * 0.875, 3.0, 0.0], &p);
}

#[test]
fn regions_are_extrapolated() {
    let p = Resize { coordinates: CoordinateMode::CropAndResize, extrapolation: 10.0, ..PARAMS };
    let x: Vec<f32> = (1..=16).map(|x| x as f32).collect();
    let regions = [0.0, 0.0, 0.4, 0.6, 1.0, 1.0, 1.2, 1.7];
    let y = run(p, crate::Isa::detect(), &x, &[1, 1, 4, 4], None, Some(&regions), &[1, 1, 3, 3]);
    close(&y, &[7.6, 10.0, 10.0, 12.4, 10.0, 10.0, 10.0, 10.0, 10.0], &p);
}

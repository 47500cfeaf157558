//! Pooling against windows written down as they are defined.

use super::*;
use crate::spatial::testing::Numbers;
use crate::{Isa, execute};
use plan::List;
use std::{vec, vec::Vec};

fn params(
    kind: PoolKind,
    kernel: &[u32],
    strides: &[u32],
    dilations: &[u32],
    before: &[i64],
    after: &[i64],
) -> Pool<i64> {
    Pool {
        kind,
        kernel: List::from_slice(kernel).unwrap(),
        strides: List::from_slice(strides).unwrap(),
        dilations: List::from_slice(dilations).unwrap(),
        before: List::from_slice(before).unwrap(),
        after: List::from_slice(after).unwrap(),
        count_include_pad: false,
        column_major: false,
        data: DataLayout::ChannelsFirst,
    }
}

/// One plane (rows, columns) pooled as it is defined: the results and the places in the plane.
fn expected(p: &Pool<i64>, x: &[f32], (h, w): (usize, usize), (oh, ow): (usize, usize)) -> (Vec<f32>, Vec<i64>) {
    let (mut out, mut places) = (vec![], vec![]);
    for oy in 0..oh {
        for ox in 0..ow {
            let (mut sum, mut norm, mut counted, mut best, mut place) = (0f64, 0f64, 0, f32::NEG_INFINITY, -1);
            for ky in 0..p.kernel[0] {
                for kx in 0..p.kernel[1] {
                    let y = oy as i64 * p.strides[0] as i64 + (ky * p.dilations[0]) as i64 - p.before[0];
                    let x_at = ox as i64 * p.strides[1] as i64 + (kx * p.dilations[1]) as i64 - p.before[1];
                    if (0..h as i64).contains(&y) && (0..w as i64).contains(&x_at) {
                        let v = x[y as usize * w + x_at as usize];
                        counted += 1;
                        sum += f64::from(v);
                        if let PoolKind::Lp { p } = p.kind {
                            norm += f64::from(v).abs().powi(p as i32);
                        }
                        if v > best {
                            (best, place) = (v, if p.column_major { x_at * h as i64 + y } else { y * w as i64 + x_at });
                        }
                    } else if p.count_include_pad && y < h as i64 + p.after[0] && x_at < w as i64 + p.after[1] {
                        counted += 1;
                    }
                }
            }
            out.push(match p.kind {
                PoolKind::Max => best,
                PoolKind::Average => (sum / f64::from(counted.max(1))) as f32,
                PoolKind::Lp { p } => norm.powf(1.0 / f64::from(p)) as f32,
            });
            places.push(place);
        }
    }
    (out, places)
}

fn close(found: &[f32], wanted: &[f32], what: &dyn core::fmt::Debug) {
    assert_eq!(found.len(), wanted.len());
    for (f, w) in found.iter().zip(wanted) {
        assert!(f == w || (f - w).abs() <= 1e-5 * w.abs().max(1.0), "{f} for {w} in {what:?}");
    }
}

#[test]
fn random_windows() {
    let mut numbers = Numbers::new(2);
    for round in 0..150 {
        let (h, w) = (numbers.range(1, 9), numbers.range(1, 90));
        let mut list = |low, high| [numbers.range(low, high) as u32, numbers.range(low, high) as u32];
        let (kernel, strides, dilations) = (list(1, 4), list(1, 3), list(1, 2));
        let (before, after) = (list(0, 2).map(i64::from), list(0, 2).map(i64::from));
        let kind = [PoolKind::Max, PoolKind::Average, PoolKind::Lp { p: 2 }, PoolKind::Lp { p: 3 }][round % 4];
        let mut p = params(kind, &kernel, &strides, &dilations, &before, &after);
        p.count_include_pad = round % 8 < 4;
        p.column_major = round % 16 < 8;
        // Rounded up, as `ceil_mode` does: the last window may lie beyond the padding in part.
        let extent = |i: usize, a: usize| {
            let reach = (kernel[a] as i64 - 1) * i64::from(dilations[a]) + 1;
            let room = i as i64 + before[a] + after[a] - reach;
            if room < 0 { 0 } else { (room as usize).div_ceil(strides[a] as usize) + 1 }
        };
        let (oh, ow) = (extent(h, 0), extent(w, 1));
        let planes = 3;
        let x = numbers.floats(planes * h * w);
        let (mut want, mut want_places) = (vec![], vec![]);
        for c in 0..planes {
            let (v, i) = expected(&p, &x[c * h * w..][..h * w], (h, w), (oh, ow));
            want.extend(v);
            want_places.extend(i.iter().map(|i| if *i < 0 { -1 } else { i + (c * h * w) as i64 }));
        }
        for isa in [Isa::Portable, Isa::detect()] {
            let mut y = vec![0f32; planes * oh * ow];
            let reads = [Some(Src::from_slice(&x, &[1, planes, h, w]).unwrap())];
            let mut writes = [Some(Dst::from_slice(&mut y, &[1, planes, oh, ow]).unwrap())];
            execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], isa)).unwrap();
            close(&y, &want, &p);
        }
        if kind == PoolKind::Max {
            let (mut y, mut places) = (vec![0f32; planes * oh * ow], vec![0i64; planes * oh * ow]);
            let reads = [Some(Src::from_slice(&x, &[1, planes, h, w]).unwrap())];
            let mut writes = [
                Some(Dst::from_slice(&mut y, &[1, planes, oh, ow]).unwrap()),
                Some(Dst::from_slice(&mut places, &[1, planes, oh, ow]).unwrap()),
            ];
            execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], Isa::detect())).unwrap();
            close(&y, &want, &p);
            assert_eq!(places, want_places, "{p:?}");
        }
        let last = |v: &[f32], plane: usize| -> Vec<f32> {
            (0..v.len()).map(|i| v[i % planes * plane + i / planes]).collect()
        };
        p.data = DataLayout::ChannelsLast;
        let x = last(&x, h * w);
        let mut y = vec![0f32; planes * oh * ow];
        let reads = [Some(Src::from_slice(&x, &[1, h, w, planes]).unwrap())];
        let mut writes = [Some(Dst::from_slice(&mut y, &[1, oh, ow, planes]).unwrap())];
        execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], Isa::detect())).unwrap();
        close(&y, &last(&want, oh * ow), &p);
    }
}

#[test]
fn wide_windows_and_other_types() {
    let x: Vec<i8> = (0..1000).map(|i| (i % 251) as i8).collect();
    let p = params(PoolKind::Max, &[1000], &[1], &[1], &[0], &[0]);
    let mut y = [0i8];
    let reads = [Some(Src::from_slice(&x, &[1, 1, 1000]).unwrap())];
    let mut writes = [Some(Dst::from_slice(&mut y, &[1, 1, 1]).unwrap())];
    execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], Isa::detect())).unwrap();
    assert_eq!(y, [127]);

    let x: Vec<f16> = (0..8).map(|i| f16::from_f32(i as f32)).collect();
    let p = params(PoolKind::Average, &[2, 2, 2], &[1; 3], &[1; 3], &[0; 3], &[0; 3]);
    let mut y = [f16::ZERO];
    let reads = [Some(Src::from_slice(&x, &[1, 1, 2, 2, 2]).unwrap())];
    let mut writes = [Some(Dst::from_slice(&mut y, &[1, 1, 1, 1, 1]).unwrap())];
    execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], Isa::detect())).unwrap();
    assert_eq!(y[0].to_f32(), 3.5);
}

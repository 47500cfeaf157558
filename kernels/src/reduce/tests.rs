//! Reductions against loops over all elements in f64 and i128.

use crate::{
    Isa,
    testing::{Rng, Tensor, isas, run},
};
use half::f16;
use plan::{
    Axes, DType,
    prim::{ArgReduce, Cumulative, Reduce, ReduceOp},
};
use std::{vec, vec::Vec};

const OPS: [ReduceOp; 10] = [
    ReduceOp::Sum,
    ReduceOp::Mean,
    ReduceOp::Prod,
    ReduceOp::Min,
    ReduceOp::Max,
    ReduceOp::L1,
    ReduceOp::L2,
    ReduceOp::LogSum,
    ReduceOp::LogSumExp,
    ReduceOp::SumSquare,
];

fn scalar(op: ReduceOp, x: &[f64]) -> f64 {
    let sum = |f: fn(f64) -> f64| x.iter().map(|x| f(*x)).sum::<f64>();
    match op {
        ReduceOp::Sum => sum(|x| x),
        ReduceOp::Mean => sum(|x| x) / x.len() as f64,
        ReduceOp::Prod => x.iter().product(),
        ReduceOp::Min => x.iter().copied().fold(f64::INFINITY, |a, b| if b < a || b.is_nan() { b } else { a }),
        ReduceOp::Max => x.iter().copied().fold(f64::NEG_INFINITY, |a, b| if b > a || b.is_nan() { b } else { a }),
        ReduceOp::L1 => sum(f64::abs),
        ReduceOp::L2 => sum(|x| x * x).sqrt(),
        ReduceOp::LogSum => sum(|x| x).ln(),
        ReduceOp::LogSumExp => sum(f64::exp).ln(),
        ReduceOp::SumSquare => sum(|x| x * x),
    }
}

/// The elements that come together in each element of the result.
fn groups<T: Copy>(data: &[T], dims: &[usize], axes: &[u8]) -> (Vec<usize>, Vec<Vec<T>>) {
    let gone = |a: usize| axes.contains(&(a as u8));
    let out: Vec<usize> = dims.iter().enumerate().map(|(a, d)| if gone(a) { 1 } else { *d }).collect();
    let mut all = vec![Vec::new(); out.iter().product()];
    for (flat, x) in data.iter().enumerate() {
        let (mut rest, mut at, mut step) = (flat, 0, 1);
        for a in (0..dims.len()).rev() {
            if !gone(a) {
                at += rest % dims[a] * step;
                step *= dims[a];
            }
            rest /= dims[a];
        }
        all[at].push(*x);
    }
    (out, all)
}

const SHAPES: [&[usize]; 8] = [&[], &[5], &[3000], &[40, 70], &[3, 200, 33], &[2, 3, 4, 5], &[2, 70, 3], &[1, 9000, 2]];

fn random_axes(rank: usize, rng: &mut Rng) -> Vec<u8> {
    (0..rank as u8).filter(|_| rng.below(2) == 0).collect()
}

#[test]
fn floats() {
    let mut rng = Rng::new(70);
    for op in OPS {
        for dims in SHAPES {
            for round in 0..4 {
                let n: usize = dims.iter().product();
                let data: Vec<f32> = (0..n)
                    .map(|_| if op == ReduceOp::Prod { rng.range(0.99, 1.01) } else { rng.range(0.1, 2.0) })
                    .collect();
                let axes = random_axes(dims.len(), &mut rng);
                let (out, all) = groups(&data, dims, &axes);
                let p = Reduce { op, axes: Axes::from_slice(&axes).unwrap() };
                let mut first: Option<Vec<u32>> = None;
                let src = Tensor::of(&data, dims);
                let src = if round % 2 == 0 { src } else { src.scattered(&mut rng) };
                for isa in isas() {
                    let mut w = [Tensor::zeros(DType::F32, &out)];
                    run(&p.into(), &[Some(&src)], &mut w, None, isa).unwrap();
                    let got = w[0].to_vec::<f32>();
                    for (x, got) in all.iter().zip(&got) {
                        let want = scalar(op, &x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
                        let scale = if op == ReduceOp::LogSum { want.abs().max(1.0) } else { want.abs() };
                        assert!(
                            (f64::from(*got) - want).abs() <= 1e-5 * scale,
                            "{op:?} {dims:?} {axes:?}: {got} not {want}"
                        );
                    }
                    let bits: Vec<u32> = got.iter().map(|x| x.to_bits()).collect();
                    assert_eq!(first.get_or_insert(bits.clone()), &bits, "{op:?} on {isa:?}");
                }
            }
        }
    }
}

#[test]
fn other_floats() {
    let mut rng = Rng::new(71);
    for op in OPS {
        for dims in [&[7][..], &[3, 40], &[40, 3]] {
            let n: usize = dims.iter().product();
            let data: Vec<f16> = (0..n).map(|_| f16::from_f32(rng.range(0.5, 1.4))).collect();
            let axes = random_axes(dims.len(), &mut rng);
            let (out, all) = groups(&data, dims, &axes);
            let p = Reduce { op, axes: Axes::from_slice(&axes).unwrap() };
            let mut w = [Tensor::zeros(DType::F16, &out)];
            run(&p.into(), &[Some(&Tensor::of(&data, dims))], &mut w, None, Isa::Portable).unwrap();
            for (x, got) in all.iter().zip(w[0].to_vec::<f16>()) {
                let want = scalar(op, &x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
                assert!((f64::from(got) - want).abs() <= 1e-3 * want.abs().max(1.0), "{op:?}: {got} not {want}");
            }
        }
    }
}

#[test]
fn many_small_terms_keep_their_sum() {
    let n = 1 << 20;
    let data = vec![0.1f32; n];
    for (dims, axes) in [([1, n], [1u8]), ([n, 1], [0]), ([n / 64, 64], [0])] {
        let mut w = [Tensor::zeros(DType::F32, &dims.map(|d| if d == dims[usize::from(axes[0])] { 1 } else { d }))];
        let p = Reduce { op: ReduceOp::Mean, axes: Axes::of(axes) };
        run(&p.into(), &[Some(&Tensor::of(&data, &dims))], &mut w, None, Isa::detect()).unwrap();
        for x in w[0].to_vec::<f32>() {
            assert!((x - 0.1).abs() < 2e-7, "{x}");
        }
    }
}

#[test]
fn integers_keep_their_type() {
    let mut rng = Rng::new(72);
    for dims in SHAPES {
        let n: usize = dims.iter().product();
        let data: Vec<i64> = (0..n).map(|_| (rng.next() >> 20) as i64 - (1 << 43)).collect();
        let axes = random_axes(dims.len(), &mut rng);
        let (out, all) = groups(&data, dims, &axes);
        for op in [ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::Prod, ReduceOp::Mean] {
            let p = Reduce { op, axes: Axes::from_slice(&axes).unwrap() };
            let mut w = [Tensor::zeros(DType::I64, &out)];
            run(&p.into(), &[Some(&Tensor::of(&data, dims).scattered(&mut rng))], &mut w, None, Isa::detect()).unwrap();
            for (x, got) in all.iter().zip(w[0].to_vec::<i64>()) {
                let sum = x.iter().fold(0i64, |a, b| a.wrapping_add(*b));
                let want = match op {
                    ReduceOp::Sum => sum,
                    ReduceOp::Mean => sum / x.len() as i64,
                    ReduceOp::Min => *x.iter().min().unwrap(),
                    ReduceOp::Max => *x.iter().max().unwrap(),
                    _ => x.iter().fold(1i64, |a, b| a.wrapping_mul(*b)),
                };
                assert_eq!(got, want, "{op:?}");
            }
        }
    }
    let mut w = [Tensor::zeros(DType::I32, &[1])];
    let p = Reduce { op: ReduceOp::Sum, axes: Axes::of([0]) };
    run(&p.into(), &[Some(&Tensor::of(&[i32::MAX, 1], &[2]))], &mut w, None, Isa::Portable).unwrap();
    assert_eq!(w[0].to_vec::<i32>(), [i32::MIN]);
}

#[test]
fn nothing_reduces_to_the_neutral_element() {
    let one = |op, dtype: DType| {
        let mut w = [Tensor::zeros(dtype, &[1, 2])];
        let p = Reduce { op, axes: Axes::of([0]) };
        run(&p.into(), &[Some(&Tensor::zeros(dtype, &[0, 2]))], &mut w, None, Isa::detect()).unwrap();
        w
    };
    assert_eq!(one(ReduceOp::Sum, DType::F32)[0].to_vec::<f32>(), [0.0; 2]);
    assert_eq!(one(ReduceOp::Prod, DType::F32)[0].to_vec::<f32>(), [1.0; 2]);
    assert_eq!(one(ReduceOp::Max, DType::F32)[0].to_vec::<f32>(), [f32::NEG_INFINITY; 2]);
    assert_eq!(one(ReduceOp::Min, DType::F32)[0].to_vec::<f32>(), [f32::INFINITY; 2]);
    assert_eq!(one(ReduceOp::Max, DType::I32)[0].to_vec::<i32>(), [i32::MIN; 2]);
    assert_eq!(one(ReduceOp::Min, DType::I64)[0].to_vec::<i64>(), [i64::MAX; 2]);
    assert_eq!(one(ReduceOp::LogSumExp, DType::F32)[0].to_vec::<f32>(), [f32::NEG_INFINITY; 2]);
    assert_eq!(one(ReduceOp::Max, DType::Bool)[0].to_vec::<u8>(), [0; 2]);
    assert_eq!(one(ReduceOp::Min, DType::Bool)[0].to_vec::<u8>(), [1; 2]);
}

#[test]
fn booleans_and_nan() {
    let src = Tensor::with_bits(DType::Bool, &[0u8, 1, 0, 0], &[2, 2]);
    for (op, want) in [(ReduceOp::Max, [1u8, 0]), (ReduceOp::Min, [0, 0])] {
        let mut w = [Tensor::zeros(DType::Bool, &[2, 1])];
        run(&Reduce { op, axes: Axes::of([1]) }.into(), &[Some(&src)], &mut w, None, Isa::detect()).unwrap();
        assert_eq!(w[0].to_vec::<u8>(), want);
    }
    for at in [0, 5, 40] {
        let mut data = vec![1f32; 70];
        data[at] = f32::NAN;
        for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum] {
            for (dims, axis, out) in [([1, 70], 1, [1, 1]), ([35, 2], 0, [1, 2])] {
                let mut w = [Tensor::zeros(DType::F32, &out)];
                let p = Reduce { op, axes: Axes::of([axis]) };
                run(&p.into(), &[Some(&Tensor::of(&data, &dims))], &mut w, None, Isa::detect()).unwrap();
                assert!(w[0].to_vec::<f32>()[at % out[1]].is_nan(), "{op:?} {at}");
            }
        }
    }
}

#[test]
fn places_of_extremes() {
    let mut rng = Rng::new(73);
    for dims in [&[9][..], &[3, 40], &[5, 40, 3], &[4, 1, 6]] {
        for axis in 0..dims.len() as u8 {
            for (max, last) in [(true, false), (true, true), (false, false), (false, true)] {
                let n: usize = dims.iter().product();
                let data: Vec<i32> = (0..n).map(|_| rng.below(5) as i32 - 2).collect();
                let (out, all) = groups(&data, dims, &[axis]);
                let src = Tensor::of(&data, dims).scattered(&mut rng);
                let mut w = [Tensor::zeros(DType::I64, &out)];
                run(&ArgReduce { max, axis, last }.into(), &[Some(&src)], &mut w, None, Isa::Portable).unwrap();
                for (x, got) in all.iter().zip(w[0].to_vec::<i64>()) {
                    let best = if max { x.iter().max() } else { x.iter().min() };
                    let place = if last {
                        x.iter().rposition(|x| Some(x) == best)
                    } else {
                        x.iter().position(|x| Some(x) == best)
                    };
                    assert_eq!(got as usize, place.unwrap());
                }
            }
        }
    }
    for max in [true, false] {
        let src = Tensor::of(&[1f32, f32::NAN, 0.0, f32::NAN], &[4]);
        let mut w = [Tensor::zeros(DType::I64, &[1])];
        run(&ArgReduce { max, axis: 0, last: false }.into(), &[Some(&src)], &mut w, None, Isa::Portable).unwrap();
        assert_eq!(w[0].to_vec::<i64>(), [1]);
    }
}

#[test]
fn running_sums() {
    let mut rng = Rng::new(74);
    for dims in [&[9][..], &[3, 40], &[5, 4, 3], &[0, 2]] {
        for axis in 0..dims.len() {
            for flags in 0..8 {
                let (product, exclusive, reverse) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
                let n: usize = dims.iter().product();
                let data: Vec<i64> = (0..n).map(|_| rng.below(5) as i64 - 2).collect();
                let (extent, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
                let mut want = data.clone();
                for (i, x) in want.iter_mut().enumerate() {
                    let at = i / inner % extent;
                    let taken = (0..extent).filter(|k| {
                        let before = if reverse { *k > at } else { *k < at };
                        before || (*k == at && !exclusive)
                    });
                    let values = taken.map(|k| data[i + k * inner - at * inner]);
                    *x = if product { values.product() } else { values.sum() };
                }
                let src = Tensor::of(&data, dims);
                for shared in [None, Some(0)] {
                    let mut w = [if shared.is_some() { src.clone() } else { Tensor::zeros(DType::I64, dims) }];
                    let p = Cumulative { product, axis: axis as u8, exclusive, reverse };
                    run(&p.into(), &[Some(&src)], &mut w, shared, Isa::Portable).unwrap();
                    assert_eq!(w[0].to_vec::<i64>(), want);
                }
            }
        }
    }
}

//! Matrix products against three loops, by views of every kind.

use super::*;
use crate::{
    Element, Isa, Shape,
    testing::{Rng, Tensor, isas, run},
};
use half::{bf16, f16};
use plan::{
    Primitive,
    prim::{Activation, ActivationKind, PackKind, Prepack},
};
use std::{vec, vec::Vec};

fn prim(b: MatLayout, kind: ActivationKind) -> Primitive<i64> {
    MatMul { activation: Activation { kind, alpha: 0.1, beta: 0.5 }, b }.into()
}

/// The product in f64, of operands given with their full dims.
fn reference(a: &[f64], b: &[f64], (batch, m, k, n): (usize, usize, usize, usize)) -> Vec<f64> {
    let mut out = vec![0.0; batch * m * n];
    for g in 0..batch {
        for i in 0..m {
            for j in 0..n {
                out[(g * m + i) * n + j] = (0..k).map(|x| a[(g * m + i) * k + x] * b[(g * k + x) * n + j]).sum();
            }
        }
    }
    out
}

/// A tensor of small numbers, perhaps scattered in memory, perhaps the same along some axes.
fn random<T: Element>(rng: &mut Rng, dims: &[usize], make: &impl Fn(f64) -> T, same: &[usize]) -> Tensor {
    let mut small = dims.to_vec();
    for axis in same {
        small[*axis] = dims[*axis].min(1);
    }
    let data: Vec<T> = (0..small.iter().product()).map(|_| make(rng.below(17) as f64 / 4.0 - 2.0)).collect();
    let t = Tensor::of(&data, &small);
    let mut t = if rng.below(2) == 1 { t.scattered(rng) } else { t };
    let mut strides = t.shape.strides().to_vec();
    for axis in same {
        strides[*axis] = 0;
    }
    t.shape = Shape::strided(dims, &strides).unwrap();
    t
}

fn numbers<T: Element>(t: &Tensor, read: &impl Fn(T) -> f64) -> Vec<f64> {
    t.to_vec::<T>().into_iter().map(read).collect()
}

/// One random case of a type; with `fuzz` for what may differ by rounding.
fn case<T: Element>(rng: &mut Rng, isa: Isa, make: impl Fn(f64) -> T, read: impl Fn(T) -> f64, fuzz: f64) {
    let extent = |rng: &mut Rng, max: usize| if rng.below(8) == 0 { 0 } else { 1 + rng.below(max) };
    let (m, n, k) = (extent(rng, 20), extent(rng, 40), extent(rng, 20));
    let batch: Vec<usize> = (0..rng.below(3)).map(|_| 1 + rng.below(3)).collect();
    let count = batch.iter().product();
    let rank = batch.len() + 2;
    let dims = |x: usize, y: usize| [&batch[..], &[x, y]].concat();
    let some = |rng: &mut Rng, of: usize| (0..of).filter(|_| rng.below(2) == 1).collect::<Vec<_>>();
    let (same_a, same_b) = (some(rng, rank - 2), some(rng, rank - 2));
    let a = random(rng, &dims(m, k), &make, &same_a);
    let b = random(rng, &dims(k, n), &make, &same_b);
    let same_bias = some(rng, rank);
    let bias = (rng.below(2) == 1).then(|| random(rng, &dims(m, n), &make, &same_bias));
    let residual = (rng.below(2) == 1).then(|| random(rng, &dims(m, n), &make, &[]));
    let mut wanted = reference(&numbers(&a, &read), &numbers(&b, &read), (count, m, k, n));
    for more in [&bias, &residual].into_iter().flatten() {
        wanted.iter_mut().zip(numbers(more, &read)).for_each(|(w, x)| *w += x);
    }
    let p = prim(MatLayout::Plain, ActivationKind::Identity);
    let check = |out: &Tensor, what: &str| {
        for (found, wanted) in numbers(out, &read).into_iter().zip(&wanted) {
            assert!((found - wanted).abs() <= fuzz * (1.0 + wanted.abs()), "{isa:?} {what}: {found} {wanted}");
        }
    };
    let mut out = [Tensor::zeros(T::DTYPE, &dims(m, n))];
    run(&p, &[Some(&a), Some(&b), bias.as_ref(), residual.as_ref()], &mut out, None, isa).unwrap();
    check(&out[0], "apart");
    if let Some(residual) = &residual {
        let mut out = [Tensor::of(&residual.to_vec::<T>(), &dims(m, n))];
        run(&p, &[Some(&a), Some(&b), bias.as_ref(), Some(residual)], &mut out, Some(3), isa).unwrap();
        check(&out[0], "in place");
    }
}

#[test]
fn every_type_agrees_with_three_loops() {
    let mut rng = Rng::new(2);
    for isa in isas() {
        for _ in 0..60 {
            case(&mut rng, isa, |x| x as f32, f64::from, 1e-5);
        }
    }
    for _ in 0..10 {
        let isa = Isa::detect();
        case(&mut rng, isa, |x| x, |x: f64| x, 1e-12);
        case(&mut rng, isa, f16::from_f64, f16::to_f64, 1e-3);
        case(&mut rng, isa, bf16::from_f64, bf16::to_f64, 8e-3);
        case(&mut rng, isa, |x| x as i32, f64::from, 0.0);
        case(&mut rng, isa, |x| x as i64, |x| x as f64, 0.0);
        case(&mut rng, isa, |x| x.abs() as u32, f64::from, 0.0);
        case(&mut rng, isa, |x| x.abs() as u64, |x| x as f64, 0.0);
    }
}

#[test]
fn integers_wrap() {
    let a = Tensor::of(&[i32::MAX, 2], &[1, 2]);
    let b = Tensor::of(&[2, 3], &[2, 1]);
    let mut out = [Tensor::zeros(DType::I32, &[1, 1])];
    run(&prim(MatLayout::Plain, ActivationKind::Identity), &[Some(&a), Some(&b)], &mut out, None, Isa::Portable)
        .unwrap();
    assert_eq!(out[0].to_vec::<i32>(), [4]);
}

#[test]
fn panels_give_what_the_plain_matrix_gives() {
    let mut rng = Rng::new(3);
    for isa in isas() {
        for (m, n, k) in [(1, 40, 5), (5, 17, 330), (100, 16, 3), (3, 0, 2), (0, 3, 2), (4, 4, 0)] {
            let a = random(&mut rng, &[2, m, k], &|x| x as f32, &[]);
            let b = random(&mut rng, &[k, n], &|x| x as f32, &[]);
            let mut packed = [Tensor::zeros(DType::F32, &[n.div_ceil(16), k, 16])];
            let pack = Prepack { kind: PackKind::MatPanels16 }.into();
            run(&pack, &[Some(&b)], &mut packed, None, isa).unwrap();
            let mut many = b.clone();
            let strides = [&[0], b.shape.strides()].concat();
            many.shape = Shape::strided(&[2, k, n], &strides).unwrap();
            let act = ActivationKind::Tanh;
            let mut out = [Tensor::zeros(DType::F32, &[2, m, n])];
            let mut plain = out.clone();
            run(&prim(MatLayout::Panels16, act), &[Some(&a), Some(&packed[0])], &mut out, None, isa).unwrap();
            run(&prim(MatLayout::Plain, act), &[Some(&a), Some(&many)], &mut plain, None, isa).unwrap();
            for (x, y) in out[0].to_vec::<f32>().into_iter().zip(plain[0].to_vec::<f32>()) {
                assert!((x - y).abs() < 1e-5, "{isa:?} {m} {n} {k}: {x} {y}");
            }
        }
    }
}

#[test]
fn zero_points() {
    let a = Tensor::of(&[1u8, 255, 0, 7, 9, 128], &[2, 3]);
    let b = Tensor::of(&[-128i8, 5, 127, 0, 3, -1], &[3, 2]);
    let wanted = |za: [i32; 2], zb: [i32; 2]| -> Vec<i32> {
        let (a, b) = (a.to_vec::<u8>(), b.to_vec::<i8>());
        let sum = |i: usize, j: usize| -> i32 {
            (0..3).map(|k| (i32::from(a[i * 3 + k]) - za[i]) * (i32::from(b[k * 2 + j]) - zb[j])).sum()
        };
        vec![sum(0, 0), sum(0, 1), sum(1, 0), sum(1, 1)]
    };
    let go = |za: Option<Tensor>, zb: Option<Tensor>| {
        let mut out = [Tensor::zeros(DType::I32, &[2, 2])];
        let reads = [Some(&a), Some(&b), None, None, za.as_ref(), zb.as_ref()];
        run(&prim(MatLayout::Plain, ActivationKind::Identity), &reads, &mut out, None, Isa::detect())?;
        Ok::<_, Fault>(out[0].to_vec::<i32>())
    };
    assert_eq!(go(None, None), Ok(wanted([0, 0], [0, 0])));
    assert_eq!(go(Some(Tensor::of(&[200u8], &[])), Some(Tensor::of(&[-5i8], &[1]))), Ok(wanted([200; 2], [-5; 2])));
    let rows = Tensor::of(&[3u8, 250], &[2]);
    assert_eq!(go(Some(rows), Some(Tensor::of(&[-7i8, 8], &[2]))), Ok(wanted([3, 250], [-7, 8])));
    let rows = Tensor::of(&[3u8, 250], &[2, 1]);
    assert_eq!(go(Some(rows), Some(Tensor::of(&[-7i8, 8], &[1, 2]))), Ok(wanted([3, 250], [-7, 8])));
    assert!(go(Some(Tensor::of(&[3u8, 250, 1], &[1, 3])), None).is_err());
}

/// Bytes of either sign in either matrix, with tails of every kind, the right one also with its columns apart.
#[test]
fn bytes_in_tiles() {
    let mut rng = Rng::new(12);
    for round in 0..120 {
        let (g, m, n, k) = (1 + rng.below(2), 1 + rng.below(9), 1 + rng.below(70), rng.below(40));
        let mut bytes = |count: usize| -> Vec<u8> { (0..count).map(|_| rng.below(256) as u8).collect() };
        let (a, b, za, zb) = (bytes(g * m * k), bytes(g * k * n), bytes(m), bytes(n));
        let (a_signed, b_signed) = (round & 1 == 0, round & 2 == 0);
        let tensor = |data: &[u8], dims: &[usize], signed: bool| match signed {
            true => Tensor::of(&data.iter().map(|x| *x as i8).collect::<Vec<_>>(), dims),
            false => Tensor::of(data, dims),
        };
        let wide = |x: u8, signed: bool| if signed { i32::from(x as i8) } else { i32::from(x) };
        let mut wanted = vec![];
        for place in 0..g * m * n {
            let (batch, i, j) = (place / (m * n), place / n % m, place % n);
            let left = |x: usize| wide(a[(batch * m + i) * k + x], a_signed) - wide(za[i], a_signed);
            let right = |x: usize| wide(b[(batch * k + x) * n + j], b_signed) - wide(zb[j], b_signed);
            wanted.push((0..k).map(|x| left(x) * right(x)).sum::<i32>());
        }
        let (at, mut bt) = (tensor(&a, &[g, m, k], a_signed), tensor(&b, &[g, k, n], b_signed));
        if round % 5 == 0 {
            bt = bt.scattered(&mut rng);
        }
        let (za, zb) = (tensor(&za, &[m], a_signed), tensor(&zb, &[n], b_signed));
        for isa in isas() {
            let mut out = [Tensor::zeros(DType::I32, &[g, m, n])];
            let reads = [Some(&at), Some(&bt), None, None, Some(&za), Some(&zb)];
            run(&prim(MatLayout::Plain, ActivationKind::Identity), &reads, &mut out, None, isa).unwrap();
            assert_eq!(out[0].to_vec::<i32>(), wanted, "{round} {isa:?} {g} {m} {n} {k}");
        }
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let p = prim(MatLayout::Plain, ActivationKind::Identity);
    let (a, b) = (Tensor::of(&[0f32; 6], &[2, 3]), Tensor::of(&[0f32; 6], &[2, 3]));
    let mut out = [Tensor::zeros(DType::F32, &[2, 3])];
    assert!(run(&p, &[Some(&a), Some(&b)], &mut out, None, Isa::Portable).is_err());
    let b = Tensor::of(&[0f64; 9], &[3, 3]);
    assert!(run(&p, &[Some(&a), Some(&b)], &mut out, None, Isa::Portable).is_err());
    assert!(run(&p, &[Some(&a)], &mut out, None, Isa::Portable).is_err());
}

#[test]
fn workspace_grows_with_every_extent() {
    let meta = |dims: &[usize]| Some(Meta { dtype: DType::F32, dims: plan::Axes::from_slice(dims).unwrap() });
    for layout in [MatLayout::Plain, MatLayout::Panels16] {
        let p = MatMul { activation: Activation::IDENTITY, b: layout };
        let bytes = |[g, m, n, k]: [usize; 4]| {
            workspace(&p, &[meta(&[g, m, k]), meta(&[g, k, n])], &[meta(&[g, m, n])]).unwrap()
        };
        let mut rng = Rng::new(4);
        for _ in 0..500 {
            let small = [rng.below(5), rng.below(200), rng.below(100), rng.below(700)];
            let mut large = small;
            large[rng.below(4)] += rng.below(300);
            assert!(bytes(small) <= bytes(large), "{small:?} {large:?}");
            assert!(bytes(large) < 200 << 10);
        }
    }
}

#[test]
fn what_is_merged_into_a_product_of_16_bits_sees_it_rounded() {
    let mut rng = Rng::new(31);
    let mut numbers = |count: usize| -> Vec<f16> { (0..count).map(|_| f16::from_f32(rng.range(-2.0, 2.0))).collect() };
    let (a, b, c) = (numbers(6), numbers(15), numbers(10));
    let (at, bt, ct) = (Tensor::of(&a, &[2, 3]), Tensor::of(&b, &[3, 5]), Tensor::of(&c, &[2, 5]));
    let result = |kind, residual: Option<&Tensor>| {
        let mut out = [Tensor::zeros(DType::F16, &[2, 5])];
        let reads = [Some(&at), Some(&bt), None, residual];
        run(&prim(MatLayout::Plain, kind), &reads, &mut out, None, Isa::Portable).unwrap();
        out[0].to_vec::<f16>()
    };
    let alone = result(ActivationKind::Identity, None);
    let sums: Vec<f16> = alone.iter().zip(&c).map(|(x, y)| f16::from_f32(x.to_f32() + y.to_f32())).collect();
    assert_eq!(result(ActivationKind::Identity, Some(&ct)), sums);
    let sigmoid = |x: &f16| f16::from_f64(1.0 / (1.0 + (-x.to_f64()).exp()));
    assert_eq!(result(ActivationKind::Sigmoid, Some(&ct)), sums.iter().map(sigmoid).collect::<Vec<_>>());
}

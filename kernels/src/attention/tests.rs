//! Attention against the definition, written down per element.

use super::*;
use crate::{
    Isa, Shape,
    real::rounded,
    testing::{Rng, Tensor, isas, run},
};
use plan::List;
use std::vec::Vec;

/// A tensor of random numbers, perhaps scattered, perhaps the same along some axes.
fn random(rng: &mut Rng, dims: &[usize], dtype: DType, same: bool) -> Tensor {
    let small: Vec<usize> = dims.iter().map(|d| if same && rng.below(2) == 1 { (*d).min(1) } else { *d }).collect();
    let count = small.iter().product();
    let mut number = || if rng.below(6) == 0 && same { f64::NEG_INFINITY } else { f64::from(rng.range(-2.0, 2.0)) };
    let data: Vec<f64> = (0..count).map(|_| number()).collect();
    let mut t = match dtype {
        DType::F32 => Tensor::of(&data.iter().map(|x| *x as f32).collect::<Vec<_>>(), &small),
        DType::Bool => Tensor::with_bits(dtype, &data.iter().map(|x| u8::from(*x > 0.0)).collect::<Vec<_>>(), &small),
        DType::BF16 => Tensor::of(&data.iter().map(|x| half::bf16::from_f64(*x)).collect::<Vec<_>>(), &small),
        _ => Tensor::of(&data, &small),
    };
    if rng.below(2) == 1 {
        t = t.scattered(rng);
    }
    let strides: Vec<isize> =
        small.iter().zip(dims).zip(t.shape.strides()).map(|((s, d), x)| if s == d { *x } else { 0 }).collect();
    t.shape = Shape::strided(dims, &strides).unwrap();
    t
}

fn numbers(t: &Tensor) -> Vec<f64> {
    match t.dtype {
        DType::F32 => t.to_vec::<f32>().into_iter().map(f64::from).collect(),
        DType::BF16 => t.to_vec::<half::bf16>().into_iter().map(f64::from).collect(),
        DType::Bool => t.to_vec::<u8>().into_iter().map(|x| if x != 0 { 0.0 } else { f64::NEG_INFINITY }).collect(),
        _ => t.to_vec::<f64>(),
    }
}

fn case(rng: &mut Rng, dtype: DType, isa: Isa, fuzz: f64) {
    let (b, hkv, group) = (1 + rng.below(2), 1 + rng.below(2), 1 + rng.below(2));
    let (hq, sq, skv) = (hkv * group, rng.below(20), rng.below(40));
    let (d, dv) = (1 + rng.below(20), 1 + rng.below(20));
    let q = random(rng, &[b, hq, sq, d], dtype, false);
    let k = random(rng, &[b, hkv, skv, d], dtype, false);
    let v = random(rng, &[b, hkv, skv, dv], dtype, false);
    let mask_type = [dtype, DType::Bool][rng.below(2)];
    let mask = (rng.below(2) == 1).then(|| random(rng, &[b, hq, sq, skv], mask_type, true));
    let lengths: Option<Vec<i64>> = (rng.below(3) == 0).then(|| (0..b).map(|_| rng.below(skv + 1) as i64).collect());
    let p = Attention {
        past: if rng.below(2) == 1 { List::of([rng.below(9) as i64]) } else { List::EMPTY },
        scale: [0.0, 0.7][rng.below(2)],
        causal: rng.below(2) == 1,
        window: [List::EMPTY, List::of([3, -1]), List::of([-1, 4]), List::of([2, 1])][rng.below(4)],
        softcap: [0.0, 1.5][rng.below(2)],
        softmax: [dtype, DType::F64][rng.below(2)],
        scores: rng.below(4) as u8,
    };
    let (qs, ks, vs) = (numbers(&q), numbers(&k), numbers(&v));
    let masks = mask.as_ref().map(numbers);
    let (mut wanted, mut wanted_scores) = (Vec::new(), Vec::new());
    for at in 0..b * hq * sq {
        let (batch, h, i) = (at / sq / hq, at / sq % hq, at % sq);
        let kv = batch * hkv + h / group;
        let scale = if p.scale == 0.0 { 1.0 / (d as f64).sqrt() } else { f64::from(p.scale) };
        let round = |x: f64| rounded(dtype, x);
        let root = round(scale.sqrt());
        let product = |j: usize, x: usize| round(qs[at * d + x] * root) * round(ks[(kv * skv + j) * d + x] * root);
        let raw: Vec<f64> = (0..skv).map(|j| round((0..d).map(|x| product(j, x)).sum())).collect();
        let cap = f64::from(p.softcap);
        let capped: Vec<f64> =
            raw.iter().map(|x| if cap > 0.0 { round(cap * round(round(x / cap).tanh())) } else { *x }).collect();
        let length = lengths.as_ref().map(|l| l[batch]);
        let position = i as i64 + length.map_or(p.past.first().copied().unwrap_or(0), |l| l - sq as i64);
        let added: Vec<f64> = (0..skv)
            .map(|j| {
                let behind = position - j as i64;
                let masked = masks.as_ref().map_or(0.0, |m| m[at * skv + j]);
                let outside = p.causal && behind < 0
                    || p.window.first().is_some_and(|w| *w >= 0 && behind > i64::from(*w))
                    || p.window.get(1).is_some_and(|w| *w >= 0 && -behind > i64::from(*w))
                    || length.is_some_and(|l| j as i64 >= l);
                if outside { f64::NEG_INFINITY } else { masked }
            })
            .collect();
        let biased: Vec<f64> = capped.iter().zip(&added).map(|(x, y)| round(x + y)).collect();
        let max = biased.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let e = |x: f64| rounded(p.softmax, rounded(p.softmax, x - max).exp());
        let sum: f64 = biased.iter().map(|x| e(*x)).sum();
        let none = added.iter().all(|x| *x == f64::NEG_INFINITY);
        let probabilities: Vec<f64> = biased.iter().map(|x| if none { 0.0 } else { round(e(*x) / sum) }).collect();
        wanted.extend((0..dv).map(|x| (0..skv).map(|j| probabilities[j] * vs[(kv * skv + j) * dv + x]).sum::<f64>()));
        wanted_scores.extend([raw, capped, biased, probabilities][usize::from(p.scores)].clone());
    }
    let mut out = [Tensor::zeros(dtype, &[b, hq, sq, dv]), Tensor::zeros(dtype, &[b, hq, sq, skv])];
    let lengths = lengths.map(|l| Tensor::of(&l, &[b]));
    let reads = [Some(&q), Some(&k), Some(&v), mask.as_ref(), lengths.as_ref()];
    run(&p.into(), &reads, &mut out, None, isa).unwrap();
    for (found, wanted) in [(&out[0], &wanted), (&out[1], &wanted_scores)] {
        for (found, wanted) in numbers(found).into_iter().zip(wanted) {
            let close = found == *wanted || (found - wanted).abs() <= fuzz * (1.0 + wanted.abs());
            assert!(close, "{isa:?} {dtype}: {found} {wanted}\n{p:?}");
        }
    }
}

#[test]
fn agrees_with_the_definition() {
    let mut rng = Rng::new(10);
    for isa in isas() {
        for _ in 0..80 {
            case(&mut rng, DType::F32, isa, 2e-5);
        }
    }
    for _ in 0..40 {
        case(&mut rng, DType::F64, Isa::detect(), 1e-12);
        case(&mut rng, DType::BF16, Isa::detect(), 2e-2);
    }
}

/// Attention with nothing special to it.
fn plain(softmax: DType) -> Attention<i64> {
    Attention { past: List::EMPTY, scale: 0.0, causal: false, window: List::EMPTY, softcap: 0.0, softmax, scores: 0 }
}

#[test]
fn many_queries_go_in_blocks() {
    let mut rng = Rng::new(11);
    let (sq, skv, d) = (40, 9000, 4);
    let dims = [[1, 1, sq, d], [1, 1, skv, d], [1, 1, skv, d]];
    let [q, k, v] = dims.map(|dims| random(&mut rng, &dims, DType::F32, false));
    let p = plain(DType::F32);
    let mut out = [Tensor::zeros(DType::F32, &[1, 1, sq, d])];
    run(&p.into(), &[Some(&q), Some(&k), Some(&v)], &mut out, None, Isa::detect()).unwrap();
    let (qs, ks, vs) = (numbers(&q), numbers(&k), numbers(&v));
    for i in [0, 15, 16, 39] {
        let score = |j: usize| (0..d).map(|x| qs[i * d + x] * ks[j * d + x]).sum::<f64>() / 2.0;
        let e: Vec<f64> = (0..skv).map(|j| score(j).exp()).collect();
        let sum: f64 = e.iter().sum();
        for x in 0..d {
            let wanted = (0..skv).map(|j| e[j] / sum * vs[j * d + x]).sum::<f64>();
            let found = out[0].to_vec::<f32>()[i * d + x];
            assert!((f64::from(found) - wanted).abs() < 1e-4, "{i} {x}: {found} {wanted}");
        }
    }
}

#[test]
fn workspace_grows_with_every_extent() {
    let mut rng = Rng::new(12);
    let p = plain(DType::F32);
    for _ in 0..500 {
        let bytes = |[sq, skv, d, dv]: [usize; 4]| {
            let meta = |dims: &[usize]| Some(Meta { dtype: DType::F32, dims: plan::Axes::from_slice(dims).unwrap() });
            workspace(&p, &[meta(&[1, 1, sq, d]), meta(&[1, 1, skv, d]), meta(&[1, 1, skv, dv])], &[]).unwrap()
        };
        let small = [rng.below(900), rng.below(9000), rng.below(300), rng.below(300)];
        let mut large = small;
        large[rng.below(4)] += rng.below(500);
        assert!(bytes(small) <= bytes(large), "{small:?} {large:?}");
    }
}

/// Rounded as an operator of its own would store it.
fn bf16(x: f64) -> f64 {
    f64::from(half::bf16::from_f64(x))
}

#[test]
fn sixteen_bits_round_at_each_operator_of_the_definition() {
    let mut rng = Rng::new(13);
    let (sq, skv, d) = (3, 6, 8);
    let [q, k, v] = [sq, skv, skv].map(|rows| random(&mut rng, &[1, 1, rows, d], DType::BF16, false));
    let p = Attention { softcap: 2.0, ..plain(DType::BF16) };
    let mut out = [Tensor::zeros(DType::BF16, &[1, 1, sq, d])];
    run(&p.into(), &[Some(&q), Some(&k), Some(&v)], &mut out, None, Isa::detect()).unwrap();
    let (qs, ks, vs, found) = (numbers(&q), numbers(&k), numbers(&v), numbers(&out[0]));
    let root = bf16((1.0 / 8f64.sqrt()).sqrt());
    for i in 0..sq {
        let score = |j: usize| {
            let product = |x: usize| bf16(qs[i * d + x] * root) * bf16(ks[j * d + x] * root);
            let score = bf16((0..d).map(product).sum());
            bf16(bf16(bf16(score / 2.0).tanh()) * 2.0)
        };
        let scores: Vec<f64> = (0..skv).map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let e: Vec<f64> = scores.iter().map(|x| bf16(bf16(x - max).exp())).collect();
        let sum = e.iter().fold(0.0, |sum, x| bf16(sum + x));
        for x in 0..d {
            let wanted = bf16((0..skv).map(|j| bf16(e[j] / sum) * vs[j * d + x]).sum());
            assert_eq!(found[i * d + x], wanted, "{i} {x}");
        }
    }
}

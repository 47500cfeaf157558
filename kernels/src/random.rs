//! Pseudo-random numbers, the same on every run and machine.
//!
//! The generator is counter-based (Philox 4x32 with ten rounds, after Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
//! 2011): element `i` depends on the seed and on `i` alone.

use crate::{Call, Fault, number::Number, number::match_number};
use plan::prim::{Random, RandomKind};

/// Four random words for counter `i`.
fn philox(seed: u64, i: u64) -> [u32; 4] {
    let mut key = [seed as u32, (seed >> 32) as u32];
    let mut x = [i as u32, (i >> 32) as u32, 0, 0];
    for _ in 0..10 {
        let a = u64::from(x[0]) * 0xd251_1f53;
        let b = u64::from(x[2]) * 0xcd9e_8d57;
        x = [(b >> 32) as u32 ^ x[1] ^ key[0], b as u32, (a >> 32) as u32 ^ x[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    x
}

/// A number in `0..1` with 53 random bits.
fn unit(high: u32, low: u32) -> f64 {
    ((u64::from(high) << 21) | u64::from(low >> 11)) as f64 / (1u64 << 53) as f64
}

/// Element `i` of uniform numbers in `0..1`.
fn uniform(seed: u64, i: usize) -> f64 {
    let x = philox(seed, i as u64);
    unit(x[0], x[1])
}

/// Element `i` of normal numbers (Box and Muller).
fn normal(seed: u64, i: usize) -> f64 {
    let x = philox(seed, i as u64);
    // 1 - u is above 0, so the logarithm is finite.
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - unit(x[0], x[1])));
    radius * libm::cos(core::f64::consts::TAU * unit(x[2], x[3]))
}

/// Runs [`Random`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn random(p: &Random, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let mut dst = call.dst(0)?;
    match p.kind {
        RandomKind::Uniform { low, high } => {
            let (low, high) = (f64::from(low), f64::from(high));
            match_number!(dst.dtype(), T => {
                draw(dst.slice::<T>()?, &|i| low + (high - low) * uniform(p.seed, i));
                Ok(())
            })
        }
        RandomKind::Normal { mean, scale } => {
            let (mean, scale) = (f64::from(mean), f64::from(scale));
            match_number!(dst.dtype(), T => {
                draw(dst.slice::<T>()?, &|i| mean + scale * normal(p.seed, i));
                Ok(())
            })
        }
        RandomKind::Bernoulli => {
            let src = call.src(0)?;
            if src.len() != dst.len() {
                return Err(Fault::Shape("a probability for each element"));
            }
            match_number!(src.dtype(), P => {
                let odds = src.slice::<P>()?;
                match_number!(dst.dtype(), T or bool => {
                    draw(dst.bits::<T>()?, &|i| {
                        f64::from(u8::from(uniform(p.seed, i) < odds.get(i).map_or(0.0, |x| <P as Number>::to_f64(x.widen()))))
                    });
                    Ok(())
                })
            })
        }
        RandomKind::Multinomial => {
            let src = call.src(0)?;
            let ([rows, classes], [out_rows, samples]) = (src.dims(), dst.dims()) else {
                return Err(Fault::Shape("Multinomial works on matrices"));
            };
            if rows != out_rows || *classes == 0 {
                return Err(Fault::Shape("Multinomial gives a row for each row, of at least one class"));
            }
            let (classes, samples) = (*classes, (*samples).max(1));
            match_number!(src.dtype(), P => {
                let odds = src.slice::<P>()?;
                match_number!(dst.dtype(), T => {
                    draw(dst.slice::<T>()?, &|i| pick(&odds[i / samples * classes..][..classes], uniform(p.seed, i)));
                    Ok(())
                })
            })
        }
    }
}

fn draw<T: Number>(out: &mut [T], f: &dyn Fn(usize) -> f64) {
    for (i, o) in out.iter_mut().enumerate() {
        *o = T::narrow(T::from_f64(f(i)));
    }
}

/// The class at `u` of the distribution with these unnormalised log-probabilities.
fn pick<P: Number>(odds: &[P], u: f64) -> f64 {
    let value = |x: &P| P::to_f64(x.widen());
    let top = odds.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
    let weight = |x: &P| libm::exp(value(x) - top);
    let target = u * odds.iter().map(weight).sum::<f64>();
    let (mut sum, mut last) = (0.0, 0);
    for (class, x) in odds.iter().enumerate() {
        let w = weight(x);
        if w > 0.0 {
            last = class;
            sum += w;
            if target < sum {
                break;
            }
        }
    }
    last as f64
}

#[cfg(test)]
mod tests {
    use super::philox;
    use crate::{
        Isa,
        testing::{Tensor, run},
    };
    use plan::{
        DType,
        prim::{Random, RandomKind},
    };
    use std::vec::Vec;

    /// The known answers for ten rounds over a counter and a key of zeros.
    #[test]
    fn known_answer() {
        assert_eq!(philox(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }

    fn draw(kind: RandomKind, seed: u64, n: usize, reads: &[Option<&Tensor>], dims: &[usize]) -> Vec<f32> {
        assert_eq!(n, dims.iter().product());
        let mut w = [Tensor::zeros(DType::F32, dims)];
        run(&Random { kind, seed }.into(), reads, &mut w, None, Isa::Portable).unwrap();
        w[0].to_vec()
    }

    #[test]
    fn moments_are_right() {
        let n = 20_000;
        let mean = |x: &[f32]| x.iter().map(|x| f64::from(*x)).sum::<f64>() / x.len() as f64;
        let u = draw(RandomKind::Uniform { low: -1.0, high: 3.0 }, 7, n, &[], &[n]);
        assert!(u.iter().all(|x| (-1.0..3.0).contains(x)) && (mean(&u) - 1.0).abs() < 0.03);
        let g = draw(RandomKind::Normal { mean: 2.0, scale: 3.0 }, 7, n, &[], &[n]);
        let m = mean(&g);
        let variance = g.iter().map(|x| (f64::from(*x) - m).powi(2)).sum::<f64>() / n as f64;
        assert!((m - 2.0).abs() < 0.1 && (variance - 9.0).abs() < 0.4, "{m} {variance}");
        let odds = Tensor::of(&std::vec![0.25f32; n], &[n]);
        let b = draw(RandomKind::Bernoulli, 3, n, &[Some(&odds)], &[n]);
        assert!((mean(&b) - 0.25).abs() < 0.02 && b.iter().all(|x| *x == 0.0 || *x == 1.0));
        let logs = Tensor::of(&[0f32, f32::NEG_INFINITY, 3f32.ln()], &[1, 3]);
        let c = draw(RandomKind::Multinomial, 3, n, &[Some(&logs)], &[1, n]);
        assert!((mean(&c) - 1.5).abs() < 0.03 && !c.contains(&1.0));
    }

    #[test]
    fn the_same_on_every_run() {
        let kind = RandomKind::Uniform { low: 0.0, high: 1.0 };
        assert_eq!(draw(kind, 5, 9, &[], &[9]), draw(kind, 5, 9, &[], &[9]));
        assert_ne!(draw(kind, 5, 9, &[], &[9]), draw(kind, 6, 9, &[], &[9]));
    }
}

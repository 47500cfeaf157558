//! The activations that stand at the end of matrix products and convolutions, and inside recurrent cells.

use crate::{
    Isa,
    simd::{Portable, Simd, isa_fn, lanes1},
    vecmath,
};
use plan::prim::{Activation, ActivationKind};

/// The activation of a vector. NaN stays NaN.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub unsafe fn vector<S: Simd>(act: &Activation, v: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        let (zero, one) = (S::splat(0.0), S::splat(1.0));
        let (alpha, beta) = (S::splat(act.alpha), S::splat(act.beta));
        // `min` and `max` give their second argument where either is NaN, so the data comes second.
        let unit = |v| S::max(zero, S::min(one, v));
        match act.kind {
            ActivationKind::Identity => v,
            ActivationKind::Relu => S::max(zero, v),
            ActivationKind::LeakyRelu => S::blend(S::lt(v, zero), S::mul(alpha, v), v),
            ActivationKind::Clip => S::min(beta, S::max(alpha, v)),
            ActivationKind::Sigmoid => vecmath::sigmoid::<S>(v),
            ActivationKind::Tanh => vecmath::tanh::<S>(v),
            ActivationKind::Silu => vecmath::silu::<S>(v),
            ActivationKind::HardSwish => S::mul(v, unit(S::add(S::mul(alpha, v), beta))),
            ActivationKind::HardSigmoid => unit(S::add(S::mul(alpha, v), beta)),
            ActivationKind::Gelu => vecmath::gelu::<S>(v),
            ActivationKind::GeluTanh => vecmath::gelu_tanh::<S>(v),
            ActivationKind::Elu => S::blend(S::lt(v, zero), S::mul(alpha, S::sub(vecmath::exp::<S>(v), one)), v),
            ActivationKind::ScaledTanh => S::mul(alpha, vecmath::tanh::<S>(S::mul(beta, v))),
            ActivationKind::Affine => S::add(S::mul(alpha, v), beta),
            ActivationKind::ThresholdedRelu => S::blend(S::lt(v, alpha), zero, v),
            ActivationKind::Softsign => S::div(v, S::add(one, S::abs(v))),
            ActivationKind::Softplus => vecmath::softplus::<S>(v),
        }
    }
}

/// Applies the activation to `n` elements; `o` may be `a`.
///
/// # Safety
/// `n` elements can be read and written there, and the processor has `S`.
#[inline(always)]
unsafe fn apply_raw<S: Simd>(act: &Activation, a: *const f32, o: *mut f32, n: usize) {
    macro_rules! loops {
        ($($kind:ident),*) => {
            match act.kind {
                // The kind is a constant in each arm, so that its loop has no branch.
                // SAFETY: passed on to the caller.
                $(ActivationKind::$kind => unsafe {
                    let act = Activation { kind: ActivationKind::$kind, ..*act };
                    lanes1::<S>(n, a, o, |v| vector::<S>(&act, v))
                }),*
            }
        };
    }
    loops!(
        Identity,
        Relu,
        LeakyRelu,
        Clip,
        Sigmoid,
        Tanh,
        Silu,
        HardSwish,
        HardSigmoid,
        Gelu,
        GeluTanh,
        Elu,
        ScaledTanh,
        Affine,
        ThresholdedRelu,
        Softsign,
        Softplus
    )
}

isa_fn! {
    /// `o[i] = act(a[i])` for `n` elements; `o` may be `a`.
    ///
    /// # Safety
    /// `n` elements can be read and written there, and the processor has `isa`.
    pub unsafe fn apply_ptr(act: &Activation, a: *const f32, o: *mut f32, n: usize) = apply_raw;
}

/// Applies the activation to every element of a row.
pub fn apply(act: &Activation, isa: Isa, row: &mut [f32]) {
    if act.kind != ActivationKind::Identity {
        // SAFETY: the slice is valid for its length.
        unsafe { apply_ptr(isa, act, row.as_ptr(), row.as_mut_ptr(), row.len()) }
    }
}

/// The activation of one number: the same bits as the vectors give.
pub fn scalar(act: &Activation, x: f32) -> f32 {
    // SAFETY: portable vectors need no instruction set.
    unsafe { vector::<Portable>(act, Portable::splat(x)).0[0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(act: &Activation, x: f64) -> f64 {
        let (a, b) = (f64::from(act.alpha), f64::from(act.beta));
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match act.kind {
            ActivationKind::Identity => x,
            ActivationKind::Relu => x.max(0.0),
            ActivationKind::LeakyRelu => {
                if x < 0.0 {
                    a * x
                } else {
                    x
                }
            }
            ActivationKind::Clip => x.max(a).min(b),
            ActivationKind::Sigmoid => sigmoid(x),
            ActivationKind::Tanh => x.tanh(),
            ActivationKind::Silu => x * sigmoid(x),
            ActivationKind::HardSwish => x * (a * x + b).clamp(0.0, 1.0),
            ActivationKind::HardSigmoid => (a * x + b).clamp(0.0, 1.0),
            ActivationKind::Gelu => x / 2.0 * (1.0 + libm::erf(x / 2f64.sqrt())),
            ActivationKind::GeluTanh => {
                x / 2.0 * (1.0 + ((2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
            }
            ActivationKind::Elu => {
                if x < 0.0 {
                    a * x.exp_m1()
                } else {
                    x
                }
            }
            ActivationKind::ScaledTanh => a * (b * x).tanh(),
            ActivationKind::Affine => a * x + b,
            ActivationKind::ThresholdedRelu => {
                if x >= a {
                    x
                } else {
                    0.0
                }
            }
            ActivationKind::Softsign => x / (1.0 + x.abs()),
            ActivationKind::Softplus => x.exp().ln_1p(),
        }
    }

    #[test]
    fn activations_agree_with_their_formulas() {
        use ActivationKind::*;
        for kind in [
            Identity,
            Relu,
            LeakyRelu,
            Clip,
            Sigmoid,
            Tanh,
            Silu,
            HardSwish,
            HardSigmoid,
            Gelu,
            GeluTanh,
            Elu,
            ScaledTanh,
            Affine,
            ThresholdedRelu,
            Softsign,
            Softplus,
        ] {
            let act = Activation { kind, alpha: 0.25, beta: 0.5 };
            let mut row: [f32; 37] = core::array::from_fn(|i| (i as f32 - 18.0) * 0.37);
            let inputs = row;
            apply(&act, Isa::detect(), &mut row);
            for (x, got) in inputs.into_iter().zip(row) {
                let want = reference(&act, f64::from(x));
                assert!(
                    (f64::from(got) - want).abs() <= 4e-7 * (1.0 + f64::from(x.abs())),
                    "{kind:?}({x}): {got} not {want}"
                );
                assert_eq!(scalar(&act, x).to_bits(), got.to_bits(), "{kind:?}({x})");
            }
            assert!(scalar(&act, f32::NAN).is_nan(), "{kind:?}");
        }
    }
}

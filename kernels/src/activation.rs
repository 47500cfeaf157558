//! The activations that stand at the end of matrix products and convolutions, and inside recurrent cells.

use crate::{
    Isa,
    simd::{Portable, Simd, isa_fn, lanes1},
    vecmath,
};
use plan::prim::{Activation, ActivationKind};

/// The formula of one kind, of a vector `$v`, with the constants `$c`.
///
/// A macro, so that a loop over a row has the formula of its kind and nothing else in it.
macro_rules! formula {
    (Identity, $c:ident, $v:ident) => {
        $v
    };
    (Relu, $c:ident, $v:ident) => {
        S::max($c.zero, $v)
    };
    (LeakyRelu, $c:ident, $v:ident) => {
        S::blend(S::lt($v, $c.zero), S::mul($c.alpha, $v), $v)
    };
    (Clip, $c:ident, $v:ident) => {
        S::min($c.beta, S::max($c.alpha, $v))
    };
    (Sigmoid, $c:ident, $v:ident) => {
        vecmath::sigmoid::<S>($v)
    };
    (Tanh, $c:ident, $v:ident) => {
        vecmath::tanh::<S>($v)
    };
    (Silu, $c:ident, $v:ident) => {
        vecmath::silu::<S>($v)
    };
    (HardSwish, $c:ident, $v:ident) => {
        S::mul($v, $c.unit(S::add(S::mul($c.alpha, $v), $c.beta)))
    };
    (HardSigmoid, $c:ident, $v:ident) => {
        $c.unit(S::add(S::mul($c.alpha, $v), $c.beta))
    };
    (Gelu, $c:ident, $v:ident) => {
        vecmath::gelu::<S>($v)
    };
    (GeluTanh, $c:ident, $v:ident) => {
        vecmath::gelu_tanh::<S>($v)
    };
    (Elu, $c:ident, $v:ident) => {
        S::blend(S::lt($v, $c.zero), S::mul($c.alpha, S::sub(vecmath::exp::<S>($v), $c.one)), $v)
    };
    (ScaledTanh, $c:ident, $v:ident) => {
        S::mul($c.alpha, vecmath::tanh::<S>(S::mul($c.beta, $v)))
    };
    (Affine, $c:ident, $v:ident) => {
        S::add(S::mul($c.alpha, $v), $c.beta)
    };
    (ThresholdedRelu, $c:ident, $v:ident) => {
        S::blend(S::lt($v, $c.alpha), $c.zero, $v)
    };
    (Softsign, $c:ident, $v:ident) => {
        S::div($v, S::add($c.one, S::abs($v)))
    };
    (Softplus, $c:ident, $v:ident) => {
        vecmath::softplus::<S>($v)
    };
}

/// `$then!(each kind)` in a match on the kind of `$act`.
macro_rules! by_kind {
    ($act:ident, |$kind:ident| $then:ident!($($rest:tt)*)) => {
        by_kind!(@ $act, $then, ($($rest)*), [Identity, Relu, LeakyRelu, Clip, Sigmoid, Tanh, Silu, HardSwish, HardSigmoid, Gelu,
            GeluTanh, Elu, ScaledTanh, Affine, ThresholdedRelu, Softsign, Softplus])
    };
    (@ $act:ident, $then:ident, $rest:tt, [$($kind:ident),*]) => {
        match $act.kind { $(ActivationKind::$kind => $then!($kind, $rest)),* }
    };
}

/// Constants of an activation.
struct Constants<S: Simd> {
    zero: S::V,
    one: S::V,
    alpha: S::V,
    beta: S::V,
}

impl<S: Simd> Constants<S> {
    #[inline(always)]
    unsafe fn new(act: &Activation) -> Self {
        // SAFETY: passed on to the caller, who knows the processor to have `S`.
        unsafe {
            Constants { zero: S::splat(0.0), one: S::splat(1.0), alpha: S::splat(act.alpha), beta: S::splat(act.beta) }
        }
    }

    /// Between 0 and 1. `min` and `max` give their second argument where either is NaN, so the data comes second.
    #[inline(always)]
    unsafe fn unit(&self, v: S::V) -> S::V {
        // SAFETY: passed on to the caller, who knows the processor to have `S`.
        unsafe { S::max(self.zero, S::min(self.one, v)) }
    }
}

/// The activation of a vector. NaN stays NaN.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub unsafe fn vector<S: Simd>(act: &Activation, v: S::V) -> S::V {
    macro_rules! value {
        ($kind:ident, ($c:ident, $v:ident)) => {
            formula!($kind, $c, $v)
        };
    }
    // SAFETY: passed on to the caller.
    unsafe {
        let c = Constants::<S>::new(act);
        by_kind!(act, |kind| value!(c, v))
    }
}

/// Applies the activation to `n` elements; `o` may be `a`.
///
/// # Safety
/// `n` elements can be read and written there, and the processor has `S`.
#[inline(always)]
unsafe fn apply_raw<S: Simd>(act: &Activation, a: *const f32, o: *mut f32, n: usize) {
    macro_rules! row {
        ($kind:ident, ($c:ident, $n:ident, $a:ident, $o:ident)) => {
            lanes1!(S, $n, $a, $o, |v| formula!($kind, $c, v))
        };
    }
    // SAFETY: passed on to the caller.
    unsafe {
        let c = Constants::<S>::new(act);
        by_kind!(act, |kind| row!(c, n, a, o))
    }
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

//! Activations on rows.

use crate::Isa;
use plan::prim::{Activation, ActivationKind as Kind};

/// Applies an activation to each element.
pub(crate) fn apply(_isa: Isa, activation: &Activation, row: &mut [f32]) {
    for x in row {
        *x = scalar(activation, *x);
    }
}

/// An activation of one number.
pub(crate) fn scalar(act: &Activation, x: f32) -> f32 {
    let (alpha, beta) = (act.alpha, act.beta);
    let sigmoid = |x: f32| 1.0 / (1.0 + libm::expf(-x));
    let clip = |x: f32, lo: f32, hi: f32| {
        let x = if x < lo { lo } else { x };
        if x > hi { hi } else { x }
    };
    match act.kind {
        Kind::Identity => x,
        Kind::Relu => clip(x, 0.0, f32::INFINITY),
        Kind::LeakyRelu => {
            if x < 0.0 {
                alpha * x
            } else {
                x
            }
        }
        Kind::Clip => clip(x, alpha, beta),
        Kind::Sigmoid => sigmoid(x),
        Kind::Tanh => libm::tanhf(x),
        Kind::Silu => x * sigmoid(x),
        Kind::HardSwish => x * clip(alpha * x + beta, 0.0, 1.0),
        Kind::HardSigmoid => clip(alpha * x + beta, 0.0, 1.0),
        Kind::Gelu => 0.5 * x * (1.0 + libm::erff(x * core::f32::consts::FRAC_1_SQRT_2)),
        Kind::GeluTanh => 0.5 * x * (1.0 + libm::tanhf(0.797_884_6 * (x + 0.044_715 * x * x * x))),
        Kind::Elu => {
            if x < 0.0 {
                alpha * libm::expm1f(x)
            } else {
                x
            }
        }
        Kind::ScaledTanh => alpha * libm::tanhf(beta * x),
        Kind::Affine => alpha * x + beta,
        Kind::ThresholdedRelu => {
            if x >= alpha {
                x
            } else {
                0.0
            }
        }
        Kind::Softsign => x / (1.0 + libm::fabsf(x)),
        Kind::Softplus => {
            if x > 20.0 {
                x + libm::log1pf(libm::expf(-x))
            } else {
                libm::log1pf(libm::expf(x))
            }
        }
    }
}

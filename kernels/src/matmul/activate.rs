//! Activations of f64.

use plan::prim::{Activation, ActivationKind as Kind};

/// An activation of one number.
pub(crate) fn scalar(act: &Activation, x: f64) -> f64 {
    let (alpha, beta) = (f64::from(act.alpha), f64::from(act.beta));
    let sigmoid = |x: f64| 1.0 / (1.0 + libm::exp(-x));
    let clip = |x: f64, lo: f64, hi: f64| {
        let x = if x < lo { lo } else { x };
        if x > hi { hi } else { x }
    };
    let below = |limit: f64, then: f64, otherwise: f64| if x < limit { then } else { otherwise };
    match act.kind {
        Kind::Identity => x,
        Kind::Relu => clip(x, 0.0, f64::INFINITY),
        Kind::LeakyRelu => below(0.0, alpha * x, x),
        Kind::Clip => clip(x, alpha, beta),
        Kind::Sigmoid => sigmoid(x),
        Kind::Tanh => libm::tanh(x),
        Kind::Silu => x * sigmoid(x),
        Kind::HardSwish => x * clip(alpha * x + beta, 0.0, 1.0),
        Kind::HardSigmoid => clip(alpha * x + beta, 0.0, 1.0),
        Kind::Gelu => 0.5 * x * (1.0 + libm::erf(x * core::f64::consts::FRAC_1_SQRT_2)),
        Kind::GeluTanh => {
            // The root of 2 / π.
            let root = 0.797_884_560_802_865_4;
            0.5 * x * (1.0 + libm::tanh(root * (x + 0.044_715 * x * x * x)))
        }
        Kind::Elu => below(0.0, alpha * libm::expm1(x), x),
        Kind::ScaledTanh => alpha * libm::tanh(beta * x),
        Kind::Affine => alpha * x + beta,
        Kind::ThresholdedRelu => below(alpha, 0.0, x),
        Kind::Softsign => x / (1.0 + libm::fabs(x)),
        Kind::Softplus => clip(x, 0.0, f64::INFINITY) + libm::log1p(libm::exp(-libm::fabs(x))),
    }
}

//! Reductions and what normalises by them.

use super::MapExtents;
use crate::{Axes, Filler};

params! {
/// What a [`Reduce`] computes. Integers accumulate in their own type and wrap; f16 and bf16 in f32.
#[derive(Eq)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Mean,
    Prod,
    Min,
    Max,
    L1,
    L2,
    LogSum,
    LogSumExp,
    SumSquare,
}

/// Reduces `r0` over axes; `w0` has the same rank, with 1 at the reduced axes.
pub struct Reduce {
    /// What to compute.
    pub op: ReduceOp,
    /// The axes, ascending.
    pub axes: Axes<u8>,
}

/// The index (i64) of the largest or smallest of `r0` along an axis; `w0` has 1 there.
pub struct ArgReduce {
    /// Largest, else smallest.
    pub max: bool,
    /// The axis.
    pub axis: u8,
    /// Of equals the last, else the first.
    pub last: bool,
}

/// Running sums or products of `r0` along an axis into `w0`.
pub struct Cumulative {
    /// Products, else sums.
    pub product: bool,
    /// The axis.
    pub axis: u8,
    /// Leave the element itself out.
    pub exclusive: bool,
    /// From the end.
    pub reverse: bool,
}

/// What a [`Softmax`] computes.
#[derive(Eq)]
#[allow(missing_docs)]
pub enum SoftmaxKind {
    Softmax,
    LogSoftmax,
    /// 1 at the first largest, else 0.
    Hardmax,
}

/// Softmax of `r0` along one axis into `w0`.
pub struct Softmax {
    /// What to compute.
    pub kind: SoftmaxKind,
    /// The axis.
    pub axis: u8,
}

/// What a [`Norm`] divides by.
#[derive(Eq)]
#[allow(missing_docs)]
pub enum NormKind {
    /// Mean and variance.
    Layer,
    /// Root mean square.
    Rms,
}

/// Normalises `r0` over the axes from `axis` on: `w0 = normalised * r1? + r2?`, both broadcast by their views to the dims
/// of `w0`. `w1?`: the mean, `w2?`: the inverse deviation (f32), with 1 at the normalised axes. Statistics in f32 (f64 for f64).
pub struct Norm {
    /// What to divide by.
    pub kind: NormKind,
    /// The first axis normalised over.
    pub axis: u8,
    /// Added to the variance.
    pub epsilon: f32,
}

/// The determinant of the last two axes of `r0`.
pub struct Det {}
}

fixed!(Reduce, ArgReduce, Cumulative, Softmax, Norm, Det);

//! Moving elements: copies, joins, padding, indices, and what is filled in.

use super::MapExtents;
use crate::{Axes, Filler, List};

params! {
/// Copies `r0` to `w0`: same dims, any strides, and the same type or one whose elements have as many bits.
pub struct Copy {}

/// Lays `r0..` one after another along an axis of `w0`.
pub struct Concat {
    /// The axis.
    pub axis: u8,
}

/// How [`Pad`] fills.
#[derive(Eq)]
pub enum PadMode {
    /// With the value `r1`, or zero.
    Constant,
    /// Mirrored at the border, which is not repeated.
    Reflect,
    /// With the border.
    Edge,
    /// From the other side.
    Wrap,
}

/// Pads `r0` into `w0`; `r1?` is the scalar to fill with. Negative amounts crop.
pub struct Pad<E: Filler> {
    /// Elements added before each axis. Those after it follow from the dims of `w0`.
    pub before: Axes<E>,
    /// How to fill.
    pub mode: PadMode,
}

/// Takes slices of `r0` along an axis by the indices `r1` (i32 or i64; negative ones count from the end).
/// `w0` has the dims of `r0` with the axis replaced by the dims of `r1`.
pub struct Gather {
    /// The axis of `r0`.
    pub axis: u8,
}

/// `w0[i] = r0[i with i[axis] replaced by r1[i]]`; `r1` and `w0` have equal dims.
pub struct GatherElements {
    /// The axis.
    pub axis: u8,
}

/// Takes slices of `r0` by index tuples: the last axis of `r1` holds them.
pub struct GatherNd {
    /// Leading axes that `r0` and `r1` share.
    pub batch_dims: u8,
}

/// How a scattered update meets what is there.
#[derive(Eq)]
#[allow(missing_docs)]
pub enum Reduction {
    None,
    Add,
    Mul,
    Min,
    Max,
}

/// `w0 = r0`, then `w0[i with i[axis] replaced by r1[i]] ∘= r2[i]`.
pub struct ScatterElements {
    /// The axis.
    pub axis: u8,
    /// How updates combine.
    pub reduction: Reduction,
}

/// `w0 = r0`, then slices named by the index tuples in `r1` are combined with `r2`.
pub struct ScatterNd {
    /// How updates combine.
    pub reduction: Reduction,
}

/// `w0[i] = start + i * step`, in the type of `w0`. Where the extents are not known before the run, `r0?` is the start and
/// `r1?` the step (scalars of the type of `w0`), which win.
pub struct Iota<E: Filler> {
    /// Start and step.
    pub range: List<E, 2>,
}

/// Writes extents as the elements of `w0` (integers or bool).
pub struct Literal<E: Filler> {
    /// The elements, in order.
    pub elements: List<E, 16>,
}

/// Which numbers [`Random`] draws.
pub enum RandomKind {
    /// Normal.
    Normal {
        /// Mean.
        mean: f32,
        /// Standard deviation.
        scale: f32,
    },
    /// Uniform in `low..high`.
    Uniform {
        /// Lower end.
        low: f32,
        /// Upper end.
        high: f32,
    },
    /// 1 with the probability `r0[i]`, else 0.
    Bernoulli,
    /// Class indices by the unnormalised log-probabilities `r0 [batch, classes]`; `w0` is `[batch, samples]`.
    Multinomial,
}

/// Pseudo-random numbers from a counter-based generator: `r0?` as the kind says; the same on every run.
pub struct Random {
    /// What to draw.
    pub kind: RandomKind,
    /// The seed.
    pub seed: u64,
}
}

fixed!(Copy, Concat, Gather, GatherElements, GatherNd, ScatterElements, ScatterNd, Random);

over_extents! {
    Pad [before] { mode },
    Iota [range] {},
    Literal [elements] {},
}

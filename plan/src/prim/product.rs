//! Products and convolutions, their activations, and how their weights are stored.

use super::MapExtents;
use crate::{Filler, List};

params! {
/// The elementwise function at the end of a [`MatMul`] or [`Conv`], and inside a [`Rnn`](super::Rnn).
#[derive(Eq)]
#[allow(missing_docs)]
pub enum ActivationKind {
    Identity,
    Relu,
    /// `x < 0 ? alpha * x : x`
    LeakyRelu,
    /// `min(max(x, alpha), beta)`
    Clip,
    Sigmoid,
    Tanh,
    Silu,
    /// `x * min(max(alpha * x + beta, 0), 1)`
    HardSwish,
    /// `min(max(alpha * x + beta, 0), 1)`
    HardSigmoid,
    Gelu,
    GeluTanh,
    /// `x < 0 ? alpha * (exp(x) - 1) : x`
    Elu,
    /// `alpha * tanh(beta * x)`
    ScaledTanh,
    /// `alpha * x + beta`
    Affine,
    /// `x >= alpha ? x : 0`
    ThresholdedRelu,
    Softsign,
    Softplus,
}

/// An activation with its parameters.
pub struct Activation {
    /// The function.
    pub kind: ActivationKind,
    /// First parameter.
    pub alpha: f32,
    /// Second parameter.
    pub beta: f32,
}

/// `w0[..., m, n] = act(r0[..., m, k] · r1[..., k, n] + r2? + r3?)`. Batch axes are broadcast by the views (stride 0).
/// `r2`: a bias broadcast by its view to the dims of `w0`. `r3`: a residual with the dims of `w0`, which may be `w0` itself.
/// Types: floats all alike (f32 accumulation for f16 and bf16), or integers of 8 bits with an i32 result, then
/// `r4?` and `r5?` are the zero points of `r0` (scalar or per row) and `r1` (scalar or per column).
pub struct MatMul {
    /// The activation.
    pub activation: Activation,
    /// How `r1` is stored.
    pub b: MatLayout,
}

/// How a matrix operand is stored.
#[derive(Eq)]
pub enum MatLayout {
    /// By its dims and strides.
    Plain,
    /// f32 panels of 16 columns: dims `[ceil(n / 16), k, 16]`, zero where there is no column.
    Panels16,
}

/// How the weights of a [`Conv`] are stored.
#[derive(Eq)]
pub enum ConvLayout {
    /// `[m, c / group, k...]`.
    Plain,
    /// f32 panels of 16 output channels for each group: dims `[group, ceil(m / group / 16), prod(k) * c / group, 16]`, rows
    /// in the order tap, then channel.
    Panels16,
    /// Depthwise (`c / group = 1`, `m = group`): dims `[ceil(m / 16), prod(k), 16]`. Only for channels-last data.
    Depthwise16,
    /// f32 windows of 3×3, stride 1, one group, channels-first data: transformed for tiles of 4×4 results (Winograd's F(4×4, 3×3)),
    /// in panels of 16 output channels: dims `[36, ceil(m / 16), c, 16]`.
    Winograd4,
}

/// The order of the axes of image-like data.
#[derive(Eq)]
pub enum DataLayout {
    /// `[n, c, spatial...]`.
    ChannelsFirst,
    /// `[n, spatial..., c]`.
    ChannelsLast,
}

/// A convolution. `r0`: data; `r1`: weights; `r2?`: bias `[m]`; `r3?`: a residual with the dims of `w0`, which may be `w0` itself.
/// `w0 = act(conv(r0, r1) + r2 + r3)`. Integers of 8 bits give i32, then `r4?` and `r5?` are the zero points of data and weights.
pub struct Conv<E: Filler> {
    /// Kernel extent of each spatial axis (needed where the weights are packed).
    pub kernel: List<u32, 3>,
    /// Step of each spatial axis.
    pub strides: List<u32, 3>,
    /// Distance between taps of each spatial axis.
    pub dilations: List<u32, 3>,
    /// Zeros before each spatial axis. Those after it follow from the dims of `w0`.
    pub before: List<E, 3>,
    /// Groups.
    pub group: u32,
    /// The activation.
    pub activation: Activation,
    /// How `r1` is stored.
    pub weights: ConvLayout,
    /// How `r0`, `r3` and `w0` are stored.
    pub data: DataLayout,
}

/// A transposed convolution. `r0`: data `[n, c, spatial...]`; `r1`: weights `[c, m / group, k...]`; `r2?`: bias.
pub struct ConvTranspose<E: Filler> {
    /// Step of each spatial axis.
    pub strides: List<u32, 3>,
    /// Distance between taps of each spatial axis.
    pub dilations: List<u32, 3>,
    /// Elements cut before each spatial axis. Those after it follow from the dims of `w0`.
    pub before: List<E, 3>,
    /// Groups.
    pub group: u32,
}

/// What [`Prepack`] makes.
#[derive(Eq)]
pub enum PackKind {
    /// `r0 [k, n]` (any strides) into [`MatLayout::Panels16`].
    MatPanels16,
    /// `r0 [m, c / group, k...]` into [`ConvLayout::Panels16`].
    ConvPanels16 {
        /// Groups.
        group: u32,
    },
    /// `r0 [m, 1, k...]` into [`ConvLayout::Depthwise16`].
    ConvDepthwise16,
    /// `r0 [m, c, 3, 3]` into [`ConvLayout::Winograd4`].
    ConvWinograd4,
    /// `r0 [d, rows, k]` into [`RnnLayout::Panels16`](super::RnnLayout::Panels16).
    RnnPanels16,
}

/// Stores weights `r0` as a kernel reads them, into `w0`. Run while planning.
pub struct Prepack {
    /// The target.
    pub kind: PackKind,
}
}

impl Activation {
    /// No activation.
    pub const IDENTITY: Activation = Activation { kind: ActivationKind::Identity, alpha: 0.0, beta: 0.0 };
}

impl Default for Activation {
    fn default() -> Self {
        Activation::IDENTITY
    }
}

impl Filler for Activation {
    const FILL: Self = Activation::IDENTITY;
}

fixed!(MatMul, Prepack);

over_extents! {
    Conv [before] { kernel, strides, dilations, group, activation, weights, data },
    ConvTranspose [before] { strides, dilations, group },
}

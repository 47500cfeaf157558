//! The parameters of the primitives.
//!
//! Extents that may depend on a symbol have the type `E`: an index into the plan's expressions while
//! planning, an `i64` when a kernel is called. Dims of operands are not parameters: the views carry them.
//!
//! Operand lists below name reads as `r0, r1, …` and writes as `w0, w1, …`; `?` marks one that may be absent.

use crate::{Axes, DType, Filler, List};

/// Maps the extents of a parameter struct, for evaluation or for moving between expression tables.
pub trait MapExtents<E> {
    /// The same struct over other extents.
    type Over<F: Filler>;
    /// The struct with `f` of each extent.
    fn map_extents<F: Filler>(&self, f: &mut dyn FnMut(E) -> F) -> Self::Over<F>;
}

macro_rules! params {
    ($($(#[$m:meta])* pub $kind:ident $name:ident $(<$e:ident: $bound:ident>)? { $($body:tt)* })*) => { $(
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[cfg_attr(feature = "text", derive(serde::Serialize, serde::Deserialize))]
        pub $kind $name $(<$e: $bound>)? { $($body)* }
    )* };
}

/// Params without extents map to themselves.
macro_rules! fixed {
    ($($name:ident),*) => { $(
        impl<E> MapExtents<E> for $name {
            type Over<F: Filler> = $name;
            fn map_extents<F: Filler>(&self, _: &mut dyn FnMut(E) -> F) -> $name { *self }
        }
    )* };
}

/// Params with extents: the fields in brackets are lists of extents.
macro_rules! over_extents {
    ($($name:ident [$($ext:ident),*] { $($same:ident),* }),* $(,)?) => { $(
        impl<E: Filler> MapExtents<E> for $name<E> {
            type Over<F: Filler> = $name<F>;
            fn map_extents<F: Filler>(&self, f: &mut dyn FnMut(E) -> F) -> $name<F> {
                $name { $($ext: self.$ext.map(&mut *f),)* $($same: self.$same,)* }
            }
        }
    )* };
}

params! {
/// One operation of a [`Map`] on single elements.
///
/// Integer arithmetic wraps. Comparisons and `Is…` give booleans. Types: `num` any real number, `int`, `float`, `bool`.
#[derive(Eq)]
pub enum MapOp {
    /// The constant whose bits are `bits`; no arguments.
    Const,
    /// The first argument converted to `out`. Float to integer truncates and saturates, NaN gives 0; integers wrap; to a
    /// float rounds to nearest even (f8: saturating); anything but 0 is `true`.
    Cast,
    /// As `Cast`, but float to integer and integer to integer rounds to nearest even and saturates; float to f8 and f4 saturates.
    CastSaturate,
    /// As `Cast`, but what is too large for an f8 type becomes infinity or NaN.
    CastNoSaturate,
    /// num
    Neg,
    /// num
    Abs,
    /// num: -1, 0 or 1; NaN stays NaN
    Sign,
    /// float
    Sqrt,
    /// float: `1 / x`
    Reciprocal,
    /// float
    Exp,
    /// float
    Log,
    /// float
    Sin,
    /// float
    Cos,
    /// float
    Tan,
    /// float
    Asin,
    /// float
    Acos,
    /// float
    Atan,
    /// float
    Sinh,
    /// float
    Cosh,
    /// float
    Tanh,
    /// float
    Asinh,
    /// float
    Acosh,
    /// float
    Atanh,
    /// float
    Erf,
    /// float: `1 / (1 + exp(-x))`
    Sigmoid,
    /// float: `ln(1 + exp(x))`
    Softplus,
    /// float
    Floor,
    /// float
    Ceil,
    /// float: to the nearest, halves to even
    Round,
    /// float: towards zero
    Trunc,
    /// num: `max(x, 0)`; NaN stays NaN
    Relu,
    /// float: `x * sigmoid(x)`
    Silu,
    /// float: `x * min(max(x / 6 + 1/2, 0), 1)`
    HardSwish,
    /// float: `x / 2 * (1 + erf(x / sqrt 2))`
    Gelu,
    /// float: the tanh approximation of `Gelu`
    GeluTanh,
    /// bool
    Not,
    /// int
    BitNot,
    /// float
    IsNan,
    /// float: positive infinity
    IsPosInf,
    /// float: negative infinity
    IsNegInf,
    /// num; two arguments from here on
    Add,
    /// num
    Sub,
    /// num
    Mul,
    /// num: integers truncate towards zero, a zero divisor is a fault
    Div,
    /// num: the remainder with the sign of the divisor; an integer zero divisor is a fault
    Mod,
    /// num: the remainder with the sign of the dividend; an integer zero divisor is a fault
    Fmod,
    /// num: `a` to the power of `b`, computed in the type of `a`; integers wrap, a negative power truncates
    Pow,
    /// num: NaN wins
    Min,
    /// num: NaN wins
    Max,
    /// bool
    And,
    /// bool
    Or,
    /// bool
    Xor,
    /// int
    BitAnd,
    /// int
    BitOr,
    /// int
    BitXor,
    /// int: bits shifted out are lost, a shift of all bits or more gives 0
    Shl,
    /// int: the sign fills the bits that become free; a shift of all bits or more leaves only it
    Shr,
    /// num or bool
    Eq,
    /// num
    Lt,
    /// num
    Le,
    /// float: `a` where `a >= 0`, else `a * b`
    Prelu,
    /// any: `b` where `a` (bool) else `c`; three arguments from here on
    Select,
    /// num: `min(max(a, b), c)`; NaN stays NaN
    Clip,
}

/// One instruction of a [`Map`].
#[derive(Eq)]
pub struct MapInstr {
    /// What to do.
    pub op: MapOp,
    /// The type of the arguments (of the second for `Select`).
    pub dtype: DType,
    /// The type of the result.
    pub out: DType,
    /// Registers: `0..reads` are the operands, `reads + i` the result of instruction `i`. Unused ones are 0.
    pub args: [u8; 3],
    /// For `Const`: the bits of the value, in the low bytes.
    pub bits: u64,
}

/// An elementwise program. Reads `r0..`, each broadcast by its view to the dims of `w0`; writes `w0`: the last instruction's
/// result (the operand itself where there is no instruction).
pub struct Map {
    /// The program.
    pub code: List<MapInstr, 32>,
}

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

/// The elementwise function at the end of a [`MatMul`] or [`Conv`], and inside a [`Rnn`].
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

/// What a [`Pool`] computes.
#[derive(Eq)]
#[allow(missing_docs)]
pub enum PoolKind {
    Max,
    Average,
    /// `(Σ |x|^p)^(1/p)`
    Lp { p: u32 },
}

/// Pooling over spatial windows of `r0` `[n, c, spatial...]` into `w0`; for `Max`, `w1?` (i64) gets flat indices into `r0`.
pub struct Pool<E: Filler> {
    /// What to compute.
    pub kind: PoolKind,
    /// Window extents.
    pub kernel: List<u32, 3>,
    /// Step of each spatial axis.
    pub strides: List<u32, 3>,
    /// Distance between taps of each spatial axis.
    pub dilations: List<u32, 3>,
    /// Padding before each spatial axis.
    pub before: List<E, 3>,
    /// Padding after each spatial axis (beyond it lies only what `ceil_mode` added).
    pub after: List<E, 3>,
    /// Average: padding counts as elements.
    pub count_include_pad: bool,
    /// Max: indices with the last two spatial axes swapped (`storage_order` 1).
    pub column_major: bool,
    /// How `r0` and `w0` are stored.
    pub data: DataLayout,
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

/// How [`Resize`] interpolates.
#[derive(Eq)]
#[allow(missing_docs)]
pub enum ResizeMode {
    Nearest,
    Linear,
    Cubic,
}

/// Which input coordinate an output coordinate stands for.
#[derive(Eq)]
#[allow(missing_docs)]
pub enum CoordinateMode {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    CropAndResize,
}

/// Which neighbour `Nearest` takes.
#[derive(Eq)]
#[allow(missing_docs)]
pub enum NearestMode {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
}

/// Resamples `r0` into `w0`, axis by axis. `r1?`: scales (f32, one per axis; else the ratio of dims). `r2?`: for `CropAndResize`
/// starts and ends per axis (f32).
pub struct Resize {
    /// Interpolation.
    pub mode: ResizeMode,
    /// Coordinates.
    pub coordinates: CoordinateMode,
    /// Neighbour.
    pub nearest: NearestMode,
    /// Cubic coefficient.
    pub cubic_coeff_a: f32,
    /// Leave taps outside out and renormalise.
    pub exclude_outside: bool,
    /// Value outside for `CropAndResize`.
    pub extrapolation: f32,
    /// Widen the filter when shrinking.
    pub antialias: bool,
}

/// How [`GridSample`] treats coordinates outside.
#[derive(Eq)]
#[allow(missing_docs)]
pub enum GridPadding {
    Zeros,
    Border,
    Reflection,
}

/// Samples `r0` `[n, c, spatial...]` at `r1` `[n, out..., d]` (x first, in -1..=1) into `w0` `[n, c, out...]`.
pub struct GridSample {
    /// Interpolation.
    pub mode: ResizeMode,
    /// Outside.
    pub padding: GridPadding,
    /// -1 and 1 are the centres of the corner pixels, else their edges.
    pub align_corners: bool,
}

/// Region pooling: `r0` `[n, c, h, w]`, `r1` regions `[r, 4]`, `r2` image of each region (i64), into `w0` `[r, c, oh, ow]`.
pub struct RoiAlign {
    /// Average, else maximum.
    pub average: bool,
    /// Samples per bin and axis; 0: chosen by the region's size.
    pub sampling_ratio: u32,
    /// Image coordinates to data coordinates.
    pub spatial_scale: f32,
    /// Shift by half a pixel.
    pub half_pixel: bool,
}

/// The cell of an [`Rnn`].
#[derive(Eq)]
#[allow(missing_docs)]
pub enum RnnKind {
    Rnn,
    Gru { linear_before_reset: bool },
    Lstm { input_forget: bool },
}

/// Which way an [`Rnn`] goes through time.
#[derive(Eq)]
#[allow(missing_docs)]
pub enum RnnDirection {
    Forward,
    Reverse,
    Bidirectional,
}

/// How the weights of an [`Rnn`] are stored.
#[derive(Eq)]
pub enum RnnLayout {
    /// As ONNX: `W [d, gates * hidden, input]`, `R [d, gates * hidden, hidden]`.
    Plain,
    /// f32 panels of 16 gate rows: `W [d, ceil(gates * hidden / 16), input, 16]`, `R` likewise over `hidden`.
    Panels16,
}

/// A recurrent layer. `r0`: `X [seq, batch, input]`; `r1`: `W`; `r2`: `R`; `r3?`: `B [d, 2 * gates * hidden]`;
/// `r4?`: lengths (i32 `[batch]`); `r5?`: `initial_h [d, batch, hidden]`; `r6?`: `initial_c`; `r7?`: `P [d, 3 * hidden]`.
/// `w0?`: `Y [seq, d, batch, hidden]`; `w1?`: `Y_h [d, batch, hidden]`; `w2?`: `Y_c`. Gate order as in ONNX (iofc, zrh).
pub struct Rnn {
    /// The cell.
    pub kind: RnnKind,
    /// The way through time.
    pub direction: RnnDirection,
    /// Units.
    pub hidden: u32,
    /// Per direction: f, g, h as ONNX names them.
    pub activations: List<Activation, 6>,
    /// Clip of gate inputs; 0: none.
    pub clip: f32,
    /// How `W` and `R` are stored.
    pub weights: RnnLayout,
}

/// The largest or smallest `k` (the extent of `w0`) of `r0` along an axis: `w0` values, `w1` indices (i64). Of equals the
/// first index wins.
pub struct TopK {
    /// The axis.
    pub axis: u8,
    /// Largest, else smallest.
    pub largest: bool,
    /// In order of value (else in any; ours is in order all the same).
    pub sorted: bool,
}

/// The distinct elements (or slices along an axis) of `r0`. Writes `w0`: values, `w1?`: first indices, `w2?`: inverse indices,
/// `w3?`: counts (i64). Defines one symbol: how many there are. The writes have room for the extent of the axis; of `w0` (along
/// the axis), `w1` and `w3` the first so many are written.
pub struct Unique {
    /// The axis, or none: the flattened elements.
    pub axis: Option<u8>,
    /// In ascending order, else by first appearance.
    pub sorted: bool,
}

/// The indices of elements that are not zero: `w0` (i64) `[rank, room]`, of which the first columns are written. Defines their
/// count.
pub struct NonZero {}

/// Slices of `r0` along an axis where `r1` (bool) is true. `w0` has room along the axis; the first slices are written. Defines
/// their count.
pub struct Compress {
    /// The axis, or none: the flattened elements.
    pub axis: Option<u8>,
}

/// Boxes kept by non-maximum suppression. `r0`: boxes `[batch, n, 4]`; `r1`: scores `[batch, class, n]`; `r2?`: limit per class
/// (i64 scalar); `r3?`: IoU threshold; `r4?`: score threshold. `w0` (i64) `[room, 3]`, of which the first
/// rows are written. Defines their count.
pub struct NonMaxSuppression {
    /// Boxes are centre and size, else two corners.
    pub center_point_box: bool,
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

/// Scaled dot-product attention. `r0`: Q `[b, hq, sq, d]`; `r1`: K `[b, hkv, skv, d]`; `r2`: V `[b, hkv, skv, dv]`; `r3?`: mask
/// (bool or float), broadcast by its view to `[b, hq, sq, skv]`; `r4?`: valid key length of each batch (i64 `[b]`).
/// `w0`: `[b, hq, sq, dv]`; `w1?` `[b, hq, sq, skv]`: the scores as `scores` says. A query without a key gives zeros.
///
/// Query `i` stands at key `i + past`; where there is `r4`, at key `i + r4[b] - sq`.
pub struct Attention<E: Filler> {
    /// Keys before the first query (none: 0).
    pub past: List<E, 1>,
    /// Multiplies the scores; 0: one over the root of `d`.
    pub scale: f32,
    /// Keys up to the query's own position only.
    pub causal: bool,
    /// How many keys before and after the query's own position count; empty, or -1: all.
    pub window: List<i32, 2>,
    /// `softcap * tanh(score / softcap)`, before the mask is added; 0: none.
    pub softcap: f32,
    /// What the probabilities are computed in.
    pub softmax: DType,
    /// What `w1` holds: 0 scaled scores, 1 after the soft cap, 2 with the mask added, 3 the probabilities.
    pub scores: u8,
}

/// The discrete Fourier transform of `r0 [..., n, 1 or 2]` along an axis into `w0 [..., m, 2]` (or `[..., m, 1]`: real
/// output of an inverse one-sided transform). Length: the extent of the axis of `w0` (of the full signal if one-sided).
pub struct Dft<E: Filler> {
    /// The transform's length.
    pub length: List<E, 1>,
    /// The axis.
    pub axis: u8,
    /// Inverse, divided by the length.
    pub inverse: bool,
    /// Only the first half of the spectrum.
    pub onesided: bool,
}

/// The determinant of the last two axes of `r0`.
pub struct Det {}

/// Sums columns back into an image: `r0 [n, c * prod(block), l]` into `w0 [n, c, image...]`.
pub struct Col2Im {
    /// Block extents.
    pub block: List<u32, 3>,
    /// Padding before each spatial axis.
    pub before: List<u32, 3>,
    /// Step of each spatial axis.
    pub strides: List<u32, 3>,
    /// Distance between taps.
    pub dilations: List<u32, 3>,
    /// Padding after each spatial axis.
    pub after: List<u32, 3>,
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
    /// `r0 [d, rows, k]` into [`RnnLayout::Panels16`].
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

impl Filler for MapInstr {
    const FILL: Self = MapInstr { op: MapOp::Const, dtype: DType::F32, out: DType::F32, args: [0; 3], bits: 0 };
}

impl MapInstr {
    /// An instruction, for constants.
    pub const fn new(op: MapOp, dtype: DType, out: DType, args: [u8; 3], bits: u64) -> MapInstr {
        MapInstr { op, dtype, out, args, bits }
    }
}

impl MapOp {
    /// How many arguments the operation takes.
    pub const fn arity(self) -> usize {
        match self {
            MapOp::Const => 0,
            MapOp::Select | MapOp::Clip => 3,
            MapOp::Add
            | MapOp::Sub
            | MapOp::Mul
            | MapOp::Div
            | MapOp::Mod
            | MapOp::Fmod
            | MapOp::Pow
            | MapOp::Min
            | MapOp::Max
            | MapOp::And
            | MapOp::Or
            | MapOp::Xor
            | MapOp::BitAnd
            | MapOp::BitOr
            | MapOp::BitXor
            | MapOp::Shl
            | MapOp::Shr
            | MapOp::Eq
            | MapOp::Lt
            | MapOp::Le
            | MapOp::Prelu => 2,
            _ => 1,
        }
    }
}

fixed!(
    Map,
    Copy,
    Concat,
    Gather,
    GatherElements,
    GatherNd,
    ScatterElements,
    ScatterNd,
    Reduce,
    ArgReduce,
    Cumulative,
    MatMul,
    Softmax,
    Norm,
    Resize,
    GridSample,
    RoiAlign,
    Rnn,
    TopK,
    Unique,
    NonZero,
    Compress,
    NonMaxSuppression,
    Random,
    Det,
    Col2Im,
    Prepack
);
over_extents! {
    Pad [before] { mode },
    Conv [before] { kernel, strides, dilations, group, activation, weights, data },
    ConvTranspose [before] { strides, dilations, group },
    Pool [before, after] { kind, kernel, strides, dilations, count_include_pad, column_major, data },
    Iota [range] {},
    Literal [elements] {},
    Attention [past] { scale, causal, window, softcap, softmax, scores },
    Dft [length] { axis, inverse, onesided },
}

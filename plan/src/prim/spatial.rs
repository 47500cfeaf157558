//! Windows and samples over images and signals.

use super::{DataLayout, MapExtents};
use crate::{Filler, List};

params! {
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
}

fixed!(Resize, GridSample, RoiAlign, Col2Im);

over_extents! {
    Pool [before, after] { kind, kernel, strides, dilations, count_include_pad, column_major, data },
    Dft [length] { axis, inverse, onesided },
}

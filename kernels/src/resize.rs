//! Resampling: an axis is resampled by a few taps around the input coordinate that an output coordinate stands for, and axes
//! one inside another.
//!
//! Coordinates and weights are computed in double precision. The reference level (`Resampler::value`) takes any mode and type;
//! `rows` is the fast level for f32 without antialiasing.

mod rows;
#[cfg(test)]
mod tests;

use crate::{Call, Dst, Element, Fault, Src};
use half::{bf16, f16};
use plan::prim::{CoordinateMode, NearestMode, Resize, ResizeMode};
use plan::{DType, MAX_RANK};

/// Runs [`Resize`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn resize(p: &Resize, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (x, mut y) = (call.src(0)?, call.dst(0)?);
    let resampler = Resampler::new(p, &x, call.opt_src(1), call.opt_src(2), y.dims())?;
    if y.is_empty() {
        return Ok(());
    }
    match x.dtype() {
        DType::F32 if rows::supports(&resampler) => {
            rows::resample(&resampler, call.isa(), x.slice()?, y.slice()?);
            Ok(())
        }
        DType::F32 => each::<f32>(&resampler, &x, &mut y),
        DType::F64 => each::<f64>(&resampler, &x, &mut y),
        DType::F16 => each::<f16>(&resampler, &x, &mut y),
        DType::BF16 => each::<bf16>(&resampler, &x, &mut y),
        DType::I8 => each::<i8>(&resampler, &x, &mut y),
        DType::U8 => each::<u8>(&resampler, &x, &mut y),
        DType::I16 => each::<i16>(&resampler, &x, &mut y),
        DType::U16 => each::<u16>(&resampler, &x, &mut y),
        DType::I32 => each::<i32>(&resampler, &x, &mut y),
        DType::I64 => each::<i64>(&resampler, &x, &mut y),
        found => Err(Fault::DType { found, wanted: "a float or an integer" }),
    }
}

/// An element that can be interpolated: integers are rounded to nearest even and saturate.
trait Sample: Element {
    fn to_f64(self) -> f64;
    fn of_f64(v: f64) -> Self;
}

macro_rules! sample {
    ($($t:ty: $to:expr, $of:expr);*) => { $(
        impl Sample for $t {
            fn to_f64(self) -> f64 {
                ($to)(self)
            }
            fn of_f64(v: f64) -> $t {
                ($of)(v)
            }
        }
    )* };
}
sample!(f32: f64::from, |v| v as f32; f64: |v| v, |v| v; f16: f64::from, f16::from_f64; bf16: f64::from, bf16::from_f64;
    i8: f64::from, |v| libm::rint(v) as i8; u8: f64::from, |v| libm::rint(v) as u8;
    i16: f64::from, |v| libm::rint(v) as i16; u16: f64::from, |v| libm::rint(v) as u16;
    i32: f64::from, |v| libm::rint(v) as i32; i64: |v| v as f64, |v| libm::rint(v) as i64);

/// One axis.
#[derive(Clone, Copy, Debug, Default)]
struct Axis {
    input: usize,
    output: usize,
    /// Distance of input elements.
    step: usize,
    scale: f64,
    /// Start and end of the region, as parts of the axis.
    region: (f64, f64),
    /// Output and input are the same.
    same: bool,
}

impl Axis {
    /// The input coordinate of an output coordinate.
    fn coordinate(&self, mode: CoordinateMode, o: usize) -> f64 {
        let (o, input, scale) = (o as f64, self.input as f64, self.scale);
        let output = scale * input;
        let half_pixel = (o + 0.5) / scale - 0.5;
        match mode {
            CoordinateMode::HalfPixel => half_pixel,
            CoordinateMode::HalfPixelSymmetric => {
                let adjustment = self.output as f64 / output;
                input / 2.0 * (1.0 - adjustment) + half_pixel
            }
            CoordinateMode::PytorchHalfPixel if output == 1.0 => -0.5,
            CoordinateMode::PytorchHalfPixel => half_pixel,
            CoordinateMode::AlignCorners if output == 1.0 => 0.0,
            CoordinateMode::AlignCorners => o * (input - 1.0) / (output - 1.0),
            CoordinateMode::Asymmetric => o / scale,
            CoordinateMode::CropAndResize => {
                let (start, end) = self.region;
                let inner = if output == 1.0 {
                    (end - start) * (input - 1.0) / 2.0
                } else {
                    o * (end - start) * (input - 1.0) / (output - 1.0)
                };
                inner + start * (input - 1.0)
            }
        }
    }
}

/// The taps for one output coordinate: weights of input coordinates from `first` on.
struct Taps {
    first: i64,
    count: i64,
    /// The distance of the coordinate from tap `first`.
    distance: f64,
    /// What weights are divided by.
    total: f64,
    outside: bool,
}

/// A validated resampling.
struct Resampler<'p> {
    p: &'p Resize,
    axes: [Axis; MAX_RANK],
    rank: usize,
}

impl<'p> Resampler<'p> {
    fn new(
        p: &'p Resize,
        x: &Src<'_>,
        scales: Option<Src<'_>>,
        regions: Option<Src<'_>>,
        y: &[usize],
    ) -> Result<Self, Fault> {
        let rank = x.dims().len();
        if y.len() != rank || rank > MAX_RANK {
            return Err(Fault::Shape("resizing keeps the rank"));
        }
        let crop = p.coordinates == CoordinateMode::CropAndResize;
        let scales = scales.map(|s| s.slice::<f32>()).transpose()?.filter(|s| !s.is_empty());
        let regions = regions.filter(|_| crop).map(|r| r.slice::<f32>()).transpose()?;
        if scales.is_some_and(|s| s.len() != rank) || regions.is_some_and(|r| r.len() != 2 * rank) {
            return Err(Fault::Shape("a scale, and a start and an end, for each axis"));
        }
        let (mut axes, mut step) = ([Axis::default(); MAX_RANK], 1);
        for a in (0..rank).rev() {
            let (input, output) = (x.dims()[a], y[a]);
            if input == 0 && output > 0 {
                return Err(Fault::Shape("an empty axis cannot be resampled"));
            }
            let scale = scales.map_or(output as f64 / input as f64, |s| f64::from(s[a]));
            let region = regions.map_or((0.0, 1.0), |r| (f64::from(r[a]), f64::from(r[rank + a])));
            let same = input == output && (scale - 1.0).abs() < 1e-9 && region == (0.0, 1.0);
            axes[a] = Axis { input, output, step, scale, region, same };
            step *= input;
        }
        Ok(Resampler { p, axes, rank })
    }

    fn axes(&self) -> &[Axis] {
        self.axes.get(..self.rank).unwrap_or(&[])
    }

    /// The taps of an output coordinate.
    fn taps(&self, axis: &Axis, o: usize) -> Taps {
        let x = axis.coordinate(self.p.coordinates, o);
        let outside =
            self.p.coordinates == CoordinateMode::CropAndResize && !(0.0..=axis.input as f64 - 1.0).contains(&x);
        // The coordinate is `base` and more than 0, at most 1.
        let base = libm::ceil(x) - 1.0;
        let ratio = x - base;
        // How far the filter reaches to the left of `base`.
        let reach = match (self.p.mode, self.p.antialias) {
            (ResizeMode::Nearest, _) => 0.0,
            (ResizeMode::Linear, false) => 0.0,
            (ResizeMode::Cubic, false) => 1.0,
            (ResizeMode::Linear, true) => -libm::floor(-1.0 / axis.scale.min(1.0)) - 1.0,
            (ResizeMode::Cubic, true) => -libm::floor(-2.0 / axis.scale.min(1.0)) - 1.0,
        };
        // A scale that is not that of the dims must not make it endless.
        let reach = reach.min(4.0 * axis.input as f64 + 4.0);
        let mut taps = Taps {
            first: (base - reach) as i64,
            count: 2 + 2 * reach as i64,
            distance: ratio + reach,
            total: 1.0,
            outside,
        };
        if self.p.mode == ResizeMode::Nearest {
            let up = match self.p.nearest {
                NearestMode::RoundPreferFloor => ratio > 0.5,
                NearestMode::RoundPreferCeil => ratio >= 0.5,
                NearestMode::Floor => ratio == 1.0,
                NearestMode::Ceil => true,
            };
            (taps.first, taps.count) = (taps.first.saturating_add(i64::from(up)), 1);
        } else if self.p.antialias || self.p.exclude_outside {
            let total: f64 = (0..taps.count).map(|i| self.weight(axis, &taps, i)).sum();
            taps.total = if total == 0.0 { 1.0 } else { total };
        }
        taps
    }

    /// The weight of tap `i`.
    fn weight(&self, axis: &Axis, taps: &Taps, i: i64) -> f64 {
        let at = taps.first.saturating_add(i);
        if self.p.exclude_outside && !(0..axis.input as i64).contains(&at) {
            return 0.0;
        }
        let stretch = if self.p.antialias { axis.scale.min(1.0) } else { 1.0 };
        let d = ((i as f64 - taps.distance) * stretch).abs();
        let a = f64::from(self.p.cubic_coeff_a);
        let weight = match self.p.mode {
            ResizeMode::Nearest => 1.0,
            ResizeMode::Linear => (1.0 - d).max(0.0),
            ResizeMode::Cubic if d <= 1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
            ResizeMode::Cubic if d < 2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
            ResizeMode::Cubic => 0.0,
        };
        weight / taps.total
    }

    /// The element at `o` of the axes from `a` on, within the input elements from `at` on; none where it is extrapolated.
    fn value<T: Sample>(&self, x: &[T], a: usize, o: &[usize; MAX_RANK], at: usize) -> Option<f64> {
        let Some(axis) = self.axes().get(a) else { return x.get(at).map(|x| x.to_f64()) };
        if axis.same {
            return self.value(x, a + 1, o, at + o[a] * axis.step);
        }
        let taps = self.taps(axis, o[a]);
        if taps.outside {
            return None;
        }
        let last = axis.input as i64 - 1;
        let place = |i: i64| taps.first.saturating_add(i).clamp(0, last) as usize;
        if taps.count == 1 {
            return self.value(x, a + 1, o, at + place(0) * axis.step);
        }
        let mut sum = 0.0;
        for i in 0..taps.count {
            let weight = self.weight(axis, &taps, i);
            if weight != 0.0 {
                sum += weight * self.value(x, a + 1, o, at + place(i) * axis.step)?;
            }
        }
        Some(sum)
    }
}

/// The reference level.
fn each<T: Sample>(r: &Resampler<'_>, x: &Src<'_>, y: &mut Dst<'_>) -> Result<(), Fault> {
    let (x, y) = (x.slice::<T>()?, y.slice::<T>()?);
    let mut o = [0; MAX_RANK];
    for y in y {
        *y = T::of_f64(r.value(x, 0, &o, 0).unwrap_or(f64::from(r.p.extrapolation)));
        advance(&mut o, r.axes());
    }
    Ok(())
}

/// The next output coordinate, the last axis first.
fn advance(o: &mut [usize; MAX_RANK], axes: &[Axis]) {
    for (o, axis) in o.iter_mut().zip(axes).rev() {
        *o += 1;
        if *o < axis.output {
            return;
        }
        *o = 0;
    }
}

//! Sampling at given coordinates.
//!
//! The taps of a point, along one to three axes, are found once and used for every channel.

use crate::spatial::{Accumulator, Image, Real, align3};
use crate::{Call, Dst, Fault, Src};
use half::{bf16, f16};
use plan::DType;
use plan::prim::{DataLayout, GridPadding, GridSample, ResizeMode};

/// Runs [`GridSample`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn grid_sample(p: &GridSample, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (x, grid, mut y) = (call.src(0)?, call.src(1)?, call.dst(0)?);
    match x.dtype() {
        DType::F32 => typed::<f32>(p, &x, &grid, &mut y),
        DType::F64 => typed::<f64>(p, &x, &grid, &mut y),
        DType::F16 => typed::<f16>(p, &x, &grid, &mut y),
        DType::BF16 => typed::<bf16>(p, &x, &grid, &mut y),
        found => Err(Fault::DType { found, wanted: "a float" }),
    }
}

fn typed<T: Real>(p: &GridSample, x: &Src<'_>, grid: &Src<'_>, y: &mut Dst<'_>) -> Result<(), Fault> {
    match grid.dtype() {
        DType::F32 => sample::<T, f32>(p, x, grid, y),
        DType::F64 => sample::<T, f64>(p, x, grid, y),
        DType::F16 => sample::<T, f16>(p, x, grid, y),
        DType::BF16 => sample::<T, bf16>(p, x, grid, y),
        found => Err(Fault::DType { found, wanted: "a float" }),
    }
}

/// The most taps along an axis.
const TAPS: usize = 4;

/// The taps of a point along one axis: places (none: zero) and weights.
#[derive(Clone, Copy)]
struct Taps<A> {
    places: [Option<usize>; TAPS],
    weights: [A; TAPS],
    count: usize,
}

fn sample<T: Real, G: Real>(p: &GridSample, x: &Src<'_>, grid: &Src<'_>, y: &mut Dst<'_>) -> Result<(), Fault> {
    let wrong = Fault::Shape("data [n, c, ...], points [n, ..., d] and samples [n, c, ...]");
    let ([n, c, input @ ..], [grid_n, points @ .., d]) = (x.dims(), grid.dims()) else { return Err(wrong) };
    let ([y_n, y_c, output @ ..], (n, c, d)) = (y.dims(), (*n, *c, *d)) else { return Err(wrong) };
    if (*grid_n, *y_n, *y_c) != (n, n, c) || points != output || d != input.len() || d == 0 {
        return Err(wrong);
    }
    let count: usize = output.iter().product();
    if y.is_empty() {
        return Ok(());
    }
    if input.contains(&0) {
        return Err(Fault::Shape("samples of an empty image"));
    }
    let extents = align3(input, 1)?;
    let image = Image::new(n, c, extents, DataLayout::ChannelsFirst);
    let (x, grid, y) = (x.slice::<T>()?, grid.slice::<G>()?, y.slice::<T>()?);
    let single = Taps { places: [Some(0), None, None, None], weights: [T::Acc::of_usize(1); TAPS], count: 1 };
    for (i, point) in grid.chunks_exact(d).enumerate() {
        let mut taps = [single; 3];
        // Points name the last axis first.
        for ((taps, extent), at) in taps.iter_mut().zip(extents).skip(3 - d).zip(point.iter().rev()) {
            *taps = taps_at(p, T::Acc::of_f64(at.widen().to_f64()), extent);
        }
        let (n, at) = (i / count, i % count);
        for channel in 0..c {
            y[(n * c + channel) * count + at] = T::narrow(gather(&taps, x, &image, n, channel));
        }
    }
    Ok(())
}

/// The weighted sum of the elements under the taps.
fn gather<T: Real>(taps: &[Taps<T::Acc>; 3], x: &[T], image: &Image, n: usize, c: usize) -> T::Acc {
    let [a, b, d] = taps;
    let mut sum = T::Acc::default();
    for (z, wz) in a.places.iter().zip(a.weights).take(a.count) {
        let mut plane = T::Acc::default();
        for (r, wr) in b.places.iter().zip(b.weights).take(b.count) {
            let mut row = T::Acc::default();
            for (q, wq) in d.places.iter().zip(d.weights).take(d.count) {
                if let (Some(z), Some(r), Some(q)) = (*z, *r, *q) {
                    row += wq * x[image.at(n, c, [z, r, q])].widen();
                }
            }
            plane += wr * row;
        }
        sum += wz * plane;
    }
    sum
}

/// The taps of a coordinate in -1..=1 along an axis that is not empty.
fn taps_at<A: Accumulator>(p: &GridSample, at: A, extent: usize) -> Taps<A> {
    let (one, two, half) = (A::of_usize(1), A::of_usize(2), A::of_f64(0.5));
    let length = A::of_usize(extent);
    let (mut x, low, high) = if p.align_corners {
        ((at + one) / two * (length - one), A::default(), length - one)
    } else {
        (((at + one) * length - one) / two, A::default() - half, length - half)
    };
    if p.mode == ResizeMode::Nearest {
        x = A::of_f64(libm::rint(x.to_f64()));
    }
    if x < low || x > high {
        x = match p.padding {
            GridPadding::Zeros => x,
            GridPadding::Border => clamp(x, A::default(), length - one),
            GridPadding::Reflection => A::of_f64(reflect(x.to_f64(), low.to_f64(), high.to_f64())),
        };
    }
    // NaN becomes 0, what is far outside an end of the range.
    let place = |i: i64| place(p.padding, i, extent, low.to_f64(), high.to_f64());
    let floor = libm::floor(x.to_f64());
    let (base, r) = (floor as i64, x - A::of_f64(floor));
    let mut taps = Taps { places: [None; TAPS], weights: [A::default(); TAPS], count: 1 };
    match p.mode {
        ResizeMode::Nearest => {
            taps.places[0] = place(x.to_f64() as i64);
            taps.weights[0] = one;
        }
        ResizeMode::Linear => {
            (taps.places[0], taps.places[1]) = (place(base), place(base.saturating_add(1)));
            (taps.weights[0], taps.weights[1], taps.count) = (one - r, r, 2);
        }
        ResizeMode::Cubic => {
            for (i, to) in taps.places.iter_mut().enumerate() {
                *to = place(base.saturating_add(i as i64 - 1));
            }
            let near = |d: A| (A::of_f64(1.25) * d - A::of_f64(2.25)) * d * d + one;
            let far = |d: A| {
                let a = A::of_f64(-0.75);
                ((a * d - A::of_usize(5) * a) * d + A::of_usize(8) * a) * d - A::of_usize(4) * a
            };
            taps.weights = [far(r + one), near(r), near(one - r), far(two - r)];
            taps.count = 4;
        }
    }
    taps
}

/// Not the standard library's, which panics on limits in the wrong order.
fn clamp<A: Accumulator>(v: A, low: A, high: A) -> A {
    if v < low {
        low
    } else if v > high {
        high
    } else {
        v
    }
}

/// The element that stands for place `i`.
fn place(padding: GridPadding, i: i64, extent: usize, low: f64, high: f64) -> Option<usize> {
    let last = extent as i64 - 1;
    match padding {
        GridPadding::Zeros => usize::try_from(i).ok().filter(|i| *i < extent),
        GridPadding::Border => Some(i.clamp(0, last) as usize),
        GridPadding::Reflection => Some((reflect(i as f64, low, high) as i64).clamp(0, last) as usize),
    }
}

/// Mirrored at the borders until it is within.
fn reflect(x: f64, low: f64, high: f64) -> f64 {
    let range = high - low;
    if range <= 0.0 {
        return low;
    }
    let mirror = |distance: f64, near: f64, far: f64, sign: f64| {
        let turns = libm::trunc(distance / range);
        let rest = distance - turns * range;
        if libm::fmod(turns, 2.0) == 0.0 { near + sign * rest } else { far - sign * rest }
    };
    if x < low {
        mirror(low - x, low, high, 1.0)
    } else if x > high {
        mirror(x - high, high, low, -1.0)
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, execute};

    fn run(
        p: GridSample,
        x: &[f32],
        dims: &[usize],
        grid: &[f32],
        grid_dims: &[usize],
        y: &mut [f32],
        y_dims: &[usize],
    ) {
        let reads = [Some(Src::from_slice(x, dims).unwrap()), Some(Src::from_slice(grid, grid_dims).unwrap())];
        let mut writes = [Some(Dst::from_slice(y, y_dims).unwrap())];
        execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], Isa::detect())).unwrap();
    }

    const X: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    const POINTS: [f32; 16] =
        [-10.0, -10.0, -5.0, -5.0, -0.2, -0.2, 10.0, 10.0, 10.0, 10.0, -0.2, -0.2, 5.0, 5.0, 10.0, 10.0];

    fn at(mode: ResizeMode, padding: GridPadding, align_corners: bool) -> [f32; 8] {
        let mut y = [f32::NAN; 8];
        run(
            GridSample { mode, padding, align_corners },
            &X,
            &[1, 1, 3, 2],
            &POINTS,
            &[1, 2, 4, 2],
            &mut y,
            &[1, 1, 2, 4],
        );
        y
    }

    #[test]
    fn known_samples() {
        let y = at(ResizeMode::Linear, GridPadding::Zeros, false);
        for (y, want) in y.iter().zip([0.0, 0.0, 1.7, 0.0, 0.0, 1.7, 0.0, 0.0]) {
            assert!((y - want).abs() < 1e-5, "{y} for {want}");
        }
        let y = at(ResizeMode::Nearest, GridPadding::Border, false);
        assert_eq!(y, [0.0, 0.0, 2.0, 5.0, 5.0, 2.0, 5.0, 5.0]);
        let y = at(ResizeMode::Nearest, GridPadding::Reflection, false);
        assert_eq!(y, [3.0, 0.0, 2.0, 3.0, 3.0, 2.0, 5.0, 3.0]);
        let y = at(ResizeMode::Linear, GridPadding::Reflection, true);
        for (y, want) in y.iter().zip([2.5, 0.0, 2.0, 2.5, 2.5, 2.0, 5.0, 2.5]) {
            assert!((y - want).abs() < 1e-5, "{y} for {want}");
        }
    }

    #[test]
    fn three_axes_and_channels() {
        let x: std::vec::Vec<f32> = (0..16).map(|i| i as f32).collect();
        let mut y = [0f32; 2];
        let p = GridSample { mode: ResizeMode::Linear, padding: GridPadding::Border, align_corners: true };
        run(p, &x, &[1, 2, 2, 2, 2], &[0.0, 1.0, -1.0], &[1, 1, 1, 1, 3], &mut y, &[1, 2, 1, 1, 1]);
        assert_eq!(y, [2.5, 10.5]);
    }

    #[test]
    fn cubic_meets_the_elements() {
        let mut y = [0f32; 6];
        let points = [-1.0, -1.0, 1.0, -1.0, -1.0, 0.0, 1.0, 0.0, -1.0, 1.0, 1.0, 1.0];
        let p = GridSample { mode: ResizeMode::Cubic, padding: GridPadding::Border, align_corners: true };
        run(p, &X, &[1, 1, 3, 2], &points, &[1, 3, 2, 2], &mut y, &[1, 1, 3, 2]);
        assert_eq!(y, X);
    }
}

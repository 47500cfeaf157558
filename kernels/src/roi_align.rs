//! Region pooling: samples between the elements, a grid of them in every bin of a region.

use crate::spatial::{Accumulator, Real};
use crate::{Call, Dst, Fault, Src};
use half::{bf16, f16};
use plan::DType;
use plan::prim::RoiAlign;

/// Runs [`RoiAlign`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or a region names an image that is not there.
pub fn roi_align(p: &RoiAlign, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (x, mut y) = (call.src(0)?, call.dst(0)?);
    let regions = (call.src(1)?, call.src(2)?);
    match x.dtype() {
        DType::F32 => typed::<f32>(p, &x, regions, &mut y),
        DType::F64 => typed::<f64>(p, &x, regions, &mut y),
        DType::F16 => typed::<f16>(p, &x, regions, &mut y),
        DType::BF16 => typed::<bf16>(p, &x, regions, &mut y),
        found => Err(Fault::DType { found, wanted: "a float" }),
    }
}

/// A region along one axis, in data coordinates.
#[derive(Clone, Copy)]
struct Span {
    start: f64,
    /// Extent of a bin.
    bin: f64,
    /// Samples in a bin.
    samples: usize,
    extent: usize,
}

impl Span {
    fn new(p: &RoiAlign, start: f64, end: f64, extent: usize, bins: usize) -> Span {
        let (scale, offset) = (f64::from(p.spatial_scale), if p.half_pixel { 0.5 } else { 0.0 });
        let (start, end) = (start * scale - offset, end * scale - offset);
        // Without the shift, regions are at least 1 wide.
        let length = if p.half_pixel { end - start } else { (end - start).max(1.0) };
        let bin = length / bins as f64;
        let samples = if p.sampling_ratio > 0 { p.sampling_ratio as usize } else { libm::ceil(bin) as usize };
        Span { start, bin, samples, extent }
    }

    /// The elements around sample `i` of a bin and the distance from the first; none if it is outside.
    fn sample(&self, bin: usize, i: usize) -> Option<(usize, usize, f64)> {
        let at = self.start + bin as f64 * self.bin + (i as f64 + 0.5) * self.bin / self.samples as f64;
        // Written so that NaN is outside.
        if !(at >= -1.0 && at <= self.extent as f64) {
            return None;
        }
        let (at, last) = (at.max(0.0), self.extent.checked_sub(1)?);
        let low = at as usize;
        if low >= last { Some((last, last, 0.0)) } else { Some((low, low + 1, at - low as f64)) }
    }
}

fn typed<T: Real>(p: &RoiAlign, x: &Src<'_>, regions: (Src<'_>, Src<'_>), y: &mut Dst<'_>) -> Result<(), Fault> {
    let (&[n, c, h, w], &[count, y_c, oh, ow]) = (x.dims(), y.dims()) else {
        return Err(Fault::Shape("data [n, c, h, w] and bins [regions, c, h, w]"));
    };
    if c != y_c || regions.0.dims() != [count, 4] || regions.1.dims() != [count] {
        return Err(Fault::Shape("four coordinates and an image for each region"));
    }
    let (x, boxes, images, y) = (x.slice::<T>()?, regions.0.slice::<T>()?, regions.1.slice::<i64>()?, y.slice::<T>()?);
    let plane = oh * ow;
    if plane == 0 {
        return Ok(());
    }
    for ((region, image), y) in boxes.chunks_exact(4).zip(images).zip(y.chunks_exact_mut((c * plane).max(1))) {
        let found = usize::try_from(*image).ok().filter(|i| *i < n);
        let image = found.ok_or(Fault::Index { index: *image, extent: n })?;
        let side = |i: usize| region[i].widen().to_f64();
        let across = Span::new(p, side(0), side(2), w, ow);
        let down = Span::new(p, side(1), side(3), h, oh);
        for (i, y) in y.iter_mut().enumerate() {
            let (channel, bin) = (i / plane, i % plane);
            let x = x.get((image * c + channel) * h * w..).unwrap_or(&[]);
            *y = T::narrow(pool(p.average, x, (down, bin / ow), (across, bin % ow)));
        }
    }
    Ok(())
}

/// The mean or the largest of the samples of a bin.
fn pool<T: Real>(average: bool, x: &[T], down: (Span, usize), across: (Span, usize)) -> T::Acc {
    let ((rows, row_bin), (columns, column_bin)) = (down, across);
    let (mut sum, mut largest) = (T::Acc::default(), None::<T::Acc>);
    for i in 0..rows.samples {
        for j in 0..columns.samples {
            let mut parts = [T::Acc::default(); 4];
            if let (Some((r0, r1, dr)), Some((q0, q1, dq))) = (rows.sample(row_bin, i), columns.sample(column_bin, j)) {
                let at = |r: usize, q: usize| x.get(r * columns.extent + q).map_or(T::Acc::default(), |x| x.widen());
                let weight = |r: f64, q: f64| T::Acc::of_f64(r * q);
                parts = [
                    weight(1.0 - dr, 1.0 - dq) * at(r0, q0),
                    weight(1.0 - dr, dq) * at(r0, q1),
                    weight(dr, 1.0 - dq) * at(r1, q0),
                    weight(dr, dq) * at(r1, q1),
                ];
            }
            for part in parts {
                sum += part;
                // The operator takes the largest of the weighted elements, not of the samples.
                largest = Some(largest.map_or(part, |l| if part > l { part } else { l }));
            }
        }
    }
    if average {
        sum / T::Acc::of_usize(rows.samples.saturating_mul(columns.samples).max(1))
    } else {
        largest.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, execute};

    fn run(p: RoiAlign, region: [f32; 4], image: i64) -> Result<[f32; 4], Fault> {
        let x: std::vec::Vec<f32> = (0..32).map(|i| i as f32).collect();
        let (images, mut y) = ([image], [f32::NAN; 4]);
        let reads = [
            Some(Src::from_slice(&x, &[2, 1, 4, 4])?),
            Some(Src::from_slice(&region, &[1, 4])?),
            Some(Src::from_slice(&images, &[1])?),
        ];
        let mut writes = [Some(Dst::from_slice(&mut y, &[1, 1, 2, 2])?)];
        execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], Isa::detect()))?;
        Ok(y)
    }

    const P: RoiAlign = RoiAlign { average: true, sampling_ratio: 0, spatial_scale: 1.0, half_pixel: true };

    #[test]
    fn bins_of_a_whole_image_are_means() {
        assert_eq!(run(P, [0.0, 0.0, 4.0, 4.0], 0).unwrap(), [2.5, 4.5, 10.5, 12.5]);
        assert_eq!(
            run(RoiAlign { sampling_ratio: 2, ..P }, [0.0, 0.0, 4.0, 4.0], 1).unwrap(),
            [18.5, 20.5, 26.5, 28.5]
        );
        let half = RoiAlign { spatial_scale: 0.5, ..P };
        assert_eq!(run(half, [0.0, 0.0, 8.0, 8.0], 0).unwrap(), [2.5, 4.5, 10.5, 12.5]);
    }

    #[test]
    fn samples_between_elements() {
        // One sample in each bin, at 0.75 and 1.25 without the shift.
        let p = RoiAlign { sampling_ratio: 1, half_pixel: false, ..P };
        assert_eq!(run(p, [0.5, 0.5, 1.5, 1.5], 0).unwrap(), [3.75, 4.25, 5.75, 6.25]);
        let p = RoiAlign { average: false, ..p };
        assert_eq!(run(p, [0.5, 0.5, 1.5, 1.5], 0).unwrap()[0], 0.5625 * 5.0);
    }

    #[test]
    fn outside_is_zero_and_images_are_checked() {
        assert_eq!(run(P, [100.0, 100.0, 104.0, 104.0], 0).unwrap(), [0.0; 4]);
        assert_eq!(run(P, [0.0; 4], 2), Err(Fault::Index { index: 2, extent: 2 }));
        assert!(run(P, [f32::NAN; 4], 0).is_ok());
    }
}

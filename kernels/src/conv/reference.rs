//! The reference level: weights as they are, any element type, any layout.
//!
//! A block of outputs along the last axis is summed on the stack, tap by tap, so that both rows are walked in order.

use super::Job;

/// A type in which products are summed.
pub(super) trait Sum: Copy + Default {
    /// `self + a * b`; integers wrap.
    fn mac(self, a: Self, b: Self) -> Self;
}

impl Sum for f32 {
    #[inline(always)]
    fn mac(self, a: f32, b: f32) -> f32 {
        self + a * b
    }
}

impl Sum for f64 {
    #[inline(always)]
    fn mac(self, a: f64, b: f64) -> f64 {
        self + a * b
    }
}

impl Sum for i32 {
    #[inline(always)]
    fn mac(self, a: i32, b: i32) -> i32 {
        self.wrapping_add(a.wrapping_mul(b))
    }
}

/// Outputs summed together.
const BLOCK: usize = 64;

/// Calls `finish(place, channel, sum)` for each element of the result.
#[inline(always)]
pub(super) fn convolve<X: Copy, W: Copy, A: Sum>(
    job: &Job,
    x: &[X],
    w: &[W],
    load: impl Fn(X) -> A,
    weight: impl Fn(W, usize) -> A,
    mut finish: impl FnMut(usize, usize, A),
) {
    let v = &job.windows;
    for n in 0..job.y.batch {
        for m in 0..job.y.channels {
            for oz in 0..v.output[0] {
                for oy in 0..v.output[1] {
                    for first in (0..v.output[2]).step_by(BLOCK) {
                        let mut sums = [A::default(); BLOCK];
                        let count = BLOCK.min(v.output[2] - first);
                        let at = Row { n, m, oz, oy, first, count };
                        row(job, at, x, w, &load, &weight, &mut sums);
                        for (i, sum) in sums.iter().take(count).enumerate() {
                            finish(job.y.at(n, m, [oz, oy, first + i]), m, *sum);
                        }
                    }
                }
            }
        }
    }
}

/// Outputs next to each other along the last axis.
struct Row {
    n: usize,
    m: usize,
    oz: usize,
    oy: usize,
    first: usize,
    count: usize,
}

#[inline(always)]
fn row<X: Copy, W: Copy, A: Sum>(
    job: &Job,
    at: Row,
    x: &[X],
    w: &[W],
    load: &impl Fn(X) -> A,
    weight: &impl Fn(W, usize) -> A,
    sums: &mut [A; BLOCK],
) {
    let v = &job.windows;
    let (channels, [kd, kh, kw]) = (job.channels_per_group(), v.kernel);
    let channel = at.m / job.results_per_group() * channels;
    let step = v.stride[2] * job.x.strides[2];
    for kx in 0..kw {
        let outputs = v.outputs(2, kx);
        let (low, high) = (outputs.start.max(at.first), outputs.end.min(at.first + at.count));
        if low >= high {
            continue;
        }
        let Some(ix) = v.at(2, low, kx) else { continue };
        let sums = &mut sums[low - at.first..high - at.first];
        for c in 0..channels {
            for kz in v.taps(0, at.oz) {
                for ky in v.taps(1, at.oy) {
                    let (Some(iz), Some(iy)) = (v.at(0, at.oz, kz), v.at(1, at.oy, ky)) else { continue };
                    let tap = weight(w[(((at.m * channels + c) * kd + kz) * kh + ky) * kw + kx], at.m);
                    let row = &x[job.x.at(at.n, channel + c, [iz, iy, ix])..];
                    if step == 1 {
                        for (sum, x) in sums.iter_mut().zip(row) {
                            *sum = sum.mac(tap, load(*x));
                        }
                    } else {
                        for (sum, x) in sums.iter_mut().zip(row.iter().step_by(step)) {
                            *sum = sum.mac(tap, load(*x));
                        }
                    }
                }
            }
        }
    }
}

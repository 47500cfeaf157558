//! Columns summed back into an image: each element of the image gathers what the blocks that cover it hold.

use crate::spatial::{Real, Windows};
use crate::{Call, Dst, Fault, Src};
use half::{bf16, f16};
use plan::prim::Col2Im;
use plan::{DType, List};

/// Runs [`Col2Im`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn col2im(p: &Col2Im, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (x, mut y) = (call.src(0)?, call.dst(0)?);
    let windows = windows(p, x.dims(), y.dims())?;
    match x.dtype() {
        DType::F32 => gather::<f32>(&windows, &x, &mut y),
        DType::F64 => gather::<f64>(&windows, &x, &mut y),
        DType::F16 => gather::<f16>(&windows, &x, &mut y),
        DType::BF16 => gather::<bf16>(&windows, &x, &mut y),
        found => Err(Fault::DType { found, wanted: "a float" }),
    }
}

/// The windows whose input is the image and whose outputs are the blocks.
fn windows(p: &Col2Im, x: &[usize], y: &[usize]) -> Result<Windows, Fault> {
    let wrong = Fault::Shape("columns [n, c * block, l] and an image [n, c, ...]");
    let (&[n, rows, columns], [batch, c, image @ ..]) = (x, y) else { return Err(wrong) };
    if image.len() != p.block.len() || p.after.len() != image.len() || n != *batch {
        return Err(wrong);
    }
    let block = p.block.map(|b| b as usize);
    let mut counts = List::<usize, 3>::EMPTY;
    for (a, extent) in image.iter().enumerate() {
        let steps = [&p.before, &p.after, &p.strides, &p.dilations].map(|l| l.get(a).map(|v| *v as usize));
        let [Some(before), Some(after), Some(stride), Some(dilation)] = steps else { return Err(wrong) };
        let padded = extent.checked_add(before).and_then(|e| e.checked_add(after)).ok_or(Fault::Extent)?;
        let reach =
            block[a].saturating_sub(1).checked_mul(dilation).and_then(|r| r.checked_add(1)).ok_or(Fault::Extent)?;
        let room = padded.checked_sub(reach).map(|r| r.checked_div(stride).map(|r| r + 1));
        counts.push(room.flatten().unwrap_or(0)).ok_or(Fault::Extent)?;
    }
    let before = p.before.map(i64::from);
    let windows = Windows::new(image, &counts, &block, &p.strides, &p.dilations, &before)?;
    if windows.output_plane() != columns || c.checked_mul(windows.taps_per_window()) != Some(rows) {
        return Err(wrong);
    }
    Ok(windows)
}

/// The block, if any, whose tap `k` is element `i` of the image, along one axis.
fn block_of(v: &Windows, a: usize, i: usize, k: usize) -> Option<usize> {
    let distance = (i as isize + v.before[a]).checked_sub_unsigned(k * v.dilation[a]).filter(|d| *d >= 0)? as usize;
    let block = distance / v.stride[a];
    (distance.is_multiple_of(v.stride[a]) && block < v.output[a]).then_some(block)
}

fn gather<T: Real>(v: &Windows, x: &Src<'_>, y: &mut Dst<'_>) -> Result<(), Fault> {
    let (x, y) = (x.slice::<T>()?, y.slice::<T>()?);
    let ([kd, kh, kw], [_, h, w], [_, bh, bw]) = (v.kernel, v.input, v.output);
    for (i, y) in y.iter_mut().enumerate() {
        let (channel, at) = (i / v.input_plane(), i % v.input_plane());
        let at = [at / (h * w), at / w % h, at % w];
        let mut sum = T::Acc::default();
        for kz in 0..kd {
            let Some(z) = block_of(v, 0, at[0], kz) else { continue };
            for ky in 0..kh {
                let Some(r) = block_of(v, 1, at[1], ky) else { continue };
                for kx in 0..kw {
                    let Some(q) = block_of(v, 2, at[2], kx) else { continue };
                    let row = channel * v.taps_per_window() + (kz * kh + ky) * kw + kx;
                    sum += x[row * v.output_plane() + (z * bh + r) * bw + q].widen();
                }
            }
        }
        *y = T::narrow(sum);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spatial::testing::Numbers;
    use crate::{Isa, execute};
    use std::{vec, vec::Vec};

    #[test]
    fn blocks_are_added_where_they_lie() {
        let mut numbers = Numbers::new(7);
        for _ in 0..60 {
            let (n, c) = (numbers.range(1, 2), numbers.range(1, 3));
            let mut pair = |low, high| [numbers.range(low, high), numbers.range(low, high)];
            let (k, s, d, before, after) = (pair(1, 3), pair(1, 3), pair(1, 2), pair(0, 2), pair(0, 2));
            let extra = pair(0, 6);
            let image = [0, 1].map(|a| (k[a] - 1) * d[a] + 1 + extra[a]);
            let blocks = [0, 1].map(|a| (image[a] + before[a] + after[a] - (k[a] - 1) * d[a] - 1) / s[a] + 1);
            let (rows, columns) = (c * k[0] * k[1], blocks[0] * blocks[1]);
            let x = numbers.floats(n * rows * columns);
            let mut want = vec![0f32; n * c * image[0] * image[1]];
            for (i, x) in x.iter().enumerate() {
                let (column, row, b) = (i % columns, i / columns % rows, i / columns / rows);
                let y = (column / blocks[1] * s[0] + row / k[1] % k[0] * d[0]).wrapping_sub(before[0]);
                let z = (column % blocks[1] * s[1] + row % k[1] * d[1]).wrapping_sub(before[1]);
                if y < image[0] && z < image[1] {
                    want[((b * c + row / (k[0] * k[1])) * image[0] + y) * image[1] + z] += x;
                }
            }
            let list = |v: [usize; 2]| List::of(v.map(|v| v as u32));
            let p = Col2Im {
                block: list(k),
                before: list(before),
                strides: list(s),
                dilations: list(d),
                after: list(after),
            };
            let mut y = vec![f32::NAN; want.len()];
            let reads = [Some(Src::from_slice(&x, &[n, rows, columns]).unwrap())];
            let mut writes = [Some(Dst::from_slice(&mut y, &[n, c, image[0], image[1]]).unwrap())];
            execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], Isa::detect())).unwrap();
            let far: Vec<_> = y.iter().zip(&want).filter(|(y, w)| (*y - *w).abs() > 1e-5).collect();
            assert!(far.is_empty(), "{p:?} {far:?}");
        }
    }
}

//! Weights stored as the fast kernels read them: f32 panels of 16 columns (or output channels, or gate rows), zero where
//! there is no column, so that a vector of 16 is always there to be read.

use crate::{Call, Dst, Fault, Src};
use plan::prim::{PackKind, Prepack};

/// Columns of a panel.
const PANEL: usize = 16;

/// A stack of matrices to be packed, each `[k, columns]`: element `(group, column, outer, inner)`, where the row index is
/// `outer * inners + inner`, lies at `origin` and the four strides.
struct Matrices {
    groups: usize,
    columns: usize,
    outers: usize,
    inners: usize,
    strides: [isize; 4],
}

/// Runs [`Prepack`].
///
/// The rows of a packed convolution matrix are in the order tap, then channel, so that a stretch of channels-last data
/// meets a stretch of rows.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn prepack(p: &Prepack, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (src, mut dst) = (call.src(0)?, call.dst(0)?);
    if p.kind == PackKind::ConvWinograd4 {
        return winograd(&src, &mut dst);
    }
    let matrices = layout(p, &src)?;
    let Matrices { groups, columns, outers, inners, .. } = matrices;
    let (panels, k) = (columns.div_ceil(PANEL), outers * inners);
    let fits = match p.kind {
        PackKind::MatPanels16 => dst.dims() == [panels, k, PANEL],
        PackKind::ConvPanels16 { .. } | PackKind::RnnPanels16 => dst.dims() == [groups, panels, k, PANEL],
        PackKind::ConvDepthwise16 | PackKind::ConvWinograd4 => dst.dims() == [panels, k, PANEL],
    };
    if !fits {
        return Err(Fault::Shape("packed dims do not follow from the weights"));
    }
    pack(&matrices, &src, &mut dst)
}

/// The matrices that `src` is.
fn layout(p: &Prepack, src: &Src<'_>) -> Result<Matrices, Fault> {
    let wrong = Err(Fault::Shape("weights of another rank are to be packed"));
    match (p.kind, src.dims(), src.strides()) {
        (PackKind::MatPanels16, &[k, n], &[row, col]) => {
            Ok(Matrices { groups: 1, columns: n, outers: 1, inners: k, strides: [0, col, 0, row] })
        }
        (PackKind::RnnPanels16, &[d, rows, k], &[direction, row, col]) => {
            Ok(Matrices { groups: d, columns: rows, outers: 1, inners: k, strides: [direction, row, 0, col] })
        }
        (PackKind::ConvPanels16 { group }, &[m, c, ref spatial @ ..], &[row, channel, ref steps @ ..]) => {
            let groups = group as usize;
            if groups == 0 || m % groups != 0 {
                return Err(Fault::Shape("output channels are not a multiple of the groups"));
            }
            let (taps, step) = taps(spatial, steps)?;
            let columns = m / groups;
            let strides = [row.wrapping_mul(columns as isize), row, step, channel];
            Ok(Matrices { groups, columns, outers: taps, inners: c, strides })
        }
        (PackKind::ConvDepthwise16, &[m, 1, ref spatial @ ..], &[row, _, ref steps @ ..]) => {
            let (taps, step) = taps(spatial, steps)?;
            Ok(Matrices { groups: 1, columns: m, outers: taps, inners: 1, strides: [0, row, step, 0] })
        }
        _ => wrong,
    }
}

/// Weights of 3×3 windows, transformed.
fn winograd(src: &Src<'_>, dst: &mut Dst<'_>) -> Result<(), Fault> {
    let &[m, c, 3, 3] = src.dims() else { return Err(Fault::Shape("weights of 3x3 windows")) };
    let panels = m.div_ceil(PANEL);
    let place = panels.checked_mul(c).and_then(|n| n.checked_mul(PANEL)).ok_or(Fault::Extent)?;
    if dst.dims() != [36, panels, c, PANEL] {
        return Err(Fault::Shape("packed dims do not follow from the weights"));
    }
    let (from, to) = (src.slice::<f32>()?, dst.slice::<f32>()?);
    to.fill(0.0);
    for (i, window) in from.as_chunks::<9>().0.iter().enumerate() {
        let (column, channel) = (i / c, i % c);
        let at = (column / PANEL * c + channel) * PANEL + column % PANEL;
        for (k, v) in crate::conv::winograd::transformed_weights(window).into_iter().enumerate() {
            *to.get_mut(k * place + at).ok_or(Fault::OutOfBounds)? = v;
        }
    }
    Ok(())
}

/// Number and distance of the taps of spatial axes that lie one in another.
fn taps(dims: &[usize], strides: &[isize]) -> Result<(usize, isize), Fault> {
    let (mut count, mut distance) = (1usize, 0isize);
    for (dim, stride) in dims.iter().zip(strides).rev() {
        if count == 1 {
            distance = *stride;
        } else if *dim > 1 && *stride != distance.wrapping_mul(count as isize) {
            return Err(Fault::Strided);
        }
        count *= dim;
    }
    Ok((count, distance))
}

fn pack(matrices: &Matrices, src: &Src<'_>, dst: &mut Dst<'_>) -> Result<(), Fault> {
    let Matrices { groups, columns, outers, inners, strides } = *matrices;
    let (from, origin) = (src.span::<f32>()?, src.origin());
    let mut rows = dst.slice::<f32>()?.chunks_exact_mut(PANEL);
    let at = |place: [usize; 4]| {
        let offset =
            place.iter().zip(strides).fold(0isize, |sum, (i, s)| sum.wrapping_add((*i as isize).wrapping_mul(s)));
        from.get(origin.wrapping_add_signed(offset)).copied().ok_or(Fault::OutOfBounds)
    };
    for group in 0..groups {
        for panel in (0..columns).step_by(PANEL) {
            for outer in 0..outers {
                for inner in 0..inners {
                    let row = rows.next().ok_or(Fault::OutOfBounds)?;
                    for (j, x) in row.iter_mut().enumerate() {
                        let column = panel + j;
                        *x = if column < columns { at([group, column, outer, inner])? } else { 0.0 };
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, Shape};
    use std::vec::Vec;

    fn packed(kind: PackKind, src: Src<'_>, dims: &[usize]) -> Result<Vec<f32>, Fault> {
        let mut out = std::vec![f32::NAN; dims.iter().product()];
        let mut writes = [Some(Dst::from_slice(&mut out, dims)?)];
        prepack(&Prepack { kind }, &mut Call::new(&[Some(src)], &mut writes, &mut [], &mut [], Isa::Portable))?;
        Ok(out)
    }

    #[test]
    fn a_transposed_matrix() {
        let data: Vec<f32> = (1..=40).map(|x| x as f32).collect();
        // [20, 2] seen as [2, 20].
        let src = Src::from_slice(&data, &[20, 2]).unwrap();
        let src = src.reshaped(Shape::strided(&[2, 20], &[1, 2]).unwrap()).unwrap();
        let out = packed(PackKind::MatPanels16, src, &[2, 2, 16]).unwrap();
        assert_eq!(&out[..3], [1.0, 3.0, 5.0]);
        assert_eq!(&out[16..18], [2.0, 4.0]);
        assert_eq!(&out[32..38], [33.0, 35.0, 37.0, 39.0, 0.0, 0.0]);
        assert_eq!(
            packed(PackKind::MatPanels16, src, &[2, 3, 16]).unwrap_err(),
            Fault::Shape("packed dims do not follow from the weights")
        );
    }

    #[test]
    fn convolution_weights_by_tap() {
        // [m 4, c 2, taps 3] in two groups.
        let data: Vec<f32> = (0..24).map(|x| x as f32).collect();
        let src = Src::from_slice(&data, &[4, 2, 3]).unwrap();
        let out = packed(PackKind::ConvPanels16 { group: 2 }, src, &[2, 1, 6, 16]).unwrap();
        for (group, tap, channel, column) in [(0, 0, 0, 0), (0, 2, 1, 1), (1, 0, 1, 0), (1, 1, 0, 1)] {
            let row = (group * 6 + tap * 2 + channel) * 16;
            assert_eq!(out[row + column], ((group * 2 + column) * 6 + channel * 3 + tap) as f32);
            assert_eq!(out[row + 2], 0.0);
        }
        assert!(packed(PackKind::ConvPanels16 { group: 3 }, src, &[2, 1, 6, 16]).is_err());
    }

    #[test]
    fn depthwise_and_recurrent_weights() {
        let data: Vec<f32> = (0..68).map(|x| x as f32).collect();
        let out =
            packed(PackKind::ConvDepthwise16, Src::from_slice(&data, &[17, 1, 2, 2]).unwrap(), &[2, 4, 16]).unwrap();
        assert_eq!([out[0], out[1], out[16], out[64], out[65], out[64 + 48]], [0.0, 4.0, 1.0, 64.0, 0.0, 67.0]);
        let out = packed(PackKind::RnnPanels16, Src::from_slice(&data, &[2, 17, 2]).unwrap(), &[2, 2, 2, 16]).unwrap();
        assert_eq!([out[0], out[1], out[16], out[32], out[64], out[96]], [0.0, 2.0, 1.0, 32.0, 34.0, 66.0]);
    }
}

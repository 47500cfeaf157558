//! Non-maximum suppression: of boxes that overlap too much, the one with the best score is kept.

use crate::{Call, Fault, Meta, Src};
use plan::prim::NonMaxSuppression;

/// Runs [`NonMaxSuppression`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or there is no room for all the boxes that are kept.
pub fn nms(p: &NonMaxSuppression, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let (boxes, scores, mut y) = (call.src(0)?, call.src(1)?, call.dst(0)?);
    let (&[batches, n, 4], &[score_batches, classes, score_n]) = (boxes.dims(), scores.dims()) else {
        return Err(Fault::Shape("boxes [batch, n, 4] and scores [batch, class, n]"));
    };
    if (batches, n) != (score_batches, score_n) || !matches!(y.dims(), [_, 3]) {
        return Err(Fault::Shape("boxes, scores and indices of the same batches"));
    }
    let limit = call.opt_src(2).map(|s| scalar::<i64>(&s)).transpose()?.unwrap_or(0).max(0);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let overlap = call.opt_src(3).map(|s| scalar::<f32>(&s)).transpose()?.unwrap_or(0.0);
    let threshold = call.opt_src(4).map(|s| scalar::<f32>(&s)).transpose()?;
    let (boxes, scores) = (boxes.slice::<f32>()?, scores.slice::<f32>()?);
    let order = call.take_workspace_of::<u32>(room(n)?)?;
    let rows = y.slice::<i64>()?;
    let (planned, mut kept) = (rows.len() / 3, 0);
    for batch in 0..batches {
        let boxes = boxes.get(batch * n * 4..(batch + 1) * n * 4).unwrap_or(&[]);
        for class in 0..classes {
            let first = (batch * classes + class) * n;
            let scores = scores.get(first..first + n).unwrap_or(&[]);
            let order = by_score(scores, threshold, order);
            let start = kept;
            for i in order.iter() {
                if kept - start >= limit {
                    break;
                }
                let candidate = corners(boxes, *i as usize, p.center_point_box);
                let chosen = rows.get(start * 3..kept * 3).unwrap_or(&[]).chunks_exact(3);
                let hidden = chosen
                    .filter_map(|row| row.last())
                    .any(|j| overlaps(candidate, corners(boxes, *j as usize, p.center_point_box), overlap));
                if hidden {
                    continue;
                }
                let row = rows.get_mut(kept * 3..kept * 3 + 3);
                let row = row.ok_or(Fault::Capacity { needed: kept + 1, planned })?;
                row.copy_from_slice(&[batch as i64, class as i64, i64::from(*i)]);
                kept += 1;
            }
        }
    }
    call.define(0, kept as i64);
    Ok(())
}

/// Bytes of workspace: the order of the boxes of one class.
///
/// # Errors
/// A [`Fault`] when the operands do not fit.
pub fn workspace(_p: &NonMaxSuppression, reads: &[Option<Meta>], _writes: &[Option<Meta>]) -> Result<usize, Fault> {
    let boxes = reads.first().copied().flatten().ok_or(Fault::Missing { operand: 0 })?;
    room(boxes.dims.get(1).copied().unwrap_or(0))?.checked_mul(size_of::<u32>()).ok_or(Fault::Extent)
}

/// Indices for so many boxes, each of which has to be one of 32 bits.
fn room(boxes: usize) -> Result<usize, Fault> {
    if u32::try_from(boxes).is_ok() { Ok(boxes) } else { Err(Fault::Unsupported("more than 2^32 - 1 boxes")) }
}

/// The one element of an operand.
fn scalar<T: crate::Element>(src: &Src<'_>) -> Result<T, Fault> {
    src.slice::<T>()?.first().copied().ok_or(Fault::Shape("a scalar"))
}

/// The boxes above the threshold, best first; of equal scores the first.
fn by_score<'a>(scores: &[f32], threshold: Option<f32>, order: &'a mut [u32]) -> &'a mut [u32] {
    let mut count = 0;
    for (i, score) in scores.iter().enumerate() {
        if let (true, Some(place)) = (threshold.is_none_or(|t| *score > t), order.get_mut(count)) {
            *place = i as u32;
            count += 1;
        }
    }
    let order = order.get_mut(..count).unwrap_or(&mut []);
    let score = |i: u32| scores.get(i as usize).copied().unwrap_or(f32::NEG_INFINITY);
    order.sort_unstable_by(|a, b| score(*b).total_cmp(&score(*a)).then(a.cmp(b)));
    order
}

/// Lower and upper corner along both axes, whatever the order of the axes.
fn corners(boxes: &[f32], i: usize, center: bool) -> [f32; 4] {
    let [a, b, c, d] = boxes.get(i * 4..).and_then(|b| b.first_chunk::<4>()).copied().unwrap_or_default();
    if center { [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0] } else { [a.min(c), b.min(d), a.max(c), b.max(d)] }
}

/// Whether the common area is more than a part of the area of both together.
fn overlaps(a: [f32; 4], b: [f32; 4], part: f32) -> bool {
    let (w, h) = (a[2].min(b[2]) - a[0].max(b[0]), a[3].min(b[3]) - a[1].max(b[1]));
    if !(w > 0.0 && h > 0.0) {
        return false;
    }
    let area = |b: [f32; 4]| (b[2] - b[0]) * (b[3] - b[1]);
    let (common, a, b) = (w * h, area(a), area(b));
    let all = a + b - common;
    common > 0.0 && a > 0.0 && b > 0.0 && all > 0.0 && common / all > part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dst, Isa, execute};

    const BOXES: [f32; 24] = [
        0.0, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 0.0, -0.1, 1.0, 0.9, 0.0, 10.0, 1.0, 11.0, 0.0, 10.1, 1.0, 11.1, 0.0,
        100.0, 1.0, 101.0,
    ];
    const SCORES: [f32; 6] = [0.9, 0.75, 0.6, 0.95, 0.5, 0.3];

    fn run(limit: Option<i64>, threshold: f32, room: usize) -> Result<std::vec::Vec<i64>, Fault> {
        let (limits, overlap, thresholds) = ([limit.unwrap_or(0)], [0.5f32], [threshold]);
        let reads = [
            Some(Src::from_slice(&BOXES, &[1, 6, 4])?),
            Some(Src::from_slice(&SCORES, &[1, 1, 6])?),
            limit.map(|_| Src::from_slice(&limits, &[1])).transpose()?,
            Some(Src::from_slice(&overlap, &[])?),
            Some(Src::from_slice(&thresholds, &[1])?),
        ];
        let mut out = std::vec![-1i64; room * 3];
        let mut writes = [Some(Dst::from_slice(&mut out, &[room, 3])?)];
        let (mut memory, mut count) = ([0u8; 32], [0i64]);
        let p = NonMaxSuppression { center_point_box: false };
        execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut memory, &mut count, Isa::detect()))?;
        Ok(out.chunks(3).take(count[0] as usize).map(|row| row[2]).collect())
    }

    #[test]
    fn overlapping_boxes_are_dropped() {
        assert_eq!(run(Some(3), 0.0, 6).unwrap(), [3, 0, 5]);
        assert_eq!(run(Some(2), 0.0, 6).unwrap(), [3, 0]);
        assert_eq!(run(Some(30), 0.4, 6).unwrap(), [3, 0]);
        assert_eq!(run(None, 0.0, 6).unwrap(), [] as [i64; 0]);
        assert_eq!(run(Some(3), 0.0, 2), Err(Fault::Capacity { needed: 3, planned: 2 }));
    }

    #[test]
    fn corners_in_any_order_and_centres() {
        assert_eq!(corners(&[1.0, 2.0, 0.0, 0.0], 0, false), [0.0, 0.0, 1.0, 2.0]);
        assert_eq!(corners(&[1.0, 2.0, 2.0, 2.0], 0, true), [0.0, 1.0, 2.0, 3.0]);
        assert!(!overlaps([0.0; 4], [0.0; 4], 0.0));
        assert!(!overlaps([0.0, 0.0, f32::NAN, 1.0], [0.0, 0.0, 1.0, 1.0], 0.0));
    }
}

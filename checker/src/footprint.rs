//! The bytes that a tensor covers: a box with strides.

use plan::{DType, MAX_RANK};

/// One axis of a box: how many, how far apart in bytes.
type Axis = (u64, u64);

/// The bytes of a tensor in its space: runs of `run` bytes, repeated along axes, outermost first. Every stride is at least the
/// extent of what lies within.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
    /// Bytes in one piece; 0: the tensor is empty.
    pub run: u64,
    axes: Vec<Axis>,
    /// Two elements share bytes; the box is then only a hull.
    pub folded: bool,
    /// The elements lie in row-major order with nothing between.
    pub contiguous: bool,
}

/// Why a tensor has no footprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misplaced {
    /// It begins before its buffer.
    Before,
    /// Its bytes cannot be counted.
    Overflow,
    /// Elements of less than a byte do not begin or step at a whole byte.
    Packed,
}

impl Footprint {
    /// The footprint of a tensor whose first element is `offset` elements after byte `base`. `strides` in elements; none:
    /// row-major. Extents must not be negative.
    pub fn new(
        dtype: DType,
        dims: &[i64],
        strides: Option<&[i64]>,
        offset: i64,
        base: u64,
    ) -> Result<Footprint, Misplaced> {
        let contiguous = strides.is_none_or(|s| is_row_major(dims, s));
        if dims.contains(&0) {
            return Ok(Footprint { start: base, end: base, run: 0, axes: Vec::new(), folded: false, contiguous: true });
        }
        let count = dims.iter().try_fold(1i64, |n, d| n.checked_mul(*d)).ok_or(Misplaced::Overflow)?;
        if contiguous {
            return Self::flat(dtype, count, offset, base);
        }
        let size = dtype.size().ok_or(Misplaced::Packed)? as i128;
        let (mut low, mut high) = (i128::from(offset), i128::from(offset));
        let mut axes: Vec<Axis> = Vec::with_capacity(MAX_RANK);
        for (d, s) in dims.iter().zip(strides.unwrap_or(&[])) {
            let reach = i128::from(*d - 1) * i128::from(*s);
            (low, high) = (low + reach.min(0), high + reach.max(0));
            if *d > 1 && *s != 0 {
                let stride = u64::try_from(i128::from(s.unsigned_abs()) * size).map_err(|_| Misplaced::Overflow)?;
                axes.push((d.unsigned_abs(), stride));
            }
        }
        if low < 0 {
            return Err(Misplaced::Before);
        }
        let byte = |elements: i128| -> Result<u64, Misplaced> {
            let bytes = elements.checked_mul(size).and_then(|b| u64::try_from(b).ok()).ok_or(Misplaced::Overflow)?;
            base.checked_add(bytes).filter(|b| *b < 1 << 62).ok_or(Misplaced::Overflow)
        };
        let (start, end) = (byte(low)?, byte(high + 1)?);
        axes.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(b.0.cmp(&a.0)));
        Ok(Self::folded_up(start, end, size as u64, axes))
    }

    fn flat(dtype: DType, count: i64, offset: i64, base: u64) -> Result<Footprint, Misplaced> {
        let bits = dtype.bits() as i128;
        let first = i128::from(offset) * bits;
        if first < 0 {
            return Err(Misplaced::Before);
        }
        if first % 8 != 0 {
            return Err(Misplaced::Packed);
        }
        let run = u64::try_from((i128::from(count) * bits + 7) / 8).map_err(|_| Misplaced::Overflow)?;
        let start = u64::try_from(first / 8).ok().and_then(|f| base.checked_add(f)).ok_or(Misplaced::Overflow)?;
        let end = start.checked_add(run).filter(|e| *e < 1 << 62).ok_or(Misplaced::Overflow)?;
        Ok(Footprint { start, end, run, axes: Vec::new(), folded: false, contiguous: true })
    }

    /// Merges axes that lie without gap; a box that overlaps itself becomes its hull.
    fn folded_up(start: u64, end: u64, size: u64, axes: Vec<Axis>) -> Footprint {
        let (mut run, mut inner): (u64, Vec<Axis>) = (size, Vec::new());
        let mut extent = size;
        for (count, stride) in axes.into_iter().rev() {
            if stride < extent {
                let run = end - start;
                return Footprint { start, end, run, axes: Vec::new(), folded: true, contiguous: false };
            }
            match inner.last_mut() {
                None if stride == run => run = run.saturating_mul(count),
                Some(last) if last.0.checked_mul(last.1) == Some(stride) => last.0 = last.0.saturating_mul(count),
                _ => inner.push((count, stride)),
            }
            extent = stride.saturating_mul(count - 1).saturating_add(extent);
        }
        inner.reverse();
        Footprint { start, end, run, axes: inner, folded: false, contiguous: false }
    }

    /// The bytes `from..to` in one piece.
    pub fn range(from: u64, to: u64) -> Footprint {
        Footprint {
            start: from,
            end: to,
            run: to.saturating_sub(from),
            axes: Vec::new(),
            folded: false,
            contiguous: true,
        }
    }

    /// All bytes from the first to the last.
    pub fn hull(&self) -> Footprint {
        if self.is_empty() { self.clone() } else { Self::range(self.start, self.end) }
    }

    /// Whether it covers no byte.
    pub fn is_empty(&self) -> bool {
        self.run == 0
    }

    /// How many pieces it consists of.
    pub fn pieces(&self) -> u64 {
        self.axes.iter().fold(1, |n, (count, _)| n.saturating_mul(*count))
    }

    /// Calls `f` with the first byte of each piece.
    pub fn for_each_piece(&self, f: &mut dyn FnMut(u64)) {
        if self.is_empty() {
            return;
        }
        let mut index = vec![0u64; self.axes.len()];
        let mut at = self.start;
        loop {
            f(at);
            // The innermost axis that has a place left; those within it begin again.
            let advanced = index.iter_mut().zip(&self.axes).rev().any(|(i, (count, stride))| {
                *i += 1;
                if *i < *count {
                    at += stride;
                    return true;
                }
                at -= stride * (count - 1);
                *i = 0;
                false
            });
            if !advanced {
                return;
            }
        }
    }

    /// Whether it covers any of the bytes `from..to`.
    pub fn meets(&self, from: u64, to: u64) -> bool {
        !self.is_empty() && from < to && meets(&self.axes, self.run, self.start, from, to)
    }

    /// Whether two footprints share a byte. Where that would take too long to find out, it is assumed.
    pub fn overlaps(&self, other: &Footprint) -> bool {
        if self.is_empty() || other.is_empty() || self.end <= other.start || other.end <= self.start {
            return false;
        }
        let (few, many) = if self.pieces() <= other.pieces() { (self, other) } else { (other, self) };
        if few.pieces() > 4096 {
            return true;
        }
        let mut hit = false;
        few.for_each_piece(&mut |at| hit = hit || many.meets(at, at + few.run));
        hit
    }
}

fn is_row_major(dims: &[i64], strides: &[i64]) -> bool {
    let mut step = 1i64;
    for (d, s) in dims.iter().zip(strides).rev() {
        if *d > 1 {
            if *s != step {
                return false;
            }
            step = step.saturating_mul(*d);
        }
    }
    true
}

/// Whether pieces of `run` bytes along `axes` from `start` meet `from..to`. At most two indices of an axis can meet it in
/// part; any between lie in it whole.
fn meets(axes: &[Axis], run: u64, start: u64, from: u64, to: u64) -> bool {
    let Some(((count, stride), inner)) = axes.split_first() else {
        return start < to && start.saturating_add(run) > from;
    };
    let extent = inner.iter().fold(run, |e, (c, s)| e.saturating_add(s.saturating_mul(c - 1)));
    if start >= to {
        return false;
    }
    let last = ((to - 1 - start) / stride).min(count - 1);
    // The first index whose extent ends after `from`.
    let first = if start.saturating_add(extent) > from { 0 } else { (from - start - extent) / stride + 1 };
    if first > last {
        return false;
    }
    last - first > 1
        || meets(inner, run, start.saturating_add(first.saturating_mul(*stride)), from, to)
        || (last > first && meets(inner, run, start.saturating_add(last.saturating_mul(*stride)), from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte of a tensor, one element at a time.
    fn bytes(dims: &[i64], strides: &[i64], offset: i64, size: i64) -> Vec<u64> {
        let mut all = Vec::new();
        let n: i64 = dims.iter().product();
        for mut i in 0..n {
            let mut at = offset;
            for (d, s) in dims.iter().zip(strides).rev() {
                at += i % d * s;
                i /= d;
            }
            (0..size).for_each(|b| all.push((at * size + b) as u64));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    fn check(dims: &[i64], strides: &[i64], offset: i64) {
        let f = Footprint::new(DType::I16, dims, Some(strides), offset, 0).unwrap();
        let want = bytes(dims, strides, offset, 2);
        assert_eq!((f.start, f.end), (want[0], want[want.len() - 1] + 1));
        if !f.folded {
            let mut got = Vec::new();
            f.for_each_piece(&mut |at| got.extend(at..at + f.run));
            got.sort_unstable();
            assert_eq!(got, want, "{dims:?} {strides:?}");
            for from in 0..f.end + 2 {
                for to in from + 1..f.end + 3 {
                    assert_eq!(f.meets(from, to), want.iter().any(|b| (from..to).contains(b)), "{from}..{to} of {f:?}");
                }
            }
        }
    }

    /// Row B1. Boxes with any strides, negative ones and gaps among them, cover what their elements cover.
    #[test]
    fn boxes_cover_what_their_elements_cover() {
        check(&[2, 3], &[3, 1], 0);
        check(&[2, 3], &[5, 1], 1);
        check(&[3, 2], &[1, 3], 0);
        check(&[2, 2, 2], &[12, 4, 1], 2);
        check(&[2, 2, 3], &[13, 6, 2], 0);
        check(&[4], &[-2], 7);
        check(&[2, 4], &[0, 3], 1);
        check(&[3, 3], &[1, 1], 0);
        check(&[2, 1, 3], &[-7, 100, 1], 8);
    }

    /// Row B1. The first byte is one of the root; offsets do not overflow, parts of bytes are none, what is empty is nowhere.
    #[test]
    fn a_view_may_end_with_its_buffer_but_not_begin_before_it() {
        let f = Footprint::new(DType::F32, &[4], Some(&[-1]), 3, 64).unwrap();
        assert_eq!((f.start, f.end), (64, 80));
        assert_eq!(Footprint::new(DType::F32, &[4], Some(&[-1]), 2, 64), Err(Misplaced::Before));
        assert_eq!(Footprint::new(DType::F32, &[i64::MAX, 8], None, 0, 0), Err(Misplaced::Overflow));
        assert_eq!(Footprint::new(DType::I4, &[3], None, 1, 0), Err(Misplaced::Packed));
        assert_eq!(Footprint::new(DType::I4, &[3], None, 2, 0).map(|f| (f.start, f.end)), Ok((1, 3)));
        assert!(Footprint::new(DType::F32, &[0, 8], None, 0, 0).is_ok_and(|f| f.is_empty()));
    }
}

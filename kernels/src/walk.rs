//! Going through strided operands of equal dims: axes that lie together in all of them are joined, and what is left is rows.

use plan::MAX_RANK;

/// The rows of `N` operands over the same extents.
#[derive(Clone, Copy, Debug)]
pub struct Walk<const N: usize> {
    /// Axes left after joining, at least one.
    rank: usize,
    dims: [usize; MAX_RANK],
    strides: [[isize; N]; MAX_RANK],
}

impl<const N: usize> Walk<N> {
    /// A walk along one axis.
    pub fn line(len: usize, strides: [isize; N]) -> Self {
        let mut walk = Walk { rank: 1, dims: [1; MAX_RANK], strides: [[0; N]; MAX_RANK] };
        walk.dims[0] = len;
        walk.strides[0] = strides;
        walk
    }

    /// A walk in row-major order. Each operand gives its strides, one for each of `dims`; missing ones count as 0.
    pub fn new(dims: &[usize], operands: [&[isize]; N]) -> Self {
        let mut walk = Self::gather(dims, operands);
        walk.join();
        walk
    }

    /// A walk in whatever order suits operand 0: along its smallest strides first.
    pub fn any_order(dims: &[usize], operands: [&[isize]; N]) -> Self {
        let mut walk = Self::gather(dims, operands);
        // Insertion sort, stable: mostly there is nothing to move.
        for i in 1..walk.rank {
            let mut j = i;
            while j > 0 && walk.strides[j - 1][0].unsigned_abs() < walk.strides[j][0].unsigned_abs() {
                walk.strides.swap(j - 1, j);
                walk.dims.swap(j - 1, j);
                j -= 1;
            }
        }
        walk.join();
        walk
    }

    /// The axes with more than one index.
    fn gather(dims: &[usize], operands: [&[isize]; N]) -> Self {
        let mut walk = Walk { rank: 0, dims: [1; MAX_RANK], strides: [[0; N]; MAX_RANK] };
        for (axis, dim) in dims.iter().enumerate().take(MAX_RANK) {
            if *dim != 1 {
                walk.dims[walk.rank] = *dim;
                walk.strides[walk.rank] = operands.map(|s| s.get(axis).copied().unwrap_or(0));
                walk.rank += 1;
            }
        }
        if walk.rank == 0 {
            walk.rank = 1;
            walk.strides[0] = [1; N];
        }
        walk
    }

    /// Joins neighbouring axes that all operands run through in one stride.
    fn join(&mut self) {
        let mut kept = 0;
        for axis in 1..self.rank {
            let dim = self.dims[axis];
            let together = (0..N).all(|i| {
                self.strides[axis][i].checked_mul(dim as isize).is_some_and(|step| step == self.strides[kept][i])
            });
            if together {
                self.dims[kept] = self.dims[kept].saturating_mul(dim);
            } else {
                kept += 1;
                self.dims[kept] = dim;
            }
            self.strides[kept] = self.strides[axis];
        }
        self.rank = kept + 1;
    }

    /// Joined extents, the row last; at least one.
    pub fn dims(&self) -> &[usize] {
        self.dims.get(..self.rank).unwrap_or(&[])
    }

    /// The strides of joined axis `axis`, for each operand.
    pub fn strides(&self, axis: usize) -> &[isize; N] {
        &self.strides[axis.min(MAX_RANK - 1)]
    }

    /// Elements of a row.
    pub fn row(&self) -> usize {
        self.dims[self.rank - 1]
    }

    /// Each operand's stride along a row.
    pub fn row_strides(&self) -> [isize; N] {
        self.strides[self.rank - 1]
    }

    /// All elements.
    pub fn len(&self) -> usize {
        self.dims().iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.dims().contains(&0)
    }

    /// Calls `f` with each operand's offset of the first element of every row, in order.
    ///
    /// # Errors
    /// The first error of `f`, which ends the walk.
    #[inline(always)]
    pub fn rows<E>(&self, f: impl FnMut([isize; N]) -> Result<(), E>) -> Result<(), E> {
        self.outer(1, f)
    }

    /// As [`Walk::rows`], for planes of the last two axes.
    ///
    /// # Errors
    /// The first error of `f`, which ends the walk.
    #[inline(always)]
    pub fn planes<E>(&self, f: impl FnMut([isize; N]) -> Result<(), E>) -> Result<(), E> {
        self.outer(2, f)
    }

    #[inline(always)]
    fn outer<E>(&self, inner: usize, mut f: impl FnMut([isize; N]) -> Result<(), E>) -> Result<(), E> {
        if self.is_empty() {
            return Ok(());
        }
        let axes = self.rank.saturating_sub(inner);
        let mut index = [0usize; MAX_RANK];
        let mut at = [0isize; N];
        loop {
            f(at)?;
            let mut axis = axes;
            loop {
                if axis == 0 {
                    return Ok(());
                }
                axis -= 1;
                index[axis] += 1;
                if index[axis] < self.dims[axis] {
                    for (a, s) in at.iter_mut().zip(self.strides[axis]) {
                        *a += s;
                    }
                    break;
                }
                index[axis] = 0;
                for (a, s) in at.iter_mut().zip(self.strides[axis]) {
                    *a -= s * (self.dims[axis] as isize - 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn all<const N: usize>(walk: &Walk<N>) -> Vec<[isize; N]> {
        let mut out = Vec::new();
        let steps = walk.row_strides();
        walk.rows(|at| {
            for i in 0..walk.row() as isize {
                out.push(core::array::from_fn(|k| at[k] + steps[k] * i));
            }
            Ok::<(), ()>(())
        })
        .unwrap();
        out
    }

    #[test]
    fn contiguous_axes_become_one_row() {
        let walk = Walk::new(&[2, 3, 1, 4], [&[12, 4, 9, 1], &[12, 4, 4, 1]]);
        assert_eq!((walk.dims(), walk.row_strides()), (&[24][..], [1, 1]));
    }

    #[test]
    fn order_is_row_major() {
        let walk = Walk::new(&[2, 3, 2], [&[1, 2, -6], &[0, 5, 0]]);
        let want: Vec<[isize; 2]> =
            (0..2).flat_map(|a| (0..3).flat_map(move |b| (0..2).map(move |c| [a + 2 * b - 6 * c, 5 * b]))).collect();
        assert_eq!(all(&walk), want);
    }

    #[test]
    fn any_order_follows_the_first_operand() {
        let walk = Walk::any_order(&[2, 3, 4], [&[3, 1, 6], &[3, 1, 6]]);
        assert_eq!(walk.dims(), &[24]);
    }

    #[test]
    fn scalars_and_nothing() {
        assert_eq!(all(&Walk::new(&[], [&[], &[]])), [[0, 0]]);
        assert!(all(&Walk::new(&[3, 0], [&[1, 1], &[1, 1]])).is_empty());
    }
}

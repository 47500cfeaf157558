//! Selections whose extent may depend on the data.

use super::MapExtents;
use crate::Filler;

params! {
/// The largest or smallest `k` (the extent of `w0`) of `r0` along an axis: `w0` values, `w1` indices (i64). Of equals the
/// first index wins.
pub struct TopK {
    /// The axis.
    pub axis: u8,
    /// Largest, else smallest.
    pub largest: bool,
    /// In order of value (else in any; ours is in order all the same).
    pub sorted: bool,
}

/// The distinct elements (or slices along an axis) of `r0`. Writes `w0`: values, `w1?`: first indices, `w2?`: inverse indices,
/// `w3?`: counts (i64). Defines one symbol: how many there are. The writes have room for the extent of the axis; of `w0` (along
/// the axis), `w1` and `w3` the first so many are written.
pub struct Unique {
    /// The axis, or none: the flattened elements.
    pub axis: Option<u8>,
    /// In ascending order, else by first appearance.
    pub sorted: bool,
}

/// The indices of elements that are not zero: `w0` (i64) `[rank, room]`, of which the first columns are written. Defines their
/// count.
pub struct NonZero {}

/// Slices of `r0` along an axis where `r1` (bool) is true. `w0` has room along the axis; the first slices are written. Defines
/// their count.
pub struct Compress {
    /// The axis, or none: the flattened elements.
    pub axis: Option<u8>,
}

/// Boxes kept by non-maximum suppression. `r0`: boxes `[batch, n, 4]`; `r1`: scores `[batch, class, n]`; `r2?`: limit per class
/// (i64 scalar); `r3?`: IoU threshold; `r4?`: score threshold. `w0` (i64) `[room, 3]`, of which the first
/// rows are written. Defines their count.
pub struct NonMaxSuppression {
    /// Boxes are centre and size, else two corners.
    pub center_point_box: bool,
}
}

fixed!(TopK, Unique, NonZero, Compress, NonMaxSuppression);

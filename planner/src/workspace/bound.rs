//! Bounds on sizes: known, zero among them, or not to be had, and why.

use crate::shape::Exprs;
use kernels::Fault;
use plan::ExprId;
use std::fmt;
use std::str::FromStr;

/// A number of bytes, or why there is none. Zero is a number: nothing is taken for zero that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// So many bytes.
    Known(u64),
    /// Nobody can tell, for this reason.
    Unavailable(String),
}

impl Bound {
    /// The number of bytes.
    pub fn known(&self) -> Option<u64> {
        match self {
            Bound::Known(bytes) => Some(*bytes),
            Bound::Unavailable(_) => None,
        }
    }

    /// Whether nothing is needed, and that is known.
    pub fn is_zero(&self) -> bool {
        *self == Bound::Known(0)
    }

    /// Room for both at once.
    #[must_use]
    pub fn plus(&self, other: &Bound) -> Bound {
        match (self, other) {
            (Bound::Known(a), Bound::Known(b)) => a.checked_add(*b).map_or_else(Bound::overflow, Bound::Known),
            (Bound::Unavailable(_), _) => self.clone(),
            (_, Bound::Unavailable(_)) => other.clone(),
        }
    }

    /// Room for either.
    #[must_use]
    pub fn max(self, other: Bound) -> Bound {
        match (&self, &other) {
            (Bound::Known(a), Bound::Known(b)) => Bound::Known(*a.max(b)),
            (Bound::Unavailable(_), _) => self,
            (_, Bound::Unavailable(_)) => other,
        }
    }

    fn overflow() -> Bound {
        Bound::Unavailable("its size exceeds 64 bits".to_owned())
    }
}

/// What stands before a reason in the text form.
const UNAVAILABLE: &str = "unavailable: ";

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Known(bytes) => write!(f, "{bytes}"),
            Bound::Unavailable(reason) => write!(f, "{UNAVAILABLE}{reason}"),
        }
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Bound, String> {
        match text.strip_prefix(UNAVAILABLE) {
            Some(reason) => Ok(Bound::Unavailable(reason.to_owned())),
            None => text.parse().map(Bound::Known).map_err(|_| format!("`{text}` is no number of bytes")),
        }
    }
}

/// How a size depends on its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// It never shrinks when an extent grows.
    NeverShrinks,
    /// It may shrink.
    Any,
}

/// Ranges of up to this many points are looked at point by point.
const POINTS: i64 = 512;

/// The largest of a size over the range of its extents. A range of few points is enumerated, so that nothing has to be known of the
/// size, and extents that depend on each other do not count as if all could be largest at once. Over a larger range a size that
/// never shrinks is largest where each extent is; any other has no bound: one point of it tells nothing of the rest.
pub fn over_range(
    exprs: &Exprs,
    extents: &[ExprId],
    growth: Growth,
    mut size: impl FnMut(&[i64]) -> Result<u64, Fault>,
) -> Bound {
    let (mut largest, mut refused) = (None::<u64>, None::<Fault>);
    let seen = exprs.each_point(extents, POINTS, |values| match size(values) {
        Ok(bytes) => largest = largest.max(Some(bytes)),
        // What the kernel refuses at its entry there needs nothing there; what no number holds is another matter.
        Err(fault) if refused != Some(Fault::Extent) => refused = Some(fault),
        Err(_) => {}
    });
    match (seen, growth) {
        (Some(()), _) => {}
        (None, Growth::NeverShrinks) => {
            let Some(corner) = extents.iter().map(|e| exprs.maximum(*e)).collect::<Option<Vec<i64>>>() else {
                return Bound::Unavailable("an extent that nothing bounds".to_owned());
            };
            (largest, refused) = match size(&corner) {
                Ok(bytes) => (Some(bytes), None),
                Err(fault) => (None, Some(fault)),
            };
        }
        (None, Growth::Any) => {
            return Bound::Unavailable(format!("its size may shrink, and the range has more than {POINTS} points"));
        }
    }
    match (largest, refused) {
        (_, Some(fault @ Fault::Extent)) | (None, Some(fault)) => Bound::Unavailable(fault.to_string()),
        (Some(bytes), _) => Bound::Known(bytes),
        (None, None) => Bound::Unavailable("the range has no points".to_owned()),
    }
}

//! Extents that generated code computes: integers that may be unknown.

use crate::{Error, Fault, TensorProblem};
use core::ops::{Add, Mul, Sub};

/// An integer, or nothing: after an overflow, a division by zero, or before a symbol has its value. Nothing stays nothing
/// through arithmetic, and is a [`Fault`] where the integer is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Size(Option<i64>);

/// A known extent.
pub const fn size(value: i64) -> Size {
    Size(Some(value))
}

impl Size {
    /// No integer.
    pub const UNKNOWN: Size = Size(None);

    /// The integer.
    ///
    /// # Errors
    /// [`Fault::Extent`] where there is none.
    pub const fn get(self) -> Result<i64, Fault> {
        match self.0 {
            Some(value) => Ok(value),
            None => Err(Fault::Extent),
        }
    }

    /// The integer as an extent.
    ///
    /// # Errors
    /// [`Fault::Extent`] where there is none, or it is negative.
    pub fn extent(self) -> Result<usize, Fault> {
        self.0.and_then(|v| usize::try_from(v).ok()).ok_or(Fault::Extent)
    }

    /// The integer as the bytes of a buffer that never needs more than `most`, which it has where there is no integer.
    ///
    /// # Errors
    /// [`Fault::Extent`] where it is negative, [`Fault::Capacity`] where it is larger.
    pub fn bytes(self, most: usize) -> Result<usize, Fault> {
        let Some(value) = self.0 else { return Ok(most) };
        let needed = usize::try_from(value).map_err(|_| Fault::Extent)?;
        if needed > most { Err(Fault::Capacity { needed, planned: most }) } else { Ok(needed) }
    }

    /// The quotient, rounded towards minus infinity.
    #[must_use]
    pub fn floor_div(self, by: Size) -> Size {
        self.with(by, floor_div)
    }

    /// The quotient, rounded towards plus infinity.
    #[must_use]
    pub fn ceil_div(self, by: Size) -> Size {
        self.with(by, |a, b| floor_div(a.checked_neg()?, b)?.checked_neg())
    }

    /// What the quotient rounded towards minus infinity leaves.
    #[must_use]
    pub fn modulo(self, by: Size) -> Size {
        self.with(by, |a, b| a.checked_sub(b.checked_mul(floor_div(a, b)?)?))
    }

    /// The smaller.
    #[must_use]
    pub fn min(self, other: Size) -> Size {
        self.with(other, |a, b| Some(a.min(b)))
    }

    /// The larger.
    #[must_use]
    pub fn max(self, other: Size) -> Size {
        self.with(other, |a, b| Some(a.max(b)))
    }

    /// 1 where both are equal, else 0.
    #[must_use]
    pub fn equal(self, other: Size) -> Size {
        self.with(other, |a, b| Some(i64::from(a == b)))
    }

    /// 1 where this is smaller, else 0.
    #[must_use]
    pub fn less(self, other: Size) -> Size {
        self.with(other, |a, b| Some(i64::from(a < b)))
    }

    /// `then` where this is not 0, else `otherwise`.
    #[must_use]
    pub fn select(self, then: Size, otherwise: Size) -> Size {
        match self.0 {
            Some(0) => otherwise,
            Some(_) => then,
            None => Size::UNKNOWN,
        }
    }

    fn with(self, other: Size, f: impl FnOnce(i64, i64) -> Option<i64>) -> Size {
        Size(self.0.zip(other.0).and_then(|(a, b)| f(a, b)))
    }
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { q.checked_sub(1)? } else { q })
}

macro_rules! operators {
    ($($op:ident $method:ident $checked:ident),*) => { $(
        impl $op for Size {
            type Output = Size;
            fn $method(self, other: Size) -> Size {
                self.with(other, i64::$checked)
            }
        }
        impl $op<i64> for Size {
            type Output = Size;
            fn $method(self, other: i64) -> Size {
                self.with(size(other), i64::$checked)
            }
        }
    )* };
}
operators!(Add add checked_add, Sub sub checked_sub, Mul mul checked_mul);

/// The value of a free dim, after checking that it is one of those planned for.
///
/// # Errors
/// An envelope violation.
pub fn entry(symbol: &'static str, value: usize, lo: i64, hi: i64, step: i64) -> Result<Size, Error> {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    let on_step = value.checked_sub(lo).and_then(|d| d.checked_rem(step)) == Some(0);
    if (lo..=hi).contains(&value) && on_step {
        Ok(size(value))
    } else {
        Err(Error::envelope(symbol, value, lo, hi, step))
    }
}

/// Checks that a dim of an input has the value that other dims give it.
///
/// # Errors
/// A tensor error.
pub fn same(name: &'static str, axis: usize, found: usize, wanted: Size) -> Result<(), Error> {
    let wanted = wanted.get().map_err(|fault| Error::extent(name, fault))?;
    let found = i64::try_from(found).unwrap_or(i64::MAX);
    if found == wanted { Ok(()) } else { Err(Error::tensor(name, TensorProblem::Dim { axis, found, wanted })) }
}

/// Checks that two extents are equal.
///
/// # Errors
/// A guard error.
pub fn guard_equal(what: &'static str, left: Size, right: Size) -> Result<(), Error> {
    guard(what, left, "=", right, |a, b| a == b)
}

/// Checks that an extent is at most another.
///
/// # Errors
/// A guard error.
pub fn guard_at_most(what: &'static str, left: Size, right: Size) -> Result<(), Error> {
    guard(what, left, "<=", right, |a, b| a <= b)
}

fn guard(
    what: &'static str,
    left: Size,
    relation: &'static str,
    right: Size,
    holds: fn(i64, i64) -> bool,
) -> Result<(), Error> {
    let value = |side: Size| side.get().map_err(|fault| Error::extent(what, fault));
    let (left, right) = (value(left)?, value(right)?);
    if holds(left, right) { Ok(()) } else { Err(Error::guard(what, left, relation, right)) }
}

/// The value of a symbol that a step found, after checking that the plan has room for it.
///
/// # Errors
/// [`Fault::Capacity`].
pub fn found(value: i64, lo: i64, hi: i64) -> Result<Size, Fault> {
    if (lo..=hi).contains(&value) { Ok(size(value)) } else { Err(no_room(value, hi)) }
}

/// The fault of a plan that has no room for what the data asks.
pub fn no_room(needed: i64, planned: i64) -> Fault {
    let count = |v: i64| usize::try_from(v).unwrap_or(0);
    Fault::Capacity { needed: count(needed), planned: count(planned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_plan() {
        use plan::{Expr, ExprId, evaluate_all};
        let (a, b) = (ExprId(0), ExprId(1));
        for x in [i64::MIN, -7, -1, 0, 1, 5, i64::MAX] {
            for y in [i64::MIN, -3, -1, 0, 1, 2, i64::MAX] {
                let table = [
                    Expr::Const(x),
                    Expr::Const(y),
                    Expr::Add(a, b),
                    Expr::Sub(a, b),
                    Expr::Mul(a, b),
                    Expr::FloorDiv(a, b),
                    Expr::CeilDiv(a, b),
                    Expr::Mod(a, b),
                    Expr::Min(a, b),
                    Expr::Max(a, b),
                    Expr::Eq(a, b),
                    Expr::Lt(a, b),
                    Expr::Select(a, b, a),
                ];
                let (p, q) = (size(x), size(y));
                let ours = [
                    p,
                    q,
                    p + q,
                    p - q,
                    p * y,
                    p.floor_div(q),
                    p.ceil_div(q),
                    p.modulo(q),
                    p.min(q),
                    p.max(q),
                    p.equal(q),
                    p.less(q),
                    p.select(q, p),
                ];
                assert_eq!(ours.map(|s| s.0).to_vec(), evaluate_all(&table, |_| None), "{x} {y}");
            }
        }
    }

    #[test]
    fn entries_are_checked() {
        assert_eq!(entry("w", 64, 32, 96, 32), Ok(size(64)));
        assert!(entry("w", 65, 32, 96, 32).is_err());
        assert!(entry("w", 128, 32, 96, 32).is_err());
        assert!(same("x", 1, 3, size(3)).is_ok());
        assert!(same("x", 1, 3, Size::UNKNOWN).is_err());
        assert!(guard_at_most("x", size(4), size(3)).is_err());
        assert_eq!((size(7).bytes(8), Size::UNKNOWN.bytes(8)), (Ok(7), Ok(8)));
        assert_eq!(size(9).bytes(8), Err(Fault::Capacity { needed: 9, planned: 8 }));
        assert_eq!(size(-1).bytes(8), Err(Fault::Extent));
        assert_eq!(found(9, 0, 8), Err(Fault::Capacity { needed: 9, planned: 8 }));
    }
}

//! What the options of a build script are given as.

use planner::Fixed;
use std::ops::RangeInclusive;

/// The values of a free dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub(super) lo: i64,
    pub(super) hi: i64,
}

/// The value of an input that never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct FixedValue(pub(super) Fixed);

macro_rules! integers {
    ($($t:ty),*) => { $(
        impl From<$t> for Sizes {
            fn from(value: $t) -> Sizes {
                let value = i64::try_from(value).unwrap_or(i64::MAX);
                Sizes { lo: value, hi: value }
            }
        }
        impl From<RangeInclusive<$t>> for Sizes {
            fn from(range: RangeInclusive<$t>) -> Sizes {
                let bound = |v: $t| i64::try_from(v).unwrap_or(i64::MAX);
                Sizes { lo: bound(*range.start()), hi: bound(*range.end()) }
            }
        }
        impl From<$t> for FixedValue {
            fn from(value: $t) -> FixedValue {
                FixedValue(Fixed::Ints(vec![i64::try_from(value).unwrap_or(i64::MAX)]))
            }
        }
        impl From<&[$t]> for FixedValue {
            fn from(values: &[$t]) -> FixedValue {
                FixedValue(Fixed::Ints(values.iter().map(|v| i64::try_from(*v).unwrap_or(i64::MAX)).collect()))
            }
        }
        impl<const N: usize> From<[$t; N]> for FixedValue {
            fn from(values: [$t; N]) -> FixedValue { FixedValue::from(&values[..]) }
        }
    )* };
}
integers!(i32, i64, u32, u64, usize);

macro_rules! floats {
    ($($t:ty),*) => { $(
        impl From<$t> for FixedValue {
            fn from(value: $t) -> FixedValue { FixedValue(Fixed::Floats(vec![f64::from(value)])) }
        }
        impl From<&[$t]> for FixedValue {
            fn from(values: &[$t]) -> FixedValue {
                FixedValue(Fixed::Floats(values.iter().map(|v| f64::from(*v)).collect()))
            }
        }
        impl<const N: usize> From<[$t; N]> for FixedValue {
            fn from(values: [$t; N]) -> FixedValue { FixedValue::from(&values[..]) }
        }
    )* };
}
floats!(f32, f64);

impl From<bool> for FixedValue {
    fn from(value: bool) -> FixedValue {
        FixedValue(Fixed::Ints(vec![i64::from(value)]))
    }
}

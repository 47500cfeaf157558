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

/// A size as people write it: a number, and perhaps a unit.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let bytes = number.parse::<f64>().ok()? * factor as f64;
    (bytes >= 0.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, wanted) in [
            ("256 KiB", Some(262_144)),
            ("1.5MiB", Some(1_572_864)),
            ("4096", Some(4096)),
            ("3 kB", Some(3000)),
            ("2 apples", None),
            ("KiB", None),
            ("-1", None),
        ] {
            assert_eq!(parse_bytes(text), wanted, "{text}");
        }
    }
}

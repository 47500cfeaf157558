//! Elements as numbers, whatever their type: for comparing and printing, not for computing.

use half::{bf16, f16};
use plan::DType;

/// The value of element `i` of a float tensor, the real and the imaginary part of a complex one; none for other types and
/// beyond the end.
pub fn float(dtype: DType, bytes: &[u8], i: usize) -> Option<(f64, f64)> {
    let real = match dtype {
        DType::F32 => f32::from_le_bytes(chunk(bytes, i)?).into(),
        DType::F64 => f64::from_le_bytes(chunk(bytes, i)?),
        DType::F16 => f16::from_le_bytes(chunk(bytes, i)?).to_f64(),
        DType::BF16 => bf16::from_le_bytes(chunk(bytes, i)?).to_f64(),
        DType::C64 => {
            let part = |k| Some(f64::from(f32::from_le_bytes(chunk(bytes, k)?)));
            return Some((part(i.checked_mul(2)?)?, part(i.checked_mul(2)?.checked_add(1)?)?));
        }
        DType::C128 => {
            let part = |k| Some(f64::from_le_bytes(chunk(bytes, k)?));
            return Some((part(i.checked_mul(2)?)?, part(i.checked_mul(2)?.checked_add(1)?)?));
        }
        DType::F8E4M3FN => small(*bytes.get(i)?, 4, 3, 7, Special::NanOnly),
        DType::F8E4M3FNUZ => small(*bytes.get(i)?, 4, 3, 8, Special::Unsigned),
        DType::F8E5M2 => small(*bytes.get(i)?, 5, 2, 15, Special::Ieee),
        DType::F8E5M2FNUZ => small(*bytes.get(i)?, 5, 2, 16, Special::Unsigned),
        DType::F8E8M0 => match *bytes.get(i)? {
            0xff => f64::NAN,
            e => 2f64.powi(i32::from(e) - 127),
        },
        DType::F4E2M1 => small(packed(bytes, i, 4)?, 2, 1, 1, Special::None),
        _ => return None,
    };
    Some((real, 0.0))
}

/// The value of element `i` of an integer or boolean tensor; none for other types and beyond the end.
pub fn integer(dtype: DType, bytes: &[u8], i: usize) -> Option<i128> {
    Some(match dtype {
        DType::I8 => i8::from_le_bytes(chunk(bytes, i)?).into(),
        DType::I16 => i16::from_le_bytes(chunk(bytes, i)?).into(),
        DType::I32 => i32::from_le_bytes(chunk(bytes, i)?).into(),
        DType::I64 => i64::from_le_bytes(chunk(bytes, i)?).into(),
        DType::U8 | DType::Bool => u8::from_le_bytes(chunk(bytes, i)?).into(),
        DType::U16 => u16::from_le_bytes(chunk(bytes, i)?).into(),
        DType::U32 => u32::from_le_bytes(chunk(bytes, i)?).into(),
        DType::U64 => u64::from_le_bytes(chunk(bytes, i)?).into(),
        DType::U4 => packed(bytes, i, 4)?.into(),
        DType::U2 => packed(bytes, i, 2)?.into(),
        DType::I4 => signed(packed(bytes, i, 4)?, 4),
        DType::I2 => signed(packed(bytes, i, 2)?, 2),
        _ => return None,
    })
}

fn chunk<const N: usize>(bytes: &[u8], i: usize) -> Option<[u8; N]> {
    let start = i.checked_mul(N)?;
    bytes.get(start..start.checked_add(N)?)?.try_into().ok()
}

/// Element `i` of a type of fewer than eight bits; the first lies in the low bits.
fn packed(bytes: &[u8], i: usize, bits: usize) -> Option<u8> {
    let per_byte = 8 / bits;
    let byte = bytes.get(i / per_byte)?;
    Some(byte >> (i % per_byte * bits) & ((1u8 << bits) - 1))
}

fn signed(value: u8, bits: u32) -> i128 {
    let value = i128::from(value);
    if value >= 1 << (bits - 1) { value - (1 << bits) } else { value }
}

/// What the unusual patterns of a small float mean.
#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// All are finite numbers.
    None,
    /// The largest exponent is infinity or NaN.
    Ieee,
    /// All ones are NaN.
    NanOnly,
    /// What would be minus zero is NaN.
    Unsigned,
}

/// A float of one sign bit, `exponent` and `mantissa` bits.
fn small(bits: u8, exponent: u32, mantissa: u32, bias: i32, special: Special) -> f64 {
    let width = exponent + mantissa;
    let negative = u32::from(bits) >> width & 1 == 1;
    let sign = if negative { -1.0 } else { 1.0 };
    let e = u32::from(bits) >> mantissa & ((1 << exponent) - 1);
    let m = u32::from(bits) & ((1 << mantissa) - 1);
    let (all_e, all_m) = (e == (1 << exponent) - 1, m == (1 << mantissa) - 1);
    match special {
        Special::Ieee if all_e && m == 0 => return sign * f64::INFINITY,
        Special::Ieee if all_e => return f64::NAN,
        Special::NanOnly if all_e && all_m => return f64::NAN,
        Special::Unsigned if negative && e == 0 && m == 0 => return f64::NAN,
        _ => {}
    }
    let fraction = f64::from(m) / f64::from(1u32 << mantissa);
    sign * if e == 0 { fraction * 2f64.powi(1 - bias) } else { (1.0 + fraction) * 2f64.powi(e as i32 - bias) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(dtype: DType, byte: u8) -> f64 {
        float(dtype, &[byte], 0).map_or(-99.0, |(r, _)| r)
    }

    #[test]
    fn small_floats() {
        assert_eq!(real(DType::F8E4M3FN, 0x7e), 448.0);
        assert!(real(DType::F8E4M3FN, 0x7f).is_nan());
        assert_eq!(real(DType::F8E4M3FN, 0x01), 2f64.powi(-9));
        assert_eq!(real(DType::F8E4M3FNUZ, 0x7f), 240.0);
        assert!(real(DType::F8E4M3FNUZ, 0x80).is_nan());
        assert_eq!(real(DType::F8E5M2, 0x7b), 57344.0);
        assert_eq!(real(DType::F8E5M2, 0xfc), f64::NEG_INFINITY);
        assert!(real(DType::F8E5M2, 0x7d).is_nan());
        assert_eq!(real(DType::F8E5M2FNUZ, 0x7f), 57344.0);
        assert_eq!(real(DType::F8E8M0, 128), 2.0);
        let fours: Vec<f64> = (0..8).map(|b| real(DType::F4E2M1, b)).collect();
        assert_eq!(fours, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(real(DType::F4E2M1, 0x0f), -6.0);
    }

    #[test]
    fn packed_integers() {
        assert_eq!(integer(DType::I4, &[0xf7], 0), Some(7));
        assert_eq!(integer(DType::I4, &[0xf7], 1), Some(-1));
        assert_eq!(integer(DType::U2, &[0b11_10_01_00], 3), Some(3));
        assert_eq!(integer(DType::I2, &[0b11_10_01_00], 2), Some(-2));
        assert_eq!(integer(DType::U64, &u64::MAX.to_le_bytes(), 0), Some(i128::from(u64::MAX)));
        assert_eq!(integer(DType::I4, &[0xf7], 2), None);
    }

    #[test]
    fn complex_parts() {
        let bytes: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(float(DType::C64, &bytes, 1), Some((3.0, 4.0)));
    }
}

//! The floats of eight and four bits: to and from f32.

use plan::DType;

/// How a small float is laid out: sign, exponent, mantissa.
struct Format {
    mantissa: u32,
    bias: i32,
    /// The largest finite value.
    max: f32,
    /// What is beyond it, and NaN, without the sign where that is kept.
    over: u8,
    nan: u8,
    /// There is neither negative zero nor signed NaN.
    unsigned_zero: bool,
    sign: u8,
}

const E4M3FN: Format =
    Format { mantissa: 3, bias: 7, max: 448.0, over: 0x7f, nan: 0x7f, unsigned_zero: false, sign: 0x80 };
const E4M3FNUZ: Format =
    Format { mantissa: 3, bias: 8, max: 240.0, over: 0x80, nan: 0x80, unsigned_zero: true, sign: 0x80 };
const E5M2: Format =
    Format { mantissa: 2, bias: 15, max: 57344.0, over: 0x7c, nan: 0x7e, unsigned_zero: false, sign: 0x80 };
const E5M2FNUZ: Format =
    Format { mantissa: 2, bias: 16, max: 57344.0, over: 0x80, nan: 0x80, unsigned_zero: true, sign: 0x80 };
// There is no NaN: it becomes negative zero.
const E2M1: Format = Format { mantissa: 1, bias: 1, max: 6.0, over: 7, nan: 8, unsigned_zero: false, sign: 8 };

fn format(dtype: DType) -> Option<&'static Format> {
    Some(match dtype {
        DType::F8E4M3FN => &E4M3FN,
        DType::F8E4M3FNUZ => &E4M3FNUZ,
        DType::F8E5M2 => &E5M2,
        DType::F8E5M2FNUZ => &E5M2FNUZ,
        DType::F4E2M1 => &E2M1,
        _ => return None,
    })
}

/// `2^e` for `e` in -126..=127.
fn exp2(e: i32) -> f32 {
    f32::from_bits(((e + 127) as u32) << 23)
}

/// The code of `x` in the low bits. To nearest, ties to even. With `saturate`, what is too large becomes the largest finite
/// value, else infinity or NaN, as the format has. E8M0 holds powers of two: it rounds magnitudes up, and saturates.
pub fn encode(dtype: DType, x: f32, saturate: bool) -> u8 {
    let Some(f) = format(dtype) else { return encode_e8m0(x) };
    let sign = if x.is_sign_negative() { f.sign } else { 0 };
    let signed = |code: u8| if f.unsigned_zero && code & 0x7f == 0 { code } else { sign | code };
    if x.is_nan() {
        return signed(f.nan);
    }
    let a = x.abs();
    let least = 1 - f.bias;
    let e = ((a.to_bits() >> 23) as i32 - 127).max(least);
    if e <= 16 {
        // In units of the last place; adding 2^23 rounds to an integer.
        let units = a * exp2(f.mantissa as i32 - e);
        let units = (units + 8_388_608.0) - 8_388_608.0;
        if units * exp2(e - f.mantissa as i32) <= f.max {
            return signed((units as u32 + (((e - least) as u32) << f.mantissa)) as u8);
        }
    }
    if !saturate {
        return signed(f.over);
    }
    // The code of the largest value: its exponent and mantissa are those of f32, rebased.
    let bits = f.max.to_bits();
    let code = (bits >> (23 - f.mantissa)) as i32 - ((127 - f.bias) << f.mantissa);
    signed(code as u8)
}

fn encode_e8m0(x: f32) -> u8 {
    if x.is_nan() {
        return 0xff;
    }
    let bits = x.abs().to_bits();
    let (e, rest) = (bits >> 23, bits & 0x7f_ffff);
    if e == 0 {
        // Subnormals: 2^-127 is the least value.
        return u8::from(rest > 0x40_0000);
    }
    (e + u32::from(rest != 0)).min(254) as u8
}

/// The value of a code.
pub fn decode(dtype: DType, code: u8) -> f32 {
    let Some(f) = format(dtype) else {
        return match code {
            0xff => f32::NAN,
            0 => f32::from_bits(0x40_0000),
            e => f32::from_bits(u32::from(e) << 23),
        };
    };
    if f.unsigned_zero && code == f.nan {
        return f32::NAN;
    }
    let magnitude = code & (f.sign - 1);
    let sign = if code & f.sign != 0 { -1.0 } else { 1.0 };
    if dtype == DType::F8E4M3FN && magnitude == 0x7f || dtype == DType::F8E5M2 && magnitude > 0x7c {
        return f32::NAN;
    }
    if dtype == DType::F8E5M2 && magnitude == 0x7c {
        return sign * f32::INFINITY;
    }
    let mantissa = u32::from(magnitude) & ((1 << f.mantissa) - 1);
    let e = i32::from(magnitude >> f.mantissa);
    let units = if e == 0 { mantissa } else { mantissa | 1 << f.mantissa };
    sign * units as f32 * exp2(e.max(1) - f.bias - f.mantissa as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [DType; 6] =
        [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0, DType::F4E2M1];

    fn codes(dtype: DType) -> u32 {
        1 << dtype.bits()
    }

    #[test]
    fn every_code_comes_back() {
        for dtype in ALL {
            for code in 0..codes(dtype) {
                let x = decode(dtype, code as u8);
                if x.is_nan() {
                    assert!(decode(dtype, encode(dtype, x, true)).is_nan());
                } else if x.is_finite() {
                    assert_eq!(encode(dtype, x, true), code as u8, "{dtype} {code:#x} {x}");
                }
            }
        }
    }

    #[test]
    fn rounding_takes_the_nearest() {
        let mut rng = crate::testing::Rng::new(3);
        for dtype in ALL.into_iter().filter(|d| *d != DType::F8E8M0) {
            let values = || (0..codes(dtype)).map(|c| (c, decode(dtype, c as u8))).filter(|v| v.1.is_finite());
            for _ in 0..3000 {
                let x = rng.range(-1.0, 1.0) * exp2(rng.below(24) as i32 - 16);
                let got = decode(dtype, encode(dtype, x, true));
                let best = values().map(|v| (v.1 - x).abs()).fold(f32::INFINITY, f32::min);
                assert_eq!((got - x).abs(), best, "{dtype}: {x} became {got}");
            }
        }
    }

    #[test]
    fn beyond_the_range() {
        assert_eq!(decode(DType::F8E4M3FN, encode(DType::F8E4M3FN, 1e9, true)), 448.0);
        assert!(decode(DType::F8E4M3FN, encode(DType::F8E4M3FN, -1e9, false)).is_nan());
        assert_eq!(decode(DType::F8E5M2, encode(DType::F8E5M2, -1e9, false)), f32::NEG_INFINITY);
        assert_eq!(decode(DType::F8E5M2, encode(DType::F8E5M2, f32::INFINITY, true)), 57344.0);
        assert_eq!(decode(DType::F8E5M2FNUZ, encode(DType::F8E5M2FNUZ, -1e9, true)), -57344.0);
        assert_eq!(encode(DType::F8E4M3FNUZ, -0.0, true), 0);
        assert_eq!(decode(DType::F4E2M1, encode(DType::F4E2M1, -100.0, true)), -6.0);
        assert_eq!(encode(DType::F4E2M1, f32::NAN, true), 8);
        assert_eq!(decode(DType::F8E8M0, encode(DType::F8E8M0, 3.0, true)), 4.0);
    }
}

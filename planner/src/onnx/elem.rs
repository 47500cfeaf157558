//! ONNX element types.

use std::fmt;

macro_rules! elem_types {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $bits:expr;)*) => {
        /// The element type of a tensor: every value of ONNX's `TensorProto.DataType`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ElemType { $($(#[$doc])* $variant = $number,)* }

        impl ElemType {
            /// Every element type.
            pub const ALL: &'static [ElemType] = &[$(ElemType::$variant,)*];

            /// The type with this number in an ONNX file.
            pub fn from_onnx(number: i64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The number in an ONNX file.
            pub fn to_onnx(self) -> i64 {
                self as i64
            }

            /// The name in lower case, as numpy and ONNX's own tools write it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Bits of one element where elements are packed; nothing for strings.
            pub fn bits(self) -> Option<u32> {
                match self { $(Self::$variant => $bits,)* }
            }
        }
    };
}

elem_types! {
    /// IEEE 754 single precision.
    Float32 = 1, "float32", Some(32);
    /// Unsigned 8-bit integer.
    UInt8 = 2, "uint8", Some(8);
    /// Signed 8-bit integer.
    Int8 = 3, "int8", Some(8);
    /// Unsigned 16-bit integer.
    UInt16 = 4, "uint16", Some(16);
    /// Signed 16-bit integer.
    Int16 = 5, "int16", Some(16);
    /// Signed 32-bit integer.
    Int32 = 6, "int32", Some(32);
    /// Signed 64-bit integer.
    Int64 = 7, "int64", Some(64);
    /// Text or bytes of any length.
    String = 8, "string", None;
    /// Truth value, one byte, 0 or 1.
    Bool = 9, "bool", Some(8);
    /// IEEE 754 half precision.
    Float16 = 10, "float16", Some(16);
    /// IEEE 754 double precision.
    Float64 = 11, "float64", Some(64);
    /// Unsigned 32-bit integer.
    UInt32 = 12, "uint32", Some(32);
    /// Unsigned 64-bit integer.
    UInt64 = 13, "uint64", Some(64);
    /// Two single-precision floats: real, imaginary.
    Complex64 = 14, "complex64", Some(64);
    /// Two double-precision floats: real, imaginary.
    Complex128 = 15, "complex128", Some(128);
    /// The upper half of a single-precision float.
    BFloat16 = 16, "bfloat16", Some(16);
    /// 4 exponent and 3 mantissa bits; NaN, no infinity.
    Float8E4M3FN = 17, "float8e4m3fn", Some(8);
    /// 4 exponent and 3 mantissa bits; NaN, no infinity, no negative zero.
    Float8E4M3FNUZ = 18, "float8e4m3fnuz", Some(8);
    /// 5 exponent and 2 mantissa bits; NaN and infinity.
    Float8E5M2 = 19, "float8e5m2", Some(8);
    /// 5 exponent and 2 mantissa bits; NaN, no infinity, no negative zero.
    Float8E5M2FNUZ = 20, "float8e5m2fnuz", Some(8);
    /// Unsigned 4-bit integer, two in a byte, the first in the low bits.
    UInt4 = 21, "uint4", Some(4);
    /// Signed 4-bit integer, two in a byte, the first in the low bits.
    Int4 = 22, "int4", Some(4);
    /// 2 exponent and 1 mantissa bit, two in a byte, the first in the low bits.
    Float4E2M1 = 23, "float4e2m1", Some(4);
    /// A power of two: 8 exponent bits.
    Float8E8M0 = 24, "float8e8m0", Some(8);
    /// Unsigned 2-bit integer, four in a byte, the first in the low bits.
    UInt2 = 25, "uint2", Some(2);
    /// Signed 2-bit integer, four in a byte, the first in the low bits.
    Int2 = 26, "int2", Some(2);
    /// 2 exponent and 3 mantissa bits, four in three bytes, the first in the low bits.
    Float6E2M3 = 27, "float6e2m3", Some(6);
    /// 3 exponent and 2 mantissa bits, four in three bytes, the first in the low bits.
    Float6E3M2 = 28, "float6e3m2", Some(6);
}

impl ElemType {
    /// Bytes of `count` packed elements; nothing for strings and where it does not fit.
    pub fn packed_bytes(self, count: u64) -> Option<u64> {
        Some(count.checked_mul(u64::from(self.bits()?))?.div_ceil(8))
    }
}

impl fmt::Display for ElemType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

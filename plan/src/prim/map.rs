//! Elementwise programs.

use super::MapExtents;
use crate::{DType, Filler, List};

params! {
/// One operation of a [`Map`] on single elements.
///
/// Integer arithmetic wraps. Comparisons and `Is…` give booleans. Types: `num` any real number, `int`, `float`, `bool`.
#[derive(Eq)]
pub enum MapOp {
    /// The constant whose bits are `bits`; no arguments.
    Const,
    /// The first argument converted to `out`. Float to integer truncates and saturates, NaN gives 0; integers wrap; to a
    /// float rounds to nearest even (f8: saturating); anything but 0 is `true`.
    Cast,
    /// As `Cast`, but float to integer and integer to integer rounds to nearest even and saturates; float to f8 and f4 saturates.
    CastSaturate,
    /// As `Cast`, but what is too large for an f8 type becomes infinity or NaN.
    CastNoSaturate,
    /// num
    Neg,
    /// num
    Abs,
    /// num: -1, 0 or 1; NaN stays NaN
    Sign,
    /// float
    Sqrt,
    /// float: `1 / x`
    Reciprocal,
    /// float
    Exp,
    /// float
    Log,
    /// float
    Sin,
    /// float
    Cos,
    /// float
    Tan,
    /// float
    Asin,
    /// float
    Acos,
    /// float
    Atan,
    /// float
    Sinh,
    /// float
    Cosh,
    /// float
    Tanh,
    /// float
    Asinh,
    /// float
    Acosh,
    /// float
    Atanh,
    /// float
    Erf,
    /// float: `1 / (1 + exp(-x))`
    Sigmoid,
    /// float: `ln(1 + exp(x))`
    Softplus,
    /// float
    Floor,
    /// float
    Ceil,
    /// float: to the nearest, halves to even
    Round,
    /// float: towards zero
    Trunc,
    /// num: `max(x, 0)`; NaN stays NaN
    Relu,
    /// float: `x * sigmoid(x)`
    Silu,
    /// float: `x * min(max(x / 6 + 1/2, 0), 1)`
    HardSwish,
    /// float: `x / 2 * (1 + erf(x / sqrt 2))`
    Gelu,
    /// float: the tanh approximation of `Gelu`
    GeluTanh,
    /// bool
    Not,
    /// int
    BitNot,
    /// float
    IsNan,
    /// float: positive infinity
    IsPosInf,
    /// float: negative infinity
    IsNegInf,
    /// num; two arguments from here on
    Add,
    /// num
    Sub,
    /// num
    Mul,
    /// num: integers truncate towards zero, a zero divisor is a fault
    Div,
    /// num: the remainder with the sign of the divisor; an integer zero divisor is a fault
    Mod,
    /// num: the remainder with the sign of the dividend; an integer zero divisor is a fault
    Fmod,
    /// num: `a` to the power of `b`, computed in the type of `a`; integers wrap, a negative power truncates
    Pow,
    /// num: NaN wins
    Min,
    /// num: NaN wins
    Max,
    /// bool
    And,
    /// bool
    Or,
    /// bool
    Xor,
    /// int
    BitAnd,
    /// int
    BitOr,
    /// int
    BitXor,
    /// int: bits shifted out are lost, a shift of all bits or more gives 0
    Shl,
    /// int: the sign fills the bits that become free; a shift of all bits or more leaves only it
    Shr,
    /// num or bool
    Eq,
    /// num
    Lt,
    /// num
    Le,
    /// float: `a` where `a >= 0`, else `a * b`
    Prelu,
    /// any: `b` where `a` (bool) else `c`; three arguments from here on
    Select,
    /// num: `min(max(a, b), c)`; NaN stays NaN
    Clip,
}

/// One instruction of a [`Map`].
#[derive(Eq)]
pub struct MapInstr {
    /// What to do.
    pub op: MapOp,
    /// The type of the arguments (of the second for `Select`).
    pub dtype: DType,
    /// The type of the result.
    pub out: DType,
    /// Registers: `0..reads` are the operands, `reads + i` the result of instruction `i`. Unused ones are 0.
    pub args: [u8; 3],
    /// For `Const`: the bits of the value, in the low bytes.
    pub bits: u64,
}

/// An elementwise program. Reads `r0..`, each broadcast by its view to the dims of `w0`; writes `w0`: the last instruction's
/// result (the operand itself where there is no instruction).
pub struct Map {
    /// The program.
    pub code: List<MapInstr, 32>,
}
}

impl Filler for MapInstr {
    const FILL: Self = MapInstr { op: MapOp::Const, dtype: DType::F32, out: DType::F32, args: [0; 3], bits: 0 };
}

impl MapInstr {
    /// An instruction, for constants.
    pub const fn new(op: MapOp, dtype: DType, out: DType, args: [u8; 3], bits: u64) -> MapInstr {
        MapInstr { op, dtype, out, args, bits }
    }
}

impl MapOp {
    /// How many arguments the operation takes.
    pub const fn arity(self) -> usize {
        match self {
            MapOp::Const => 0,
            MapOp::Select | MapOp::Clip => 3,
            MapOp::Add
            | MapOp::Sub
            | MapOp::Mul
            | MapOp::Div
            | MapOp::Mod
            | MapOp::Fmod
            | MapOp::Pow
            | MapOp::Min
            | MapOp::Max
            | MapOp::And
            | MapOp::Or
            | MapOp::Xor
            | MapOp::BitAnd
            | MapOp::BitOr
            | MapOp::BitXor
            | MapOp::Shl
            | MapOp::Shr
            | MapOp::Eq
            | MapOp::Lt
            | MapOp::Le
            | MapOp::Prelu => 2,
            _ => 1,
        }
    }
}

fixed!(Map);

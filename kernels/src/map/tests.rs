//! Programs against a scalar evaluation in i128 and f64.

use crate::{
    Fault, Isa, small_float,
    testing::{Rng, Tensor, isas, run},
};
use half::{bf16, f16};
use plan::{
    DType, List,
    prim::{Map, MapInstr, MapOp},
};
use std::{vec, vec::Vec};

const INTS: [DType; 8] = [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];
const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

mod fused;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Num {
    I(i128),
    F(f64),
}
use Num::{F, I};

/// The elements in row-major order.
fn numbers(t: &Tensor) -> Vec<Num> {
    let packed = |signed: bool| -> Vec<Num> {
        let bits = t.dtype.bits();
        (0..t.shape.len())
            .map(|i| {
                let code = (t.bytes()[i * bits / 8] >> (i * bits % 8)) & ((1 << bits) - 1);
                match t.dtype {
                    DType::F4E2M1 => F(f64::from(small_float::decode(t.dtype, code))),
                    _ if signed && code >> (bits - 1) != 0 => I(i128::from(code) - (1 << bits)),
                    _ => I(i128::from(code)),
                }
            })
            .collect()
    };
    macro_rules! int {
        ($t:ty) => {
            t.to_vec::<$t>().into_iter().map(|x| I(x as i128)).collect()
        };
    }
    match t.dtype {
        DType::F32 => t.to_vec::<f32>().into_iter().map(|x| F(x.into())).collect(),
        DType::F64 => t.to_vec::<f64>().into_iter().map(F).collect(),
        DType::F16 => t.to_vec::<f16>().into_iter().map(|x| F(x.into())).collect(),
        DType::BF16 => t.to_vec::<bf16>().into_iter().map(|x| F(x.into())).collect(),
        DType::I8 => int!(i8),
        DType::I16 => int!(i16),
        DType::I32 => int!(i32),
        DType::I64 => int!(i64),
        DType::U8 | DType::Bool => int!(u8),
        DType::U16 => int!(u16),
        DType::U32 => int!(u32),
        DType::U64 => int!(u64),
        DType::I4 | DType::I2 => packed(true),
        DType::U4 | DType::U2 | DType::F4E2M1 => packed(false),
        _ => t.to_vec::<u8>().into_iter().map(|c| F(small_float::decode(t.dtype, c).into())).collect(),
    }
}

fn wrap(dtype: DType, x: i128) -> i128 {
    let unused = 128 - dtype.bits() as u32;
    if dtype.is_signed_integer() { (x << unused) >> unused } else { ((x as u128) << unused >> unused) as i128 }
}

fn limits(dtype: DType) -> (i128, i128) {
    let bits = dtype.bits() as u32;
    if dtype.is_signed_integer() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// Random elements, small ones mostly.
fn random(dtype: DType, dims: &[usize], rng: &mut Rng) -> Tensor {
    let n: usize = dims.iter().product();
    macro_rules! draw {
        ($t:ty, $f:expr) => {{
            let data: Vec<$t> = (0..n).map(|_| $f).collect();
            Tensor::with_bits(dtype, &data, dims)
        }};
    }
    let special = |rng: &mut Rng, x: f32| match rng.below(40) {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => f32::NEG_INFINITY,
        3 => -0.0,
        4 => x.round(),
        _ => x,
    };
    match dtype {
        DType::F32 => draw!(f32, {
            let x = rng.range(-5.0, 5.0);
            special(rng, x)
        }),
        DType::F64 => draw!(f64, {
            let x = rng.range(-5.0, 5.0);
            f64::from(special(rng, x))
        }),
        DType::F16 => draw!(f16, {
            let x = rng.range(-5.0, 5.0);
            f16::from_f32(special(rng, x))
        }),
        DType::BF16 => draw!(bf16, {
            let x = rng.range(-5.0, 5.0);
            bf16::from_f32(special(rng, x))
        }),
        DType::Bool => draw!(u8, rng.below(2) as u8),
        _ if dtype.bits() == 8 || dtype.bits() < 8 => {
            let bytes: Vec<u8> = (0..dtype.bytes_of(n).unwrap()).map(|_| rng.next() as u8).collect();
            let mut t = Tensor::zeros(dtype, dims);
            t.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
            t
        }
        _ => {
            let wide: Vec<i64> =
                (0..n).map(|_| if rng.below(4) == 0 { rng.next() as i64 } else { rng.below(9) as i64 - 3 }).collect();
            match dtype.bits() {
                16 => draw!(u16, 0).filled(&wide),
                32 => draw!(u32, 0).filled(&wide),
                _ => draw!(u64, 0).filled(&wide),
            }
        }
    }
}

impl Tensor {
    fn filled(mut self, wide: &[i64]) -> Tensor {
        let size = self.dtype.size().unwrap();
        for (i, x) in wide.iter().enumerate() {
            self.bytes_mut()[i * size..][..size].copy_from_slice(&x.to_le_bytes()[..size]);
        }
        self
    }
}

fn instr(op: MapOp, dtype: DType, out: DType, args: [u8; 3]) -> MapInstr {
    MapInstr { op, dtype, out, args, bits: 0 }
}

fn program(code: &[MapInstr]) -> plan::Primitive<i64> {
    Map { code: List::from_slice(code).unwrap() }.into()
}

/// What an operation on integers gives.
fn integer(op: MapOp, dtype: DType, a: i128, b: i128, c: i128) -> Option<i128> {
    let bits = dtype.bits() as i128;
    Some(match op {
        MapOp::Neg => -a,
        MapOp::Abs => a.abs(),
        MapOp::Sign => a.signum(),
        MapOp::Relu => a.max(0),
        MapOp::BitNot => !a,
        MapOp::Add => a + b,
        MapOp::Sub => a - b,
        MapOp::Mul => a.wrapping_mul(b),
        MapOp::Div => a / b,
        MapOp::Fmod => a % b,
        MapOp::Mod => a - b * a.div_euclid(b) - if b < 0 && a.rem_euclid(b) != 0 { -b } else { 0 },
        MapOp::Min => a.min(b),
        MapOp::Max => a.max(b),
        MapOp::BitAnd => a & b,
        MapOp::BitOr => a | b,
        MapOp::BitXor => a ^ b,
        MapOp::Shl => {
            if (0..bits).contains(&b) {
                a << b
            } else {
                0
            }
        }
        MapOp::Shr => {
            if (0..bits).contains(&b) {
                a >> b
            } else {
                -i128::from(a < 0)
            }
        }
        MapOp::Clip => a.max(b).min(c),
        MapOp::Eq => i128::from(a == b),
        MapOp::Lt => i128::from(a < b),
        MapOp::Le => i128::from(a <= b),
        _ => return None,
    })
}

/// What an operation on floats gives.
fn float(op: MapOp, a: f64, b: f64, c: f64) -> Option<Num> {
    let sigmoid = |x: f64| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) };
    let nan_or = |x: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { x };
    let gated = |y: f64| if a == f64::NEG_INFINITY { 0.0 } else { a * sigmoid(y) };
    let truth = |x: bool| I(i128::from(x));
    Some(F(match op {
        MapOp::Neg => -a,
        MapOp::Abs => a.abs(),
        MapOp::Sign => {
            if a == 0.0 || a.is_nan() {
                a
            } else {
                a.signum()
            }
        }
        MapOp::Sqrt => a.sqrt(),
        MapOp::Reciprocal => 1.0 / a,
        MapOp::Exp => a.exp(),
        MapOp::Log => a.ln(),
        MapOp::Sin => a.sin(),
        MapOp::Cos => a.cos(),
        MapOp::Tan => a.tan(),
        MapOp::Asin => a.asin(),
        MapOp::Acos => a.acos(),
        MapOp::Atan => a.atan(),
        MapOp::Sinh => a.sinh(),
        MapOp::Cosh => a.cosh(),
        MapOp::Tanh => a.tanh(),
        MapOp::Asinh => libm::asinh(a),
        MapOp::Acosh => a.acosh(),
        MapOp::Atanh => libm::atanh(a),
        MapOp::Erf => libm::erf(a),
        MapOp::Sigmoid => sigmoid(a),
        MapOp::Softplus => {
            if a.is_nan() {
                a
            } else {
                a.max(0.0) + (-a.abs()).exp().ln_1p()
            }
        }
        MapOp::Floor => a.floor(),
        MapOp::Ceil => a.ceil(),
        MapOp::Round => a.round_ties_even(),
        MapOp::Trunc => a.trunc(),
        MapOp::Relu => {
            if a < 0.0 {
                0.0
            } else {
                a
            }
        }
        MapOp::Silu => gated(a),
        MapOp::HardSwish => a * (a / 6.0 + 0.5).clamp(0.0, 1.0),
        MapOp::Gelu => {
            if a == f64::NEG_INFINITY {
                0.0
            } else {
                a / 2.0 * libm::erfc(-a / 2f64.sqrt())
            }
        }
        MapOp::GeluTanh => gated(2.0 * (2.0 / core::f64::consts::PI).sqrt() * (a + 0.044715 * a * a * a)),
        MapOp::Add => a + b,
        MapOp::Sub => a - b,
        MapOp::Mul => a * b,
        MapOp::Div => a / b,
        MapOp::Mod => {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        }
        MapOp::Fmod => a % b,
        MapOp::Pow => a.powf(b),
        MapOp::Min => nan_or(a.min(b)),
        MapOp::Max => nan_or(a.max(b)),
        MapOp::Prelu => {
            if a < 0.0 {
                a * b
            } else {
                a
            }
        }
        MapOp::Clip => {
            let low = if b > a { b } else { a };
            if c < low { c } else { low }
        }
        MapOp::IsNan => return Some(truth(a.is_nan())),
        MapOp::IsPosInf => return Some(truth(a == f64::INFINITY)),
        MapOp::IsNegInf => return Some(truth(a == f64::NEG_INFINITY)),
        MapOp::Eq => return Some(truth(a == b)),
        MapOp::Lt => return Some(truth(a < b)),
        MapOp::Le => return Some(truth(a <= b)),
        _ => return None,
    }))
}

const OPS: [MapOp; 50] = {
    use MapOp::*;
    [
        Neg, Abs, Sign, Sqrt, Reciprocal, Exp, Log, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh,
        Atanh, Erf, Sigmoid, Softplus, Floor, Ceil, Round, Trunc, Relu, Silu, HardSwish, Gelu, GeluTanh, BitNot, IsNan,
        IsPosInf, IsNegInf, Add, Sub, Mul, Div, Mod, Fmod, Pow, Min, Max, Eq, Lt, Le, Prelu, Clip, BitXor,
    ]
};

fn is_test(op: MapOp) -> bool {
    matches!(op, MapOp::Eq | MapOp::Lt | MapOp::Le | MapOp::IsNan | MapOp::IsPosInf | MapOp::IsNegInf)
}

/// Whether `got` is `want` as far as the type can tell.
fn close(dtype: DType, got: Num, want: Num) -> bool {
    match (got, want) {
        (I(a), I(b)) => a == b,
        (F(a), F(b)) => {
            let (unit, top) = match dtype {
                DType::F16 => (1e-3, 65504.0),
                DType::BF16 => (8e-3, 3.3e38),
                DType::F32 => (1e-6, 3.4e38),
                _ => (1e-14, f64::MAX),
            };
            (a.is_nan() && b.is_nan())
                || a == b
                || (a - b).abs() <= unit * b.abs().max(1.0)
                || b.abs() > top && a.abs() >= top
        }
        _ => false,
    }
}

const SHAPES: [&[usize]; 9] = [&[], &[1], &[7], &[33], &[1000], &[3, 5], &[4, 1, 300], &[2, 3, 4, 5], &[3, 0]];

#[test]
fn operations_agree_with_scalars() {
    let mut rng = Rng::new(10);
    let dtypes: Vec<DType> = INTS.into_iter().chain(FLOATS).collect();
    for op in OPS {
        for dtype in dtypes.iter().copied() {
            let dims = SHAPES[rng.below(SHAPES.len())];
            let isa = isas()[rng.below(isas().len())];
            let mut reads: Vec<Tensor> = (0..op.arity()).map(|_| random(dtype, dims, &mut rng)).collect();
            let divides = matches!(op, MapOp::Div | MapOp::Mod | MapOp::Fmod) && dtype.is_integer();
            if divides {
                let size = dtype.size().unwrap();
                for i in 0..reads[1].shape.len() {
                    reads[1].bytes_mut()[i * size] |= 1;
                }
            }
            let inputs: Vec<Vec<Num>> = reads.iter().map(numbers).collect();
            let out = if is_test(op) { DType::Bool } else { dtype };
            let code = program(&[instr(op, dtype, out, [0, 1.min(op.arity() as u8), 2.min(op.arity() as u8)])]);
            let scattered: Vec<Tensor> =
                reads.iter().map(|r| if rng.below(2) == 0 { r.scattered(&mut rng) } else { r.clone() }).collect();
            let mut result = [Tensor::zeros(out, dims)];
            if rng.below(2) == 0 {
                result[0] = result[0].scattered(&mut rng);
            }
            let refs: Vec<_> = scattered.iter().map(Some).collect();
            let done = run(&code, &refs, &mut result, None, isa);
            let number = |k: usize, i: usize| inputs.get(k).map_or(F(0.0), |v| v[i]);
            for (i, got) in numbers(&result[0]).into_iter().enumerate() {
                let want = match [number(0, i), number(1, i), number(2, i)] {
                    [I(a), b, c] => {
                        let [b, c] = [b, c].map(|x| if let I(x) = x { x } else { 0 });
                        integer(op, dtype, a, b, c).map(|x| I(wrap(if is_test(op) { DType::U8 } else { dtype }, x)))
                    }
                    [F(a), b, c] => {
                        let [b, c] = [b, c].map(|x| if let F(x) = x { x } else { 0.0 });
                        float(op, a, b, c)
                    }
                };
                let Some(want) = want else { continue };
                assert_eq!(done, Ok(vec![-1, -1]), "{op:?} {dtype}");
                assert!(close(dtype, got, want), "{op:?} {dtype} {isa:?} at {i} of {dims:?}: {got:?} not {want:?}");
            }
        }
    }
}

#[test]
fn integer_powers_and_shifts() {
    let code = |op| program(&[instr(op, DType::I32, DType::I32, [0, 1, 0])]);
    let (a, b) = (Tensor::of(&[2i32, -1, 3, -2, 7, 1], &[6]), Tensor::of(&[10i32, -3, 40, 5, -1, -9], &[6]));
    let mut w = [Tensor::zeros(DType::I32, &[6])];
    run(&code(MapOp::Pow), &[Some(&a), Some(&b)], &mut w, None, Isa::Portable).unwrap();
    assert_eq!(w[0].to_vec::<i32>(), [1024, -1, 3i32.wrapping_pow(40), -32, 0, 1]);
    let by = Tensor::of(&[1i32, 31, 32, 0, -1, 2], &[6]);
    run(&code(MapOp::Shl), &[Some(&a), Some(&by)], &mut w, None, Isa::Portable).unwrap();
    assert_eq!(w[0].to_vec::<i32>(), [4, i32::MIN, 0, -2, 0, 4]);
}

#[test]
fn division_by_zero_is_a_fault() {
    for op in [MapOp::Div, MapOp::Mod, MapOp::Fmod] {
        let (a, b) = (Tensor::of(&[i32::MIN, 7, 3], &[3]), Tensor::of(&[-1, 2, 0], &[3]));
        let mut w = [Tensor::zeros(DType::I32, &[3])];
        let code = program(&[instr(op, DType::I32, DType::I32, [0, 1, 0])]);
        assert_eq!(run(&code, &[Some(&a), Some(&b)], &mut w, None, Isa::Portable), Err(Fault::DivisionByZero));
    }
    let (a, b) = (Tensor::of(&[i32::MIN], &[1]), Tensor::of(&[-1], &[1]));
    let mut w = [Tensor::zeros(DType::I32, &[1])];
    let code = program(&[instr(MapOp::Div, DType::I32, DType::I32, [0, 1, 0])]);
    run(&code, &[Some(&a), Some(&b)], &mut w, None, Isa::Portable).unwrap();
    assert_eq!(w[0].to_vec::<i32>(), [i32::MIN]);
}

/// What a cast gives.
fn casted(op: MapOp, to: DType, x: Num) -> Num {
    let (low, high) = limits(to);
    let saturate = op == MapOp::CastSaturate;
    match (to, x) {
        (DType::Bool, I(x)) => I(i128::from(x != 0)),
        (DType::Bool, F(x)) => I(i128::from(x != 0.0)),
        _ if to.is_integer() => match x {
            I(x) if saturate => I(x.clamp(low, high)),
            I(x) => I(wrap(to, x)),
            F(x) => {
                let x = if saturate { x.round_ties_even() } else { x.trunc() };
                I((x as i128).clamp(low, high))
            }
        },
        _ => {
            let x = match x {
                I(x) => x as f64,
                F(x) => x,
            };
            F(match to {
                DType::F64 => x,
                DType::F32 => f64::from(x as f32),
                DType::F16 => f16::from_f64(x).into(),
                DType::BF16 => bf16::from_f64(x).into(),
                _ => {
                    let saturate = op != MapOp::CastNoSaturate;
                    small_float::decode(to, small_float::encode(to, x as f32, saturate)).into()
                }
            })
        }
    }
}

#[test]
fn casts_between_all_types() {
    let mut rng = Rng::new(11);
    let all: Vec<DType> = DType::ALL.into_iter().filter(|d| !matches!(d, DType::C64 | DType::C128)).collect();
    for from in all.iter().copied() {
        for to in all.iter().copied() {
            for op in [MapOp::Cast, MapOp::CastSaturate, MapOp::CastNoSaturate] {
                let isa = isas()[rng.below(isas().len())];
                let read = random(from, &[41], &mut rng);
                let mut w = [Tensor::zeros(to, &[41])];
                run(&program(&[instr(op, from, to, [0; 3])]), &[Some(&read)], &mut w, None, isa).unwrap();
                for (x, got) in numbers(&read).into_iter().zip(numbers(&w[0])) {
                    let want = if from == to { x } else { casted(op, to, x) };
                    // From i64 through f64 to f32 the reference rounds twice.
                    let twice = |a: f64, b: f64| to == DType::F32 && (a - b).abs() <= 1e-7 * b.abs();
                    let same = match (got, want) {
                        (F(a), F(b)) => a == b || a.is_nan() && b.is_nan() || twice(a, b),
                        (a, b) => a == b,
                    };
                    assert!(same, "{op:?} {from} to {to} {isa:?}: {x:?} gives {got:?} not {want:?}");
                }
            }
        }
    }
}

/// Casts to f16 round in the middle of a program.
#[test]
fn casts_round_within_programs() {
    let code = program(&[
        instr(MapOp::Cast, DType::F32, DType::F16, [0, 0, 0]),
        instr(MapOp::Cast, DType::F16, DType::F32, [1, 0, 0]),
    ]);
    let read = Tensor::of(&[0.1f32, 70000.0], &[2]);
    let mut w = [Tensor::zeros(DType::F32, &[2])];
    run(&code, &[Some(&read)], &mut w, None, Isa::Portable).unwrap();
    assert_eq!(w[0].to_vec::<f32>(), [f16::from_f32(0.1).to_f32(), f32::INFINITY]);
}

#[test]
fn wrong_programs_are_refused() {
    let a = Tensor::of(&[1f32, 2.0], &[2]);
    let b = Tensor::of(&[1i32, 2], &[2]);
    let mut w = [Tensor::zeros(DType::F32, &[2])];
    let mut try_it = |i: MapInstr, reads: &[Option<&Tensor>]| run(&program(&[i]), reads, &mut w, None, Isa::Portable);
    assert!(try_it(instr(MapOp::Add, DType::F32, DType::F32, [0, 1, 0]), &[Some(&a), Some(&b)]).is_err());
    assert!(try_it(instr(MapOp::Add, DType::F32, DType::F32, [0, 9, 0]), &[Some(&a)]).is_err());
    assert!(try_it(instr(MapOp::Neg, DType::F32, DType::I64, [0, 0, 0]), &[Some(&a)]).is_err());
    assert!(try_it(instr(MapOp::Neg, DType::F32, DType::F32, [0, 200, 200]), &[Some(&a)]).is_ok());
    assert!(try_it(instr(MapOp::Add, DType::F32, DType::F32, [0, 1, 0]), &[Some(&a), None]).is_err());
}

#[test]
fn nothing_to_do_is_a_copy() {
    let a = Tensor::of(&[1f32, 2.0, 3.0], &[3]);
    let mut w = [Tensor::zeros(DType::F32, &[3])];
    run(&program(&[]), &[Some(&a)], &mut w, None, Isa::Portable).unwrap();
    assert_eq!(w[0].to_vec::<f32>(), [1.0, 2.0, 3.0]);
}

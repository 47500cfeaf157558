//! Constants as numbers, and integer tensors as expressions.

use super::{Builder, Exprs, Op, Problem, V, View, builder::Result};
use half::{bf16, f16};
use plan::{DType, ExprId, Primitive, prim::*};
use std::rc::Rc;

/// Tensors of more elements are not followed as expressions.
const MAX_KNOWN: usize = 4096;

fn each<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.chunks_exact(N).filter_map(|c| c.try_into().ok())
}

/// The elements of a small integer or boolean constant.
pub(super) fn ints(dtype: DType, bytes: &[u8]) -> Option<Vec<i64>> {
    if bytes.len() > MAX_KNOWN * dtype.size()? {
        return None;
    }
    Some(match dtype {
        DType::I64 => each(bytes).map(i64::from_le_bytes).collect(),
        DType::I32 => each(bytes).map(|b| i32::from_le_bytes(b).into()).collect(),
        DType::I16 => each(bytes).map(|b| i16::from_le_bytes(b).into()).collect(),
        DType::I8 => each(bytes).map(|b| i8::from_le_bytes(b).into()).collect(),
        DType::U32 => each(bytes).map(|b| u32::from_le_bytes(b).into()).collect(),
        DType::U16 => each(bytes).map(|b| u16::from_le_bytes(b).into()).collect(),
        DType::U8 | DType::Bool => bytes.iter().map(|b| i64::from(*b)).collect(),
        DType::U64 => each(bytes).map(|b| i64::try_from(u64::from_le_bytes(b)).ok()).collect::<Option<_>>()?,
        _ => return None,
    })
}

/// The elements of a floating-point constant.
pub(super) fn floats(dtype: DType, bytes: &[u8]) -> Option<Vec<f64>> {
    Some(match dtype {
        DType::F32 => each(bytes).map(|b| f32::from_le_bytes(b).into()).collect(),
        DType::F64 => each(bytes).map(f64::from_le_bytes).collect(),
        DType::F16 => each(bytes).map(|b| f16::from_le_bytes(b).to_f64()).collect(),
        DType::BF16 => each(bytes).map(|b| bf16::from_le_bytes(b).to_f64()).collect(),
        _ => return None,
    })
}

/// Appends an integer element.
pub(super) fn push_int(dtype: DType, v: i64, to: &mut Vec<u8>) -> Result<()> {
    match dtype {
        DType::I64 | DType::U64 => to.extend(v.to_le_bytes()),
        DType::I32 | DType::U32 => to.extend((v as i32).to_le_bytes()),
        DType::I16 | DType::U16 => to.extend((v as i16).to_le_bytes()),
        DType::I8 | DType::U8 => to.push(v as u8),
        DType::Bool => to.push(u8::from(v != 0)),
        _ => return Err(Problem::new(format!("integers cannot be written as {dtype}"))),
    }
    Ok(())
}

/// Appends an element of any real type.
pub(super) fn push_float(dtype: DType, v: f64, to: &mut Vec<u8>) -> Result<()> {
    match dtype {
        DType::F32 => to.extend((v as f32).to_le_bytes()),
        DType::F64 => to.extend(v.to_le_bytes()),
        DType::F16 => to.extend(f16::from_f64(v).to_le_bytes()),
        DType::BF16 => to.extend(bf16::from_f64(v).to_le_bytes()),
        DType::U64 => to.extend((v as u64).to_le_bytes()),
        _ => push_int(dtype, v as i64, to)?,
    }
    Ok(())
}

/// The bits of an element of a real or boolean type, as a constant of an elementwise program holds them.
///
/// # Errors
/// When the type has no such constants.
pub fn constant_bits(dtype: DType, v: f64) -> Result<u64> {
    let mut bytes = Vec::new();
    push_float(dtype, v, &mut bytes)?;
    let mut all = [0; 8];
    all.get_mut(..bytes.len()).ok_or_else(|| Problem::new(format!("a constant of {dtype}")))?.copy_from_slice(&bytes);
    Ok(u64::from_le_bytes(all))
}

impl Builder {
    /// The contents of the first write of `op` as expressions, where those of its reads are known and `op` can be followed.
    pub(super) fn eval_known(
        &mut self,
        op: &Op,
        reads: &[Option<V>],
        dtype: DType,
        dims: &[ExprId],
    ) -> Option<Rc<[ExprId]>> {
        if !(dtype.is_integer() || dtype == DType::Bool) {
            return None;
        }
        let dims: Vec<usize> =
            self.const_ints(dims)?.into_iter().map(|d| usize::try_from(d).ok()).collect::<Option<_>>()?;
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).filter(|n| *n <= MAX_KNOWN)?;
        let mut known = Vec::new();
        for r in reads {
            let v = (*r)?;
            // A copy to another type keeps the bits, not the numbers.
            if matches!(op, Op::Prim(Primitive::Copy(_))) && self.dtype(v) != dtype {
                return None;
            }
            known.push(Tensor { elements: self.known(v)?, dims: self.graph.static_dims(v)? });
        }
        let x = &mut self.graph.exprs;
        let out: Vec<ExprId> = match op {
            Op::View(view) => known.first()?.view(view, &dims, x)?,
            Op::Prim(prim) => eval_prim(prim, &known, &dims, x)?,
            _ => return None,
        };
        (out.len() == count).then(|| out.into())
    }
}

struct Tensor {
    elements: Vec<ExprId>,
    dims: Vec<usize>,
}

fn strides(dims: &[usize]) -> Vec<usize> {
    let mut s = vec![1usize; dims.len()];
    for i in (1..dims.len()).rev() {
        s[i - 1] = s[i].saturating_mul(dims[i]);
    }
    s
}

/// Calls `f` with each index tuple of `dims`, in row-major order.
fn each_index(dims: &[usize], mut f: impl FnMut(&[usize]) -> Option<()>) -> Option<()> {
    let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
    let mut at = vec![0; dims.len()];
    for _ in 0..count {
        f(&at)?;
        for axis in (0..dims.len()).rev() {
            at[axis] += 1;
            if at[axis] < dims[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
    Some(())
}

impl Tensor {
    fn at(&self, index: impl Iterator<Item = usize>) -> Option<ExprId> {
        let flat: usize = index.zip(strides(&self.dims)).map(|(i, s)| i * s).sum();
        self.elements.get(flat).copied()
    }

    /// The element that broadcasting puts at `at`.
    fn broadcast_at(&self, at: &[usize]) -> Option<ExprId> {
        let tail = at.get(at.len().checked_sub(self.dims.len())?..)?;
        self.at(tail.iter().zip(&self.dims).map(|(i, d)| if *d == 1 { 0 } else { *i }))
    }

    fn view(&self, view: &View, dims: &[usize], x: &Exprs) -> Option<Vec<ExprId>> {
        let mut out = Vec::new();
        match view {
            View::Reshape => return Some(self.elements.clone()),
            View::Broadcast => each_index(dims, |at| {
                out.push(self.broadcast_at(at)?);
                Some(())
            })?,
            View::Permute(perm) => each_index(dims, |at| {
                let mut from = vec![0; at.len()];
                for (i, p) in perm.iter().enumerate() {
                    *from.get_mut(*p as usize)? = at[i];
                }
                out.push(self.at(from.into_iter())?);
                Some(())
            })?,
            View::Slice { start, step } => {
                let start: Vec<i64> = start.iter().map(|s| x.as_const(*s)).collect::<Option<_>>()?;
                each_index(dims, |at| {
                    let from: Vec<usize> = at
                        .iter()
                        .enumerate()
                        .map(|(i, a)| usize::try_from(start.get(i)? + *a as i64 * step.get(i)?).ok())
                        .collect::<Option<_>>()?;
                    out.push(self.at(from.into_iter())?);
                    Some(())
                })?;
            }
        }
        Some(out)
    }
}

fn eval_prim(prim: &Primitive<ExprId>, reads: &[Tensor], dims: &[usize], x: &mut Exprs) -> Option<Vec<ExprId>> {
    let mut out = Vec::new();
    match prim {
        Primitive::Copy(_) => out.extend(&reads.first()?.elements),
        Primitive::Literal(p) => out.extend(p.elements.iter()),
        Primitive::Iota(p) if reads.is_empty() => {
            for i in 0..dims.iter().product::<usize>() {
                let i = x.int(i as i64);
                let far = x.mul(i, *p.range.get(1)?);
                out.push(x.add(*p.range.first()?, far));
            }
        }
        Primitive::Concat(p) => {
            let axis = p.axis as usize;
            each_index(dims, |at| {
                let mut i = *at.get(axis)?;
                for r in reads {
                    let d = *r.dims.get(axis)?;
                    if i < d {
                        out.push(r.at(at.iter().enumerate().map(|(k, a)| if k == axis { i } else { *a }))?);
                        return Some(());
                    }
                    i -= d;
                }
                None
            })?;
        }
        Primitive::Gather(p) => {
            let (data, indices) = (reads.first()?, reads.get(1)?);
            let (axis, n) = (p.axis as usize, indices.dims.len());
            each_index(dims, |at| {
                let i = x.as_const(indices.at(at.get(axis..axis + n)?.iter().copied())?)?;
                let d = *data.dims.get(axis)? as i64;
                let i = usize::try_from(if i < 0 { i + d } else { i }).ok().filter(|i| (*i as i64) < d)?;
                let from = at[..axis].iter().copied().chain([i]).chain(at[axis + n..].iter().copied());
                out.push(data.at(from)?);
                Some(())
            })?;
        }
        Primitive::Reduce(p) => reduce(p, reads.first()?, dims, x, &mut out)?,
        Primitive::Map(p) => each_index(dims, |at| {
            let mut regs: Vec<ExprId> = reads.iter().map(|r| r.broadcast_at(at)).collect::<Option<_>>()?;
            for i in p.code.iter() {
                let arg = |k: usize| regs.get(*i.args.get(k)? as usize).copied();
                let v = instruction(i, arg, x)?;
                regs.push(v);
            }
            out.push(*regs.last()?);
            Some(())
        })?,
        _ => return None,
    }
    Some(out)
}

fn reduce(p: &Reduce, data: &Tensor, dims: &[usize], x: &mut Exprs, out: &mut Vec<ExprId>) -> Option<()> {
    let inner: Vec<usize> =
        data.dims.iter().enumerate().map(|(i, d)| if p.axes.contains(&(i as u8)) { *d } else { 1 }).collect();
    each_index(dims, |at| {
        let mut total: Option<ExprId> = None;
        each_index(&inner, |k| {
            let v = data.at(at.iter().zip(k).map(|(a, b)| a + b))?;
            total = Some(match (total, p.op) {
                (None, ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Min | ReduceOp::Max) => v,
                (Some(t), ReduceOp::Sum) => x.add(t, v),
                (Some(t), ReduceOp::Prod) => x.mul(t, v),
                (Some(t), ReduceOp::Min) => x.min(t, v),
                (Some(t), ReduceOp::Max) => x.max(t, v),
                _ => return None,
            });
            Some(())
        })?;
        let empty = match p.op {
            ReduceOp::Sum => Some(0),
            ReduceOp::Prod => Some(1),
            _ => None,
        };
        out.push(match total {
            Some(t) => t,
            None => x.int(empty?),
        });
        Some(())
    })
}

/// One instruction on expressions; none where it is not integer arithmetic that expressions carry exactly.
fn instruction(i: &MapInstr, arg: impl Fn(usize) -> Option<ExprId>, x: &mut Exprs) -> Option<ExprId> {
    let integral = |d: DType| d.is_integer() || d == DType::Bool;
    if !integral(i.out) || (i.op != MapOp::Const && !integral(i.dtype)) {
        return None;
    }
    let zero = x.int(0);
    Some(match i.op {
        MapOp::Const => x.int(ints(i.out, i.bits.to_le_bytes().get(..i.out.size()?)?)?.first().copied()?),
        MapOp::Cast | MapOp::CastSaturate if i.out == DType::Bool => {
            let is_zero = x.eq(arg(0)?, zero);
            let one = x.int(1);
            x.sub(one, is_zero)
        }
        MapOp::Cast | MapOp::CastSaturate => {
            // Only where no value of the range is changed by the narrower type.
            let (lo, hi) = x.range(arg(0)?);
            let bits = i.out.bits() as u32;
            let (min, max) = match (i.out.is_signed_integer(), bits) {
                (true, 64) => (i64::MIN, i64::MAX),
                (true, b) => (-(1i64 << (b - 1)), (1i64 << (b - 1)) - 1),
                (false, 64) => (0, i64::MAX),
                (false, b) => (0, (1i64 << b) - 1),
            };
            (lo >= min && hi <= max).then_some(arg(0)?)?
        }
        MapOp::Neg => x.sub(zero, arg(0)?),
        MapOp::Abs => {
            let n = x.sub(zero, arg(0)?);
            x.max(n, arg(0)?)
        }
        MapOp::Relu => x.max(zero, arg(0)?),
        MapOp::Not => x.eq(arg(0)?, zero),
        MapOp::Add => x.add(arg(0)?, arg(1)?),
        MapOp::Sub => x.sub(arg(0)?, arg(1)?),
        MapOp::Mul => x.mul(arg(0)?, arg(1)?),
        // Truncation and flooring agree where nothing is negative.
        MapOp::Div if x.range(arg(0)?).0 >= 0 && x.range(arg(1)?).0 > 0 => x.floor_div(arg(0)?, arg(1)?),
        MapOp::Div => {
            let (a, b) = (x.as_const(arg(0)?)?, x.as_const(arg(1)?)?);
            x.int(a.checked_div(b)?)
        }
        MapOp::Mod if x.range(arg(1)?).0 > 0 => x.modulo(arg(0)?, arg(1)?),
        MapOp::Min => x.min(arg(0)?, arg(1)?),
        MapOp::Max => x.max(arg(0)?, arg(1)?),
        MapOp::And => x.mul(arg(0)?, arg(1)?),
        MapOp::Or => x.max(arg(0)?, arg(1)?),
        MapOp::Eq => x.eq(arg(0)?, arg(1)?),
        MapOp::Lt => x.lt(arg(0)?, arg(1)?),
        MapOp::Le => {
            let more = x.lt(arg(1)?, arg(0)?);
            x.eq(more, zero)
        }
        MapOp::Select => x.select(arg(0)?, arg(1)?, arg(2)?),
        MapOp::Clip => {
            let low = x.max(arg(0)?, arg(1)?);
            x.min(low, arg(2)?)
        }
        _ => return None,
    })
}

//! Matrix products: `MatMul`, `Gemm` and their relatives.

use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, prim::*};

mod einsum;

pub(super) const OPERATORS: &[Operator] = &[
    op("MatMul", matmul),
    op("Gemm", gemm),
    op("MatMulInteger", matmul_integer),
    op("Einsum", einsum::lower),
    op("com.microsoft::FusedMatMul", fused_matmul),
    op("com.microsoft::TransposeMatMul", fused_matmul),
];

/// The product of operands of one type.
pub(super) fn product(cx: &mut Cx<'_>, a: V, b: V) -> Result<V, Problem> {
    let dtype = cx.b.dtype(a);
    if cx.b.dtype(b) != dtype {
        let (a, b) = (cx.b.describe(a), cx.b.describe(b));
        return Err(Problem::new(format!("the product of {a} and {b}, which have different types")));
    }
    if dtype.is_float() { cx.b.matmul(a, b, dtype, [None, None]) } else { sum_of_products(cx, a, b) }
}

/// A product of integers in their own type: rare, so that it has no kernel of its own.
fn sum_of_products(cx: &mut Cx<'_>, a: V, b: V) -> Result<V, Problem> {
    let (row, column) = (cx.b.rank(a) == 1, cx.b.rank(b) == 1);
    if cx.b.rank(a) == 0 || cx.b.rank(b) == 0 {
        return Err(Problem::new("a matrix product of scalars"));
    }
    let a = if row { cx.b.unsqueeze(a, &[0])? } else { a };
    let b = if column { cx.b.unsqueeze(b, &[1])? } else { b };
    let (a, b) = (cx.b.unsqueeze(a, &[-1])?, cx.b.unsqueeze(b, &[-3])?);
    let all = cx.b.binary(MapOp::Mul, a, b)?;
    let rank = cx.b.rank(all);
    let summed = rank.checked_sub(2).ok_or_else(|| Problem::new("a matrix product of scalars"))?;
    let mut drop = vec![summed];
    if row {
        drop.insert(0, rank - 3);
    }
    if column {
        drop.push(rank - 1);
    }
    let sum = cx.b.reduce(ReduceOp::Sum, all, &[summed], true)?;
    cx.b.drop_axes(sum, &drop, false)
}

fn matmul(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (a, b) = (cx.input(node, 0)?, cx.input(node, 1)?);
    Ok(vec![product(cx, a, b)?.into()])
}

/// The operand with its last two axes swapped, where `yes`.
fn transposed(cx: &mut Cx<'_>, v: V, yes: bool) -> Result<V, Problem> {
    let rank = cx.b.rank(v);
    if !yes || rank < 2 {
        return Ok(v);
    }
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 1, rank - 2);
    cx.b.permute(v, &perm)
}

/// Scaled by a constant, where that is not 1. A constant operand takes the factor.
fn scaled_product(cx: &mut Cx<'_>, a: V, b: V, alpha: f32) -> Result<V, Problem> {
    if alpha == 1.0 {
        return product(cx, a, b);
    }
    if cx.b.is_const(b) && cx.b.dtype(b).is_float() {
        let b = cx.b.binary_scalar(MapOp::Mul, b, alpha.into())?;
        return product(cx, a, b);
    }
    let y = product(cx, a, b)?;
    scaled(cx, y, alpha)
}

/// `v * by`, where an integer is scaled as a number.
fn scaled(cx: &mut Cx<'_>, v: V, by: f32) -> Result<V, Problem> {
    if by == 1.0 {
        return Ok(v);
    }
    let dtype = cx.b.dtype(v);
    if dtype.is_float() {
        return cx.b.binary_scalar(MapOp::Mul, v, by.into());
    }
    let wide = cx.b.cast(v, DType::F64)?;
    let wide = cx.b.binary_scalar(MapOp::Mul, wide, by.into())?;
    cx.b.cast(wide, dtype)
}

fn gemm(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    Ok(vec![gemm_of(cx, node)?.into()])
}

/// The result of a node with the operands and attributes of `Gemm`.
pub(super) fn gemm_of(cx: &mut Cx<'_>, node: &Node) -> Result<V, Problem> {
    let (a, b) = (cx.input(node, 0)?, cx.input(node, 1)?);
    if cx.b.rank(a) != 2 || cx.b.rank(b) != 2 {
        return Err(Problem::new(format!("Gemm of {} and {}", cx.b.describe(a), cx.b.describe(b))));
    }
    let a = transposed(cx, a, node.flag("transA", false)?)?;
    let b = transposed(cx, b, node.flag("transB", false)?)?;
    let mut y = scaled_product(cx, a, b, node.float_or("alpha", 1.0)?)?;
    let beta = node.float_or("beta", 1.0)?;
    if let Some(c) = cx.opt(node, 2)?
        && beta != 0.0
    {
        let c = scaled(cx, c, beta)?;
        // The product has the result's dims: the addend may only be repeated, not repeat it.
        let dims = cx.b.dims(y);
        let c = cx.b.broadcast(c, &dims)?;
        y = cx.b.binary(MapOp::Add, y, c)?;
    }
    Ok(y)
}

fn fused_matmul(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    if node.flag("transBatchA", false)? || node.flag("transBatchB", false)? {
        return Err(Problem::new("transposed batch axes are not supported"));
    }
    let (a, b) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let a = transposed(cx, a, node.flag("transA", false)?)?;
    let b = transposed(cx, b, node.flag("transB", false)?)?;
    Ok(vec![scaled_product(cx, a, b, node.float_or("alpha", 1.0)?)?.into()])
}

fn matmul_integer(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (a, b) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let zero_points = [cx.opt(node, 2)?, cx.opt(node, 3)?];
    Ok(vec![integer_product(cx, a, b, zero_points)?.into()])
}

/// The i32 product of 8-bit operands less their zero points: scalars, or one for each row of `a` and each column of `b`.
pub(super) fn integer_product(cx: &mut Cx<'_>, a: V, b: V, zero_points: [Option<V>; 2]) -> Result<V, Problem> {
    let small = |v: V| cx.b.rank(v) <= 1;
    if zero_points.iter().flatten().all(|z| small(*z)) {
        return cx.b.matmul(a, b, DType::I32, zero_points);
    }
    // Zero points that differ between matrices are taken off first.
    let mut wide = [cx.b.cast(a, DType::I32)?, cx.b.cast(b, DType::I32)?];
    for (side, (x, zero)) in wide.iter_mut().zip(zero_points).enumerate() {
        let Some(zero) = zero else { continue };
        let zero = cx.b.cast(zero, DType::I32)?;
        let zero = if side == 0 && cx.b.rank(zero) == 1 { cx.b.unsqueeze(zero, &[1])? } else { zero };
        *x = cx.b.binary(MapOp::Sub, *x, zero)?;
    }
    sum_of_products(cx, wide[0], wide[1])
}

//! Shapes, reshaping and type conversion.

use super::lower::dtype_attr;
use super::text;
use super::{Cx, Lowered, Operator, Val, op};
use crate::graph::{Builder, Problem, V};
use crate::onnx::{ElemType, Node};
use plan::{
    DType, ExprId, MAX_RANK,
    prim::{Copy, MapInstr, MapOp},
};

pub(super) const OPERATORS: &[Operator] = &[
    op("BitCast", bit_cast),
    op("Cast", cast),
    op("CastLike", cast_like),
    op("Expand", expand),
    op("Flatten", flatten),
    op("Identity", identity),
    op("Reshape", reshape),
    op("Shape", shape),
    op("Size", size),
    op("Squeeze", squeeze),
    op("Tile", tile),
    op("Transpose", transpose),
    op("Unsqueeze", unsqueeze),
];

fn dims_of(cx: &mut Cx<'_>, node: &Node) -> Result<Vec<ExprId>, Problem> {
    if let Val::Strings(s) = cx.val(node, 0)? {
        return Ok(s.dims.iter().map(|d| cx.b.int(*d as i64)).collect());
    }
    let v = cx.input(node, 0)?;
    Ok(cx.b.dims(v))
}

fn shape(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let dims = dims_of(cx, node)?;
    let n = dims.len() as i64;
    let clamp = |v: i64| (if v < 0 { v.saturating_add(n) } else { v }).clamp(0, n) as usize;
    let (start, end) = (clamp(node.int_or("start", 0)?), clamp(node.int_or("end", n)?));
    let part = dims.get(start..end).unwrap_or_default();
    Ok(vec![cx.b.vector(part)?.into()])
}

fn size(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let dims = dims_of(cx, node)?;
    let count = cx.b.exprs().product(dims);
    Ok(vec![cx.b.of_exprs(DType::I64, &[], &[count])?.into()])
}

fn identity(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    Ok(vec![cx.val(node, 0)?])
}

fn reshape(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let wanted = match node.opt_ints("shape")? {
        Some(list) => cx.b.ints(list),
        None => cx.opt_exprs(node, 1)?.ok_or_else(|| Problem::new("input 1 is absent"))?,
    };
    let allow_zero = node.flag("allowzero", false)?;
    if let Val::Strings(s) = cx.val(node, 0)? {
        return text::reshape(cx, s, &wanted, allow_zero);
    }
    let v = cx.input(node, 0)?;
    let own = cx.b.dims(v);
    let dims = reshaped(&mut cx.b, &own, &wanted, allow_zero)?;
    Ok(vec![cx.b.reshape(v, &dims)?.into()])
}

/// The dims that a reshape of `own` to `wanted` gives: 0 keeps an extent, -1 takes what is left.
pub(super) fn reshaped(
    b: &mut Builder,
    own: &[ExprId],
    wanted: &[ExprId],
    allow_zero: bool,
) -> Result<Vec<ExprId>, Problem> {
    let (mut dims, mut open, mut rest) = (Vec::new(), None, own.to_vec());
    let mut given = Vec::new();
    for (i, w) in wanted.iter().enumerate() {
        match b.exprs().as_const(*w) {
            Some(0) if !allow_zero => {
                let kept =
                    own.get(i).ok_or_else(|| Problem::new(format!("axis {i} keeps an extent that is not there")))?;
                // What is kept on both sides plays no part in what is left.
                match rest.iter().position(|d| d == kept) {
                    Some(at) => drop(rest.remove(at)),
                    None => given.push(*kept),
                }
                dims.push(*kept);
            }
            Some(-1) if open.is_some() => return Err(Problem::new("more than one extent of the new shape is -1")),
            Some(-1) => {
                open = Some(i);
                dims.push(*w);
            }
            Some(c) if c < -1 => return Err(Problem::new(format!("extent {c} in the new shape"))),
            _ => {
                given.push(*w);
                dims.push(*w);
            }
        }
    }
    if let Some(slot) = open.and_then(|i| dims.get_mut(i)) {
        let total = b.exprs().product(rest);
        let others = b.exprs().product(given);
        if b.exprs().as_const(others) == Some(0) {
            return Err(Problem::new("an extent of -1 beside an extent of 0 can be anything"));
        }
        *slot = b.exprs().floor_div(total, others);
    }
    Ok(dims)
}

fn flatten(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let dims = cx.b.dims(v);
    let (axis, n) = (node.int_or("axis", 1)?, dims.len() as i64);
    let at = if axis < 0 { axis.saturating_add(n) } else { axis };
    if !(0..=n).contains(&at) {
        return Err(Problem::new(format!("axis {axis} is out of range for rank {n}")));
    }
    let (front, back) = dims.split_at(at as usize);
    let rows = cx.b.exprs().product(front.iter().copied());
    let columns = cx.b.exprs().product(back.iter().copied());
    Ok(vec![cx.b.reshape(v, &[rows, columns])?.into()])
}

fn squeeze(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let axes = match cx.ints_attr_or_input(node, "axes", 1)? {
        Some(axes) => axes,
        None => single_axes(cx, v)?,
    };
    Ok(vec![cx.b.squeeze(v, &axes)?.into()])
}

/// All axes of extent 1.
fn single_axes(cx: &mut Cx<'_>, v: V) -> Result<Vec<i64>, Problem> {
    let (one, mut axes) = (cx.b.int(1), Vec::new());
    for (i, d) in cx.b.dims(v).into_iter().enumerate() {
        if cx.b.exprs().always_equal(d, one) {
            axes.push(i as i64);
        } else if !cx.b.exprs().never_equal(d, one) {
            return Err(Problem::new(format!(
                "whether axis {i} of {} is dropped depends on its extent, so the rank of the result is not known",
                cx.b.describe(v)
            ))
            .with("give that dim a range without 1, or fix it"));
        }
    }
    Ok(axes)
}

fn unsqueeze(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let axes = cx.ints_attr_or_input(node, "axes", 1)?.ok_or_else(|| Problem::new("no axes are given"))?;
    Ok(vec![cx.b.unsqueeze(v, &axes)?.into()])
}

fn transpose(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let rank = cx.b.rank(v);
    let perm = match node.opt_ints("perm")? {
        Some(perm) => perm.iter().map(|p| cx.b.axis(*p, rank)).collect::<Result<Vec<_>, _>>()?,
        None => (0..rank).rev().collect(),
    };
    Ok(vec![cx.b.permute(v, &perm)?.into()])
}

fn expand(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let wanted = cx.opt_exprs(node, 1)?.ok_or_else(|| Problem::new("input 1 is absent"))?;
    let own = cx.b.dims(v);
    let dims = cx.b.broadcast_dims(&own, &wanted)?;
    Ok(vec![cx.b.broadcast(v, &dims)?.into()])
}

fn tile(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let repeats = cx.opt_exprs(node, 1)?.ok_or_else(|| Problem::new("input 1 is absent"))?;
    if repeats.len() != cx.b.rank(v) {
        return Err(Problem::new(format!("{} repeats of {}", repeats.len(), cx.b.describe(v))));
    }
    Ok(vec![tiled(&mut cx.b, v, &repeats)?.into()])
}

/// Repeats a tensor along each of its axes.
fn tiled(b: &mut Builder, v: V, repeats: &[ExprId]) -> Result<V, Problem> {
    let one = b.int(1);
    let own = b.dims(v);
    let repeated = repeats.iter().filter(|r| **r != one).count();
    if repeated > 1 && own.len() + repeated > MAX_RANK {
        // Too many axes for one view: axis by axis.
        let mut out = v;
        for (i, r) in repeats.iter().enumerate() {
            let mut only = vec![one; repeats.len()];
            if let Some(slot) = only.get_mut(i) {
                *slot = *r;
            }
            out = tiled(b, out, &only)?;
        }
        return Ok(out);
    }
    // The axis that is repeated gets an axis of extent 1 before it, whose broadcast is the repetition.
    let (mut split, mut wide, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (d, r) in own.iter().zip(repeats) {
        if *r != one {
            split.push(one);
            wide.push(*r);
        }
        split.push(*d);
        wide.push(*d);
        last.push(b.exprs().mul(*d, *r));
    }
    if split.len() > MAX_RANK {
        // One repeated axis of a tensor of the highest rank: what stands before and after it may be one axis.
        let at = repeats.iter().position(|r| *r != one).unwrap_or(0);
        let (front, back) = own.split_at(at);
        let (front, back) = (b.exprs().product(front.iter().copied()), b.exprs().product(back.iter().copied()));
        let r = repeats.get(at).copied().unwrap_or(one);
        (split, wide) = (vec![front, one, back], vec![front, r, back]);
    }
    let apart = b.reshape(v, &split)?;
    let repeated = b.broadcast(apart, &wide)?;
    b.reshape(repeated, &last)
}

fn cast(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let to = node.int("to")?;
    if ElemType::from_onnx(to) == Some(ElemType::String) {
        return text::to_strings(cx, node);
    }
    let to = dtype_attr(to)?;
    cast_to(cx, node, to)
}

fn cast_like(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    if matches!(cx.val(node, 1)?, Val::Strings(_)) {
        return text::to_strings(cx, node);
    }
    let like = cx.input(node, 1)?;
    let to = cx.b.dtype(like);
    cast_to(cx, node, to)
}

fn cast_to(cx: &mut Cx<'_>, node: &Node, to: DType) -> Lowered {
    if let Val::Strings(s) = cx.val(node, 0)? {
        return text::to_numbers(cx, &s, to);
    }
    let v = cx.input(node, 0)?;
    let from = cx.b.dtype(v);
    if from == to {
        return Ok(vec![v.into()]);
    }
    let eighth = matches!(to, DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E5M2 | DType::F8E5M2FNUZ | DType::F8E8M0);
    if from.is_float() && to.bits() < 8 && to.is_integer() {
        // What does not fit loses its upper bits, as between integers.
        let instr = |dtype, out, arg| MapInstr { op: MapOp::Cast, dtype, out, args: [arg, 0, 0], bits: 0 };
        let code = [instr(from, DType::I32, 0), instr(DType::I32, to, 1)];
        return Ok(vec![cx.b.map_program(&code, &[v], to)?.into()]);
    }
    let up = node.string_or("round_mode", "up")?;
    if to == DType::F8E8M0 && up != "up" {
        return Err(Problem::new(format!("rounding to {to} by `{up}`; only `up` is done")));
    }
    let op = if eighth && !node.flag("saturate", true)? { MapOp::CastNoSaturate } else { MapOp::Cast };
    Ok(vec![cx.b.map(op, from, to, &[v])?.into()])
}

fn bit_cast(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let (from, to) = (cx.b.dtype(v), dtype_attr(node.int("to")?)?);
    // Any bits make a number, but not a boolean.
    if from.bits() != to.bits() || (to == DType::Bool && from != DType::Bool) {
        return Err(Problem::new(format!("the bits of {from} are not those of one {to}")));
    }
    let dims = cx.b.dims(v);
    Ok(vec![cx.b.emit1(Copy {}, &[Some(v)], to, &dims)?.into()])
}

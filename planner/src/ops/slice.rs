//! Slices, splits, concatenation, padding.

use super::generate::iota;
use super::{Cx, Lowered, Operator, Val, op};
use crate::graph::{Builder, Problem, V};
use crate::onnx::Node;
use plan::{Axes, DType, ExprId, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("Concat", concat),
    op("Pad", pad),
    op("ReverseSequence", reverse_sequence),
    op("Slice", slice),
    op("Split", split),
    op("Trilu", trilu),
];

/// No extent comes near this: constants beyond it mean "to the end".
const FAR: i64 = 1 << 48;

/// A position as NumPy counts: negative ones from the end of an axis of extent `d`.
fn from_front(b: &mut Builder, v: ExprId, d: ExprId) -> ExprId {
    let v = match b.exprs().as_const(v) {
        Some(c) => b.int(c.clamp(-FAR, FAR)),
        None => v,
    };
    let (lo, hi) = b.exprs().range(v);
    if lo >= 0 {
        return v;
    }
    let shifted = b.exprs().add(v, d);
    if hi < 0 {
        return shifted;
    }
    let zero = b.int(0);
    let negative = b.exprs().lt(v, zero);
    b.exprs().select(negative, shifted, v)
}

/// First index and count of `start..end` by `step` on an axis of extent `d`, by the rules of NumPy.
pub(super) fn slice_range(b: &mut Builder, d: ExprId, start: ExprId, end: ExprId, step: i64) -> (ExprId, ExprId) {
    let (start, end, zero) = (from_front(b, start, d), from_front(b, end, d), b.int(0));
    let one = b.int(1);
    let minus = b.int(-1);
    let (low, high) = if step > 0 { (zero, d) } else { (minus, b.exprs().sub(d, one)) };
    let x = b.exprs();
    let mut clamp = |v| {
        let v = x.max(v, low);
        x.min(v, high)
    };
    let (start, end) = (clamp(start), clamp(end));
    let length = if step > 0 { x.sub(end, start) } else { x.sub(start, end) };
    let length = x.max(length, zero);
    let stride = x.int(step.saturating_abs());
    let count = x.ceil_div(length, stride);
    (x.max(start, zero), count)
}

fn slice(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let rank = cx.b.rank(v);
    let list = |cx: &mut Cx<'_>, name: &str, i| match node.opt_ints(name)? {
        Some(list) => Ok::<_, Problem>(Some(cx.b.ints(list))),
        None => cx.opt_exprs(node, i),
    };
    let starts = list(cx, "starts", 1)?.ok_or_else(|| Problem::new("no starts are given"))?;
    let ends = list(cx, "ends", 2)?.ok_or_else(|| Problem::new("no ends are given"))?;
    let axes = match cx.ints_attr_or_input(node, "axes", 3)? {
        Some(axes) => axes,
        None => (0..starts.len() as i64).collect(),
    };
    let steps = cx.opt_const_ints(node, 4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(Problem::new("starts, ends, axes and steps differ in length"));
    }
    let (zero, mut dims) = (cx.b.int(0), cx.b.dims(v));
    let (mut first, mut step) = (vec![zero; rank], vec![1i64; rank]);
    for (((s, e), axis), k) in starts.into_iter().zip(ends).zip(axes).zip(steps) {
        let axis = cx.b.axis(axis, rank)?;
        if k == 0 {
            return Err(Problem::new("a step of 0"));
        }
        // A step beyond the extent takes one element at most; as it is, its distance in memory need not be a number.
        let most = cx.b.exprs().range(dims[axis]).1.max(1);
        let k = k.clamp(-most, most);
        let (from, count) = slice_range(&mut cx.b, dims[axis], s, e, k);
        (first[axis], dims[axis], step[axis]) = (from, count, k);
    }
    Ok(vec![cx.b.slice(v, &first, &step, &dims)?.into()])
}

fn split(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let axis = cx.b.axis(node.int_or("axis", 0)?, cx.b.rank(v))?;
    let d = cx.b.dim(v, axis)?;
    let given = match node.opt_ints("split")? {
        Some(list) => Some(cx.b.ints(list)),
        None => cx.opt_exprs(node, 1)?,
    };
    let what = format!("split of axis {axis} of {}", cx.b.describe(v));
    let sizes = match given {
        Some(sizes) => {
            let zero = cx.b.int(0);
            let total = sizes.iter().fold(zero, |t, s| cx.b.exprs().add(t, *s));
            cx.b.require_equal(total, d, what)?;
            sizes
        }
        None => {
            let parts = node.int_or("num_outputs", node.outputs.len() as i64)?;
            let n = cx.b.int(parts);
            if !(1..=node.outputs.len() as i64).contains(&parts) {
                return Err(Problem::new(format!("{parts} parts for {} outputs", node.outputs.len())));
            }
            // From 18 on the last part may be smaller.
            let part = cx.b.exprs().ceil_div(d, n);
            let before = cx.b.int(parts - 1);
            let before = cx.b.exprs().mul(part, before);
            let last = cx.b.exprs().sub(d, before);
            if node.opset < 18 {
                cx.b.require_equal(last, part, what)?;
            }
            let mut sizes = vec![part; parts as usize];
            if let (Some(slot), false) = (sizes.last_mut(), cx.b.exprs().always_equal(last, part)) {
                *slot = last;
            }
            sizes
        }
    };
    Ok(parts(&mut cx.b, v, axis, &sizes)?.into_iter().map(Val::from).collect())
}

/// Neighbouring pieces of these extents along an axis.
pub(super) fn parts(b: &mut Builder, v: V, axis: usize, sizes: &[ExprId]) -> Result<Vec<V>, Problem> {
    let (mut from, mut out) = (b.int(0), Vec::new());
    for size in sizes {
        out.push(b.narrow(v, axis, from, *size)?);
        from = b.exprs().add(from, *size);
    }
    Ok(out)
}

fn concat(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    if (0..node.inputs.len()).any(|i| matches!(cx.opt_val(node, i), Some(Val::Strings(_)))) {
        return super::text::concat(cx, node);
    }
    let inputs = cx.inputs(node)?;
    let Some(first) = inputs.first() else { return Err(Problem::new("nothing to concatenate")) };
    let axis = cx.b.axis(node.int("axis")?, cx.b.rank(*first))?;
    Ok(vec![cx.b.concat(&inputs, axis)?.into()])
}

fn pad(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let rank = cx.b.rank(v);
    let pads = match node.opt_ints("pads")? {
        Some(list) => cx.b.ints(list),
        None => cx.opt_exprs(node, 1)?.ok_or_else(|| Problem::new("no pads are given"))?,
    };
    let axes = match cx.opt_const_ints(node, 3)? {
        Some(axes) => axes.iter().map(|a| cx.b.axis(*a, rank)).collect::<Result<Vec<_>, _>>()?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(Problem::new(format!("{} pads for {} axes", pads.len(), axes.len())));
    }
    let mode = match node.string_or("mode", "constant")? {
        "constant" => PadMode::Constant,
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Edge,
        "wrap" => PadMode::Wrap,
        other => return Err(Problem::new(format!("mode {other}"))),
    };
    let zero = cx.b.int(0);
    let (mut before, mut after) = (vec![zero; rank], vec![zero; rank]);
    for ((axis, b), a) in axes.iter().zip(&pads).zip(pads.iter().skip(axes.len())) {
        (before[*axis], after[*axis]) = (*b, *a);
    }
    let fill = match (mode, cx.opt(node, 2)?) {
        (PadMode::Constant, Some(fill)) => {
            let one = cx.b.int(1);
            let count = cx.b.count(fill);
            cx.b.require_equal(count, one, "the value to pad with is a single one")?;
            Some(cx.b.reshape(fill, &[])?)
        }
        (PadMode::Constant, None) => match node.opt_float("value")? {
            Some(value) if value != 0.0 => Some(cx.b.scalar(cx.b.dtype(v), value.into())?),
            _ => None,
        },
        _ => None,
    };
    Ok(vec![padded(&mut cx.b, v, &before, &after, mode, fill)?.into()])
}

/// `v` with elements added before and after each axis (negative amounts crop).
pub(super) fn padded(
    b: &mut Builder,
    v: V,
    before: &[ExprId],
    after: &[ExprId],
    mode: PadMode,
    fill: Option<V>,
) -> Result<V, Problem> {
    let (zero, mut dims) = (b.int(0), b.dims(v));
    for ((d, x), y) in dims.iter_mut().zip(before).zip(after) {
        let sum = b.exprs().add(*d, *x);
        *d = b.exprs().add(sum, *y);
    }
    let cuts = before.iter().chain(after).all(|p| b.exprs().range(*p).1 <= 0);
    if cuts && dims.iter().all(|d| b.exprs().range(*d).0 >= 0) {
        let start: Vec<ExprId> = before.iter().map(|p| b.exprs().sub(zero, *p)).collect();
        return b.slice(v, &start, &vec![1; start.len()], &dims);
    }
    let dtype = b.dtype(v);
    let before = Axes::from_slice(before).ok_or_else(|| Problem::new("the rank is too high"))?;
    let reads = [Some(v), fill];
    let reads = if fill.is_some() { &reads[..] } else { &reads[..1] };
    b.emit1(Pad { before, mode }, reads, dtype, &dims)
}

fn reverse_sequence(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (v, lens) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let rank = cx.b.rank(v);
    let batch = cx.b.axis(node.int_or("batch_axis", 1)?, rank)?;
    let time = cx.b.axis(node.int_or("time_axis", 0)?, rank)?;
    if batch == time {
        return Err(Problem::new("batch and time are the same axis"));
    }
    let (dims, dtype, one) = (cx.b.dims(v), cx.b.dtype(v), cx.b.int(1));
    let along = |axis: usize| {
        let mut out = vec![one; rank];
        out[axis] = dims[axis];
        out
    };
    let lens = cx.b.cast(lens, DType::I64)?;
    let lens = cx.b.reshape(lens, &along(batch))?;
    let position = iota(&mut cx.b, dims[time])?;
    let position = cx.b.reshape(position, &along(time))?;
    // Up to its length a sequence runs backwards; the rest stays.
    let inside = cx.b.binary(MapOp::Lt, position, lens)?;
    let last = cx.b.binary_scalar(MapOp::Sub, lens, 1.0)?;
    let mirrored = cx.b.binary(MapOp::Sub, last, position)?;
    let index = cx.b.select(inside, mirrored, position)?;
    let index = cx.b.broadcast(index, &dims)?;
    Ok(vec![cx.b.emit1(GatherElements { axis: time as u8 }, &[Some(v), Some(index)], dtype, &dims)?.into()])
}

fn trilu(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let dims = cx.b.dims(v);
    let [.., rows, columns] = dims.as_slice() else {
        return Err(Problem::new(format!("{} has no matrices", cx.b.describe(v))));
    };
    let one = cx.b.int(1);
    let row = iota(&mut cx.b, *rows)?;
    let row = cx.b.reshape(row, &[*rows, one])?;
    let column = iota(&mut cx.b, *columns)?;
    let row = match cx.opt(node, 1)? {
        Some(k) => {
            let k = cx.b.reshape(k, &[])?;
            let k = cx.b.cast(k, DType::I64)?;
            // Beyond every extent, so that the sum below does not wrap.
            let (least, most) =
                (cx.b.const_of_ints(DType::I64, &[], &[-FAR])?, cx.b.const_of_ints(DType::I64, &[], &[FAR])?);
            let k = cx.b.binary(MapOp::Max, k, least)?;
            let k = cx.b.binary(MapOp::Min, k, most)?;
            cx.b.binary(MapOp::Add, row, k)?
        }
        None => row,
    };
    let keep = if node.flag("upper", true)? {
        cx.b.binary(MapOp::Le, row, column)?
    } else {
        cx.b.binary(MapOp::Le, column, row)?
    };
    let zero = cx.b.scalar(cx.b.dtype(v), 0.0)?;
    Ok(vec![cx.b.select(keep, v, zero)?.into()])
}

//! Normalisations.

use super::program::Program;
use super::reduce::sorted_axes;
use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, List, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("BatchNormalization", batch_norm),
    op("InstanceNormalization", instance_norm),
    op("GroupNormalization", group_norm),
    op("LayerNormalization", |cx, n| layer_norm(cx, n, NormKind::Layer)),
    op("RMSNormalization", |cx, n| layer_norm(cx, n, NormKind::Rms)),
    op("SimplifiedLayerNormalization", |cx, n| layer_norm(cx, n, NormKind::Rms)),
    op("com.microsoft::SkipLayerNormalization", |cx, n| skip_norm(cx, n, NormKind::Layer)),
    op("com.microsoft::SkipSimplifiedLayerNormalization", |cx, n| skip_norm(cx, n, NormKind::Rms)),
    op("LpNormalization", lp_norm),
    op("LRN", lrn),
    op("MeanVarianceNormalization", mean_variance_norm),
];

/// A vector over the channels of `x [n, c, ...]`, so that it is broadcast along the other axes.
fn by_channel(cx: &mut Cx<'_>, v: V, x: V) -> Result<V, Problem> {
    let behind: Vec<i64> = (1..cx.b.rank(x).saturating_sub(1) as i64).collect();
    if behind.is_empty() { Ok(v) } else { cx.b.unsqueeze(v, &behind) }
}

/// `x * (scale / sqrt(var + epsilon)) + (bias - mean * scale / sqrt(var + epsilon))`: where the statistics are constants, so are
/// the factor and the addend.
fn batch_norm(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let all = [cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?, cx.input(node, 3)?, cx.input(node, 4)?];
    let (x, dtype) = (all[0], cx.b.dtype(all[0]));
    let work = if all.iter().all(|v| cx.b.dtype(*v) == dtype) { dtype } else { DType::F32 };
    let mut cast = [x; 5];
    for (to, from) in cast.iter_mut().zip(all) {
        *to = cx.b.cast(from, work)?;
    }
    let [wide, scale, bias, mut mean, mut var] = cast;
    let per_channel = node.opset >= 9 || node.flag("spatial", true)?;
    let training = node.opset >= 14 && node.flag("training_mode", false)?;
    if node.opset < 7 && !node.flag("is_test", false)? {
        return Err(Problem::new("BatchNormalization without `is_test` is that of training")
            .with("export the model for inference"));
    }
    let mut outputs = Vec::new();
    if training {
        let momentum = node.float_or("momentum", 0.9)?;
        let (own_mean, own_var) = batch_statistics(cx, wide)?;
        for (i, (old, new)) in [(mean, own_mean), (var, own_var)].into_iter().enumerate() {
            let running = blend(cx, old, new, momentum)?;
            let to = all.get(3 + i).map_or(work, |v| cx.b.dtype(*v));
            outputs.push(cx.b.cast(running, to)?.into());
        }
        (mean, var) = (own_mean, own_var);
    }
    let (mut p, [var, scale_r]) = Program::new(&cx.b, [var, scale]);
    let var = p.with(MapOp::Add, var, node.float_or("epsilon", 1e-5)?.into())?;
    let deviation = p.one(MapOp::Sqrt, var);
    p.two(MapOp::Div, scale_r, deviation);
    let factor = p.finish(&mut cx.b)?;
    let (mut p, [bias, mean, factor_r]) = Program::new(&cx.b, [bias, mean, factor]);
    let moved = p.two(MapOp::Mul, mean, factor_r);
    p.two(MapOp::Sub, bias, moved);
    let addend = p.finish(&mut cx.b)?;
    let (factor, addend) =
        if per_channel { (by_channel(cx, factor, x)?, by_channel(cx, addend, x)?) } else { (factor, addend) };
    let y = cx.b.binary(MapOp::Mul, wide, factor)?;
    let y = cx.b.binary(MapOp::Add, y, addend)?;
    outputs.insert(0, cx.b.cast(y, dtype)?.into());
    Ok(outputs)
}

/// Mean and variance over all axes but the channels.
fn batch_statistics(cx: &mut Cx<'_>, x: V) -> Result<(V, V), Problem> {
    let axes: Vec<usize> = (0..cx.b.rank(x)).filter(|a| *a != 1).collect();
    let mean = cx.b.reduce(ReduceOp::Mean, x, &axes, true)?;
    let far = cx.b.binary(MapOp::Sub, x, mean)?;
    let squares = cx.b.binary(MapOp::Mul, far, far)?;
    let var = cx.b.reduce(ReduceOp::Mean, squares, &axes, false)?;
    Ok((cx.b.drop_axes(mean, &axes, false)?, var))
}

/// `old * momentum + new * (1 - momentum)`.
fn blend(cx: &mut Cx<'_>, old: V, new: V, momentum: f32) -> Result<V, Problem> {
    let (mut p, [old, new]) = Program::new(&cx.b, [old, new]);
    let old = p.with(MapOp::Mul, old, momentum.into())?;
    let new = p.with(MapOp::Mul, new, (1.0 - momentum).into())?;
    p.two(MapOp::Add, old, new);
    p.finish(&mut cx.b)
}

/// A [`Norm`] over the axes from `axis` on, with a scale and a bias that are broadcast to the dims of `x`.
fn norm(cx: &mut Cx<'_>, x: V, norm: Norm, scale: Option<V>, bias: Option<V>) -> Result<[V; 3], Problem> {
    let (dtype, dims) = (cx.b.dtype(x), cx.b.dims(x));
    let one = cx.b.int(1);
    let kept: Vec<_> = dims.iter().enumerate().map(|(i, d)| if i < norm.axis as usize { *d } else { one }).collect();
    let mut reads = vec![Some(x), None, None];
    for (to, v) in reads.iter_mut().skip(1).zip([scale, bias]) {
        if let Some(v) = v {
            let v = cx.b.cast(v, dtype)?;
            *to = Some(cx.b.broadcast(v, &dims)?);
        }
    }
    let writes = [(dtype, dims), (DType::F32, kept.clone()), (DType::F32, kept)];
    let out = cx.b.emit(norm, &reads, &writes)?;
    <[V; 3]>::try_from(out).map_err(|_| Problem::new("a norm has three results"))
}

fn instance_norm(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, scale, bias) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    if cx.b.rank(x) < 3 {
        return Err(Problem::new(format!("InstanceNormalization of {}", cx.b.describe(x))));
    }
    let (scale, bias) = (by_channel(cx, scale, x)?, by_channel(cx, bias, x)?);
    let params = Norm { kind: NormKind::Layer, axis: 2, epsilon: node.float_or("epsilon", 1e-5)? };
    let [y, ..] = norm(cx, x, params, Some(scale), Some(bias))?;
    Ok(vec![y.into()])
}

/// The channels of a group and what lies behind them count as one sample. Scale and bias belong to the groups before operator
/// set 21, to the channels from then on.
fn group_norm(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, scale, bias) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    let groups = node.int("num_groups")?;
    if groups <= 0 {
        return Err(Problem::new(format!("{groups} groups")));
    }
    let dims = cx.b.dims(x);
    let [n, c, spatial @ ..] = dims.as_slice() else {
        return Err(Problem::new(format!("GroupNormalization of {}", cx.b.describe(x))));
    };
    let groups = cx.b.int(groups);
    let one = cx.b.int(1);
    let e = cx.b.exprs();
    let (members, area) = (e.floor_div(*c, groups), e.product(spatial.iter().copied()));
    let split = cx.b.reshape(x, &[*n, groups, members, area])?;
    let own = if node.opset >= 21 { [groups, members, one] } else { [groups, one, one] };
    let (scale, bias) = (cx.b.reshape(scale, &own)?, cx.b.reshape(bias, &own)?);
    let params = Norm { kind: NormKind::Layer, axis: 2, epsilon: node.float_or("epsilon", 1e-5)? };
    let [y, ..] = norm(cx, split, params, Some(scale), Some(bias))?;
    Ok(vec![cx.b.reshape(y, &dims)?.into()])
}

/// The axis, and what a [`Norm`] over it and those behind it gives.
fn norm_from(
    cx: &mut Cx<'_>,
    node: &Node,
    x: V,
    kind: NormKind,
    scale: Option<V>,
    bias: Option<V>,
) -> Result<[V; 3], Problem> {
    let axis = cx.b.axis(node.int_or("axis", -1)?, cx.b.rank(x))?;
    norm(cx, x, Norm { kind, axis: axis as u8, epsilon: node.float_or("epsilon", 1e-5)? }, scale, bias)
}

fn layer_norm(cx: &mut Cx<'_>, node: &Node, kind: NormKind) -> Lowered {
    let (x, scale, bias) = (cx.input(node, 0)?, cx.opt(node, 1)?, cx.opt(node, 2)?);
    let [y, mean, deviation] = norm_from(cx, node, x, kind, scale, bias)?;
    Ok(match kind {
        NormKind::Layer => vec![y.into(), mean.into(), deviation.into()],
        NormKind::Rms => vec![y.into(), deviation.into()],
    })
}

/// Adds first: the input, the skip and perhaps a bias.
fn skip_norm(cx: &mut Cx<'_>, node: &Node, kind: NormKind) -> Lowered {
    let (x, skip, scale) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.opt(node, 2)?);
    let (shift, bias) = match kind {
        NormKind::Layer => (cx.opt(node, 3)?, cx.opt(node, 4)?),
        NormKind::Rms => (None, cx.opt(node, 3)?),
    };
    let mut sum = cx.b.binary(MapOp::Add, x, skip)?;
    if let Some(bias) = bias {
        sum = cx.b.binary(MapOp::Add, sum, bias)?;
    }
    let axis = cx.b.axis(-1, cx.b.rank(sum))?;
    let params = Norm { kind, axis: axis as u8, epsilon: node.float_or("epsilon", 1e-12)? };
    let [y, mean, deviation] = norm(cx, sum, params, scale, shift)?;
    Ok(vec![y.into(), mean.into(), deviation.into(), sum.into()])
}

fn lp_norm(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let axis = cx.b.axis(node.int_or("axis", -1)?, cx.b.rank(x))?;
    let op = match node.int_or("p", 2)? {
        1 => ReduceOp::L1,
        2 => ReduceOp::L2,
        p => return Err(Problem::new(format!("the exponent {p} of LpNormalization"))),
    };
    let size = cx.b.reduce(op, x, &[axis], true)?;
    // Where all is zero, so is the result.
    let (mut p, [x, size]) = Program::new(&cx.b, [x, size]);
    let zero = p.constant(x.dtype(), 0.0)?;
    let empty = p.two(MapOp::Eq, size, zero);
    let y = p.two(MapOp::Div, x, size);
    p.select(empty, zero, y);
    Ok(vec![p.finish(&mut cx.b)?.into()])
}

/// `x / (bias + alpha * mean of the squares of neighbouring channels)^beta`.
fn lrn(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let size = node.int("size")?;
    let size = u32::try_from(size).ok().filter(|s| *s > 0).ok_or_else(|| Problem::new(format!("the size {size}")))?;
    let (dtype, dims) = (cx.b.dtype(x), cx.b.dims(x));
    let [n, c, spatial @ ..] = dims.as_slice() else {
        return Err(Problem::new(format!("LRN of {}", cx.b.describe(x))));
    };
    let one = cx.b.int(1);
    let area = cx.b.exprs().product(spatial.iter().copied());
    let image = [*n, one, *c, area];
    let flat = cx.b.reshape(x, &image)?;
    let (before, after) = (cx.b.int(((size - 1) / 2).into()), cx.b.int((size / 2).into()));
    let zero = cx.b.int(0);
    // The root of the sum of squares: no tensor of squares has to lie beside it.
    let pool = Pool {
        kind: PoolKind::Lp { p: 2 },
        kernel: List::of([size, 1]),
        strides: List::of([1, 1]),
        dilations: List::of([1, 1]),
        before: List::of([before, zero]),
        after: List::of([after, zero]),
        count_include_pad: false,
        column_major: false,
        data: DataLayout::ChannelsFirst,
    };
    let norm = cx.b.emit1(pool, &[Some(flat)], dtype, &image)?;
    let norm = cx.b.reshape(norm, &dims)?;
    let (mut p, [x, norm]) = Program::new(&cx.b, [x, norm]);
    let squares = p.two(MapOp::Mul, norm, norm);
    let by = p.with(MapOp::Mul, squares, f64::from(node.float_or("alpha", 1e-4)?) / f64::from(size))?;
    let by = p.with(MapOp::Add, by, node.float_or("bias", 1.0)?.into())?;
    let by = p.with(MapOp::Pow, by, node.float_or("beta", 0.75)?.into())?;
    p.two(MapOp::Div, x, by);
    Ok(vec![p.finish(&mut cx.b)?.into()])
}

fn mean_variance_norm(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let axes = sorted_axes(cx, x, node.ints_or("axes", &[0, 2, 3])?)?;
    let mean = cx.b.reduce(ReduceOp::Mean, x, &axes, true)?;
    let far = cx.b.binary(MapOp::Sub, x, mean)?;
    let squares = cx.b.binary(MapOp::Mul, far, far)?;
    let var = cx.b.reduce(ReduceOp::Mean, squares, &axes, true)?;
    let (mut p, [far, var]) = Program::new(&cx.b, [far, var]);
    let deviation = p.one(MapOp::Sqrt, var);
    let deviation = p.with(MapOp::Add, deviation, 1e-9)?;
    p.two(MapOp::Div, far, deviation);
    Ok(vec![p.finish(&mut cx.b)?.into()])
}

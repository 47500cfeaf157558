//! Constants, ranges and random numbers.

use super::lower::dtype_attr;
use super::{Cx, Lowered, Operator, Strings, Val, op};
use crate::graph::{Builder, Op, Problem, V};
use crate::onnx::{Attribute, Node};
use plan::{DType, ExprId, List, Primitive, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("Bernoulli", bernoulli),
    op("Constant", constant),
    op("ConstantOfShape", constant_of_shape),
    op("EyeLike", eye_like),
    op("Multinomial", multinomial),
    op("RandomNormal", random_normal),
    op("RandomNormalLike", random_normal),
    op("RandomUniform", random_uniform),
    op("RandomUniformLike", random_uniform),
    op("Range", range),
];

/// Views and conversions that are looked through in search of a number.
const MOST_CONVERSIONS: usize = 16;

/// The integers from 0 to `count` (i64).
pub(super) fn iota(b: &mut Builder, count: ExprId) -> Result<V, Problem> {
    let (zero, one) = (b.int(0), b.int(1));
    b.emit1(Iota { range: List::of([zero, one]) }, &[], DType::I64, &[count])
}

/// A single number as an integer expression, also where it has been converted to another type on the way.
pub(super) fn whole(b: &mut Builder, v: V) -> Option<ExprId> {
    // The largest magnitude that every type on the way holds exactly.
    let (mut v, mut exact) = (v, i64::MAX);
    for _ in 0..MOST_CONVERSIONS {
        let found = match (b.known(v).as_deref(), b.known_floats(v).as_deref()) {
            (Some([one]), _) => *one,
            (None, Some([one])) if one.fract() == 0.0 && one.abs() < 9e15 => b.int(*one as i64),
            (None, None) => {
                (v, exact) = converted(b, v).map(|(from, holds)| (from, exact.min(holds)))?;
                continue;
            }
            _ => return None,
        };
        let (lo, hi) = b.exprs().range(found);
        return (lo >= -exact && hi <= exact).then_some(found);
    }
    None
}

/// What a value is a view or a conversion of, and up to where its type holds every integer.
fn converted(b: &Builder, v: V) -> Option<(V, i64)> {
    let (n, _) = b.graph.producer_of(v)?;
    let node = b.graph.node(n);
    let from = node.reads.first().copied().flatten()?;
    match &node.op {
        Op::View(_) => Some((from, i64::MAX)),
        Op::Prim(Primitive::Map(map)) if map.code.len() == 1 => {
            let one = map.code.iter().next().filter(|one| one.op == MapOp::Cast)?;
            let holds = match one.out {
                DType::F32 => 1 << 24,
                DType::F64 => 1 << 53,
                DType::F16 => 1 << 11,
                DType::BF16 => 1 << 8,
                _ => return None,
            };
            Some((from, holds))
        }
        _ => None,
    }
}

fn constant(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let one = |v: V| Ok(vec![Val::from(v)]);
    const VALUES: [&str; 8] = [
        "value",
        "sparse_value",
        "value_float",
        "value_floats",
        "value_int",
        "value_ints",
        "value_string",
        "value_strings",
    ];
    let mut values = node.attributes.iter().filter(|(name, _)| VALUES.contains(name));
    let (name, value) = match (values.next(), values.next()) {
        (Some(value), None) => value,
        (Some((one, _)), Some((other, _))) => {
            return Err(Problem::new(format!("there is a `{one}` and a `{other}`")).with("keep one of them"));
        }
        _ => return Err(Problem::new(format!("no value is given: one of {}", VALUES.join(", ")))),
    };
    let vector = |n: usize| vec![n];
    match value {
        Attribute::Tensor(t) => Ok(vec![cx.constant(t)?]),
        Attribute::Float(f) => one(floats(cx, &[*f], &[])?),
        Attribute::Floats(f) => one(floats(cx, f, &vector(f.len()))?),
        Attribute::Int(i) => one(cx.b.const_of_ints(DType::I64, &[], &[*i])?),
        Attribute::Ints(i) => one(cx.b.const_of_ints(DType::I64, &vector(i.len()), i)?),
        Attribute::String(s) => Ok(vec![Val::Strings(Strings { dims: Vec::new(), data: vec![s.clone()] })]),
        Attribute::Strings(s) => Ok(vec![Val::Strings(Strings { dims: vector(s.len()), data: s.clone() })]),
        Attribute::SparseTensor(s) => Ok(vec![cx.constant(&s.to_dense(1 << 26)?)?]),
        other => Err(Problem::new(format!("attribute {name} is of type {}", other.kind().name()))),
    }
}

fn floats(cx: &mut Cx<'_>, values: &[f32], dims: &[usize]) -> Result<V, Problem> {
    let bytes: Vec<u8> = values.iter().flat_map(|f| f.to_le_bytes()).collect();
    cx.b.constant(DType::F32, dims, bytes.into(), true)
}

fn constant_of_shape(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let dims = cx.opt_exprs(node, 0)?.ok_or_else(|| Problem::new("input 0 is absent"))?;
    let fill = match node.opt_tensor("value")? {
        Some(t) => match cx.constant(t)? {
            Val::Tensor(v) => {
                let one = cx.b.int(1);
                let count = cx.b.count(v);
                cx.b.require_equal(count, one, "the value is a single one")?;
                cx.b.reshape(v, &[])?
            }
            _ => return Err(Problem::new("the value is no number")),
        },
        None => cx.b.scalar(DType::F32, 0.0)?,
    };
    Ok(vec![cx.b.broadcast(fill, &dims)?.into()])
}

fn range(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (start, limit, delta) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    let dtype = cx.b.dtype(start);
    let ends = (whole(&mut cx.b, start), whole(&mut cx.b, limit), whole(&mut cx.b, delta));
    if let (Some(s), Some(l), Some(d)) = ends {
        let count = range_count(&mut cx.b, s, l, d)?;
        let (reads, range) = if dtype.is_integer() { (Vec::new(), [s, d]) } else { (vec![start, delta], [s, d]) };
        return Ok(vec![counted(cx, dtype, count, range, &reads)?.into()]);
    }
    // Numbers with a fraction: the count is one all the same.
    let floats = |cx: &Cx<'_>, v| match cx.b.known_floats(v).as_deref() {
        Some([one]) => Some(*one),
        _ => None,
    };
    let (Some(s), Some(l), Some(d)) = (floats(cx, start), floats(cx, limit), floats(cx, delta)) else {
        let i = [ends.0, ends.1, ends.2].iter().position(Option::is_none).unwrap_or(0);
        return Err(cx.not_known(node, i));
    };
    let count = ((l - s) / d).ceil().max(0.0);
    if !count.is_finite() || count > 1e15 {
        return Err(Problem::new(format!("from {s} to {l} by {d}")));
    }
    let (count, zero) = (cx.b.int(count as i64), cx.b.int(0));
    Ok(vec![counted(cx, dtype, count, [zero, zero], &[start, delta])?.into()])
}

/// `count` numbers; `reads` are start and step where they are not the integers `range`.
fn counted(cx: &mut Cx<'_>, dtype: DType, count: ExprId, range: [ExprId; 2], reads: &[V]) -> Result<V, Problem> {
    let mut scalars = Vec::new();
    for v in reads {
        scalars.push(Some(cx.b.reshape(*v, &[])?));
    }
    cx.b.emit1(Iota { range: List::of(range) }, &scalars, dtype, &[count])
}

/// `max(ceil((limit - start) / delta), 0)`.
fn range_count(b: &mut Builder, start: ExprId, limit: ExprId, delta: ExprId) -> Result<ExprId, Problem> {
    let (lo, hi) = b.exprs().range(delta);
    let zero = b.int(0);
    let x = b.exprs();
    let count = if lo > 0 {
        let length = x.sub(limit, start);
        x.ceil_div(length, delta)
    } else if hi < 0 {
        let (length, step) = (x.sub(start, limit), x.sub(zero, delta));
        x.ceil_div(length, step)
    } else {
        let delta = x.display(delta);
        return Err(Problem::new(format!("the step {delta} is or may be 0")));
    };
    Ok(x.max(count, zero))
}

fn eye_like(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let v = cx.input(node, 0)?;
    let dims = cx.b.dims(v);
    let [rows, columns] = dims.as_slice() else {
        return Err(Problem::new(format!("{} is no matrix", cx.b.describe(v))));
    };
    let dtype = match node.opt_int("dtype")? {
        Some(number) => dtype_attr(number)?,
        None => cx.b.dtype(v),
    };
    let one = cx.b.int(1);
    let row = iota(&mut cx.b, *rows)?;
    let row = cx.b.reshape(row, &[*rows, one])?;
    let row = cx.b.binary_scalar(MapOp::Add, row, node.int_or("k", 0)? as f64)?;
    let column = iota(&mut cx.b, *columns)?;
    let same = cx.b.binary(MapOp::Eq, row, column)?;
    Ok(vec![cx.b.cast(same, dtype)?.into()])
}

/// Type and dims of a random tensor: those of input 0, or as the attributes say.
fn random_form(cx: &mut Cx<'_>, node: &Node) -> Result<(DType, Vec<ExprId>), Problem> {
    let like = cx.opt(node, 0)?;
    let dims = match (like, node.opt_ints("shape")?) {
        (Some(v), _) => cx.b.dims(v),
        (None, Some(shape)) => cx.b.ints(shape),
        (None, None) => return Err(Problem::new("no shape is given")),
    };
    let dtype = match (node.opt_int("dtype")?, like) {
        (Some(number), _) => dtype_attr(number)?,
        (None, Some(v)) => cx.b.dtype(v),
        (None, None) => DType::F32,
    };
    Ok((dtype, dims))
}

/// The seed of a node: as given, else one of its own that is the same in every build.
fn seed(cx: &Cx<'_>, node: &Node) -> Result<u64, Problem> {
    Ok(match node.opt_float("seed")? {
        Some(seed) => u64::from(seed.to_bits()),
        None => (cx.b.graph.nodes().len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63,
    })
}

fn random_normal(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let kind = RandomKind::Normal { mean: node.float_or("mean", 0.0)?, scale: node.float_or("scale", 1.0)? };
    let (dtype, dims) = random_form(cx, node)?;
    let seed = seed(cx, node)?;
    Ok(vec![cx.b.emit1(Random { kind, seed }, &[], dtype, &dims)?.into()])
}

fn random_uniform(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let kind = RandomKind::Uniform { low: node.float_or("low", 0.0)?, high: node.float_or("high", 1.0)? };
    let (dtype, dims) = random_form(cx, node)?;
    let seed = seed(cx, node)?;
    Ok(vec![cx.b.emit1(Random { kind, seed }, &[], dtype, &dims)?.into()])
}

fn bernoulli(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (dtype, dims) = random_form(cx, node)?;
    let (v, seed) = (cx.input(node, 0)?, seed(cx, node)?);
    Ok(vec![cx.b.emit1(Random { kind: RandomKind::Bernoulli, seed }, &[Some(v)], dtype, &dims)?.into()])
}

fn multinomial(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (v, seed) = (cx.input(node, 0)?, seed(cx, node)?);
    if cx.b.rank(v) != 2 {
        return Err(Problem::new(format!("{} is not [batch, classes]", cx.b.describe(v))));
    }
    let dtype = dtype_attr(node.int_or("dtype", 6)?)?;
    let dims = [cx.b.dim(v, 0)?, cx.b.int(node.int_or("sample_size", 1)?)];
    Ok(vec![cx.b.emit1(Random { kind: RandomKind::Multinomial, seed }, &[Some(v)], dtype, &dims)?.into()])
}

//! Strings, which live on the host: operators on constant ones are done while planning.

use super::{Cx, Lowered, Operator, Strings, Val};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use bytes::Bytes;
use plan::{DType, ExprId};

pub(super) const OPERATORS: &[Operator] = &[];

/// Strings of a tensor that operators make: a chain of doublings would fill any memory.
const MOST_STRINGS: usize = 1 << 16;

/// The strings of input `i`.
///
/// # Errors
/// When it holds none, or they are not known while planning.
fn strings(cx: &Cx<'_>, node: &Node, i: usize) -> Result<Strings, Problem> {
    match cx.val(node, i)? {
        Val::Strings(s) => Ok(s),
        _ => Err(Problem::new(format!("input {i} holds no strings"))),
    }
}

/// Strings under other dims.
pub(super) fn reshape(cx: &mut Cx<'_>, s: Strings, wanted: &[ExprId], allow_zero: bool) -> Lowered {
    let own: Vec<ExprId> = s.dims.iter().map(|d| cx.b.int(*d as i64)).collect();
    let dims = super::shape::reshaped(&mut cx.b, &own, wanted, allow_zero)?;
    let dims = cx.b.const_ints(&dims).ok_or_else(|| Problem::new("the new shape of strings must be known"))?;
    let dims: Vec<usize> = dims.into_iter().map(|d| d.max(0) as usize).collect();
    if dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)) != Some(s.data.len()) {
        return Err(Problem::new(format!("{} strings under the dims {dims:?}", s.data.len())));
    }
    Ok(vec![Val::Strings(Strings { dims, data: s.data })])
}

/// Strings one after another along an axis.
pub(super) fn concat(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let parts = (0..node.inputs.len()).map(|i| strings(cx, node, i)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = parts.first() else { return Err(Problem::new("nothing to concatenate")) };
    let axis = cx.b.axis(node.int("axis")?, first.dims.len())?;
    let same = |p: &Strings| {
        p.dims.len() == first.dims.len()
            && p.dims.iter().zip(&first.dims).enumerate().all(|(i, (a, b))| i == axis || a == b)
    };
    if !parts.iter().all(same) {
        return Err(Problem::new("the dims of the strings do not fit"));
    }
    let count: usize = parts.iter().map(|p| p.data.len()).sum();
    if count > MOST_STRINGS {
        return Err(
            Problem::new(format!("{count} strings in one tensor")).with("at most 65,536 are kept while planning")
        );
    }
    let mut dims = first.dims.clone();
    dims[axis] = parts.iter().map(|p| p.dims[axis]).sum();
    let rows: usize = dims[..axis].iter().product();
    let mut data = Vec::new();
    for row in 0..rows {
        for p in &parts {
            let wide: usize = p.dims[axis..].iter().product();
            data.extend(p.data.iter().skip(row * wide).take(wide).cloned());
        }
    }
    Ok(vec![Val::Strings(Strings { dims, data })])
}

/// Strings read as numbers.
pub(super) fn to_numbers(cx: &mut Cx<'_>, s: &Strings, to: DType) -> Lowered {
    let mut values = Vec::new();
    for text in &s.data {
        let text = std::str::from_utf8(text).map_err(|_| Problem::new("a string is not UTF-8"))?.trim();
        let parsed = if to.is_integer() { text.parse::<i64>().map(Number::Int).ok() } else { None };
        let parsed = parsed.or_else(|| text.parse::<f64>().map(Number::Float).ok());
        values.push(parsed.ok_or_else(|| Problem::new(format!("`{text}` is no number")))?);
    }
    Ok(vec![numbers(cx, &values, &s.dims, to)?.into()])
}

enum Number {
    Int(i64),
    Float(f64),
}

fn numbers(cx: &mut Cx<'_>, values: &[Number], dims: &[usize], to: DType) -> Result<V, Problem> {
    let ints: Option<Vec<i64>> = values.iter().map(|v| if let Number::Int(i) = v { Some(*i) } else { None }).collect();
    if let Some(ints) = ints.filter(|_| to.is_integer()) {
        return cx.b.const_of_ints(to, dims, &ints);
    }
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|v| {
            match v {
                Number::Int(i) => *i as f64,
                Number::Float(f) => *f,
            }
            .to_le_bytes()
        })
        .collect();
    let wide = cx.b.constant(DType::F64, dims, Bytes::from(bytes), false)?;
    cx.b.cast(wide, to)
}

/// Numbers written as strings.
pub(super) fn to_strings(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    if let val @ Val::Strings(_) = cx.val(node, 0)? {
        return Ok(vec![val]);
    }
    let v = cx.input(node, 0)?;
    let dtype = cx.b.dtype(v);
    let (Some(bytes), Some(dims)) = (cx.b.graph.constant_of(v).cloned(), cx.b.graph.static_dims(v)) else {
        return Err(Problem::new("numbers that only the run knows cannot become strings, which live on the host")
            .with("write the numbers out after the model"));
    };
    let data: Vec<Bytes> = match dtype {
        // The shortest text that reads back as the same number depends on the type.
        DType::F32 => bytes.as_chunks().0.iter().map(|b| decimal(f32::from_le_bytes(*b).to_string())).collect(),
        DType::Bool => bytes.iter().map(|b| Bytes::from_static(if *b == 0 { b"False" } else { b"True" })).collect(),
        _ if dtype.is_integer() => {
            let ints = cx.b.known_ints(v).ok_or_else(|| Problem::new(format!("{dtype} written as strings")))?;
            ints.into_iter().map(|i| Bytes::from(i.to_string())).collect()
        }
        _ => {
            let floats = cx.b.known_floats(v).ok_or_else(|| Problem::new(format!("{dtype} written as strings")))?;
            floats.into_iter().map(|f| decimal(f.to_string())).collect()
        }
    };
    Ok(vec![Val::Strings(Strings { dims, data })])
}

/// A floating-point number always shows that it is one.
fn decimal(text: String) -> Bytes {
    match text.as_str() {
        "inf" => Bytes::from_static(b"INF"),
        "-inf" => Bytes::from_static(b"-INF"),
        _ if text.contains('.') || text == "NaN" => Bytes::from(text),
        _ => Bytes::from(text + ".0"),
    }
}

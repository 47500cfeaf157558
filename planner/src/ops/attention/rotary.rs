//! `RotaryEmbedding`: pairs of elements turned by an angle for each position.

use super::super::gather::gathered;
use super::super::program::Program;
use super::super::{Cx, Lowered};
use super::{join_heads, split_heads};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{ExprId, prim::*};

pub(super) fn lower(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, cos, sin, at) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?, cx.opt(node, 3)?);
    let packed = cx.b.rank(x) == 3;
    let heads = if packed { split_heads(cx, x, node.int("num_heads")?)? } else { x };
    let size = cx.b.dim(heads, 3)?;
    let turned = match node.int_or("rotary_embedding_dim", 0)? {
        0 => size,
        n => cx.b.int(n),
    };
    let two = cx.b.int(2);
    let half = cx.b.exprs().floor_div(turned, two);
    let interleaved = node.flag("interleaved", false)?;
    let (first, second) = halves(cx, heads, half, interleaved)?;
    let (cos, sin) = (angles(cx, cos, at, half)?, angles(cx, sin, at, half)?);
    let (mut p, [a, b, c, s]) = Program::new(&cx.b, [first, second, cos, sin]);
    let (u, v) = (p.two(MapOp::Mul, c, a), p.two(MapOp::Mul, s, b));
    p.two(MapOp::Sub, u, v);
    let real = p.finish(&mut cx.b)?;
    let (mut p, [a, b, c, s]) = Program::new(&cx.b, [first, second, cos, sin]);
    let (u, v) = (p.two(MapOp::Mul, s, a), p.two(MapOp::Mul, c, b));
    p.two(MapOp::Add, u, v);
    let imaginary = p.finish(&mut cx.b)?;
    let mut dims = cx.b.dims(heads);
    if let Some(last) = dims.last_mut() {
        *last = turned;
    }
    let y = if interleaved {
        let (real, imaginary) = (cx.b.unsqueeze(real, &[-1])?, cx.b.unsqueeze(imaginary, &[-1])?);
        let pairs = cx.b.concat(&[real, imaginary], 4)?;
        cx.b.reshape(pairs, &dims)?
    } else {
        cx.b.concat(&[real, imaginary], 3)?
    };
    let y = if turned == size {
        y
    } else {
        let rest = cx.b.exprs().sub(size, turned);
        let rest = cx.b.narrow(heads, 3, turned, rest)?;
        cx.b.concat(&[y, rest], 3)?
    };
    Ok(vec![if packed { join_heads(cx, y)? } else { y }.into()])
}

/// The two elements of each pair: the halves of the turned part, or every other element.
fn halves(cx: &mut Cx<'_>, x: V, half: ExprId, interleaved: bool) -> Result<(V, V), Problem> {
    let (zero, one) = (cx.b.int(0), cx.b.int(1));
    if !interleaved {
        return Ok((cx.b.narrow(x, 3, zero, half)?, cx.b.narrow(x, 3, half, half)?));
    }
    let mut dims = cx.b.dims(x);
    if let Some(last) = dims.last_mut() {
        *last = half;
    }
    let first = cx.b.slice(x, &[zero; 4], &[1, 1, 1, 2], &dims)?;
    Ok((first, cx.b.slice(x, &[zero, zero, zero, one], &[1, 1, 1, 2], &dims)?))
}

/// Sines or cosines as `[batch, 1, length, half]`.
fn angles(cx: &mut Cx<'_>, cache: V, at: Option<V>, half: ExprId) -> Result<V, Problem> {
    let own = match at {
        Some(at) => gathered(&mut cx.b, cache, at, 0)?,
        None => cache,
    };
    let last = cx.b.dim(own, cx.b.rank(own).saturating_sub(1))?;
    cx.b.require_equal(last, half, "an angle for each pair")?;
    cx.b.unsqueeze(own, &[1])
}

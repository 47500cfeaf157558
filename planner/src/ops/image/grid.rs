//! Sampling at the points of a grid, and grids of affine maps.

use super::super::generate::iota;
use super::super::program::unary_program;
use super::super::{Cx, Lowered};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, prim::*};

pub(super) fn grid_sample(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, grid) = (cx.input(node, 0)?, cx.input(node, 1)?);
    let mode = match node.string_or("mode", "linear")? {
        "linear" | "bilinear" => ResizeMode::Linear,
        "nearest" => ResizeMode::Nearest,
        "cubic" | "bicubic" => ResizeMode::Cubic,
        other => return Err(Problem::new(format!("the mode {other}"))),
    };
    let padding = match node.string_or("padding_mode", "zeros")? {
        "zeros" => GridPadding::Zeros,
        "border" => GridPadding::Border,
        "reflection" => GridPadding::Reflection,
        other => return Err(Problem::new(format!("the padding {other}"))),
    };
    let prim = GridSample { mode, padding, align_corners: node.flag("align_corners", false)? };
    Ok(vec![sample(cx, x, grid, prim)?.into()])
}

/// `x [n, c, spatial...]` at the points `grid [n, out..., d]`.
pub(super) fn sample(cx: &mut Cx<'_>, x: V, grid: V, prim: GridSample) -> Result<V, Problem> {
    let (own, points) = (cx.b.dims(x), cx.b.dims(grid));
    let ([n, c, spatial @ ..], [m, out @ .., d]) = (own.as_slice(), points.as_slice()) else {
        return Err(Problem::new(format!("{} at the points {}", cx.b.describe(x), cx.b.describe(grid))));
    };
    let axes = cx.b.int(spatial.len() as i64);
    cx.b.require_equal(*d, axes, "a coordinate for each spatial axis")?;
    cx.b.require_equal(*n, *m, "a grid for each image")?;
    let dims = [&[*n, *c], out].concat();
    let dtype = cx.b.dtype(x);
    cx.b.emit1(prim, &[Some(x), Some(grid)], dtype, &dims)
}

/// The positions of `count` elements between -1 and 1, along an axis of `rank`.
fn positions(
    cx: &mut Cx<'_>,
    count: ExprId,
    (axis, rank): (usize, usize),
    dtype: DType,
    corners: bool,
) -> Result<V, Problem> {
    let index = iota(&mut cx.b, count)?;
    let index = cx.b.cast(index, DType::F64)?;
    let extent = cx.b.of_exprs(DType::I64, &[], &[count])?;
    let extent = cx.b.cast(extent, DType::F64)?;
    // Corners: 2 i / (n - 1) - 1. Edges: (2 i + 1) / n - 1.
    let (top, bottom) = if corners {
        (cx.b.binary_scalar(MapOp::Mul, index, 2.0)?, cx.b.binary_scalar(MapOp::Sub, extent, 1.0)?)
    } else {
        let top = unary_program(&mut cx.b, index, |p, i| {
            let twice = p.with(MapOp::Mul, i, 2.0)?;
            p.with(MapOp::Add, twice, 1.0)
        })?;
        (top, extent)
    };
    let ratio = cx.b.binary(MapOp::Div, top, bottom)?;
    let v = cx.b.binary_scalar(MapOp::Sub, ratio, 1.0)?;
    let v = cx.b.cast(v, dtype)?;
    let one = cx.b.int(1);
    let mut dims = vec![one; rank];
    if let Some(d) = dims.get_mut(axis) {
        *d = count;
    }
    cx.b.reshape(v, &dims)
}

pub(super) fn affine_grid(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let theta = cx.input(node, 0)?;
    let size = cx.opt_exprs(node, 1)?.ok_or_else(|| Problem::new("no size"))?;
    let spatial = size.get(2..).unwrap_or(&[]).to_vec();
    let (rank, dtype) = (spatial.len(), cx.b.dtype(theta));
    let corners = node.flag("align_corners", false)?;
    let one = cx.b.int(1);
    let column = [spatial.as_slice(), &[one]].concat();
    // Coordinates, the last axis first, then 1.
    let mut parts = Vec::new();
    for (axis, count) in spatial.iter().enumerate().rev() {
        let along = positions(cx, *count, (axis, rank + 1), dtype, corners)?;
        parts.push(cx.b.broadcast(along, &column)?);
    }
    let ones = cx.b.scalar(dtype, 1.0)?;
    parts.push(cx.b.broadcast(ones, &column)?);
    let base = cx.b.concat(&parts, rank)?;
    let (points, width) = (cx.b.exprs().product(spatial.iter().copied()), cx.b.int(rank as i64 + 1));
    let base = cx.b.reshape(base, &[points, width])?;
    let maps = cx.b.permute(theta, &[0, 2, 1])?;
    let grid = cx.b.matmul(base, maps, dtype, [None, None])?;
    let (n, d) = (cx.b.dim(theta, 0)?, cx.b.dim(theta, 1)?);
    let dims = [&[n], spatial.as_slice(), &[d]].concat();
    Ok(vec![cx.b.reshape(grid, &dims)?.into()])
}

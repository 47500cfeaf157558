//! Resampling and other operators on images.

use super::window::{positive_list, spatial_list};
use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, prim::*};

mod deform;
mod grid;
mod resize;

pub(super) const OPERATORS: &[Operator] = &[
    op("Resize", resize::resize),
    op("Upsample", resize::upsample),
    op("GridSample", grid::grid_sample),
    op("AffineGrid", grid::affine_grid),
    op("DeformConv", deform::lower),
    op("RoiAlign", roi_align),
    op("DepthToSpace", depth_to_space),
    op("SpaceToDepth", space_to_depth),
    op("CenterCropPad", center_crop_pad),
    op("Col2Im", col2im),
];

/// The operand's four extents, and the block's.
fn blocks(cx: &mut Cx<'_>, node: &Node, x: V) -> Result<([ExprId; 4], ExprId), Problem> {
    let size = node.int("blocksize")?;
    if size <= 0 {
        return Err(Problem::new(format!("blocks of {size}")));
    }
    let dims = <[ExprId; 4]>::try_from(cx.b.dims(x))
        .map_err(|_| Problem::new(format!("an image has four axes, unlike {}", cx.b.describe(x))))?;
    Ok((dims, cx.b.int(size)))
}

fn column_row_depth(node: &Node) -> Result<bool, Problem> {
    match node.string_or("mode", "DCR")? {
        "DCR" => Ok(false),
        "CRD" => Ok(true),
        other => Err(Problem::new(format!("the mode {other}"))),
    }
}

fn depth_to_space(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let ([n, c, h, w], s) = blocks(cx, node, x)?;
    let e = cx.b.exprs();
    let area = e.mul(s, s);
    let (rest, tall, wide) = (e.floor_div(c, area), e.mul(h, s), e.mul(w, s));
    let (split, perm) = if column_row_depth(node)? {
        ([n, rest, s, s, h, w], [0, 1, 4, 2, 5, 3])
    } else {
        ([n, s, s, rest, h, w], [0, 3, 4, 1, 5, 2])
    };
    let v = cx.b.reshape(x, &split)?;
    let v = cx.b.permute(v, &perm)?;
    Ok(vec![cx.b.reshape(v, &[n, rest, tall, wide])?.into()])
}

fn space_to_depth(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let ([n, c, h, w], s) = blocks(cx, node, x)?;
    let e = cx.b.exprs();
    let (area, rows, columns) = (e.mul(s, s), e.floor_div(h, s), e.floor_div(w, s));
    let deep = e.mul(c, area);
    let v = cx.b.reshape(x, &[n, c, rows, s, columns, s])?;
    let perm = if column_row_depth(node)? { [0, 1, 3, 5, 2, 4] } else { [0, 3, 5, 1, 2, 4] };
    let v = cx.b.permute(v, &perm)?;
    Ok(vec![cx.b.reshape(v, &[n, deep, rows, columns])?.into()])
}

/// Cropped or padded with zeros to a shape; of an odd difference, the smaller part lies in front.
fn center_crop_pad(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let shape = cx.opt_exprs(node, 1)?.ok_or_else(|| Problem::new("no shape"))?;
    let (dims, rank) = (cx.b.dims(x), cx.b.rank(x));
    let axes: Vec<usize> = match node.opt_ints("axes")? {
        Some(list) => list.iter().map(|a| cx.b.axis(*a, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).collect(),
    };
    if shape.len() != axes.len() {
        return Err(Problem::new(format!("{} extents for {} axes", shape.len(), axes.len())));
    }
    let (zero, two) = (cx.b.int(0), cx.b.int(2));
    let (mut before, mut after) = (vec![zero; rank], vec![zero; rank]);
    for (axis, wanted) in axes.into_iter().zip(shape) {
        let e = cx.b.exprs();
        let more = e.sub(wanted, dims[axis]);
        let (down, up) = (e.floor_div(more, two), e.ceil_div(more, two));
        let crops = e.lt(more, zero);
        before[axis] = e.select(crops, up, down);
        after[axis] = e.sub(more, before[axis]);
    }
    Ok(vec![super::slice::padded(&mut cx.b, x, &before, &after, PadMode::Constant, None)?.into()])
}

fn roi_align(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (x, rois, images) = (cx.input(node, 0)?, cx.input(node, 1)?, cx.input(node, 2)?);
    let half_pixel = match node.opt_string("coordinate_transformation_mode")? {
        Some("half_pixel") => true,
        Some("output_half_pixel") => false,
        Some(other) => return Err(Problem::new(format!("the coordinate transformation {other}"))),
        None => node.opset >= 16,
    };
    let average = match node.string_or("mode", "avg")? {
        "avg" => true,
        "max" => false,
        other => return Err(Problem::new(format!("the mode {other}"))),
    };
    let ratio = node.int_or("sampling_ratio", 0)?;
    let prim = RoiAlign {
        average,
        sampling_ratio: u32::try_from(ratio).map_err(|_| Problem::new(format!("the sampling ratio {ratio}")))?,
        spatial_scale: node.float_or("spatial_scale", 1.0)?,
        half_pixel,
    };
    let (height, width) = (cx.b.int(node.int_or("output_height", 1)?), cx.b.int(node.int_or("output_width", 1)?));
    let dims = [cx.b.dim(rois, 0)?, cx.b.dim(x, 1)?, height, width];
    let dtype = cx.b.dtype(x);
    let rois = cx.b.cast(rois, dtype)?;
    let images = cx.b.cast(images, DType::I64)?;
    Ok(vec![cx.b.emit1(prim, &[Some(x), Some(rois), Some(images)], dtype, &dims)?.into()])
}

fn col2im(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let image = cx.opt_exprs(node, 1)?.ok_or_else(|| Problem::new("no image shape"))?;
    let block = cx.opt_const_ints(node, 2)?.ok_or_else(|| Problem::new("no block shape"))?;
    let axes = image.len();
    let block: Option<Vec<u32>> = block.iter().map(|v| u32::try_from(*v).ok().filter(|v| *v > 0)).collect();
    let block = block.filter(|b| b.len() == axes).ok_or_else(|| Problem::new("a block has an extent for each axis"))?;
    let pads: Option<Vec<u32>> =
        node.ints_or("pads", &vec![0; 2 * axes])?.iter().map(|v| u32::try_from(*v).ok()).collect();
    let pads = pads.filter(|p| p.len() == 2 * axes).ok_or_else(|| Problem::new("pads are two for each axis"))?;
    let (before, after) = pads.split_at(axes);
    let prim = Col2Im {
        before: spatial_list(before)?,
        strides: spatial_list(&positive_list(node, "strides", axes, 1)?)?,
        dilations: spatial_list(&positive_list(node, "dilations", axes, 1)?)?,
        after: spatial_list(after)?,
        block: spatial_list(&block)?,
    };
    let taps = block.iter().try_fold(1i64, |n, b| n.checked_mul(i64::from(*b)));
    let taps = taps.ok_or_else(|| Problem::new(format!("a block of {block:?} elements")))?;
    let taps = cx.b.int(taps);
    let (n, columns) = (cx.b.dim(x, 0)?, cx.b.dim(x, 1)?);
    let channels = cx.b.exprs().floor_div(columns, taps);
    let dims = [&[n, channels], image.as_slice()].concat();
    let dtype = cx.b.dtype(x);
    Ok(vec![cx.b.emit1(prim, &[Some(x)], dtype, &dims)?.into()])
}

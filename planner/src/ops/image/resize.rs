//! `Resize` and `Upsample`.

use super::super::{Cx, Lowered};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, prim::*};

/// Denominators up to this are tried when a scale is to be written as a fraction.
const MAX_DENOMINATOR: i64 = 1024;

/// `floor(extent * scale)`.
fn scaled(cx: &mut Cx<'_>, extent: ExprId, scale: f32) -> Result<ExprId, Problem> {
    if !(scale.is_finite() && scale > 0.0) {
        return Err(Problem::new(format!("the scale {scale}")));
    }
    // As a fraction, it holds for every extent.
    for q in 1..=MAX_DENOMINATOR {
        let p = (f64::from(scale) * q as f64).round();
        if (p / q as f64) as f32 == scale && (1.0..1e9).contains(&p) {
            let (p, q) = (cx.b.int(p as i64), cx.b.int(q));
            let e = cx.b.exprs();
            let whole = e.mul(extent, p);
            return Ok(e.floor_div(whole, q));
        }
    }
    match cx.b.exprs().as_const(extent) {
        Some(d) => Ok(cx.b.int((d as f32 * scale).floor() as i64)),
        None => Err(Problem::new(format!("an extent that is not known, times {scale}"))
            .with("fix the free dims that it depends on")),
    }
}

/// Scales as the kernel wants them: f32, one for each axis.
fn scales_constant(cx: &mut Cx<'_>, scales: &[f32]) -> Result<V, Problem> {
    let bytes: Vec<u8> = scales.iter().flat_map(|s| s.to_le_bytes()).collect();
    cx.b.constant(DType::F32, &[scales.len()], bytes.into(), false)
}

pub(super) fn upsample(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let scales: Vec<f32> = match node.opt_floats("scales")? {
        Some(list) => list.to_vec(),
        None => floats(cx, node, 1)?.ok_or_else(|| Problem::new("no scales"))?,
    };
    simple(cx, node, x, &scales)
}

/// As the operator was before operator set 11.
fn simple(cx: &mut Cx<'_>, node: &Node, x: V, scales: &[f32]) -> Lowered {
    let mode = mode(node)?;
    let dims = cx.b.dims(x);
    if dims.len() != scales.len() {
        return Err(Problem::new(format!("{} scales for {}", scales.len(), cx.b.describe(x))));
    }
    // What shrinks takes the element after, what grows the one before.
    let shrinks = |s: &f32| mode == ResizeMode::Nearest && *s < 1.0;
    if !scales.iter().any(shrinks) {
        return Ok(vec![asymmetric(cx, x, mode, NearestMode::Floor, scales)?.into()]);
    }
    let only = |which: bool| scales.iter().map(|s| if shrinks(s) == which { *s } else { 1.0 }).collect::<Vec<f32>>();
    let (smaller, larger) = (only(true), only(false));
    let mut v = asymmetric(cx, x, mode, NearestMode::Ceil, &smaller)?;
    if larger.iter().any(|s| *s != 1.0) {
        v = asymmetric(cx, v, mode, NearestMode::Floor, &larger)?;
    }
    Ok(vec![v.into()])
}

/// Resized by these scales, without half pixels.
fn asymmetric(cx: &mut Cx<'_>, x: V, mode: ResizeMode, nearest: NearestMode, scales: &[f32]) -> Result<V, Problem> {
    let mut out = Vec::new();
    for (d, s) in cx.b.dims(x).iter().zip(scales) {
        out.push(scaled(cx, *d, *s)?);
    }
    let prim = Resize {
        mode,
        coordinates: CoordinateMode::Asymmetric,
        nearest,
        cubic_coeff_a: -0.75,
        exclude_outside: false,
        extrapolation: 0.0,
        antialias: false,
    };
    let (dtype, scales) = (cx.b.dtype(x), scales_constant(cx, scales)?);
    cx.b.emit1(prim, &[Some(x), Some(scales)], dtype, &out)
}

fn floats(cx: &Cx<'_>, node: &Node, i: usize) -> Result<Option<Vec<f32>>, Problem> {
    let list = cx.opt_const_floats(node, i)?;
    Ok(list.filter(|l| !l.is_empty()).map(|l| l.into_iter().map(|v| v as f32).collect()))
}

fn mode(node: &Node) -> Result<ResizeMode, Problem> {
    match node.string_or("mode", "nearest")? {
        "nearest" => Ok(ResizeMode::Nearest),
        "linear" | "bilinear" => Ok(ResizeMode::Linear),
        "cubic" => Ok(ResizeMode::Cubic),
        other => Err(Problem::new(format!("the mode {other}"))),
    }
}

fn attributes(node: &Node) -> Result<Resize, Problem> {
    let coordinates = match node.string_or("coordinate_transformation_mode", "half_pixel")? {
        "half_pixel" => CoordinateMode::HalfPixel,
        "half_pixel_symmetric" => CoordinateMode::HalfPixelSymmetric,
        "pytorch_half_pixel" => CoordinateMode::PytorchHalfPixel,
        "align_corners" => CoordinateMode::AlignCorners,
        "asymmetric" => CoordinateMode::Asymmetric,
        "tf_crop_and_resize" => CoordinateMode::CropAndResize,
        other => return Err(Problem::new(format!("the coordinate transformation {other}"))),
    };
    let nearest = match node.string_or("nearest_mode", "round_prefer_floor")? {
        "round_prefer_floor" => NearestMode::RoundPreferFloor,
        "round_prefer_ceil" => NearestMode::RoundPreferCeil,
        "floor" => NearestMode::Floor,
        "ceil" => NearestMode::Ceil,
        other => return Err(Problem::new(format!("the nearest mode {other}"))),
    };
    Ok(Resize {
        mode: mode(node)?,
        coordinates,
        nearest,
        cubic_coeff_a: node.float_or("cubic_coeff_a", -0.75)?,
        exclude_outside: node.flag("exclude_outside", false)?,
        extrapolation: node.float_or("extrapolation_value", 0.0)?,
        antialias: node.flag("antialias", false)?,
    })
}

/// A list over the resized axes as one over all axes, `fill` at the others.
fn spread(list: &[f32], axes: &[usize], rank: usize, fill: f32) -> Result<Vec<f32>, Problem> {
    if list.len() != axes.len() {
        return Err(Problem::new(format!("{} values for {} axes", list.len(), axes.len())));
    }
    let mut all = vec![fill; rank];
    for (v, a) in list.iter().zip(axes) {
        if let Some(to) = all.get_mut(*a) {
            *to = *v;
        }
    }
    Ok(all)
}

pub(super) fn resize(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    if node.opset < 11 {
        let scales = floats(cx, node, 1)?.ok_or_else(|| Problem::new("no scales"))?;
        return simple(cx, node, x, &scales);
    }
    let prim = attributes(node)?;
    let (dims, rank) = (cx.b.dims(x), cx.b.rank(x));
    let axes: Vec<usize> = match node.opt_ints("axes")? {
        Some(list) => list.iter().map(|a| cx.b.axis(*a, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).collect(),
    };
    let roi = match (prim.coordinates, floats(cx, node, 1)?) {
        (CoordinateMode::CropAndResize, Some(roi)) => {
            let (starts, ends) = roi.split_at(roi.len() / 2);
            Some([spread(starts, &axes, rank, 0.0)?, spread(ends, &axes, rank, 1.0)?])
        }
        _ => None,
    };
    let (scales, out) = match floats(cx, node, 2)? {
        Some(scales) => {
            let scales = spread(&scales, &axes, rank, 1.0)?;
            let mut out = Vec::new();
            // Whatever the region: so do the standard's shape inference and its reference, if not its text.
            for (d, s) in dims.iter().zip(&scales) {
                out.push(scaled(cx, *d, *s)?);
            }
            (Some(scales), out)
        }
        None => sized(cx, node, &dims, &axes)?,
    };
    let scales = scales.map(|s| scales_constant(cx, &s)).transpose()?;
    let roi = roi.map(|roi| scales_constant(cx, &roi.concat())).transpose()?;
    let reads = [Some(x), scales, roi];
    let used = if roi.is_some() { 3 } else { 1 + usize::from(scales.is_some()) };
    let dtype = cx.b.dtype(x);
    Ok(vec![cx.b.emit1(prim, &reads[..used], dtype, &out)?.into()])
}

/// Dims of the result from the input `sizes`, and the scales where they are not the ratios of the dims.
fn sized(
    cx: &mut Cx<'_>,
    node: &Node,
    dims: &[ExprId],
    axes: &[usize],
) -> Result<(Option<Vec<f32>>, Vec<ExprId>), Problem> {
    let sizes = cx.opt_exprs(node, 3)?.ok_or_else(|| Problem::new("neither scales nor sizes"))?;
    let mut out = dims.to_vec();
    if sizes.len() != axes.len() {
        return Err(Problem::new(format!("{} sizes for {} axes", sizes.len(), axes.len())));
    }
    let larger = match node.string_or("keep_aspect_ratio_policy", "stretch")? {
        "stretch" => {
            for (a, s) in axes.iter().zip(&sizes) {
                if let Some(d) = out.get_mut(*a) {
                    *d = *s;
                }
            }
            return Ok((None, out));
        }
        "not_larger" => false,
        "not_smaller" => true,
        other => return Err(Problem::new(format!("the policy {other}"))),
    };
    let old: Vec<ExprId> = axes.iter().filter_map(|a| dims.get(*a).copied()).collect();
    let (Some(old), Some(sizes)) = (cx.b.const_ints(&old), cx.b.const_ints(&sizes)) else {
        return Err(Problem::new("the aspect ratio of extents that are not known").with("fix the free dims"));
    };
    let ratios = sizes.iter().zip(&old).map(|(s, d)| *s as f64 / *d as f64);
    let scale = if larger { ratios.fold(f64::MIN, f64::max) } else { ratios.fold(f64::MAX, f64::min) };
    if !(scale.is_finite() && scale > 0.0) {
        return Err(Problem::new("sizes that are not positive"));
    }
    let mut scales = vec![1.0; dims.len()];
    for (a, d) in axes.iter().zip(&old) {
        let extent = cx.b.int((scale * *d as f64 + 0.5).floor() as i64);
        if let (Some(to), Some(s)) = (out.get_mut(*a), scales.get_mut(*a)) {
            (*to, *s) = (extent, scale as f32);
        }
    }
    Ok((Some(scales), out))
}

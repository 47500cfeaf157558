//! Fourier transforms, windows and spectra.

use super::gather::gathered;
use super::generate::iota;
use super::lower::dtype_attr;
use super::program::{Program, Reg, unary_program};
use super::{Cx, Lowered, Operator, op};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{DType, ExprId, List, prim::*};

pub(super) const OPERATORS: &[Operator] = &[
    op("DFT", dft),
    op("STFT", stft),
    op("HannWindow", |cx, n| window(cx, n, [0.5, 0.5, 0.0])),
    op("HammingWindow", |cx, n| window(cx, n, [25.0 / 46.0, 21.0 / 46.0, 0.0])),
    op("BlackmanWindow", |cx, n| window(cx, n, [0.42, 0.5, 0.08])),
    op("MelWeightMatrix", mel_weight_matrix),
];

/// The single element of input `i` as an expression.
fn scalar(cx: &mut Cx<'_>, node: &Node, i: usize) -> Result<Option<ExprId>, Problem> {
    match cx.opt_exprs(node, i)?.as_deref() {
        None => Ok(None),
        Some([one]) => Ok(Some(*one)),
        Some(list) => Err(Problem::new(format!("input {i} has {} elements, not one", list.len()))),
    }
}

/// `length / 2 + 1`.
fn half(cx: &mut Cx<'_>, length: ExprId) -> ExprId {
    let (one, two) = (cx.b.int(1), cx.b.int(2));
    let e = cx.b.exprs();
    let half = e.floor_div(length, two);
    e.add(half, one)
}

fn dft(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let x = cx.input(node, 0)?;
    let rank = cx.b.rank(x);
    let axis = if node.opset >= 20 {
        match cx.opt_const_ints(node, 2)?.as_deref() {
            None => -2,
            Some([axis]) => *axis,
            Some(_) => return Err(Problem::new("the axis is one integer")),
        }
    } else {
        node.int_or("axis", 1)?
    };
    let axis = cx.b.axis(axis, rank)?;
    let (inverse, onesided) = (node.flag("inverse", false)?, node.flag("onesided", false)?);
    let given = scalar(cx, node, 1)?;
    let own = cx.b.dim(x, axis)?;
    let length = match given {
        Some(length) => length,
        None if inverse && onesided => {
            let (one, two) = (cx.b.int(1), cx.b.int(2));
            let e = cx.b.exprs();
            let rest = e.sub(own, one);
            e.mul(rest, two)
        }
        None => own,
    };
    Ok(vec![transform(cx, x, axis, length, inverse, onesided)?.into()])
}

/// The transform of length `length` along an axis of `x [..., 1 or 2]`, which is cut or filled with zeros first.
fn transform(cx: &mut Cx<'_>, x: V, axis: usize, length: ExprId, inverse: bool, onesided: bool) -> Result<V, Problem> {
    let half_length = half(cx, length);
    // A one-sided spectrum stands for twice its length.
    let needed = if inverse && onesided { half_length } else { length };
    let (own, rank) = (cx.b.dim(x, axis)?, cx.b.rank(x));
    let x = if own == needed {
        x
    } else {
        let (zero, more) = (cx.b.int(0), cx.b.exprs().sub(needed, own));
        let (before, mut after) = (vec![zero; rank], vec![zero; rank]);
        if let Some(a) = after.get_mut(axis) {
            *a = more;
        }
        super::slice::padded(&mut cx.b, x, &before, &after, PadMode::Constant, None)?
    };
    let mut dims = cx.b.dims(x);
    let parts = cx.b.int(if inverse && onesided { 1 } else { 2 });
    if let Some(d) = dims.get_mut(axis) {
        *d = if onesided && !inverse { half_length } else { length };
    }
    if let Some(d) = dims.last_mut() {
        *d = parts;
    }
    let prim = Dft { length: List::of([length]), axis: axis as u8, inverse, onesided };
    let dtype = cx.b.dtype(x);
    cx.b.emit1(prim, &[Some(x)], dtype, &dims)
}

/// Overlapping frames are gathered, weighted by the window and transformed.
fn stft(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let (signal, window) = (cx.input(node, 0)?, cx.opt(node, 2)?);
    // A signal without an axis for its parts is real.
    let signal = if cx.b.rank(signal) == 2 { cx.b.unsqueeze(signal, &[2])? } else { signal };
    let step = scalar(cx, node, 1)?.ok_or_else(|| Problem::new("no step"))?;
    if cx.b.exprs().range(step).0 <= 0 {
        return Err(Problem::new("the step between frames must be positive"));
    }
    let whole = cx.b.dim(signal, 1)?;
    let length = match (scalar(cx, node, 3)?, window) {
        (Some(length), _) => length,
        (None, Some(window)) => cx.b.dim(window, 0)?,
        (None, None) => whole,
    };
    let one = cx.b.int(1);
    let e = cx.b.exprs();
    let room = e.sub(whole, length);
    let steps = e.floor_div(room, step);
    let count = e.add(steps, one);
    let count = cx.b.extent(count, "frames of a signal")?;
    let zero = cx.b.int(0);
    let starts = cx.b.emit1(Iota { range: List::of([zero, step]) }, &[], DType::I64, &[count])?;
    let starts = cx.b.unsqueeze(starts, &[1])?;
    let within = iota(&mut cx.b, length)?;
    let places = cx.b.binary(MapOp::Add, starts, within)?;
    let mut frames = gathered(&mut cx.b, signal, places, 1)?;
    if let Some(window) = window {
        let window = cx.b.unsqueeze(window, &[1])?;
        frames = cx.b.binary(MapOp::Mul, frames, window)?;
    }
    let onesided = node.flag("onesided", true)?;
    Ok(vec![transform(cx, frames, 2, length, false, onesided)?.into()])
}

/// `a - b * cos(2 pi i / n) + c * cos(4 pi i / n)`, with `n` one less where the window is not periodic.
fn window(cx: &mut Cx<'_>, node: &Node, [a, b, c]: [f64; 3]) -> Lowered {
    let size = scalar(cx, node, 0)?.ok_or_else(|| Problem::new("no size"))?;
    let to = dtype_attr(node.int_or("output_datatype", 1)?)?;
    let one = cx.b.int(1);
    let period = if node.flag("periodic", true)? { size } else { cx.b.exprs().sub(size, one) };
    let index = iota(&mut cx.b, size)?;
    let index = cx.b.cast(index, DType::F64)?;
    let period = cx.b.of_exprs(DType::I64, &[], &[period])?;
    let period = cx.b.cast(period, DType::F64)?;
    let (mut p, [i, n]) = Program::new(&cx.b, [index, period]);
    let term = |p: &mut Program, turns: f64, factor: f64| -> Result<Reg, Problem> {
        let angle = p.with(MapOp::Mul, i, turns * std::f64::consts::TAU)?;
        let angle = p.two(MapOp::Div, angle, n);
        let wave = p.one(MapOp::Cos, angle);
        p.with(MapOp::Mul, wave, factor)
    };
    let mut y = term(&mut p, 1.0, -b)?;
    if c != 0.0 {
        let second = term(&mut p, 2.0, c)?;
        y = p.two(MapOp::Add, y, second);
    }
    p.with(MapOp::Add, y, a)?;
    let y = p.finish(&mut cx.b)?;
    Ok(vec![unary_program(&mut cx.b, y, |p, r| Ok(p.cast(r, to)))?.into()])
}

/// Triangles on the mel scale. All of it is known while planning.
fn mel_weight_matrix(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let mut numbers = [0.0; 5];
    for (i, n) in numbers.iter_mut().enumerate() {
        *n = match cx.opt_const_floats(node, i)?.as_deref() {
            Some([one]) => *one,
            _ => return Err(Problem::new(format!("input {i} is one number"))),
        };
    }
    let [bands, length, rate, low, high] = numbers;
    if !(1.0..=65536.0).contains(&bands) || !(1.0..=16_777_216.0).contains(&length) || rate <= 0.0 {
        return Err(Problem::new(format!("{bands} bands of a transform of {length} at {rate} Hz")));
    }
    let (bands, bins) = (bands as usize, length as usize / 2 + 1);
    if bands * bins > 1 << 24 {
        return Err(Problem::new(format!("a matrix of {bins} by {bands}")));
    }
    let to = dtype_attr(node.int_or("output_datatype", 1)?)?;
    let mel = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / std::f64::consts::LN_10;
    let step = (mel(high) - mel(low)) / (bands + 2) as f64;
    let edge = |i: usize| {
        let hertz = 700.0 * ((i as f64 * step + mel(low)) / 2595.0 * std::f64::consts::LN_10).exp_m1();
        (((length + 1.0) * hertz) / rate).floor().max(0.0) as usize
    };
    let mut weights = vec![0.0f64; bins * bands];
    let mut set = |bin: usize, band: usize, v: f64| {
        if bin < bins
            && let Some(w) = weights.get_mut(bin * bands + band)
        {
            *w = v;
        }
    };
    for band in 0..bands {
        let (left, center, right) = (edge(band), edge(band + 1), edge(band + 2));
        if center == left {
            set(center, band, 1.0);
        }
        for bin in left..=center.min(bins) {
            if center > left {
                set(bin, band, (bin - left) as f64 / (center - left) as f64);
            }
        }
        for bin in center..right.min(bins) {
            set(bin, band, (right - bin) as f64 / (right - center) as f64);
        }
    }
    let bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
    let matrix = cx.b.constant(DType::F64, &[bins, bands], bytes.into(), false)?;
    Ok(vec![cx.b.cast(matrix, to)?.into()])
}

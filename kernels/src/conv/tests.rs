//! Convolution against sums over taps written down as they are defined.

use super::*;
use crate::spatial::testing::Numbers;
use crate::testing::isas;
use crate::{Isa, Shape, execute};
use core::ptr::NonNull;
use plan::List;
use plan::prim::{ActivationKind, DataLayout, PackKind, Prepack};
use std::{vec, vec::Vec};

/// A convolution to try, with its data channels-first.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub batch: usize,
    pub group: usize,
    /// Input channels for each group.
    pub c: usize,
    /// Output channels for each group.
    pub m: usize,
    pub input: Vec<usize>,
    pub kernel: Vec<usize>,
    pub strides: Vec<u32>,
    pub dilations: Vec<u32>,
    pub before: Vec<i64>,
    pub output: Vec<usize>,
    pub bias: bool,
    pub residual: bool,
    pub activation: Activation,
}

impl Case {
    pub fn random(numbers: &mut Numbers) -> Case {
        let rank = numbers.range(1, 3);
        let size = if rank == 3 { 6 } else { 21 };
        let mut case = Case {
            batch: numbers.range(1, 2),
            group: numbers.range(1, 3),
            c: numbers.range(1, 9),
            m: numbers.range(1, 37),
            input: vec![],
            kernel: vec![],
            strides: vec![],
            dilations: vec![],
            before: vec![],
            output: vec![],
            bias: numbers.range(0, 1) == 1,
            residual: numbers.range(0, 1) == 1,
            activation: Activation::IDENTITY,
        };
        if numbers.range(0, 1) == 1 {
            case.activation = Activation { kind: ActivationKind::Relu, alpha: 0.0, beta: 0.0 };
        }
        if numbers.range(0, 3) == 0 {
            (case.group, case.c, case.m) = (case.m, 1, 1);
        }
        let pointwise = numbers.range(0, 3) == 0;
        for _ in 0..rank {
            let (k, s, d) = match pointwise {
                true => (1, 1, 1),
                false => (numbers.range(1, 5), numbers.range(1, 3), numbers.range(1, 3)),
            };
            let i = numbers.range(1, size);
            let before = if pointwise { 0 } else { numbers.range(0, 3) };
            let after = if pointwise { 0 } else { numbers.range(0, 3) };
            let reach = (k - 1) * d + 1;
            let padded = i + before + after;
            case.input.push(i);
            case.kernel.push(k);
            case.strides.push(s as u32);
            case.dilations.push(d as u32);
            case.before.push(before as i64);
            case.output.push(if padded < reach { 0 } else { (padded - reach) / s + 1 });
        }
        case
    }

    pub fn dims(&self, channels: usize, spatial: &[usize]) -> Vec<usize> {
        let mut dims = vec![self.batch, channels];
        dims.extend(spatial);
        dims
    }

    pub fn params(&self) -> Conv<i64> {
        let kernel: Vec<u32> = self.kernel.iter().map(|k| *k as u32).collect();
        Conv {
            kernel: List::from_slice(&kernel).unwrap(),
            strides: List::from_slice(&self.strides).unwrap(),
            dilations: List::from_slice(&self.dilations).unwrap(),
            before: List::from_slice(&self.before).unwrap(),
            group: self.group as u32,
            activation: self.activation,
            weights: ConvLayout::Plain,
            data: DataLayout::ChannelsFirst,
        }
    }

    pub fn weight_dims(&self) -> Vec<usize> {
        let mut dims = vec![self.group * self.m, self.c];
        dims.extend(&self.kernel);
        dims
    }

    /// The sums as they are defined, in double precision, channels-first.
    pub fn expected(&self, x: &[f32], w: &[f32], bias: &[f32], residual: &[f32]) -> Vec<f64> {
        let at = |dims: &[usize], index: &[usize]| dims.iter().zip(index).fold(0, |at, (d, i)| at * d + i);
        let mut out = vec![];
        for n in 0..self.batch {
            for m in 0..self.group * self.m {
                for o in indices(&self.output) {
                    let mut sum = if self.bias { f64::from(bias[m]) } else { 0.0 };
                    for c in 0..self.c {
                        for k in indices(&self.kernel) {
                            let place: Option<Vec<usize>> = (0..o.len())
                                .map(|a| {
                                    let i = (o[a] * self.strides[a] as usize + k[a] * self.dilations[a] as usize)
                                        as i64
                                        - self.before[a];
                                    usize::try_from(i).ok().filter(|i| *i < self.input[a])
                                })
                                .collect();
                            let Some(place) = place else { continue };
                            let channel = m / self.m * self.c + c;
                            let x = x[(n * self.group * self.c + channel) * self.input.iter().product::<usize>()
                                + at(&self.input, &place)];
                            let w = w[(m * self.c + c) * self.kernel.iter().product::<usize>() + at(&self.kernel, &k)];
                            sum += f64::from(x) * f64::from(w);
                        }
                    }
                    if self.residual {
                        sum += f64::from(residual[out.len()]);
                    }
                    out.push(if self.activation.kind == ActivationKind::Relu { sum.max(0.0) } else { sum });
                }
            }
        }
        out
    }
}

fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for d in dims {
        all = all.iter().flat_map(|head| (0..*d).map(move |i| [head.as_slice(), &[i]].concat())).collect();
    }
    all
}

/// `[n, c, plane]` to `[n, plane, c]`.
pub(super) fn to_last<T: Copy>(data: &[T], batch: usize, channels: usize) -> Vec<T> {
    if data.is_empty() {
        return vec![];
    }
    let plane = data.len() / batch / channels;
    let place = |i: usize| (i / (plane * channels) * channels + i % channels) * plane + i / channels % plane;
    (0..data.len()).map(|i| data[place(i)]).collect()
}

/// Runs a convolution whose residual, if any, is the result's memory (`in_place`) or elsewhere.
#[allow(clippy::too_many_arguments)]
pub(super) fn run(
    p: &Conv<i64>,
    isa: Isa,
    in_place: bool,
    (x, x_dims): (&[f32], &[usize]),
    (w, w_dims): (&[f32], &[usize]),
    bias: Option<&[f32]>,
    residual: Option<&[f32]>,
    y_dims: &[usize],
) -> Vec<f32> {
    let mut y = vec![f32::NAN; y_dims.iter().product()];
    if let (true, Some(residual)) = (in_place, residual) {
        y.copy_from_slice(residual);
    }
    let first = NonNull::from(&mut y[..]).cast();
    let shape = Shape::contiguous(y_dims).unwrap();
    let shared = in_place && residual.is_some();
    // SAFETY: the vector outlives the views; the read and the write of it are marked as shared.
    let (r, dst) =
        unsafe { (Src::from_raw(first, DType::F32, shape, true), Dst::from_raw(first, DType::F32, shape, shared)) };
    let reads = [
        Some(Src::from_slice(x, x_dims).unwrap()),
        Some(Src::from_slice(w, w_dims).unwrap()),
        bias.map(|b| Src::from_slice(b, &[b.len()]).unwrap()),
        if shared { Some(r) } else { residual.map(|r| Src::from_slice(r, y_dims).unwrap()) },
    ];
    let meta = |dims: &[usize]| Some(Meta { dtype: DType::F32, dims: List::from_slice(dims).unwrap() });
    let metas = reads.map(|r| r.and_then(|r| meta(r.dims())));
    let needed = workspace(p, &metas, &[meta(y_dims)]).unwrap();
    let mut memory = vec![0u64; needed.div_ceil(8) + 8];
    // SAFETY: every bit pattern is a byte.
    let (_, memory, _) = unsafe { memory.align_to_mut::<u8>() };
    let skip = memory.as_ptr().align_offset(64);
    let mut writes = [Some(dst)];
    let mut call = Call::new(&reads, &mut writes, &mut memory[skip..skip + needed], &mut [], isa);
    execute(&(*p).into(), &mut call).unwrap();
    y
}

pub(super) fn close(found: &[f32], wanted: &[f64], what: &dyn core::fmt::Debug) {
    assert_eq!(found.len(), wanted.len());
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f64::from(*f) - w).abs() <= 1e-4 * w.abs().max(1.0), "at {i}: {f} for {w} in {what:?}");
    }
}

#[test]
fn plain_weights() {
    let mut numbers = Numbers::new(1);
    for round in 0..120 {
        let case = Case::random(&mut numbers);
        let (c, m) = (case.group * case.c, case.group * case.m);
        let (x_dims, y_dims) = (case.dims(c, &case.input), case.dims(m, &case.output));
        let x = numbers.floats(x_dims.iter().product());
        let w = numbers.floats(case.weight_dims().iter().product());
        let bias = numbers.floats(m);
        let residual = numbers.floats(y_dims.iter().product());
        let expected = case.expected(&x, &w, &bias, &residual);
        let bias = case.bias.then_some(&bias[..]);
        let mut p = case.params();
        for (isa, in_place) in isas().into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
            let r = case.residual.then_some(&residual[..]);
            let y = run(&p, isa, in_place, (&x, &x_dims), (&w, &case.weight_dims()), bias, r, &y_dims);
            close(&y, &expected, &(round, isa, &case));
        }
        let last = |dims: &[usize]| [&dims[..1], &dims[2..], &dims[1..2]].concat();
        p.data = DataLayout::ChannelsLast;
        let (x, r) = (to_last(&x, case.batch, c), to_last(&residual, case.batch, m));
        let r = case.residual.then_some(&r[..]);
        let w = (&w[..], &case.weight_dims()[..]);
        let y = run(&p, Isa::detect(), true, (&x, &last(&x_dims)), w, bias, r, &last(&y_dims));
        close(&y, &to_last(&expected, case.batch, m), &(round, &case));
    }
}

/// Weights in another layout.
fn pack(kind: PackKind, w: &[f32], dims: &[usize], packed: &[usize]) -> Vec<f32> {
    let mut out = vec![f32::NAN; packed.iter().product()];
    let reads = [Some(Src::from_slice(w, dims).unwrap())];
    let mut writes = [Some(Dst::from_slice(&mut out, packed).unwrap())];
    let prepack = Prepack { kind };
    execute(&prepack.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], Isa::Portable)).unwrap();
    out
}

/// Tries packed weights on a case with every instruction set, in place and out of place.
fn try_panels(case: &Case, numbers: &mut Numbers) {
    let (c, m) = (case.group * case.c, case.group * case.m);
    let (x_dims, y_dims) = (case.dims(c, &case.input), case.dims(m, &case.output));
    let x = numbers.floats(x_dims.iter().product());
    let w = numbers.floats(case.weight_dims().iter().product());
    let (bias, residual) = (numbers.floats(m), numbers.floats(y_dims.iter().product()));
    let expected = case.expected(&x, &w, &bias, &residual);
    let packed_dims = [case.group, case.m.div_ceil(16), case.c * case.kernel.iter().product::<usize>(), 16];
    let packed = pack(PackKind::ConvPanels16 { group: case.group as u32 }, &w, &case.weight_dims(), &packed_dims);
    let bias = case.bias.then_some(&bias[..]);
    let r = case.residual.then_some(&residual[..]);
    let mut p = case.params();
    p.weights = ConvLayout::Panels16;
    for (isa, in_place) in isas().into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
        let y = run(&p, isa, in_place, (&x, &x_dims), (&packed, &packed_dims), bias, r, &y_dims);
        close(&y, &expected, &(isa, in_place, case));
    }
    // Channels-last.
    let last = |dims: &[usize]| [&dims[..1], &dims[2..], &dims[1..2]].concat();
    let (x, r) = (to_last(&x, case.batch, c), to_last(&residual, case.batch, m));
    let (expected, r) = (to_last(&expected, case.batch, m), case.residual.then_some(&r[..]));
    p.data = DataLayout::ChannelsLast;
    for (isa, in_place) in isas().into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
        let w = (&packed[..], &packed_dims[..]);
        let y = run(&p, isa, in_place, (&x, &last(&x_dims)), w, bias, r, &last(&y_dims));
        close(&y, &expected, &(isa, in_place, case));
    }
    if case.c == 1 && case.m == 1 {
        let dims = [m.div_ceil(16), case.kernel.iter().product(), 16];
        let packed = pack(PackKind::ConvDepthwise16, &w, &case.weight_dims(), &dims);
        p.weights = ConvLayout::Depthwise16;
        for (isa, in_place) in isas().into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
            let y = run(&p, isa, in_place, (&x, &last(&x_dims)), (&packed, &dims), bias, r, &last(&y_dims));
            close(&y, &expected, &(isa, in_place, case));
        }
    }
}

#[test]
fn packed_weights() {
    let mut numbers = Numbers::new(4);
    for _ in 0..100 {
        let case = Case::random(&mut numbers);
        try_panels(&case, &mut numbers);
    }
}

#[test]
fn panels_with_many_terms_or_pixels() {
    let mut numbers = Numbers::new(5);
    let mut case = Case::random(&mut numbers);
    (case.batch, case.group, case.c, case.m) = (1, 1, 100, 19);
    (case.input, case.kernel, case.strides) = (vec![5, 11], vec![3, 3], vec![1, 1]);
    (case.dilations, case.before, case.output) = (vec![1, 1], vec![1, 1], vec![5, 11]);
    (case.bias, case.residual) = (true, true);
    case.activation = Activation { kind: ActivationKind::Relu, alpha: 0.0, beta: 0.0 };
    try_panels(&case, &mut numbers);
    // More pixels than are laid out at once.
    (case.c, case.m, case.kernel, case.before) = (90, 3, vec![1, 1], vec![0, 0]);
    (case.input, case.output) = (vec![30, 41], vec![30, 41]);
    try_panels(&case, &mut numbers);
}

/// Windows of 3×3 with transformed weights: tiles that reach beyond the result, several blocks, and rows longer than a block.
#[test]
fn transformed_weights() {
    let mut numbers = Numbers::new(11);
    for round in 0..40 {
        let mut case = Case::random(&mut numbers);
        (case.group, case.c, case.m) = (1, numbers.range(1, 12), numbers.range(1, 33));
        (case.kernel, case.strides, case.dilations) = (vec![3, 3], vec![1, 1], vec![1, 1]);
        case.before = (0..2).map(|_| numbers.range(0, 2) as i64).collect();
        case.output = vec![numbers.range(1, 30), if round % 6 == 0 { 230 } else { numbers.range(1, 60) }];
        case.input = (0..2)
            .map(|a| (case.output[a] + 2).saturating_sub(case.before[a] as usize + numbers.range(0, 2)).max(1))
            .collect();
        let (x_dims, y_dims) = (case.dims(case.c, &case.input), case.dims(case.m, &case.output));
        let x = numbers.floats(x_dims.iter().product());
        let w = numbers.floats(case.weight_dims().iter().product());
        let (bias, residual) = (numbers.floats(case.m), numbers.floats(y_dims.iter().product()));
        let expected = case.expected(&x, &w, &bias, &residual);
        let dims = [36, case.m.div_ceil(16), case.c, 16];
        let packed = pack(PackKind::ConvWinograd4, &w, &case.weight_dims(), &dims);
        let bias = case.bias.then_some(&bias[..]);
        let r = case.residual.then_some(&residual[..]);
        let p = Conv { weights: ConvLayout::Winograd4, ..case.params() };
        for (isa, in_place) in isas().into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
            let y = run(&p, isa, in_place, (&x, &x_dims), (&packed, &dims), bias, r, &y_dims);
            close(&y, &expected, &(round, isa, &case));
        }
    }
}

/// One input channel for each group: planes of several blocks, several results, strides with and without phases.
#[test]
fn depthwise_blocks() {
    let mut numbers = Numbers::new(8);
    for round in 0..40 {
        let mut case = Case::random(&mut numbers);
        case.batch = 1;
        (case.group, case.c, case.m) = (numbers.range(1, 3), 1, numbers.range(1, 2));
        let s = [1, 2, 3, 5][round % 4];
        case.strides = vec![numbers.range(1, 2) as u32, s];
        case.kernel = vec![numbers.range(1, 5), numbers.range(1, 7)];
        case.dilations = vec![numbers.range(1, 2) as u32, numbers.range(1, 3) as u32];
        case.before = vec![numbers.range(0, 3) as i64, numbers.range(0, 5) as i64];
        case.output = vec![numbers.range(1, 30), if round % 5 == 0 { 300 } else { numbers.range(1, 60) }];
        case.input = (0..2)
            .map(|a| {
                let reach = (case.output[a] - 1) * case.strides[a] as usize
                    + (case.kernel[a] - 1) * case.dilations[a] as usize
                    + 1;
                reach.saturating_sub(case.before[a] as usize + numbers.range(0, 2)).max(1)
            })
            .collect();
        if round % 7 == 0 {
            (case.input[1], case.output[1], case.kernel[1], case.before[1]) = (1, 1, 1, 0);
        }
        let (c, m) = (case.group, case.group * case.m);
        let (x_dims, y_dims) = (case.dims(c, &case.input), case.dims(m, &case.output));
        let x = numbers.floats(x_dims.iter().product());
        let w = numbers.floats(case.weight_dims().iter().product());
        let (bias, residual) = (numbers.floats(m), numbers.floats(y_dims.iter().product()));
        let expected = case.expected(&x, &w, &bias, &residual);
        let bias = case.bias.then_some(&bias[..]);
        let r = case.residual.then_some(&residual[..]);
        for (isa, in_place) in isas().into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
            let w = (&w[..], &case.weight_dims()[..]);
            let y = run(&case.params(), isa, in_place, (&x, &x_dims), w, bias, r, &y_dims);
            close(&y, &expected, &(round, isa, &case));
        }
    }
}

#[test]
fn depthwise_workspace_never_shrinks() {
    let mut numbers = Numbers::new(9);
    for _ in 0..200 {
        let kernel = [numbers.range(1, 4), numbers.range(1, 2) * 2 - 1];
        let list = |v: [usize; 2]| List::<u32, 3>::of(v.map(|v| v as u32));
        let p = Conv {
            kernel: list(kernel),
            strides: list([numbers.range(1, 3), numbers.range(1, 5)]),
            dilations: list([numbers.range(1, 2), numbers.range(1, 2)]),
            before: List::of([0, 0]),
            group: 2,
            activation: Activation::IDENTITY,
            weights: ConvLayout::Plain,
            data: DataLayout::ChannelsFirst,
        };
        let needed = |extents: [usize; 2]| {
            let output = [0, 1].map(|a| (extents[a] - 1) / p.strides[a] as usize + 1);
            let meta = |dims: &[usize]| Some(Meta { dtype: DType::F32, dims: List::from_slice(dims).unwrap() });
            let input = [0, 1].map(|a| extents[a] + (kernel[a] - 1) * p.dilations[a] as usize);
            let reads = [meta(&[1, 2, input[0], input[1]]), meta(&[2, 1, kernel[0], kernel[1]])];
            workspace(&p, &reads, &[meta(&[1, 2, output[0], output[1]])]).unwrap()
        };
        let small = [numbers.range(1, 40), numbers.range(1, 400)];
        let large = small.map(|e| e + numbers.range(0, 3));
        assert!(needed(small) <= needed(large), "{p:?} {small:?} {large:?}");
    }
}

#[test]
fn workspace_never_shrinks() {
    let mut numbers = Numbers::new(10);
    for _ in 0..20_000 {
        let small = [numbers.range(1, 700), numbers.range(1, 300), numbers.range(0, 5000)];
        let large = small.map(|e| e + numbers.range(0, 40));
        let needed = |[terms, m, pixels]: [usize; 3]| panels::workspace(terms, m, pixels);
        assert!(needed(small) <= needed(large), "{small:?} {large:?}");
    }
}

#[test]
fn integers_with_zero_points() {
    let (x, w) = ([1u8, 2, 3, 4], [-1i8, 2, 5, 7]);
    let mut y = [0i32; 6];
    let p = Conv {
        kernel: List::of([2]),
        strides: List::of([1]),
        dilations: List::of([1]),
        before: List::of([0]),
        group: 1,
        activation: Activation::IDENTITY,
        weights: ConvLayout::Plain,
        data: DataLayout::ChannelsFirst,
    };
    let (xz, wz) = ([2u8], [1i8, -1]);
    let reads = [
        Some(Src::from_slice(&x, &[1, 1, 4]).unwrap()),
        Some(Src::from_slice(&w, &[2, 1, 2]).unwrap()),
        None,
        None,
        Some(Src::from_slice(&xz, &[]).unwrap()),
        Some(Src::from_slice(&wz, &[2]).unwrap()),
    ];
    let mut writes = [Some(Dst::from_slice(&mut y, &[1, 2, 3]).unwrap())];
    execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], Isa::detect())).unwrap();
    // Data less its zero point: -1 0 1 2; weights: (-2, 1) and (6, 8).
    assert_eq!(y, [2, 1, 0, -6, 8, 22]);
}

#[test]
fn half_floats_round_once() {
    let x = [f16::from_f32(1.0), f16::from_f32(0.001)];
    let w = [f16::from_f32(2048.0), f16::from_f32(1.0)];
    let mut y = [f16::ZERO];
    let p = Conv {
        kernel: List::of([2]),
        strides: List::of([1]),
        dilations: List::of([1]),
        before: List::of([0]),
        group: 1,
        activation: Activation::IDENTITY,
        weights: ConvLayout::Plain,
        data: DataLayout::ChannelsFirst,
    };
    let reads = [Some(Src::from_slice(&x, &[1, 1, 2]).unwrap()), Some(Src::from_slice(&w, &[1, 1, 2]).unwrap())];
    let mut writes = [Some(Dst::from_slice(&mut y, &[1, 1, 1]).unwrap())];
    execute(&p.into(), &mut Call::new(&reads, &mut writes, &mut [], &mut [], Isa::detect())).unwrap();
    assert_eq!(y[0], f16::from_f32(2048.001));
}

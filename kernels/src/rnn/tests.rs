//! Recurrent layers against the formulas of the ONNX specification, written down per element.

use super::*;
use crate::{
    Isa,
    matmul::activate,
    testing::{Rng, Tensor, isas},
};
use plan::{
    Primitive,
    prim::{ActivationKind as Kind, PackKind, Prepack},
};
use std::{vec, vec::Vec};

struct Case {
    p: Rnn,
    seq: usize,
    batch: usize,
    input: usize,
    /// X, W, R, B, lengths, initial h, initial c, P; present or not.
    reads: Vec<Option<Vec<f64>>>,
}

impl Case {
    fn dims(&self, operand: usize) -> Vec<usize> {
        let h = self.p.hidden as usize;
        let (d, rows) = (self.directions(), self.gates() * h);
        match operand {
            0 => vec![self.seq, self.batch, self.input],
            1 => vec![d, rows, self.input],
            2 => vec![d, rows, h],
            3 => vec![d, 2 * rows],
            4 => vec![self.batch],
            5 | 6 => vec![d, self.batch, h],
            _ => vec![d, 3 * h],
        }
    }

    fn directions(&self) -> usize {
        if self.p.direction == RnnDirection::Bidirectional { 2 } else { 1 }
    }

    fn gates(&self) -> usize {
        match self.p.kind {
            RnnKind::Rnn => 1,
            RnnKind::Gru { .. } => 3,
            RnnKind::Lstm { .. } => 4,
        }
    }

    fn random(rng: &mut Rng) -> Case {
        let kind = match rng.below(5) {
            0 => RnnKind::Rnn,
            1 => RnnKind::Gru { linear_before_reset: false },
            2 => RnnKind::Gru { linear_before_reset: true },
            3 => RnnKind::Lstm { input_forget: true },
            _ => RnnKind::Lstm { input_forget: false },
        };
        let direction = [RnnDirection::Forward, RnnDirection::Reverse, RnnDirection::Bidirectional][rng.below(3)];
        let act = |kind| Activation { kind, alpha: 0.3, beta: 0.6 };
        let kinds = [Kind::Sigmoid, Kind::Tanh, Kind::Relu, Kind::HardSigmoid, Kind::ScaledTanh, Kind::Affine];
        let activations = List::<Activation, 6>::collect((0..6).map(|_| act(kinds[rng.below(6)]))).unwrap();
        let weights = RnnLayout::Plain;
        let clip = if rng.below(3) == 0 { 0.4 } else { 0.0 };
        let hidden = [1, 3, 8, 16, 21][rng.below(5)];
        let p = Rnn { kind, direction, hidden, activations, clip, weights };
        let mut case =
            Case { p, seq: rng.below(5), batch: rng.below(4), input: 1 + rng.below(20), reads: vec![None; 8] };
        for operand in 0..8 {
            let lstm = matches!(kind, RnnKind::Lstm { .. });
            if operand > 2 && rng.below(2) == 0 || operand > 5 && !lstm {
                continue;
            }
            let count = case.dims(operand).iter().product();
            let seq = case.seq;
            let mut number = || if operand == 4 { rng.below(seq + 1) as f64 } else { f64::from(rng.range(-0.7, 0.7)) };
            case.reads[operand] = Some((0..count).map(|_| number()).collect());
        }
        case
    }

    /// Y, Y_h, Y_c.
    fn wanted(&self) -> [Vec<f64>; 3] {
        let (h, d, batch) = (self.p.hidden as usize, self.directions(), self.batch);
        let state = d * batch * h;
        let first = |i: usize| self.reads[i].clone().unwrap_or(vec![0.0; state]);
        let (mut y, mut hs, mut cs) = (vec![0.0; self.seq * state], first(5), first(6));
        for direction in 0..d {
            for b in 0..batch {
                let length = self.reads[4].as_ref().map_or(self.seq, |l| l[b] as usize);
                let place = (direction * batch + b) * h..(direction * batch + b + 1) * h;
                for step in 0..length {
                    let back = self.p.direction == RnnDirection::Reverse || direction == 1;
                    let t = if back { length - 1 - step } else { step };
                    let (new, c) = self.step(direction, t, b, &hs[place.clone()], &cs[place.clone()]);
                    hs[place.clone()].copy_from_slice(&new);
                    cs[place.clone()].copy_from_slice(&c);
                    y[((t * d + direction) * batch + b) * h..][..h].copy_from_slice(&new);
                }
            }
        }
        [y, hs, cs]
    }

    fn step(&self, d: usize, t: usize, b: usize, h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (n, rows) = (h.len(), self.gates() * h.len());
        let get = |operand: usize, i: usize| self.reads[operand].as_ref().map_or(0.0, |x| x[i]);
        let wx = |row: usize| -> f64 {
            let x = (0..self.input)
                .map(|i| get(0, (t * self.batch + b) * self.input + i) * get(1, (d * rows + row) * self.input + i));
            x.sum::<f64>() + get(3, d * 2 * rows + row)
        };
        let rh = |row: usize, h: &[f64]| -> f64 {
            let r = h.iter().enumerate().map(|(i, h)| h * get(2, (d * rows + row) * n + i));
            r.sum::<f64>() + get(3, d * 2 * rows + rows + row)
        };
        let peep = |which: usize, i: usize| get(7, d * 3 * n + which * n + i);
        let count = [1, 2, 3][[1, 3, 4].iter().position(|g| *g == self.gates()).unwrap()];
        let act = |which: usize, x: f64| activate::scalar(&self.p.activations[d * count + which], x);
        let clip = f64::from(self.p.clip);
        let clipped = |which: usize, x: f64| act(which, if clip > 0.0 { x.max(-clip).min(clip) } else { x });
        let gate = |which: usize, g: usize, i: usize| clipped(which, wx(g * n + i) + rh(g * n + i, h));
        match self.p.kind {
            RnnKind::Rnn => ((0..n).map(|i| gate(0, 0, i)).collect(), c.to_vec()),
            RnnKind::Gru { linear_before_reset } => {
                let (z, r): (Vec<f64>, Vec<f64>) = (0..n).map(|i| (gate(0, 0, i), gate(0, 1, i))).unzip();
                let rh_reset: Vec<f64> = r.iter().zip(h).map(|(r, h)| r * h).collect();
                let new = (0..n).map(|i| {
                    let row = 2 * n + i;
                    let sum = if linear_before_reset { r[i] * rh(row, h) } else { rh(row, &rh_reset) };
                    (1.0 - z[i]) * clipped(1, wx(row) + sum) + z[i] * h[i]
                });
                (new.collect(), c.to_vec())
            }
            RnnKind::Lstm { input_forget } => (0..n)
                .map(|i| {
                    let it = clipped(0, wx(i) + rh(i, h) + peep(0, i) * c[i]);
                    let ft = clipped(0, wx(2 * n + i) + rh(2 * n + i, h) + peep(2, i) * c[i]);
                    let ft = if input_forget { 1.0 - it } else { ft };
                    let ct = ft * c[i] + it * gate(1, 3, i);
                    let ot = clipped(0, wx(n + i) + rh(n + i, h) + peep(1, i) * ct);
                    (ot * act(2, ct), ct)
                })
                .unzip(),
        }
    }

    fn tensor(&self, operand: usize, dtype: DType) -> Option<Tensor> {
        let (data, dims) = (self.reads[operand].as_ref()?, self.dims(operand));
        Some(match (operand, dtype) {
            (4, _) => Tensor::of(&data.iter().map(|x| *x as i32).collect::<Vec<_>>(), &dims),
            (_, DType::F32) => Tensor::of(&data.iter().map(|x| *x as f32).collect::<Vec<_>>(), &dims),
            (_, DType::F16) => Tensor::of(&data.iter().map(|x| half::f16::from_f64(*x)).collect::<Vec<_>>(), &dims),
            _ => Tensor::of(data, &dims),
        })
    }
}

fn numbers(t: &Tensor) -> Vec<f64> {
    match t.dtype {
        DType::F32 => t.to_vec::<f32>().into_iter().map(f64::from).collect(),
        DType::F16 => t.to_vec::<half::f16>().into_iter().map(f64::from).collect(),
        _ => t.to_vec::<f64>(),
    }
}

/// Runs with some of the writes, and with initial states in the memory of the last ones.
fn go(p: &Rnn, reads: &[Option<Tensor>], writes: &mut [Option<Tensor>; 3], in_place: bool, isa: Isa) {
    let meta = |t: &Option<Tensor>| {
        t.as_ref().map(|t| Meta { dtype: t.dtype, dims: plan::Axes::from_slice(t.shape.dims()).unwrap() })
    };
    let metas: Vec<_> = reads.iter().map(meta).collect();
    let need = workspace(p, &metas, &[]).unwrap();
    let mut room = vec![u128::MAX; need.div_ceil(16)];
    // SAFETY: bytes of integers.
    let (_, room, _) = unsafe { room.align_to_mut::<u8>() };
    let mut srcs: Vec<Option<Src<'_>>> = reads.iter().map(|t| t.as_ref().map(Tensor::src)).collect();
    let mut dsts: Vec<Option<Dst<'_>>> = Vec::new();
    for (i, write) in writes.iter_mut().enumerate() {
        dsts.push(write.as_mut().map(|w| {
            let d = w.dst();
            if !in_place || i == 0 || srcs[4 + i].is_none() {
                return d;
            }
            let first = core::ptr::NonNull::new(d.as_ptr()).unwrap();
            // SAFETY: one read and one write of the same view, marked as shared.
            unsafe {
                srcs[4 + i] = Some(Src::from_raw(first, d.dtype(), *d.shape(), true));
                Dst::from_raw(first, d.dtype(), *d.shape(), true)
            }
        }));
    }
    rnn(p, &mut Call::new(&srcs, &mut dsts, &mut room[..need], &mut [], isa)).unwrap();
}

fn check(case: &Case, rng: &mut Rng, dtype: DType, panels: bool, isa: Isa, fuzz: f64) {
    let wanted = case.wanted();
    let mut reads: Vec<Option<Tensor>> = (0..8).map(|i| case.tensor(i, dtype)).collect();
    let mut p = case.p;
    if panels {
        p.weights = RnnLayout::Panels16;
        for weights in &mut reads[1..3] {
            let plain = weights.take().unwrap();
            let &[d, rows, k] = plain.shape.dims() else { unreachable!() };
            let mut packed = [Tensor::zeros(DType::F32, &[d, rows.div_ceil(16), k, 16])];
            let pack: Primitive<i64> = Prepack { kind: PackKind::RnnPanels16 }.into();
            crate::testing::run(&pack, &[Some(&plain)], &mut packed, None, isa).unwrap();
            *weights = Some(packed[0].clone());
        }
    }
    let state = case.dims(5);
    let y_dims = [&[case.seq][..], &state].concat();
    let present: Vec<bool> = (0..3).map(|_| rng.below(3) > 0).collect();
    for in_place in [false, true] {
        let mut writes = [Some(&y_dims), Some(&state), Some(&state)].map(|d| d.map(|d| Tensor::zeros(dtype, d)));
        for i in 0..3 {
            if in_place && i > 0 && reads[4 + i].is_some() {
                writes[i] = reads[4 + i].clone();
            }
            if !present[i] {
                writes[i] = None;
            }
        }
        go(&p, &reads, &mut writes, in_place, isa);
        for (i, write) in writes.iter().enumerate().filter_map(|(i, w)| Some((i, w.as_ref()?))) {
            if i == 2 && !matches!(p.kind, RnnKind::Lstm { .. }) {
                continue;
            }
            for (found, wanted) in numbers(write).into_iter().zip(&wanted[i]) {
                let close = (found - wanted).abs() <= fuzz * (1.0 + wanted.abs());
                assert!(
                    close,
                    "{isa:?} {dtype} panels {panels} in place {in_place} write {i}: {found} {wanted}\n{p:?}"
                );
            }
        }
    }
}

#[test]
fn agrees_with_the_formulas() {
    let mut rng = Rng::new(7);
    for isa in isas() {
        for _ in 0..120 {
            let case = Case::random(&mut rng);
            let panels = rng.below(2) == 1;
            check(&case, &mut rng, DType::F32, panels, isa, 3e-5);
        }
    }
    for _ in 0..60 {
        let case = Case::random(&mut rng);
        check(&case, &mut rng, DType::F64, false, Isa::detect(), 1e-12);
    }
    for _ in 0..20 {
        let case = Case::random(&mut rng);
        check(&case, &mut rng, DType::F16, false, Isa::detect(), 2e-2);
    }
}

#[test]
fn a_length_beyond_the_sequence_is_refused() {
    let mut rng = Rng::new(8);
    let mut case = Case::random(&mut rng);
    while case.batch == 0 {
        case = Case::random(&mut rng);
    }
    for length in [-1.0, case.seq as f64 + 1.0] {
        case.reads[4] = Some(vec![length; case.batch]);
        let reads: Vec<Option<Tensor>> = (0..8).map(|i| case.tensor(i, DType::F32)).collect();
        let srcs: Vec<Option<Src<'_>>> = reads.iter().map(|t| t.as_ref().map(Tensor::src)).collect();
        let found = rnn(&case.p, &mut Call::new(&srcs, &mut [], &mut [], &mut [], Isa::Portable));
        assert_eq!(found, Err(Fault::Index { index: length as i64, extent: case.seq }));
    }
}

#[test]
fn workspace_grows_with_every_extent() {
    let mut rng = Rng::new(9);
    for _ in 0..500 {
        let mut p = Case::random(&mut rng).p;
        if rng.below(2) == 0 {
            p.weights = RnnLayout::Panels16;
        }
        let bytes = |p: &Rnn, dims: &[usize]| {
            let meta = Meta { dtype: DType::F32, dims: plan::Axes::from_slice(dims).unwrap() };
            workspace(p, &[Some(meta)], &[]).unwrap()
        };
        let small = [rng.below(300), rng.below(300), rng.below(300)];
        let mut large = small;
        large[rng.below(3)] += rng.below(500);
        assert!(bytes(&p, &small) <= bytes(&p, &large), "{small:?} {large:?}");
    }
}

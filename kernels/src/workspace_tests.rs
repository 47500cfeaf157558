//! The workspace of every kernel that has some: sized without overflow, never exceeded, and the same for every instruction set.

use crate::{
    Call, Fault, Isa, Meta,
    testing::{Rng, Tensor, isas},
    uses_workspace, workspace,
};
use plan::{Axes, DType, List, Primitive, prim::*};
use std::{vec, vec::Vec};

/// A primitive and the types and dims of its operands.
struct Sample {
    prim: Primitive<i64>,
    reads: Vec<(DType, Vec<usize>)>,
    writes: Vec<(DType, Vec<usize>)>,
}

/// Gives the next extent.
type Pick<'p> = &'p mut dyn FnMut() -> usize;
/// Makes a sample of the extents that are picked, and of small numbers that are no extents.
type Family = fn(Pick<'_>, &mut Rng) -> Sample;

const FAMILIES: [(&str, Family); 17] = [
    ("MatMul", |e, _| matmul(e, MatLayout::Plain)),
    ("MatMul of panels", |e, _| matmul(e, MatLayout::Panels16)),
    ("Conv of panels, channels first", |e, r| conv(e, r, ConvLayout::Panels16, DataLayout::ChannelsFirst)),
    ("Conv of panels, channels last", |e, r| conv(e, r, ConvLayout::Panels16, DataLayout::ChannelsLast)),
    ("Conv of transformed weights", |e, r| conv(e, r, ConvLayout::Winograd4, DataLayout::ChannelsFirst)),
    ("depthwise Conv", |e, r| conv(e, r, ConvLayout::Plain, DataLayout::ChannelsFirst)),
    ("ConvTranspose", conv_transpose),
    ("LSTM", |e, r| rnn(e, r, RnnKind::Lstm { input_forget: false }, DType::F32)),
    ("GRU", |e, r| rnn(e, r, RnnKind::Gru { linear_before_reset: true }, DType::F32)),
    ("LSTM in f64", |e, r| rnn(e, r, RnnKind::Lstm { input_forget: false }, DType::F64)),
    ("Attention", |e, _| attention(e, DType::F32)),
    ("Attention in f64", |e, _| attention(e, DType::F64)),
    ("Unique", |e, _| unique(e, None)),
    ("Unique along an axis", |e, _| unique(e, Some(1))),
    ("NonMaxSuppression", nms),
    ("Dft", |e, _| dft(e)),
    ("Det", |e, _| det(e)),
];

fn matmul(e: Pick<'_>, b: MatLayout) -> Sample {
    let (g, m, k, n) = (e(), e(), e(), e());
    let weights = if b == MatLayout::Plain { vec![g, k, n] } else { vec![n.div_ceil(16), k, 16] };
    let prim = MatMul { activation: Activation::IDENTITY, b }.into();
    // Panels are read for a matrix of all rows.
    let lead = if b == MatLayout::Plain { vec![g] } else { vec![] };
    let of = |rows: usize, columns: usize| (DType::F32, [lead.clone(), vec![rows, columns]].concat());
    Sample { prim, reads: vec![of(m, k), (DType::F32, weights)], writes: vec![of(m, n)] }
}

fn conv(e: Pick<'_>, rng: &mut Rng, weights: ConvLayout, data: DataLayout) -> Sample {
    let list = |a: usize, b: usize| List::of([a as u32, b as u32]);
    let (depthwise, winograd) = (weights == ConvLayout::Plain, weights == ConvLayout::Winograd4);
    let mut up_to = |n: usize, of_winograd: usize| if winograd { of_winograd } else { 1 + rng.below(n) };
    let (kh, kw, group) = (up_to(4, 3), up_to(4, 3), if depthwise { 8 } else { up_to(2, 1) });
    let (steps, dilations) = (list(up_to(3, 1), up_to(3, 1)), list(up_to(2, 1), up_to(2, 1)));
    let (batch, h, w, oh, ow) = (e(), e(), e(), e(), e());
    let (c, m) = if depthwise { (1, 1) } else { (1 + rng.below(40), 1 + rng.below(40)) };
    let before = List::of([rng.below(3) as i64, rng.below(3) as i64]);
    let image = |channels: usize, h: usize, w: usize| match data {
        DataLayout::ChannelsFirst => (DType::F32, vec![batch, channels, h, w]),
        DataLayout::ChannelsLast => (DType::F32, vec![batch, h, w, channels]),
    };
    let kernel = match weights {
        ConvLayout::Plain => vec![group, 1, kh, kw],
        ConvLayout::Winograd4 => vec![36, m.div_ceil(16), c, 16],
        _ => vec![group, m.div_ceil(16), c * kh * kw, 16],
    };
    let activation = Activation::IDENTITY;
    let prim = Conv {
        kernel: list(kh, kw),
        strides: steps,
        dilations,
        before,
        group: group as u32,
        activation,
        weights,
        data,
    };
    Sample {
        prim: prim.into(),
        reads: vec![image(group * c, h, w), (DType::F32, kernel)],
        writes: vec![image(group * m, oh, ow)],
    }
}

fn conv_transpose(e: Pick<'_>, rng: &mut Rng) -> Sample {
    let [kh, kw] = [1 + rng.below(4), 1 + rng.below(4)];
    let list = |a: usize, b: usize| List::of([a as u32, b as u32]);
    let (strides, dilations) = (list(1 + rng.below(3), 1 + rng.below(3)), list(1 + rng.below(2), 1 + rng.below(2)));
    let (c, m, group) = (1 + rng.below(20), 1 + rng.below(20), 1 + rng.below(2));
    let before = List::of([rng.below(3) as i64, rng.below(3) as i64]);
    let (batch, h, w, oh, ow) = (e(), e(), e(), e(), e());
    Sample {
        prim: ConvTranspose { strides, dilations, before, group: group as u32 }.into(),
        reads: vec![(DType::F32, vec![batch, group * c, h, w]), (DType::F32, vec![group * c, m, kh, kw])],
        writes: vec![(DType::F32, vec![batch, group * m, oh, ow])],
    }
}

fn rnn(e: Pick<'_>, rng: &mut Rng, kind: RnnKind, dtype: DType) -> Sample {
    let (seq, batch, input) = (e(), e(), e());
    let hidden = 1 + rng.below(40);
    let (gates, functions) = if matches!(kind, RnnKind::Lstm { .. }) { (4, 3) } else { (3, 2) };
    let act = Activation { kind: ActivationKind::Sigmoid, alpha: 0.0, beta: 0.0 };
    let prim = Rnn {
        kind,
        direction: RnnDirection::Forward,
        hidden: hidden as u32,
        activations: List::collect((0..functions).map(|_| act)).unwrap(),
        clip: 0.0,
        weights: RnnLayout::Plain,
    };
    Sample {
        prim: prim.into(),
        reads: [vec![seq, batch, input], vec![1, gates * hidden, input], vec![1, gates * hidden, hidden]]
            .map(|dims| (dtype, dims))
            .to_vec(),
        writes: vec![(dtype, vec![seq, 1, batch, hidden])],
    }
}

fn attention(e: Pick<'_>, dtype: DType) -> Sample {
    let (sq, skv, d, dv) = (e(), e(), e(), e());
    let prim = Attention {
        past: List::EMPTY,
        scale: 0.5,
        causal: false,
        window: List::EMPTY,
        softcap: 0.0,
        softmax: dtype,
        scores: 0,
    };
    let dims = |rows: usize, columns: usize| (dtype, vec![1, 2, rows, columns]);
    Sample { prim: prim.into(), reads: vec![dims(sq, d), dims(skv, d), dims(skv, dv)], writes: vec![dims(sq, dv)] }
}

fn unique(e: Pick<'_>, axis: Option<u8>) -> Sample {
    let dims = vec![e(), e()];
    let written = if axis.is_some() { dims.clone() } else { vec![dims.iter().copied().fold(1, usize::saturating_mul)] };
    let prim = Unique { axis, sorted: true }.into();
    Sample { prim, reads: vec![(DType::F32, dims)], writes: vec![(DType::F32, written)] }
}

fn nms(e: Pick<'_>, _: &mut Rng) -> Sample {
    let (batch, boxes, classes) = (e(), e(), e());
    let prim = NonMaxSuppression { center_point_box: true }.into();
    Sample {
        prim,
        reads: vec![(DType::F32, vec![batch, boxes, 4]), (DType::F32, vec![batch, classes, boxes])],
        writes: vec![(DType::I64, vec![1, 3])],
    }
}

fn dft(e: Pick<'_>) -> Sample {
    let (lines, length) = (e(), e());
    let prim = Dft { length: List::of([length as i64]), axis: 1, inverse: false, onesided: false }.into();
    Sample {
        prim,
        reads: vec![(DType::F32, vec![lines, length, 1])],
        writes: vec![(DType::F32, vec![lines, length, 2])],
    }
}

fn det(e: Pick<'_>) -> Sample {
    let (matrices, n) = (e(), e());
    Sample {
        prim: Det {}.into(),
        reads: vec![(DType::F64, vec![matrices, n, n])],
        writes: vec![(DType::F64, vec![matrices])],
    }
}

impl Sample {
    fn bytes(&self) -> Result<usize, Fault> {
        let metas = |list: &[(DType, Vec<usize>)]| -> Vec<Option<Meta>> {
            list.iter()
                .map(|(dtype, dims)| Some(Meta { dtype: *dtype, dims: Axes::from_slice(dims).unwrap() }))
                .collect()
        };
        workspace(&self.prim, &metas(&self.reads), &metas(&self.writes))
    }

    /// Runs with so many bytes of workspace between red zones, which have to be as they were afterwards.
    fn run(&self, given: usize, isa: Isa, rng: &mut Rng) -> Result<(), Fault> {
        const ZONE: usize = 256;
        const RED: u8 = 0xa5;
        let tensor = |(dtype, dims): &(DType, Vec<usize>), rng: &mut Rng| {
            let count = dims.iter().product();
            let data: Vec<f64> = (0..count).map(|_| f64::from(rng.range(-1.0, 1.0))).collect();
            match dtype {
                DType::F32 => Tensor::of(&data.iter().map(|x| *x as f32).collect::<Vec<_>>(), dims),
                _ => Tensor::of(&data, dims),
            }
        };
        let mut reads: Vec<Tensor> = self.reads.iter().map(|r| tensor(r, rng)).collect();
        // A product needs most for a left side that is scattered in memory.
        if matches!(self.prim, Primitive::MatMul(_)) {
            reads[0] = reads[0].scattered(rng);
        }
        let mut writes: Vec<Tensor> = self.writes.iter().map(|(t, dims)| Tensor::zeros(*t, dims)).collect();
        let mut memory = vec![[RED; 64]; given.div_ceil(64) + 2 * ZONE / 64 + 1];
        let start = memory.as_ptr().cast::<u8>().align_offset(64) + ZONE;
        let whole = memory.as_flattened_mut();
        let srcs: Vec<_> = reads.iter().map(|t| Some(t.src())).collect();
        let mut dsts: Vec<_> = writes.iter_mut().map(|t| Some(t.dst())).collect();
        let room = &mut whole[start..start + given];
        let result = crate::execute(&self.prim, &mut Call::new(&srcs, &mut dsts, room, &mut [0; 2], isa));
        assert!(whole[start - ZONE..start].iter().all(|b| *b == RED), "{:?} wrote before its workspace", self.prim);
        assert!(whole[start + given..].iter().all(|b| *b == RED), "{:?} wrote behind its workspace", self.prim);
        result
    }
}

/// Rows I1 and I8. What a kernel asks for is what its sizing function says, on every instruction set; with less it runs
/// without or refuses, and writes nothing outside.
#[test]
fn requests_are_kept() {
    let mut rng = Rng::new(1);
    for (name, family) in FAMILIES {
        let mut refused = 0;
        for _ in 0..5 {
            let mut numbers = Rng::new(rng.next());
            let sample = family(&mut || 1 + numbers.below(if name.starts_with("MatMul") { 40 } else { 9 }), &mut rng);
            let bytes = sample.bytes().unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(uses_workspace(&sample.prim), "{name}");
            for isa in isas() {
                // The only fault there may be is one of the data.
                match sample.run(bytes, isa, &mut rng) {
                    Ok(()) | Err(Fault::Capacity { .. }) => {}
                    Err(fault) => panic!("{name}: {fault}"),
                }
                for less in [bytes.saturating_sub(1), bytes / 2, 0].into_iter().filter(|less| *less < bytes) {
                    match sample.run(less, isa, &mut rng) {
                        Err(Fault::Workspace { needed, given }) => {
                            assert!(needed <= bytes && given <= less && needed > given, "{name}: {needed} of {bytes}");
                            refused += 1;
                        }
                        Ok(()) | Err(Fault::Capacity { .. }) => {}
                        Err(fault) => panic!("{name}: {fault}"),
                    }
                }
            }
        }
        assert!(refused > 0, "{name} never lacked what was missing");
    }
}

/// Row I3. No family needs less where an extent is larger: the value at the largest extents bounds a range.
#[test]
fn no_workspace_shrinks() {
    let mut rng = Rng::new(2);
    for (name, family) in FAMILIES {
        for round in 0..600 {
            let seed = rng.next();
            let limit = [30, 300, 5000][round % 3];
            let small: Vec<usize> = (0..5).map(|_| rng.below(limit)).collect();
            let mut large = small.clone();
            large[rng.below(5)] += rng.below(limit);
            let bytes = |extents: &[usize]| {
                let mut next = extents.iter().copied();
                family(&mut || next.next().unwrap(), &mut Rng::new(seed)).bytes().unwrap()
            };
            assert!(bytes(&small) <= bytes(&large), "{name}: {small:?} {large:?}");
        }
    }
}

/// Row I9. Extents that no memory holds are refused by every family; none wraps around or panics.
#[test]
fn huge_extents_are_refused() {
    const HUGE: [usize; 8] = [0, 1, 3, 1 << 31, 1 << 40, 1 << 61, isize::MAX as usize, usize::MAX];
    let mut rng = Rng::new(3);
    for (name, family) in FAMILIES {
        let mut refused = 0;
        for _ in 0..2000 {
            let mut numbers = Rng::new(rng.next());
            match family(&mut || HUGE[numbers.below(HUGE.len())], &mut rng).bytes() {
                Ok(bytes) => assert!(isize::try_from(bytes).is_ok(), "{name}"),
                Err(Fault::Extent | Fault::Unsupported(_) | Fault::Shape(_)) => refused += 1,
                Err(fault) => panic!("{name}: {fault}"),
            }
        }
        assert!(refused > 1000, "{name}: {refused}");
        // Operands of 2^63 elements.
        let mut halves = [1 << 31, 1 << 32].into_iter().cycle();
        let fault = family(&mut || halves.next().unwrap(), &mut rng).bytes().map(|n| (name, n));
        assert!(matches!(fault, Err(Fault::Extent | Fault::Unsupported(_))), "{fault:?}");
    }
}

/// Row I10. A box's index has 32 bits: more boxes than it can number are refused where the plan is made, and at the kernel's entry.
#[test]
fn more_boxes_than_their_indices_tell() {
    let of = |boxes: usize| {
        let mut extents = [1, boxes, 1].into_iter();
        nms(&mut || extents.next().unwrap(), &mut Rng::new(0)).bytes()
    };
    assert_eq!(of(u32::MAX as usize), Ok(u32::MAX as usize * 4));
    assert_eq!(of(u32::MAX as usize + 1), Err(Fault::Unsupported("more than 2^32 - 1 boxes")));
}

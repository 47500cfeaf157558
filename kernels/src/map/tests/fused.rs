//! Programs of several instructions against the same instructions one by one.

use super::{F, I, instr, numbers, program, random};
use crate::{
    Isa,
    testing::{Rng, Tensor, isas, run},
};
use plan::{
    DType,
    prim::{MapInstr, MapOp},
};
use std::vec::Vec;

/// A random program on f32, i32 and bool registers.
fn random_program(reads: &[DType], len: usize, rng: &mut Rng) -> Vec<MapInstr> {
    let mut types = reads.to_vec();
    let mut code = Vec::new();
    while code.len() < len {
        let pick = |want: DType, rng: &mut Rng| -> Option<u8> {
            let fits: Vec<usize> = (0..types.len()).filter(|i| types[*i] == want).collect();
            if fits.is_empty() { None } else { Some(fits[rng.below(fits.len())] as u8) }
        };
        use MapOp::*;
        let made = match rng.below(9) {
            0 => pick(DType::F32, rng)
                .map(|a| instr([Relu, Exp, Tanh, Neg, Floor][rng.below(5)], DType::F32, DType::F32, [a, 0, 0])),
            1 | 2 => pick(DType::F32, rng)
                .zip(pick(DType::F32, rng))
                .map(|(a, b)| instr([Add, Sub, Mul, Max, Div][rng.below(5)], DType::F32, DType::F32, [a, b, 0])),
            3 => pick(DType::F32, rng)
                .zip(pick(DType::F32, rng))
                .map(|(a, b)| instr(Lt, DType::F32, DType::Bool, [a, b, 0])),
            4 => pick(DType::Bool, rng)
                .zip(pick(DType::F32, rng).zip(pick(DType::F32, rng)))
                .map(|(a, (b, c))| instr(Select, DType::F32, DType::F32, [a, b, c])),
            5 => pick(DType::F32, rng).map(|a| instr(Cast, DType::F32, DType::I32, [a, 0, 0])),
            6 => pick(DType::I32, rng)
                .zip(pick(DType::I32, rng))
                .map(|(a, b)| instr(Add, DType::I32, DType::I32, [a, b, 0])),
            7 => pick(DType::I32, rng).map(|a| instr(Cast, DType::I32, DType::F32, [a, 0, 0])),
            _ => Some(MapInstr {
                bits: u64::from(rng.range(-2.0, 2.0).to_bits()),
                ..instr(Const, DType::F32, DType::F32, [0; 3])
            }),
        };
        if let Some(made) = made {
            types.push(made.out);
            code.push(made);
        }
    }
    code
}

/// The program's results one instruction at a time, each into a tensor of its own.
fn one_by_one(code: &[MapInstr], reads: &[Tensor], dims: &[usize], isa: Isa) -> Tensor {
    let mut values: Vec<Tensor> = reads.to_vec();
    for i in code {
        let args: Vec<Tensor> = i.args[..i.op.arity()].iter().map(|a| values[usize::from(*a)].clone()).collect();
        let mut w = [Tensor::zeros(i.out, dims)];
        let refs: Vec<_> = args.iter().map(Some).collect();
        run(
            &program(&[MapInstr { args: [0, 1.min(refs.len() as u8), 2.min(refs.len() as u8)], ..*i }]),
            &refs,
            &mut w,
            None,
            isa,
        )
        .unwrap();
        values.push(w[0].clone());
    }
    values.last().unwrap().clone()
}

/// Random elements seen under `dims`, perhaps strided or broadcast, and the same elements dense.
fn view_and_dense(dims: &[usize], rng: &mut Rng) -> (Tensor, Tensor) {
    let dtype = [DType::F32, DType::F32, DType::I32, DType::Bool][rng.below(4)];
    // Broadcast along some axes.
    let small: Vec<usize> = dims.iter().map(|d| if rng.below(3) == 0 { 1 } else { *d }).collect();
    let t = random(dtype, if rng.below(2) == 0 { dims } else { &small }, rng);
    let mut t = if rng.below(2) == 0 { t.scattered(rng) } else { t };
    let strides: Vec<isize> = t
        .shape
        .dims()
        .iter()
        .zip(t.shape.strides())
        .zip(dims)
        .map(|((have, s), want)| if have == want { *s } else { 0 })
        .collect();
    t.shape = crate::Shape::strided(dims, &strides).unwrap();
    let size = dtype.size().unwrap();
    let mut dense = Tensor::zeros(dtype, dims);
    for (i, at) in t.offsets().into_iter().enumerate() {
        let from = t.bytes()[at * size..][..size].to_vec();
        dense.bytes_mut()[i * size..][..size].copy_from_slice(&from);
    }
    (t, dense)
}

#[test]
fn programs_agree_with_their_instructions() {
    let mut rng = Rng::new(12);
    let shapes: [&[usize]; 7] = [&[5], &[700], &[2, 3, 7], &[3, 200], &[40, 1, 30], &[6, 5, 4, 3], &[2, 600]];
    for round in 0..60 {
        let dims = shapes[rng.below(shapes.len())];
        let count = [1, 1, 2, 3, 7, 12][rng.below(6)];
        let mut reads = Vec::new();
        let mut views = Vec::new();
        for _ in 0..count {
            let (t, dense) = view_and_dense(dims, &mut rng);
            reads.push(dense);
            views.push(t);
        }
        let types: Vec<DType> = reads.iter().map(|r| r.dtype).collect();
        let code = random_program(&types, [1, 2, 3, 8, 20, 32][rng.below(6)], &mut rng);
        let want = one_by_one(&code, &reads, dims, Isa::Portable);
        let bits = |t: &Tensor| -> Vec<u64> {
            numbers(t)
                .into_iter()
                .map(|x| match x {
                    F(x) if x.is_nan() => 1,
                    F(x) => x.to_bits(),
                    I(x) => x as u64,
                })
                .collect()
        };
        for isa in isas() {
            let mut w = [Tensor::zeros(want.dtype, dims)];
            if rng.below(2) == 0 {
                w[0] = w[0].scattered(&mut rng);
            }
            let refs: Vec<_> = views.iter().map(Some).collect();
            run(&program(&code), &refs, &mut w, None, isa).unwrap();
            assert_eq!(bits(&w[0]), bits(&want), "round {round} on {isa:?}");
            // In place of each operand that may be.
            for (i, view) in views.iter().enumerate().take(8) {
                if types[i].bits() == want.dtype.bits() && !view.shape.strides().contains(&0) {
                    let mut w = [Tensor { dtype: types[i], ..view.clone() }];
                    // The same memory, of the result's type on the writing side.
                    w[0].dtype = want.dtype;
                    if types[i] != want.dtype {
                        continue;
                    }
                    run(&program(&code), &refs, &mut w, Some(i), isa).unwrap();
                    assert_eq!(bits(&w[0]), bits(&want), "round {round} in place of {i} on {isa:?}");
                }
            }
        }
    }
}

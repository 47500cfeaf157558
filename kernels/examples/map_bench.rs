//! Times elementwise programs, copies and reductions: `cargo run --release -p kernels --example map_bench`.
//!
//! Prints nanoseconds per call and gigabytes per second read and written. Calls on few elements show what a call costs at all.

use kernels::{Call, Dst, Fault, Isa, Shape, Src};
use plan::{
    Axes, DType, List, Primitive,
    prim::{Copy, Map, MapInstr, MapOp, Reduce, ReduceOp},
};
use std::time::Instant;

fn instr(op: MapOp, args: [u8; 3]) -> MapInstr {
    MapInstr { op, dtype: DType::F32, out: DType::F32, args, bits: 0 }
}

fn map(code: &[MapInstr]) -> Primitive<i64> {
    Map { code: List::from_slice(code).unwrap_or_default() }.into()
}

fn main() -> Result<(), Fault> {
    let isa = Isa::detect();
    let unary = |op| map(&[instr(op, [0, 0, 0])]);
    let add = map(&[instr(MapOp::Add, [0, 1, 0])]);
    let chain = map(&[
        instr(MapOp::Mul, [0, 1, 0]),
        instr(MapOp::Add, [2, 1, 0]),
        instr(MapOp::Sigmoid, [3, 0, 0]),
        instr(MapOp::Mul, [4, 3, 0]),
    ]);
    for n in [1usize, 16, 168, 1024, 65536, 1 << 20] {
        println!("n = {n}, {isa:?}");
        for op in
            [MapOp::Relu, MapOp::Sqrt, MapOp::Exp, MapOp::Log, MapOp::Sigmoid, MapOp::Tanh, MapOp::Erf, MapOp::Gelu]
        {
            time(&format!("{op:?}"), &unary(op), isa, &[n], &[&[1]], &[n])?;
        }
        time("Add", &add, isa, &[n], &[&[1], &[1]], &[n])?;
        time("Add scalar", &add, isa, &[n], &[&[1], &[0]], &[n])?;
        time("four instructions", &chain, isa, &[n], &[&[1], &[1]], &[n])?;
    }
    let dims = [64, 56 * 56];
    time("Add per channel, first", &add, isa, &dims, &[&[56 * 56, 1], &[1, 0]], &dims)?;
    let dims = [56 * 56, 64];
    time("Add per channel, last", &add, isa, &dims, &[&[64, 1], &[0, 1]], &dims)?;
    let dims = [4096, 7];
    time("Add short rows", &add, isa, &dims, &[&[7, 1], &[0, 1]], &dims)?;
    time("Copy dense", &Copy {}.into(), isa, &[1 << 20], &[&[1]], &[1 << 20])?;
    let dims = [1024, 1024];
    time("Copy transposed", &Copy {}.into(), isa, &dims, &[&[1, 1024]], &dims)?;
    let dims = [16, 64, 97];
    time("Copy heads", &Copy {}.into(), isa, &dims, &[&[64, 1, 1024]], &dims)?;
    let dims = [97, 4, 64];
    time("Copy rows of 64", &Copy {}.into(), isa, &dims, &[&[64, 97 * 64, 1]], &dims)?;
    let sum = |axis| Reduce { op: ReduceOp::Sum, axes: Axes::of([axis]) }.into();
    time("Sum last of 1024 x 1024", &sum(1), isa, &[1024, 1024], &[&[1024, 1]], &[1024, 1])?;
    time("Sum first of 1024 x 1024", &sum(0), isa, &[1024, 1024], &[&[1024, 1]], &[1, 1024])?;
    time("Sum last of 8 x 21", &sum(1), isa, &[8, 21], &[&[21, 1]], &[8, 1])?;
    Ok(())
}

fn time(
    name: &str,
    prim: &Primitive<i64>,
    isa: Isa,
    dims: &[usize],
    strides: &[&[isize]],
    out: &[usize],
) -> Result<(), Fault> {
    let mut data = Vec::new();
    let shapes: Vec<Shape> = strides.iter().map(|s| Shape::strided(dims, s)).collect::<Result<_, _>>()?;
    for shape in &shapes {
        data.push(vec![0.7f32; shape.span()?.1.unsigned_abs()]);
    }
    let mut reads = Vec::new();
    for (data, shape) in data.iter().zip(&shapes) {
        reads.push(Some(Src::from_slice(data, &[data.len()])?.reshaped(*shape)?));
    }
    let mut result = vec![0f32; out.iter().product()];
    let bytes = 4 * (data.iter().map(Vec::len).sum::<usize>() + result.len());
    let mut best = f64::INFINITY;
    let calls = (2_000_000 / bytes).clamp(3, 2000);
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..calls {
            let mut writes = [Some(Dst::from_slice(&mut result, out)?)];
            kernels::execute(prim, &mut Call::new(&reads, &mut writes, &mut [], &mut [], isa))?;
        }
        best = best.min(start.elapsed().as_secs_f64() / calls as f64);
    }
    println!("  {name:<28} {:>12.1} ns {:>8.2} GB/s", best * 1e9, bytes as f64 / best / 1e9);
    Ok(())
}

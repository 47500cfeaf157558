//! Times f32 matrix products: `cargo run --release -p kernels --example gemm_bench`.
//!
//! Prints GFLOP/s for each instruction set, for B in panels, plain and transposed. To be compared with the processor's
//! peak: cores' clock × 2 (multiply and add) × lanes × multiply-add units (16 or 32 lanes × 2 on current x86-64).

use kernels::{Call, Dst, Fault, Isa, Meta, Shape, Src};
use plan::{
    Axes, DType, Primitive,
    prim::{Activation, ActivationKind, MatLayout, MatMul},
};
use std::time::Instant;

fn main() -> Result<(), Fault> {
    let sizes = [
        (512, 512, 512),
        (1024, 1024, 1024),
        (64, 3072, 1024),
        (64, 1024, 3072),
        (64, 64, 64),
        (3136, 64, 64),
        (3136, 64, 576),
        (784, 512, 128),
        (196, 256, 1024),
        (4, 1024, 1024),
        (1, 1024, 1024),
        (1, 512, 128),
        (25, 8210, 1024),
        (97, 32, 257),
        (200, 17, 90),
    ];
    println!("{:>20} {:>10} {:>9} {:>9} {:>9}  GFLOP/s", "m n k", "isa", "panels", "plain", "b^T");
    for (m, n, k) in sizes {
        for isa in [Isa::Avx2, Isa::Avx512].into_iter().filter(|isa| *isa <= Isa::detect()) {
            let panels = time(isa, (m, n, k), MatLayout::Panels16, false)?;
            let plain = time(isa, (m, n, k), MatLayout::Plain, false)?;
            let transposed = time(isa, (m, n, k), MatLayout::Plain, true)?;
            println!(
                "{:>20} {:>10} {panels:9.1} {plain:9.1} {transposed:9.1}",
                format!("{m} {n} {k}"),
                format!("{isa:?}")
            );
        }
    }
    Ok(())
}

fn time(isa: Isa, (m, n, k): (usize, usize, usize), b: MatLayout, transposed: bool) -> Result<f64, Fault> {
    let activation = Activation { kind: ActivationKind::Relu, alpha: 0.0, beta: 0.0 };
    let prim = Primitive::from(MatMul { activation, b });
    let (a_data, b_data, bias) = (vec![0.5f32; m * k], vec![0.25f32; n.div_ceil(16) * 16 * k], vec![1f32; n]);
    let b_dims: &[usize] = if b == MatLayout::Plain { &[k, n] } else { &[n.div_ceil(16), k, 16] };
    let b_len: usize = b_dims.iter().product();
    let mut b_src = Src::from_slice(&b_data[..b_len], b_dims)?;
    if transposed {
        b_src = b_src.reshaped(Shape::strided(&[k, n], &[1, k as isize])?)?;
    }
    let a_src = Src::from_slice(&a_data, &[m, k])?;
    let bias = Src::from_slice(&bias, &[n])?.reshaped(Shape::strided(&[m, n], &[0, 1])?)?;
    let meta = |dims: &[usize]| Some(Meta { dtype: DType::F32, dims: Axes::from_slice(dims).unwrap_or_default() });
    let bytes = kernels::workspace(&prim, &[meta(&[m, k]), meta(b_dims)], &[meta(&[m, n])])?;
    let mut workspace = vec![0f32; bytes.div_ceil(4) + 16];
    let skip = workspace.as_ptr().align_offset(64);
    let mut out = vec![0f32; m * n];
    let mut once = || {
        // SAFETY: bytes of floats.
        let (_, bytes_of, _) = unsafe { workspace[skip..].align_to_mut::<u8>() };
        let mut writes = [Some(Dst::from_slice(&mut out, &[m, n])?)];
        let reads = [Some(a_src), Some(b_src), Some(bias)];
        kernels::execute(&prim, &mut Call::new(&reads, &mut writes, &mut bytes_of[..bytes], &mut [], isa))
    };
    once()?;
    let flops = 2.0 * m as f64 * n as f64 * k as f64;
    // The best of five stretches of about ten milliseconds.
    let runs = ((4e8 / flops) as usize).clamp(1, 10_000);
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..runs {
            once()?;
        }
        best = best.min(start.elapsed().as_secs_f64() / runs as f64);
    }
    Ok(flops / best / 1e9)
}

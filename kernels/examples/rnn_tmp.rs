use kernels::{Call, Dst, Fault, Isa, Meta, Src};
use plan::{Axes, DType, List, Primitive, prim::*};
fn cpu() -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse::<f64>().unwrap()
        * 1e-9
}
fn main() -> Result<(), Fault> {
    for (t, b, i, h, d) in [(1, 1, 128, 128, 1), (25, 1, 512, 512, 2), (100, 8, 64, 64, 1)] {
        let f = |kind| Activation { kind, alpha: 0.0, beta: 0.0 };
        let a = [f(ActivationKind::Sigmoid), f(ActivationKind::Tanh), f(ActivationKind::Tanh)];
        let p = Rnn {
            kind: RnnKind::Lstm { input_forget: false },
            direction: if d == 2 { RnnDirection::Bidirectional } else { RnnDirection::Forward },
            hidden: h as u32,
            activations: List::of([a[0], a[1], a[2], a[0], a[1], a[2]]),
            clip: 0.0,
            weights: RnnLayout::Panels16,
        };
        let prim = Primitive::from(p);
        let (x, w, r, bias) = (
            vec![0.1f32; t * b * i],
            vec![0.01f32; d * 4 * h * i],
            vec![0.01f32; d * 4 * h * h],
            vec![0.1f32; d * 8 * h],
        );
        let h0 = vec![0f32; d * b * h];
        let src = |x, d: &[usize]| Src::from_slice(x, d).unwrap();
        let rows = (4 * h) / 16;
        let reads = [
            Some(src(&x, &[t, b, i])),
            Some(src(&w, &[d, rows, i, 16])),
            Some(src(&r, &[d, rows, h, 16])),
            Some(src(&bias, &[d, 8 * h])),
            None,
            Some(src(&h0, &[d, b, h])),
            Some(src(&h0, &[d, b, h])),
        ];
        let meta =
            |s: &Option<Src<'_>>| s.map(|s| Meta { dtype: DType::F32, dims: Axes::from_slice(s.dims()).unwrap() });
        let metas: Vec<_> = reads.iter().map(meta).collect();
        let bytes = kernels::workspace(&prim, &metas, &[])?;
        let mut ws = vec![0u128; bytes / 16 + 8];
        let (mut y, mut yh, mut yc) = (vec![0f32; t * d * b * h], vec![0f32; d * b * h], vec![0f32; d * b * h]);
        for isa in [Isa::Avx2, Isa::Avx512] {
            let mut best = f64::MAX;
            for _ in 0..40 {
                let s = cpu();
                let n = (200 / t).max(1);
                for _ in 0..n {
                    let mut writes = [
                        Some(Dst::from_slice(&mut y, &[t, d, b, h])?),
                        Some(Dst::from_slice(&mut yh, &[d, b, h])?),
                        Some(Dst::from_slice(&mut yc, &[d, b, h])?),
                    ];
                    let (_, w, _) = unsafe { ws.align_to_mut::<u8>() };
                    kernels::execute(&prim, &mut Call::new(&reads, &mut writes, &mut w[..bytes], &mut [], isa))?;
                }
                best = best.min((cpu() - s) / n as f64);
            }
            println!("{t} {b} {i} {h} {d} {isa:?}: {:.2} us, ws {bytes}", best * 1e6);
        }
    }
    Ok(())
}

//! Speed of convolution on the shapes of known networks: `cargo run --release -p kernels --example conv_bench`.
//!
//! For each shape the fastest of many runs, in GFLOP/s (a multiply and an add are two) and as a part of what the processor
//! can do: the same micro-benchmark measures that first, with nothing but independent multiply-adds in registers.
//! An argument selects shapes by a part of their line; `others` measures the other kernels on image-like data.

use kernels::{Call, Dst, Isa, Meta, Src, execute, workspace};
use plan::prim::{
    Activation, ActivationKind, Conv, ConvLayout, ConvTranspose, CoordinateMode, DataLayout, NearestMode, Pool,
    PoolKind, Resize, ResizeMode,
};
use plan::{DType, List, Primitive};

/// Name, input channels, output channels, groups, input extents, kernel, strides, padding.
type Shape = (&'static str, usize, usize, usize, &'static [usize], &'static [usize], &'static [u32], &'static [usize]);

const SHAPES: &[Shape] = &[
    ("resnet 7x7/2 3-64 224", 3, 64, 1, &[224, 224], &[7, 7], &[2, 2], &[3, 3]),
    ("resnet 3x3 64 56", 64, 64, 1, &[56, 56], &[3, 3], &[1, 1], &[1, 1]),
    ("resnet 1x1 256-64 56", 256, 64, 1, &[56, 56], &[1, 1], &[1, 1], &[0, 0]),
    ("resnet 1x1 64-256 56", 64, 256, 1, &[56, 56], &[1, 1], &[1, 1], &[0, 0]),
    ("resnet 3x3/2 128 56", 128, 128, 1, &[56, 56], &[3, 3], &[2, 2], &[1, 1]),
    ("resnet 3x3 128 28", 128, 128, 1, &[28, 28], &[3, 3], &[1, 1], &[1, 1]),
    ("resnet 3x3 256 14", 256, 256, 1, &[14, 14], &[3, 3], &[1, 1], &[1, 1]),
    ("resnet 3x3 512 7", 512, 512, 1, &[7, 7], &[3, 3], &[1, 1], &[1, 1]),
    ("resnet 1x1 512-2048 7", 512, 2048, 1, &[7, 7], &[1, 1], &[1, 1], &[0, 0]),
    ("resnet 1x1/2 256-512 56", 256, 512, 1, &[56, 56], &[1, 1], &[2, 2], &[0, 0]),
    ("yolox 3x3 24 104", 24, 24, 1, &[104, 104], &[3, 3], &[1, 1], &[1, 1]),
    ("yolox 1x1 96-4 52", 96, 4, 1, &[52, 52], &[1, 1], &[1, 1], &[0, 0]),
    ("mtcnn 3x3 3-10 120x160", 3, 10, 1, &[120, 160], &[3, 3], &[1, 1], &[0, 0]),
    ("magika k5 256-512 512", 256, 512, 1, &[512, 1], &[5, 1], &[1, 1], &[0, 0]),
    ("silero k3 129-128 4", 129, 128, 1, &[4], &[3], &[1], &[1]),
    ("nothing", 1, 1, 1, &[1], &[1], &[1], &[0]),
    ("vad 1x1 8 21", 8, 8, 1, &[21], &[1], &[1], &[0]),
    ("squeeze 1x1 192-48 1", 192, 48, 1, &[1, 1], &[1, 1], &[1, 1], &[0, 0]),
    ("depthwise 3x3 48 160", 48, 48, 48, &[160, 160], &[3, 3], &[1, 1], &[1, 1]),
    ("depthwise 3x3/2 48 160", 48, 48, 48, &[160, 160], &[3, 3], &[2, 2], &[1, 1]),
    ("depthwise 5x5 192 40", 192, 192, 192, &[40, 40], &[5, 5], &[1, 1], &[2, 2]),
    ("depthwise k17 8 21", 8, 8, 8, &[21], &[17], &[1], &[8]),
];

/// 64-byte aligned numbers in -1..1.
fn numbers(len: usize) -> Vec<f32> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// Seconds that this thread has run: what others do on the same processor does not count.
fn thread_time() -> f64 {
    #[cfg(target_os = "linux")]
    {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the structure is there to be written.
        if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) } == 0 {
            return t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9;
        }
    }
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn fastest(mut f: impl FnMut()) -> f64 {
    let (mut best, start) = (f64::INFINITY, thread_time());
    while thread_time() - start < 0.08 {
        let at = thread_time();
        let mut runs = 0;
        loop {
            for _ in 0..16 {
                f();
            }
            runs += 16;
            if thread_time() - at > 2e-4 {
                break;
            }
        }
        best = best.min((thread_time() - at) / f64::from(runs));
    }
    best
}

/// The multiply-adds per second of one core, in GFLOP/s.
fn peak(isa: Isa) -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        #[target_feature(enable = "avx512f")]
        fn wide(n: usize) -> f32 {
            let mut sums: [_; 16] = core::array::from_fn(|i| _mm512_set1_ps(i as f32));
            let x = _mm512_set1_ps(std::hint::black_box(0.5));
            for _ in 0..n {
                for s in &mut sums {
                    *s = _mm512_fmadd_ps(*s, x, x);
                }
            }
            sums.iter().map(|s| _mm512_reduce_add_ps(*s)).sum()
        }
        #[target_feature(enable = "avx2,fma")]
        fn narrow(n: usize) -> f32 {
            let mut sums: [_; 12] = core::array::from_fn(|i| _mm256_set1_ps(i as f32));
            let x = _mm256_set1_ps(std::hint::black_box(0.5));
            for _ in 0..n {
                for s in &mut sums {
                    *s = _mm256_fmadd_ps(*s, x, x);
                }
            }
            sums.iter().map(|s| _mm256_cvtss_f32(*s)).sum()
        }
        let n = 10_000;
        let time = |f: &dyn Fn() -> f32| fastest(|| _ = std::hint::black_box(f()));
        match isa {
            Isa::Avx512 => {
                // SAFETY: the processor has what `isa` says.
                let seconds = time(&|| unsafe { wide(n) });
                return (n * 16 * 32) as f64 / seconds / 1e9;
            }
            Isa::Avx2 => {
                // SAFETY: the processor has what `isa` says.
                let seconds = time(&|| unsafe { narrow(n) });
                return (n * 12 * 16) as f64 / seconds / 1e9;
            }
            Isa::Portable => {}
        }
    }
    let _ = isa;
    f64::NAN
}

fn measure(isa: Isa, peak: f64, shape: &Shape, data: DataLayout) {
    let (name, c, m, group, input, kernel, strides, pads) = *shape;
    let spatial: Vec<usize> =
        (0..input.len()).map(|a| (input[a] + 2 * pads[a] - kernel[a]) / strides[a] as usize + 1).collect();
    let dims = |channels: usize, spatial: &[usize]| match data {
        DataLayout::ChannelsFirst => [&[1, channels], spatial].concat(),
        DataLayout::ChannelsLast => [&[1], spatial, &[channels]].concat(),
    };
    let (taps, depthwise) = (kernel.iter().product::<usize>(), c == group && m == group);
    let (layout, w_dims) = match (depthwise, data) {
        (true, DataLayout::ChannelsFirst) => (ConvLayout::Plain, [&[m, 1], kernel].concat()),
        (true, DataLayout::ChannelsLast) => (ConvLayout::Depthwise16, vec![m.div_ceil(16), taps, 16]),
        (false, _) => (ConvLayout::Panels16, vec![group, (m / group).div_ceil(16), taps * c / group, 16]),
    };
    let list = |v: &[usize]| v.iter().map(|v| *v as u32).collect::<Vec<u32>>();
    let p = Conv::<i64> {
        kernel: List::from_slice(&list(kernel)).unwrap(),
        strides: List::from_slice(strides).unwrap(),
        dilations: List::from_slice(&vec![1; input.len()]).unwrap(),
        before: List::from_slice(&pads.iter().map(|p| *p as i64).collect::<Vec<_>>()).unwrap(),
        group: group as u32,
        activation: Activation { kind: ActivationKind::Relu, alpha: 0.0, beta: 0.0 },
        weights: layout,
        data,
    };
    let (x_dims, y_dims) = (dims(c, input), dims(m, &spatial));
    let (x, w, bias) = (numbers(x_dims.iter().product()), numbers(w_dims.iter().product()), numbers(m));
    let mut y = vec![0f32; y_dims.iter().product()];
    let meta = |dims: &[usize]| Some(Meta { dtype: DType::F32, dims: List::from_slice(dims).unwrap() });
    let needed = workspace(&p.into(), &[meta(&x_dims), meta(&w_dims)], &[meta(&y_dims)]).unwrap();
    let mut memory = vec![0u128; needed.div_ceil(16) + 8];
    // SAFETY: every bit pattern is a byte.
    let (_, memory, _) = unsafe { memory.align_to_mut::<u8>() };
    let skip = memory.as_ptr().align_offset(64);
    let primitive = Primitive::from(p);
    let time = fastest(|| {
        let reads = [
            Some(Src::from_slice(&x, &x_dims).unwrap()),
            Some(Src::from_slice(&w, &w_dims).unwrap()),
            Some(Src::from_slice(&bias, &[m]).unwrap()),
        ];
        let mut writes = [Some(Dst::from_slice(&mut y, &y_dims).unwrap())];
        execute(&primitive, &mut Call::new(&reads, &mut writes, &mut memory[skip..skip + needed], &mut [], isa))
            .unwrap();
    });
    let flops = 2.0 * (y.len() * taps * c / group) as f64;
    let rate = flops / time / 1e9;
    println!("{isa:?} {data:?} {name:24} {:9.1} us {rate:7.1} GFLOP/s {:3.0} %", time * 1e6, rate / peak * 100.0);
}

/// Milliseconds of the fastest run of a primitive on contiguous f32 operands.
fn milliseconds(isa: Isa, p: impl Into<Primitive<i64>>, reads: &[&[usize]], y_dims: &[usize]) -> f64 {
    let primitive = p.into();
    let data: Vec<Vec<f32>> = reads.iter().map(|dims| numbers(dims.iter().product())).collect();
    let mut y = vec![0f32; y_dims.iter().product()];
    let meta = |dims: &[usize]| Some(Meta { dtype: DType::F32, dims: List::from_slice(dims).unwrap() });
    let metas: Vec<_> = reads.iter().map(|dims| meta(dims)).collect();
    let needed = workspace(&primitive, &metas, &[meta(y_dims)]).unwrap();
    let mut memory = vec![0u128; needed.div_ceil(16) + 8];
    // SAFETY: every bit pattern is a byte.
    let (_, memory, _) = unsafe { memory.align_to_mut::<u8>() };
    let skip = memory.as_ptr().align_offset(64);
    let time = fastest(|| {
        let reads: Vec<_> = data.iter().zip(reads).map(|(d, dims)| Some(Src::from_slice(d, dims).unwrap())).collect();
        let mut writes = [Some(Dst::from_slice(&mut y, y_dims).unwrap())];
        execute(&primitive, &mut Call::new(&reads, &mut writes, &mut memory[skip..skip + needed], &mut [], isa))
            .unwrap();
    });
    time * 1e3
}

/// The other kernels on image-like data.
fn measure_others(isa: Isa) {
    let transposed = ConvTranspose::<i64> {
        strides: List::of([2, 2]),
        dilations: List::of([1, 1]),
        before: List::of([0, 0]),
        group: 1,
    };
    for (c, m, i) in [(24, 24, 160), (24, 1, 320)] {
        let (x, w, y) = ([1, c, i, i], [c, m, 2, 2], [1, m, 2 * i, 2 * i]);
        println!("{isa:?} transposed 2x2/2 {c}-{m} {i}: {:.3} ms", milliseconds(isa, transposed, &[&x, &w], &y));
    }
    let pool = |kind, k: u32, s: u32, before: i64| Pool::<i64> {
        kind,
        kernel: List::of([k, k]),
        strides: List::of([s, s]),
        dilations: List::of([1, 1]),
        before: List::of([before, before]),
        after: List::of([before, before]),
        count_include_pad: false,
        column_major: false,
        data: DataLayout::ChannelsFirst,
    };
    for (kind, c, i, k, s, before, o) in [
        (PoolKind::Max, 64, 112, 3, 2, 0, 56),
        (PoolKind::Max, 192, 13, 13, 1, 6, 13),
        (PoolKind::Max, 24, 72, 2, 2, 0, 36),
        (PoolKind::Average, 1024, 7, 7, 1, 0, 1),
    ] {
        let time = milliseconds(isa, pool(kind, k, s, before), &[&[1, c, i, i]], &[1, c, o, o]);
        println!("{isa:?} pool {kind:?} {k}x{k}/{s} {c} {i}: {time:.3} ms");
    }
    for (mode, coordinates) in [
        (ResizeMode::Nearest, CoordinateMode::Asymmetric),
        (ResizeMode::Linear, CoordinateMode::HalfPixel),
        (ResizeMode::Cubic, CoordinateMode::HalfPixel),
    ] {
        let resize = Resize {
            mode,
            coordinates,
            nearest: NearestMode::Floor,
            cubic_coeff_a: -0.75,
            exclude_outside: false,
            extrapolation: 0.0,
            antialias: false,
        };
        let time = milliseconds(isa, resize, &[&[1, 96, 80, 80]], &[1, 96, 160, 160]);
        println!("{isa:?} resize {mode:?} 96 80-160: {time:.3} ms");
    }
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let layouts = [DataLayout::ChannelsFirst, DataLayout::ChannelsLast];
    for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable].into_iter().filter(|isa| *isa <= Isa::detect()) {
        if only == "others" {
            measure_others(isa);
            continue;
        }
        let peak = peak(isa);
        println!("{isa:?}: peak {peak:.1} GFLOP/s");
        for data in layouts {
            for shape in SHAPES.iter().filter(|s| format!("{isa:?} {data:?} {}", s.0).contains(&only)) {
                measure(isa, peak, shape, data);
            }
        }
    }
}

//! Bounds over ranges.

use crate::shape::{Exprs, SymbolInfo};
use crate::workspace::{Bound, Growth, Sizer, over_range};
use kernels::Fault;
use plan::{Axes, DType, ExprId, SymbolKind, prim::*};

fn symbol(exprs: &mut Exprs, lo: i64, hi: i64) -> ExprId {
    let kind = SymbolKind::Input { input: 0, axis: 0 };
    let id = exprs.symbol(SymbolInfo { name: "n".into(), kind, lo, hi, step: 1, bound: None });
    exprs.of_symbol(id)
}

/// In how many parts one query over so many keys is split: 2 heads, blocks of 256 keys, 108 processors, as many parts as fill them
/// best.
fn parts(keys: i64) -> i64 {
    let (blocks, processors, heads) = ((keys + 255) / 256, 108, 2);
    let work = |s: i64| (blocks + s - 1) / s;
    let fill = |s: i64| {
        let waves = (heads * s) as f64 / processors as f64;
        waves / waves.ceil()
    };
    let useful = |s: &i64| *s == 1 || work(*s) != work(*s - 1);
    let candidates = || (1..=blocks.min(processors).min(128)).filter(useful);
    let best = candidates().map(fill).fold(0.0, f64::max);
    candidates().find(|s| fill(*s) >= 0.85 * best).unwrap_or(1)
}

/// Sums and maxima of the parts of both heads of 64 elements.
fn split_bytes(parts: i64) -> u64 {
    (parts * 2 * (64 + 1) * 4) as u64
}

/// Row I3. A size may shrink where its extent grows: 13,825 keys are split in 28 parts, 13,824 in 54. A range of few points is
/// enumerated, a larger one has no bound but that of a ceiling which never shrinks.
#[test]
fn what_shrinks_is_enumerated() {
    assert_eq!((parts(13_824), parts(13_825)), (54, 28));
    let size = |extents: &[i64]| Ok(split_bytes(parts(extents[0])));
    let mut exprs = Exprs::default();
    let keys = symbol(&mut exprs, 13_700, 13_900);
    let bound = over_range(&exprs, &[keys], Growth::Any, size).known().unwrap();
    assert_eq!(bound, split_bytes(54));
    assert!(bound > split_bytes(parts(13_900)), "the largest extent does not need most");
    let keys = symbol(&mut exprs, 1, 1 << 20);
    let unknown = over_range(&exprs, &[keys], Growth::Any, size);
    assert!(matches!(&unknown, Bound::Unavailable(why) if why.contains("more than 512 points")), "{unknown}");
    let ceiling = |extents: &[i64]| Ok(split_bytes(((extents[0] + 255) / 256).min(108).min(128)));
    let bound = over_range(&exprs, &[keys], Growth::NeverShrinks, ceiling).known().unwrap();
    assert_eq!(bound, split_bytes(108));
    assert!((1..1 << 14).all(|k| split_bytes(parts(k * 64)) <= bound));
}

/// Row I3. Extents that depend on each other are not taken to be largest at once.
#[test]
fn dependent_extents() {
    let mut exprs = Exprs::default();
    let n = symbol(&mut exprs, 0, 100);
    let hundred = exprs.int(100);
    let rest = exprs.sub(hundred, n);
    let product = |e: &[i64]| Ok((e[0] * e[1]) as u64);
    assert_eq!(over_range(&exprs, &[n, rest], Growth::NeverShrinks, product), Bound::Known(2500));
    let n = symbol(&mut exprs, 0, 1000);
    let thousand = exprs.int(1000);
    let rest = exprs.sub(thousand, n);
    assert_eq!(over_range(&exprs, &[n, rest], Growth::NeverShrinks, product), Bound::Known(1_000_000));
}

/// Row I9. Sizes that leave the numbers are unavailable, at a point of a range as well as at its corner, and so is what they are
/// added to.
#[test]
fn overflow_is_unavailable() {
    let mut exprs = Exprs::default();
    for hi in [3, 100_000] {
        let n = symbol(&mut exprs, 1, hi);
        let size = |e: &[i64]| if e[0] == hi { Err(Fault::Extent) } else { Ok(8) };
        let bound = over_range(&exprs, &[n], Growth::NeverShrinks, size);
        assert!(matches!(bound, Bound::Unavailable(_)), "{bound}");
    }
    let both = Bound::Known(u64::MAX).plus(&Bound::Known(1));
    assert!(matches!(&both, Bound::Unavailable(_)) && both == Bound::Known(0).plus(&both), "{both}");
    assert_eq!(Bound::Known(7).plus(&Bound::Known(0)), Bound::Known(7));
    // A product of 2^63 elements on one side.
    let f32s =
        |exprs: &mut Exprs, dims: [i64; 2]| Some((DType::F32, Axes::from_slice(&dims.map(|d| exprs.int(d))).unwrap()));
    let (a, b) = (f32s(&mut exprs, [1 << 31, 1 << 32]), f32s(&mut exprs, [1 << 32, 4]));
    let out = f32s(&mut exprs, [1 << 31, 4]);
    let prim = MatMul { activation: Activation::IDENTITY, b: MatLayout::Plain }.into();
    let bound = Sizer::default().bound(&exprs, &prim, &[a, b], &[out]);
    assert_eq!(bound, Bound::Unavailable("an extent cannot be computed".to_owned()));
    let prim = Copy {}.into();
    assert_eq!(Sizer::default().bound(&exprs, &prim, &[a], &[a]), Bound::Known(0), "known to be nothing");
}

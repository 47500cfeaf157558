//! Shapes with ranges, and what is found by the data.

use super::*;
use ::plan::{Action, Primitive};

/// Whether the plan runs a primitive that `wanted` picks.
fn runs(planned: &Planned, wanted: impl Fn(&Primitive<::plan::ExprId>) -> bool) -> bool {
    planned.plan.blocks.iter().flat_map(|b| &b.steps).any(|s| match &s.action {
        Action::Run { prim, .. } => wanted(prim),
        _ => false,
    })
}

/// The usual way of exporters to write a reshape: nothing of it runs.
#[test]
fn shape_arithmetic_stays_symbolic() {
    let net = graph(
        vec![floats("x", "batch n 6")],
        vec![
            constant("i0", &[], &[0]),
            constant("i1", &[], &[1]),
            constant("axis", &[1], &[0]),
            constant("rest", &[1], &[-1]),
        ],
        vec![
            node("Shape", &["x"], &["shape"], &[]),
            node("Gather", &["shape", "i0"], &["batch"], &[]),
            node("Gather", &["shape", "i1"], &["n"], &[]),
            node("Mul", &["batch", "n"], &["rows"], &[]),
            node("Unsqueeze", &["rows", "axis"], &["rows1"], &[]),
            node("Concat", &["rows1", "rest"], &["wanted"], &[("axis", int(0))]),
            node("Reshape", &["x", "wanted"], &["flat"], &[]),
            node("Neg", &["flat"], &["y"], &[]),
        ],
        &["y"],
    );
    let planned = planned(net, &[dim("batch", 1, 3), dim("n", 2, 5)]);
    assert_eq!(planned.plan.blocks[0].steps.len(), 1);
    assert!(planned.plan.guards.is_empty());
    assert_eq!(run(&planned, &[counting(&[3, 4, 6])])[0].dims, [12, 6]);
}

#[test]
fn slices_follow_numpy_at_every_extent() {
    let far = i64::MAX;
    let cases: [(i64, i64, i64); 9] = [
        (0, far, 1),
        (1, far, 2),
        (-3, far, 1),
        (2, -1, 1),
        (-1, i64::MIN, -1),
        (-2, -100, -2),
        (4, 1, -1),
        (100, 200, 1),
        (5, 3, 1),
    ];
    for (start, end, step) in cases {
        let net = graph(
            vec![floats("x", "n")],
            vec![
                constant("s", &[1], &[start]),
                constant("e", &[1], &[end]),
                constant("a", &[1], &[-1]),
                constant("k", &[1], &[step]),
            ],
            vec![node("Slice", &["x", "s", "e", "a", "k"], &["part"], &[]), node("Neg", &["part"], &["y"], &[])],
            &["y"],
        );
        let planned = planned(net, &[dim("n", 0, 9)]);
        for n in 0..=9i64 {
            let from_front = |v: i64| if v < 0 { v.saturating_add(n) } else { v };
            let (lo, hi) = if step > 0 { (0, n) } else { (-1, n - 1) };
            let (mut at, end) = (from_front(start).clamp(lo, hi), from_front(end).clamp(lo, hi));
            let mut want = Vec::new();
            while (step > 0 && at < end) || (step < 0 && at > end) {
                want.push(-(at + 1) as f32);
                at += step;
            }
            let out = run(&planned, &[counting(&[n as usize])]);
            assert_eq!(as_f32s(&out[0]), want, "{start}:{end}:{step} of {n}");
        }
    }
}

#[test]
fn repetitions_and_padding_of_ranges() {
    let net = graph(
        vec![floats("x", "n 2")],
        vec![constant("r", &[2], &[2, 3]), constant("p", &[4], &[1, 0, -1, 2]), of_floats("nine", &[], &[9.0])],
        vec![
            node("Tile", &["x", "r"], &["tiled"], &[]),
            node("Pad", &["x", "p", "nine"], &["padded"], &[]),
            node("Split", &["x"], &["a", "b"], &[("axis", int(0)), ("num_outputs", int(2))]),
            node("Neg", &["a"], &["na"], &[]),
            node("Neg", &["b"], &["nb"], &[]),
        ],
        &["tiled", "padded", "na", "nb"],
    );
    let planned = planned(net, &[dim("n", 1, 5)]);
    for n in 1..=5usize {
        let out = run(&planned, &[counting(&[n, 2])]);
        let at = |r: usize, c: usize| (2 * r + c + 1) as f32;
        let tiled: Vec<f32> = (0..2 * n).flat_map(|r| (0..6).map(move |c| at(r % n, c % 2))).collect();
        assert_eq!(as_f32s(&out[0]), tiled);
        let padded: Vec<f32> =
            (0..n).flat_map(|r| (0..4).map(move |c| if r > 0 && c < 2 { at(r - 1, c) } else { 9.0 })).collect();
        assert_eq!((&out[1].dims[..], as_f32s(&out[1])), (&[n, 4][..], padded));
        let half = n.div_ceil(2);
        assert_eq!((out[2].dims[0], out[3].dims[0]), (half, n - half));
        assert_eq!(as_f32s(&out[3]), (2 * half..2 * n).map(|i| -((i + 1) as f32)).collect::<Vec<_>>());
    }
}

#[test]
fn ranges_and_one_hots_of_ranges() {
    let net = graph(
        vec![floats("x", "n"), info("i", ElemType::Int64, "3")],
        vec![
            constant("start", &[], &[1]),
            constant("step", &[], &[2]),
            constant("zero", &[1], &[0]),
            of_floats("values", &[2], &[0.5, 2.0]),
        ],
        vec![
            node("Size", &["x"], &["n"], &[]),
            node("Range", &["start", "n", "step"], &["odd"], &[]),
            node("OneHot", &["i", "n", "values"], &["hot"], &[]),
        ],
        &["odd", "hot"],
    );
    let planned = planned(net, &[dim("n", 1, 6)]);
    for n in 1..=6i64 {
        let picks = [0, -1, 4];
        let out = run(&planned, &[counting(&[n as usize]), i64s(&[3], &picks)]);
        assert_eq!(as_i64s(&out[0]), (1..n).step_by(2).collect::<Vec<_>>());
        let hot: Vec<f32> = picks
            .iter()
            .flat_map(|p| (0..n).map(move |c| if (if *p < 0 { p + n } else { *p }) == c { 2.0 } else { 0.5 }))
            .collect();
        assert_eq!(as_f32s(&out[1]), hot);
    }
}

/// How many there are is found by the run, and what follows goes by it.
#[test]
fn counts_that_the_data_tells() {
    let net = graph(
        vec![floats("x", "2 n"), info("keep", ElemType::Bool, "n")],
        vec![constant("last", &[1], &[1])],
        vec![
            node("Compress", &["x", "keep"], &["some"], &[("axis", int(1))]),
            node("ReduceSum", &["some", "last"], &["sums"], &[("keepdims", int(0))]),
            node("NonZero", &["keep"], &["where"], &[]),
            node("Transpose", &["where"], &["places"], &[]),
            node("Transpose", &["x"], &["columns"], &[]),
            node("GatherND", &["columns", "places"], &["again"], &[]),
        ],
        &["some", "sums", "where", "again"],
    );
    let planned = planned(net, &[dim("n", 1, 6)]);
    assert!(runs(&planned, |p| matches!(p, Primitive::Compress(_))));
    for n in 1..=6usize {
        for pattern in [0b000000usize, 0b111111, 0b101101] {
            let keep: Vec<bool> = (0..n).map(|i| pattern >> i & 1 == 1).collect();
            let at: Vec<usize> = (0..n).filter(|i| keep[*i]).collect();
            let out = run(&planned, &[counting(&[2, n]), bools(&[n], &keep)]);
            let some: Vec<f32> = (0..2).flat_map(|r| at.iter().map(move |c| (r * n + c + 1) as f32)).collect();
            assert_eq!((&out[0].dims[..], as_f32s(&out[0])), (&[2, at.len()][..], some.clone()));
            let sums: Vec<f32> = [0, 1].map(|r| some[r * at.len()..(r + 1) * at.len()].iter().sum()).to_vec();
            assert_eq!(as_f32s(&out[1]), sums);
            assert_eq!(as_i64s(&out[2]), at.iter().map(|i| *i as i64).collect::<Vec<_>>());
            let again: Vec<f32> = at.iter().flat_map(|c| [(c + 1) as f32, (n + c + 1) as f32]).collect();
            assert_eq!(as_f32s(&out[3]), again);
        }
    }
}

/// With constants, the count is one, too.
#[test]
fn counts_of_constants_are_constants() {
    let net = graph(
        vec![floats("x", "4 2")],
        vec![constant("mask", &[4], &[0, 3, 0, 5])],
        vec![
            node("NonZero", &["mask"], &["where"], &[]),
            node("Squeeze", &["where"], &["rows"], &[]),
            node("Gather", &["x", "rows"], &["y"], &[]),
        ],
        &["y"],
    );
    let planned = planned(net, &[]);
    assert!(planned.plan.symbols.is_empty());
    assert_eq!(as_f32s(&run(&planned, &[counting(&[4, 2])])[0]), [3.0, 4.0, 7.0, 8.0]);
}

/// Bits seen as another type, of something that has just been computed.
#[test]
fn bits_of_computed_values() {
    let net = graph(
        vec![floats("x", "3")],
        vec![],
        vec![node("Neg", &["x"], &["n"], &[]), node("BitCast", &["n"], &["y"], &[("to", int(6))])],
        &["y"],
    );
    let out = run(&planned(net, &[]), &[f32s(&[3], &[1.0, -2.0, 0.5])]);
    assert_eq!(out[0].dtype, DType::I32);
    let want: Vec<u8> = [-1.0f32, 2.0, -0.5].iter().flat_map(|v| v.to_bits().to_le_bytes()).collect();
    assert_eq!(out[0].bytes, want);
}

/// An extent that a step finds is kept though nobody looks at the elements; without the step, the checker refuses the plan.
#[test]
fn a_count_alone() {
    let nodes = vec![node("NonZero", &["x"], &["places"], &[]), node("Shape", &["places"], &["shape"], &[])];
    let planned = planned(graph(vec![floats("x", "4")], vec![], nodes, &["shape"]), &[]);
    assert_eq!(as_i64s(&run(&planned, &[f32s(&[4], &[0.0, 3.0, 0.0, 1.0])])[0]), [1, 2]);
    let mut plan = planned.plan;
    plan.blocks[0].steps.retain(|s| !matches!(&s.action, ::plan::Action::Run { defines, .. } if !defines.is_empty()));
    assert!(checker::check(&plan, &checker::Points::default()).is_err());
}

//! `If`, `Loop` and `Scan`.

use super::*;

fn trip_and_cond() -> Vec<ValueInfo> {
    vec![info("i", ElemType::Int64, ""), info("go", ElemType::Bool, "")]
}

fn loop_inputs(carried: &[(&str, &str)]) -> Vec<ValueInfo> {
    let mut all = trip_and_cond();
    all.extend(carried.iter().map(|(name, dims)| floats(name, dims)));
    all
}

/// A branch that only the data chooses, with results of different extents.
#[test]
fn branches_of_different_extents() {
    let narrow = graph(
        vec![],
        vec![constant("zero", &[1], &[0]), constant("two", &[1], &[2])],
        vec![node("Slice", &["x", "zero", "two", "zero"], &["part"], &[])],
        &["part"],
    );
    let wide = graph(vec![], vec![], vec![node("Concat", &["x", "x"], &["both"], &[("axis", int(0))])], &["both"]);
    let net = graph(
        vec![info("cond", ElemType::Bool, ""), floats("x", "n 2")],
        vec![constant("axis", &[1], &[0])],
        vec![
            node("If", &["cond"], &["y"], &[("then_branch", body(narrow)), ("else_branch", body(wide))]),
            node("Add", &["y", "y"], &["z"], &[]),
            node("ReduceSum", &["z", "axis"], &["sum"], &[("keepdims", int(0))]),
            node("Shape", &["z"], &["shape"], &[]),
        ],
        &["z", "sum", "shape"],
    );
    let planned = planned(net, &[dim("n", 1, 5)]);
    for n in 1..=5usize {
        for cond in [true, false] {
            let out = run(&planned, &[bools(&[], &[cond]), counting(&[n, 2])]);
            let rows = if cond { n.min(2) } else { 2 * n };
            assert_eq!(out[0].dims, [rows, 2]);
            let x: Vec<f32> = (1..=2 * n).map(|v| 2.0 * v as f32).collect();
            let want = if cond { x[..2 * rows].to_vec() } else { [x.clone(), x].concat() };
            assert_eq!(as_f32s(&out[0]), want);
            let sums = [0, 1].map(|c| want.iter().skip(c).step_by(2).sum::<f32>());
            assert_eq!(as_f32s(&out[1]), sums);
            assert_eq!(as_i64s(&out[2]), [rows as i64, 2]);
        }
    }
}

/// A branch that the extents choose: known where they decide it for the whole range, else an expression.
#[test]
fn branches_that_extents_choose() {
    let net = |limit: i64| {
        let first = graph(
            vec![],
            vec![constant("zero", &[1], &[0]), constant("one", &[1], &[1])],
            vec![node("Slice", &["x", "zero", "one"], &["part"], &[])],
            &["part"],
        );
        let whole = graph(vec![], vec![], vec![node("Neg", &["x"], &["neg"], &[])], &["neg"]);
        graph(
            vec![floats("x", "n")],
            vec![constant("limit", &[1], &[limit])],
            vec![
                node("Shape", &["x"], &["n"], &[]),
                node("Less", &["n", "limit"], &["few"], &[]),
                node("If", &["few"], &["y"], &[("then_branch", body(first)), ("else_branch", body(whole))]),
            ],
            &["y"],
        )
    };
    let all_few = planned(net(100), &[dim("n", 1, 6)]);
    assert_eq!(all_few.plan.blocks.len(), 1);
    assert_eq!(as_f32s(&run(&all_few, &[counting(&[4])])[0]), [1.0]);
    let mixed = planned(net(3), &[dim("n", 1, 6)]);
    assert_eq!(as_f32s(&run(&mixed, &[counting(&[2])])[0]), [1.0]);
    assert_eq!(as_f32s(&run(&mixed, &[counting(&[4])])[0]), [-1.0, -2.0, -3.0, -4.0]);
    assert!(mixed.plan.symbols.len() == 1, "the extent is an expression, not a symbol of the run");
}

#[test]
fn branches_of_different_ranks_are_refused() {
    let flat = graph(vec![], vec![constant("s", &[1], &[-1])], vec![node("Reshape", &["x", "s"], &["f"], &[])], &["f"]);
    let same = graph(vec![], vec![], vec![node("Identity", &["x"], &["same"], &[])], &["same"]);
    let net = graph(
        vec![info("cond", ElemType::Bool, ""), floats("x", "2 2")],
        vec![],
        vec![node("If", &["cond"], &["y"], &[("then_branch", body(flat)), ("else_branch", body(same))])],
        &["y"],
    );
    let text = try_planned(net, &[]).unwrap_err().to_string();
    assert!(text.contains("f32[4] in one branch and f32[2, 2] in the other"), "{text}");
}

/// `while sum < limit { x = 2 x; sum = Σ x }`: how often is the data's business.
#[test]
fn a_loop_that_the_data_ends() {
    let turn = graph(
        loop_inputs(&[("x", "n"), ("sum", "")]),
        vec![of_floats("hundred", &[], &[100.0])],
        vec![
            node("Add", &["x", "x"], &["next"], &[]),
            node("ReduceSum", &["next"], &["total"], &[("keepdims", int(0))]),
            node("Less", &["total", "hundred"], &["more"], &[]),
        ],
        &["more", "next", "total"],
    );
    let net = graph(
        vec![floats("x", "n")],
        vec![of_floats("zero", &[], &[0.0])],
        vec![node("Loop", &["", "", "x", "zero"], &["y", "sum"], &[("body", body(turn))])],
        &["y", "sum"],
    );
    let planned = planned(net, &[dim("n", 1, 4)]);
    for n in 1..=4usize {
        let (mut x, mut sum) = ((1..=n).map(|v| v as f32).collect::<Vec<_>>(), 0.0);
        while sum < 100.0 {
            x.iter_mut().for_each(|v| *v *= 2.0);
            sum = x.iter().sum();
        }
        let out = run(&planned, &[counting(&[n])]);
        assert_eq!((as_f32s(&out[0]), as_f32s(&out[1])), (x, vec![sum]));
    }
}

/// As many iterations as an axis is long, with stacked rows and an early end.
#[test]
fn a_loop_over_an_axis() {
    for stops in [false, true] {
        let turn = graph(
            loop_inputs(&[("a", "2")]),
            vec![constant("three", &[], &[3])],
            vec![
                node("Gather", &["x", "i"], &["row"], &[("axis", int(0))]),
                node("Add", &["a", "row"], &["next"], &[]),
                node("ReduceSum", &["next"], &["total"], &[("keepdims", int(0))]),
                node("Less", &["total", "limit"], &["more"], &[]),
                node("Identity", &["go"], &["always"], &[]),
                node("Mul", &["i", "three"], &["thrice"], &[]),
            ],
            &[if stops { "more" } else { "always" }, "next", "next", "thrice"],
        );
        let net = graph(
            vec![floats("x", "n 2"), floats("limit", "")],
            vec![of_floats("a", &[2], &[0.0, 0.0])],
            vec![
                node("Shape", &["x"], &["n"], &[("end", int(1))]),
                node("Squeeze", &["n"], &["trip"], &[]),
                node("Loop", &["trip", "", "a"], &["last", "rows", "counts"], &[("body", body(turn))]),
                node("Neg", &["rows"], &["minus"], &[]),
            ],
            &["last", "minus", "counts"],
        );
        let planned = planned(net, &[dim("n", 0, 40)]);
        for n in [0usize, 1, 2, 7, 40] {
            let limit = 30.0;
            let (mut a, mut rows) = ([0.0f32; 2], Vec::new());
            for i in 0..n {
                a = [a[0] + (2 * i + 1) as f32, a[1] + (2 * i + 2) as f32];
                rows.extend([-a[0], -a[1]]);
                if stops && a[0] + a[1] >= limit {
                    break;
                }
            }
            let out = run(&planned, &[counting(&[n, 2]), f32s(&[], &[limit])]);
            assert_eq!(as_f32s(&out[0]), a);
            assert_eq!(out[1].dims, [rows.len() / 2, 2]);
            assert_eq!(as_f32s(&out[1]), rows);
            assert_eq!(as_i64s(&out[2]), (0..rows.len() as i64 / 2).map(|i| 3 * i).collect::<Vec<_>>());
        }
    }
}

/// A body that hands on its inputs, swapped, with an outer value, a constant and what never changes.
#[test]
fn a_body_that_passes_values_through() {
    let turn = graph(
        loop_inputs(&[("a", "2"), ("b", "2"), ("c", "2"), ("d", "2")]),
        vec![of_floats("seven", &[2], &[7.0, 7.0])],
        vec![node("Identity", &["go"], &["again"], &[])],
        &["again", "b", "a", "outer", "d", "a", "seven", "outer", "i"],
    );
    let net = graph(
        vec![info("trip", ElemType::Int64, ""), floats("x", "2"), floats("y", "2"), floats("outer", "2")],
        vec![constant("cap", &[], &[9])],
        vec![
            node("Min", &["trip", "cap"], &["least"], &[]),
            node("Loop", &["least", "", "x", "y", "x", "y"], &["a", "b", "c", "d"], &[("body", body(turn))]),
        ],
        &["a", "b", "c", "d"],
    );
    // The stacked results have no bound where only the data says how often the loop runs.
    let text = try_planned(net.clone(), &[]).unwrap_err().to_string();
    assert!(text.contains("nothing bounds how often the loop runs"), "{text}");

    let mut net = net;
    net.inputs.remove(0);
    net.initializers.push(constant("trip", &[], &[3]));
    let planned = planned(net, &[]);
    let out = run(&planned, &[f32s(&[2], &[1.0, 2.0]), f32s(&[2], &[3.0, 4.0]), f32s(&[2], &[5.0, 6.0])]);
    let got: Vec<Vec<f32>> = out.iter().map(as_f32s).collect();
    assert_eq!(got, [[3.0, 4.0], [1.0, 2.0], [5.0, 6.0], [3.0, 4.0]]);
}

/// The same body where the loop stays a loop.
#[test]
fn values_swapped_in_a_loop() {
    let turn = graph(
        loop_inputs(&[("a", "2"), ("b", "2"), ("c", "2"), ("d", "2")]),
        vec![],
        vec![node("Identity", &["go"], &["again"], &[])],
        &["again", "b", "a", "outer", "d"],
    );
    let net = graph(
        vec![info("trip", ElemType::Int64, ""), floats("x", "2"), floats("y", "2"), floats("outer", "2")],
        vec![],
        vec![node("Loop", &["trip", "", "x", "y", "x", "y"], &["a", "b", "c", "d"], &[("body", body(turn))])],
        &["a", "b", "c", "d"],
    );
    let planned = planned(net, &[]);
    for trips in [0i64, 1, 2, 7] {
        let (x, y, outer) = ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]);
        let out = run(&planned, &[i64s(&[], &[trips]), f32s(&[2], &x), f32s(&[2], &y), f32s(&[2], &outer)]);
        let got: Vec<Vec<f32>> = out.iter().map(as_f32s).collect();
        let (a, b) = if trips % 2 == 0 { (x, y) } else { (y, x) };
        assert_eq!(got, [a, b, if trips > 0 { outer } else { x }, y], "{trips} iterations");
    }
}

/// A loop in a loop: the inner one runs as often as the outer one has so far.
#[test]
fn nested_loops() {
    let inner = graph(
        vec![info("j", ElemType::Int64, ""), info("go2", ElemType::Bool, ""), floats("s", "2")],
        vec![],
        vec![node("Add", &["s", "x"], &["s2"], &[]), node("Identity", &["go2"], &["again2"], &[])],
        &["again2", "s2"],
    );
    let outer = graph(
        loop_inputs(&[("a", "2")]),
        vec![],
        vec![
            node("Loop", &["i", "", "a"], &["next"], &[("body", body(inner))]),
            node("Identity", &["go"], &["again"], &[]),
        ],
        &["again", "next"],
    );
    let net = graph(
        vec![info("trip", ElemType::Int64, ""), floats("x", "2")],
        vec![],
        vec![node("Loop", &["trip", "", "x"], &["y"], &[("body", body(outer))])],
        &["y"],
    );
    let planned = planned(net, &[]);
    for trips in [0i64, 1, 2, 5] {
        let out = run(&planned, &[i64s(&[], &[trips]), f32s(&[2], &[1.0, 2.0])]);
        let times = 1.0 + (0..trips).sum::<i64>() as f32;
        assert_eq!(as_f32s(&out[0]), [times, 2.0 * times]);
    }
}

/// What grows from iteration to iteration needs a known count.
#[test]
fn a_carried_value_that_grows() {
    let turn = || {
        graph(
            loop_inputs(&[("a", "n")]),
            vec![],
            vec![
                node("Concat", &["a", "x"], &["longer"], &[("axis", int(0))]),
                node("Identity", &["go"], &["more"], &[]),
            ],
            &["more", "longer"],
        )
    };
    let net = |constants, inputs| {
        graph(inputs, constants, vec![node("Loop", &["trip", "", "x"], &["y"], &[("body", body(turn()))])], &["y"])
    };
    let planned = planned(net(vec![constant("trip", &[], &[20])], vec![floats("x", "n")]), &[dim("n", 1, 3)]);
    assert_eq!(run(&planned, &[counting(&[2])])[0].dims, [42]);
    let open = net(vec![], vec![info("trip", ElemType::Int64, ""), floats("x", "n")]);
    let text = try_planned(open, &[dim("n", 1, 3)]).unwrap_err().to_string();
    assert!(text.contains("begins as f32[n] and becomes f32[n*2]"), "{text}");
}

/// Sequences in a loop: taken apart, so the loop is written out.
#[test]
fn a_sequence_in_a_loop() {
    let turn = graph(
        vec![
            info("i", ElemType::Int64, ""),
            info("go", ElemType::Bool, ""),
            ValueInfo { name: "list".into(), ty: Type::Sequence(Box::new(Type::Unknown)) },
        ],
        vec![],
        vec![
            node("Cast", &["i"], &["f"], &[("to", int(1))]),
            node("Mul", &["x", "f"], &["part"], &[]),
            node("SequenceInsert", &["list", "part"], &["more"], &[]),
            node("Identity", &["go"], &["again"], &[]),
        ],
        &["again", "more"],
    );
    let net = graph(
        vec![floats("x", "n")],
        vec![constant("trip", &[], &[3])],
        vec![
            node("SequenceEmpty", &[], &["empty"], &[]),
            node("Loop", &["trip", "", "empty"], &["list"], &[("body", body(turn))]),
            node("ConcatFromSequence", &["list"], &["y"], &[("axis", int(0)), ("new_axis", int(1))]),
        ],
        &["y"],
    );
    let out = run(&planned(net, &[dim("n", 1, 4)]), &[counting(&[2])]);
    assert_eq!(out[0].dims, [3, 2]);
    assert_eq!(as_f32s(&out[0]), [0.0, 0.0, 1.0, 2.0, 2.0, 4.0]);
}

/// Running sums over any axis in either direction, of as many rows as there are.
#[test]
fn scans_over_axes_in_both_directions() {
    for (axis, reverse) in [(0i64, 0i64), (0, 1), (1, 0), (1, 1)] {
        let turn = graph(
            vec![floats("s", "3"), floats("row", "3")],
            vec![],
            vec![node("Add", &["s", "row"], &["sum"], &[])],
            &["sum", "sum"],
        );
        let attributes = [
            ("body", body(turn)),
            ("num_scan_inputs", int(1)),
            ("scan_input_axes", ints(&[axis])),
            ("scan_input_directions", ints(&[reverse])),
            ("scan_output_axes", ints(&[axis])),
            ("scan_output_directions", ints(&[reverse])),
        ];
        let dims = if axis == 0 { "n 3" } else { "3 n" };
        let net = graph(
            vec![floats("x", dims)],
            vec![of_floats("s", &[3], &[0.0; 3])],
            vec![node("Scan", &["s", "x"], &["last", "rows"], &attributes)],
            &["last", "rows"],
        );
        let planned = planned(net, &[dim("n", 1, 30)]);
        for n in [1usize, 2, 30] {
            let own = if axis == 0 { [n, 3] } else { [3, n] };
            let at = |r: usize, c: usize| if axis == 0 { r * 3 + c } else { c * n + r };
            let (mut sum, mut want) = ([0.0f32; 3], vec![0.0f32; 3 * n]);
            for k in 0..n {
                let r = if reverse == 1 { n - 1 - k } else { k };
                for (c, s) in sum.iter_mut().enumerate() {
                    *s += (at(r, c) + 1) as f32;
                    want[at(r, c)] = *s;
                }
            }
            let out = run(&planned, &[counting(&own)]);
            assert_eq!(as_f32s(&out[0]), sum);
            assert_eq!(
                (&out[1].dims[..], as_f32s(&out[1])),
                (&own[..], want),
                "axis {axis}, reverse {reverse}, {n} rows"
            );
        }
    }
}

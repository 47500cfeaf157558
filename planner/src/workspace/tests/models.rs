//! Plans of models: capacities over ranges, requests, refusals.

use crate::onnx::{Attribute, Graph, Model, Node, Tensor, ValueInfo};
use crate::ops::nets::{Data, counting, dim, floats, graph, int, ints, node, of_floats, planned, try_planned};
use crate::workspace::{Bound, requests};
use crate::{DimOption, ErrorKind, Options, Planned};
use plan::{Class, SymbolId};
use runtime::interpret::{Interpreter, Mode};

fn numbers(name: &str, dims: &[i64]) -> Tensor {
    let count = dims.iter().product::<i64>();
    of_floats(name, dims, &(0..count).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>())
}

fn one(inputs: Vec<ValueInfo>, constants: Vec<Tensor>, op: Node) -> Graph {
    let output = op.outputs[0].clone();
    graph(inputs, constants, vec![op], &[&output])
}

fn conv(op: &str, w: &[i64], attributes: &[(&str, Attribute)]) -> Graph {
    one(vec![floats("x", "1 8 n m")], vec![numbers("w", w)], node(op, &["x", "w"], &["y"], attributes))
}

/// A model for each kernel that has workspace, over the dims `n` and `m`.
fn models() -> Vec<(&'static str, Graph)> {
    let lstm = |weights_known: bool| {
        let (w, r) = (numbers("w", &[1, 64, 8]), numbers("r", &[1, 64, 16]));
        let mut inputs = vec![floats("x", "n m 8")];
        if !weights_known {
            inputs.extend([floats("w", "1 64 8"), floats("r", "1 64 16")]);
        }
        let constants = if weights_known { vec![w, r] } else { vec![] };
        one(inputs, constants, node("LSTM", &["x", "w", "r"], &["y"], &[("hidden_size", int(16))]))
    };
    let attention = Node { opset: 23, ..node("Attention", &["q", "k", "v"], &["y"], &[]) };
    let boxes = vec![floats("boxes", "1 n 4"), floats("scores", "1 m n")];
    let most = Tensor::from_ints("most", vec![1], &[3]).unwrap();
    let (x, w) = (vec![floats("x", "n m 24")], numbers("w", &[24, 20]));
    let last = Tensor::from_ints("axis", vec![], &[1]).unwrap();
    vec![
        ("packed product", one(x, vec![w], node("MatMul", &["x", "w"], &["y"], &[]))),
        (
            "product",
            one(vec![floats("x", "n 24"), floats("w", "24 m")], vec![], node("MatMul", &["x", "w"], &["y"], &[])),
        ),
        ("convolution", conv("Conv", &[16, 8, 3, 3], &[("strides", ints(&[2, 2])), ("pads", ints(&[1; 4]))])),
        ("convolution by transforms", conv("Conv", &[32, 8, 3, 3], &[("pads", ints(&[1; 4]))])),
        ("depthwise convolution", conv("Conv", &[8, 1, 3, 3], &[("group", int(8)), ("pads", ints(&[1; 4]))])),
        ("transposed convolution", conv("ConvTranspose", &[8, 6, 3, 3], &[("strides", ints(&[2, 2]))])),
        ("packed LSTM", lstm(true)),
        ("LSTM", lstm(false)),
        (
            "attention",
            one(vec![floats("q", "1 2 n 8"), floats("k", "1 2 m 8"), floats("v", "1 2 m 8")], vec![], attention),
        ),
        ("unique", one(vec![floats("x", "n m")], vec![], node("Unique", &["x"], &["y"], &[]))),
        ("boxes", one(boxes, vec![most], node("NonMaxSuppression", &["boxes", "scores", "most"], &["y"], &[]))),
        ("transform", one(vec![floats("x", "n m 1")], vec![last], node("DFT", &["x", "", "axis"], &["y"], &[]))),
        ("determinant", one(vec![floats("x", "m n n")], vec![], node("Det", &["x"], &["y"], &[]))),
    ]
}

/// The requests of a plan where its dims have these values, in the order of the symbols.
fn at(planned: &Planned, values: &[i64]) -> Vec<crate::workspace::Request> {
    let symbols = &planned.plan.symbols;
    let value = |s: SymbolId| Some(values.get(s.index()).copied().unwrap_or_else(|| symbols[s.index()].hi));
    requests(&planned.plan, value)
}

/// Rows I1 and I3. For every kernel that has workspace, and at any extents of the range, its request is within the plan's capacity,
/// and the capacity is what was reserved or less; over ranges that are enumerated as well as over larger ones.
#[test]
fn requests_are_within_capacities() {
    let mut seed = 1u64;
    let mut random = move |n: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) as i64) % n
    };
    for (name, graph) in models() {
        for (n, m) in [((3, 60), (3, 50)), ((3, 18), (3, 18)), ((40, 40), (3, 40)), ((3, 700), (5, 5))] {
            // Each value of the ranges, if they are ranges.
            let planned = planned(graph.clone(), &[dim("n", n.0, n.1), dim("m", m.0, m.1)]);
            let names: Vec<&str> = planned.plan.symbols.iter().map(|s| &*s.name).collect();
            let (mut most, mut capacity) = (0, 0);
            for _ in 0..200 {
                let value = |s: &&str| match *s {
                    "n" => n.0 + random(n.1 - n.0 + 1),
                    "m" => m.0 + random(m.1 - m.0 + 1),
                    _ => i64::MAX,
                };
                let values: Vec<i64> = names.iter().map(value).take_while(|v| *v < i64::MAX).collect();
                for r in at(&planned, &values) {
                    let request = r.request.known().unwrap_or_else(|| panic!("{name}: {}", r.request));
                    assert!(request <= r.capacity, "{name} at {values:?}: {request} of {}", r.capacity);
                    (most, capacity) = (most.max(request), r.capacity);
                }
            }
            assert!(most > 0 && capacity > 0, "{name}");
            let highest: Vec<i64> = planned.plan.symbols.iter().map(|s| s.hi).collect();
            assert!(
                at(&planned, &highest).iter().all(|r| r.request == Bound::Known(r.capacity)),
                "{name}: none is idle"
            );
            let counts = planned.workspace.counts;
            assert_eq!((counts.larger.nodes, counts.missing.nodes, counts.orphan.nodes), (0, 0, 0), "{name}");
            assert_eq!(counts.equal.nodes + counts.smaller.nodes, 1, "{name}");
        }
    }
}

/// Row I4. A plan for one token has the capacity that one token needs, though the plan for many has much more; what admits a node,
/// what a plan holds and what a run asks for are figures of their own.
#[test]
fn bound_capacity_and_request() {
    let of = |lo: i64, hi: i64| {
        let attention = models().into_iter().find(|(name, _)| *name == "attention").unwrap().1;
        planned(attention, &[dim("n", lo, hi), dim("m", 1, 4096)])
    };
    let (decode, prefill) = (of(1, 1), of(1, 1024));
    let capacity =
        |p: &Planned| p.plan.buffers.iter().filter(|b| b.class == Class::Work).map(|b| b.max_bytes).sum::<u64>();
    let (small, large) = (capacity(&decode), capacity(&prefill));
    assert!(small * 4 < large, "{small} {large}");
    assert_eq!(decode.workspace.bound(), Bound::Known(small));
    assert_eq!(prefill.workspace.bound(), Bound::Known(large));
    let names: Vec<&str> = prefill.plan.symbols.iter().map(|s| &*s.name).collect();
    let request = |n: i64, m: i64| {
        let values: Vec<i64> = names.iter().map(|s| if *s == "n" { n } else { m }).collect();
        at(&prefill, &values)[0].request.known().unwrap()
    };
    assert_eq!((request(1, 4096), request(1024, 4096)), (small, large));
    assert!(request(1, 16) < small);
}

/// Row I8. A kernel that asks for more than its plan holds is refused with both figures and its step's name, in either layout of
/// memory; nothing is taken while it runs.
#[test]
fn a_request_above_the_plan_is_refused() {
    let graph = one(vec![floats("x", "1 n n")], vec![], node("Det", &["x"], &["y"], &[]));
    let planned = planned(graph, &[dim("n", 4, 4)]);
    let data = counting(&[1, 4, 4]);
    let input = || [data.view()];
    for less in [0, 1] {
        let mut plan = planned.plan.clone();
        for buffer in plan.buffers.iter_mut().filter(|b| b.class == Class::Work) {
            assert_eq!(buffer.max_bytes, 128);
            buffer.max_bytes -= less;
            let plan::Expr::Const(bytes) = &mut plan.exprs[buffer.bytes.index()] else { panic!("no number") };
            *bytes -= less as i64;
        }
        for mode in [Mode::Static, Mode::Naive] {
            let mut machine = Interpreter::with_mode(plan.clone(), planned.weights.to_vec(), mode).unwrap();
            match (machine.run(&input()), less) {
                (Ok(()), 0) => {}
                (Err(error), 1) => {
                    let text = error.to_string();
                    assert!(text.contains("workspace of 128 bytes needed, 127 given"), "{text}");
                    assert!(text.contains("Det"), "{text}");
                }
                (result, _) => panic!("{less}: {result:?}"),
            }
        }
    }
}

/// Rows E3 and I10. A node whose workspace nobody can size is refused by its name, and with the fact that is missing: 2^32 boxes,
/// which a kernel's indices of 32 bits do not number.
#[test]
fn a_workspace_that_is_not_known() {
    let boxes = || models().into_iter().find(|(name, _)| *name == "boxes").unwrap().1;
    for strict_workspace in [true, false] {
        let (graph, dims) = (boxes(), vec![dim("n", 1, 1 << 32), dim("m", 1, 1)]);
        let model = Model { ir_version: 10, opsets: [(String::new(), 21)].into(), graph, ..Model::default() };
        let error = crate::plan(model, &Options { dims, strict_workspace, ..Options::default() }).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("NonMaxSuppression") && text.contains("more than 2^32 - 1 boxes"), "{text}");
    }
    assert!(try_planned(boxes(), &[dim("n", 1, (1 << 32) - 1), dim("m", 1, 1)]).is_ok());
}

/// Row I10. Values that no range may have are refused where the plan is made; a dim without any has no plan; and a run outside its
/// range is refused at its entry.
#[test]
fn values_outside_the_range() {
    let model = || models().swap_remove(1).1;
    let both = |option: DimOption| [option, dim("m", 1, 4)];
    let cases: [(i64, i64, i64); 7] =
        [(-1, 4, 1), (i64::MIN, 4, 1), (5, 4, 1), (1, 4, 0), (1, 4, -1), (1, -1, 1), (i64::MIN, i64::MAX, i64::MIN)];
    for (lo, hi, step) in cases {
        let error = try_planned(model(), &both(DimOption { step, ..dim("n", lo, hi) })).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Options, "{lo}..={hi}/{step}: {error}");
        assert!(error.to_string().contains(&format!("{lo}..={hi}/{step}")), "{error}");
    }
    for (lo, hi) in [(1, i64::MAX), (1, 1 << 62), (1 << 61, 1 << 61)] {
        let error = try_planned(model(), &both(dim("n", lo, hi))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{lo}..={hi}: {error}");
    }
    assert_eq!(try_planned(model(), &[dim("m", 1, 4)]).unwrap_err().kind(), ErrorKind::Options);
    let planned = planned(model(), &both(DimOption { step: 2, ..dim("n", 2, 6) }));
    let mut machine = Interpreter::with_mode(planned.plan.clone(), planned.weights.to_vec(), Mode::Static).unwrap();
    let mut run = |n: usize, m: usize| {
        let (x, w) = (counting(&[n, 24]), counting(&[24, m]));
        machine.run(&[&x, &w].map(Data::view))
    };
    for (n, m) in [(2, 1), (6, 4)] {
        run(n, m).unwrap();
    }
    for (n, m) in [(0, 1), (1, 1), (3, 1), (8, 1), (2, 0), (2, 5)] {
        let error = run(n, m).unwrap_err();
        let (name, found) = if n % 2 == 0 && (2..=6).contains(&n) { ("m", m) } else { ("n", n) };
        let told = matches!(error.kind(), runtime::ErrorKind::EnvelopeViolation { symbol, value, .. }
            if &**symbol == name && *value == found as i64);
        assert!(told, "{n} {m}: {error}");
    }
}

/// Row I9. Every workspace starts at the plan's alignment and is charged at it, whatever its size.
#[test]
fn workspaces_are_aligned() {
    for align in [64, 256, 4096] {
        for (name, graph) in models() {
            let model = Model { ir_version: 10, opsets: [(String::new(), 21)].into(), graph, ..Model::default() };
            let dims = vec![dim("n", 3, 9), dim("m", 3, 9)];
            let planned = crate::plan(model, &Options { dims, align, ..Options::default() }).unwrap();
            let plan = &planned.plan;
            let mut sum = 0;
            for b in plan.buffers.iter().filter(|b| matches!(b.class, Class::Act | Class::Work)) {
                assert_eq!(b.offset % align, 0, "{name}: {}", b.name);
                let end = b.offset + b.max_bytes.next_multiple_of(align);
                assert!(end <= plan.arena_bytes, "{name}: {} ends at {end}", b.name);
                sum += b.max_bytes.next_multiple_of(align);
            }
            assert!(
                plan.certificate.naive_bytes.is_multiple_of(align) && plan.certificate.naive_bytes >= sum,
                "{name}"
            );
            assert_eq!(plan.arena_bytes % align, 0);
        }
    }
}

//! Ranges of dims: what bounds them, what is checked before a run, and what memory is for.

mod common;
#[path = "devices/kit.rs"]
#[allow(dead_code)]
mod kit;
#[path = "common/onnx.rs"]
mod onnx;

use kit::*;
use onnx::{F32, Graph, I64, Node};
use plan::{SymbolId, evaluate_all};
use planner::memory::formula::Formula;
use runtime::ErrorKind;

/// Two free dims in everything: a product, a normalisation, a concatenation of both.
fn two_dims() -> Graph {
    Graph::new()
        .input("x", F32, &["n", "m"])
        .input("y", F32, &["n", "4"])
        .node(Node::new("Softmax", &["x"], &["a"]))
        .node(Node::new("Softmax", &["y"], &["b"]))
        .node(Node::new("Transpose", &["a"], &["t"]).ints("perm", &[1, 0]))
        .node(Node::new("MatMul", &["t", "b"], &["p"]))
        .node(Node::new("Softmax", &["p"], &["q"]))
        .node(Node::new("MatMul", &["a", "q"], &["r"]))
        .node(Node::new("Concat", &["r", "b"], &["z"]).int("axis", 1))
        .output("z", F32, &["n", "8"])
}

/// Row J1. A dim without a value or with only a lower bound is refused; a run outside the range is refused by name, value and
/// bounds, before anything is taken.
#[test]
fn ranges_have_two_ends_and_are_checked_first() {
    let path = common::scratch("ranges").join("model.onnx");
    std::fs::write(&path, lookup().model()).unwrap();
    let report = |dim: &[&str]| {
        let mut args = vec!["report".into(), path.clone().into_os_string()];
        args.extend(dim.iter().map(Into::into));
        common::planner(args)
    };
    let (code, _, err) = report(&[]);
    assert!(code == 1 && err.contains("--dim n="), "{err}");
    for open in ["n=2..", "n=2..=", "n=..=9", "n="] {
        let (code, _, err) = report(&["--dim", open]);
        assert!(code == 2 && err.contains(open), "{open}: {code} {err}");
    }
    assert_eq!(report(&["--dim", "n=2..=9"]).0, 0);
    let case = Case::new("ranges", &lookup(), &[("n", 2, 9)], &[]);
    let device = device();
    let (mut eager, mut fixed) = (case.eager(&device), case.fixed(&device));
    let before = device.counted();
    for n in [1usize, 10] {
        let inputs = [Data::ramp(&[n, 4], n), Data::ints(&[3], &[0, 0, 0])];
        let wanted = ErrorKind::EnvelopeViolation { symbol: "n".into(), value: n as i64, lo: 2, hi: 9, step: 1 };
        for error in [eager.run(&views(&inputs)).unwrap_err(), fixed.run(&views(&inputs)).unwrap_err()] {
            assert_eq!(error.kind(), &wanted);
        }
    }
    assert_eq!((device.counted().allocs, device.counted().frees), (before.allocs, before.frees));
    for n in [2usize, 9] {
        let inputs = [Data::ramp(&[n, 4], n), Data::ints(&[3], &[0, 1, 0])];
        eager.run(&views(&inputs)).unwrap();
        fixed.run(&views(&inputs)).unwrap();
    }
}

/// Row J2. The capacity of every buffer is enough for every extent of the range, also where a size does not grow with it.
#[test]
fn capacities_hold_at_every_extent() {
    let slice = |starts: &str, ends: &str| {
        Graph::new()
            .input("x", F32, &["n", "3"])
            .input("w", F32, &["24", "3"])
            .ints("zero", &[1], &[0])
            .ints("two", &[1], &[2])
            .ints("last", &[1], &[i64::MAX])
            .ints("five", &[1], &[-5])
            .ints("seven", &[1], &[-7])
            .node(Node::new("Shape", &["x"], &["shape"]))
            .node(Node::new("Slice", &["shape", "zero", "one", "zero"], &["n_"]))
            .ints("one", &[1], &[1])
            .node(Node::new("Mul", &["n_", "two"], &["double"]))
            .node(Node::new("Neg", &["n_"], &["back"]))
            .node(Node::new("Slice", &["x", "five", "last", "zero"], &["tail"]))
            .node(Node::new("Slice", &["w", starts, ends, "zero"], &["part"]))
            .node(Node::new("Softmax", &["part"], &["y"]))
            .node(Node::new("Softmax", &["tail"], &["z"]))
            .output("y", F32, &["k", "3"])
            .output("z", F32, &["j", "3"])
    };
    // From the n-th row on, from the n-th of the end on, from the n-th to the 2n-th, without the last n.
    for (i, (starts, ends)) in [("n_", "last"), ("back", "last"), ("n_", "double"), ("zero", "back"), ("seven", "last")]
        .into_iter()
        .enumerate()
    {
        let case = Case::new(&format!("slices-{i}"), &slice(starts, ends), &[("n", 0, 30)], &[]);
        let mut most = vec![0i64; case.plan.buffers.len()];
        for n in 0..=30usize {
            let values = evaluate_all(&case.plan.exprs, |_| Some(n as i64));
            for (buffer, most) in case.plan.buffers.iter().zip(&mut most) {
                *most = values[buffer.bytes.index()].unwrap().max(*most);
            }
            case.differential(&[vec![Data::ramp(&[n, 3], n), Data::ramp(&[24, 3], 1)]]);
        }
        for (buffer, most) in case.plan.buffers.iter().zip(most) {
            assert!(buffer.max_bytes as i64 >= most, "{starts}..{ends}: {} has {most}", buffer.name);
        }
    }
}

/// Row J4. Dims that must be equal are looked at before a run, by their names and values.
#[test]
fn relations_of_dims_are_checked_first() {
    let graph = Graph::new()
        .input("x", F32, &["queries", "4"])
        .input("y", F32, &["keys", "4"])
        .node(Node::new("Add", &["x", "y"], &["s"]))
        .node(Node::new("Softmax", &["s"], &["z"]))
        .output("z", F32, &["queries", "4"]);
    let case = Case::new("relations", &graph, &[("queries", 2, 9), ("keys", 2, 9)], &[]);
    assert!(!case.plan.guards.is_empty());
    let device = device();
    let (mut eager, mut fixed) = (case.eager(&device), case.fixed(&device));
    let taken = device.counted().allocs;
    let inputs = [Data::ramp(&[3, 4], 1), Data::ramp(&[5, 4], 2)];
    for error in [eager.run(&views(&inputs)).unwrap_err(), fixed.run(&views(&inputs)).unwrap_err()] {
        let ErrorKind::Guard { left, right, .. } = error.kind() else { panic!("{error}") };
        assert_eq!((*left.min(right), *left.max(right)), (3, 5));
    }
    assert_eq!(device.counted().allocs, taken);
    let inputs = [Data::ramp(&[5, 4], 1), Data::ramp(&[5, 4], 2)];
    eager.run(&views(&inputs)).unwrap();
    fixed.run(&views(&inputs)).unwrap();
}

/// Row J5. Nothing is longer than its place: a longer input or state is an error, and the device's red zones stay whole.
#[test]
fn nothing_grows_past_its_capacity() {
    let case = Case::new("capacity", &two_dims(), &[("n", 1, 6), ("m", 1, 5)], &[]);
    let device = device();
    let mut exec = case.fixed(&device);
    for (n, m) in [(7, 5), (6, 6), (600, 5)] {
        let inputs = [Data::ramp(&[n, m], 1), Data::ramp(&[n, 4], 2)];
        assert!(matches!(exec.run(&views(&inputs)).unwrap_err().kind(), ErrorKind::EnvelopeViolation { .. }));
    }
    let inputs = vec![Data::ramp(&[6, 5], 1), Data::ramp(&[6, 4], 2)];
    exec.run(&views(&inputs)).unwrap();
    assert_eq!(vec![fixed_outputs(&exec)], case.reference(&[inputs]));
    let sum = Case::new("capacity-sum", &running_sum(), &[], &[("sum", "next")]);
    let mut exec = sum.fixed(&device);
    assert!(exec.set_state(0, &[0; 20]).is_err());
    exec.set_state(0, &[0; 16]).unwrap();
    assert_eq!(device.violations(), Vec::<String>::new());
}

/// Row J6. The formula of the peak gives, at 50 points, what a device measures; and the report has it with its corners.
#[test]
fn the_peak_is_a_formula() {
    let (most_n, most_m) = (40, 60);
    let case = Case::new("formula", &two_dims(), &[("n", 1, most_n), ("m", 1, most_m)], &[]);
    let formula = Formula::of(&case.plan).unwrap();
    let names: Vec<&str> = case.plan.symbols.iter().map(|s| &*s.name).collect();
    let (mut state, mut peaks) = (1u64, std::collections::BTreeSet::new());
    let mut below = |n: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % n
    };
    for _ in 0..50 {
        let (n, m) = (1 + below(most_n), 1 + below(most_m));
        let value = |s: SymbolId| Some(if names[s.index()] == "n" { n } else { m });
        let device = device();
        let inputs = [Data::ramp(&[n as usize, m as usize], 1), Data::ramp(&[n as usize, 4], 2)];
        case.eager(&device).run(&views(&inputs)).unwrap();
        let peak = device.counted().run_peak;
        assert_eq!(formula.bytes(&case.plan, value), Some(peak), "n = {n}, m = {m}");
        peaks.insert(peak);
    }
    assert!(peaks.len() > 5, "the peak depends on the dims: {peaks:?}");
    let path = common::scratch("formula").join("model.onnx");
    std::fs::write(&path, two_dims().model()).unwrap();
    let args = ["report", path.to_str().unwrap(), "--json", "--dim", "n=1..=40", "--dim", "m=1..=60"];
    let (_, out, err) = common::planner(args);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {err}"));
    let found = &report["eager_peak_formula"];
    let text = found["bytes"].as_str().unwrap();
    assert!(text.contains("up(") && text.contains('n') && text.contains('m'), "{text}");
    let corners = found["corners"].as_array().unwrap();
    assert_eq!(corners.len(), 4);
    let largest = corners.iter().find(|c| c["at"]["n"] == 40 && c["at"]["m"] == 60).unwrap();
    assert_eq!(largest["bytes"], report["eager_peak_bytes"]);
}

/// Row J7. No rows at all and tensors without dims are nothing special, on every executor.
#[test]
fn empty_batches_and_scalars() {
    let case = Case::new("empty", &two_dims(), &[("n", 0, 3), ("m", 1, 5)], &[]);
    let inputs = |n: usize| vec![Data::ramp(&[n, 5], 1), Data::ramp(&[n, 4], 2)];
    let found = case.differential(&[inputs(0), inputs(3), inputs(0)]);
    assert_eq!(found.failed, 0);
    assert_eq!(case.reference(&[inputs(0)])[0][0].dims, [0, 8]);
    let scalars = Graph::new()
        .input("x", F32, &[])
        .input("i", I64, &[])
        .node(Node::new("Exp", &["x"], &["e"]))
        .node(Node::new("Cast", &["i"], &["f"]).int("to", F32))
        .node(Node::new("Pow", &["e", "f"], &["y"]))
        .output("y", F32, &[]);
    let case = Case::new("scalars", &scalars, &[], &[]);
    let inputs = vec![Data::floats(&[], &[2.0]), Data::ints(&[], &[3])];
    assert_eq!(case.differential(std::slice::from_ref(&inputs)).failed, 0);
    assert_eq!(case.reference(&[inputs])[0][0].dims, [0usize; 0]);
}

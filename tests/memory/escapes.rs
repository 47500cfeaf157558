//! Outputs that are views, memory that is the caller's or the model's, and what kernels cannot read as it lies.

use crate::common;
use crate::kit::*;
use crate::onnx::{F32, Graph, I64, Node};
use plan::{Action, Class, Primitive};
use runtime::device::{Device, MemoryClass, Pointer, Span};
use runtime::interpret::{Interpreter, Mode, OutputTensor};
use runtime::sim::SimDevice;

fn floats(tensor: &OutputTensor) -> Vec<f32> {
    tensor.bytes.chunks(4).map(|c| f32::from_ne_bytes(c.try_into().unwrap())).collect()
}

/// Row B3. A view of an input, a part of a weight, one tensor twice, and a view with its root: all hold what they should after the
/// caller overwrote its inputs, and after a second run.
#[test]
fn outputs_that_are_views() {
    let weights: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let graph = Graph::new()
        .input("x", F32, &["3", "4"])
        .floats("w", &[4, 4], &weights)
        .ints("flat", &[1], &[12])
        .ints("one", &[1], &[1])
        .ints("three", &[1], &[3])
        .node(Node::new("Reshape", &["x", "flat"], &["seen"]))
        .node(Node::new("Slice", &["w", "one", "three"], &["rows"]))
        .node(Node::new("Relu", &["x"], &["y"]))
        .node(Node::new("Identity", &["y"], &["again"]))
        .node(Node::new("Reshape", &["y", "flat"], &["view"]))
        .output("seen", F32, &["12"])
        .output("rows", F32, &["2", "4"])
        .output("y", F32, &["3", "4"])
        .output("again", F32, &["3", "4"])
        .output("view", F32, &["12"]);
    let case = Case::new("views", &graph, &[], &[]);
    let class = |p: &plan::Port| case.plan.buffers[case.plan.values[p.value.index()].place.buffer.index()].class;
    assert!(case.plan.outputs.iter().all(|p| class(p) != Class::Input), "an input is copied, not handed on");
    for mode in [Mode::Static, Mode::Eager, Mode::Naive] {
        let mut exec = Interpreter::with_mode((*case.plan).clone(), case.weights.clone(), mode).unwrap();
        for seed in [1, 2] {
            let mut x = Data::ramp(&[3, 4], seed);
            exec.run(&views(std::slice::from_ref(&x))).unwrap();
            let given: Vec<f32> = x.bytes.chunks(4).map(|c| f32::from_ne_bytes(c.try_into().unwrap())).collect();
            x.bytes.fill(0xff);
            let relu: Vec<f32> = given.iter().map(|v| v.max(0.0)).collect();
            let left: Vec<Vec<f32>> = (0..5).map(|i| floats(&exec.output(i).unwrap())).collect();
            assert_eq!(left, [given, weights[4..12].to_vec(), relu.clone(), relu.clone(), relu], "{mode:?}");
        }
    }
    case.differential(&[1, 1, 1].map(|s| vec![Data::ramp(&[3, 4], s)]));
    case.differential(&[1, 2, 3].map(|s| vec![Data::ramp(&[3, 4], s)]));
}

/// Row B5. A sequence of 32 and then one of 1 on the same executor: no size is taken for another, and the inputs stay as they were.
#[test]
fn another_length_is_no_alias() {
    let graph = Graph::new()
        .input("x", F32, &["seq", "8"])
        .input("past", F32, &["seq", "8"])
        .floats("w", &[8, 8], &[0.25; 64])
        .ints("split", &[3], &[-1, 2, 4])
        .node(Node::new("Reshape", &["x", "split"], &["heads"]))
        .node(Node::new("Transpose", &["heads"], &["turned"]).ints("perm", &[1, 0, 2]))
        .node(Node::new("Softmax", &["turned"], &["soft"]))
        .node(Node::new("MatMul", &["past", "w"], &["p"]))
        .node(Node::new("Add", &["p", "x"], &["y"]))
        .output("soft", F32, &["2", "seq", "4"])
        .output("y", F32, &["seq", "8"]);
    let case = Case::new("lengths", &graph, &[("seq", 1, 32)], &[]);
    let runs: Vec<Vec<Data>> =
        [32, 1, 32].map(|n| vec![Data::ramp(&[n, 8], n), Data::ramp(&[n, 8], n + 1)]).into_iter().collect();
    let before: Vec<Vec<u8>> = runs.iter().flatten().map(|d| d.bytes.clone()).collect();
    let done = case.differential(&runs);
    assert_eq!(done.failed, 0);
    assert_eq!(runs.iter().flatten().map(|d| d.bytes.clone()).collect::<Vec<_>>(), before);
}

/// The steps that copy, in all blocks.
fn copies(case: &Case) -> Vec<&plan::Step> {
    let steps = case.plan.blocks.iter().flat_map(|b| &b.steps);
    steps.filter(|s| matches!(s.action, Action::Run { prim: Primitive::Copy(_), .. })).collect()
}

/// Row B7. A product reads a slice as it lies. A softmax does not: a step of the plan copies it into a buffer of the plan, and
/// nothing else is taken.
#[test]
fn what_must_be_contiguous_is_copied_by_the_plan() {
    let slice = |operator: Node| {
        Graph::new()
            .input("x", F32, &["8", "32"])
            .floats("w", &[16, 4], &[0.125; 64])
            .ints("from", &[1], &[8])
            .ints("to", &[1], &[24])
            .ints("axis", &[1], &[1])
            .node(Node::new("Exp", &["x"], &["e"]))
            .node(Node::new("Slice", &["e", "from", "to", "axis"], &["part"]))
            .node(operator)
            .output("y", F32, &["8", "n"])
    };
    let product = Case::new("strided", &slice(Node::new("MatMul", &["part", "w"], &["y"])), &[], &[]);
    assert_eq!(copies(&product).len(), 0);
    let soft = Case::new("copied", &slice(Node::new("Softmax", &["part"], &["y"])), &[], &[]);
    let copied = copies(&soft);
    let [step] = copied[..] else { panic!("{copied:?}") };
    let Action::Run { writes, .. } = &step.action else { unreachable!() };
    let target = &soft.plan.values[writes[0].unwrap().index()];
    let buffer = &soft.plan.buffers[target.place.buffer.index()];
    assert_eq!((buffer.class, buffer.max_bytes), (Class::Act, 8 * 16 * 4));
    assert_eq!(soft.plan.certificate.naive_bytes, 8 * 32 * 4 + 2 * 8 * 16 * 4);
    for case in [&product, &soft] {
        let device = device();
        let mut exec = case.eager(&device);
        let inputs = [Data::ramp(&[8, 32], 1)];
        exec.run(&views(&inputs)).unwrap();
        let before = device.counted();
        exec.run(&views(&inputs)).unwrap();
        let after = device.counted();
        let planned = case.plan.buffers.iter().filter(|b| b.eager.is_some()).count() as u64;
        assert_eq!(after.allocs - before.allocs, planned + 1, "the plan's buffers and the input");
        assert_eq!(after.frees - before.frees, after.allocs - before.allocs);
        case.differential(&[1, 2, 3].map(|s| vec![Data::ramp(&[8, 32], s)]));
    }
}

/// What lies in the memory that runs do not own, as the launches of the last traced run name it.
fn contents(device: &SimDevice, class: MemoryClass) -> Vec<Vec<u8>> {
    let args: Vec<(u64, usize, u64)> = device.trace().into_iter().flat_map(|t| t.args).collect();
    let records = device.living().into_iter().filter(|r| r.class == class);
    let read = |r: runtime::sim::Record| {
        let within = |a: &&(u64, usize, u64)| a.0 >= r.address && a.0 < r.address + r.bytes as u64;
        let (_, _, generation) = *args.iter().find(within).expect("a launch uses it");
        let mut bytes = vec![0; r.bytes];
        let pointer = Pointer { device: 0, address: r.address, generation };
        device.read(Span { pointer, bytes: r.bytes }, &mut bytes).unwrap();
        bytes
    };
    records.map(read).collect()
}

/// Row A7. Runs leave the weights as they are, and a state too where they fail; neither is ever given back.
#[test]
fn what_is_not_the_runs_stays() {
    let graph = Graph::new()
        .input("x", F32, &["4"])
        .input("i", I64, &["1"])
        .input("kept", F32, &["4"])
        .floats("w", &[4, 4], &[0.5; 16])
        .node(Node::new("MatMul", &["x", "w"], &["p"]))
        .node(Node::new("Add", &["p", "kept"], &["next"]))
        .node(Node::new("Gather", &["next", "i"], &["y"]))
        .output("y", F32, &["1"])
        .output("next", F32, &["4"]);
    let case = Case::new("kept", &graph, &[], &[("kept", "next")]);
    let owned = case.plan.buffers.iter().filter(|b| matches!(b.class, Class::Const | Class::Input | Class::Persist));
    assert!(owned.clone().count() >= 4 && owned.clone().all(|b| b.eager.is_none()));
    let device = device();
    let mut exec = case.eager(&device);
    let inputs = |i: i64| [Data::ramp(&[4], 1), Data::ints(&[1], &[i])];
    let mut after = |i: i64| {
        device.trace();
        let ran = exec.run(&views(&inputs(i)));
        let weights = contents(&device, MemoryClass::Const);
        (ran.is_ok(), weights, exec.state(0).unwrap().bytes)
    };
    let (first, second, failed, last) = (after(1), after(2), after(9), after(0));
    assert_eq!([first.0, second.0, failed.0, last.0], [true, true, false, true]);
    assert!(!first.1.is_empty() && [&second.1, &failed.1, &last.1].iter().all(|w| **w == first.1));
    // An index beyond the tensor: the run fails after the next value is there, and the state is not it.
    assert_eq!(failed.2, second.2);
    assert!(first.2 != second.2 && last.2 != second.2);
    let live = |class| device.counted().live(class);
    assert!(live(MemoryClass::Const) > 0 && live(MemoryClass::Persist) > 0, "neither was given back");
    case.differential(&[1, 9, 2].map(|i| inputs(i).to_vec()));
}

/// Row A9. Of what is not there no size is told, and lengths 8, 4, 8 read nothing that an earlier run left.
#[test]
fn nothing_is_told_of_what_is_not_there() {
    let graph = Graph::new()
        .input("x", F32, &["n", "4"])
        .input("i", I64, &["1"])
        .node(Node::new("Exp", &["x"], &["e"]))
        .node(Node::new("Gather", &["e", "i"], &["row"]))
        .node(Node::new("Add", &["e", "row"], &["y"]))
        .output("y", F32, &["n", "4"]);
    let case = Case::new("empty", &graph, &[("n", 1, 8)], &[]);
    let device = device();
    let (mut eager, mut fixed) = (case.eager(&device), case.fixed(&device));
    assert!(eager.output(0).is_err() && fixed.output(0).is_err(), "no run has left anything");
    let inputs = |n: usize, i: i64| vec![Data::ramp(&[n, 4], n), Data::ints(&[1], &[i])];
    eager.run(&views(&inputs(8, 7))).unwrap();
    fixed.run(&views(&inputs(8, 7))).unwrap();
    assert_eq!((eager.output(0).unwrap().dims, fixed.output(0).unwrap().dims), (vec![8, 4], vec![8, 4]));
    assert!(eager.run(&views(&inputs(4, 7))).is_err() && fixed.run(&views(&inputs(4, 7))).is_err());
    assert!(eager.output(0).is_err() && fixed.output(0).is_err(), "the run that failed has left nothing");
    case.differential(&[(8, 7), (4, 3), (8, 0)].map(|(n, i)| inputs(n, i)));
}

/// Row B2. The report says what giving memory back in time saves, and until when each tensor is held.
#[test]
fn the_report_tells_what_is_pinned() {
    let path = common::scratch("pinned").join("model.onnx");
    let graph = Graph::new()
        .input("x", F32, &["64"])
        .ints("square", &[2], &[8, 8])
        .node(Node::new("Softmax", &["x"], &["a"]).name("first"))
        .node(Node::new("Reshape", &["a", "square"], &["v"]))
        .node(Node::new("Softmax", &["a"], &["q"]).name("second"))
        .node(Node::new("MatMul", &["v", "v"], &["m"]).name("product"))
        .node(Node::new("Reshape", &["q", "square"], &["r"]))
        .node(Node::new("Add", &["m", "r"], &["y"]))
        .output("y", F32, &["8", "8"]);
    std::fs::write(&path, graph.model()).unwrap();
    let (code, out, err) = common::planner([std::ffi::OsStr::new("report"), path.as_os_str()]);
    assert_eq!(code, 0, "{err}");
    let saved = out.lines().find(|l| l.contains("exact alias release saves")).unwrap_or_else(|| panic!("{out}"));
    assert!(saved.contains("bytes over monotone pinning"), "{saved}");
    assert!(out.contains("a (activation) (for v, until y)"), "{out}");
    let (_, json, _) = common::planner([std::ffi::OsStr::new("report"), path.as_os_str(), "--json".as_ref()]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["exact_release_saves_bytes"].as_u64().unwrap() >= 256, "{json}");
    let top = json["top"].as_array().unwrap();
    let a = top.iter().find(|b| b["name"] == "a").unwrap_or_else(|| panic!("{json:#}"));
    assert_eq!((&a["pinned_by"][0], &a["held_until"]), (&"v".into(), &"y".into()));
}

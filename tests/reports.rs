//! What reports say, and that they change nothing.

mod common;
#[path = "devices/kit.rs"]
#[allow(dead_code)]
mod kit;
#[path = "common/onnx.rs"]
mod onnx;

use kit::*;
use onnx::{F32, Graph, Node};
use runtime::device::{Device, MemoryClass};
use runtime::sim::{SimDevice, SimOptions};
use std::path::{Path, PathBuf};

fn write(name: &str, graph: &Graph) -> PathBuf {
    let path = common::scratch(name).join("model.onnx");
    std::fs::write(&path, graph.model()).unwrap();
    path
}

fn report(path: &Path, options: &[&str]) -> serde_json::Value {
    let (code, out, err) = common::planner([&["report", path.to_str().unwrap(), "--json"], options].concat());
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

/// A chain of four steps on f32[64] that do not become one.
fn chain() -> Graph {
    let mut graph = Graph::new().input("x", F32, &["4", "16"]);
    for (i, (from, to)) in [("x", "a"), ("a", "b"), ("b", "c"), ("c", "y")].into_iter().enumerate() {
        graph = graph.node(Node::new(if i % 2 == 0 { "Softmax" } else { "LogSoftmax" }, &[from], &[to]));
    }
    graph.output("y", F32, &["4", "16"])
}

/// Row K1. Both peaks, the bound, the arena and what is live at the peak; and a device measures what the report says.
#[test]
fn both_peaks_are_reported() {
    // As X1, four steps in place come down to one tensor; as X2, two products, the activation between them in the first.
    for (name, graph, activations, inputs) in [
        ("chain", chain(), 256, vec![Data::ramp(&[4, 16], 1)]),
        ("products", two_products(), 2560, vec![Data::ramp(&[8, 16], 1)]),
    ] {
        // Aligned as the simulated device wants it, so that both speak of the same plan.
        let found = report(&write(name, &graph), &["--align", "256"]);
        let bytes = |key: &str| found[key].as_u64().unwrap_or_else(|| panic!("{name}: {key}"));
        let classes = &found["peak"]["classes"];
        assert_eq!(classes["activations"], activations, "{name}: {classes}");
        assert!(bytes("naive_bytes") > bytes("eager_peak_bytes") && bytes("eager_peak_bytes") >= activations, "{name}");
        assert_eq!(bytes("arena_bytes"), bytes("lower_bound_bytes"), "{name}");
        let sum: u64 = ["activations", "workspace", "states"].iter().map(|c| classes[c].as_u64().unwrap()).sum();
        assert_eq!(sum, bytes("lower_bound_bytes"), "{name}: {classes}");
        let top = found["top"].as_array().unwrap();
        assert_eq!(top.iter().map(|t| t["bytes"].as_u64().unwrap()).sum::<u64>(), sum, "{name}: {top:?}");
        let case = Case::new(&format!("reports-{name}"), &graph, &[], &[]);
        let device = device();
        case.eager(&device).run(&views(&inputs)).unwrap();
        assert_eq!(device.counted().run_peak, bytes("eager_peak_bytes"), "{name}");
        assert!(device.counted().peak(MemoryClass::Act) > 0);
    }
}

/// Row K2. A report models and observes nothing: it says so, and not 0; so does a device without statistics.
#[test]
fn observations_stand_apart() {
    let found = report(&write("observed", &chain()), &[]);
    assert!(found["observed"]["unavailable"].is_string(), "{}", found["observed"]);
    assert!(found["eager_peak_bytes"].is_u64());
    let quiet = SimDevice::new(0, SimOptions { stats: false, ..SimOptions::default() }).unwrap();
    assert!(quiet.stats().is_none(), "a device without statistics has none, rather than zeros");
    assert!(device().stats().is_some());
}

/// Row K4. Reports change nothing: plan, weights and code are the same bytes before and after, and a device sees the same calls.
#[test]
fn reporting_changes_nothing() {
    let path = write("quiet", &two_products());
    let emit = |name: &str| {
        let folder = common::scratch(name);
        let (code, _, err) = common::planner(["emit", path.to_str().unwrap(), "-o", folder.to_str().unwrap()]);
        assert_eq!(code, 0, "{err}");
        let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        assert_eq!(files.len(), 3, "{files:?}");
        files.iter().map(|f| std::fs::read(f).unwrap()).collect::<Vec<_>>()
    };
    let before = emit("quiet-before");
    report(&path, &[]);
    assert_eq!(common::planner(["explain", path.to_str().unwrap()]).0, 0);
    let page = common::scratch("quiet-page").join("page.html");
    assert_eq!(common::planner(["view", path.to_str().unwrap(), "-o", page.to_str().unwrap()]).0, 0);
    assert!(before == emit("quiet-after"), "the files differ");
    let case = Case::new("quiet", &two_products(), &[], &[]);
    let trace = |stats: bool| {
        let device = SimDevice::new(0, SimOptions { stats, ..SimOptions::default() }).unwrap();
        let mut exec = case.fixed(&device);
        // What was traced before does not count: from here on it is.
        device.trace();
        for _ in 0..2 {
            exec.run(&[Data::ramp(&[8, 16], 1).view()]).unwrap();
            assert_eq!(device.stats().is_some(), stats);
        }
        let trace = device.trace();
        assert!(trace.len() >= 2, "{trace:?}");
        (format!("{trace:?}"), device.counted().allocs, device.counted().syncs, fixed_outputs(&exec))
    };
    assert_eq!(trace(true), trace(false));
}

//! Captured runs: what may be recorded, what a recording depends on, and what it is good for.

use crate::kit::*;
use crate::onnx::{F32, Graph, I64, Node};
use runtime::device::{Device, Label, MemoryClass, Span};
use runtime::executor::{Binding, Guard, Piece};
use runtime::sim::{Addresses, QueueMode, SimDevice};
use runtime::{DType, Error, ErrorKind};

/// What must be captured again.
fn which(error: Error) -> (String, String) {
    match error.kind() {
        ErrorKind::Recapture { which, why } => (which.to_string(), why.to_string()),
        _ => panic!("{error}"),
    }
}

/// Allocates and gives back, so that addresses are reused where they can be.
pub fn disturb(device: &SimDevice, i: usize) {
    for bytes in [64, 4096, 2048 + i % 7 * 256] {
        let taken = device.alloc(bytes, &Label::new(MemoryClass::Act, "other")).unwrap();
        device.fill(taken.span(), i as u8).unwrap();
        taken.free().unwrap();
    }
}

/// Row D1. A thousand replays with other allocations in between allocate nothing and give the same as runs.
#[test]
fn a_thousand_replays() {
    let case = Case::new("thousand", &two_products(), &[], &[]);
    let runs: Vec<Vec<Data>> = (0..10).map(|seed| vec![Data::ramp(&[8, 16], seed)]).collect();
    let wanted = case.reference(&runs);
    let device = device_with(Addresses::AdversarialReuse, QueueMode::Immediate);
    let mut exec = case.fixed(&device);
    let prepared = device.counted();
    let mut captured = exec.capture(&views(&runs[0])).unwrap();
    let first = device.counted();
    assert_eq!((first.allocs, first.frees), (prepared.allocs, prepared.frees));
    for i in 0..1000 {
        disturb(&device, i);
        let before = device.counted();
        exec.replay(&mut captured, &views(&runs[i % 10])).unwrap();
        let after = device.counted();
        assert_eq!((after.allocs, after.frees), (before.allocs, before.frees));
        assert_eq!(fixed_outputs(&exec), wanted[i % 10]);
    }
    assert_eq!(device.violations(), Vec::<String>::new());
}

/// Rows D2 and D11. The warm-up passes the same addresses to the same kernels as the capture; one with the eager executor
/// would not.
#[test]
fn the_warm_up_uses_the_captured_addresses() {
    let case = Case::new("warm", &two_products(), &[], &[]);
    let inputs = [Data::ramp(&[8, 16], 1)];
    let device = device_with(Addresses::Shift(5), QueueMode::Immediate);
    let mut exec = case.fixed(&device);
    let traced = |run: &mut dyn FnMut()| {
        device.trace();
        run();
        device.trace()
    };
    let warm = traced(&mut || exec.run(&views(&inputs)).unwrap());
    let recorded = traced(&mut || drop(exec.capture(&views(&inputs)).unwrap()));
    assert_eq!(warm.len(), 2, "two products, the activation in the first");
    assert_eq!(warm, recorded);
    let mut eager = case.eager(&device);
    let other = traced(&mut || eager.run(&views(&inputs)).unwrap());
    let kernels = |list: &[runtime::sim::Traced]| list.iter().map(|t| (t.step, t.prim)).collect::<Vec<_>>();
    assert_eq!(kernels(&other), kernels(&recorded), "which kernels run is decided while planning");
    assert_ne!(other, recorded);
}

/// Row D3. Whatever a recording depends on is looked at before a replay: what has changed is refused by name.
#[test]
fn changes_are_refused_by_name() {
    let case = Case::new("changes", &lookup(), &[("n", 2, 9)], &[]);
    let inputs = |n| [Data::ramp(&[n, 4], n), Data::ints(&[3], &[1, 0, 1])];
    let device = device();
    let mut exec = case.fixed(&device);
    let caller = device.alloc(1024, &Label::new(MemoryClass::Io, "caller")).unwrap();
    let at = |offset| Binding {
        name: "x".to_owned(),
        pointer: caller.span().pointer.plus(offset),
        capacity: 256,
        dtype: DType::F32,
    };
    exec.bind(0, at(0)).unwrap();
    let mut captured = exec.capture(&views(&inputs(5))).unwrap();
    exec.replay(&mut captured, &views(&inputs(5))).unwrap();
    let counts = |s: runtime::device::Stats| (s.kernels, s.uploads, s.downloads, s.replays);
    let before = counts(device.counted());
    let mut refused = |binding: Binding, n: usize, why: &str| {
        exec.bind(0, binding).unwrap();
        let (name, text) = which(exec.replay(&mut captured, &views(&inputs(n))).unwrap_err());
        assert_eq!(name, "x");
        assert!(text.contains(why), "{text}");
        assert_eq!(counts(device.counted()), before, "nothing is launched");
    };
    refused(at(256), 5, "it lay at");
    refused(Binding { capacity: 512, ..at(0) }, 5, "it had room for 256 bytes and has for 512");
    refused(Binding { dtype: DType::F64, ..at(0) }, 5, "its elements were f32 and are f64");
    refused(at(0), 6, "its dims were [5, 4] and are [6, 4]");
    exec.bind(0, at(0)).unwrap();
    exec.replay(&mut captured, &views(&inputs(5))).unwrap();
    assert_eq!(fixed_outputs(&exec), case.reference(&[inputs(5).to_vec()])[0]);
    // Another executor's recording, even of the same plan, is not this one's.
    let mut other = case.fixed(&device);
    assert_eq!(which(other.replay(&mut captured, &views(&inputs(5))).unwrap_err()).0, "arena");
    exec.unbind(0).unwrap();
    assert_eq!(which(exec.replay(&mut captured, &views(&inputs(5))).unwrap_err()).0, "x");
}

/// Rows D3 and D6. Without the check a replay does what was recorded, whatever is asked of it now: with an input that has grown
/// it fails at the second step already.
#[test]
fn the_fingerprint_is_needed() {
    let case = Case::new("moved", &two_products(), &[], &[]);
    let runs: Vec<Vec<Data>> = (0..2).map(|seed| vec![Data::ramp(&[8, 16], seed)]).collect();
    let wanted = case.reference(&runs);
    let device = device();
    let mut exec = case.fixed(&device);
    exec.disable(Guard::Fingerprint);
    let mut captured = exec.capture(&views(&runs[0])).unwrap();
    exec.replay(&mut captured, &views(&runs[1])).unwrap();
    assert_eq!(fixed_outputs(&exec), wanted[1]);
    let mut growing = Case::new("grown", &lookup(), &[("n", 2, 9)], &[]).fixed(&device);
    growing.disable(Guard::Fingerprint);
    let step = |n| vec![Data::ramp(&[n, 4], 1), Data::ints(&[3], &[n as i64 - 1, 0, 1])];
    let mut captured = growing.capture(&views(&step(2))).unwrap();
    let second = growing.replay(&mut captured, &views(&step(3)));
    // A launch with the extents of the warm-up does not find the third row.
    let fault = second.unwrap_err();
    assert!(matches!(fault.kind(), ErrorKind::Fault { .. }), "{fault}");
}

/// Row D5. What only the data tells lies between recorded segments, with its reason; what passes from one to the other has
/// its place.
#[test]
fn segments_and_seams() {
    let case = Case::new("segments", &nonzero(), &[], &[]);
    let device = device();
    let mut exec = case.fixed(&device);
    let shown: Vec<String> = exec
        .pieces()
        .iter()
        .map(|piece| match piece {
            Piece::Segment { .. } => "segment".to_owned(),
            Piece::Seam { name, reason, .. } => format!("{name}: {reason}"),
        })
        .collect();
    let seams = [
        "which: an extent that only the data can tell",
        "at: its extents depend on `NonZero of which`, which only the run tells",
    ];
    assert_eq!(shown, ["segment", seams[0], seams[1], "segment"]);
    let some = |found: usize| (0..12).map(|i| if i < found { i as f32 + 1.0 } else { -1.0 }).collect::<Vec<_>>();
    let runs: Vec<Vec<Data>> = [3, 7, 0, 12].map(|n| vec![Data::floats(&[2, 6], &some(n))]).into();
    let wanted = case.reference(&runs);
    assert_ne!(wanted[0][0].dims, wanted[1][0].dims, "the extent changes from run to run");
    let mut captured = exec.capture(&views(&runs[0])).unwrap();
    assert_eq!(captured.segments(), 2);
    assert_eq!(fixed_outputs(&exec), wanted[0]);
    device.trace();
    for _ in 0..2 {
        for (inputs, wanted) in runs.iter().zip(&wanted) {
            exec.replay(&mut captured, &views(inputs)).unwrap();
            assert_eq!(&fixed_outputs(&exec), wanted);
        }
    }
    let seams = device.trace();
    assert_eq!(seams.len(), 16, "only the seams are launched step by step");
    for (i, seam) in seams.iter().enumerate() {
        let places = |t: &runtime::sim::Traced| t.args.iter().map(|a| (a.0, a.2)).collect::<Vec<_>>();
        assert_eq!(places(seam), places(&seams[i % 2]), "what passes between the pieces has its place");
    }
    for graph in [branch(), repeated()] {
        let case = Case::new("seams", &graph, &[], &[]);
        let exec = case.fixed(&device);
        let seams = exec.pieces().iter().filter(|p| matches!(p, Piece::Seam { .. })).count();
        assert_eq!(seams, 1, "{:?}", exec.pieces());
        assert!(exec.pieces().len() >= 3, "{:?}", exec.pieces());
    }
}

/// A cache of 64 rows, the row of this step written where the data says, and a mask over what is not written yet.
fn decode() -> Graph {
    Graph::new()
        .input("cache", F32, &["64", "4"])
        .input("row", F32, &["1", "4"])
        .input("at", I64, &["1", "1"])
        .input("mask", F32, &["1", "64"])
        .node(Node::new("ScatterND", &["cache", "at", "row"], &["next"]))
        .node(Node::new("Transpose", &["next"], &["keys"]).ints("perm", &[1, 0]))
        .node(Node::new("MatMul", &["row", "keys"], &["scores"]))
        .node(Node::new("Add", &["scores", "mask"], &["masked"]))
        .node(Node::new("Softmax", &["masked"], &["weights"]))
        .node(Node::new("MatMul", &["weights", "next"], &["y"]))
        .output("y", F32, &["1", "4"])
        .output("next", F32, &["64", "4"])
}

/// Row D6. What grows from run to run is data for a recording, or a reason to record again; never an extent of long ago.
#[test]
fn growing_lengths_are_data() {
    let case = Case::new("decode", &decode(), &[], &[("cache", "next")]);
    let step = |len: usize| {
        let mask: Vec<f32> = (0..64).map(|i| if i < len { 0.0 } else { f32::NEG_INFINITY }).collect();
        vec![Data::ramp(&[1, 4], len), Data::ints(&[1, 1], &[len as i64 - 1]), Data::floats(&[1, 64], &mask)]
    };
    let (device, other) = (device(), device());
    let (mut exec, mut eager) = (case.fixed(&device), case.eager(&other));
    assert_eq!(exec.pieces().len(), 1, "{:?}", exec.pieces());
    let mut captured = None;
    for len in 1..=64 {
        let inputs = step(len);
        eager.run(&views(&inputs)).unwrap();
        match &mut captured {
            None => captured = Some(exec.capture(&views(&inputs)).unwrap()),
            Some(captured) => exec.replay(captured, &views(&inputs)).unwrap(),
        }
        assert_eq!(fixed_outputs(&exec), eager_outputs(&eager), "length {len}");
        assert_eq!(exec.state(0).unwrap(), eager.state(0).unwrap());
    }
    let growing = Case::new("growing", &lookup(), &[("n", 2, 9)], &[]);
    let mut exec = growing.fixed(&device);
    let inputs = |n| [Data::ramp(&[n, 4], n), Data::ints(&[3], &[0, 0, 1])];
    let mut captured = exec.capture(&views(&inputs(2))).unwrap();
    assert_eq!(which(exec.replay(&mut captured, &views(&inputs(3))).unwrap_err()).0, "x");
    let mut captured = exec.capture(&views(&inputs(3))).unwrap();
    exec.replay(&mut captured, &views(&inputs(3))).unwrap();
    assert_eq!(fixed_outputs(&exec), growing.reference(&[inputs(3).to_vec()])[0]);
}

/// Row D8. Memory that others take after the capture lies elsewhere, and no replay touches it.
#[test]
fn replays_leave_others_alone() {
    let case = Case::new("others", &two_products(), &[], &[]);
    let runs: Vec<Vec<Data>> = (0..5).map(|seed| vec![Data::ramp(&[8, 16], seed)]).collect();
    let wanted = case.reference(&runs);
    let device = device_with(Addresses::AdversarialReuse, QueueMode::Immediate);
    drop(case.fixed(&device));
    let mut exec = case.fixed(&device);
    let mut captured = exec.capture(&views(&runs[0])).unwrap();
    let mine = device.alloc(8192, &Label::new(MemoryClass::Act, "mine")).unwrap();
    device.write(mine.span(), &[7; 8192]).unwrap();
    let (mut eager, mut fixed) = (case.eager(&device), case.fixed(&device));
    for i in 0..20 {
        eager.run(&views(&runs[(i + 1) % 5])).unwrap();
        fixed.run(&views(&runs[(i + 2) % 5])).unwrap();
        exec.replay(&mut captured, &views(&runs[i % 5])).unwrap();
        assert_eq!(fixed_outputs(&exec), wanted[i % 5]);
        assert_eq!(eager_outputs(&eager), wanted[(i + 1) % 5]);
        assert_eq!(fixed_outputs(&fixed), wanted[(i + 2) % 5]);
    }
    let mut bytes = [0; 8192];
    device.read(mine.span(), &mut bytes).unwrap();
    assert_eq!(bytes, [7; 8192]);
    let spans: Vec<(u64, usize)> = device.living().iter().map(|r| (r.address, r.bytes)).collect();
    let apart = |a: &(u64, usize), b: &(u64, usize)| a.0 + a.1 as u64 <= b.0 || b.0 + b.1 as u64 <= a.0;
    assert!(spans.iter().enumerate().all(|(i, a)| spans[..i].iter().all(|b| apart(a, b))));
}

/// Row D9. Two recordings on one device take turns.
#[test]
fn two_captured_plans_take_turns() {
    let graph = |m: &str| {
        Graph::new()
            .input("x", F32, &[m, "8"])
            .floats("w", &[8, 8], &(0..64).map(|i| i as f32 / 64.0).collect::<Vec<_>>())
            .node(Node::new("MatMul", &["x", "w"], &["h"]))
            .node(Node::new("Softmax", &["h"], &["y"]))
            .output("y", F32, &[m, "8"])
    };
    for queue in [QueueMode::Immediate, QueueMode::Lazy] {
        let device = device_with(Addresses::AdversarialReuse, queue);
        let mut plans: Vec<_> = [1usize, 4]
            .map(|m| {
                let case = Case::new("turns", &graph(&m.to_string()), &[], &[]);
                let runs: Vec<Vec<Data>> = (0..4).map(|seed| vec![Data::ramp(&[m, 8], seed)]).collect();
                let wanted = case.reference(&runs);
                let mut exec = case.fixed(&device);
                let captured = exec.capture(&views(&runs[0])).unwrap();
                (exec, captured, runs, wanted)
            })
            .into();
        for i in 0..200 {
            let (exec, captured, runs, wanted) = &mut plans[i % 2];
            exec.replay(captured, &views(&runs[i % 4])).unwrap();
            assert_eq!(fixed_outputs(exec), wanted[i % 4]);
        }
    }
}

/// Row D13. A kernel that fails in a replay fails the replay, by its name; the recording is done with, the executor is not.
#[test]
fn a_failed_replay_is_rejected() {
    for queue in [QueueMode::Immediate, QueueMode::Lazy] {
        let case = Case::new("latch", &lookup(), &[("n", 2, 9)], &[]);
        let inputs = |i: i64| [Data::ramp(&[5, 4], 1), Data::ints(&[3], &[i, 0, 2])];
        let wanted = |i| case.reference(&[inputs(i).to_vec()]).remove(0);
        let device = device_with(Addresses::NeverReuse, queue);
        let mut exec = case.fixed(&device);
        let mut captured = exec.capture(&views(&inputs(0))).unwrap();
        for i in 1..3 {
            exec.replay(&mut captured, &views(&inputs(i))).unwrap();
            assert_eq!(fixed_outputs(&exec), wanted(i));
        }
        let error = exec.replay(&mut captured, &views(&inputs(9))).unwrap_err();
        let ErrorKind::Fault { name, primitive, .. } = error.kind() else { panic!("{error}") };
        assert_eq!((&**name, *primitive), ("lookup", "Gather"));
        assert!(exec.output(0).is_err(), "what a failed replay left is not handed out");
        let again = which(exec.replay(&mut captured, &views(&inputs(1))).unwrap_err());
        assert!(again.1.contains("a replay has failed"), "{again:?}");
        exec.run(&views(&inputs(4))).unwrap();
        assert_eq!(fixed_outputs(&exec), wanted(4));
        let mut captured = exec.capture(&views(&inputs(3))).unwrap();
        exec.replay(&mut captured, &views(&inputs(2))).unwrap();
        assert_eq!(fixed_outputs(&exec), wanted(2));
        // With the check off the recording would be used on.
        exec.replay(&mut captured, &views(&inputs(9))).unwrap_err();
        exec.disable(Guard::Latch);
        exec.replay(&mut captured, &views(&inputs(1))).unwrap();
    }
}

/// A span of device memory, for tests that record by hand.
pub fn span(device: &SimDevice, bytes: usize) -> (runtime::device::Allocation<SimDevice>, Span) {
    let taken = device.alloc(bytes, &Label::new(MemoryClass::Act, "by hand")).unwrap();
    let span = taken.span();
    (taken, span)
}

//! Captures that do not go as planned, and what lives how long around them.

use crate::capture::span;
use crate::kit::*;
use runtime::device::{Device, Failure, Label, MemoryClass, Stage, record};
use runtime::executor::{EagerExec, StaticExec};
use runtime::sim::{Addresses, FaultAt, QueueMode, SimDevice, SimOptions};
use runtime::{DeviceCall, DeviceProblem, ErrorKind};
use std::sync::mpsc;
use std::thread;

fn stage(device: &SimDevice, bytes: usize) -> Stage<SimDevice> {
    device.stage(bytes, &Label::new(MemoryClass::Stage, "by hand")).unwrap()
}

/// A call of a device.
type Call<'c> = &'c dyn Fn() -> Result<(), Failure>;

/// Row D1. What may not happen while a capture records is an error at once, and makes the capture invalid.
#[test]
fn forbidden_calls_are_violations() {
    let device = device();
    let (_memory, all) = span(&device, 64);
    let forbidden: [(DeviceCall, Call<'_>); 6] = [
        (DeviceCall::Alloc, &|| device.alloc(1, &Label::new(MemoryClass::Act, "late")).map(drop)),
        (DeviceCall::Stage, &|| device.stage(1, &Label::new(MemoryClass::Stage, "late")).map(drop)),
        (DeviceCall::Sync, &|| device.sync()),
        (DeviceCall::Write, &|| device.write(all, &[0; 64])),
        (DeviceCall::Read, &|| device.read(all, &mut [0; 64])),
        (DeviceCall::BeginCapture, &|| device.begin_capture()),
    ];
    for (n, (call, make)) in forbidden.into_iter().enumerate() {
        let ended = record::<_, Failure>(&device, || {
            device.fill(all, 1)?;
            let refused = make().unwrap_err();
            assert_eq!((refused.call, refused.problem), (call, DeviceProblem::Capturing));
            Ok(())
        });
        let problem = ended.err().map(|f| f.problem);
        assert_eq!(problem, Some(DeviceProblem::Invalidated { by: call }));
        assert_eq!(device.violations().len(), n + 1);
        device.sync().unwrap();
    }
    let graph = record::<_, Failure>(&device, || device.fill(all, 3)).unwrap();
    device.replay(&graph).unwrap();
    let mut bytes = [0; 64];
    device.read(all, &mut bytes).unwrap();
    assert_eq!(bytes, [3; 64]);
    assert_eq!(device.end_capture().err().map(|f| f.problem), Some(DeviceProblem::NotCapturing));
}

/// A plan whose control flow the data decides, marked as safe: the executor does not believe it.
#[test]
fn control_flow_is_never_recorded() {
    for (graph, wanted) in [(branch(), 1), (repeated(), 1), (nonzero(), 2)] {
        let mut case = Case::new("believed", &graph, &[], &[]);
        let mut plan = (*case.plan).clone();
        for step in plan.blocks.iter_mut().flat_map(|b| &mut b.steps) {
            step.capture = plan::Capture::Safe {};
        }
        case.plan = plan.into();
        let believed = case.fixed(&device()).pieces().to_vec();
        let seams = |pieces: &[runtime::executor::Piece]| {
            pieces.iter().filter(|p| matches!(p, runtime::executor::Piece::Seam { .. })).count()
        };
        assert_eq!(seams(&believed), wanted, "{believed:?}");
    }
}

/// Row D7. A capture that fails, at whichever of its calls, leaves the device usable and no memory behind.
#[test]
fn a_capture_may_fail_anywhere() {
    for (graph, inputs) in [
        (two_products(), vec![Data::ramp(&[8, 16], 1)]),
        (nonzero(), vec![Data::ramp(&[2, 6], 1)]),
        (branch(), vec![Data::ramp(&[4, 4], 1), Data::flag(false)]),
    ] {
        let case = Case::new("anywhere", &graph, &[], &[]);
        let wanted = case.reference(std::slice::from_ref(&inputs)).remove(0);
        for at in [FaultAt::Record, FaultAt::CaptureEnd, FaultAt::Kernel, FaultAt::Copy] {
            let device = device();
            let mut exec = case.fixed(&device);
            device.fail(None);
            drop(exec.capture(&views(&inputs)).unwrap());
            let (count, living) = (device.count(at), device.living().len());
            assert!(count > 0, "{at:?}");
            for n in 0..count {
                device.fail(Some((at, n)));
                let error = exec.capture(&views(&inputs)).err().expect("the fault must show");
                assert!(matches!(error.kind(), ErrorKind::DeviceCall { .. }), "{error}");
                device.fail(None);
                assert_eq!(device.living().len(), living);
                let mut eager = case.eager(&device);
                eager.run(&views(&inputs)).unwrap();
                assert_eq!(eager_outputs(&eager), wanted);
                exec.run(&views(&inputs)).unwrap();
                assert_eq!(fixed_outputs(&exec), wanted, "{at:?} {n}");
            }
            let mut captured = exec.capture(&views(&inputs)).unwrap();
            exec.replay(&mut captured, &views(&inputs)).unwrap();
            assert_eq!(fixed_outputs(&exec), wanted);
            assert_eq!(device.violations(), Vec::<String>::new());
        }
    }
}

/// Row D7. Memory given back while a capture records is given back when it has ended; a recording keeps its memory.
#[test]
fn memory_outlives_what_names_it() {
    let device = device();
    let (memory, all) = span(&device, 64);
    let (other, _) = span(&device, 64);
    let staged = stage(&device, 64);
    let graph = record::<_, Failure>(&device, || {
        device.fill(all, 1)?;
        other.free()?;
        drop(staged);
        assert_eq!(device.living().len(), 2, "not while it records");
        Ok(())
    })
    .unwrap();
    assert_eq!((device.living().len(), device.counted().live(MemoryClass::Stage)), (1, 0));
    assert_eq!(device.violations(), Vec::<String>::new());
    device.replay(&graph).unwrap();
    memory.free().unwrap();
    let problem = device.replay(&graph).unwrap_err().problem;
    assert!(matches!(problem, DeviceProblem::Dead { .. }), "{problem}");

    let device = crate::kit::device();
    let case = Case::new("outlives", &two_products(), &[], &[]);
    let mut exec = case.fixed(&device);
    let captured = exec.capture(&views(&[Data::ramp(&[8, 16], 1)])).unwrap();
    let living = device.living();
    drop(exec);
    assert_eq!(device.living(), living, "the recording names this memory");
    drop(captured);
    assert_eq!(device.living(), Vec::new());
    assert_eq!(device.counted().live(MemoryClass::Stage), 0);
}

/// Row D10. What recorded copies read is staging memory that lives as long as the executor; the caller's may be gone.
#[test]
fn copied_parameters_live_long_enough() {
    let case = Case::new("stage", &two_products(), &[], &[]);
    let device = device();
    let mut exec = case.fixed(&device);
    let staged = device.counted().live(MemoryClass::Stage);
    assert_eq!(staged, 512 + 512, "an input and an output");
    let mut captured = {
        let inputs = vec![Data::ramp(&[8, 16], 1)];
        exec.capture(&views(&inputs)).unwrap()
    };
    let next = vec![Data::ramp(&[8, 16], 2)];
    exec.replay(&mut captured, &views(&next)).unwrap();
    assert_eq!(fixed_outputs(&exec), case.reference(&[next])[0]);
    assert_eq!(device.counted().live(MemoryClass::Stage), staged);

    // What would be without: a copy that was recorded from memory that is gone reads what is there now.
    for generations in [true, false] {
        let device = SimDevice::new(0, SimOptions { generations, ..SimOptions::default() }).unwrap();
        let (_memory, all) = span(&device, 4);
        let staged = stage(&device, 4);
        device.write_stage(staged.staged(), &[1, 2, 3, 4]).unwrap();
        let graph = record::<_, Failure>(&device, || device.upload(staged.staged(), all)).unwrap();
        staged.free().unwrap();
        let replayed = device.replay(&graph);
        if generations {
            assert!(matches!(replayed.unwrap_err().problem, DeviceProblem::Dead { .. }));
        } else {
            replayed.unwrap();
            let mut bytes = [0; 4];
            device.read(all, &mut bytes).unwrap();
            assert_eq!(bytes, [0xdd; 4]);
        }
    }
}

/// Row D12. Whoever would make a capture invalid waits at the gate until it has ended; whoever passes it by does.
#[test]
fn captures_are_not_disturbed_by_others() {
    let device = device();
    let (_memory, all) = span(&device, 64);
    let (told, tells) = mpsc::channel();
    let mut other_thread = None;
    let graph = record::<_, Failure>(&device, || {
        device.fill(all, 1)?;
        let other = device.clone();
        let waits = thread::spawn(move || {
            told.send(()).unwrap();
            let _pass = other.gate().pass();
            other.alloc(64, &Label::new(MemoryClass::Act, "other")).map(drop)
        });
        tells.recv().unwrap();
        // Time enough for what does not wait to be done.
        thread::sleep(std::time::Duration::from_millis(50));
        assert!(!waits.is_finished(), "it waits for the capture to end");
        other_thread = Some(waits);
        device.fill(all, 2)
    });
    assert_eq!(graph.unwrap().len(), 2);
    other_thread.unwrap().join().unwrap().unwrap();

    let passes_by = record::<_, Failure>(&device, || {
        let other = device.clone();
        let refused = thread::spawn(move || other.sync().unwrap_err().problem).join().unwrap();
        assert_eq!(refused, DeviceProblem::Capturing);
        Ok(())
    });
    assert_eq!(passes_by.err().unwrap().problem, DeviceProblem::Invalidated { by: DeviceCall::Sync });
}

/// Row D12. Executors pass the gate by themselves: one thread captures again and again while others prepare, run and end.
#[test]
fn executors_wait_for_captures() {
    let case = Case::new("threads", &two_products(), &[], &[]);
    let runs: Vec<Vec<Data>> = (0..3).map(|seed| vec![Data::ramp(&[8, 16], seed)]).collect();
    let wanted = case.reference(&runs);
    let device = device_with(Addresses::AdversarialReuse, QueueMode::Immediate);
    thread::scope(|scope| {
        for n in 0..2 {
            let (case, runs, wanted, device) = (&case, &runs, &wanted, &device);
            scope.spawn(move || {
                for i in n..n + 20 {
                    let mut exec = case.eager(device);
                    exec.run(&views(&runs[i % 3])).unwrap();
                    assert_eq!(eager_outputs(&exec), wanted[i % 3]);
                }
            });
        }
        let mut exec = case.fixed(&device);
        for i in 0..20 {
            let mut captured = exec.capture(&views(&runs[i % 3])).unwrap();
            exec.replay(&mut captured, &views(&runs[(i + 1) % 3])).unwrap();
            assert_eq!(fixed_outputs(&exec), wanted[(i + 1) % 3]);
        }
    });
    assert_eq!(device.violations(), Vec::<String>::new());
    assert_eq!(device.living(), Vec::new());
}

/// Prepares an executor and drops it.
type Prepare<'c> = &'c dyn Fn(&SimDevice) -> Result<(), runtime::Error>;

/// Row A11. An executor that cannot be prepared leaves nothing behind, whatever it was that failed.
#[test]
fn preparing_may_fail_anywhere() {
    let case = Case::new("prepare", &running_sum(), &[], &[("sum", "next")]);
    let prepare: [Prepare<'_>; 2] =
        [&|device| EagerExec::prepare(device.clone(), case.plan.clone(), &case.weights).map(drop), &|device| {
            StaticExec::prepare(device.clone(), case.plan.clone(), &case.weights).map(drop)
        }];
    for prepare in prepare {
        for at in [FaultAt::Alloc, FaultAt::Copy] {
            let device = device();
            prepare(&device).unwrap();
            let count = device.count(at);
            assert!(count > 0, "{at:?}");
            for n in 0..count {
                device.fail(Some((at, n)));
                let error = prepare(&device).unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::DeviceCall { .. }), "{error}");
                assert_eq!((device.living(), device.counted().live(MemoryClass::Stage)), (Vec::new(), 0), "{at:?} {n}");
            }
        }
    }
    let wrong = EagerExec::prepare(device(), case.plan.clone(), &[1]).err().unwrap();
    assert!(matches!(wrong.kind(), ErrorKind::Weights { .. }), "{wrong}");
}

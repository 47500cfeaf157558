//! The eager executor's accounts: what it takes, gives back, and leaves after a failure.

use crate::kit::*;
use plan::SymbolId;
use planner::memory::usage::{Usage, sizes};
use runtime::device::MemoryClass;
use runtime::sim::{Addresses, FaultAt, QueueMode, SimDevice};
use runtime::{DeviceCall, ErrorKind};

/// Plans of all kinds, each with inputs that do not fail.
fn plans() -> Vec<(Case, Vec<Data>)> {
    vec![
        (Case::new("e-products", &two_products(), &[], &[]), vec![Data::ramp(&[8, 16], 1)]),
        (Case::new("e-nonzero", &nonzero(), &[], &[]), vec![Data::ramp(&[2, 6], 1)]),
        (Case::new("e-branch", &branch(), &[], &[]), vec![Data::ramp(&[4, 4], 1), Data::flag(true)]),
        (Case::new("e-repeated", &repeated(), &[], &[]), vec![Data::ramp(&[4], 1), Data::ints(&[], &[3])]),
        (
            Case::new("e-lookup", &lookup(), &[("n", 2, 9)], &[]),
            vec![Data::ramp(&[5, 4], 1), Data::ints(&[3], &[4, 0, 2])],
        ),
    ]
}

/// Row T3. Every executor, every way of handing out addresses and of queueing, several runs with changed data and shapes.
#[test]
fn everything_everywhere() {
    let ramp = |dims: &[usize], n| (0..n).map(|seed| vec![Data::ramp(dims, seed)]).collect::<Vec<_>>();
    Case::new("products", &two_products(), &[], &[]).differential(&ramp(&[8, 16], 3));
    let stateful = Case::new("sum", &running_sum(), &[], &[("sum", "next")]);
    stateful.differential(&ramp(&[4], 3));
    let found = Case::new("nonzero", &nonzero(), &[], &[]).differential(&ramp(&[2, 6], 3));
    assert_eq!((found.runs, found.failed, found.captures, found.replays), (54, 0, 6, 12));
    let runs = [true, false, true].map(|c| vec![Data::ramp(&[4, 4], 1), Data::flag(c)]);
    Case::new("branch", &branch(), &[], &[]).differential(&runs);
    let runs = [0, 3, 1].map(|n| vec![Data::ramp(&[4], 2), Data::ints(&[], &[n])]);
    Case::new("repeated", &repeated(), &[], &[]).differential(&runs);
    let runs = [(2, 1), (7, 6), (3, 9), (5, 0)];
    let runs = runs.map(|(n, i)| vec![Data::ramp(&[n, 4], n), Data::ints(&[3], &[0, i, 1])]);
    let found = Case::new("lookup", &lookup(), &[("n", 2, 9)], &[]).differential(&runs);
    assert_eq!(found.failed, 1, "an index beyond the rows fails everywhere alike");
}

/// Other data leaves other bits, and what is refused is refused everywhere alike.
#[test]
fn comparisons_are_not_vacuous() {
    let case = Case::new("told", &two_products(), &[], &[]);
    let (x, y) = (Data::ramp(&[8, 16], 1), Data::ramp(&[8, 16], 2));
    let device = device();
    let mut exec = case.eager(&device);
    exec.run(&[x.view()]).unwrap();
    let wanted = case.reference(&[vec![x], vec![y]]);
    assert_eq!(eager_outputs(&exec), wanted[0]);
    assert_ne!(eager_outputs(&exec), wanted[1]);
    let narrow = Data::floats(&[8, 15], &[0.0; 120]);
    let runs = [vec![narrow.view()]];
    let found = runtime::sim::differential(&case.plan, &case.weights, &runs).unwrap();
    assert_eq!((found.failed, found.runs), (1, 18), "inputs that do not fit are refused everywhere alike");
}

/// Row A8. After a run no byte of it is charged, by the device's account; and an owner that forgets its memory is found there.
#[test]
fn a_run_leaves_no_bytes() {
    for (case, inputs) in plans() {
        let device = device();
        let mut exec = case.eager(&device);
        exec.run(&views(&inputs)).unwrap();
        assert_eq!(of_runs(&device), 0, "{}: {:?}", case.plan.name, device.living());
        assert!(device.counted().peak(MemoryClass::Act) > 0);
        device.fail(Some((FaultAt::LostFree, 0)));
        exec.run(&views(&inputs)).unwrap();
        assert!(of_runs(&device) > 0, "memory that nobody gave back must show");
    }
}

/// The peak that the planner's account of the eager schedule has at these sizes.
fn planned_peak(case: &Case, symbols: &[i64]) -> u64 {
    let plan = &case.plan;
    let usage = Usage::new(plan).unwrap();
    let sizes = sizes(plan, |s: SymbolId| symbols.get(s.index()).copied());
    usage.curve(&usage.eager, &sizes).into_iter().max().unwrap()
}

#[test]
fn the_peak_is_the_planned_one_at_every_size() {
    let case = Case::new("peak", &lookup(), &[("n", 2, 9)], &[]);
    for n in 2..=9 {
        let device = device();
        let mut exec = case.eager(&device);
        exec.run(&views(&[Data::ramp(&[n, 4], n), Data::ints(&[3], &[0, 1, 0])])).unwrap();
        assert_eq!(device.counted().run_peak, planned_peak(&case, &[n as i64]), "n = {n}");
    }
    let products = Case::new("peak-products", &two_products(), &[], &[]);
    let device = device();
    products.eager(&device).run(&views(&[Data::ramp(&[8, 16], 1)])).unwrap();
    assert_eq!(device.counted().run_peak, products.plan.certificate.eager_peak_bytes);
}

/// Row A10. Memory is given back in the order of the queue: one run waits once, for its outputs, whatever it gives back.
#[test]
fn one_wait_for_a_run() {
    let case = Case::new("waits", &two_products(), &[], &[]);
    let runs: Vec<Vec<Data>> = (0..3).map(|seed| vec![Data::ramp(&[8, 16], seed)]).collect();
    let wanted = case.reference(&runs);
    for addresses in [Addresses::NeverReuse, Addresses::AdversarialReuse, Addresses::Shift(3)] {
        let device = device_with(addresses, QueueMode::Lazy);
        let mut exec = case.eager(&device);
        for (inputs, wanted) in runs.iter().zip(&wanted) {
            let before = device.counted();
            exec.run(&views(inputs)).unwrap();
            let after = device.counted();
            assert_eq!(after.syncs - before.syncs, 1);
            assert!(after.frees - before.frees >= 3);
            assert_eq!(&eager_outputs(&exec), wanted);
        }
        // A device that does not queue comes to the same peak.
        assert_eq!(device.counted().run_peak, case.plan.certificate.eager_peak_bytes);
    }
}

/// Row A11. Wherever a run fails, nothing of it remains, and the next run is as if there had been none.
#[test]
fn a_failure_at_each_step_leaves_nothing() {
    for (case, inputs) in plans() {
        let wanted = case.reference(std::slice::from_ref(&inputs)).remove(0);
        for queue in [QueueMode::Immediate, QueueMode::Lazy] {
            for at in [FaultAt::Kernel, FaultAt::Alloc, FaultAt::Copy] {
                fail_at_each(&case, &inputs, &wanted, queue, at);
            }
        }
    }
}

fn fail_at_each(
    case: &Case,
    inputs: &[Data],
    wanted: &[runtime::interpret::OutputTensor],
    queue: QueueMode,
    at: FaultAt,
) {
    let device = device_with(Addresses::AdversarialReuse, queue);
    let mut exec = case.eager(&device);
    // The first run also makes staging memory.
    exec.run(&views(inputs)).unwrap();
    device.fail(None);
    exec.run(&views(inputs)).unwrap();
    let count = device.count(at);
    assert!(count > 0, "{at:?}");
    for n in 0..count {
        device.fail(Some((at, n)));
        let error = exec.run(&views(inputs)).expect_err("the fault must show");
        assert!(matches!(error.kind(), ErrorKind::DeviceCall { .. }), "{error}");
        assert_eq!(of_runs(&device), 0, "{at:?} {n}: {error}: {:?}", device.living());
        assert!(exec.output(0).is_err(), "a run that failed leaves no outputs");
        device.fail(None);
        exec.run(&views(inputs)).unwrap();
        assert_eq!(eager_outputs(&exec), wanted, "{at:?} {n}");
    }
    assert_eq!(device.violations(), Vec::<String>::new());
}

/// Row A14. Memory that cannot be given back is an error that says which; its bytes stay charged.
#[test]
fn a_failed_free_is_told() {
    let case = Case::new("frees", &two_products(), &[], &[]);
    let inputs = [Data::ramp(&[8, 16], 1)];
    let device = device();
    let mut exec = case.eager(&device);
    device.fail(None);
    exec.run(&views(&inputs)).unwrap();
    let count = device.count(FaultAt::Free);
    let mut kept = 0;
    for n in 0..count {
        device.fail(Some((FaultAt::Free, n)));
        let error = exec.run(&views(&inputs)).unwrap_err();
        let ErrorKind::DeviceCall { call: DeviceCall::Free, step, value, bytes, .. } = error.kind() else {
            panic!("{error}")
        };
        assert_eq!(step.is_some(), &**value != "x", "all but the inputs belong to a step: {error}");
        assert!(*bytes > 0 && error.to_string().contains(&format!("`{value}`")), "{error}");
        let stats = device.counted();
        assert!(of_runs(&device) > kept, "the bytes stay charged");
        kept = of_runs(&device);
        assert_eq!(stats.failed_frees, n + 1);
    }
    assert!(count >= 3);
    exec.run(&views(&inputs)).unwrap();
    assert_eq!(of_runs(&device), kept, "later runs are not hindered");
}

/// A device without enough memory refuses, and with one byte more it does not.
#[test]
fn capacity_is_exact() {
    let case = Case::new("capacity", &two_products(), &[], &[]);
    let inputs = [Data::ramp(&[8, 16], 1)];
    let all = {
        let device = device();
        case.eager(&device).run(&views(&inputs)).unwrap();
        device.counted().run_peak + device.counted().peak(MemoryClass::Io) + case.plan.weight_bytes
    };
    for (capacity, fits) in [(all, true), (all - 1, false)] {
        let options = runtime::sim::SimOptions { capacity: Some(capacity as usize), ..Default::default() };
        let device = SimDevice::new(0, options).unwrap();
        let mut exec = case.eager(&device);
        let ran = exec.run(&views(&inputs));
        assert_eq!(ran.is_ok(), fits);
        if let Err(error) = ran {
            let text = error.to_string();
            assert!(text.contains("out of device memory") && text.starts_with("step "), "{text}");
        }
        assert_eq!(of_runs(&device), 0);
    }
}

//! The simulated device itself: each thing that it finds is seen found.

use super::*;
use crate::device::MemoryClass;
use crate::device::{Copies, Pointer, record};
use crate::{DType, Fault, Operand};
use plan::prim;

fn device(options: SimOptions) -> SimDevice {
    SimDevice::new(0, options).unwrap()
}

fn memory(device: &SimDevice, bytes: usize, class: MemoryClass) -> Allocation<SimDevice> {
    device.alloc(bytes, &Label::new(class, "memory")).unwrap()
}

/// Launches a copy of 16 numbers.
fn copy(device: &SimDevice, from: Span, to: Span) -> Result<(), DeviceProblem> {
    let arg = |room| Some(Arg { room, operand: Operand::arena(0, DType::F32, [16]) });
    let (reads, writes) = ([arg(from)], [arg(to)]);
    let prim = prim::Copy {}.into();
    let launch = Launch { prim: &prim, reads: &reads, writes: &writes, workspace: None, step: 7 };
    device.launch(&launch, &mut []).map_err(|f| {
        assert_eq!(f.step, Some(7), "every failure of a kernel names its step");
        f.problem
    })
}

/// Row T1. Memory that is not there, not any more, not this device's, too small, or constant, is refused.
#[test]
fn each_wrong_use_is_found() {
    let sim = device(SimOptions::default());
    let (a, b) = (memory(&sim, 64, MemoryClass::Act), memory(&sim, 64, MemoryClass::Act));
    copy(&sim, a.span(), b.span()).unwrap();
    let short = memory(&sim, 63, MemoryClass::Act);
    assert!(matches!(copy(&sim, a.span(), short.span()), Err(DeviceProblem::Outside { .. })));
    let long = Span { bytes: 65, ..a.span() };
    assert!(matches!(copy(&sim, long, b.span()), Err(DeviceProblem::Outside { bytes: 65, room: 64, .. })));
    let constant = memory(&sim, 64, MemoryClass::Const);
    copy(&sim, constant.span(), b.span()).unwrap();
    assert_eq!(copy(&sim, a.span(), constant.span()), Err(DeviceProblem::ReadOnly));
    assert_eq!(copy(&sim, a.span(), a.span()), Err(DeviceProblem::Fault(Fault::Overlap)));
    let old = b.span();
    b.free().unwrap();
    assert!(matches!(copy(&sim, a.span(), old), Err(DeviceProblem::Dead { .. })));
    let other = SimDevice::new(1, SimOptions::default()).unwrap();
    let foreign = memory(&other, 64, MemoryClass::Act);
    assert_eq!(copy(&sim, foreign.span(), a.span()), Err(DeviceProblem::Foreign { owner: 1 }));
    let pointer = Pointer { device: 0, address: 12, generation: 999 };
    let unknown = copy(&sim, Span { pointer, bytes: 64 }, a.span());
    assert_eq!(unknown, Err(DeviceProblem::Unknown { address: 12 }));
    let before = Pointer { address: a.span().pointer.address - 1, ..a.span().pointer };
    assert!(matches!(
        sim.fill(Span { pointer: before, bytes: 1 }, 0),
        Err(Failure { problem: DeviceProblem::Unknown { .. }, .. })
    ));
    assert_eq!(sim.violations().len(), 8);
}

/// Row T1. A byte that a kernel writes behind its memory is found when the kernel has ended.
#[test]
fn red_zones() {
    for queue in [QueueMode::Immediate, QueueMode::Lazy] {
        let sim = device(SimOptions { queue, ..SimOptions::default() });
        let (a, b) = (memory(&sim, 64, MemoryClass::Act), memory(&sim, 64, MemoryClass::Act));
        sim.fill(a.span(), 0).unwrap();
        sim.fail(Some((FaultAt::Scribble, 1)));
        copy(&sim, a.span(), b.span()).unwrap();
        let torn = copy(&sim, a.span(), b.span()).and_then(|()| sim.sync().map_err(|f| f.problem));
        assert_eq!(torn, Err(DeviceProblem::RedZone { address: b.span().pointer.address }));
        assert!(!sim.violations().is_empty());
    }
}

/// Row T1. Fresh memory and memory that was given back is no number; who uses it too long reads that, or what came after.
#[test]
fn stale_pointers_read_what_is_there() {
    let options = SimOptions { addresses: Addresses::AdversarialReuse, generations: false, ..SimOptions::default() };
    let sim = device(options);
    let label = Label { dtype: Some(DType::F32), ..Label::new(MemoryClass::Act, "numbers") };
    let first = sim.alloc(64, &label).unwrap();
    let read = |span| {
        let mut bytes = [0; 4];
        sim.read(Span { bytes: 4, ..span }, &mut bytes).map(|()| f32::from_ne_bytes(bytes))
    };
    let old = first.span();
    assert!(read(old).unwrap().is_nan());
    first.free().unwrap();
    let second = sim.alloc(64, &label).unwrap();
    assert_eq!(second.span().pointer.address, old.pointer.address, "handed out again at once");
    sim.fill(second.span(), 0).unwrap();
    assert_eq!(read(old), Ok(0.0), "as on a real device");
    assert!(sim.violations().is_empty());
    let strict = device(SimOptions { generations: true, ..options });
    let first = strict.alloc(64, &label).unwrap();
    let old = first.span();
    first.free().unwrap();
    let _second = strict.alloc(64, &label).unwrap();
    assert!(matches!(strict.fill(old, 0).unwrap_err().problem, DeviceProblem::Dead { generation: 1, .. }));
}

/// Row T1. Nothing queued happens before the host waits; memory that is given back is used until then.
#[test]
fn the_queue_is_lazy_and_in_order() {
    let sim = device(SimOptions { queue: QueueMode::Lazy, ..SimOptions::default() });
    let (a, b) = (memory(&sim, 64, MemoryClass::Act), memory(&sim, 64, MemoryClass::Act));
    let host = sim.stage(64, &Label::new(MemoryClass::Stage, "host")).unwrap();
    sim.write_stage(host.staged(), &[9; 64]).unwrap();
    sim.upload(host.staged(), a.span()).unwrap();
    copy(&sim, a.span(), b.span()).unwrap();
    a.free().unwrap();
    assert_eq!(sim.counted().kernels, 0);
    assert_eq!(sim.counted().live(MemoryClass::Act), 0, "the queue has not come to the allocations");
    let back = sim.stage(64, &Label::new(MemoryClass::Stage, "back")).unwrap();
    sim.download(b.span(), back.staged()).unwrap();
    sim.sync().unwrap();
    let mut bytes = [0; 64];
    sim.read_stage(back.staged(), &mut bytes).unwrap();
    assert_eq!(bytes, [9; 64]);
    let stats = sim.counted();
    assert_eq!((stats.kernels, stats.syncs, stats.allocs, stats.frees), (1, 1, 2, 1));
    let copied = Copies { count: 1, bytes: 64 };
    assert_eq!((stats.uploads, stats.downloads), (copied, copied));
    assert_eq!((stats.live(MemoryClass::Act), stats.peak(MemoryClass::Act), stats.run_peak), (64, 128, 128));
    assert_eq!((stats.live(MemoryClass::Stage), sim.living().len()), (128, 1));
}

/// A failure in the queue keeps everything behind it from happening, but for memory that is given back; and is told once.
#[test]
fn failures_stop_the_queue() {
    let sim = device(SimOptions { queue: QueueMode::Lazy, ..SimOptions::default() });
    let (a, b) = (memory(&sim, 64, MemoryClass::Act), memory(&sim, 64, MemoryClass::Act));
    sim.fill(a.span(), 1).unwrap();
    sim.fill(b.span(), 2).unwrap();
    sim.sync().unwrap();
    sim.fail(Some((FaultAt::Kernel, 0)));
    copy(&sim, a.span(), b.span()).unwrap();
    sim.fill(b.span(), 3).unwrap();
    a.free().unwrap();
    assert_eq!(sim.sync().unwrap_err().step, Some(7));
    let mut bytes = [0; 64];
    sim.read(b.span(), &mut bytes).unwrap();
    assert_eq!(bytes, [2; 64]);
    assert_eq!(sim.living().len(), 1);
    sim.sync().unwrap();
}

/// Row T1. A replay uses the pointers that were recorded, and looks whether they are alive before it does anything.
#[test]
fn replays_use_what_was_recorded() {
    for queue in [QueueMode::Immediate, QueueMode::Lazy] {
        let sim = device(SimOptions { queue, ..SimOptions::default() });
        let (a, b, c) = (
            memory(&sim, 64, MemoryClass::Act),
            memory(&sim, 64, MemoryClass::Act),
            memory(&sim, 64, MemoryClass::Act),
        );
        let graph = record::<_, Failure>(&sim, || {
            sim.fill(b.span(), 5)?;
            copy(&sim, a.span(), c.span()).map_err(|p| Failure::new(DeviceCall::Launch, p))
        });
        let graph = graph.unwrap();
        assert_eq!((graph.len(), sim.counted().kernels), (2, 0), "recorded, not done");
        for byte in [1, 2] {
            sim.fill(a.span(), byte).unwrap();
            sim.replay(&graph).unwrap();
            let mut bytes = [0; 64];
            sim.read(c.span(), &mut bytes).unwrap();
            assert_eq!(bytes, [byte; 64]);
        }
        sim.fill(b.span(), 6).unwrap();
        a.free().unwrap();
        assert!(matches!(sim.replay(&graph).unwrap_err().problem, DeviceProblem::Dead { .. }));
        let mut bytes = [0; 64];
        sim.read(b.span(), &mut bytes).unwrap();
        assert_eq!(bytes, [6; 64], "nothing of it was done");
        let other = SimDevice::new(1, SimOptions::default()).unwrap();
        assert_eq!(other.replay(&graph).unwrap_err().problem, DeviceProblem::Foreign { owner: 0 });
    }
}

/// A device that does not count says so instead of zeros.
#[test]
fn counting_may_be_off() {
    assert!(device(SimOptions::default()).stats().is_some());
    assert_eq!(device(SimOptions { stats: false, ..SimOptions::default() }).stats(), None);
}

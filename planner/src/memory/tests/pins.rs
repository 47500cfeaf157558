//! How long memory is held: not a step longer than needed, and what that saves.

use super::{build::*, fixtures, random, run};
use crate::memory::{
    Options, optimise,
    pins::{Pin, saved_bytes, until},
    rules::Rules,
    schedule::eager_peak,
    tree::Tree,
};
use checker::{Points, Reason, check};
use plan::*;
use runtime::interpret::Mode;

/// The certificate of a plan whose eager schedule was changed.
fn restate(plan: &mut Plan) {
    let tree = Tree::new(plan).unwrap();
    plan.certificate.eager_peak_bytes = eager_peak(plan, &tree, Rules::default()).unwrap();
}

/// Row A2. Whatever is given back is given back at the earliest step: one earlier is rejected, one later is told.
#[test]
fn each_release_is_the_earliest() {
    let (mut earlier, mut later) = (0, 0);
    for seed in 0..random::seeds(25) {
        let plan = random::planned(seed, &Options { reorder: false, ..Options::default() });
        for b in 0..plan.buffers.len() {
            let Some(Eager { block, alloc, free: Some(free) }) = plan.buffers[b].eager else { continue };
            let moved = |to: u32| {
                let mut plan = plan.clone();
                plan.buffers[b].eager = Some(Eager { block, alloc, free: Some(to) });
                restate(&mut plan);
                check(&plan, &Points::default())
            };
            if free > alloc {
                let r = moved(free - 1).unwrap_err();
                assert_eq!(r.reason, Reason::NotHeld, "seed {seed}, buffer {b}: {r}");
                earlier += 1;
            }
            if (free as usize) + 1 < plan.blocks[block.index()].steps.len() {
                assert_eq!(moved(free + 1).unwrap().not_tight, [BufferId(b as u32)], "seed {seed}, buffer {b}");
                later += 1;
            }
        }
    }
    assert!(earlier > 100 && later > 100, "{earlier} moved earlier, {later} later");
}

/// Row A6. A view that no step reads any more, since what read it is gone, holds nothing: its root is given back after the last
/// step that there is. A root that is kept for it leaks.
#[test]
fn what_is_elided_holds_nothing() {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let (a, y, gone, z) = (b.bytes("a", 64), b.bytes("y", 32), b.bytes("gone", 64), b.bytes("z", 64));
    let reshaped = b.view("reshaped", a, &[8, 8], 0, None);
    b.step("A", gather(), &[x, x], &[a]);
    b.step("Y", gather(), &[a, x], &[y]);
    // A copy that is no step: what it reads and what it writes are one.
    let eight = b.number(8);
    b.plan.values[gone.index()].dims = Axes::of([eight, eight]);
    b.step("Elided", copy(), &[reshaped], &[gone]);
    b.step("Z", gather(), &[y, x], &[z]);
    b.output(z);
    let mut plan = b.plan;
    optimise(&mut plan, &Options { reorder: false, ..Options::default() }).unwrap();
    assert_eq!(check(&plan, &Points::default()).unwrap().not_tight, []);
    let names: Vec<&str> = plan.blocks[0].steps.iter().map(|s| &*s.name).collect();
    assert_eq!(names, ["A", "Y", "Z"]);
    let home = plan.values[a.index()].place.buffer.index();
    assert_eq!(until(&plan, &plan.buffers[home]), Some("Y"));
    plan.buffers[home].eager.as_mut().unwrap().free = None;
    restate(&mut plan);
    assert_eq!(check(&plan, &Points::default()).unwrap_err().reason, Reason::Leak);
}

/// Row B2. Held for its views until the end, `a` would stay: what giving it back in time saves is told. Either way leaves the
/// same.
#[test]
fn exact_pins_against_monotone_ones() {
    for (align, bytes) in [(8, 96), (256, 256)] {
        let b = fixtures::x3(align);
        let plan = |pin| run::planned(&b, &Options { in_place: false, reorder: false, pin, ..Options::default() });
        let ((exact, weights), (monotone, _)) = (plan(Pin::Exact), plan(Pin::Monotone));
        assert_eq!(saved_bytes(&exact), bytes);
        let runs: Vec<_> = (0..3).map(|i| run::inputs(&exact, i, 0)).collect();
        let left = |plan: &Plan, mode| run::outputs(plan, &weights, mode, &runs);
        for mode in [Mode::Static, Mode::Eager, Mode::Naive] {
            assert_eq!(left(&exact, mode), left(&monotone, mode));
        }
    }
    // Where more follows, the difference shows in the peak.
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let (a, y, t, z) = (b.bytes("a", 4096), b.bytes("y", 64), b.bytes("t", 4096), b.bytes("z", 64));
    let part = b.view("part", a, &[64], 64, None);
    b.step("A", gather(), &[x, x], &[a]);
    b.step("Y", gather(), &[part, x], &[y]);
    b.step("T", gather(), &[y, x], &[t]);
    b.step("Z", gather(), &[t, x], &[z]);
    b.output(z);
    let plan = |pin| run::planned(&b, &Options { pin, ..Options::default() }).0;
    let (exact, monotone) = (plan(Pin::Exact), plan(Pin::Monotone));
    let home = |plan: &Plan| plan.buffers[plan.values[a.index()].place.buffer.index()].clone();
    assert_eq!((until(&exact, &home(&exact)), until(&monotone, &home(&monotone))), (Some("Y"), Some("Z")));
    assert_eq!(saved_bytes(&exact), 4096);
    assert_eq!((exact.arena_bytes, monotone.arena_bytes), (4160, 8256));
    let loose = check(&monotone, &Points::default()).unwrap().not_tight;
    assert_eq!(loose, [monotone.values[a.index()].place.buffer]);
}

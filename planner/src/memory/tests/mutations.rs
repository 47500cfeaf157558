//! Plans that were right, each with one thing made wrong: the checker must say what.

use super::{build::*, random::random};
use crate::memory::{Options, optimise};
use checker::{Executor, Points, Reason, Rejection, check};
use plan::*;

/// Two branches, a loop, views, workspaces, a state, in-place steps and outputs: something for every mutation.
pub fn subject() -> Plan {
    let mut b = Build::new(64);
    let s = b.symbol(0, 1, 8);
    let width = b.number(16);
    let x = b.input("x", DType::F32, &[s, width]);
    let cond = b.input("cond", DType::Bool, &[]);
    let w = b.weight("w", &[16, 16]);
    let new = |b: &mut Build, name: &str| b.tensor(name, Class::Act, DType::F32, &[s, width]);
    let (a, h, g) = (new(&mut b, "a"), new(&mut b, "h"), new(&mut b, "g"));
    b.step("A", matmul(), &[x, w], &[a]);
    b.workspace(256);
    b.step("H", matmul(), &[a, w], &[h]);
    b.workspace(512);
    b.step("G", map(), &[h], &[g]);
    let o = new(&mut b, "o");
    b.branch(cond, |b| b.step("Then", matmul(), &[a, w], &[o]), |b| b.step("Else", matmul(), &[x, w], &[o]));
    let (p, q) = (new(&mut b, "p"), new(&mut b, "q"));
    b.step("P", matmul(), &[g, o], &[p]);
    let top = {
        let one = b.number(1);
        let Value { place, .. } = b.plan.values[p.index()].clone();
        let dims = Axes::of([one, width]);
        b.plan.values.push(Value { name: "top".into(), dtype: DType::F32, dims, place, root: None });
        ValueId(b.plan.values.len() as u32 - 1)
    };
    b.step("Q", matmul(), &[g, w], &[q]);
    let (two, five) = (b.number(2), b.number(5));
    let (used, unused) =
        (b.tensor("used", Class::Act, DType::F32, &[two]), b.tensor("unused", Class::Act, DType::F32, &[five]));
    b.step("Top", prim::TopK { axis: 0, largest: true, sorted: true }.into(), &[top], &[used, unused]);
    let y = new(&mut b, "y");
    b.step("Y", matmul(), &[q, used], &[y]);
    b.output(y);
    let state = b.tensor("state", Class::Persist, DType::F32, &[width]);
    let next = b.tensor("next", Class::Act, DType::F32, &[width]);
    b.step("Next", matmul(), &[state, y], &[next]);
    let z = b.tensor("z", Class::Act, DType::F32, &[width]);
    b.step("Z", matmul(), &[state, next], &[z]);
    b.output(z);
    b.commit(state, next);
    let mut plan = b.plan;
    optimise(&mut plan, &Options { reorder: false, ..Options::default() }).unwrap();
    check(&plan, &Points::default()).unwrap();
    plan
}

pub fn value(plan: &Plan, name: &str) -> ValueId {
    ValueId(plan.values.iter().position(|v| v.name == name).unwrap() as u32)
}

pub fn home(plan: &Plan, name: &str) -> usize {
    plan.values[value(plan, name).index()].place.buffer.index()
}

pub fn step(plan: &Plan, name: &str) -> usize {
    plan.blocks[0].steps.iter().position(|s| s.name == name).unwrap()
}

#[track_caller]
pub fn rejected(plan: &Plan) -> Rejection {
    match check(plan, &Points::default()) {
        Err(r) => r,
        Ok(report) => panic!("accepted: {report:?}"),
    }
}

/// Mutates the subject; it must be rejected for this reason, at this step, with this tensor where they are given.
#[track_caller]
pub fn expect(mutate: impl FnOnce(&mut Plan), reason: Reason, step: Option<&str>, tensor: Option<&str>) -> Rejection {
    let mut plan = subject();
    mutate(&mut plan);
    let r = rejected(&plan);
    assert_eq!(r.reason, reason, "{r}");
    if let Some(name) = step {
        let (block, i) = r.step.unwrap();
        assert_eq!(plan.blocks[block.index()].steps.get(i as usize).map_or("end", |s| s.name.as_str()), name, "{r}");
    }
    if let Some(name) = tensor {
        assert_eq!(r.value.map(|v| plan.values[v.index()].name.as_str()), Some(name), "{r}");
    }
    r
}

/// The peak that the eager schedule now has, so that only what is meant is wrong.
pub fn restate(plan: &mut Plan) {
    for peak in 0..100_000 {
        plan.certificate.eager_peak_bytes = peak * 64;
        match check(plan, &Points::default()) {
            Err(r) if r.reason == Reason::Certificate => {}
            _ => return,
        }
    }
}

/// Gives a buffer back one step early.
pub fn free_one_step_early(p: &mut Plan) {
    let b = home(p, "g");
    p.buffers[b].eager.as_mut().unwrap().free = Some(step(p, "P") as u32);
    restate(p);
}

/// Never gives a buffer back.
pub fn omit_a_free(p: &mut Plan) {
    let b = home(p, "q");
    p.buffers[b].eager.as_mut().unwrap().free = None;
    restate(p);
}

/// Puts a buffer where none may begin.
pub fn misalign(p: &mut Plan) {
    let b = home(p, "y");
    p.buffers[b].offset += 4;
    p.arena_bytes += 64;
}

/// Runs a step before the one that it reads from.
pub fn swap_two_steps(p: &mut Plan) {
    let (a, b) = (step(p, "H"), step(p, "G"));
    p.blocks[0].steps.swap(a, b);
}

/// Lets a step write over what it reads, where its primitive does not permit it.
pub fn over_an_operand(p: &mut Plan) {
    let (a, b) = (home(p, "q"), home(p, "g"));
    p.buffers[a].offset = p.buffers[b].offset;
}

/// Keeps a state in memory of the run.
pub fn state_outside(p: &mut Plan) {
    let b = home(p, "state");
    p.buffers[b].class = Class::Act;
    p.certificate.persist_bytes = 0;
}

/// Lets a step write over a state that is not its own.
pub fn in_place_on_a_state(p: &mut Plan) {
    share(p, "z", "state");
}

/// Admits one more than the range.
pub fn admit_one_more(p: &mut Plan) {
    p.symbols[0].hi += 1;
}

/// Makes an input an output.
pub fn output_of_the_caller(p: &mut Plan) {
    p.outputs[0].value = value(p, "x");
}

/// States another peak.
pub fn peak_off_by_one(p: &mut Plan) {
    p.certificate.eager_peak_bytes += 1;
}

/// Row T4. As the name says.
#[test]
fn m01_free_one_step_early() {
    let r = expect(free_one_step_early, Reason::NotHeld, Some("Q"), Some("g"));
    assert_eq!(r.executor, Some(Executor::Eager));
}

/// Row T4. A buffer has one place for its release, so that a plan cannot say "twice"; taking it too late is what can be said.
#[test]
fn m02_take_too_late() {
    expect(
        |p| {
            let b = home(p, "g");
            p.buffers[b].eager.as_mut().unwrap().alloc = step(p, "Q") as u32;
            restate(p);
        },
        Reason::NotHeld,
        Some("H"),
        Some("h"),
    );
}

/// Row T4. As the name says.
#[test]
fn m03_omit_a_free() {
    expect(omit_a_free, Reason::Leak, Some("end"), None);
}

/// Row T4. As the name says.
#[test]
fn m04_free_what_is_not_ours() {
    for name in ["w", "x", "state"] {
        expect(
            |p| {
                let b = home(p, name);
                p.buffers[b].eager = Some(Eager { block: BlockId(0), alloc: 0, free: Some(5) });
            },
            Reason::FreedTwice,
            None,
            None,
        );
    }
}

/// Rows A1 and T4. A planner that ignored what bodies read would give this back too early.
#[test]
fn m05_drop_a_capture_use() {
    expect(
        |p| {
            let b = home(p, "a");
            p.buffers[b].eager.as_mut().unwrap().free = Some(step(p, "H") as u32);
            restate(p);
        },
        Reason::NotHeld,
        Some("Then"),
        Some("a"),
    );
}

/// Row T4. As the name says.
#[test]
fn m06_drop_an_output_use() {
    expect(
        |p| {
            let b = home(p, "y");
            p.buffers[b].eager.as_mut().unwrap().free = Some(step(p, "Next") as u32);
            restate(p);
        },
        Reason::NotHeld,
        Some("end"),
        Some("y"),
    );
}

/// Row T4. As the name says.
#[test]
fn m07_view_off_its_root() {
    expect(
        |p| {
            let to = p.values[value(p, "q").index()].place.buffer;
            let v = value(p, "top");
            p.values[v.index()].place.buffer = to;
        },
        Reason::Root,
        None,
        Some("top"),
    );
    // Beyond the root's end.
    expect(
        |p| {
            let far = ExprId(p.exprs.len() as u32);
            p.exprs.push(Expr::Const(16 * 8));
            let v = value(p, "top");
            p.values[v.index()].place.offset = far;
        },
        Reason::OutsideBuffer,
        Some("Top"),
        Some("top"),
    );
}

/// Row B1. A view whose last element is its root's last one is accepted, for every size; one element on it is rejected.
#[test]
fn views_end_with_their_roots() {
    let view = |offset: i64, strides: [i64; 2]| {
        let mut b = Build::new(64);
        let x = b.input_bytes("x", 64);
        let (a, y) = (b.bytes("a", 24), b.bytes("y", 6));
        let v = b.view("v", a, &[2, 3], offset, Some(&strides));
        b.step("A", gather(), &[x, x], &[a]);
        b.step("Y", map(), &[v], &[y]);
        b.output(y);
        let mut plan = b.plan;
        optimise(&mut plan, &Options::default()).unwrap();
        check(&plan, &Points::default()).map(drop).map_err(|r| (r.reason, r.value == Some(v)))
    };
    let outside = Err((Reason::OutsideBuffer, true));
    assert_eq!(view(19, [2, 1]), Ok(()));
    assert_eq!(view(20, [2, 1]), outside);
    assert_eq!(view(5, [-3, -1]), Ok(()));
    assert_eq!(view(4, [-3, -1]), outside);
    assert_eq!(view(3, [0, 10]), Ok(()));
    assert_eq!(view(4, [0, 10]), outside);
    assert_eq!(view(i64::MAX - 1, [2, 1]), outside);
}

/// `from` is put into the buffer of `into`.
pub fn share(p: &mut Plan, from: &str, into: &str) {
    let to = p.values[value(p, into).index()].place.buffer;
    let v = value(p, from);
    p.values[v.index()].place.buffer = to;
}

/// Row T4. As the name says.
#[test]
fn m08_in_place_with_a_later_reader() {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let (a, c, d) = (b.bytes("a", 64), b.bytes("c", 64), b.bytes("d", 64));
    b.step("A", gather(), &[x, x], &[a]);
    b.step("C", map(), &[a], &[c]);
    b.step("D", map(), &[a, c], &[d]);
    b.output(d);
    let mut plan = b.plan;
    optimise(&mut plan, &Options { in_place: false, reorder: false, ..Options::default() }).unwrap();
    share(&mut plan, "c", "a");
    let r = rejected(&plan);
    assert_eq!((r.reason, r.value), (Reason::Read, Some(a)), "{r}");
    assert_eq!(r.found, Some(checker::Owner::Value(c)));
}

/// Row T4. As the name says.
#[test]
fn m09_in_place_on_a_state() {
    expect(in_place_on_a_state, Reason::Write, Some("Z"), Some("z"));
}

/// Row T4. As the name says.
#[test]
fn m10_in_place_on_a_part() {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let a = b.bytes("a", 64);
    let part = b.view("part", a, &[32], 32, None);
    let c = b.bytes("c", 32);
    b.step("A", gather(), &[x, x], &[a]);
    b.step("C", map(), &[part], &[c]);
    b.output(c);
    let mut plan = b.plan;
    optimise(&mut plan, &Options { reorder: false, ..Options::default() }).unwrap();
    assert_ne!(home(&plan, "a"), home(&plan, "c"));
    share(&mut plan, "c", "a");
    let half = plan.values[part.index()].place.offset;
    plan.values[c.index()].place.offset = plan.values[a.index()].place.offset;
    // Not where the operand lies: fine, they do not meet. Half over it: not fine.
    plan.exprs.push(Expr::Const(16));
    plan.values[c.index()].place.offset = ExprId(plan.exprs.len() as u32 - 1);
    assert_ne!(plan.values[c.index()].place.offset, half);
    let r = rejected(&plan);
    assert_eq!((r.reason, r.value), (Reason::InPlace, Some(c)), "{r}");
}

/// Row T4. As the name says.
#[test]
fn m11_two_live_roots_at_one_offset() {
    expect(
        |p| {
            let (a, b) = (home(p, "g"), home(p, "p"));
            p.buffers[b].offset = p.buffers[a].offset;
        },
        Reason::InPlace,
        Some("P"),
        Some("p"),
    );
    expect(
        |p| {
            let (a, b) = (home(p, "p"), home(p, "q"));
            p.buffers[b].offset = p.buffers[a].offset;
        },
        Reason::Read,
        Some("Top"),
        Some("top"),
    );
}

/// Row T4. As the name says.
#[test]
fn m12_overlap_by_one_line() {
    let r = expect(
        |p| {
            let (a, b) = (home(p, "g"), home(p, "p"));
            let end = p.buffers[a].offset + p.buffers[a].max_bytes.next_multiple_of(64);
            p.buffers[b].offset = end - 64;
            p.arena_bytes += 1 << 20;
            p.certificate.optimal = false;
        },
        Reason::InPlace,
        Some("P"),
        Some("p"),
    );
    assert!(r.bytes.is_some());
}

/// Row T4. As the name says.
#[test]
fn m13_arena_too_small() {
    expect(
        |p| {
            p.arena_bytes -= 64;
            p.certificate.optimal = false;
        },
        Reason::OutsideArena,
        None,
        None,
    );
}

/// Row T4. As the name says.
#[test]
fn m14_misaligned() {
    expect(misalign, Reason::Misaligned, None, None);
}

/// Row T4. As the name says.
#[test]
fn m15_swap_two_steps() {
    expect(swap_two_steps, Reason::Read, Some("G"), Some("h"));
}

/// Row T4. As the name says.
#[test]
fn m16_omit_a_step() {
    expect(
        |p| {
            let i = step(p, "Commit");
            p.blocks[0].steps.remove(i);
            let b = home(p, "next");
            p.buffers[b].eager.as_mut().unwrap().free = Some(i as u32 - 1);
            restate(p);
        },
        Reason::State,
        Some("end"),
        Some("next"),
    );
    expect(
        |p| {
            let i = step(p, "G");
            p.blocks[0].steps[i].action = Action::Run {
                prim: map(),
                reads: vec![Some(value(p, "h"))],
                writes: vec![None],
                workspace: None,
                defines: Vec::new(),
            };
        },
        Reason::Read,
        Some("P"),
        Some("g"),
    );
}

/// Row T4. As the name says.
#[test]
fn m20_m21_workspace() {
    expect(
        |p| {
            // The workspace of `H` over the operand of `H`.
            let i = step(p, "H");
            let Action::Run { workspace: Some(w), .. } = p.blocks[0].steps[i].action else { unreachable!() };
            let a = home(p, "a");
            p.buffers[w.index()].offset = p.buffers[a].offset;
        },
        Reason::Workspace,
        Some("H"),
        Some("a"),
    );
    expect(
        |p| {
            let i = step(p, "H");
            let Action::Run { workspace: Some(w), .. } = p.blocks[0].steps[i].action else { unreachable!() };
            p.buffers[w.index()].max_bytes -= 1;
            restate(p);
        },
        Reason::Capacity,
        Some("H"),
        None,
    );
}

/// Row T4. As the name says.
#[test]
fn m22_over_an_operand_without_permission() {
    expect(over_an_operand, Reason::InPlace, Some("Q"), Some("q"));
}

/// Row T4. As the name says.
#[test]
fn m23_state_outside_what_persists() {
    expect(state_outside, Reason::State, None, Some("state"));
}

/// Row T4. As the name says.
#[test]
fn m24_capacity_from_the_lower_bound() {
    expect(
        |p| {
            let b = home(p, "q");
            p.buffers[b].max_bytes = 64;
            restate(p);
        },
        Reason::Capacity,
        Some("Q"),
        None,
    );
}

/// Row T4. As the name says.
#[test]
fn m25_range_too_wide() {
    expect(admit_one_more, Reason::Capacity, None, None);
}

/// Row T4. As the name says.
#[test]
fn m26_dead_output_over_a_live_tensor() {
    expect(
        |p| {
            let (a, b) = (home(p, "unused"), home(p, "q"));
            p.buffers[a].offset = p.buffers[b].offset;
        },
        Reason::Read,
        Some("Y"),
        Some("q"),
    );
}

/// Row T4. As the name says.
#[test]
fn m27_output_in_the_callers_memory() {
    expect(output_of_the_caller, Reason::EscapingAlias, None, Some("x"));
}

/// Row T4. A loop that swaps what it carries: each next value is the other's current one, so that one has to be set aside.
#[test]
fn m28_carried_pair_not_swapped() {
    let build = || {
        let mut b = Build::new(64);
        let x = b.input_bytes("x", 64);
        let trip = b.input("trip", DType::I64, &[]);
        let (c, d, aside, y) = (b.bytes("c", 64), b.bytes("d", 64), b.bytes("aside", 64), b.bytes("y", 64));
        b.step("C", copy(), &[x], &[c]);
        b.step("D", gather(), &[x, x], &[d]);
        let counter = b.any_symbol(SymbolKind::Run {}, 0, 9);
        let Expr::Symbol(counter) = b.plan.exprs[counter.index()] else { unreachable!() };
        let max_trips = b.number(9);
        let body = b.body(|b| {
            b.step("Aside", copy(), &[c], &[aside]);
            b.step("Carry", copy(), &[d], &[c]);
            b.step("Carry", copy(), &[aside], &[d]);
        });
        b.act_step("Loop", Action::Loop { trip: Some(trip), cond: None, counter, body, max_trips });
        b.step("Y", gather(), &[c, d], &[y]);
        b.output(y);
        let mut plan = b.plan;
        optimise(&mut plan, &Options { reorder: false, ..Options::default() }).unwrap();
        check(&plan, &Points::default()).unwrap();
        (plan, c)
    };
    // Set aside too late: what is read is the next value already.
    let (mut plan, c) = build();
    plan.blocks[1].steps.swap(0, 1);
    let r = rejected(&plan);
    assert_eq!((r.reason, r.value, r.step), (Reason::Carried, Some(c), Some((BlockId(1), 1))), "{r}");
    // Not set aside at all.
    let (mut plan, c) = build();
    plan.blocks[1].steps.remove(0);
    let Action::Run { reads, .. } = &mut plan.blocks[1].steps[1].action else { unreachable!() };
    reads[0] = Some(c);
    let aside = home(&plan, "aside");
    plan.buffers[aside].eager = None;
    restate(&mut plan);
    assert_eq!(rejected(&plan).reason, Reason::Carried);
}

/// Row T4. A loop whose body computes the next value straight over the one that it carries, while it still reads it.
#[test]
fn m28_carried_value_overwritten_too_early() {
    let build = |early: bool| {
        let mut b = Build::new(64);
        let x = b.input_bytes("x", 64);
        let trip = b.input("trip", DType::I64, &[]);
        let (c, next, y) = (b.bytes("c", 64), b.bytes("next", 64), b.bytes("y", 64));
        b.step("Init", copy(), &[x], &[c]);
        let Expr::Symbol(counter) = ({
            let e = b.any_symbol(SymbolKind::Run {}, 0, 9);
            b.plan.exprs[e.index()]
        }) else {
            unreachable!()
        };
        let max_trips = b.number(9);
        let body = b.body(|b| {
            b.step("Next", gather(), &[c, x], &[next]);
            b.step("Carry", copy(), &[next], &[c]);
        });
        b.act_step("Loop", Action::Loop { trip: Some(trip), cond: None, counter, body, max_trips });
        b.step("Y", gather(), &[c, x], &[y]);
        b.output(y);
        let mut plan = b.plan;
        optimise(&mut plan, &Options::default()).unwrap();
        if early {
            plan.blocks[1].steps.swap(0, 1);
        }
        plan
    };
    check(&build(false), &Points::default()).unwrap();
    let r = rejected(&build(true));
    assert_eq!(r.reason, Reason::Read, "{r}");
}

/// Row T4. What the host has to look at is no part of a recorded segment: neither a branch, nor a step that finds an extent.
#[test]
fn m18_host_step_in_a_segment() {
    expect(
        |p| {
            let i = step(p, "If");
            p.blocks[0].steps[i].capture = Capture::Safe {};
        },
        Reason::Capture,
        Some("If"),
        None,
    );
    let plan = random(1).plan;
    let finds = |s: &Step| matches!(&s.action, Action::Run { defines, .. } if !defines.is_empty());
    let with = (0..).map(|seed| random(seed).plan).find(|p| p.blocks[0].steps.iter().any(finds));
    let mut plan = with.unwrap_or(plan);
    optimise(&mut plan, &Options { reorder: false, ..Options::default() }).unwrap();
    let i = plan.blocks[0].steps.iter().position(finds).unwrap();
    plan.blocks[0].steps[i].capture = Capture::Safe {};
    let r = rejected(&plan);
    assert_eq!((r.reason, r.step), (Reason::Capture, Some((BlockId(0), i as u32))), "{r}");
}

/// Row T4. What is made before a seam and used after it keeps its place, whatever the seam does: no workspace of the branch between may
/// lie there.
#[test]
fn m19_boundary_value_overwritten_by_the_seam() {
    let mut plan = subject();
    let g = plan.buffers[home(&plan, "g")].offset;
    let o = home(&plan, "o");
    // `o` is written by the branches, between `g` and its use.
    plan.buffers[o].offset = g;
    let r = rejected(&plan);
    assert_eq!((r.reason, r.value), (Reason::Read, Some(value(&plan, "g"))), "{r}");
    let at = r.step.unwrap();
    assert_eq!(plan.blocks[0].steps[at.1 as usize].name, "P");
}

/// Row T4. A step with the workspace of another one.
#[test]
fn m29_stale_reservation() {
    expect(
        |p| {
            let (a, h) = (step(p, "A"), step(p, "H"));
            let Action::Run { workspace: stale, .. } = p.blocks[0].steps[a].action else { unreachable!() };
            let Action::Run { workspace, .. } = &mut p.blocks[0].steps[h].action else { unreachable!() };
            let own = std::mem::replace(workspace, stale).unwrap();
            p.buffers[own.index()].eager = None;
            // Apart from everything, so that only the reservation is wrong.
            p.buffers[stale.unwrap().index()].offset = p.arena_bytes;
            p.arena_bytes += 1024;
            restate(p);
        },
        Reason::NotHeld,
        Some("H"),
        None,
    );
}

/// Row T4. As the name says.
#[test]
fn m30_stated_peak_off_by_one() {
    expect(peak_off_by_one, Reason::Certificate, None, None);
    expect(|p| p.certificate.persist_bytes += 1, Reason::Certificate, None, None);
    expect(|p| p.certificate.lower_bound_bytes += 64, Reason::Certificate, None, None);
}

#[test]
fn states_are_written_last() {
    expect(
        |p| {
            let i = step(p, "Commit");
            let commit = p.blocks[0].steps.remove(i);
            let z = step(p, "Z");
            p.blocks[0].steps.insert(z, commit);
        },
        Reason::Read,
        Some("Z"),
        Some("state"),
    );
    expect(
        |p| {
            let i = step(p, "Z");
            let Action::Run { reads, writes, .. } = p.blocks[0].steps[i].action.clone() else { unreachable!() };
            let prim = gather();
            let reads = vec![reads[1], reads[1]];
            p.blocks[0].steps[i].action = Action::Run { prim, reads, writes, workspace: None, defines: Vec::new() };
            p.blocks[0].steps.swap(i, i + 1);
        },
        Reason::StateBeforeFailure,
        Some("Z"),
        None,
    );
}

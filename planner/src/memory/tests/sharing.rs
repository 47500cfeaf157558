//! What shares memory, and what must not and why.

use super::build::*;
use crate::memory::{Options, optimise};
use plan::*;

/// Planned in the file's order, and accepted.
#[track_caller]
fn planned(b: Build) -> Plan {
    let mut plan = b.plan;
    optimise(&mut plan, &Options { reorder: false, ..Options::default() }).unwrap();
    checker::check(&plan, &checker::Points::default()).unwrap();
    plan
}

#[track_caller]
fn shares(plan: &Plan, a: ValueId, b: ValueId) -> bool {
    plan.values[a.index()].place.buffer == plan.values[b.index()].place.buffer
}

fn names(plan: &Plan, block: usize) -> Vec<&str> {
    plan.blocks[block].steps.iter().map(|s| s.name.as_str()).collect()
}

#[track_caller]
fn refused(plan: &Plan, value: ValueId, reason: &str) {
    let reasons: Vec<&str> =
        plan.certificate.refusals.iter().filter(|r| r.value == value).map(|r| r.reason.as_str()).collect();
    assert!(reasons.iter().any(|r| r.contains(reason)), "{reason:?} is not among {reasons:?}");
}

/// Rows A13 and B4. One plan for each condition of writing over an operand, refused for that condition.
#[test]
fn every_condition_of_in_place() {
    let refuse = |reason: &str, f: &dyn Fn(&mut Build, ValueId) -> (ValueId, ValueId)| {
        let mut b = Build::new(64);
        let x = b.input_bytes("x", 64);
        let (read, written) = f(&mut b, x);
        b.output(written);
        let plan = planned(b);
        assert!(!shares(&plan, read, written), "{reason}");
        refused(&plan, read, reason);
    };
    let made = |b: &mut Build, x: ValueId, n: i64| {
        let a = b.bytes("a", n);
        b.step("A", gather(), &[x, x], &[a]);
        a
    };
    refuse("the caller's", &|b, x| {
        let y = b.bytes("y", 64);
        b.step("Y", map(), &[x], &[y]);
        (x, y)
    });
    refuse("read later", &|b, x| {
        let (a, y, z) = (made(b, x, 64), b.bytes("y", 64), b.bytes("z", 64));
        b.step("Y", map(), &[a], &[y]);
        b.step("Z", gather(), &[a, y], &[z]);
        b.output(z);
        (a, y)
    });
    refuse("an output", &|b, x| {
        let (a, y) = (made(b, x, 64), b.bytes("y", 64));
        b.step("Y", map(), &[a], &[y]);
        b.output(a);
        (a, y)
    });
    refuse("more than once", &|b, x| {
        let (a, y) = (made(b, x, 64), b.bytes("y", 64));
        b.step("Y", map(), &[a, a], &[y]);
        (a, y)
    });
    refuse("extents are others", &|b, x| {
        let (a, y) = (made(b, x, 32), b.bytes("y", 64));
        b.step("Y", map(), &[a], &[y]);
        (a, y)
    });
    refuse("another size", &|b, x| {
        let a = made(b, x, 64);
        let n = b.number(64);
        let y = b.tensor("y", Class::Act, DType::F32, &[n]);
        b.step("Y", map(), &[a], &[y]);
        (a, y)
    });
    refuse("a part of a larger tensor", &|b, x| {
        let a = made(b, x, 128);
        let (part, y) = (b.view("part", a, &[64], 64, None), b.bytes("y", 64));
        b.step("Y", map(), &[part], &[y]);
        (part, y)
    });
    refuse("another order", &|b, x| {
        let a = made(b, x, 64);
        let (n, y) = (b.view("turned", a, &[8, 8], 0, Some(&[1, 8])), b.act("y", &[1]));
        let dims = [b.number(8), b.number(8)];
        b.plan.values[y.index()].dtype = DType::U8;
        b.plan.values[y.index()].dims = Axes::of(dims);
        let bytes = b.number(64);
        b.buffer_of(y).bytes = bytes;
        b.buffer_of(y).max_bytes = 64;
        b.step("Y", map(), &[n], &[y]);
        (n, y)
    });
    refuse("a state", &|b, _| {
        let (s, y, next) = (b.state("s", 64), b.bytes("y", 64), b.bytes("next", 64));
        b.step("Y", map(), &[s], &[y]);
        b.step("Next", gather(), &[y, y], &[next]);
        b.commit(s, next);
        (s, y)
    });
    refuse("another block", &|b, x| {
        let a = made(b, x, 64);
        let cond = b.input("cond", DType::Bool, &[]);
        let y = b.bytes("y", 64);
        b.branch(cond, |b| b.step("Y", map(), &[a], &[y]), |b| b.step("E", gather(), &[x, x], &[y]));
        (a, y)
    });
}

/// A branch's own tensor becomes the result of the `If`, though that belongs to the block outside.
#[test]
fn a_branch_writes_over_its_own() {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let cond = b.input("cond", DType::Bool, &[]);
    let (t, e, y) = (b.bytes("t", 64), b.bytes("e", 64), b.bytes("y", 64));
    let then = |b: &mut Build| {
        b.step("T", gather(), &[x, x], &[t]);
        b.step("Out", map(), &[t], &[y]);
    };
    let other = |b: &mut Build| {
        b.step("E", gather(), &[x, x], &[e]);
        b.step("Out", copy(), &[e], &[y]);
    };
    b.branch(cond, then, other);
    b.output(y);
    let plan = planned(b);
    assert!(shares(&plan, t, y) && shares(&plan, e, y));
    assert_eq!(names(&plan, 2), ["E"]);
    assert_eq!(plan.arena_bytes, 64);
}

#[test]
fn a_copy_whose_source_ends_is_no_step() {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let (a, c, y) = (b.bytes("a", 64), b.bytes("c", 64), b.bytes("y", 64));
    b.step("A", gather(), &[x, x], &[a]);
    b.step("Copy", copy(), &[a], &[c]);
    b.step("Y", gather(), &[c, x], &[y]);
    b.output(y);
    let plan = planned(b);
    assert_eq!(names(&plan, 0), ["A", "Y"]);
    assert!(shares(&plan, a, c));
}

/// Three operands in a row, one of them read again later: all are written straight into the result.
#[test]
fn concatenations_are_built_in_place() {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let [p, q, r] = ["p", "q", "r"].map(|n| b.act(n, &[1, 4, 8]));
    let y = b.act("y", &[1, 12, 8]);
    let (z, o) = (b.act("z", &[1, 4, 8]), b.act("o", &[1]));
    for v in [p, q, r] {
        b.step("Make", gather(), &[x, x], &[v]);
    }
    b.step("Concat", concat(1), &[p, q, r], &[y]);
    b.step("Z", map(), &[q], &[z]);
    b.step("O", gather(), &[y, z], &[o]);
    b.output(o);
    let plan = planned(b);
    assert_eq!(names(&plan, 0), ["Make", "Make", "Make", "Z", "O"]);
    let offset = |v: ValueId| evaluate(&plan.exprs, plan.values[v.index()].place.offset, &|_| None);
    assert!([p, q, r].iter().all(|v| shares(&plan, *v, y)));
    assert_eq!([p, q, r].map(|v| offset(v).unwrap()), [0, 32, 64]);
    assert!(!shares(&plan, z, y), "a part of the result is no buffer to take");
}

/// Dense blocks: each result is the first operand of the next one.
#[test]
fn concatenations_nest() {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let mut all = b.act("first", &[1, 4, 8]);
    b.step("Make", gather(), &[x, x], &[all]);
    for i in 2..6 {
        let (part, next) = (b.act("part", &[1, 4, 8]), b.act("next", &[1, 4 * i, 8]));
        b.step("Make", gather(), &[all, x], &[part]);
        b.step("Concat", concat(1), &[all, part], &[next]);
        all = next;
    }
    let out = b.act("out", &[1]);
    b.step("Out", gather(), &[all, x], &[out]);
    b.output(out);
    let plan = planned(b);
    assert!(!names(&plan, 0).contains(&"Concat"));
    assert_eq!(plan.arena_bytes, 4 * 20 * 8 + 64);
}

/// A tensor that was split, and whose halves are joined again with a third.
#[test]
fn halves_go_back_together() {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let (a, m, y, o) = (b.act("a", &[1, 8, 8]), b.act("m", &[1, 4, 8]), b.act("y", &[1, 12, 8]), b.act("o", &[1]));
    let (left, right) = (b.view("left", a, &[1, 4, 8], 0, None), b.view("right", a, &[1, 4, 8], 32, None));
    b.step("A", gather(), &[x, x], &[a]);
    b.step("M", gather(), &[right, x], &[m]);
    b.step("Concat", concat(1), &[left, right, m], &[y]);
    b.step("O", gather(), &[y, x], &[o]);
    b.output(o);
    let plan = planned(b);
    assert_eq!(names(&plan, 0), ["A", "M", "O"]);
    assert!(shares(&plan, a, y) && shares(&plan, m, y));
}

/// Along an inner axis, where the steps take strides.
#[test]
fn concatenations_along_an_inner_axis() {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let (p, q, y, o) = (b.act("p", &[6, 4]), b.act("q", &[6, 4]), b.act("y", &[6, 8]), b.act("o", &[1]));
    let k = b.act("k", &[6, 4]);
    b.step("K", gather(), &[x, x], &[k]);
    b.step("P", map(), &[k], &[p]);
    b.step("Q", gather(), &[k, x], &[q]);
    b.step("Concat", concat(1), &[p, q], &[y]);
    b.step("O", gather(), &[y, x], &[o]);
    b.output(o);
    let plan = planned(b);
    // `Q` cannot write with strides, so it is copied.
    assert_eq!(names(&plan, 0), ["K", "P", "Q", "Concat", "O"]);
    assert!(shares(&plan, p, y) && !shares(&plan, q, y));
    refused(&plan, q, "needs it contiguous");
}

/// Two parts whose rows alternate in the result: one made from the other is a copy, and the checker knows why.
#[test]
fn alternating_parts_are_not_touched_by_one_step() {
    let build = |from_p: bool| {
        let mut b = Build::new(64);
        let x = b.input_bytes("x", 64);
        let (p, q, y, o) = (b.act("p", &[6, 4]), b.act("q", &[6, 4]), b.act("y", &[6, 8]), b.act("o", &[1]));
        let k = b.act("k", &[6, 4]);
        b.step("K", gather(), &[x, x], &[k]);
        b.step("P", map(), &[k], &[p]);
        b.step("Q", map(), &[if from_p { p } else { k }], &[q]);
        b.step("Concat", concat(1), &[p, q], &[y]);
        // `k` lives on, so that neither part takes its memory.
        b.step("O", gather(), &[y, k], &[o]);
        b.output(o);
        (planned(b), p, q, y)
    };
    let (plan, p, q, y) = build(true);
    assert!(shares(&plan, p, y) && !shares(&plan, q, y));
    refused(&plan, q, "another part");
    let (mut plan, p, q, y) = build(false);
    assert!(shares(&plan, p, y) && shares(&plan, q, y));
    let i = plan.blocks[0].steps.iter().position(|s| s.name == "Q").unwrap();
    let Action::Run { reads, .. } = &mut plan.blocks[0].steps[i].action else { panic!("no step") };
    reads[0] = Some(p);
    assert_eq!(checker::check(&plan, &checker::Points::default()).unwrap_err().reason, checker::Reason::InPlace);
}

fn with_state(f: impl FnOnce(&mut Build, ValueId, ValueId, ValueId)) -> (Plan, ValueId, ValueId) {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let (s, next) = (b.state("s", 64), b.bytes("next", 64));
    f(&mut b, x, s, next);
    b.commit(s, next);
    (planned(b), s, next)
}

/// The next state takes its state's memory where its writer follows the last reader and nothing can fail any more.
#[test]
fn states_in_place() {
    let (plan, s, next) = with_state(|b, x, s, next| {
        let y = b.bytes("y", 64);
        b.step("Y", matmul(), &[s, x], &[y]);
        b.step("Next", matmul(), &[y, x], &[next]);
        b.output(y);
    });
    assert!(shares(&plan, s, next));
    assert_eq!(names(&plan, 0), ["Y", "Next"]);
    // The writer is the last reader, and may write over what it reads.
    let (plan, s, next) = with_state(|b, _, s, next| b.step("Next", map(), &[s], &[next]));
    assert!(shares(&plan, s, next));
    assert_eq!(plan.arena_bytes, 64);
}

#[test]
fn states_that_must_be_copied() {
    let copied = |reason: &str, f: &dyn Fn(&mut Build, ValueId, ValueId, ValueId)| {
        let (plan, s, next) = with_state(f);
        assert!(!shares(&plan, s, next), "{reason}");
        assert_eq!(names(&plan, 0).last(), Some(&"Commit"));
        refused(&plan, next, reason);
    };
    copied("after its next value is written", &|b, x, s, next| {
        let y = b.bytes("y", 64);
        b.step("Next", matmul(), &[x, x], &[next]);
        b.step("Y", matmul(), &[s, next], &[y]);
        b.output(y);
    });
    copied("can fail", &|b, x, s, next| {
        let y = b.bytes("y", 64);
        b.step("Next", map(), &[s], &[next]);
        b.step("Y", gather(), &[x, x], &[y]);
        b.output(y);
    });
    copied("may not write over it", &|b, x, s, next| b.step("Next", matmul(), &[s, x], &[next]));
    copied("is an output", &|b, _, s, next| {
        b.step("Next", map(), &[s], &[next]);
        b.output(next);
    });
}

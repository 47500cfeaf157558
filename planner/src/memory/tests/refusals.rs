//! Every reason for not sharing memory, each in a plan that has it.

use super::build::*;
use crate::memory::{Options, optimise};
use plan::*;
use std::collections::BTreeSet;

/// Reasons that only a plan with indices that point nowhere, or with contradictory sizes, could have: such plans are refused before.
const NEVER: [&str; 6] = [
    "it does not exist",
    "it is not used",
    "its buffer is of another size",
    "the result is not used",
    "the result belongs to another block",
    "its next value is not written",
];

/// The reasons that the sources know: what is written in them as one, in quotes.
fn known() -> BTreeSet<String> {
    let sources = [
        include_str!("../alias.rs"),
        include_str!("../take.rs"),
        include_str!("../concat.rs"),
        include_str!("../states.rs"),
    ];
    let lines = sources.iter().flat_map(|s| s.lines()).filter(|l| !l.trim_start().starts_with("//"));
    let quoted = lines.flat_map(|l| l.split('"').skip(1).step_by(2));
    // Those with a place in braces are put together with one of the others.
    let whole = quoted.filter(|q| !q.contains('{')).map(|q| q.rsplit(": ").next().unwrap_or(q));
    let begins = |q: &&str| ["it ", "its ", "the ", "both ", "a step "].iter().any(|b| q.starts_with(b));
    whole.filter(begins).map(str::to_owned).collect()
}

/// The reasons in the plan that `f` builds, whatever else it is good for.
fn reasons(f: &dyn Fn(&mut Build, ValueId)) -> BTreeSet<String> {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    f(&mut b, x);
    optimise(&mut b.plan, &Options { reorder: false, ..Options::default() }).unwrap();
    b.plan.certificate.refusals.into_iter().map(|r| r.reason).collect()
}

/// A tensor that a step made.
fn made(b: &mut Build, x: ValueId, name: &str, dims: &[i64]) -> ValueId {
    let a = b.act(name, dims);
    b.step("A", gather(), &[x, x], &[a]);
    a
}

/// Writing over an operand, or doing without a copy.
fn in_place(all: &mut Vec<(&'static str, BTreeSet<String>)>) {
    let mut add = |reason, f: &dyn Fn(&mut Build, ValueId)| all.push((reason, reasons(f)));
    add("both lie in one buffer already", &|b, x| {
        let a = made(b, x, "a", &[16]);
        let v = b.view("v", a, &[16], 0, None);
        b.step("V", map(), &[a], &[v]);
        b.output(v);
    });
    add("it belongs to another block", &|b, x| {
        let (a, y, cond) = (made(b, x, "a", &[16]), b.act("y", &[16]), b.input("cond", DType::Bool, &[]));
        b.branch(cond, |b| b.step("Y", map(), &[a], &[y]), |b| b.step("E", gather(), &[x, x], &[y]));
        b.output(y);
    });
    add("it is a constant", &|b, _| {
        let (w, y) = (b.weight("w", &[16]), b.act("y", &[16]));
        b.step("Y", copy(), &[w], &[y]);
        b.output(y);
    });
    add("it is a part of a larger tensor, or in another order", &|b, x| {
        let (a, y) = (made(b, x, "a", &[32]), b.act("y", &[16]));
        let part = b.view("part", a, &[16], 16, None);
        b.step("Y", map(), &[part], &[y]);
        b.output(y);
    });
    add("it is a state", &|b, x| {
        let (s, y) = (b.state("s", 64), b.bytes("y", 64));
        b.step("Y", map(), &[s], &[y]);
        b.step("S", gather(), &[x, y], &[s]);
        b.output(y);
    });
    add("it is an output", &|b, x| {
        let (a, y) = (made(b, x, "a", &[16]), b.act("y", &[16]));
        b.step("Y", map(), &[a], &[y]);
        b.output(a);
        b.output(y);
    });
    add("it is read later", &|b, x| {
        let (a, y, z) = (made(b, x, "a", &[16]), b.act("y", &[16]), b.act("z", &[16]));
        b.step("Y", map(), &[a], &[y]);
        b.step("Z", gather(), &[a, y], &[z]);
        b.output(z);
    });
    add("it is the caller's", &|b, x| {
        let y = b.bytes("y", 64);
        b.step("Y", map(), &[x], &[y]);
        b.output(y);
    });
    add("its elements are of another size", &|b, x| {
        let (a, y) = (made(b, x, "a", &[16]), b.bytes("y", 16));
        b.step("Y", map(), &[a], &[y]);
        b.output(y);
    });
    add("its extents are others", &|b, x| {
        let (a, y) = (made(b, x, "a", &[1]), b.act("y", &[16]));
        b.step("Y", map(), &[a], &[y]);
        b.output(y);
    });
    add("the result is a state", &|b, x| {
        let (a, s) = (made(b, x, "a", &[16]), b.state("s", 64));
        let a = b.view("bytes", a, &[16], 0, None);
        b.plan.values[s.index()].dtype = DType::F32;
        b.plan.values[s.index()].dims = b.plan.values[a.index()].dims;
        b.step("S", map(), &[a], &[s]);
    });
    add("the result outlives the turn of a loop", &|b, x| {
        let (y, trip) = (b.act("y", &[16]), b.input("trip", DType::I64, &[]));
        let counter = b.any_symbol(SymbolKind::Run {}, 0, 4);
        let Expr::Symbol(counter) = b.plan.exprs[counter.index()] else { panic!("no symbol") };
        let body = b.body(|b| {
            let t = made(b, x, "t", &[16]);
            b.step("Y", map(), &[t], &[y]);
        });
        let max_trips = b.number(4);
        b.act_step("Loop", Action::Loop { trip: Some(trip), cond: None, counter, body, max_trips });
        b.output(y);
    });
    add("the result's memory is in use before", &|b, x| {
        let y = made(b, x, "y", &[16]);
        let (z, a) = (b.act("z", &[16]), made(b, x, "a", &[16]));
        b.step("Z", gather(), &[y, y], &[z]);
        b.step("Y", map(), &[a], &[y]);
        b.output(y);
        b.output(z);
    });
    add("the step reads it more than once", &|b, x| {
        let (a, y) = (made(b, x, "a", &[16]), b.act("y", &[16]));
        b.step("Y", map(), &[a, a], &[y]);
        b.output(y);
    });
}

/// A tensor made by a step that can write it with strides.
fn loose(b: &mut Build, x: ValueId, name: &str, dims: &[i64]) -> ValueId {
    let a = b.act(name, dims);
    b.step("A", map(), &[x], &[a]);
    a
}

/// Building a concatenation along axis 1 of `[6, 4]` and the tensor that `f` gives.
fn joined(rows: i64, f: impl FnOnce(&mut Build, ValueId, ValueId) -> ValueId) -> impl FnOnce(&mut Build, ValueId) {
    move |b, x| {
        let y = b.act("y", &[rows, 8]);
        let q = f(b, x, y);
        let p = loose(b, x, "p", &[rows, 4]);
        b.step("Join", concat(1), &[p, q], &[y]);
        b.output(y);
    }
}

fn concatenations(all: &mut Vec<(&'static str, BTreeSet<String>)>) {
    type Make = fn(&mut Build, ValueId, ValueId) -> ValueId;
    let mut add = |reason, rows, f: Make| all.push((reason, reasons(&|b, x| joined(rows, f)(b, x))));
    add("a step that touches it needs it contiguous", 6, |b, x, _| {
        let q = loose(b, x, "q", &[6, 4]);
        let z = b.act("z", &[6]);
        b.step("Z", prim::GatherNd { batch_dims: 0 }.into(), &[q, x], &[z]);
        b.output(z);
        q
    });
    add("it has views, which cannot follow it", 6, |b, x, _| {
        let q = loose(b, x, "q", &[6, 4]);
        let (v, z) = (b.view("v", q, &[24], 0, None), b.act("z", &[1]));
        b.step("Z", gather(), &[v, v], &[z]);
        b.output(z);
        q
    });
    add("it is a constant", 6, |b, _, _| b.weight("w", &[6, 4]));
    add("it is a state", 6, |b, _, _| {
        let s = b.state("s", 96);
        let dims = [6, 4].map(|n| b.number(n));
        b.plan.values[s.index()].dtype = DType::F32;
        b.plan.values[s.index()].dims = Axes::of(dims);
        s
    });
    add("it is an output", 6, |b, x, _| {
        let q = loose(b, x, "q", &[6, 4]);
        b.output(q);
        q
    });
    add("it is seen as elements of another size", 6, |b, x, _| {
        let q = loose(b, x, "q", &[6, 4]);
        let bytes = b.view("bytes", q, &[96], 0, None);
        b.plan.values[bytes.index()].dtype = DType::U8;
        let z = b.act("z", &[1]);
        b.step("Z", gather(), &[bytes, bytes], &[z]);
        b.output(z);
        q
    });
    add("it is the caller's", 6, |b, _, _| {
        let dims = [6, 4].map(|n| b.number(n));
        b.input("q", DType::F32, &dims)
    });
    add("it lies in the result already", 6, |b, x, y| {
        b.step("Y", gather(), &[x, x], &[y]);
        b.view("part", y, &[6, 4], 4, Some(&[8, 1]))
    });
    add("it steers a branch or loop", 6, |b, x, _| {
        let q = loose(b, x, "q", &[6, 4]);
        let z = b.act("z", &[1]);
        b.branch(q, |b| b.step("Y", gather(), &[x, x], &[z]), |b| b.step("N", gather(), &[x, x], &[z]));
        b.output(z);
        q
    });
    add("it would lie in too many pieces", 70_000, |b, x, _| loose(b, x, "q", &[70_000, 4]));
    add("the result's memory is in use before", 6, |b, x, y| {
        b.step("Y", gather(), &[x, x], &[y]);
        let (q, z) = (loose(b, x, "q", &[6, 4]), b.act("z", &[1]));
        b.step("Z", gather(), &[y, y], &[z]);
        b.output(z);
        q
    });
    add("it is a part of a larger tensor, or in another order", 6, |b, x, _| {
        let a = made(b, x, "a", &[6, 8]);
        b.view("part", a, &[6, 4], 4, Some(&[8, 1]))
    });
    add("the peak would rise", 64, |b, x, _| {
        // Made long before the largest step, which it would meet with the whole of the result.
        let q = loose(b, x, "q", &[64, 4]);
        let (large, small) = (made(b, x, "large", &[64, 64]), b.act("small", &[1]));
        b.step("Small", gather(), &[large, large], &[small]);
        b.output(small);
        q
    });
    let mut add = |reason, f: &dyn Fn(&mut Build, ValueId)| all.push((reason, reasons(f)));
    add("a step that writes it reads or writes another part", &|b, x| {
        let [p, q, k] = ["p", "q", "k"].map(|n| b.act(n, &[6, 4]));
        let (y, o) = (b.act("y", &[6, 8]), b.act("o", &[1]));
        b.step("K", gather(), &[x, x], &[k]);
        b.step("P", map(), &[k], &[p]);
        b.step("Q", map(), &[p], &[q]);
        b.step("Join", concat(1), &[p, q], &[y]);
        b.step("O", gather(), &[y, k], &[o]);
        b.output(o);
    });
    add("it belongs to another block", &|b, x| {
        let (p, y, cond) = (loose(b, x, "p", &[6, 4]), b.act("y", &[6, 8]), b.input("cond", DType::Bool, &[]));
        let then = |b: &mut Build| {
            let (q, joined) = (loose(b, x, "q", &[6, 4]), b.act("joined", &[6, 8]));
            b.step("Join", concat(1), &[p, q], &[joined]);
            b.step("Y", gather(), &[joined, x], &[y]);
        };
        b.branch(cond, then, |b| b.step("E", gather(), &[x, x], &[y]));
        b.output(y);
    });
    add("its place in the result is known only to the run", &|b, x| {
        let (n, four) = (b.any_symbol(SymbolKind::Run {}, 0, 4), b.number(4));
        let eight = b.expr(Expr::Add(n, four));
        let [p, q, y] =
            [("p", n), ("q", four), ("y", eight)].map(|(name, d)| b.tensor(name, Class::Act, DType::F32, &[d]));
        b.step("P", gather(), &[x, x], &[p]);
        b.step("Q", gather(), &[x, x], &[q]);
        b.step("Join", concat(0), &[p, q], &[y]);
        b.output(y);
    });
}

fn states(all: &mut Vec<(&'static str, BTreeSet<String>)>) {
    type Make = fn(&mut Build, ValueId, ValueId, ValueId);
    let mut add = |reason, f: Make| {
        let build = |b: &mut Build, x: ValueId| {
            let (s, next) = (b.state("s", 64), b.bytes("next", 64));
            f(b, x, s, next);
            b.commit(s, next);
        };
        all.push((reason, reasons(&build)));
    };
    add("a step after its last use can fail", |b, x, s, next| {
        b.step("Next", map(), &[s], &[next]);
        made(b, x, "a", &[16]);
    });
    add("it is read after its next value is written", |b, x, s, next| {
        let y = b.bytes("y", 64);
        b.step("Next", matmul(), &[x, x], &[next]);
        b.step("Y", matmul(), &[s, next], &[y]);
        b.output(y);
    });
    add("it is an output", |b, _, s, next| {
        b.step("Next", map(), &[s], &[next]);
        b.output(next);
    });
    add("its next value is no activation", |b, _, _, next| b.buffer_of(next).class = Class::Input);
    add("its next value is written by a branch or loop that reads it", |b, x, s, next| {
        b.branch(s, |b| b.step("N", map(), &[x], &[next]), |b| b.step("E", matmul(), &[x, x], &[next]));
    });
    add("the writer of its next value reads it and may not write over it", |b, x, s, next| {
        b.step("Next", matmul(), &[s, x], &[next]);
    });
}

/// Row K6. Each reason for not sharing memory is in the certificate of a plan that has it.
#[test]
fn every_reason_has_a_plan() {
    let mut all = Vec::new();
    in_place(&mut all);
    concatenations(&mut all);
    states(&mut all);
    let has = |(reason, found): &&(&str, BTreeSet<String>)| found.iter().any(|r| r.contains(reason));
    let not: Vec<_> = all.iter().filter(|case| !has(case)).collect();
    assert!(not.is_empty(), "a reason that is not among those of its plan: {not:?}");
    let shown: BTreeSet<&str> = all.iter().map(|(reason, _)| *reason).collect();
    let known = known();
    assert!(known.len() > 30, "the sources are read: {known:?}");
    let missing: Vec<&String> =
        known.iter().filter(|r| !shown.contains(r.as_str()) && !NEVER.contains(&r.as_str())).collect();
    assert!(missing.is_empty(), "in no plan: {missing:?}");
    let gone: Vec<&&str> = NEVER.iter().filter(|r| !known.contains(**r)).collect();
    assert!(gone.is_empty(), "no longer a reason: {gone:?}");
}

//! Each rule of the planner is needed: without it, some plan is rejected, or needs more memory.

use super::{build::*, random::random, run};
use crate::memory::{Options, optimise_by, rules::Rule, rules::Rules};
use checker::{Points, Reason};
use plan::*;

fn planned(rules: Rules, b: &Build) -> Plan {
    let mut plan = b.plan.clone();
    optimise_by(&mut plan, &Options { reorder: false, ..Options::default() }, rules).unwrap();
    plan
}

/// Why the checker rejects a graph that is planned without a rule.
fn rejected(rule: Rule, b: &Build) -> Option<Reason> {
    checker::check(&planned(Rules::without(rule), b), &Points::default()).err().map(|r| r.reason)
}

/// The reason for which a graph of the random ones, each of which is right by all rules, is rejected without one of them.
#[track_caller]
fn needed(rule: Rule, reasons: &[Reason]) {
    let found = (0..300).find_map(|seed| rejected(rule, &random(seed)));
    let found = found.unwrap_or_else(|| panic!("no plan is the worse without {rule:?}"));
    assert!(reasons.contains(&found), "{rule:?}: {found:?}");
}

/// A graph that is accepted, and rejected without a rule.
#[track_caller]
fn needed_for(rule: Rule, reason: Reason, b: &Build) {
    checker::check(&planned(Rules::default(), b), &Points::default()).unwrap();
    assert_eq!(rejected(rule, b), Some(reason), "{rule:?}");
}

/// Row L5. Each rule of the planner, switched off, makes the checker reject a plan, or costs memory.
#[test]
fn no_rule_is_vacuous() {
    for rule in Rule::ALL {
        one(*rule);
    }
}

/// Bits tell, too: without the rule of the last use, tensors are written over that are still to be read.
#[test]
fn bits_change_without_a_rule() {
    let like = |rules: Rules, seed: u64| {
        let b = random(seed);
        let plan = planned(rules, &b);
        let runs = [run::inputs(&plan, seed, seed)];
        run::like_unplanned(&b.plan, &plan, &b.weights, &runs)
    };
    assert!((0..100).all(|seed| like(Rules::default(), seed)));
    assert!(!(0..100).all(|seed| like(Rules::without(Rule::LastUse), seed)));
}

fn one(rule: Rule) {
    use Reason::*;
    match rule {
        Rule::Captures => needed(rule, &[Read]),
        Rule::HeldOutputs => needed(rule, &[NotHeld]),
        Rule::Workspaces => needed(rule, &[Workspace]),
        Rule::DeadOutputs => needed(rule, &[Malformed]),
        Rule::States => needed(rule, &[Read]),
        Rule::Aligned => needed(rule, &[Misaligned]),
        Rule::InnerPeaks => needed(rule, &[Certificate]),
        Rule::KnownSizes => needed_for(rule, Unevaluable, &sized_within()),
        Rule::FlatViews => needed(rule, &[Root]),
        Rule::OwnClass => needed(rule, &[FreedTwice]),
        Rule::OwnBlock => needed(rule, &[Read]),
        Rule::NotOutput => needed(rule, &[Malformed]),
        Rule::LastUse => needed(rule, &[Read]),
        Rule::KernelPermits => needed(rule, &[InPlace]),
        Rule::ReadOnce => needed(rule, &[InPlace]),
        Rule::SameSize => needed(rule, &[InPlace]),
        Rule::SameExtents => needed_for(rule, InPlace, &reshaped()),
        Rule::WholeBuffer => needed(rule, &[InPlace]),
        Rule::NoStateWritten => needed(rule, &[Write]),
        Rule::ResultBegins => needed(rule, &[InPlace]),
        Rule::Renamed => needed(rule, &[Read]),
        Rule::JoinBegins => needed_for(rule, InPlace, &joined_in_a_loop()),
        Rule::JoinPieces => needed(rule, &[Read]),
        Rule::JoinKnownPlace => needed_for(rule, Unevaluable, &joined_to_found()),
        Rule::JoinElementSize => needed_for(rule, Read, &joined_and_seen_as_bytes()),
        Rule::JoinStrides => needed(rule, &[Strided]),
        Rule::JoinApart => needed(rule, &[InPlace]),
        Rule::JoinPeak => {
            let peak = |rules| planned(rules, &born_early()).certificate.lower_bound_bytes;
            assert_eq!((peak(Rules::default()), peak(Rules::without(rule))), (8320, 12_352));
        }
        Rule::StateShape => needed_for(rule, OutsideBuffer, &state_from_a_part()),
        Rule::StateSafe => needed(rule, &[StateBeforeFailure]),
        Rule::StateRead | Rule::StatePermits => needed(rule, &[InPlace]),
    }
}

/// The extent of what branches leave is told within them.
fn sized_within() -> Build {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 8);
    let cond = b.input("cond", DType::Bool, &[]);
    let count = b.any_symbol(SymbolKind::Run {}, 0, 8);
    let Expr::Symbol(symbol) = b.plan.exprs[count.index()] else { unreachable!() };
    let (out, y) = (b.tensor("out", Class::Act, DType::U8, &[count]), b.bytes("y", 8));
    let way = |n: i64| {
        move |b: &mut Build| {
            let value = b.number(n);
            b.act_step("Extent", Action::Define { symbol, value });
            b.step("Write", gather(), &[x, x], &[out]);
        }
    };
    b.branch(cond, way(2), way(3));
    b.step("Y", gather(), &[out, x], &[y]);
    b.output(y);
    b
}

/// As many elements in other extents.
fn reshaped() -> Build {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let (a, eight) = (b.bytes("a", 64), b.number(8));
    let y = b.tensor("y", Class::Act, DType::U8, &[eight, eight]);
    b.step("A", gather(), &[x, x], &[a]);
    b.step("Y", map(), &[a], &[y]);
    b.output(y);
    b
}

/// A loop that carries what it joins from two parts, each made from what it carries.
fn joined_in_a_loop() -> Build {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 8);
    let trip = b.input("trip", DType::I64, &[]);
    let (c, p, q, y) = (b.bytes("c", 8), b.bytes("p", 4), b.bytes("q", 4), b.bytes("y", 8));
    b.step("Start", copy(), &[x], &[c]);
    let counter = b.any_symbol(SymbolKind::Run {}, 0, 4);
    let Expr::Symbol(counter) = b.plan.exprs[counter.index()] else { unreachable!() };
    let max_trips = b.number(4);
    let body = b.body(|b| {
        b.step("P", gather(), &[c, x], &[p]);
        b.step("Q", gather(), &[c, x], &[q]);
        b.step("Concat", concat(0), &[p, q], &[c]);
    });
    b.act_step("Loop", Action::Loop { trip: Some(trip), cond: None, counter, body, max_trips });
    b.step("Y", gather(), &[c, x], &[y]);
    b.output(y);
    b
}

/// A part that is made before the extent of the other one is found.
fn joined_to_found() -> Build {
    let mut b = Build::new(64);
    let [two, four, eight, one] = [2, 4, 8, 1].map(|n| b.number(n));
    let x = b.input("x", DType::F32, &[two, four]);
    let count = b.any_symbol(SymbolKind::Run {}, 0, 8);
    let Expr::Symbol(symbol) = b.plan.exprs[count.index()] else { unreachable!() };
    let p = b.act("p", &[2, 4]);
    let places = b.tensor("places", Class::Act, DType::I64, &[two, eight]);
    let wide = b.expr(Expr::Add(four, count));
    let [f, y, z] =
        [("f", count), ("y", wide), ("z", one)].map(|(n, c)| b.tensor(n, Class::Act, DType::F32, &[two, c]));
    let filled = b.view("filled", places, &[2, 8], 0, Some(&[8, 1]));
    b.plan.values[filled.index()].dims = Axes::of([two, count]);
    b.step("P", map(), &[x], &[p]);
    b.step("NonZero", prim::NonZero {}.into(), &[x], &[places]);
    if let Some(Step { action: Action::Run { defines, .. }, capture, .. }) = b.last_step() {
        defines.push(symbol);
        *capture = Capture::Seam { reason: "the data tells an extent".into() };
    }
    b.step("F", map(), &[filled], &[f]);
    b.step("Concat", concat(1), &[p, f], &[y]);
    b.step("Z", reduce(1), &[y], &[z]);
    b.output(z);
    b
}

/// A part that is also seen as bytes.
fn joined_and_seen_as_bytes() -> Build {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let (first, p, y) = (b.act("first", &[1, 4]), b.act("p", &[1, 4]), b.act("y", &[2, 4]));
    let (seen, out) = (b.view("seen", p, &[16], 0, None), b.bytes("out", 16));
    b.plan.values[seen.index()].dtype = DType::U8;
    b.step("P", gather(), &[x, x], &[p]);
    b.step("Seen", gather(), &[seen, x], &[out]);
    b.step("First", gather(), &[x, x], &[first]);
    b.step("Concat", concat(0), &[first, p], &[y]);
    let z = b.act("z", &[1]);
    b.step("Z", gather(), &[y, x], &[z]);
    b.output(z);
    b.output(out);
    b
}

/// A small part of a large result, made long before the rest; where the rest lies depends on its size.
fn born_early() -> Build {
    let mut b = Build::new(64);
    let (n, rest) = (b.symbol(0, 1, 64), b.number(4096));
    let x = b.input("x", DType::U8, &[n]);
    let all = b.expr(Expr::Add(n, rest));
    let [p, t, u, q, y] = [("p", n), ("t", rest), ("u", rest), ("q", rest), ("y", all)]
        .map(|(name, n)| b.tensor(name, Class::Act, DType::U8, &[n]));
    let z = b.bytes("z", 64);
    b.step("P", gather(), &[x, x], &[p]);
    b.step("T", gather(), &[x, x], &[t]);
    b.step("U", gather(), &[t, x], &[u]);
    b.step("Q", gather(), &[u, x], &[q]);
    b.step("Concat", concat(0), &[p, q], &[y]);
    b.step("Z", gather(), &[y, x], &[z]);
    b.output(z);
    b
}

/// The next value of a state is the second half of something.
fn state_from_a_part() -> Build {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let (s, a) = (b.state("s", 64), b.bytes("a", 128));
    let next = b.view("next", a, &[64], 64, None);
    b.step("A", matmul(), &[x, x], &[a]);
    b.commit(s, next);
    b
}

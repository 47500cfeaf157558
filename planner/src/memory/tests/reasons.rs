//! Every reason that the checker can give, each for a plan of which one thing was made wrong; and plans made wrong at random.

use super::{build::*, mutations::*, random::random};
use crate::memory::{Options, optimise};
use checker::{Points, Reason, check};
use plan::*;

fn run_symbol(p: &mut Plan) -> (SymbolId, ExprId) {
    let kind = SymbolKind::Run {};
    p.symbols.push(Symbol { name: "found".into(), kind, lo: 0, hi: 4, step: 1 });
    let id = SymbolId(p.symbols.len() as u32 - 1);
    p.exprs.push(Expr::Symbol(id));
    (id, ExprId(p.exprs.len() as u32 - 1))
}

/// One thing made wrong.
type Mutation = fn(&mut Plan);

/// For each reason of the checker something that it is the reason for.
const REASONS: [(Reason, Mutation); 30] = [
    (Reason::Index, |p| p.values[0].place.buffer = BufferId(999)),
    (Reason::Blocks, |p| {
        let i = step(p, "If");
        let Action::If { then_block, else_block, .. } = &mut p.blocks[0].steps[i].action else { unreachable!() };
        *else_block = *then_block;
    }),
    (Reason::Malformed, |p| {
        let i = step(p, "H");
        let Action::Run { reads, .. } = &mut p.blocks[0].steps[i].action else { unreachable!() };
        reads.truncate(1);
    }),
    (Reason::Misaligned, misalign),
    (Reason::OutsideArena, |p| p.arena_bytes -= 64),
    (Reason::OutsideWeights, |p| p.weight_bytes -= 256),
    (Reason::OutsideBuffer, |p| {
        let v = value(p, "top");
        p.exprs.push(Expr::Const(16 * 8));
        p.values[v.index()].place.offset = ExprId(p.exprs.len() as u32 - 1);
    }),
    (Reason::Capacity, admit_one_more),
    (Reason::Unevaluable, |p| {
        let (_, never) = run_symbol(p);
        let v = value(p, "top");
        p.values[v.index()].place.offset = never;
    }),
    (Reason::SymbolRange, |p| {
        let (symbol, _) = run_symbol(p);
        p.exprs.push(Expr::Const(5));
        let beyond = Action::Define { symbol, value: ExprId(p.exprs.len() as u32 - 1) };
        let name = p.blocks[0].steps.last().unwrap().name.clone();
        let capture = Capture::Seam { reason: "a number".into() };
        p.blocks[0].steps.push(Step { name, action: beyond, capture });
    }),
    (Reason::Root, |p| share(p, "top", "q")),
    (Reason::Read, swap_two_steps),
    (Reason::Write, in_place_on_a_state),
    (Reason::WrittenTwice, |p| {
        // `Q` once more instead of `Commit`, of which no state is told.
        let q = p.blocks[0].steps[step(p, "Q")].clone();
        let i = step(p, "Top");
        p.blocks[0].steps[i] = q;
    }),
    (Reason::Strided, |p| {
        let (one, v) = (ExprId(p.exprs.len() as u32), value(p, "q"));
        p.exprs.extend([Expr::Const(1), Expr::Const(8)]);
        p.values[v.index()].place.strides = Some(Axes::of([one, ExprId(one.0 + 1)]));
    }),
    (Reason::InPlace, over_an_operand),
    (Reason::WriteOverlap, |p| {
        let (a, b) = (home(p, "unused"), home(p, "used"));
        p.buffers[a].offset = p.buffers[b].offset;
    }),
    (Reason::Workspace, |p| {
        let i = step(p, "H");
        let Action::Run { workspace: Some(w), .. } = p.blocks[0].steps[i].action else { unreachable!() };
        p.buffers[w.index()].offset = p.buffers[home(p, "a")].offset;
    }),
    (Reason::NotHeld, free_one_step_early),
    (Reason::TakenTwice, |_| {}),
    (Reason::FreedTwice, |p| {
        let b = home(p, "w");
        p.buffers[b].eager = Some(Eager { block: BlockId(0), alloc: 0, free: Some(5) });
    }),
    (Reason::Leak, omit_a_free),
    (Reason::EscapingAlias, output_of_the_caller),
    (Reason::State, state_outside),
    (Reason::StateBeforeFailure, |p| {
        let i = step(p, "Z");
        let Action::Run { prim, reads, .. } = &mut p.blocks[0].steps[i].action else { unreachable!() };
        *prim = gather();
        reads[0] = reads[1];
        p.blocks[0].steps.swap(i, i + 1);
    }),
    (Reason::Carried, |_| {}),
    (Reason::Capture, |p| {
        let i = step(p, "If");
        p.blocks[0].steps[i].capture = Capture::Safe {};
    }),
    (Reason::Certificate, peak_off_by_one),
    (Reason::NoPoint, |p| {
        p.exprs.extend([Expr::Const(1), Expr::Const(2)]);
        let n = p.exprs.len() as u32;
        let what = "what cannot be".into();
        p.guards.push(Guard { left: ExprId(n - 2), relation: Relation::Equal, right: ExprId(n - 1), what });
    }),
    (Reason::TooLarge, |p| {
        p.align = 1;
        p.arena_bytes = 1 << 61;
        let b = home(p, "y");
        p.buffers[b].max_bytes = 1 << 60;
    }),
];

/// Rows L2, L5 and T2. Each reason of the checker is the reason for something, so that no rule of it is vacuous; for two it takes a
/// loop, which tests of their own have.
#[test]
fn every_reason_is_given() {
    for (reason, mutate) in REASONS {
        if matches!(reason, Reason::TakenTwice | Reason::Carried) {
            continue;
        }
        expect(mutate, reason, None, None);
    }
    assert_eq!(REASONS.map(|(reason, _)| reason), Reason::ALL);
}

/// Memory of a body that is taken in each turn and given back in none.
#[test]
fn taken_in_each_turn() {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 64);
    let (t, y) = (b.bytes("t", 64), b.bytes("y", 64));
    let counter = b.any_symbol(SymbolKind::Run {}, 0, 9);
    let Expr::Symbol(counter) = b.plan.exprs[counter.index()] else { unreachable!() };
    let max_trips = b.number(2);
    let body = b.body(|b| b.step("T", gather(), &[x, x], &[t]));
    b.act_step("Loop", Action::Loop { trip: None, cond: None, counter, body, max_trips });
    b.step("Y", gather(), &[x, x], &[y]);
    b.output(y);
    let mut plan = b.plan;
    optimise(&mut plan, &Options::default()).unwrap();
    check(&plan, &Points::default()).unwrap();
    let b = home(&plan, "t");
    plan.buffers[b].eager.as_mut().unwrap().free = None;
    restate(&mut plan);
    let r = rejected(&plan);
    assert_eq!((r.reason, r.step), (Reason::TakenTwice, Some((BlockId(1), 0))), "{r}");
}

/// Whatever single field of a plan is changed, the checker says yes or no, and soon.
#[test]
fn it_never_panics() {
    let mut rng = super::random::Rng::new(7);
    for seed in 0..super::random::seeds(60) {
        let mut plan = random(seed).plan;
        optimise(&mut plan, &Options::default()).unwrap();
        for _ in 0..20 {
            let mut wrong = plan.clone();
            for _ in 0..1 + rng.below(3) {
                damage(&mut wrong, &mut rng);
            }
            let points = Points { max_steps: 20_000, ..Points::default() };
            let _ = check(&wrong, &points);
        }
    }
}

fn damage(plan: &mut Plan, rng: &mut super::random::Rng) {
    let odd = [0, 1, 7, 64, u32::MAX, 1 << 31][rng.below(6)];
    let wide = [0, 1, 63, u64::MAX, 1 << 62, 1 << 40][rng.below(6)];
    let (v, b) = (rng.below(plan.values.len()), rng.below(plan.buffers.len()));
    let (block, e) = (rng.below(plan.blocks.len()), rng.below(plan.exprs.len()));
    match rng.below(16) {
        0 => plan.values[v].place.buffer = BufferId(odd),
        1 => plan.values[v].root = Some(ValueId(odd)),
        2 => plan.values[v].place.offset = ExprId(odd),
        3 => plan.values[v].place.offset = ExprId(e as u32),
        4 => plan.buffers[b].max_bytes = wide,
        5 => plan.buffers[b].offset = wide,
        6 => plan.buffers[b].bytes = ExprId(e as u32),
        7 => plan.exprs[e] = Expr::Const(wide as i64),
        8 => plan.exprs[e] = Expr::Mul(ExprId(odd), ExprId(0)),
        9 => plan.arena_bytes = wide,
        10 => plan.align = wide,
        11 => plan.buffers[b].eager = Some(Eager { block: BlockId(odd), alloc: odd, free: Some(odd) }),
        12 => plan.symbols.iter_mut().for_each(|s| (s.lo, s.hi) = (wide as i64, i64::MAX)),
        13 => {
            let n = plan.blocks[block].steps.len();
            if n > 1 {
                let (i, j) = (rng.below(n), rng.below(n));
                plan.blocks[block].steps.swap(i, j);
            }
        }
        14 => plan.values[v].dims = Axes::of([ExprId(e as u32); 8]),
        _ => plan.values[v].dtype = DType::ALL[rng.below(25)],
    }
}

//! `planner bench --steps`: where the time of a run goes, step by step.
//!
//! The interpreter runs the plan: it calls the same kernels as generated code, with a little more around each call.

use super::{Failure, Io, words};
use plan::{Action, BlockId, Plan, ValueId};
use runtime::interpret::{InputTensor, Interpreter};
use std::collections::BTreeMap;
use std::time::Instant;

/// Steps that are listed.
const LISTED: usize = 30;

/// Runs a plan `runs` times and lists the primitives and the steps that take the longest, each at its quickest.
pub fn measure(
    interpreter: &mut Interpreter,
    inputs: &[InputTensor<'_>],
    runs: u64,
    io: &mut Io<'_>,
) -> Result<(), Failure> {
    let failed = |e: runtime::Error| Failure::Refused(e.to_string());
    interpreter.run(inputs).map_err(failed)?;
    let mut least: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for _ in 0..runs.max(1) {
        let mut spent: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        let mut current: Option<((usize, usize), Instant)> = None;
        let mut observe = |block: BlockId, step: usize| {
            let now = Instant::now();
            if let Some((place, begin)) = current.replace(((block.index(), step), now)) {
                *spent.entry(place).or_default() += (now - begin).as_secs_f64() * 1e3;
            }
        };
        interpreter.run_observed(inputs, &mut observe).map_err(failed)?;
        if let Some((place, begin)) = current {
            *spent.entry(place).or_default() += begin.elapsed().as_secs_f64() * 1e3;
        }
        for (place, time) in spent {
            let least = least.entry(place).or_insert(f64::INFINITY);
            *least = least.min(time);
        }
    }
    let mut times: Vec<((usize, usize), f64)> = least.into_iter().collect();
    times.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    show(interpreter.plan(), &times, io)
}

fn show(plan: &Plan, times: &[((usize, usize), f64)], io: &mut Io<'_>) -> Result<(), Failure> {
    let total: f64 = times.iter().map(|(_, t)| t).sum();
    let mut kinds: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for (place, time) in times {
        let kind = kinds.entry(kind(plan, *place)).or_default();
        *kind = (kind.0 + 1, kind.1 + time);
    }
    let mut kinds: Vec<(&str, (usize, f64))> = kinds.into_iter().collect();
    kinds.sort_by(|a, b| b.1.1.total_cmp(&a.1.1).then(a.0.cmp(b.0)));
    let share = |time: f64| if total > 0.0 { 100.0 * time / total } else { 0.0 };
    writeln!(io.out, "{:>9}  {:>5}  {:>5}  primitive", "ms", "%", "steps")?;
    for (name, (steps, time)) in kinds {
        writeln!(io.out, "{time:9.3}  {:5.1}  {steps:5}  {name}", share(time))?;
    }
    writeln!(io.out, "{total:9.3}  100.0  {:5}  all", times.len())?;
    writeln!(io.out, "\n{:>9}  {:>5}  step", "ms", "%")?;
    for (place, time) in times.iter().take(LISTED) {
        writeln!(io.out, "{time:9.3}  {:5.1}  {}", share(*time), describe(plan, *place))?;
    }
    if let Some(more) = times.len().checked_sub(LISTED).filter(|n| *n > 0) {
        writeln!(io.out, "… and {more} more")?;
    }
    Ok(())
}

fn kind(plan: &Plan, (block, step): (usize, usize)) -> &str {
    match plan.blocks.get(block).and_then(|b| b.steps.get(step)).map(|s| &s.action) {
        Some(Action::Run { prim, .. }) => prim.traits().name,
        Some(Action::If { .. }) => "If",
        Some(Action::Loop { .. }) => "Loop",
        Some(Action::Define { .. }) => "Define",
        None => "?",
    }
}

/// A step with its name and its tensors.
fn describe(plan: &Plan, place: (usize, usize)) -> String {
    let Some(step) = plan.blocks.get(place.0).and_then(|b| b.steps.get(place.1)) else { return String::new() };
    let Action::Run { reads, writes, .. } = &step.action else { return format!("{} {}", kind(plan, place), step.name) };
    let list = |values: &[Option<ValueId>]| {
        let known = values.iter().flatten().filter_map(|v| plan.values.get(v.index()));
        known.map(|v| words::tensor(plan, v)).collect::<Vec<_>>().join(" ")
    };
    format!("{} {}: {} -> {}", kind(plan, place), step.name, list(reads), list(writes))
}

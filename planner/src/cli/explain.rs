//! `planner explain`: where dims come from, and why something was not done.

use super::args::{Common, Word, next};
use super::{Command, Failure, Io, load, words};
use plan::{Action, Class, Plan, Step, SymbolKind, ValueId};

pub const COMMAND: Command = Command {
    name: "explain",
    summary: "says where a dim came from, and why a rewrite or an in-place did not happen",
    help: HELP,
    common: true,
    run,
};

const HELP: &str = "\
usage: planner explain MODEL [NODE] [options]

Lists the steps of a plan with their tensors, where these lie, and why a rewrite or a sharing of memory did not happen.
With NODE, only what its name occurs in.
";

fn run(parser: &mut lexopt::Parser, io: &mut Io<'_>) -> Result<(), Failure> {
    let (mut common, mut model, mut node) = (Common::default(), None, None);
    while let Some(word) = next(parser)? {
        if common.take(&word, parser)? {
            continue;
        }
        match word {
            Word::Value(name) if model.is_some() && node.is_none() => {
                node = Some(name.to_string_lossy().into_owned());
            }
            other => load::model(&mut model, other)?,
        }
    }
    let model = load::required(model)?;
    load::device(&common, io)?;
    let planned = load::planned(&model, &common, io)?;
    let plan = &planned.plan;
    let wanted = |text: &str| node.as_ref().is_none_or(|n| text.contains(n.as_str()));
    let mut shown = 0usize;
    if node.is_none() {
        dims(plan, io)?;
    }
    for (b, block) in plan.blocks.iter().enumerate() {
        for (i, step) in block.steps.iter().enumerate() {
            let touched = tensors(step);
            if wanted(&step.name) || touched.iter().any(|(_, v)| wanted(name(plan, *v))) {
                explain_step(plan, b, i, step, io)?;
                shown += 1;
            }
        }
    }
    for note in planned.notes.iter().filter(|n| wanted(n)) {
        writeln!(io.out, "not rewritten: {note}")?;
        shown += 1;
    }
    for r in &plan.certificate.refusals {
        if wanted(&r.step) || wanted(name(plan, r.value)) {
            writeln!(io.out, "not shared: {} at {}: {}", name(plan, r.value), r.step, r.reason)?;
            shown += 1;
        }
    }
    match node {
        Some(node) if shown == 0 => Err(Failure::Refused(format!(
            "nothing in the plan is named {node}: it was folded, fused into another step, or never there"
        ))),
        _ => Ok(()),
    }
}

fn name(plan: &Plan, id: ValueId) -> &str {
    plan.values.get(id.index()).map_or("?", |v| &*v.name)
}

/// Where the free dims come from.
fn dims(plan: &Plan, io: &mut Io<'_>) -> Result<(), Failure> {
    for s in &plan.symbols {
        let source = match s.kind {
            SymbolKind::Input { input, axis } => {
                let name = plan.inputs.get(input as usize).map_or("?", |p| &*p.name);
                format!("axis {axis} of input {name}")
            }
            SymbolKind::Run {} => "found during a run".to_owned(),
        };
        writeln!(io.out, "dim {}: {source}, {}", s.name, words::range(s.lo, s.hi, s.step))?;
    }
    Ok(())
}

/// The tensors that a step touches, with how.
fn tensors(step: &Step) -> Vec<(&'static str, ValueId)> {
    match &step.action {
        Action::Run { reads, writes, .. } => {
            let reads = reads.iter().flatten().map(|v| ("reads", *v));
            reads.chain(writes.iter().flatten().map(|v| ("writes", *v))).collect()
        }
        Action::If { cond, .. } => vec![("reads", *cond)],
        Action::Loop { trip, cond, .. } => trip.iter().chain(cond).map(|v| ("reads", *v)).collect(),
        Action::Define { .. } => Vec::new(),
    }
}

fn explain_step(plan: &Plan, block: usize, index: usize, step: &Step, io: &mut Io<'_>) -> Result<(), Failure> {
    let kind = match &step.action {
        Action::Run { prim, .. } => prim.traits().name.to_owned(),
        Action::If { then_block, else_block, .. } => format!("If, blocks {} and {}", then_block.0, else_block.0),
        Action::Loop { body, max_trips, .. } => {
            format!("Loop, block {}, at most {} turns", body.0, words::expr(plan, *max_trips))
        }
        Action::Define { symbol, value } => {
            let symbol = plan.symbols.get(symbol.index()).map_or("?", |s| &*s.name);
            format!("{symbol} becomes {}", words::expr(plan, *value))
        }
    };
    let place = if block == 0 { format!("step {index}") } else { format!("block {block} step {index}") };
    writeln!(io.out, "{place}: {} ({kind})", step.name)?;
    for (how, id) in tensors(step) {
        let Some(value) = plan.values.get(id.index()) else { continue };
        let Some(buffer) = plan.buffers.get(value.place.buffer.index()) else { continue };
        let place = match buffer.class {
            Class::Input => "the caller's memory".to_owned(),
            Class::Const => format!("weights at {}", buffer.offset),
            _ => format!("arena at {}, {} bytes at most", buffer.offset, words::bytes(buffer.max_bytes)),
        };
        let strided = if value.place.strides.is_some() { ", strided" } else { "" };
        writeln!(io.out, "  {how:<6} {} {}{strided}: {place}", value.name, words::tensor(plan, value))?;
    }
    if let Action::Run { workspace: Some(w), .. } = &step.action
        && let Some(buffer) = plan.buffers.get(w.index())
    {
        writeln!(io.out, "  workspace {} bytes at {}", words::bytes(buffer.max_bytes), buffer.offset)?;
    }
    Ok(())
}

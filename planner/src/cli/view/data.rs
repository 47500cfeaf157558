//! What the page knows of a plan, as JSON.

use super::words;
use crate::memory::{
    Error,
    usage::{Usage, sizes},
};
use crate::peak::largest_sizes;
use plan::{Action, BlockId, BufferId, Capture, Class, Place, Plan, Port, Step, SymbolKind, ValueId};
use serde_json::{Value, json};

/// The data of the page. Steps, values and buffers are named by their index in the lists here; ticks are as in [`Usage`].
pub fn data(plan: &Plan) -> Result<Value, Error> {
    let usage = Usage::new(plan)?;
    let most = largest_sizes(plan);
    let live = usage.live(&most);
    let eager = usage.curve(&usage.eager, &most);
    let least = usage.curve(&usage.eager, &sizes(plan, |s| plan.symbols.get(s.index()).map(|s| s.lo)));
    let peak = (0..).zip(&live).fold((0, 0), |best: (usize, u64), (i, n)| if *n > best.1 { (i, *n) } else { best });
    let steps = Steps::new(plan, &usage);
    let c = &plan.certificate;
    Ok(json!({
        "schema": 1,
        "name": plan.name,
        "producer": plan.producer,
        "align": plan.align,
        "totals": {
            "naive": c.naive_bytes, "bound": c.lower_bound_bytes, "eager": c.eager_peak_bytes, "arena": plan.arena_bytes,
            "step": c.order_bound_bytes, "states": c.persist_bytes, "weights": plan.weight_bytes, "optimal": c.optimal,
        },
        "peak": peak.0,
        "live": live,
        "eager": if eager == live { Value::Null } else { json!(eager) },
        "least": if least == eager { Value::Null } else { json!(least) },
        "ticks": usage.ticks.iter().map(|(b, i)| steps.index(*b, *i)).collect::<Vec<_>>(),
        "steps": steps.steps,
        "rows": steps.rows,
        "values": plan.values.iter().map(|v| value(plan, v)).collect::<Vec<_>>(),
        "buffers": buffers(plan, &usage, &most),
        "inputs": ports(plan, &plan.inputs),
        "outputs": ports(plan, &plan.outputs),
        "states": plan.states.iter().map(|s| json!({ "input": s.input, "output": s.output, "value": s.current })).collect::<Vec<_>>(),
        "symbols": symbols(plan),
        "guards": guards(plan),
        "refusals": refusals(plan),
        "profiles": profiles(plan),
    }))
}

/// The steps, in the order in which they are listed: a body after the step that runs it.
struct Steps {
    steps: Vec<Value>,
    /// Steps and headings of bodies.
    rows: Vec<Value>,
    /// The place of each block's steps in `steps`.
    places: Vec<Vec<usize>>,
}

impl Steps {
    fn new(plan: &Plan, usage: &Usage) -> Steps {
        let mut all = Steps { steps: Vec::new(), rows: Vec::new(), places: vec![Vec::new(); plan.blocks.len()] };
        all.block(plan, usage, BlockId(0), 0);
        all
    }

    fn index(&self, block: BlockId, step: u32) -> Option<usize> {
        self.places.get(block.index())?.get(step as usize).copied()
    }

    fn block(&mut self, plan: &Plan, usage: &Usage, id: BlockId, depth: usize) {
        let Some(block) = plan.blocks.get(id.index()) else { return };
        let ticks = usage.steps.get(id.index()).map_or(&[][..], |s| s);
        for ((i, step), ticks) in block.steps.iter().enumerate().zip(ticks) {
            let index = self.steps.len();
            self.steps.push(described(plan, step, (id, i), *ticks));
            self.rows.push(json!({ "step": index, "depth": depth }));
            if let Some(places) = self.places.get_mut(id.index()) {
                places.push(index);
            }
            let bodies = match step.action {
                Action::If { then_block, else_block, .. } => vec![("then", then_block), ("else", else_block)],
                Action::Loop { body, .. } => vec![("body", body)],
                Action::Run { .. } | Action::Define { .. } => Vec::new(),
            };
            for (what, body) in bodies {
                let inner = usage.steps.get(body.index()).map_or(&[][..], |s| s);
                let span = inner.first().zip(inner.last()).map(|(a, b)| (a.0, b.1));
                self.rows.push(json!({ "body": what, "of": index, "depth": depth + 1, "ticks": span }));
                self.block(plan, usage, body, depth + 1);
            }
        }
    }
}

fn described(plan: &Plan, step: &Step, (block, place): (BlockId, usize), ticks: (usize, usize)) -> Value {
    let (mut kind, mut note, mut work) = (String::new(), String::new(), None);
    let (mut reads, mut writes): (Vec<ValueId>, Vec<ValueId>) = (Vec::new(), Vec::new());
    let symbol = |s: plan::SymbolId| plan.symbols.get(s.index()).map_or("?", |s| &*s.name);
    match &step.action {
        Action::Run { prim, reads: r, writes: w, workspace, defines } => {
            kind.push_str(prim.traits().name);
            reads.extend(r.iter().flatten());
            writes.extend(w.iter().flatten());
            work = *workspace;
            if !defines.is_empty() {
                let names: Vec<&str> = defines.iter().map(|s| symbol(*s)).collect();
                note = format!("finds {}", names.join(", "));
            }
        }
        Action::If { cond, .. } => {
            kind.push_str("If");
            reads.push(*cond);
        }
        Action::Loop { trip, cond, max_trips, .. } => {
            kind.push_str("Loop");
            reads.extend(trip.iter().chain(cond));
            note = format!("at most {} turns", words::expr(plan, *max_trips));
        }
        Action::Define { symbol: s, value } => {
            kind.push_str("Define");
            note = format!("{} becomes {}", symbol(*s), words::expr(plan, *value));
        }
    }
    let seam = match &step.capture {
        Capture::Safe {} => None,
        Capture::Seam { reason } => Some(reason),
    };
    json!({
        "name": step.name, "kind": kind, "reads": reads, "writes": writes, "work": work, "note": note, "seam": seam,
        "block": block, "place": place, "ticks": ticks,
    })
}

fn value(plan: &Plan, value: &plan::Value) -> Value {
    let Place { buffer, strides, .. } = &value.place;
    json!({
        "name": value.name, "tensor": words::tensor(plan, value), "buffer": buffer,
        "view": value.root.is_some(), "strided": strides.is_some(),
    })
}

fn buffers(plan: &Plan, usage: &Usage, most: &[u64]) -> Vec<Value> {
    let mut held = vec![false; plan.buffers.len()];
    for port in &plan.outputs {
        let buffer = plan.values.get(port.value.index()).map(|v| v.place.buffer);
        if let Some(held) = buffer.and_then(|BufferId(b)| held.get_mut(b as usize)) {
            *held = true;
        }
    }
    let all = plan.buffers.iter().zip(most).zip(&usage.arena).zip(&held);
    let described = all.enumerate().map(|(i, (((b, size), ticks), held))| {
        let windows =
            usage.windows(i).map(|list| list.iter().map(|w| [w.start, w.end, w.low, w.high]).collect::<Vec<_>>());
        let kind = if *held && b.class == Class::Act { "output" } else { words::class(b.class) };
        let formula = words::expr(plan, b.bytes);
        let fixed = formula.parse::<u64>().is_ok();
        json!({
            "name": b.name, "kind": kind, "bytes": size, "needs": b.max_bytes,
            "formula": if fixed { None } else { Some(formula) },
            "offset": b.offset, "ticks": ticks, "windows": windows, "pinned": b.pinned_by,
        })
    });
    described.collect()
}

fn ports(plan: &Plan, ports: &[Port]) -> Vec<Value> {
    let described = ports.iter().map(|p| {
        let tensor = plan.values.get(p.value.index()).map(|v| words::tensor(plan, v));
        json!({ "name": p.name, "tensor": tensor, "value": p.value })
    });
    described.collect()
}

fn symbols(plan: &Plan) -> Vec<Value> {
    let described = plan.symbols.iter().map(|s| {
        let source = match s.kind {
            SymbolKind::Input { input, axis } => {
                let name = plan.inputs.get(input as usize).map_or("?", |p| &*p.name);
                format!("axis {axis} of input {name}")
            }
            SymbolKind::Run {} => "found during a run".to_owned(),
        };
        json!({ "name": s.name, "range": words::range(s.lo, s.hi, s.step), "source": source })
    });
    described.collect()
}

fn guards(plan: &Plan) -> Vec<Value> {
    let described = plan.guards.iter().map(|g| {
        let (left, right) = (words::expr(plan, g.left), words::expr(plan, g.right));
        json!({ "holds": format!("{left} {} {right}", words::relation(g.relation)), "what": g.what })
    });
    described.collect()
}

fn refusals(plan: &Plan) -> Vec<Value> {
    let all = &plan.certificate.refusals;
    all.iter().map(|r| json!({ "step": r.step, "value": r.value, "reason": r.reason })).collect()
}

/// One plan serves the whole range of every dim.
fn profiles(plan: &Plan) -> Vec<Value> {
    let free = plan.symbols.iter().filter(|s| matches!(s.kind, SymbolKind::Input { .. }));
    let ranges: Vec<String> = free.map(|s| format!("{} {}", s.name, words::range(s.lo, s.hi, s.step))).collect();
    vec![json!({ "ranges": ranges.join(", "), "arena": plan.arena_bytes, "bound": plan.certificate.lower_bound_bytes })]
}

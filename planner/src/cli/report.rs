//! `planner report`: the memory of a model.

use super::args::{Common, Mode, Word, next, pair, text};
use super::{Command, Failure, Io, load, words, work};
use crate::peak::{Peak, largest_sizes, peak};
use crate::workspace::{Request, requests};
use crate::{
    Planned,
    memory::{formula::Formula, pins, usage},
};
use plan::{Action, Class, Plan, SymbolKind};
use runtime::device::Placement;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub const COMMAND: Command =
    Command { name: "report", summary: "shows the memory that a model needs", help: HELP, common: true, run };

const HELP: &str = "\
usage: planner report MODEL [--json] [--at NAME=N …] [options]

Shows the memory of a model by class, the step at which most is live and what is live there, what the model checks when a
run begins, and what could not share memory. Figures are at the largest extents of the ranges.

  --json                  one JSON object
  --at NAME=N             the live bound and the step at these extents instead
";

/// Buffers that are listed.
const TOP: usize = 10;

/// Sums beyond which the formula of the peak is not written.
const MOST_TERMS: usize = 64;
/// Dims of which both ends are tried together.
const MOST_CORNERS: usize = 6;

/// What the command line says.
#[derive(Default)]
struct Args {
    common: Common,
    json: bool,
    at: Vec<(String, String)>,
}

fn run(parser: &mut lexopt::Parser, io: &mut Io<'_>) -> Result<(), Failure> {
    let (mut args, mut model) = (Args::default(), None);
    while let Some(word) = next(parser)? {
        if args.common.take(&word, parser)? {
            continue;
        }
        match word {
            Word::Flag(flag) if flag == "--json" => args.json = true,
            Word::Flag(flag) if flag == "--at" => args.at.push(pair(&text(parser)?, "--at NAME=N")?),
            other => load::model(&mut model, other)?,
        }
    }
    let model = load::required(model)?;
    let placement = load::device(&args.common, io)?;
    let planned = load::planned(&model, &args.common, io)?;
    let found = facts(&planned, &args.at, placement, args.common.mode)?;
    if args.json {
        writeln!(io.out, "{:#}", found.json(&planned))?;
    } else {
        found.print(&planned, io)?;
    }
    Ok(())
}

/// What a report says beyond the plan itself.
struct Facts {
    /// Sizes of the buffers, at the plan's alignment.
    sizes: Vec<u64>,
    /// Where most is live.
    peak: Peak,
    /// The bound that the report shows.
    bound: u64,
    hash: String,
    placement: Placement,
    /// The executor that is asked for.
    mode: Mode,
    /// Steps of each primitive.
    primitives: BTreeMap<&'static str, usize>,
    /// What kernels ask for.
    requests: Vec<Request>,
}

fn facts(planned: &Planned, at: &[(String, String)], placement: Placement, mode: Mode) -> Result<Facts, Failure> {
    let plan = &planned.plan;
    let values = values_at(plan, at)?;
    let value = |s: plan::SymbolId| values.get(s.index()).copied();
    let sizes = if at.is_empty() { largest_sizes(plan) } else { usage::sizes(plan, value) };
    let requests = requests(plan, value);
    let peak = peak(plan, &sizes);
    let bound = if at.is_empty() { plan.certificate.lower_bound_bytes } else { peak.bytes };
    let hash = plan.hash().map_err(|e| Failure::Refused(e.to_string()))?;
    let mut primitives = BTreeMap::new();
    for step in plan.blocks.iter().flat_map(|b| &b.steps) {
        let name = match &step.action {
            Action::Run { prim, .. } => prim.traits().name,
            Action::If { .. } => "If",
            Action::Loop { .. } => "Loop",
            Action::Define { .. } => continue,
        };
        *primitives.entry(name).or_insert(0) += 1;
    }
    Ok(Facts { sizes, peak, bound, hash, placement, mode, primitives, requests })
}

/// The symbols' values where the named ones have these and the others their largest.
fn values_at(plan: &Plan, at: &[(String, String)]) -> Result<Vec<i64>, Failure> {
    let mut values: Vec<i64> = plan.symbols.iter().map(|s| s.hi).collect();
    for (name, value) in at {
        let number: i64 =
            value.parse().map_err(|_| Failure::Usage(format!("--at {name}=N takes a number, not `{value}`")))?;
        let symbol = plan.symbols.iter().position(|s| s.name == *name && matches!(s.kind, SymbolKind::Input { .. }));
        let Some((symbol, place)) = symbol.and_then(|i| Some((plan.symbols.get(i)?, values.get_mut(i)?))) else {
            let names: Vec<&str> = plan.symbols.iter().map(|s| &*s.name).collect();
            return Err(Failure::Refused(format!("no free dim is named {name}; there are: {}", names.join(", "))));
        };
        if !(symbol.lo..=symbol.hi).contains(&number) || (number - symbol.lo) % symbol.step.max(1) != 0 {
            let range = words::range(symbol.lo, symbol.hi, symbol.step);
            return Err(Failure::Refused(format!("{name}={number} is not in the range {range}")));
        }
        *place = number;
    }
    Ok(values)
}

impl Facts {
    /// Bytes of buffers of a class.
    fn class_bytes(&self, plan: &Plan, class: Class) -> u64 {
        let of_class = plan.buffers.iter().zip(&self.sizes).filter(|(b, _)| b.class == class);
        of_class.fold(0u64, |n, (_, size)| n.saturating_add(*size))
    }

    fn json(&self, planned: &Planned) -> Value {
        let plan = &planned.plan;
        let c = &plan.certificate;
        let value_name = |id: plan::ValueId| plan.values.get(id.index()).map_or("?", |v| &*v.name);
        let top: Vec<Value> = self
            .peak
            .buffers
            .iter()
            .take(TOP)
            .filter_map(|(i, bytes)| {
                let buffer = plan.buffers.get(*i)?;
                let pinned: Vec<&str> = buffer.pinned_by.iter().map(|v| value_name(*v)).collect();
                Some(json!({
                    "name": buffer.name, "class": words::class(buffer.class), "bytes": bytes,
                    "offset": buffer.offset, "formula": words::expr(plan, buffer.bytes), "pinned_by": pinned,
                    "held_until": pins::until(plan, buffer),
                }))
            })
            .collect();
        let guards: Vec<Value> = plan
            .guards
            .iter()
            .map(|g| {
                json!({
                    "what": g.what, "left": words::expr(plan, g.left), "relation": words::relation(g.relation),
                    "right": words::expr(plan, g.right),
                })
            })
            .collect();
        let symbols: Vec<Value> = plan
            .symbols
            .iter()
            .map(|s| {
                let kind = if matches!(s.kind, SymbolKind::Input { .. }) { "input" } else { "run" };
                json!({ "name": s.name, "kind": kind, "lo": s.lo, "hi": s.hi, "step": s.step })
            })
            .collect();
        let port = |p: &plan::Port| {
            let tensor = plan.values.get(p.value.index()).map(|v| words::tensor(plan, v));
            json!({ "name": p.name, "tensor": tensor })
        };
        let refusals: Vec<Value> = c
            .refusals
            .iter()
            .map(|r| json!({ "step": r.step, "value": value_name(r.value), "reason": r.reason }))
            .collect();
        json!({
            "schema": 1,
            "name": plan.name,
            "producer": plan.producer,
            "plan_hash": self.hash,
            "placement": { "device": device(&self.placement), "fallback": self.placement.fallback },
            "align": plan.align,
            "mode": self.mode.name(),
            "naive_bytes": c.naive_bytes,
            "lower_bound_bytes": self.bound,
            "eager_peak_bytes": c.eager_peak_bytes,
            "arena_bytes": plan.arena_bytes,
            "weight_bytes": plan.weight_bytes,
            "persist_bytes": c.persist_bytes,
            "order_bound_bytes": c.order_bound_bytes,
            "optimal": c.optimal,
            "workspace": work::json(planned, &self.requests),
            "loading": work::loading(plan),
            "exact_release_saves_bytes": pins::saved_bytes(plan),
            "observed": { "unavailable": "nothing was run" },
            "profiles": [],
            "peak": { "bytes": self.peak.bytes, "step": self.peak.step, "classes": self.classes(plan) },
            "eager_peak_formula": self.formula(plan),
            "top": top,
            "guards": guards,
            "uncovered": self.uncovered(plan),
            "refusals": refusals,
            "symbols": symbols,
            "inputs": plan.inputs.iter().map(port).collect::<Vec<_>>(),
            "outputs": plan.outputs.iter().map(port).collect::<Vec<_>>(),
            "states": plan.states.iter().map(|s| json!({ "input": s.input, "output": s.output })).collect::<Vec<_>>(),
            "primitives": self.primitives,
            "warnings": planned.warnings,
        })
    }

    /// Bytes that are live at the peak, by class.
    fn classes(&self, plan: &Plan) -> Value {
        let of = |class: Class| {
            let live = self.peak.buffers.iter().filter(|(i, _)| plan.buffers.get(*i).is_some_and(|b| b.class == class));
            live.fold(0u64, |n, (_, bytes)| n.saturating_add(*bytes))
        };
        json!({ "activations": of(Class::Act), "workspace": of(Class::Work), "states": of(Class::Persist) })
    }

    /// The eager executor's peak as a formula, and its values at the corners of the ranges.
    fn formula(&self, plan: &Plan) -> Value {
        let Ok(formula) = Formula::of(plan) else { return json!({ "unavailable": "the plan is not well formed" }) };
        if formula.len() > MOST_TERMS {
            return json!({ "unavailable": format!("it is the largest of {} sums", formula.len()) });
        }
        let free = plan.symbols.iter().enumerate().filter(|(_, s)| s.lo < s.hi);
        let free: Vec<usize> = free.map(|(i, _)| i).collect();
        let corners = (0..1u32 << free.len().min(MOST_CORNERS)).map(|corner| {
            // Symbols beyond the first few are at their largest.
            let values = plan.symbols.iter().enumerate().map(|(i, s)| match free.iter().position(|f| *f == i) {
                Some(bit) if bit < MOST_CORNERS && corner >> bit & 1 == 0 => s.lo,
                _ => s.hi,
            });
            let values: Vec<i64> = values.collect();
            let at = free.iter().filter_map(|i| Some((plan.symbols.get(*i)?.name.clone(), json!(values.get(*i)?))));
            let at: serde_json::Map<String, Value> = at.collect();
            json!({ "at": at, "bytes": formula.bytes(plan, |s| values.get(s.index()).copied()) })
        });
        json!({
            "up": plan.align,
            "bytes": formula.text(|e| words::expr(plan, e)),
            "corners": corners.collect::<Vec<_>>(),
        })
    }

    /// Memory that the figures leave out.
    fn uncovered(&self, plan: &Plan) -> Vec<Value> {
        let mut all = vec![
            json!({ "what": "the caller's inputs", "bytes": self.class_bytes(plan, Class::Input) }),
            json!({ "what": "code and stack", "bytes": { "unavailable": "the compiler decides" } }),
        ];
        if matches!(self.placement.device, runtime::device::DeviceId::Cuda(_)) {
            for (what, why) in [
                ("the device's context", "the driver decides"),
                ("compiled kernels", "the driver decides"),
                ("library handles", "the libraries decide"),
                ("fragmentation", "the driver's allocator decides"),
            ] {
                all.push(json!({ "what": what, "bytes": { "unavailable": why } }));
            }
        }
        all
    }

    fn print(&self, planned: &Planned, io: &mut Io<'_>) -> Result<(), Failure> {
        let (plan, c) = (&planned.plan, &planned.plan.certificate);
        let tensor =
            |id: plan::ValueId| plan.values.get(id.index()).map_or_else(String::new, |v| words::tensor(plan, v));
        let (device, mode) = (device(&self.placement), self.mode.name());
        writeln!(io.out, "{} on {device}, {mode} executor, plan {}", plan.name, self.hash)?;
        if let Some(reason) = &self.placement.fallback {
            writeln!(io.out, "  fallback: {reason}")?;
        }
        for (kind, ports) in [("input", &plan.inputs), ("output", &plan.outputs)] {
            for port in ports {
                writeln!(io.out, "  {kind:<7} {} {}", port.name, tensor(port.value))?;
            }
        }
        for state in &plan.states {
            writeln!(io.out, "  state   {} {}, from {}", state.input, tensor(state.current), state.output)?;
        }
        for symbol in plan.symbols.iter().filter(|s| matches!(s.kind, SymbolKind::Input { .. })) {
            writeln!(io.out, "  dim     {} {}", symbol.name, words::range(symbol.lo, symbol.hi, symbol.step))?;
        }
        let steps: Vec<String> = self.primitives.iter().map(|(name, n)| format!("{name} {n}")).collect();
        writeln!(io.out, "\nsteps: {}\n", steps.join(", "))?;
        for (what, bytes) in [
            ("every tensor in its own memory", c.naive_bytes),
            ("most live at one step", self.bound),
            ("peak of the eager executor", c.eager_peak_bytes),
            ("arena of the static executor", plan.arena_bytes),
            ("  of these, states", c.persist_bytes),
            ("largest single step", c.order_bound_bytes),
            ("weights", plan.weight_bytes),
        ] {
            writeln!(io.out, "{what:<32} {:>16} bytes", words::bytes(bytes))?;
        }
        if c.optimal {
            writeln!(io.out, "The arena is the smallest for this order of steps.")?;
        }
        let saved = words::bytes(pins::saved_bytes(plan));
        writeln!(io.out, "exact alias release saves {saved} bytes over monotone pinning")?;
        writeln!(io.out, "\nmost is live at {}: {} bytes", self.peak.step.join(" > "), words::bytes(self.peak.bytes))?;
        for (i, size) in self.peak.buffers.iter().take(TOP) {
            if let Some(buffer) = plan.buffers.get(*i) {
                // The names of others tell it already.
                let class = if buffer.class == Class::Work { "" } else { words::class(buffer.class) };
                let class = if class.is_empty() { String::new() } else { format!(" ({class})") };
                let pinned = pinned(plan, buffer);
                writeln!(io.out, "  {:>16}  {}{class}{pinned}", words::bytes(*size), buffer.name)?;
            }
        }
        work::print(planned, &self.requests, io)?;
        self.print_lists(plan, io)
    }

    fn print_lists(&self, plan: &Plan, io: &mut Io<'_>) -> Result<(), Failure> {
        if !plan.guards.is_empty() {
            writeln!(io.out, "\nchecked when a run begins:")?;
        }
        for g in &plan.guards {
            let (left, right) = (words::expr(plan, g.left), words::expr(plan, g.right));
            writeln!(io.out, "  {left} {} {right}: {}", words::relation(g.relation), g.what)?;
        }
        let refusals = &plan.certificate.refusals;
        if !refusals.is_empty() {
            writeln!(io.out, "\nmemory that could not be shared: {} (`planner explain` lists all)", refusals.len())?;
        }
        for r in refusals.iter().take(TOP) {
            let name = plan.values.get(r.value.index()).map_or("?", |v| &*v.name);
            writeln!(io.out, "  {} at {}: {}", name, r.step, r.reason)?;
        }
        writeln!(
            io.out,
            "\nnot counted: the caller's inputs ({} bytes), code and stack",
            words::bytes(self.class_bytes(plan, Class::Input))
        )?;
        Ok(())
    }
}

/// What keeps a buffer, and until when.
fn pinned(plan: &Plan, buffer: &plan::Buffer) -> String {
    let names: Vec<&str> = buffer.pinned_by.iter().filter_map(|v| Some(&*plan.values.get(v.index())?.name)).collect();
    match (names.is_empty(), pins::until(plan, buffer)) {
        (true, _) => String::new(),
        (false, Some(step)) => format!(" (for {}, until {step})", names.join(", ")),
        (false, None) => format!(" (for {}, to the end)", names.join(", ")),
    }
}

fn device(placement: &Placement) -> String {
    match placement.device {
        runtime::device::DeviceId::Cpu => "cpu".to_owned(),
        runtime::device::DeviceId::Cuda(n) => format!("cuda:{n}"),
        _ => "another device".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::build::Build;
    use runtime::device::{DeviceId, Placement};

    fn report(device: DeviceId) -> Value {
        let plan = Build::new(64).plan;
        let weights = crate::Weights::default();
        let workspace = crate::workspace::Workspaces::default();
        let planned = Planned { plan, weights, warnings: Vec::new(), notes: Vec::new(), workspace };
        facts(&planned, &[], Placement { device, fallback: None }, Mode::default()).ok().unwrap().json(&planned)
    }

    /// Row K3. What the figures leave out is listed on every device, and on CUDA what the driver and libraries take.
    #[test]
    fn what_is_not_covered_is_listed() {
        let terms = |device| report(device)["uncovered"].as_array().unwrap().clone();
        let (cpu, cuda) = (terms(DeviceId::Cpu), terms(DeviceId::Cuda(0)));
        assert!(!cpu.is_empty() && cuda.len() > cpu.len());
        let names: Vec<&str> = cuda.iter().map(|t| t["what"].as_str().unwrap()).collect();
        for wanted in ["context", "library handles", "fragmentation"] {
            assert!(names.iter().any(|n| n.contains(wanted)), "{wanted}: {names:?}");
        }
        // What nobody knows is said so, and is not 0.
        assert!(cuda.iter().all(|t| t["bytes"].is_u64() || t["bytes"]["unavailable"].is_string()));
    }
}

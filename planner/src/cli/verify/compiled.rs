//! Cases through generated code: many modules in a few crates, one build, and a process that runs them.

use super::drawn::{self, Drawn};
use super::held::Held;
use super::interpret::{Judge, comparable, read};
use super::plans::{inputs, plans};
use super::{Args, Done, Verdict};
use crate::cli::args::Mode;
use crate::cli::case::{Bad, Case, Data, Set};
use crate::cli::compare::Tolerance;
use crate::cli::generated::{Module, Profile, Workshop, module, put};
use crate::cli::{Failure, Io, load};
use crate::onnx::Model;
use bytes::Bytes;
use plan::{DType, Plan};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What runs the modules.
pub const HARNESS: &str = include_str!("../harness.rs.txt");

/// Modules of one crate, and their lines: the compiler's memory bounds both.
const MODULES: usize = 200;
const LINES: usize = 80_000;

/// Larger weights stay in a file, so that the binaries stay small.
const EMBEDDED: u64 = 4 << 20;

/// One plan of one case.
struct Unit {
    /// The index of the case.
    case: usize,
    /// Which data sets it serves.
    sets: Vec<usize>,
    module: Module,
    /// What the runs of an eager module must hold, by data set; empty for a static one, which allocates nothing.
    held: Vec<Held>,
    /// Outputs of the plan and then its states: the model's name for it, and the type.
    ports: Vec<(String, DType)>,
    /// Those that are drawn at random.
    drawn: Drawn,
    /// Where its data is.
    data: PathBuf,
    /// How it went; `None`: not run.
    result: Option<Result<(), String>>,
}

/// A case that was planned.
struct Planned {
    model: Model,
    sets: Vec<Set>,
    tolerance: Tolerance,
    done: Done,
}

/// Plans all cases, compiles and runs them.
pub fn cases(cases: &[Case], args: &Args, io: &mut Io<'_>) -> Result<Vec<Verdict>, Failure> {
    let workshop = Workshop::open("verify")?;
    let mut units: Vec<Unit> = Vec::new();
    let mut planned: Vec<Result<Planned, Bad>> = Vec::new();
    for (i, case) in cases.iter().enumerate() {
        if io.progress {
            write!(io.err, "\rplanning {}/{}\x1b[K", i + 1, cases.len())?;
        }
        let outcome = super::guard(|| prepare(i, case, args, &workshop));
        planned.push(outcome.map(|(case, more)| {
            units.extend(more);
            case
        }));
    }
    if !units.is_empty() {
        if io.progress {
            write!(io.err, "\rcompiling {} models\x1b[K", units.len())?;
        }
        compile_and_run(&mut units, &workshop)?;
    }
    if io.progress {
        write!(io.err, "\r\x1b[K")?;
    }
    let mut verdicts = Vec::new();
    for (i, (case, outcome)) in cases.iter().zip(planned).enumerate() {
        let mine: Vec<&Unit> = units.iter().filter(|u| u.case == i).collect();
        let verdict = outcome.and_then(|p| judge(p, &mine));
        super::say(case, &verdict, io)?;
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

fn failed(failure: Failure) -> Bad {
    match failure {
        Failure::Refused(what) | Failure::Usage(what) => Bad::Fail(what),
        Failure::Help | Failure::Said => Bad::Fail("stopped".to_owned()),
    }
}

/// Plans a case and writes its code and its data.
fn prepare(index: usize, case: &Case, args: &Args, workshop: &Workshop) -> Result<(Planned, Vec<Unit>), Bad> {
    let (model, sets, tolerance) = read(case)?;
    let groups = plans(&case.model(), &model, &sets, &args.common)?;
    let mut done = Done { sets: sets.len(), plans: groups.len(), fixed: Vec::new() };
    let mut units = Vec::new();
    for (g, group) in groups.into_iter().enumerate() {
        done.fixed.extend(group.fixed);
        let plan = &group.planned.plan;
        load::checked(plan).map_err(Bad::Fail)?;
        let folder = workshop.folder.join("models").join(format!("{index}_{g}"));
        let module = module(&group.planned, &folder, &args.common, EMBEDDED).map_err(failed)?;
        let data = folder.join("data");
        let mut held = Vec::new();
        for (k, set) in group.sets.iter().filter_map(|s| sets.get(*s)).enumerate() {
            let inputs = inputs(plan, &model, set)?;
            if args.common.mode == Mode::Eager {
                held.push(Held::new(plan, &inputs)?);
            }
            for (j, input) in inputs.into_iter().enumerate() {
                let path = data.join(format!("set_{k}")).join(format!("in_{j}"));
                put(&path, &tensor_file(input)).map_err(failed)?;
            }
            std::fs::create_dir_all(data.join(format!("set_{k}"))).map_err(|e| failed(e.into()))?;
        }
        units.push(Unit {
            case: index,
            sets: group.sets,
            module,
            held,
            ports: ports(plan),
            drawn: drawn::outputs(plan),
            data,
            result: None,
        });
    }
    done.fixed.sort();
    done.fixed.dedup();
    Ok((Planned { model, sets, tolerance, done }, units))
}

/// The names of what a run leaves, outputs before states.
fn ports(plan: &Plan) -> Vec<(String, DType)> {
    let outputs = plan.outputs.iter().map(|p| (&p.name, p.value));
    let states = plan.states.iter().map(|s| (&s.output, s.current));
    let dtype = |v: plan::ValueId| plan.values.get(v.index()).map_or(DType::U8, |v| v.dtype);
    outputs.chain(states).map(|(name, value)| (name.clone(), dtype(value))).collect()
}

/// A tensor as the harness reads it.
pub fn tensor_file(data: &Data) -> Vec<u8> {
    let mut file = Vec::with_capacity(data.bytes.len() + 72);
    for n in std::iter::once(data.dims.len()).chain(data.dims.iter().copied()) {
        file.extend_from_slice(&(n as u64).to_le_bytes());
    }
    file.extend_from_slice(&data.bytes);
    file
}

/// A tensor as the harness wrote it.
fn parse(file: &[u8], dtype: DType) -> Option<Data> {
    let (mut numbers, mut rest) = (Vec::new(), file);
    let mut rank = 0;
    while numbers.len() <= rank {
        let (first, tail) = rest.split_first_chunk::<8>()?;
        rest = tail;
        numbers.push(usize::try_from(u64::from_le_bytes(*first)).ok()?);
        rank = *numbers.first()?;
    }
    Some(Data { dtype, dims: numbers.get(1..)?.to_vec(), bytes: Bytes::copy_from_slice(rest) })
}

/// Compiles all units, leaving out those that do not compile, and runs them.
fn compile_and_run(units: &mut [Unit], workshop: &Workshop) -> Result<(), Failure> {
    loop {
        let crates = crates(units);
        let members: Vec<String> = (0..crates.len()).map(|k| format!("cases_{k}")).collect();
        let mut all = members.clone();
        all.push("models".to_owned());
        workshop.set_up(&members, &all)?;
        for (member, numbers) in members.iter().zip(&crates) {
            let folder = workshop.member(member)?;
            put(&folder.join("src/harness.rs"), HARNESS.as_bytes())?;
            put(&folder.join("src/main.rs"), program(units, numbers).as_bytes())?;
        }
        let output = workshop.build(&members, Profile::Debug)?;
        if output.status.success() {
            for (member, numbers) in members.iter().zip(&crates) {
                run(units, numbers, &workshop.binary(member, Profile::Debug))?;
            }
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if !blame(units, &text) {
            return Err(Failure::Refused(format!("the generated code does not compile:\n{}", tail(&text))));
        }
    }
}

/// The last lines of a long text.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(30)..).unwrap_or(&[]).join("\n")
}

/// Marks the units whose code the compiler complains of; whether there were any.
fn blame(units: &mut [Unit], text: &str) -> bool {
    let mut any = false;
    for unit in units.iter_mut().filter(|u| u.result.is_none()) {
        // Cargo names files as `#[path]` does: in full.
        let path = unit.module.code.to_string_lossy().into_owned();
        let line = text.lines().find(|l| l.contains(&path) && l.contains("error"));
        if let Some(line) = line {
            let message = line.split_once("error").map_or(line, |(_, message)| message);
            unit.result = Some(Err(format!("the generated code does not compile: error{message}")));
            any = true;
        }
    }
    any
}

/// Which units are compiled together.
fn crates(units: &[Unit]) -> Vec<Vec<usize>> {
    let mut crates: Vec<(usize, Vec<usize>)> = Vec::new();
    for (i, unit) in units.iter().enumerate().filter(|(_, u)| u.result.is_none()) {
        let lines = unit.module.lines;
        match crates.last_mut() {
            Some((sum, list)) if list.len() < MODULES && *sum + lines <= LINES => {
                *sum += lines;
                list.push(i);
            }
            _ => crates.push((lines, vec![i])),
        }
    }
    crates.into_iter().map(|(_, list)| list).collect()
}

/// The program that runs these units.
fn program(units: &[Unit], numbers: &[usize]) -> String {
    let mut text =
        String::from("//! Runs generated models on the data of test cases.\n#![allow(warnings)]\n\nmod harness;\n\n");
    text.push_str("#[global_allocator]\nstatic ALLOCATOR: harness::Counting = harness::Counting;\n\n");
    for i in numbers {
        if let Some(unit) = units.get(*i) {
            text.push_str(&format!("#[path = {:?}]\nmod m{i};\n", unit.module.code.to_string_lossy()));
        }
    }
    for i in numbers {
        if let Some(unit) = units.get(*i) {
            text.push_str(&driver(*i, unit));
        }
    }
    let list: Vec<String> = numbers.iter().map(|i| format!("({i}, run_{i})")).collect();
    text.push_str(&format!("\nfn main() {{\n    harness::main(&[{}]);\n}}\n", list.join(", ")));
    text
}

/// The function that runs the data sets of a unit, twice.
fn driver(number: usize, unit: &Unit) -> String {
    let eager = !unit.held.is_empty();
    let name = format!("m{number}");
    let module = &unit.module;
    let mut text = format!("\nfn run_{number}() -> Result<(), String> {{\n");
    let mut line = |indent: usize, code: &str| {
        text.push_str(&" ".repeat(indent * 4));
        text.push_str(code);
        text.push('\n');
    };
    line(1, &format!("let mut model = {}.map_err(harness::text)?;", module.constructor(&name)));
    line(1, "for repeated in [false, true] {");
    line(2, "model.reset();");
    let folder = unit.data.to_string_lossy();
    let count = unit.sets.len();
    if eager {
        let held: Vec<String> = unit.held.iter().map(|h| format!("({}, {})", h.bytes, h.exact)).collect();
        line(2, &format!("let held: [(u64, bool); {count}] = [{}];", held.join(", ")));
        line(2, &format!("for (set, held) in harness::sets({folder:?}, {count}, repeated).zip(held) {{"));
    } else {
        line(2, &format!("for set in harness::sets({folder:?}, {count}, repeated) {{"));
    }
    for i in 0..module.inputs.len() {
        line(3, &format!("let input_{i} = set.input({i})?;"));
    }
    line(3, &format!("let inputs = {};", module.inputs_of(&name, |i| format!("input_{i}"))));
    if eager {
        line(3, "let before = harness::unfreed();");
        line(3, "let outputs = model.run(&inputs).map_err(harness::text)?;");
    } else {
        line(3, "let before = harness::allocations();");
        line(3, "let outputs = model.run(&inputs);");
        line(3, "let allocated = harness::allocations() - before;");
        line(3, "let outputs = outputs.map_err(harness::text)?;");
        line(3, "if allocated > 0 {");
        line(4, "return Err(format!(\"run() allocates {allocated} times\"));");
        line(3, "}");
    }
    for (i, field) in module.outputs.iter().enumerate() {
        line(3, &format!("set.output(\"out_{i}\", &outputs.{field})?;"));
    }
    if !module.states.is_empty() {
        line(3, "let states = model.state().map_err(harness::text)?;");
    }
    for (i, field) in (module.outputs.len()..).zip(&module.states) {
        line(3, &format!("set.output(\"out_{i}\", &states.{field})?;"));
    }
    if eager {
        line(3, "model.release();");
        line(3, "harness::held(model.live_bytes(), model.peak_bytes(), held)?;");
        line(3, "let left = harness::unfreed() - before;");
        line(3, "if left != 0 {");
        line(4, "return Err(format!(\"{left} allocations of the run are not freed\"));");
        line(3, "}");
    }
    line(2, "}");
    line(1, "}");
    line(1, "Ok(())");
    line(0, "}");
    text
}

/// Runs units in one process; where it dies, the others in a further one.
fn run(units: &mut [Unit], numbers: &[usize], binary: &Path) -> Result<(), Failure> {
    let mut left: Vec<usize> = numbers.to_vec();
    while !left.is_empty() {
        let arguments = left.iter().map(ToString::to_string);
        let output = Command::new(binary)
            .args(arguments)
            .output()
            .map_err(|e| Failure::Refused(format!("{}: {e}", binary.display())))?;
        let (results, begun) = results(&String::from_utf8_lossy(&output.stdout));
        let died = begun.filter(|n| !results.contains_key(n));
        for (number, result) in results {
            if let Some(unit) = units.get_mut(number) {
                unit.result = Some(result);
            }
            left.retain(|n| *n != number);
        }
        if let Some(number) = died {
            let message = String::from_utf8_lossy(&output.stderr);
            let why = format!("the process died ({}): {}", output.status, tail(&message));
            if let Some(unit) = units.get_mut(number) {
                unit.result = Some(Err(why));
            }
            left.retain(|n| *n != number);
        } else if !left.is_empty() {
            let why = format!("the process said nothing ({})", output.status);
            left.iter().for_each(|n| {
                if let Some(unit) = units.get_mut(*n) {
                    unit.result = Some(Err(why.clone()));
                }
            });
            left.clear();
        }
    }
    Ok(())
}

/// What a process said of each unit, and which it began last.
fn results(text: &str) -> (BTreeMap<usize, Result<(), String>>, Option<usize>) {
    let (mut results, mut begun) = (BTreeMap::new(), None);
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (number, message) = rest.split_once(' ').unwrap_or((rest, ""));
        let Ok(number) = number.parse() else { continue };
        match word {
            "begin" => begun = Some(number),
            "done" => {
                results.insert(number, Ok(()));
            }
            "failed" => {
                results.insert(number, Err(message.to_owned()));
            }
            _ => {}
        }
    }
    (results, begun)
}

/// Compares what the units of a case left.
fn judge(planned: Planned, units: &[&Unit]) -> Verdict {
    for unit in units {
        match &unit.result {
            Some(Ok(())) => {}
            Some(Err(why)) => return Err(Bad::Fail(why.clone())),
            None => return Err(Bad::Fail("was not run".to_owned())),
        }
        for (k, set) in unit.sets.iter().enumerate() {
            let Some(want) = planned.sets.get(*set) else { continue };
            let got = |name: &str| output(unit, k, name);
            let of_set = |bad| if planned.sets.len() == 1 { bad } else { super::interpret::within(*set, bad) };
            let judge = Judge { model: &planned.model, tolerance: planned.tolerance, drawn: &unit.drawn };
            judge.expected(want, got).map_err(of_set)?;
        }
        // What was right need not be kept.
        let _ = std::fs::remove_dir_all(&unit.data);
    }
    let drawn = units.iter().flat_map(|u| u.drawn.clone()).collect();
    comparable(&planned.model, &planned.sets, &drawn)?;
    Ok(planned.done)
}

/// What a unit left under an output's name.
fn output(unit: &Unit, set: usize, name: &str) -> Result<Data, Bad> {
    let missing = || Bad::Fail(format!("the plan has no output `{name}`"));
    let index = unit.ports.iter().position(|(n, _)| n == name).ok_or_else(missing)?;
    let dtype = unit.ports.get(index).map(|(_, dtype)| *dtype).ok_or_else(missing)?;
    let path = unit.data.join(format!("set_{set}")).join(format!("out_{index}"));
    let file = std::fs::read(&path).map_err(|e| Bad::Fail(format!("output `{name}`: {e}")))?;
    parse(&file, dtype).ok_or_else(|| Bad::Fail(format!("output `{name}` is cut off")))
}

//! `planner bench`: the generated code of a model, built in release and measured.

use super::args::{Common, Mode, Word, next, number};
use super::case::{Data, Set};
use super::generated::{Module, Profile, Workshop, module, put};
use super::verify::{HARNESS, plans, tensor_file};
use super::{Command, Failure, Io, load, steps, words};
use crate::onnx::{self, Dim, Model, Type};
use crate::ops::dtype_of;
use crate::{DimTarget, Planned};
use bytes::Bytes;
use runtime::interpret::{InputTensor, Interpreter};
use serde_json::{Value, json};
use std::path::Path;

pub const COMMAND: Command =
    Command { name: "bench", summary: "measures the generated code of a model", help: HELP, common: true, run };

const HELP: &str = "\
usage: planner bench MODEL [--threads N] [--runs N] [--json] [--steps] [--data CASE_DIR] [options]

Generates the code of a model, builds it in release in a crate of its own, and runs it: the time to load it, the first
run, then the median and the least of the others. Inputs are those of the first data set of `--data`, else zeros with dims
at their largest.

  --threads N             threads of a run (default 1)
  --runs N                runs that are measured (default 20)
  --json                  one JSON object
  --steps                 instead: where the time of a run goes, by primitive and by step (with the interpreter)
";

/// What the compiler reads in place of the words in capitals.
const PROGRAM: &str = include_str!("bench_main.rs.txt");

/// What the command line says.
#[derive(Default)]
struct Args {
    common: Common,
    threads: u64,
    runs: u64,
    json: bool,
    steps: bool,
}

/// What a process measured, in milliseconds.
#[derive(Debug, Default, PartialEq)]
struct Measured {
    load: f64,
    first: f64,
    runs: Vec<f64>,
    rss: Option<u64>,
}

fn run(parser: &mut lexopt::Parser, io: &mut Io<'_>) -> Result<(), Failure> {
    let (mut args, mut path) = (Args { threads: 1, runs: 20, ..Args::default() }, None);
    while let Some(word) = next(parser)? {
        if args.common.take(&word, parser)? {
            continue;
        }
        match word {
            Word::Flag(flag) if flag == "--threads" => args.threads = number(parser, "--threads", 1)?,
            Word::Flag(flag) if flag == "--runs" => args.runs = number(parser, "--runs", 1)?,
            Word::Flag(flag) if flag == "--json" => args.json = true,
            Word::Flag(flag) if flag == "--steps" => args.steps = true,
            other => load::model(&mut path, other)?,
        }
    }
    let path = load::required(path)?;
    load::device(&args.common, io)?;
    if args.threads > 1 {
        return Err(Failure::Refused("the executors run on one thread: give `--threads 1`".to_owned()));
    }
    let model = onnx::read(&path).map_err(|e| Failure::Refused(e.to_string()))?;
    let set = match &args.common.data {
        Some(folder) => load::sets(folder, &model)?.into_iter().next(),
        None => Some(zeros(&model, &args.common)),
    };
    let set = set.ok_or_else(|| Failure::Refused("there is no data".to_owned()))?;
    let mut groups = plans::plans(&path, &model, std::slice::from_ref(&set), &args.common)?;
    let Some(group) = groups.pop() else { return Err(Failure::Refused("there is no plan".to_owned())) };
    load::checked(&group.planned.plan).map_err(|e| load::about(&path, e))?;
    let data = plans::inputs(&group.planned.plan, &model, &set)?;
    if args.steps {
        let failed = |e: runtime::Error| Failure::Refused(e.to_string());
        let weights = load::weights(&group.planned).map_err(failed)?;
        let mode = load::interpreted(args.common.mode);
        let mut interpreter = Interpreter::with_mode(group.planned.plan, weights, mode).map_err(failed)?;
        let tensors: Vec<InputTensor<'_>> = data.iter().map(|d| d.view()).collect();
        return steps::measure(&mut interpreter, &tensors, args.runs, io);
    }
    let measured = build_and_run(&group.planned, &data, &args, io)?;
    show(&group.planned, &measured, &args, io)
}

/// Zeros for every input, free dims as the options say at their largest; inputs with others are left out, for the planner
/// to say so.
fn zeros(model: &Model, common: &Common) -> Set {
    let extent = |input: &str, axis: usize, dim: &Dim| match dim {
        Dim::Known(n) => Some(*n),
        Dim::Named(_) | Dim::Free => {
            let wanted = |t: &DimTarget| match t {
                DimTarget::Axis { input: i, axis: a } => i == input && *a == axis,
                DimTarget::Named(name) => *dim == Dim::Named(name.clone()),
            };
            common.dims.iter().find(|d| wanted(&d.target)).map(|d| d.lo + (d.hi - d.lo) / d.step * d.step)
        }
    };
    let zero = |input: &onnx::ValueInfo| {
        let Type::Tensor { dtype, dims: Some(dims) } = &input.ty else { return None };
        let dtype = dtype_of(*dtype)?;
        let dims = dims.iter().enumerate().map(|(axis, d)| usize::try_from(extent(&input.name, axis, d)?).ok());
        let dims = dims.collect::<Option<Vec<usize>>>()?;
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
        let mut bytes = Vec::new();
        let wanted = dtype.bytes_of(count)?;
        bytes.try_reserve_exact(wanted).ok()?;
        bytes.resize(wanted, 0);
        Some(Data { dtype, dims, bytes: Bytes::from(bytes) })
    };
    Set { inputs: model.graph.inputs.iter().map(zero).collect(), outputs: Vec::new() }
}

fn build_and_run(planned: &Planned, data: &[&Data], args: &Args, io: &mut Io<'_>) -> Result<Measured, Failure> {
    let workshop = Workshop::open("bench")?;
    let member = "measure".to_owned();
    workshop.set_up(std::slice::from_ref(&member), std::slice::from_ref(&member))?;
    let folder = workshop.member(&member)?;
    let written = module(planned, &folder.join("model"), &args.common, codegen::EMBED_LIMIT)?;
    for (i, input) in data.iter().enumerate() {
        put(&folder.join("data").join("set_0").join(format!("in_{i}")), &tensor_file(input))?;
    }
    put(&folder.join("src").join("harness.rs"), HARNESS.as_bytes())?;
    put(&folder.join("src").join("main.rs"), program(&written, &folder.join("data")).as_bytes())?;
    if io.progress {
        write!(io.err, "\rcompiling\x1b[K")?;
    }
    let built = workshop.build(std::slice::from_ref(&member), Profile::Release)?;
    if !built.status.success() {
        let why = String::from_utf8_lossy(&built.stderr);
        return Err(Failure::Refused(format!("the generated code does not compile:\n{why}")));
    }
    if io.progress {
        write!(io.err, "\r\x1b[K")?;
    }
    let binary = workshop.binary(&member, Profile::Release);
    let output = std::process::Command::new(&binary).arg(args.runs.to_string()).output();
    let output = output.map_err(|e| Failure::Refused(format!("{}: {e}", binary.display())))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Refused(format!("the model does not run: {}", why.trim())));
    }
    parse(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| Failure::Refused("the measuring process wrote something unexpected".to_owned()))
}

/// The program that measures.
fn program(module: &Module, data: &Path) -> String {
    let reads: Vec<String> = (0..module.inputs.len()).map(|i| format!("let input_{i} = set.input({i})?;")).collect();
    let inputs = module.inputs_of("model", |i| format!("input_{i}"));
    PROGRAM
        .replace("MODEL_PATH", &format!("{:?}", module.code.to_string_lossy()))
        .replace("DATA_FOLDER", &format!("{:?}", data.to_string_lossy()))
        .replace("READ_INPUTS", &reads.join("\n    "))
        .replace("MODEL_INPUTS", &inputs)
        .replace("MODEL_NEW", &module.constructor("model"))
}

/// What a process wrote.
fn parse(text: &str) -> Option<Measured> {
    let mut measured = Measured::default();
    for line in text.lines() {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "load" => measured.load = rest.parse().ok()?,
            "first" => measured.first = rest.parse().ok()?,
            "runs" => measured.runs = rest.split(' ').map(|w| w.parse().ok()).collect::<Option<_>>()?,
            "rss" => measured.rss = Some(rest.parse().ok()?),
            _ => return None,
        }
    }
    measured.runs.sort_by(f64::total_cmp);
    (!measured.runs.is_empty()).then_some(measured)
}

/// The middle of sorted times; of an even number, between the two in the middle.
fn median(sorted: &[f64]) -> f64 {
    let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
    let half = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { f64::midpoint(at(half.saturating_sub(1)), at(half)) } else { at(half) }
}

fn show(planned: &Planned, measured: &Measured, args: &Args, io: &mut Io<'_>) -> Result<(), Failure> {
    let (median, min) = (median(&measured.runs), measured.runs.first().copied().unwrap_or(f64::NAN));
    let plan = &planned.plan;
    if args.json {
        let rss = measured.rss.map_or_else(|| json!({ "unavailable": "the system does not tell" }), Value::from);
        let whole = json!({
            "schema": 1, "name": plan.name, "threads": args.threads, "runs": measured.runs.len(),
            "median_ms": median, "min_ms": min, "first_run_ms": measured.first, "load_ms": measured.load,
            "peak_rss_bytes": rss, "arena_bytes": plan.arena_bytes, "weight_bytes": plan.weight_bytes,
            "mode": args.common.mode.name(), "eager_peak_bytes": plan.certificate.eager_peak_bytes,
        });
        writeln!(io.out, "{whole:#}")?;
        return Ok(());
    }
    writeln!(io.out, "{}: median {median:.3} ms, least {min:.3} ms of {} runs", plan.name, measured.runs.len())?;
    writeln!(io.out, "load {:.3} ms, first run {:.3} ms", measured.load, measured.first)?;
    let rss = measured.rss.map_or_else(|| "not known".to_owned(), |n| format!("{} bytes", words::bytes(n)));
    let (memory, bytes) = match args.common.mode {
        Mode::Static => ("arena", plan.arena_bytes),
        Mode::Eager => ("held at once, at most", plan.certificate.eager_peak_bytes),
    };
    writeln!(io.out, "{memory} {} bytes, peak of the process {rss}", words::bytes(bytes))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_process_writes_is_read() {
        let measured = parse("load 0.5\nfirst 2\nruns 3 1 2\nrss 4096\n").unwrap();
        let wanted = Measured { load: 0.5, first: 2.0, runs: vec![1.0, 2.0, 3.0], rss: Some(4096) };
        assert_eq!(measured, wanted);
        assert_eq!(parse("load 1\nfirst 1\n"), None);
        assert_eq!(parse("what is this\n"), None);
    }

    #[test]
    fn the_middle() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert_eq!(median(&[7.0]), 7.0);
    }
}

//! `planner verify`: runs test cases and compares what comes out.

mod compiled;
mod drawn;
mod held;
mod interpret;
pub(super) mod plans;

pub(super) use compiled::{HARNESS, tensor_file};

use super::args::{Common, Word, next, number, text, unexpected};
use super::case::{Bad, Case, find};
use super::{Command, Failure, Io};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

pub const COMMAND: Command =
    Command { name: "verify", summary: "runs test cases and compares the outputs", help: HELP, common: true, run };

const HELP: &str = "\
usage: planner verify DIR … [options]

Runs ONNX test cases and compares the outputs. A case is a folder with `model.onnx`, `test_data_set_*` folders of
`input_<j>.pb` and `output_<j>.pb`, and perhaps a `tolerance.json`; DIR is a case, or holds cases one or two levels
below. Each case is one line: `pass`, `fail: why` or `unsupported: what`; the totals come last.

What the standard leaves to chance is not comparable: of outputs that depend on a random operator, type and shape are compared
alone. A case with such outputs fails where these differ, else it is `unsupported`, and says which outputs they were.

Free dims that `--dim` does not give are taken from the data: a value where all data sets agree, else a range. Inputs that
planning has to know (a shape, say) are taken as fixed where all data sets agree on them.

  --compiled              runs generated code instead of the interpreter: every case becomes a Rust module, all are built by
                          cargo, and each runs its data sets twice, which must give the same bits and allocate nothing
  --mode eager            with or without `--compiled`: memory is taken and given back during the run; each run must hold at most
                          what the plan says for its extents, and in the end nothing
  --json FILE             writes the results as JSON
  --strict                what is unsupported counts as failed
  --jobs N                cases at a time (default: one per core)
";

/// The stack of a thread that works on cases: lowering nests as deeply as the model's subgraphs.
const STACK: usize = 256 << 20;

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Args {
    common: Common,
    folders: Vec<PathBuf>,
    json: Option<PathBuf>,
    strict: bool,
    compiled: bool,
    jobs: usize,
}

/// How a case went.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Data sets that were compared.
    sets: usize,
    /// Plans that were made for them.
    plans: usize,
    /// Inputs that were taken as fixed because planning needs them.
    fixed: Vec<String>,
}

type Verdict = Result<Done, Bad>;

fn run(parser: &mut lexopt::Parser, io: &mut Io<'_>) -> Result<(), Failure> {
    let args = parse(parser)?;
    super::load::device(&args.common, io)?;
    let mut cases = Vec::new();
    for folder in &args.folders {
        let found = find(folder).map_err(|e| Failure::Refused(format!("{}: {e}", folder.display())))?;
        cases.extend(found);
    }
    if cases.is_empty() {
        let places: Vec<String> = args.folders.iter().map(|f| f.display().to_string()).collect();
        return Err(Failure::Refused(format!(
            "no test case in {}: a case is a folder with `model.onnx` and `test_data_set_*`",
            places.join(", ")
        )));
    }
    let verdicts = if args.compiled {
        quietly(|| compiled::cases(&cases, &args, io))
    } else {
        quietly(|| interpreted(&cases, &args, io))
    }?;
    conclude(&cases, &verdicts, &args, io)
}

fn parse(parser: &mut lexopt::Parser) -> Result<Args, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut args = Args { jobs: cores, ..Args::default() };
    while let Some(word) = next(parser)? {
        if args.common.take(&word, parser)? {
            continue;
        }
        match word {
            Word::Flag(flag) if flag == "--json" => args.json = Some(PathBuf::from(text(parser)?)),
            Word::Flag(flag) if flag == "--compiled" => args.compiled = true,
            Word::Flag(flag) if flag == "--strict" => args.strict = true,
            Word::Flag(flag) if flag == "--jobs" || flag == "-j" => {
                args.jobs = usize::try_from(number(parser, "--jobs", 1)?).unwrap_or(cores);
            }
            Word::Value(folder) => args.folders.push(PathBuf::from(folder)),
            other => return Err(unexpected(&other)),
        }
    }
    if args.folders.is_empty() {
        return Err(Failure::Usage("name a folder with test cases".to_owned()));
    }
    Ok(args)
}

/// Runs every case with the interpreter, several at a time; says how each went as soon as those before it are done.
fn interpreted(cases: &[Case], args: &Args, io: &mut Io<'_>) -> Result<Vec<Verdict>, Failure> {
    let next_case = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.min(cases.len()).max(1) {
            let (send, next_case) = (send.clone(), &next_case);
            let work = move || {
                loop {
                    let i = next_case.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(i) else { break };
                    // Nobody listens any more where the output is closed.
                    if send.send((i, guarded(case, args))).is_err() {
                        break;
                    }
                }
            };
            std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)?;
        }
        drop(send);
        in_order(cases, &receive, io)
    })
}

/// Keeps panics to itself: they are a case's failure.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| PANIC.set(Some(format!("panic at {}", at(info))))));
    let result = work();
    std::panic::set_hook(hook);
    result
}

thread_local! {
    /// Where this thread's last panic was.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn at(info: &std::panic::PanicHookInfo<'_>) -> String {
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), |l| format!("{}:{}", l.file(), l.line()));
    let payload = info.payload();
    let message =
        payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("{place}: {}", message.unwrap_or("no message"))
}

/// One case; a panic in it is a failure of it and of nothing else.
fn guarded(case: &Case, args: &Args) -> Verdict {
    guard(|| interpret::case(case, &args.common))
}

fn guard<T>(work: impl FnOnce() -> Result<T, Bad>) -> Result<T, Bad> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Bad::Fail(PANIC.take().unwrap_or_else(|| "panic".to_owned()))))
}

/// Prints verdicts in the order of the cases, whatever order they come in.
fn in_order(
    cases: &[Case],
    receive: &mpsc::Receiver<(usize, Verdict)>,
    io: &mut Io<'_>,
) -> Result<Vec<Verdict>, Failure> {
    let mut waiting = BTreeMap::new();
    let mut verdicts = Vec::new();
    for (i, verdict) in receive {
        waiting.insert(i, verdict);
        while let Some(verdict) = waiting.remove(&verdicts.len()) {
            if let Some(case) = cases.get(verdicts.len()) {
                say(case, &verdict, io)?;
            }
            verdicts.push(verdict);
        }
        if io.progress {
            write!(io.err, "\r{}/{}\x1b[K\r", verdicts.len() + waiting.len(), cases.len())?;
        }
    }
    Ok(verdicts)
}

fn say(case: &Case, verdict: &Verdict, io: &mut Io<'_>) -> Result<(), Failure> {
    match verdict {
        Ok(_) => writeln!(io.out, "{}: pass", case.name)?,
        Err(Bad::Fail(why)) => writeln!(io.out, "{}: fail: {}", case.name, one_line(why))?,
        Err(Bad::Unsupported(what)) => writeln!(io.out, "{}: unsupported: {}", case.name, one_line(what))?,
    }
    Ok(())
}

/// Several lines as one.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" | ")
}

/// Totals, the JSON file, and whether all is well.
fn conclude(cases: &[Case], verdicts: &[Verdict], args: &Args, io: &mut Io<'_>) -> Result<(), Failure> {
    let count = |f: fn(&Verdict) -> bool| verdicts.iter().filter(|v| f(v)).count();
    let passed = count(|v| v.is_ok());
    let failed = count(|v| matches!(v, Err(Bad::Fail(_))));
    let unsupported = count(|v| matches!(v, Err(Bad::Unsupported(_))));
    writeln!(io.out, "{passed} passed, {failed} failed, {unsupported} unsupported")?;
    if let Some(path) = &args.json {
        let list: Vec<Value> = cases.iter().zip(verdicts).map(|(c, v)| entry(c, v)).collect();
        let whole = json!({
            "schema": 1, "passed": passed, "failed": failed, "unsupported": unsupported, "cases": list,
        });
        let text = format!("{whole:#}\n");
        std::fs::write(path, text).map_err(|e| Failure::Refused(format!("{}: {e}", path.display())))?;
    }
    if failed > 0 || (args.strict && unsupported > 0) { Err(Failure::Said) } else { Ok(()) }
}

fn entry(case: &Case, verdict: &Verdict) -> Value {
    match verdict {
        Ok(d) => json!({
            "name": case.name, "result": "pass", "sets": d.sets, "plans": d.plans, "fixed": d.fixed,
        }),
        Err(Bad::Fail(why)) => json!({ "name": case.name, "result": "fail", "reason": why }),
        Err(Bad::Unsupported(what)) => json!({ "name": case.name, "result": "unsupported", "reason": what }),
    }
}

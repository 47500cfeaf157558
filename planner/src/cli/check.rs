//! `planner check`: the checker on a plan's file.

use super::args::{next, unexpected};
use super::{Command, Failure, Io, load};
use plan::Plan;
use std::path::PathBuf;

pub const COMMAND: Command =
    Command { name: "check", summary: "runs the checker on a plan", help: HELP, common: false, run };

const HELP: &str = "\
usage: planner check NAME.plan.ron

Executes a plan on shadow memory, in both executors and at the corners of its ranges, and says whether every step reads
what it should. Exit status 0, or the step and the value that are wrong.
";

fn run(parser: &mut lexopt::Parser, io: &mut Io<'_>) -> Result<(), Failure> {
    let mut file: Option<PathBuf> = None;
    while let Some(word) = next(parser)? {
        match word {
            super::args::Word::Value(path) if file.is_none() => file = Some(path.into()),
            other => return Err(unexpected(&other)),
        }
    }
    let file = file.ok_or_else(|| Failure::Usage("name a plan".to_owned()))?;
    let refused = |e: String| Failure::Refused(format!("{}: {e}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(|e| refused(e.to_string()))?;
    let plan = Plan::from_text(&text).map_err(|e| refused(e.to_string()))?;
    let report = load::checked(&plan).map_err(refused)?;
    let count = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (points, runs) = (count(report.points as u64, "point"), count(report.runs as u64, "run"));
    writeln!(io.out, "accepted: {points}, {runs}, {}", count(report.steps, "step"))?;
    for buffer in report.not_tight {
        let name = plan.buffers.get(buffer.index()).map_or("?", |b| &*b.name);
        writeln!(io.out, "the eager executor holds {name} longer than it must")?;
    }
    Ok(())
}

//! The `planner` command.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let (out, err) = (std::io::stdout(), std::io::stderr());
    let progress = err.is_terminal();
    let (mut out, mut err) = (out.lock(), err.lock());
    let code = planner::cli::run(std::env::args_os().skip(1), &mut out, &mut err, progress);
    // Nothing is left to tell an error to.
    let _ = out.flush();
    ExitCode::from(code)
}

//! The command line: `planner COMMAND …`.
//!
//! Each command lives in a file of its own, with its help and its options, and is a line in `COMMANDS`. Exit status: 0
//! done, 1 a clear refusal, 2 wrong usage. Results go to standard output, messages and progress to standard error.

mod args;
mod bench;
mod case;
mod check;
mod compare;
mod element;
mod emit;
mod explain;
mod generated;
mod load;
mod npy;
mod pack;
mod report;
mod run;
mod steps;
mod verify;
mod view;
mod words;
mod work;

use std::ffi::OsString;
use std::io::Write;

/// Where a command writes.
struct Io<'a> {
    /// Results.
    out: &'a mut dyn Write,
    /// Messages.
    err: &'a mut dyn Write,
    /// Whether somebody watches, so that long work may say how far it is.
    progress: bool,
}

/// Why a command ends early.
#[derive(Debug)]
enum Failure {
    /// Help was asked for.
    Help,
    /// The command line makes no sense.
    Usage(String),
    /// What was asked for cannot be had.
    Refused(String),
    /// As `Refused`, and everything has been said.
    Said,
}

impl From<lexopt::Error> for Failure {
    fn from(e: lexopt::Error) -> Failure {
        Failure::Usage(e.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Failure {
        // A reader that goes away is no problem of ours.
        if e.kind() == std::io::ErrorKind::BrokenPipe { Failure::Said } else { Failure::Refused(e.to_string()) }
    }
}

impl From<crate::Error> for Failure {
    fn from(e: crate::Error) -> Failure {
        Failure::Refused(e.to_string())
    }
}

impl From<case::Bad> for Failure {
    fn from(bad: case::Bad) -> Failure {
        match bad {
            case::Bad::Fail(why) | case::Bad::Unsupported(why) => Failure::Refused(why),
        }
    }
}

/// One command.
struct Command {
    name: &'static str,
    /// One line of the list of commands.
    summary: &'static str,
    /// Everything about it, starting with its usage.
    help: &'static str,
    /// Whether it has the common options.
    common: bool,
    run: fn(&mut lexopt::Parser, &mut Io<'_>) -> Result<(), Failure>,
}

const COMMANDS: &[Command] = &[
    emit::COMMAND,
    report::COMMAND,
    check::COMMAND,
    run::COMMAND,
    verify::COMMAND,
    bench::COMMAND,
    pack::COMMAND,
    explain::COMMAND,
    view::COMMAND,
];

/// Runs the command that `args` name; the exit status.
pub fn run(args: impl IntoIterator<Item = OsString>, out: &mut dyn Write, err: &mut dyn Write, progress: bool) -> u8 {
    let mut io = Io { out, err, progress };
    let mut parser = lexopt::Parser::from_args(args);
    match find(&mut parser, &mut io) {
        Ok(Some(command)) => {
            let result = (command.run)(&mut parser, &mut io);
            conclude(result, Some(command), &mut io)
        }
        Ok(None) => 0,
        Err(failure) => conclude(Err(failure), None, &mut io),
    }
}

/// The command; none where all is done already.
fn find(parser: &mut lexopt::Parser, io: &mut Io<'_>) -> Result<Option<&'static Command>, Failure> {
    match parser.next()? {
        Some(lexopt::Arg::Value(name)) => match COMMANDS.iter().find(|c| name == c.name) {
            Some(command) => Ok(Some(command)),
            None if name == "help" => Err(Failure::Help),
            None => Err(Failure::Usage(format!("there is no command `{}`", name.to_string_lossy()))),
        },
        Some(lexopt::Arg::Long("help") | lexopt::Arg::Short('h')) => Err(Failure::Help),
        Some(lexopt::Arg::Long("version") | lexopt::Arg::Short('V')) => {
            writeln!(io.out, "planner {}", env!("CARGO_PKG_VERSION"))?;
            Ok(None)
        }
        Some(other) => Err(other.unexpected().into()),
        None => Err(Failure::Usage("name a command".to_owned())),
    }
}

/// Says how a command ended; its exit status.
fn conclude(result: Result<(), Failure>, command: Option<&Command>, io: &mut Io<'_>) -> u8 {
    // Whoever reads the output may be gone: then there is nobody to tell.
    match result {
        Ok(()) => 0,
        Err(Failure::Help) => {
            let _ = match command {
                Some(c) if c.common => write!(io.out, "{}\n{}", c.help, args::COMMON_HELP),
                Some(c) => io.out.write_all(c.help.as_bytes()),
                None => io.out.write_all(overview().as_bytes()),
            };
            0
        }
        Err(Failure::Usage(what)) => {
            let usage = match command {
                Some(command) => {
                    let usage = command.help.lines().next().unwrap_or_default();
                    format!("{usage}\n`planner {} --help` says more", command.name)
                }
                None => overview(),
            };
            let _ = writeln!(io.err, "error: {what}\n\n{usage}");
            2
        }
        Err(Failure::Refused(what)) => {
            let _ = writeln!(io.err, "error: {what}");
            1
        }
        Err(Failure::Said) => 1,
    }
}

/// The list of commands.
fn overview() -> String {
    let mut text = String::from("usage: planner COMMAND …\n\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:<8} {}\n", command.name, command.summary));
    }
    text.push_str("\n`planner COMMAND --help` says more\n");
    text
}

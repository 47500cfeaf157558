//! Options that several commands have, and how their values are written.

use super::Failure;
use crate::{DimOption, DimTarget, Fixed};
use runtime::device::DeviceRequest;
use std::ffi::OsString;
use std::path::PathBuf;

/// The options that all commands on a model share.
pub const COMMON_HELP: &str = "\
options of every command on a model:
  --dim NAME=N            the value of a free dim, by the name it has in the model
  --dim NAME=LO..=HI[/STEP]
                          its range: LO, LO+STEP, … up to HI
  --dim INPUT#AXIS=…      the same for a dim without a name
  --data CASE_DIR         free dims that are not given are taken from the data sets of a test case
  --fix INPUT=VALUE       an input that never changes: a number, a list `1,2,3`, or a .npy file
  --state IN=OUT          feeds an output back as an input; the model keeps it
  --mode static|eager     one arena at fixed offsets (default), or memory taken and released during the run
  --device cpu|cuda:N     where to run (default cpu)
  --allow-fallback        may run on the processor where the device is not there
  --budget BYTES          refuses more memory than this: `262144`, `256KiB`, `1.5MiB`; of the static executor the arena, of the
                          eager one the most that it holds at once
  --strict-workspace      refuses workspace that is not what was reserved, rather than to warn of it
  --weights embed|file    weights in the binary or in a file (default: embed up to 512 MiB)
  --align N               alignment of every buffer in bytes (default 64)
  --order best|file       steps in the order that needs least memory (default), or as the file has them
  --name NAME             the model's name (default: the stem of its file)
";

/// One word of a command line.
pub enum Word {
    /// An option, with its dashes.
    Flag(String),
    /// Anything else.
    Value(OsString),
}

/// The next word; an error where it asks for help.
pub fn next(parser: &mut lexopt::Parser) -> Result<Option<Word>, Failure> {
    Ok(match parser.next()? {
        None => None,
        Some(lexopt::Arg::Long("help") | lexopt::Arg::Short('h')) => return Err(Failure::Help),
        Some(lexopt::Arg::Long(name)) => Some(Word::Flag(format!("--{name}"))),
        Some(lexopt::Arg::Short(name)) => Some(Word::Flag(format!("-{name}"))),
        Some(lexopt::Arg::Value(value)) => Some(Word::Value(value)),
    })
}

/// An option or argument that a command does not have.
pub fn unexpected(word: &Word) -> Failure {
    Failure::Usage(match word {
        Word::Flag(name) => format!("there is no option `{name}`"),
        Word::Value(value) => format!("one argument too many: `{}`", value.to_string_lossy()),
    })
}

/// The value of an option, as text.
pub fn text(parser: &mut lexopt::Parser) -> Result<String, Failure> {
    let value = parser.value()?;
    value.into_string().map_err(|v| Failure::Usage(format!("`{}` is not UTF-8", v.to_string_lossy())))
}

/// The value of an option, a number of at least `least`.
pub fn number(parser: &mut lexopt::Parser, name: &str, least: u64) -> Result<u64, Failure> {
    let value = text(parser)?;
    let number = value.parse().ok().filter(|n| *n >= least);
    number.ok_or_else(|| Failure::Usage(format!("{name} takes a number of at least {least}, not `{value}`")))
}

/// Which executor runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// One arena at fixed offsets.
    #[default]
    Static,
    /// Memory taken and released during the run.
    Eager,
}

impl Mode {
    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Static => "static",
            Mode::Eager => "eager",
        }
    }
}

/// Where the weights go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightsAt {
    /// In the binary if they are small.
    #[default]
    Auto,
    /// In the binary.
    Embed,
    /// In a file.
    File,
}

impl WeightsAt {
    /// Weights of up to this many bytes are embedded; `auto` where nothing was asked for.
    pub fn limit(self, auto: u64) -> u64 {
        match self {
            WeightsAt::Auto => auto,
            WeightsAt::Embed => u64::MAX,
            WeightsAt::File => 0,
        }
    }
}

/// The value of `--fix`.
#[derive(Clone, Debug, PartialEq)]
pub enum FixArg {
    /// Numbers.
    Values(Fixed),
    /// A `.npy` file.
    File(PathBuf),
}

/// What the common options say.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// `--dim`.
    pub dims: Vec<DimOption>,
    /// `--data`.
    pub data: Option<PathBuf>,
    /// `--fix`.
    pub fix: Vec<(String, FixArg)>,
    /// `--state`.
    pub states: Vec<(String, String)>,
    /// `--mode`.
    pub mode: Mode,
    /// `--device`.
    pub device: DeviceRequest,
    /// `--allow-fallback`.
    pub allow_fallback: bool,
    /// `--budget`.
    pub budget: Option<u64>,
    /// `--strict-workspace`.
    pub strict_workspace: bool,
    /// `--weights`.
    pub weights: WeightsAt,
    /// `--align`.
    pub align: u64,
    /// `--order file`.
    pub file_order: bool,
    /// `--name`.
    pub name: Option<String>,
}

impl Common {
    /// Takes an option if it is one of these.
    pub fn take(&mut self, word: &Word, parser: &mut lexopt::Parser) -> Result<bool, Failure> {
        let Word::Flag(flag) = word else { return Ok(false) };
        match flag.as_str() {
            "--dim" => self.dims.push(dim(&text(parser)?).map_err(Failure::Usage)?),
            "--data" => self.data = Some(PathBuf::from(text(parser)?)),
            "--fix" => {
                let (input, value) = pair(&text(parser)?, "--fix INPUT=VALUE")?;
                self.fix.push((input, fix(&value).map_err(Failure::Usage)?));
            }
            "--state" => self.states.push(pair(&text(parser)?, "--state IN=OUT")?),
            "--mode" => {
                self.mode = choice(parser, "--mode", &[("static", Mode::Static), ("eager", Mode::Eager)])?;
            }
            "--device" => {
                let value = text(parser)?;
                self.device = value
                    .parse()
                    .map_err(|_| Failure::Usage(format!("--device takes cpu or cuda:N, not `{value}`")))?;
            }
            "--allow-fallback" => self.allow_fallback = true,
            "--budget" => {
                let value = text(parser)?;
                let wrong =
                    || Failure::Usage(format!("--budget takes bytes such as `262144` or `256KiB`, not `{value}`"));
                self.budget = Some(crate::parse_bytes(&value).ok_or_else(wrong)?);
            }
            "--strict-workspace" => self.strict_workspace = true,
            "--weights" => {
                self.weights = choice(parser, "--weights", &[("embed", WeightsAt::Embed), ("file", WeightsAt::File)])?;
            }
            "--align" => {
                self.align = number(parser, "--align", 1)?;
                if !self.align.is_power_of_two() {
                    return Err(Failure::Usage(format!("--align takes a power of two, not `{}`", self.align)));
                }
            }
            "--order" => self.file_order = choice(parser, "--order", &[("best", false), ("file", true)])?,
            "--name" => self.name = Some(text(parser)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A value that is one of a few words.
fn choice<T: Copy>(parser: &mut lexopt::Parser, name: &str, words: &[(&str, T)]) -> Result<T, Failure> {
    let value = text(parser)?;
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Failure::Usage(format!("{name} takes {}, not `{value}`", words.join(" or ")))
    })
}

/// `A=B`, at the last `=`: names of tensors may hold others.
pub fn pair(text: &str, form: &str) -> Result<(String, String), Failure> {
    match text.rsplit_once('=') {
        Some((a, b)) if !a.is_empty() && !b.is_empty() => Ok((a.to_owned(), b.to_owned())),
        _ => Err(Failure::Usage(format!("`{text}` is not of the form {form}"))),
    }
}

/// `NAME=N`, `NAME=LO..=HI`, `NAME=LO..=HI/STEP`, and the same with `INPUT#AXIS`.
fn dim(text: &str) -> Result<DimOption, String> {
    let wrong = || format!("`{text}` is not of the form NAME=N, NAME=LO..=HI[/STEP] or INPUT#AXIS=…");
    // The range has an `=` of its own.
    let (name, lo, hi, step) = match text.split_once("..=") {
        Some((left, right)) => {
            let (name, lo) = left.rsplit_once('=').ok_or_else(wrong)?;
            let (hi, step) = right.split_once('/').unwrap_or((right, "1"));
            (name, lo, hi, step)
        }
        None => {
            let (name, value) = text.rsplit_once('=').ok_or_else(wrong)?;
            (name, value, value, "1")
        }
    };
    let number = |s: &str| s.trim().replace('_', "").parse::<i64>().map_err(|_| wrong());
    let (lo, hi, step) = (number(lo)?, number(hi)?, number(step)?);
    if name.is_empty() {
        return Err(wrong());
    }
    if lo < 0 || hi < lo || step < 1 {
        return Err(format!("`{text}`: a range goes up from 0 or more, by steps of 1 or more"));
    }
    let axis = name.rsplit_once('#').and_then(|(input, axis)| Some((input, axis.parse().ok()?)));
    let target = match axis {
        Some((input, axis)) => DimTarget::Axis { input: input.to_owned(), axis },
        None => DimTarget::Named(name.to_owned()),
    };
    Ok(DimOption { target, lo, hi, step })
}

/// A number, a list of numbers with or without brackets, or the name of a `.npy` file.
fn fix(text: &str) -> Result<FixArg, String> {
    if text.ends_with(".npy") {
        return Ok(FixArg::File(PathBuf::from(text)));
    }
    let list = text.trim().trim_start_matches('[').trim_end_matches(']');
    let words = || list.split([',', ' ']).map(str::trim).filter(|w| !w.is_empty());
    let ints = words().map(|w| match w {
        "true" => Ok(1),
        "false" => Ok(0),
        w => w.replace('_', "").parse(),
    });
    if let Ok(ints) = ints.collect::<Result<Vec<i64>, _>>() {
        return Ok(FixArg::Values(Fixed::Ints(ints)));
    }
    let floats = words().map(str::parse).collect::<Result<Vec<f64>, _>>();
    floats
        .map(|list| FixArg::Values(Fixed::Floats(list)))
        .map_err(|_| format!("`{text}` is no number, list of numbers or .npy file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, lo: i64, hi: i64, step: i64) -> DimOption {
        DimOption { target: DimTarget::Named(name.to_owned()), lo, hi, step }
    }

    #[test]
    fn dims_in_all_forms() {
        assert_eq!(dim("batch=4"), Ok(named("batch", 4, 4, 1)));
        assert_eq!(dim("h=32..=960/32"), Ok(named("h", 32, 960, 32)));
        assert_eq!(dim("a=b=1..=2"), Ok(named("a=b", 1, 2, 1)));
        let axis = DimTarget::Axis { input: "x#y".to_owned(), axis: 2 };
        assert_eq!(dim("x#y#2=3"), Ok(DimOption { target: axis, lo: 3, hi: 3, step: 1 }));
        assert_eq!(dim("unk#a=3"), Ok(named("unk#a", 3, 3, 1)));
        for wrong in ["batch", "=3", "b=", "b=x", "b=1..2", "b=5..=4", "b=1..=4/0", "b=-1"] {
            assert!(dim(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fixed_values_in_all_forms() {
        assert_eq!(fix("16_000"), Ok(FixArg::Values(Fixed::Ints(vec![16000]))));
        assert_eq!(fix("[1, -2,3]"), Ok(FixArg::Values(Fixed::Ints(vec![1, -2, 3]))));
        assert_eq!(fix("1,2.5"), Ok(FixArg::Values(Fixed::Floats(vec![1.0, 2.5]))));
        assert_eq!(fix("true"), Ok(FixArg::Values(Fixed::Ints(vec![1]))));
        assert_eq!(fix("a/b.npy"), Ok(FixArg::File("a/b.npy".into())));
        assert!(fix("abc").is_err());
    }
}

//! For build scripts: from a model to Rust in `OUT_DIR`.

mod error;
mod values;

pub use error::{Error, ErrorKind};
pub use values::{FixedValue, Sizes};

use codegen::{Mode, WeightsIn};
use planner::{DimOption, DimTarget};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// What a build script's `main` returns.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// A model to plan.
#[must_use = "nothing happens before `emit`"]
#[derive(Clone, Debug)]
pub struct Model {
    path: PathBuf,
    options: planner::Options,
    weights: Option<WeightsIn>,
    mode: Mode,
    /// Larger weights are not embedded unless asked for.
    embed_limit: u64,
    /// What is wrong with the options so far.
    problems: Vec<String>,
}

impl Model {
    /// The model in this file, named after it.
    pub fn new(path: impl AsRef<Path>) -> Model {
        let path = path.as_ref().to_owned();
        let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let options = planner::Options { name: Some(codegen::snake_case(&stem)), ..planner::Options::default() };
        let (mode, embed_limit) = (Mode::Static, codegen::EMBED_LIMIT);
        Model { path, options, weights: None, mode, embed_limit, problems: Vec::new() }
    }

    /// Gives a free dim a value or a range, `1` or `192..=640`. The dim has the model's name for it, or is `INPUT#AXIS`.
    pub fn dim(mut self, name: &str, sizes: impl Into<Sizes>) -> Model {
        let target = match name.rsplit_once('#').and_then(|(input, axis)| Some((input, axis.parse().ok()?))) {
            Some((input, axis)) => DimTarget::Axis { input: input.to_owned(), axis },
            None => DimTarget::Named(name.to_owned()),
        };
        let Sizes { lo, hi } = sizes.into();
        self.options.dims.push(DimOption { target, lo, hi, step: 1 });
        self
    }

    /// Of the range of the dim given last, only every `step`-th value, counted from the first.
    pub fn step(mut self, step: i64) -> Model {
        match self.options.dims.last_mut() {
            Some(dim) => dim.step = step,
            None => self.problems.push(String::from("`.step()` stands before any `.dim()`")),
        }
        self
    }

    /// Folds an input that never changes into the plan: a number, or the elements in row-major order.
    pub fn fix(mut self, input: &str, value: impl Into<FixedValue>) -> Model {
        self.options.fix.push((input.to_owned(), value.into().0));
        self
    }

    /// Feeds an output back as an input: the model keeps it from one run to the next.
    pub fn state(mut self, input: &str, output: &str) -> Model {
        self.options.states.push((input.to_owned(), output.to_owned()));
        self
    }

    /// Fails the build where the arena needs more: `"256 KiB"`, `"1.5 MiB"`, `"4096"` (bytes).
    pub fn budget(mut self, bytes: &str) -> Model {
        match planner::parse_bytes(bytes) {
            Some(count) => self.options.budget = Some(count),
            None => self.problems.push(format!("budget {bytes:?} is not a size such as \"256 KiB\"")),
        }
        self
    }

    /// Generates the eager executor: each buffer is taken when a step first needs it, with the bytes that the run's extents ask
    /// for, and given back after the last. For wide ranges of dims, and for models that share memory. The budget is then for
    /// what is held at once. Without this there is one arena, and a run allocates nothing.
    pub fn eager(mut self) -> Model {
        self.mode = Mode::Eager;
        self.options.eager = true;
        self
    }

    /// Fails the build where the workspace that a step's kernel declares is more than was reserved for its node, or one of the two is
    /// missing, instead of a warning.
    pub fn strict_workspace(mut self) -> Model {
        self.options.strict_workspace = true;
        self
    }

    /// The alignment of every buffer, in bytes; 64 where not given.
    pub fn align(mut self, bytes: u64) -> Model {
        self.options.align = bytes;
        self
    }

    /// Another name for the generated module.
    pub fn name(mut self, name: &str) -> Model {
        self.options.name = Some(codegen::snake_case(name));
        self
    }

    /// Leaves the weights in a file, which the program maps: `Model::open(path)` then stands in the place of `Model::new()`. The
    /// build leaves the file in `OUT_DIR`; the environment variable `NAME_WEIGHTS` (the module's name in capitals) holds its
    /// path for `env!`. Weights of more than 512 MiB are left in a file by themselves.
    pub fn weights_file(mut self) -> Model {
        self.weights = Some(WeightsIn::File);
        self
    }

    /// Embeds the weights, however large.
    pub fn embed_weights(mut self) -> Model {
        self.weights = Some(WeightsIn::Binary);
        self
    }

    /// Embeds weights of up to this size (`"16 MiB"`), and leaves larger ones in a file; 512 MiB where not given.
    pub fn embed_limit(mut self, bytes: &str) -> Model {
        match planner::parse_bytes(bytes) {
            Some(count) => self.embed_limit = count,
            None => self.problems.push(format!("embed_limit {bytes:?} is not a size such as \"16 MiB\"")),
        }
        self
    }

    /// Plans the model, and writes `NAME.rs` and `NAME.weights` to `OUT_DIR`. Does nothing where they are there already and
    /// neither the model nor the options nor flightplan have changed.
    ///
    /// # Errors
    /// With everything that is wrong with the model and the options.
    pub fn emit(self) -> Result {
        let out = std::env::var_os("OUT_DIR").ok_or_else(|| {
            let text = "there is no OUT_DIR: `emit` works in build scripts; elsewhere use `emit_to`";
            Error::new(ErrorKind::Options, &self.path, text)
        })?;
        // Also where the build fails: the next one looks again.
        println!("cargo::rerun-if-changed=build.rs");
        println!("cargo::rerun-if-changed={}", self.path.display());
        let made = self.make(Path::new(&out))?;
        self.directives(Path::new(&out), &made).iter().for_each(|line| println!("{line}"));
        Ok(())
    }

    /// What cargo is told of what was made.
    fn directives(&self, out: &Path, made: &Made) -> Vec<String> {
        let mut lines: Vec<String> =
            made.files.iter().map(|file| format!("cargo::rerun-if-changed={}", file.display())).collect();
        lines.extend(made.warnings.iter().map(|w| format!("cargo::warning={w}")));
        if made.place == WeightsIn::File {
            let (module, name) = (self.module(), self.module().to_uppercase());
            let file = out.join(format!("{module}.weights"));
            lines.push(format!("cargo::rustc-env={name}_WEIGHTS={}", file.display()));
            if self.weights.is_none() {
                lines.push(format!(
                    "cargo::warning={module}: its weights are too large to embed and stay in a file: open it with \
                     `{module}::Model::open(env!(\"{name}_WEIGHTS\"))`; `.weights_file()` says the same without this warning"
                ));
            }
        }
        lines
    }

    /// As [`Model::emit`], into another folder. Gives the planner's warnings.
    ///
    /// # Errors
    /// As [`Model::emit`].
    pub fn emit_to(&self, folder: &Path) -> Result<Vec<String>> {
        self.make(folder).map(|made| made.warnings)
    }

    fn make(&self, folder: &Path) -> Result<Made> {
        if !self.problems.is_empty() {
            return Err(Error::new(ErrorKind::Options, &self.path, self.problems.join("\n  ")));
        }
        let file = |extension: &str| folder.join(format!("{}.{extension}", self.module()));
        let stamp = file("stamp");
        let there = ["rs", "weights"].iter().all(|e| file(e).exists());
        if let Some(made) = fs::read_to_string(&stamp).ok().filter(|_| there).and_then(|text| self.known(&text)) {
            return Ok(made);
        }
        // Before the model is read: what changes meanwhile is seen the next time.
        let unreadable = |e: io::Error| {
            let from = std::env::current_dir().ok().filter(|_| self.path.is_relative());
            let from = from.map(|folder| format!("; the path starts from {}", folder.display())).unwrap_or_default();
            Error::new(ErrorKind::Read, &self.path, format!("the model cannot be read: {e}{from}"))
        };
        let own = version(&self.path).map_err(unreadable)?;
        let model = planner::onnx::read(&self.path).map_err(|e| Error::read(&self.path, &e))?;
        let folder_of_model = self.path.parent().unwrap_or(Path::new(""));
        let files: Vec<PathBuf> = model.files.iter().map(|name| folder_of_model.join(name)).collect();
        let planned = planner::plan(model, &self.options).map_err(|e| Error::plan(&self.path, &e))?;
        let internal = |e: String| Error::new(ErrorKind::Internal, &self.path, e);
        // What the independent checker rejects is never emitted.
        checker::check(&planned.plan, &checker::Points::default()).map_err(|e| {
            let hash = planned.plan.hash().unwrap_or_default();
            internal(format!("the checker rejects the plan {hash}, which is a fault of the planner: {e}"))
        })?;
        let small = planned.plan.weight_bytes <= self.embed_limit;
        let place = self.weights.unwrap_or(if small { WeightsIn::Binary } else { WeightsIn::File });
        let options = codegen::Options {
            weights: place,
            weights_file: Some(format!("{}.weights", self.module())),
            mode: self.mode,
        };
        let code = codegen::generate(&planned.plan, &options).map_err(|e| internal(e.to_string()))?;
        let written = |e| Error::new(ErrorKind::Write, &self.path, format!("the result cannot be written: {e}"));
        // A stamp that outlives what it vouches for would be worse than none.
        let _ = fs::remove_file(&stamp);
        fs::write(file("rs"), code).map_err(written)?;
        let mut weights = io::BufWriter::new(fs::File::create(file("weights")).map_err(written)?);
        let pieces = planned.weights.pieces.iter().map(|(offset, bytes)| (*offset, bytes));
        codegen::write_weights(&mut weights, pieces, planned.weights.len).map_err(written)?;
        io::Write::flush(&mut weights).map_err(written)?;
        let warnings = planned.warnings.iter().map(|w| w.replace('\n', " ")).collect();
        let made = Made { warnings, place, files };
        fs::write(stamp, self.stamp(&own, &made).map_err(unreadable)?).map_err(written)?;
        Ok(made)
    }

    /// The name of the module.
    fn module(&self) -> &str {
        self.options.name.as_deref().unwrap_or("model")
    }

    /// What does not depend on files: the options, and flightplan itself.
    fn head(&self) -> String {
        let program = std::env::current_exe().and_then(|path| version(&path)).unwrap_or_default();
        let (limit, flightplan) = (self.embed_limit, env!("CARGO_PKG_VERSION"));
        format!("{flightplan} {program} {:?} {:?} {limit}", self.options, self.weights).replace('\n', " ")
    }

    /// What was made of what: the head, a line for each file that was read, an empty one, where the weights went, and the
    /// warnings.
    fn stamp(&self, own: &str, made: &Made) -> io::Result<String> {
        let mut text = format!("{}\n{own} {}\n", self.head(), self.path.display());
        for file in &made.files {
            text.push_str(&format!("{} {}\n", version(file)?, file.display()));
        }
        text.push_str(&format!("\n{:?}\n", made.place));
        made.warnings.iter().for_each(|w| text.push_str(&format!("{w}\n")));
        Ok(text)
    }

    /// What is there already, if a stamp says that it was made of the same options and of files as they are now.
    fn known(&self, stamp: &str) -> Option<Made> {
        let (sources, rest) = stamp.split_once("\n\n")?;
        let mut lines = sources.lines();
        if lines.next()? != self.head() {
            return None;
        }
        let mut files = Vec::new();
        for line in lines {
            let (was, path) = line.split_once(' ')?;
            if version(Path::new(path)).ok()? != was {
                return None;
            }
            files.push(PathBuf::from(path));
        }
        if files.is_empty() || files.remove(0) != self.path {
            return None;
        }
        let mut rest = rest.lines();
        let place = rest.next()?;
        let place = [WeightsIn::Binary, WeightsIn::File].into_iter().find(|p| format!("{p:?}") == place)?;
        Some(Made { warnings: rest.map(str::to_owned).collect(), place, files })
    }
}

/// What tells a file from a changed one: its length, and when it was last written.
fn version(path: &Path) -> io::Result<String> {
    let meta = fs::metadata(path)?;
    let written = meta.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(format!("{}@{}", meta.len(), written.as_nanos()))
}

/// What came of a model.
struct Made {
    /// A line each.
    warnings: Vec<String>,
    place: WeightsIn,
    /// Files that were read besides the model's own.
    files: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_are_told_together() {
        let model = Model::new("missing/Model-1.onnx").budget("much").step(3);
        assert_eq!(model.module(), "model_1");
        let text = format!("{:?}", model.emit_to(Path::new(".")).unwrap_err());
        assert!(text.contains("missing/Model-1.onnx") && text.contains("much") && text.contains(".dim()"), "{text}");
    }

    #[test]
    fn a_missing_model_is_an_error() {
        let text = Model::new("missing.onnx").emit_to(Path::new(".")).unwrap_err().to_string();
        assert!(text.starts_with("`missing.onnx`: the model cannot be read"), "{text}");
    }

    /// What was made for one executor does not stand for the other, and each has its own budget.
    #[test]
    fn the_executor_is_an_option() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let model = || Model::new(root.join("../models/magika/magika.onnx")).dim("bytes#0", 1);
        let folder = std::env::temp_dir().join(format!("flightplan-eager-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let number = |model: Model, name: &str| {
            model.emit_to(&folder).unwrap();
            let code = fs::read_to_string(folder.join("magika.rs")).unwrap();
            let number =
                code.split_once(&format!("pub const {name}: usize = ")).and_then(|(_, rest)| rest.split_once(';'));
            number.and_then(|(n, _)| n.parse::<u64>().ok())
        };
        assert!(number(model(), "ARENA_BYTES").is_some());
        let peak = number(model().eager(), "PEAK_BYTES").unwrap();
        assert_eq!(number(model().eager(), "ARENA_BYTES"), None);
        assert_eq!(number(model(), "PEAK_BYTES"), None);
        assert_eq!(number(model().eager().budget(&peak.to_string()), "PEAK_BYTES"), Some(peak));
        let error = model().eager().budget(&(peak - 1).to_string()).emit_to(&folder).unwrap_err();
        assert!(error.to_string().contains(&format!("the eager executor holds up to {peak} bytes")), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A model whose weights are larger than the limit is mapped, a smaller one is embedded, and what was asked for wins.
    #[test]
    fn large_weights_stay_in_a_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let model = || Model::new(root.join("../models/magika/magika.onnx")).dim("bytes#0", 1);
        let folder = std::env::temp_dir().join(format!("flightplan-limit-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let made = |model: Model| {
            let made = model.make(&folder).unwrap();
            let code = fs::read_to_string(folder.join("magika.rs")).unwrap();
            assert_eq!(code.contains("include_bytes!"), made.place == WeightsIn::Binary);
            assert_eq!(code.contains("pub fn open("), made.place == WeightsIn::File);
            (made.place, model.directives(&folder, &made).join("\n"))
        };
        assert_eq!(made(model()), (WeightsIn::Binary, String::new()));
        // The second time from the stamp.
        for _ in 0..2 {
            let (place, lines) = made(model().embed_limit("100 KiB"));
            assert_eq!(place, WeightsIn::File);
            assert!(
                lines.starts_with("cargo::rustc-env=MAGIKA_WEIGHTS=") && lines.contains("magika::Model::open("),
                "{lines}"
            );
        }
        let len = fs::metadata(folder.join("magika.weights")).unwrap().len();
        assert_eq!(made(model().embed_limit(&len.to_string())).0, WeightsIn::Binary);
        assert_eq!(made(model().embed_limit(&(len - 1).to_string())).0, WeightsIn::File);
        assert_eq!(made(model().embed_limit("1").embed_weights()).0, WeightsIn::Binary);
        let (place, lines) = made(model().weights_file());
        assert!(place == WeightsIn::File && !lines.contains("warning"), "{lines}");
        fs::remove_dir_all(&folder).unwrap();
    }
}

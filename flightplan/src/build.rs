//! For build scripts: from a model to Rust in `OUT_DIR`.

mod values;

pub use values::{FixedValue, Sizes};

use codegen::WeightsIn;
use planner::{DimOption, DimTarget};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// What a build script's `main` returns.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// Weights larger than this are not embedded unless asked for.
const EMBED_LIMIT: u64 = 512 << 20;

/// Why a model could not be built. `Debug` prints the same readable text as `Display`, since that is what cargo shows of the
/// error that a build script's `main` returns.
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

/// A model to plan.
#[must_use = "nothing happens before `emit`"]
#[derive(Clone, Debug)]
pub struct Model {
    path: PathBuf,
    options: planner::Options,
    weights: Option<WeightsIn>,
    /// What is wrong with the options so far.
    problems: Vec<String>,
}

impl Model {
    /// The model in this file, named after it.
    pub fn new(path: impl AsRef<Path>) -> Model {
        let path = path.as_ref().to_owned();
        let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let options = planner::Options { name: Some(codegen::snake_case(&stem)), ..planner::Options::default() };
        Model { path, options, weights: None, problems: Vec::new() }
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
        match values::parse_bytes(bytes) {
            Some(count) => self.options.budget = Some(count),
            None => self.problems.push(format!("budget {bytes:?} is not a size such as \"256 KiB\"")),
        }
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

    /// Leaves the weights in a file, which the program opens (`Model::open`). The build leaves it in `OUT_DIR`; the
    /// environment variable `NAME_WEIGHTS` (the module's name in capitals) holds its path for `env!`.
    pub fn weights_file(mut self) -> Model {
        self.weights = Some(WeightsIn::File);
        self
    }

    /// Embeds the weights, however large.
    pub fn embed_weights(mut self) -> Model {
        self.weights = Some(WeightsIn::Binary);
        self
    }

    /// Plans the model, and writes `NAME.rs` and `NAME.weights` to `OUT_DIR`. Does nothing where they are there already and
    /// neither the model nor the options nor flightplan have changed.
    ///
    /// # Errors
    /// With everything that is wrong with the model and the options.
    pub fn emit(self) -> Result {
        let out = std::env::var_os("OUT_DIR")
            .ok_or_else(|| self.error("there is no OUT_DIR: `emit` works in build scripts; elsewhere use `emit_to`"))?;
        println!("cargo::rerun-if-changed=build.rs");
        for path in self.sources() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        for warning in self.emit_to(Path::new(&out))? {
            println!("cargo::warning={}", warning.replace('\n', " "));
        }
        if self.weights == Some(WeightsIn::File) {
            let file = Path::new(&out).join(format!("{}.weights", self.module()));
            println!("cargo::rustc-env={}_WEIGHTS={}", self.module().to_uppercase(), file.display());
        }
        Ok(())
    }

    /// As [`Model::emit`], into another folder. Gives the planner's warnings.
    ///
    /// # Errors
    /// As [`Model::emit`].
    pub fn emit_to(&self, folder: &Path) -> Result<Vec<String>> {
        if !self.problems.is_empty() {
            return Err(self.error(&self.problems.join("\n  ")));
        }
        let file = |extension: &str| folder.join(format!("{}.{extension}", self.module()));
        let stamp = self.stamp().map_err(|e| self.error(&format!("the model cannot be read: {e}")))?;
        let made = ["rs", "weights"].iter().all(|e| file(e).exists());
        if made && fs::read_to_string(file("stamp")).is_ok_and(|s| s == stamp) {
            return Ok(Vec::new());
        }
        let model = planner::onnx::read(&self.path).map_err(|e| self.error(&e.to_string()))?;
        let planned = planner::plan(model, &self.options).map_err(|e| self.error(&e.to_string()))?;
        // What the independent checker rejects is never emitted.
        checker::check(&planned.plan, &checker::Points::default())
            .map_err(|e| self.error(&format!("the checker rejects the plan, which is a fault of the planner: {e}")))?;
        let place = self.weights.unwrap_or_default();
        if self.weights.is_none() && planned.plan.weight_bytes > EMBED_LIMIT {
            let text = format!(
                "{} bytes of weights are much for a binary: say `.weights_file()`, or `.embed_weights()` to embed them still",
                planned.plan.weight_bytes
            );
            return Err(self.error(&text));
        }
        let options = codegen::Options { weights: place, weights_file: Some(format!("{}.weights", self.module())) };
        let code = codegen::generate(&planned.plan, &options).map_err(|e| self.error(&e.to_string()))?;
        let written = |e: io::Error| self.error(&format!("the result cannot be written: {e}"));
        // A stamp that outlives what it vouches for would be worse than none.
        let _ = fs::remove_file(file("stamp"));
        fs::write(file("rs"), code).map_err(written)?;
        let mut weights = io::BufWriter::new(fs::File::create(file("weights")).map_err(written)?);
        let pieces = planned.weights.pieces.iter().map(|(offset, bytes)| (*offset, bytes));
        codegen::write_weights(&mut weights, pieces, planned.weights.len).map_err(written)?;
        io::Write::flush(&mut weights).map_err(written)?;
        fs::write(file("stamp"), stamp).map_err(written)?;
        Ok(planned.warnings)
    }

    /// The name of the module.
    fn module(&self) -> &str {
        self.options.name.as_deref().unwrap_or("model")
    }

    fn error(&self, what: &str) -> Error {
        Error(format!("{}: {what}", self.path.display()))
    }

    /// The model's file, and those beside it that are named after it: its external data.
    fn sources(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.path.clone()];
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else { return paths };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let name = name.to_string_lossy();
        let beside = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut data: Vec<PathBuf> = beside
            .filter(|e| e.file_name().to_string_lossy().strip_prefix(&*name).is_some_and(|rest| !rest.is_empty()))
            .map(|e| e.path())
            .collect();
        data.sort();
        paths.append(&mut data);
        paths
    }

    /// What the result depends on: versions of the files, the options, and flightplan itself.
    fn stamp(&self) -> io::Result<String> {
        let mut text = format!("{} {:?} {:?}\n", env!("CARGO_PKG_VERSION"), self.options, self.weights);
        let program = std::env::current_exe().ok();
        for path in self.sources().iter().chain(&program) {
            let meta = fs::metadata(path)?;
            text.push_str(&format!("{} {} {:?}\n", path.display(), meta.len(), meta.modified()?));
        }
        Ok(text)
    }
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
        assert!(text.starts_with("missing.onnx: the model cannot be read"), "{text}");
    }
}

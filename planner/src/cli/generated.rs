//! Crates of generated code: outside the workspace, with a target folder of their own, built by cargo.
//!
//! They live in `$FLIGHTPLAN_WORK`, else in the user's cache folder. One process at a time uses such a crate.

use super::Failure;
use super::args::Common;
use super::emit;
use crate::Planned;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder in which the crates for one purpose are built, and the lock on it.
pub struct Workshop {
    /// The folder.
    pub folder: PathBuf,
    _lock: File,
}

/// How the code is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As users' debug builds, but with the kernels optimised.
    Debug,
    /// As users' release builds.
    Release,
}

impl Profile {
    /// The folder below `target` in which cargo puts the binaries.
    fn folder(self) -> &'static str {
        match self {
            Profile::Debug => "debug",
            Profile::Release => "release",
        }
    }
}

const PROFILES: &str = "\
[profile.dev]
debug = false
incremental = false

[profile.dev.package.\"*\"]
opt-level = 3

[profile.release]
debug = false
";

impl Workshop {
    /// Opens the folder for this purpose; waits while another process uses it.
    pub fn open(purpose: &str) -> Result<Workshop, Failure> {
        let root = match std::env::var_os("FLIGHTPLAN_WORK") {
            Some(folder) => PathBuf::from(folder),
            None => cache()?.join("flightplan").join("compiled"),
        };
        let folder = root.join(purpose);
        let refused = |e: std::io::Error| Failure::Refused(format!("{}: {e}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(refused)?;
        let folder = folder.canonicalize().map_err(refused)?;
        let refused = |e: std::io::Error| Failure::Refused(format!("{}: {e}", folder.display()));
        let lock = File::create(folder.join(".lock")).map_err(refused)?;
        lock.lock().map_err(refused)?;
        Ok(Workshop { folder, _lock: lock })
    }

    /// Writes the workspace of these members. Folders that are not among `kept` are removed.
    pub fn set_up(&self, members: &[String], kept: &[String]) -> Result<(), Failure> {
        let list: Vec<String> = members.iter().map(|m| format!("{m:?}")).collect();
        let text = format!("[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n{PROFILES}", list.join(", "));
        put(&self.folder.join("Cargo.toml"), text.as_bytes())?;
        // The versions that the workspace was tested with, and none to be looked for.
        let lock = source().join("Cargo.lock");
        if !self.folder.join("Cargo.lock").exists() && lock.exists() {
            put(&self.folder.join("Cargo.lock"), &std::fs::read(lock)?)?;
        }
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kept = name == "target" || name.starts_with('.') || kept.contains(&name);
            if entry.path().is_dir() && !kept {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Writes the manifest of a member, a binary named as it.
    pub fn member(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = self.folder.join(name);
        let facade = source().join("flightplan");
        if !facade.join("Cargo.toml").exists() {
            return Err(Failure::Refused(format!(
                "compiled runs need flightplan's sources, which are no longer at {}",
                facade.display()
            )));
        }
        let text = format!(
            "[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
             [dependencies]\nflightplan = {{ path = {:?} }}\n",
            facade.to_string_lossy()
        );
        put(&folder.join("Cargo.toml"), text.as_bytes())?;
        Ok(folder)
    }

    /// Builds members; what cargo said.
    pub fn build(&self, members: &[String], profile: Profile) -> Result<Output, Failure> {
        let first = self.cargo(members, profile, true)?;
        let text = String::from_utf8_lossy(&first.stderr);
        // Only the first build on a machine may have to fetch what the lock file names.
        if !first.status.success() && text.contains("--offline") {
            self.cargo(members, profile, false)
        } else {
            Ok(first)
        }
    }

    fn cargo(&self, members: &[String], profile: Profile, offline: bool) -> Result<Output, Failure> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.folder).args(["build", "--quiet", "--keep-going", "--message-format=short"]);
        command.env("CARGO_TARGET_DIR", self.folder.join("target")).env_remove("RUSTFLAGS");
        if profile == Profile::Release {
            command.arg("--release");
        }
        if offline {
            command.arg("--offline");
        }
        for member in members {
            command.args(["--package", member]);
        }
        command.output().map_err(|e| Failure::Refused(format!("cargo cannot be run: {e}")))
    }

    /// Where the binary of a member is.
    pub fn binary(&self, member: &str, profile: Profile) -> PathBuf {
        self.folder.join("target").join(profile.folder()).join(format!("{member}{}", std::env::consts::EXE_SUFFIX))
    }
}

/// The folder of the sources that this program was built from.
fn source() -> PathBuf {
    let planner = Path::new(env!("CARGO_MANIFEST_DIR"));
    planner.parent().unwrap_or(planner).to_owned()
}

/// The user's cache folder.
fn cache() -> Result<PathBuf, Failure> {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    from("XDG_CACHE_HOME")
        .or_else(|| from("HOME").map(|home| home.join(".cache")))
        .or_else(|| from("LOCALAPPDATA"))
        .ok_or_else(|| Failure::Refused("no cache folder is known: set FLIGHTPLAN_WORK".to_owned()))
}

/// Writes a file, unless it has these contents already: what does not change is not compiled again.
pub fn put(path: &Path, contents: &[u8]) -> Result<(), Failure> {
    if std::fs::read(path).is_ok_and(|old| old == contents) {
        return Ok(());
    }
    let refused = |e: std::io::Error| Failure::Refused(format!("{}: {e}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(refused)?;
    }
    std::fs::write(path, contents).map_err(refused)
}

/// A module of generated code: what a caller has to know to call it.
#[derive(Clone, Debug)]
pub struct Module {
    /// The file of the code.
    pub code: PathBuf,
    /// The weights file, where the model opens it.
    pub weights: Option<PathBuf>,
    /// The fields of the inputs.
    pub inputs: Vec<String>,
    /// The fields of the outputs.
    pub outputs: Vec<String>,
    /// The fields of the states.
    pub states: Vec<String>,
    /// Lines of code.
    pub lines: usize,
}

/// Writes the module of a plan into a folder. Weights of more than `embedded` bytes stay in a file, unless the options say so.
pub fn module(planned: &Planned, folder: &Path, common: &Common, embedded: u64) -> Result<Module, Failure> {
    let embedded = common.weights.limit(embedded);
    let plan = &planned.plan;
    let embed = embedded > 0 && plan.weight_bytes <= embedded;
    let name = codegen::snake_case(&plan.name);
    let weights = folder.join(format!("{name}.weights"));
    if embed {
        put(&weights, &planned.weights.to_vec())?;
    } else {
        std::fs::create_dir_all(folder)?;
        emit::write_weights(planned, &weights)?;
    }
    let code = emit::code(plan, embed, common.mode, &name)?;
    let file = folder.join(format!("{name}.rs"));
    put(&file, code.as_bytes())?;
    Ok(Module {
        code: file,
        weights: (!embed).then_some(weights),
        inputs: codegen::field_names(plan.inputs.iter().map(|p| &*p.name)),
        outputs: codegen::field_names(plan.outputs.iter().map(|p| &*p.name)),
        states: codegen::field_names(plan.states.iter().map(|s| &*s.input)),
        lines: code.lines().count(),
    })
}

impl Module {
    /// The expression that makes a model of module `module`.
    pub fn constructor(&self, module: &str) -> String {
        match &self.weights {
            None => format!("{module}::Model::new()"),
            Some(file) => format!("{module}::Model::open({:?})", file.to_string_lossy()),
        }
    }

    /// The expression of its inputs, where `tensor(i)` gives the name of the variable that holds input `i`.
    pub fn inputs_of(&self, module: &str, tensor: impl Fn(usize) -> String) -> String {
        if self.inputs.is_empty() {
            return format!("{module}::Inputs");
        }
        let fields: Vec<String> =
            self.inputs.iter().enumerate().map(|(i, f)| format!("{f}: {}.view()?", tensor(i))).collect();
        format!("{module}::Inputs {{ {} }}", fields.join(", "))
    }
}

//! `planner emit`: writes the Rust module, the weights and the plan of a model.

use super::args::{Common, Mode, Word, next, text};
use super::{Command, Failure, Io, load, words};
use crate::Planned;
use plan::Plan;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

pub const COMMAND: Command = Command {
    name: "emit",
    summary: "writes the Rust module, the weights and the plan of a model",
    help: HELP,
    common: true,
    run,
};

const HELP: &str = "\
usage: planner emit MODEL [-o DIR] [options]

Writes `NAME.rs`, `NAME.weights` and `NAME.plan.ron`, and prints the footprint. NAME is the stem of the model's file in
snake_case, or what `--name` says.

  -o DIR                  where to write (default: the current folder)
";

/// The files that were written.
pub struct Written {
    /// The stem of their names, which is also the module's.
    pub name: String,
    /// The lines of the module.
    pub lines: usize,
    /// Whether the module embeds the weights.
    pub embedded: bool,
}

fn run(parser: &mut lexopt::Parser, io: &mut Io<'_>) -> Result<(), Failure> {
    let (mut common, mut model, mut folder) = (Common::default(), None, PathBuf::from("."));
    while let Some(word) = next(parser)? {
        if common.take(&word, parser)? {
            continue;
        }
        match word {
            Word::Flag(flag) if flag == "-o" || flag == "--out" => folder = PathBuf::from(text(parser)?),
            other => load::model(&mut model, other)?,
        }
    }
    let model = load::required(model)?;
    load::device(&common, io)?;
    let planned = load::planned(&model, &common, io)?;
    std::fs::create_dir_all(&folder).map_err(|e| Failure::Refused(format!("{}: {e}", folder.display())))?;
    let written = write(&planned, &common, &folder)?;
    let (plan, name) = (&planned.plan, &written.name);
    writeln!(io.out, "{name}.rs        {} lines", written.lines)?;
    let place = if written.embedded { "embedded" } else { "in a file that the model opens" };
    writeln!(io.out, "{name}.weights   {} bytes, {place}", words::bytes(plan.weight_bytes))?;
    let hash = plan.hash().map_err(|e| Failure::Refused(e.to_string()))?;
    writeln!(io.out, "{name}.plan.ron  plan {hash}")?;
    let c = &plan.certificate;
    let (memory, bytes) = match common.mode {
        Mode::Static => ("arena", plan.arena_bytes),
        Mode::Eager => ("held at once, at most", c.eager_peak_bytes),
    };
    writeln!(
        io.out,
        "{memory} {} bytes, states {} of them; the most live at one step {}, all tensors apart {}",
        words::bytes(bytes),
        words::bytes(c.persist_bytes),
        words::bytes(c.lower_bound_bytes),
        words::bytes(c.naive_bytes)
    )?;
    Ok(())
}

/// Writes the three files of a plan.
pub fn write(planned: &Planned, common: &Common, folder: &Path) -> Result<Written, Failure> {
    let plan = &planned.plan;
    let name = codegen::snake_case(&plan.name);
    let limit = common.weights.limit(codegen::EMBED_LIMIT);
    let embedded = limit > 0 && plan.weight_bytes <= limit;
    let code = code(plan, embedded, common.mode, &name)?;
    let ron = plan.to_text().map_err(|e| Failure::Refused(e.to_string()))?;
    let put = |suffix: &str, text: &str| {
        let path = folder.join(format!("{name}{suffix}"));
        std::fs::write(&path, text).map_err(|e| Failure::Refused(format!("{}: {e}", path.display())))
    };
    write_weights(planned, &folder.join(format!("{name}.weights")))?;
    put(".plan.ron", &ron)?;
    put(".rs", &code)?;
    Ok(Written { name, lines: code.lines().count(), embedded })
}

/// The module of a plan; `name` is the stem of the weights file.
pub fn code(plan: &Plan, embedded: bool, mode: Mode, name: &str) -> Result<String, Failure> {
    let options = codegen::Options {
        weights: if embedded { codegen::WeightsIn::Binary } else { codegen::WeightsIn::File },
        weights_file: Some(format!("{name}.weights")),
        mode: load::generated(mode),
    };
    codegen::generate(plan, &options).map_err(|e| Failure::Refused(e.to_string()))
}

/// Writes the weights file of a plan.
pub fn write_weights(planned: &Planned, path: &Path) -> Result<(), Failure> {
    let pieces = planned.weights.pieces.iter().map(|(offset, bytes)| (*offset, bytes));
    let written = std::fs::File::create(path).map(BufWriter::new).and_then(|mut file| {
        codegen::write_weights(&mut file, pieces, planned.weights.len)?;
        file.flush()
    });
    written.map_err(|e| Failure::Refused(format!("{}: {e}", path.display())))
}

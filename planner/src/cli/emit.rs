//! `planner emit`: writes the Rust module, the weights and the plan of a model.

use super::args::{Common, WeightsAt, Word, next, text};
use super::{Command, Failure, Io, load, words};
use crate::Planned;
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

/// Larger weights are not embedded unless asked for.
const EMBEDDED: u64 = 512 << 20;

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
    load::device(&common)?;
    let planned = load::planned(&model, &common, io)?;
    std::fs::create_dir_all(&folder).map_err(|e| Failure::Refused(format!("{}: {e}", folder.display())))?;
    let written = write(&planned, common.weights, &folder)?;
    let (plan, name) = (&planned.plan, &written.name);
    writeln!(io.out, "{name}.rs        {} lines", written.lines)?;
    let place = if written.embedded { "embedded" } else { "in a file that the model opens" };
    writeln!(io.out, "{name}.weights   {} bytes, {place}", words::bytes(plan.weight_bytes))?;
    writeln!(io.out, "{name}.plan.ron")?;
    let c = &plan.certificate;
    writeln!(
        io.out,
        "arena {} bytes, states {} of them; the most live at one step {}, all tensors apart {}",
        words::bytes(plan.arena_bytes),
        words::bytes(c.persist_bytes),
        words::bytes(c.lower_bound_bytes),
        words::bytes(c.naive_bytes)
    )?;
    Ok(())
}

/// Writes the three files of a plan.
pub fn write(planned: &Planned, weights: WeightsAt, folder: &Path) -> Result<Written, Failure> {
    let plan = &planned.plan;
    let name = codegen::snake_case(&plan.name);
    let embedded = match weights {
        WeightsAt::Embed => true,
        WeightsAt::File => false,
        WeightsAt::Auto => plan.weight_bytes <= EMBEDDED,
    };
    let options = codegen::Options {
        weights: if embedded { codegen::WeightsIn::Binary } else { codegen::WeightsIn::File },
        weights_file: Some(format!("{name}.weights")),
    };
    let refused = |e: &dyn std::fmt::Display| Failure::Refused(e.to_string());
    let code = codegen::generate(plan, &options).map_err(|e| refused(&e))?;
    let ron = plan.to_text().map_err(|e| refused(&e))?;
    let put = |suffix: &str, write: &dyn Fn(&mut BufWriter<std::fs::File>) -> std::io::Result<()>| {
        let path = folder.join(format!("{name}{suffix}"));
        let file = std::fs::File::create(&path).map(BufWriter::new);
        file.and_then(|mut file| write(&mut file).and_then(|()| file.flush()))
            .map_err(|e| Failure::Refused(format!("{}: {e}", path.display())))
    };
    let pieces = || planned.weights.pieces.iter().map(|(offset, bytes)| (*offset, bytes));
    put(".weights", &|file| codegen::write_weights(file, pieces(), planned.weights.len))?;
    put(".plan.ron", &|file| file.write_all(ron.as_bytes()))?;
    put(".rs", &|file| file.write_all(code.as_bytes()))?;
    Ok(Written { name, lines: code.lines().count(), embedded })
}

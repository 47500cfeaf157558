//! `planner run`: one run of a model on `.npy` files.

use super::args::{Common, Word, next, pair, text};
use super::case::{Data, Set};
use super::verify::plans;
use super::{Command, Failure, Io, load, npy, words};
use crate::onnx;
use runtime::interpret::{InputTensor, Interpreter};
use std::path::PathBuf;

pub const COMMAND: Command =
    Command { name: "run", summary: "runs a model once on .npy files", help: HELP, common: true, run };

const HELP: &str = "\
usage: planner run MODEL --input NAME=FILE.npy … [-o DIR] [options]

Runs a model once with the interpreter (`--mode` says how it takes memory), and writes each output to `DIR/OUTPUT.npy`. Free dims that `--dim` does not give
are taken from the inputs, and inputs that planning has to know (a shape, say) are taken as fixed.

  --input NAME=FILE.npy   an input
  -o DIR                  where to write (default: the current folder)
";

fn run(parser: &mut lexopt::Parser, io: &mut Io<'_>) -> Result<(), Failure> {
    let (mut common, mut path, mut folder, mut inputs) = (Common::default(), None, PathBuf::from("."), Vec::new());
    while let Some(word) = next(parser)? {
        if common.take(&word, parser)? {
            continue;
        }
        match word {
            Word::Flag(flag) if flag == "--input" || flag == "-i" => {
                inputs.push(pair(&text(parser)?, "--input NAME=FILE.npy")?);
            }
            Word::Flag(flag) if flag == "-o" || flag == "--out" => folder = PathBuf::from(text(parser)?),
            other => load::model(&mut path, other)?,
        }
    }
    let path = load::required(path)?;
    load::device(&common, io)?;
    let model = onnx::read(&path).map_err(|e| Failure::Refused(e.to_string()))?;
    let set = read(&model, &inputs)?;
    let mut groups = plans::plans(&path, &model, std::slice::from_ref(&set), &common)?;
    let Some(group) = groups.pop() else { return Err(Failure::Refused("there is no plan".to_owned())) };
    for warning in &group.planned.warnings {
        writeln!(io.err, "warning: {warning}")?;
    }
    load::fixed_note(&group.fixed, io)?;
    load::checked(&group.planned.plan).map_err(|e| load::about(&path, e))?;
    let failed = |e: runtime::Error| load::about(&path, e);
    let weights = load::weights(&group.planned).map_err(failed)?;
    let mode = load::interpreted(common.mode);
    let mut interpreter = Interpreter::with_mode(group.planned.plan, weights, mode).map_err(failed)?;
    let data = plans::inputs(interpreter.plan(), &model, &set)?;
    let tensors: Vec<InputTensor<'_>> = data.iter().map(|d| d.view()).collect();
    interpreter.run(&tensors).map_err(failed)?;
    std::fs::create_dir_all(&folder).map_err(|e| Failure::Refused(format!("{}: {e}", folder.display())))?;
    let names: Vec<String> = interpreter.plan().outputs.iter().map(|p| p.name.clone()).collect();
    for (i, name) in names.iter().enumerate() {
        let output = interpreter.output(i).map_err(failed)?;
        let path = folder.join(format!("{}.npy", file_name(name)));
        std::fs::write(&path, npy::format(output.dtype, &output.dims, &output.bytes))
            .map_err(|e| Failure::Refused(format!("{}: {e}", path.display())))?;
        let size = words::bytes(output.bytes.len() as u64);
        writeln!(io.out, "{}: {name} {}{:?}, {size} bytes", path.display(), output.dtype, output.dims)?;
    }
    Ok(())
}

/// The inputs in the model's order.
fn read(model: &onnx::Model, inputs: &[(String, String)]) -> Result<Set, Failure> {
    let mut set = Set { inputs: vec![None; model.graph.inputs.len()], outputs: Vec::new() };
    for (name, file) in inputs {
        let data = npy::read(std::path::Path::new(file)).map_err(|e| Failure::Refused(format!("{file}: {e}")))?;
        let at = model.graph.inputs.iter().position(|i| i.name == *name);
        let Some(place) = at.and_then(|at| set.inputs.get_mut(at)) else {
            let names: Vec<&str> = model.graph.inputs.iter().map(|i| &*i.name).collect();
            return Err(Failure::Refused(format!("there is no input {name}; there are: {}", names.join(", "))));
        };
        *place = Some(Data::clone(&data));
    }
    Ok(set)
}

/// A name that can be a file's: other characters than letters, digits, `.`, `-` and `_` become `_`.
fn file_name(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' }).collect();
    if name.trim_matches('.').is_empty() { format!("output{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn names_of_outputs_stay_inside_the_folder() {
        for (name, wanted) in [("y", "y"), ("a/b:0", "a_b_0"), ("..", "output.."), ("", "output"), ("ü", "ü")] {
            assert_eq!(file_name(name), wanted);
        }
    }
}

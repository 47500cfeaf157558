//! From a model's file and the command line to a plan that the checker accepts.

use super::args::{Common, FixArg, Mode, Word, unexpected};
use super::case::{Case, Set};
use super::verify::plans::plans;
use super::{Failure, Io};
use crate::{Fixed, Options, Planned, onnx};
use std::path::{Path, PathBuf};

/// The options of the planner, as the command line gives them.
pub fn options(common: &Common, model: &Path) -> Result<Options, Failure> {
    let stem = model.file_stem().map(|s| s.to_string_lossy().into_owned());
    let mut fix = Vec::new();
    for (input, value) in &common.fix {
        let value = match value {
            FixArg::Values(fixed) => fixed.clone(),
            FixArg::File(path) => {
                let data = super::npy::read(path).map_err(|e| Failure::Refused(format!("{}: {e}", path.display())))?;
                Fixed::Raw { dims: data.dims, bytes: data.bytes }
            }
        };
        fix.push((input.clone(), value));
    }
    Ok(Options {
        name: common.name.clone().or(stem),
        dims: common.dims.clone(),
        fix,
        states: common.states.clone(),
        align: common.align,
        budget: common.budget,
        strict_workspace: common.strict_workspace,
        eager: common.mode == Mode::Eager,
        file_order: common.file_order,
    })
}

/// Something that is wrong with a model's file, or with a run of it.
pub fn about(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::Refused(format!("`{}`: {what}", path.display()))
}

/// Plans the model in a file, checks the plan, and says what the planner warns of.
pub fn planned(path: &Path, common: &Common, io: &mut Io<'_>) -> Result<Planned, Failure> {
    let model = onnx::read(path).map_err(|e| Failure::Refused(e.to_string()))?;
    let planned = match &common.data {
        None => crate::plan(model, &options(common, path)?).map_err(|e| about(path, e))?,
        Some(folder) => for_data(path, &model, folder, common, io)?,
    };
    checked(&planned.plan).map_err(|e| about(path, e))?;
    for warning in &planned.warnings {
        writeln!(io.err, "warning: {warning}")?;
    }
    Ok(planned)
}

/// The plan that serves all data sets of a test case.
fn for_data(
    path: &Path,
    model: &onnx::Model,
    folder: &Path,
    common: &Common,
    io: &mut Io<'_>,
) -> Result<Planned, Failure> {
    let sets = sets(folder, model)?;
    let mut groups = plans(path, model, &sets, common)?.into_iter();
    let (Some(group), None) = (groups.next(), groups.next()) else {
        return Err(Failure::Refused(format!("{}: no single plan serves all data sets", folder.display())));
    };
    fixed_note(&group.fixed, io)?;
    Ok(group.planned)
}

/// Says which inputs were taken as fixed.
pub fn fixed_note(fixed: &[String], io: &mut Io<'_>) -> Result<(), Failure> {
    for name in fixed {
        writeln!(io.err, "note: input {name} is taken as fixed, because planning has to know it")?;
    }
    Ok(())
}

/// The data sets of a test case.
pub fn sets(folder: &Path, model: &onnx::Model) -> Result<Vec<Set>, Failure> {
    let case = Case { name: String::new(), folder: folder.to_owned() };
    let folders = case.sets()?;
    if folders.is_empty() {
        return Err(Failure::Refused(format!("{}: there is no test_data_set_*", folder.display())));
    }
    Ok(folders.iter().map(|f| Set::read(f, &model.graph)).collect::<Result<_, _>>()?)
}

/// The one model that a command line names.
pub fn model(found: &mut Option<PathBuf>, word: Word) -> Result<(), Failure> {
    match word {
        Word::Value(path) if found.is_none() => *found = Some(PathBuf::from(path)),
        other => return Err(unexpected(&other)),
    }
    Ok(())
}

/// That model; an error where none is named.
pub fn required(found: Option<PathBuf>) -> Result<PathBuf, Failure> {
    found.ok_or_else(|| Failure::Usage("name a model".to_owned()))
}

/// The weights file, in memory that kernels like.
pub fn weights(planned: &Planned) -> Result<runtime::AlignedBytes, runtime::Error> {
    let len = usize::try_from(planned.weights.len).unwrap_or(usize::MAX);
    let mut memory = runtime::AlignedBytes::zeroed(len)?;
    for (offset, bytes) in &planned.weights.pieces {
        let start = usize::try_from(*offset).unwrap_or(usize::MAX);
        if let Some(place) = start.checked_add(bytes.len()).and_then(|end| memory.get_mut(start..end)) {
            place.copy_from_slice(bytes);
        }
    }
    Ok(memory)
}

/// Whether the device asked for is there; it is resolved before anything is planned. A fallback that was allowed is said.
pub fn device(common: &Common, io: &mut Io<'_>) -> Result<runtime::device::Placement, Failure> {
    let placement = runtime::device::resolve(common.device, common.allow_fallback)
        .map_err(|e| Failure::Refused(format!("{e} (`--allow-fallback`)")))?;
    if let Some(reason) = &placement.fallback {
        writeln!(io.err, "warning: the model is placed on cpu: {reason}")?;
    }
    Ok(placement)
}

/// Whether the checker accepts a plan; else the step and the value that are wrong.
pub fn checked(plan: &plan::Plan) -> Result<checker::Report, String> {
    checker::check(plan, &checker::Points::default()).map_err(|e| {
        let hash = plan.hash().unwrap_or_default();
        format!("the checker rejects the plan {hash}: {e}")
    })
}

/// The interpreter's name for an executor.
pub fn interpreted(mode: Mode) -> runtime::interpret::Mode {
    match mode {
        Mode::Static => runtime::interpret::Mode::Static,
        Mode::Eager => runtime::interpret::Mode::Eager,
    }
}

/// The code generator's name for an executor.
pub fn generated(mode: Mode) -> codegen::Mode {
    match mode {
        Mode::Static => codegen::Mode::Static,
        Mode::Eager => codegen::Mode::Eager,
    }
}

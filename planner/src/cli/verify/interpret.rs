//! A case through the interpreter.

use super::plans::{Group, inputs, plans};
use super::{Done, Verdict};
use crate::cli::Failure;
use crate::cli::args::Common;
use crate::cli::case::{Bad, Case, Data, Set};
use crate::cli::compare::{Tensor, Tolerance, compare};
use crate::cli::load;
use crate::onnx::{self, Model};
use runtime::interpret::{InputTensor, Interpreter};

/// Reads a case, plans it, runs every data set, and compares.
pub fn case(case: &Case, common: &Common) -> Verdict {
    let (model, sets, tolerance) = read(case)?;
    let groups = plans(&case.model(), &model, &sets, common)?;
    let mut fixed: Vec<String> = groups.iter().flat_map(|g| g.fixed.iter().cloned()).collect();
    fixed.dedup();
    let done = Done { sets: sets.len(), plans: groups.len(), fixed };
    for group in groups {
        serve(&model, &sets, group, common, &tolerance)?;
    }
    Ok(done)
}

/// The model, the data sets and the tolerance of a case.
pub fn read(case: &Case) -> Result<(Model, Vec<Set>, Tolerance), Bad> {
    let tolerance = Tolerance::read(&case.folder).map_err(Bad::Fail)?;
    let model = onnx::read(&case.model()).map_err(|e| match e.kind() {
        onnx::ErrorKind::Unsupported => Bad::Unsupported(e.to_string()),
        _ => Bad::Fail(e.to_string()),
    })?;
    let folders = case.sets()?;
    if folders.is_empty() {
        return Err(Bad::Fail("there is no test_data_set_*".to_owned()));
    }
    let sets = folders.iter().map(|f| Set::read(f, &model.graph)).collect::<Result<Vec<_>, _>>()?;
    Ok((model, sets, tolerance))
}

/// Runs the data sets of one plan, in order.
fn serve(model: &Model, sets: &[Set], group: Group, common: &Common, tolerance: &Tolerance) -> Result<(), Bad> {
    load::checked(&group.planned.plan).map_err(Bad::Fail)?;
    let fail = |e: runtime::Error| Bad::Fail(e.to_string());
    let weights = load::weights(&group.planned).map_err(fail)?;
    let mode = load::mode(common).map_err(|f| match f {
        Failure::Refused(what) => Bad::Unsupported(what),
        other => Bad::Fail(format!("{other:?}")),
    })?;
    let mut interpreter = Interpreter::with_mode(group.planned.plan, weights, mode).map_err(fail)?;
    for index in group.sets {
        let Some(set) = sets.get(index) else { continue };
        let of_set = |bad: Bad| if sets.len() == 1 { bad } else { within(index, bad) };
        one(&mut interpreter, model, set, tolerance).map_err(of_set)?;
    }
    Ok(())
}

/// Says which data set it was.
pub fn within(index: usize, bad: Bad) -> Bad {
    match bad {
        Bad::Fail(why) => Bad::Fail(format!("data set {index}: {why}")),
        Bad::Unsupported(what) => Bad::Unsupported(format!("data set {index}: {what}")),
    }
}

/// Runs one data set.
fn one(interpreter: &mut Interpreter, model: &Model, set: &Set, tolerance: &Tolerance) -> Result<(), Bad> {
    let data = inputs(interpreter.plan(), model, set)?;
    let tensors: Vec<InputTensor<'_>> =
        data.iter().map(|d| InputTensor { dtype: d.dtype, dims: &d.dims, bytes: &d.bytes }).collect();
    interpreter.run(&tensors).map_err(|e| Bad::Fail(e.to_string()))?;
    let interpreter = &*interpreter;
    expected(model, set, tolerance, |name| output(interpreter, name))
}

/// Compares the outputs that a set expects with what a run left under their names.
pub fn expected(
    model: &Model,
    set: &Set,
    tolerance: &Tolerance,
    got: impl Fn(&str) -> Result<Data, Bad>,
) -> Result<(), Bad> {
    let mut wrong = Vec::new();
    for (index, want) in &set.outputs {
        let name = model.graph.outputs.get(*index).map_or("", |o| o.name.as_str());
        let got = got(name)?;
        let (w, g) = (
            Tensor { dtype: want.dtype, dims: &want.dims, bytes: &want.bytes },
            Tensor { dtype: got.dtype, dims: &got.dims, bytes: &got.bytes },
        );
        if let Err(why) = compare(w, g, tolerance) {
            wrong.push(format!("output `{name}` {why}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Bad::Fail(wrong.join("; "))) }
}

/// What a run left under an output's name.
fn output(interpreter: &Interpreter, name: &str) -> Result<Data, Bad> {
    let plan = interpreter.plan();
    let found = match plan.outputs.iter().position(|p| p.name == name) {
        Some(i) => interpreter.output(i),
        None => match plan.states.iter().position(|s| s.output == name) {
            Some(i) => interpreter.state(i),
            None => return Err(Bad::Fail(format!("the plan has no output `{name}`"))),
        },
    };
    let found = found.map_err(|e| Bad::Fail(e.to_string()))?;
    Ok(Data { dtype: found.dtype, dims: found.dims, bytes: found.bytes.into() })
}

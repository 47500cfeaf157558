//! A case through the interpreter.

use super::drawn::{self, Drawn};
use super::held::Held;
use super::plans::{Group, inputs, plans};
use super::{Done, Verdict};
use crate::cli::args::{Common, Mode};
use crate::cli::case::{Bad, Case, Data, Set};
use crate::cli::compare::{Tensor, Tolerance, alike, compare};
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
    let mut drawn = Drawn::new();
    for group in groups {
        let of_group = drawn::outputs(&group.planned.plan);
        let judge = Judge { model: &model, tolerance, drawn: &of_group };
        serve(&judge, &sets, group, common)?;
        drawn.extend(of_group);
    }
    comparable(&model, &sets, &drawn)?;
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

/// What outputs are compared by.
#[derive(Clone, Copy)]
pub struct Judge<'j> {
    /// Whose outputs they are.
    pub model: &'j Model,
    /// How far they may be off.
    pub tolerance: Tolerance,
    /// Those of the plan that are drawn at random: only their types and shapes are compared.
    pub drawn: &'j Drawn,
}

/// Runs the data sets of one plan, in order.
fn serve(judge: &Judge<'_>, sets: &[Set], group: Group, common: &Common) -> Result<(), Bad> {
    load::checked(&group.planned.plan).map_err(Bad::Fail)?;
    let fail = |e: runtime::Error| Bad::Fail(e.to_string());
    let weights = load::weights(&group.planned).map_err(fail)?;
    let mode = load::interpreted(common.mode);
    let mut interpreter = Interpreter::with_mode(group.planned.plan, weights, mode).map_err(fail)?;
    for index in group.sets {
        let Some(set) = sets.get(index) else { continue };
        let of_set = |bad: Bad| if sets.len() == 1 { bad } else { within(index, bad) };
        one(&mut interpreter, judge, set).map_err(of_set)?;
        if common.mode == Mode::Eager {
            held(&mut interpreter, judge, set).map_err(of_set)?;
        }
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
fn one(interpreter: &mut Interpreter, judge: &Judge<'_>, set: &Set) -> Result<(), Bad> {
    let data = inputs(interpreter.plan(), judge.model, set)?;
    let tensors: Vec<InputTensor<'_>> = data.iter().map(|d| d.view()).collect();
    interpreter.run(&tensors).map_err(|e| Bad::Fail(e.to_string()))?;
    let interpreter = &*interpreter;
    judge.expected(set, |name| output(interpreter, name))
}

/// Whether the run held what the plan says, and gave it all back.
fn held(interpreter: &mut Interpreter, judge: &Judge<'_>, set: &Set) -> Result<(), Bad> {
    let wanted = Held::new(interpreter.plan(), &inputs(interpreter.plan(), judge.model, set)?)?;
    wanted.check(interpreter.account().peak_bytes()).map_err(Bad::Fail)?;
    interpreter.release();
    match interpreter.account().live_bytes() {
        0 => Ok(()),
        left => Err(Bad::Fail(format!("{left} bytes are still held after the run"))),
    }
}

/// The name of the model's output `index`.
fn name(model: &Model, index: usize) -> &str {
    model.graph.outputs.get(index).map_or("", |o| o.name.as_str())
}

impl Judge<'_> {
    /// Compares the outputs that a set expects with what a run left under their names.
    pub fn expected(&self, set: &Set, got: impl Fn(&str) -> Result<Data, Bad>) -> Result<(), Bad> {
        let mut wrong = Vec::new();
        for (index, want) in &set.outputs {
            let name = name(self.model, *index);
            let got = got(name)?;
            let (w, g) = (
                Tensor { dtype: want.dtype, dims: &want.dims, bytes: &want.bytes },
                Tensor { dtype: got.dtype, dims: &got.dims, bytes: &got.bytes },
            );
            let drawn = self.drawn.contains_key(name);
            if let Err(why) = if drawn { alike(w, g) } else { compare(w, g, &self.tolerance) } {
                wrong.push(format!("output `{name}` {why}"));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(Bad::Fail(wrong.join("; "))) }
    }
}

/// Whether all that a case expects could be compared.
pub fn comparable(model: &Model, sets: &[Set], drawn: &Drawn) -> Result<(), Bad> {
    let mut indices: Vec<usize> = sets.iter().flat_map(|s| s.outputs.iter().map(|(index, _)| *index)).collect();
    indices.sort_unstable();
    indices.dedup();
    let say = |index: usize| {
        let (name, by) = drawn.get_key_value(name(model, index))?;
        Some(format!("output `{name}` is drawn at random ({by}): only its dtype and shape were compared"))
    };
    let random: Vec<String> = indices.into_iter().filter_map(say).collect();
    if random.is_empty() { Ok(()) } else { Err(Bad::Unsupported(random.join("; "))) }
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

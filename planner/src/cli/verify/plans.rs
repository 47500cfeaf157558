//! Which plans serve the data sets of a case: dims and fixed inputs are taken from the data.

use crate::cli::Failure;
use crate::cli::args::Common;
use crate::cli::case::{Bad, Data, Set};
use crate::cli::load;
use crate::onnx::{Dim, Model, Type};
use crate::{DimOption, DimTarget, Error, ErrorKind, Fixed, Options, Planned, plan};
use ::plan::DType;
use std::path::Path;

/// A plan and the data sets that it serves.
pub struct Group {
    /// The plan.
    pub planned: Planned,
    /// Indices of data sets.
    pub sets: Vec<usize>,
    /// Inputs that were taken as fixed because planning needs them.
    pub fixed: Vec<String>,
}

/// Larger inputs are not taken as fixed.
const FIXED_ELEMENTS: usize = 1024;
/// The same for floats, which are rarely more than a few scales.
const FIXED_FLOATS: usize = 16;

/// One plan for all data sets if that can be, else one for each.
pub fn plans(path: &Path, model: &Model, sets: &[Set], common: &Common) -> Result<Vec<Group>, Bad> {
    let base = load::options(common, path).map_err(|f| match f {
        Failure::Refused(what) | Failure::Usage(what) => Bad::Fail(what),
        Failure::Help | Failure::Said => Bad::Fail("the options".to_owned()),
    })?;
    let all: Vec<usize> = (0..sets.len()).collect();
    let error = match group(model, sets, &all, &base) {
        Ok(group) => return Ok(vec![group]),
        Err(error) => error,
    };
    // States pass from set to set, so one plan has to serve them all.
    if sets.len() < 2 || !base.states.is_empty() || same_shapes(sets) {
        return Err(error);
    }
    all.iter().map(|i| group(model, sets, &[*i], &base)).collect()
}

fn same_shapes(sets: &[Set]) -> bool {
    let shapes = |s: &Set| s.inputs.iter().map(|d| d.as_ref().map(|d| d.dims.clone())).collect::<Vec<_>>();
    sets.windows(2).all(|w| matches!(w, [a, b] if shapes(a) == shapes(b)))
}

/// One plan for these data sets.
fn group(model: &Model, sets: &[Set], which: &[usize], base: &Options) -> Result<Group, Bad> {
    let chosen: Vec<&Set> = which.iter().filter_map(|i| sets.get(*i)).collect();
    let mut options = base.clone();
    options.dims.extend(dims(model, &chosen, base)?);
    let done = |planned, fixed| Group { planned, sets: which.to_vec(), fixed };
    let error = match plan(model.clone(), &options) {
        Ok(planned) => return Ok(done(planned, Vec::new())),
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Invalid) => error,
        Err(error) => return Err(bad(&error)),
    };
    for names in attempts(&candidates(model, &chosen, base)) {
        let mut options = options.clone();
        for (name, i) in &names {
            let Some(data) = chosen.first().and_then(|s| s.inputs.get(*i)).and_then(Option::as_ref) else { continue };
            options.fix.push((name.clone(), Fixed::Raw { dims: data.dims.clone(), bytes: data.bytes.clone() }));
            // Dims of an input that is fixed need no range.
            let axis = |d: &DimOption| matches!(&d.target, DimTarget::Axis { input, .. } if input == name);
            options.dims.retain(|d| !axis(d));
        }
        let names: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
        if let Some(planned) = with_used_dims(model, options) {
            return Ok(done(planned, names));
        }
    }
    Err(bad(&error))
}

/// A plan, where dims that only occur in fixed inputs are given up.
fn with_used_dims(model: &Model, mut options: Options) -> Option<Planned> {
    let fixed: Vec<&String> = options.fix.iter().map(|(name, _)| name).collect();
    let free = model.graph.inputs.iter().filter(|i| !fixed.contains(&&i.name));
    let mut names: Vec<&String> = Vec::new();
    for input in free {
        if let Type::Tensor { dims: Some(dims), .. } = &input.ty {
            names.extend(dims.iter().filter_map(|d| if let Dim::Named(name) = d { Some(name) } else { None }));
        }
    }
    options.dims.retain(|d| match &d.target {
        DimTarget::Named(name) => names.contains(&name),
        DimTarget::Axis { .. } => true,
    });
    plan(model.clone(), &options).ok()
}

/// What an error of the planner means for a case.
fn bad(error: &Error) -> Bad {
    match error.kind() {
        ErrorKind::Internal => Bad::Fail(error.to_string()),
        _ => Bad::Unsupported(error.to_string()),
    }
}

/// Values or ranges of the free dims that the options do not give: all that the data sets have.
fn dims(model: &Model, sets: &[&Set], base: &Options) -> Result<Vec<DimOption>, Bad> {
    let mut found: Vec<(DimTarget, Vec<i64>)> = Vec::new();
    for (i, input) in model.graph.inputs.iter().enumerate() {
        let Type::Tensor { dims: Some(declared), .. } = &input.ty else { continue };
        if base.fix.iter().any(|(name, _)| *name == input.name) {
            continue;
        }
        for data in sets.iter().filter_map(|s| s.inputs.get(i)?.as_ref()) {
            if data.dims.len() != declared.len() {
                let (has, wants) = (data.dims.len(), declared.len());
                return Err(Bad::Fail(format!(
                    "input `{}` has {has} dims in the data, {wants} in the model",
                    input.name
                )));
            }
            for (axis, (dim, n)) in declared.iter().zip(&data.dims).enumerate() {
                let target = match dim {
                    Dim::Known(_) => continue,
                    Dim::Named(name) => DimTarget::Named(name.clone()),
                    Dim::Free => DimTarget::Axis { input: input.name.clone(), axis },
                };
                let by_axis = DimTarget::Axis { input: input.name.clone(), axis };
                if base.dims.iter().any(|d| d.target == target || d.target == by_axis) {
                    continue;
                }
                let n = i64::try_from(*n).unwrap_or(i64::MAX);
                match found.iter_mut().find(|(t, _)| *t == target) {
                    Some((_, values)) => values.push(n),
                    None => found.push((target, vec![n])),
                }
            }
        }
    }
    Ok(found.into_iter().map(|(target, values)| range(target, &values)).collect())
}

/// The narrowest range that holds all these values.
fn range(target: DimTarget, values: &[i64]) -> DimOption {
    let lo = values.iter().copied().min().unwrap_or(0);
    let hi = values.iter().copied().max().unwrap_or(0);
    let step = values.iter().fold(0i64, |step, v| gcd(step, v - lo)).max(1);
    DimOption { target, lo, hi, step }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Inputs that could be taken as fixed, integers before floats: small, and equal in all sets.
fn candidates(model: &Model, sets: &[&Set], base: &Options) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (i, input) in model.graph.inputs.iter().enumerate() {
        let Some(first) = sets.first().and_then(|s| s.inputs.get(i)).and_then(Option::as_ref) else { continue };
        let state = base.states.iter().any(|(name, _)| *name == input.name);
        let given = base.fix.iter().any(|(name, _)| *name == input.name);
        let equal = sets.iter().all(|s| s.inputs.get(i).and_then(Option::as_ref) == Some(first));
        let whole = first.dtype.is_integer() || first.dtype == DType::Bool;
        let limit = if whole { FIXED_ELEMENTS } else { FIXED_FLOATS };
        let small = first.dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).is_some_and(|n| n <= limit);
        if !state && !given && equal && small {
            found.push((!whole, (input.name.clone(), i)));
        }
    }
    found.sort_by_key(|(float, (_, i))| (*float, *i));
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// What to try: each candidate alone, then the first two, the first three, and so on.
fn attempts(candidates: &[(String, usize)]) -> Vec<Vec<(String, usize)>> {
    let mut attempts: Vec<Vec<(String, usize)>> = candidates.iter().map(|c| vec![c.clone()]).collect();
    attempts.extend((2..=candidates.len()).map(|n| candidates.iter().take(n).cloned().collect()));
    attempts
}

/// The data of a set in the order of the plan's inputs, which leave out what is fixed or a state.
pub fn inputs<'s>(plan: &::plan::Plan, model: &Model, set: &'s Set) -> Result<Vec<&'s Data>, Bad> {
    let of = |name: &str| {
        let i = model.graph.inputs.iter().position(|v| v.name == name)?;
        set.inputs.get(i)?.as_ref()
    };
    let missing = |name: &str| Bad::Fail(format!("the data gives no input `{name}`"));
    plan.inputs.iter().map(|port| of(&port.name).ok_or_else(|| missing(&port.name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_all_values() {
        let of = |values: &[i64]| {
            let d = range(DimTarget::Named("n".to_owned()), values);
            (d.lo, d.hi, d.step)
        };
        assert_eq!(of(&[7]), (7, 7, 1));
        assert_eq!(of(&[7, 7]), (7, 7, 1));
        assert_eq!(of(&[120, 200, 304]), (120, 304, 8));
        assert_eq!(of(&[640, 320, 480]), (320, 640, 160));
    }

    #[test]
    fn attempts_grow() {
        let names = |a: Vec<(String, usize)>| a.into_iter().map(|(n, _)| n).collect::<String>();
        let list = [("a".to_owned(), 0), ("b".to_owned(), 1), ("c".to_owned(), 2)];
        let tried: Vec<String> = attempts(&list).into_iter().map(names).collect();
        assert_eq!(tried, ["a", "b", "c", "ab", "abc"]);
    }
}

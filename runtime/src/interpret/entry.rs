//! What is checked when a run begins: the caller's tensors against the plan, before any memory of the run is touched.

use super::{numbers::Numbers, tensor::InputTensor};
use crate::{Error, Fault, TensorProblem};
use alloc::borrow::ToOwned;
use plan::{ExprId, Plan, Relation, Symbol, SymbolId, SymbolKind};

/// Binds the symbols to the dims of the inputs, and checks dtypes and dims.
pub(crate) fn bind(plan: &Plan, numbers: &mut Numbers, inputs: &[InputTensor<'_>]) -> Result<(), Error> {
    if inputs.len() != plan.inputs.len() {
        let problem = TensorProblem::Count { found: inputs.len(), wanted: plan.inputs.len() };
        return Err(Error::tensor(plan.name.clone(), problem));
    }
    numbers.forget();
    for (i, symbol) in (0u32..).zip(&plan.symbols) {
        if let SymbolKind::Input { input, axis } = symbol.kind {
            let dim = inputs.get(input as usize).and_then(|t| t.dims.get(axis as usize));
            let Some(dim) = dim.and_then(|d| i64::try_from(*d).ok()) else { continue };
            check_range(symbol, dim)?;
            numbers.set(SymbolId(i), dim);
        }
    }
    numbers.evaluate(&plan.exprs);
    for (port, tensor) in plan.inputs.iter().zip(inputs) {
        let value = plan.values.get(port.value.index()).ok_or_else(|| Error::plan("an input has no tensor"))?;
        check_input(&port.name, value, tensor, numbers)?;
    }
    Ok(())
}

/// Checks the conditions on the symbols.
pub(crate) fn check_guards(plan: &Plan, numbers: &Numbers) -> Result<(), Error> {
    for guard in &plan.guards {
        let value = |e: ExprId| {
            let value = numbers.get(e);
            value.ok_or_else(|| Error::extent(guard.what.clone(), Fault::Extent))
        };
        let (left, right) = (value(guard.left)?, value(guard.right)?);
        let (holds, relation) = match guard.relation {
            Relation::Equal => (left == right, "="),
            Relation::LessOrEqual => (left <= right, "<="),
        };
        if !holds {
            return Err(Error::guard(guard.what.clone(), left, relation, right));
        }
    }
    Ok(())
}

/// Whether a value is one of those that a symbol was planned for.
fn check_range(symbol: &Symbol, value: i64) -> Result<(), Error> {
    let inside = (symbol.lo..=symbol.hi).contains(&value);
    let step = symbol.step.max(1);
    if inside && value.checked_sub(symbol.lo).is_some_and(|d| d % step == 0) {
        return Ok(());
    }
    Err(Error::envelope(symbol.name.clone(), value, symbol.lo, symbol.hi, step))
}

/// Whether the caller's tensor is the one that the plan reads.
fn check_input(name: &str, value: &plan::Value, tensor: &InputTensor<'_>, numbers: &Numbers) -> Result<(), Error> {
    let problem = |problem| Err(Error::tensor(name.to_owned(), problem));
    if tensor.dtype != value.dtype {
        return problem(TensorProblem::DType { found: tensor.dtype, wanted: value.dtype });
    }
    if tensor.dims.len() != value.dims.len() {
        return problem(TensorProblem::Rank { found: tensor.dims.len(), wanted: value.dims.len() });
    }
    for (axis, (found, wanted)) in tensor.dims.iter().zip(value.dims.iter()).enumerate() {
        let wanted = numbers.get(*wanted).ok_or_else(|| Error::extent(name.to_owned(), Fault::Extent))?;
        let found = i64::try_from(*found).unwrap_or(i64::MAX);
        if found != wanted {
            return problem(TensorProblem::Dim { axis, found, wanted });
        }
    }
    let count = tensor.dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let wanted = count.and_then(|n| value.dtype.bytes_of(n)).unwrap_or(usize::MAX);
    if tensor.bytes.len() != wanted {
        return problem(TensorProblem::Bytes { found: tensor.bytes.len(), wanted });
    }
    Ok(())
}

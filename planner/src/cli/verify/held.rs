//! What the eager executor must have held in a run: the figure of the plan's schedule, at the extents of that run.

use crate::cli::case::{Bad, Data};
use crate::memory::usage::{self, Usage};
use plan::{Action, Class, Plan, SymbolKind, evaluate_all};

/// Bytes of activations and workspaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The most at once.
    pub bytes: u64,
    /// Whether it must be that; else the run may need less, since it takes one branch of two, or finds an extent itself.
    pub exact: bool,
}

impl Held {
    /// For these inputs, in the plan's order.
    pub fn new(plan: &Plan, inputs: &[&Data]) -> Result<Held, Bad> {
        let value = |s: plan::SymbolId| match plan.symbols.get(s.index())?.kind {
            SymbolKind::Input { input, axis } => {
                i64::try_from(*inputs.get(input as usize)?.dims.get(axis as usize)?).ok()
            }
            SymbolKind::Run {} => None,
        };
        let sizes = usage::sizes(plan, value);
        let usage = Usage::new(plan).map_err(|e| Bad::Fail(e.to_string()))?;
        let states = plan.buffers.iter().zip(&sizes).filter(|(b, _)| b.class == Class::Persist);
        let states = states.fold(0u64, |sum, (_, size)| sum.saturating_add(*size));
        let peak = usage.curve(&usage.eager, &sizes).into_iter().max().unwrap_or(0);
        let straight = plan.blocks.first().is_none_or(|block| {
            let body = |a: &Action| matches!(a, Action::If { .. } | Action::Loop { .. });
            !block.steps.iter().any(|s| body(&s.action))
        });
        let exprs = evaluate_all(&plan.exprs, value);
        let known =
            plan.buffers.iter().all(|b| b.eager.is_none() || exprs.get(b.bytes.index()).copied().flatten().is_some());
        Ok(Held { bytes: peak.saturating_sub(states), exact: straight && known })
    }

    /// What is wrong with a run that held this much at most.
    pub fn check(self, peak: usize) -> Result<(), String> {
        let peak = peak as u64;
        if peak == self.bytes || (!self.exact && peak < self.bytes) {
            return Ok(());
        }
        let at_most = if self.exact { "" } else { "at most " };
        Err(format!("the run held {peak} bytes at once, where the plan says {at_most}{}", self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::Held;

    #[test]
    fn figures_are_exact_unless_the_run_decides() {
        let (sure, open) = (Held { bytes: 128, exact: true }, Held { bytes: 128, exact: false });
        assert_eq!([64, 128, 192].map(|n| sure.check(n).is_ok()), [false, true, false]);
        assert_eq!([64, 128, 192].map(|n| open.check(n).is_ok()), [true, true, false]);
    }
}

//! The eager executor's peak as a formula in the extents.

use super::{
    Error,
    exprs::{Exprs, constant},
    usage::Usage,
};
use crate::peak::aligned;
use plan::{ExprId, Plan, SymbolId, evaluate_all};
use std::collections::BTreeMap;

/// The largest of several sums of buffers, each at the plan's alignment: one sum for each moment at which most may be live.
pub struct Formula {
    terms: Vec<Term>,
}

/// What is live at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Term {
    /// Bytes of buffers whose size is the same for all extents.
    fixed: u64,
    /// Sizes that depend on extents, and how many buffers have each.
    parts: BTreeMap<ExprId, u64>,
}

impl Term {
    /// Whether another is never less.
    fn is_within(&self, other: &Term) -> bool {
        self.fixed <= other.fixed && self.parts.iter().all(|(e, n)| other.parts.get(e).is_some_and(|m| n <= m))
    }
}

impl Formula {
    /// Reads a finished plan.
    ///
    /// # Errors
    /// When it is not well formed.
    pub fn of(plan: &Plan) -> Result<Formula, Error> {
        let (usage, exprs) = (Usage::new(plan)?, Exprs::new(plan));
        // What begins and ends at each tick.
        let mut events: BTreeMap<usize, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (i, ticks) in usage.eager.iter().enumerate() {
            if let Some((start, end)) = *ticks {
                events.entry(start).or_default().0.push(i);
                events.entry(end).or_default().1.push(i);
            }
        }
        let (mut now, mut terms): (Term, Vec<Term>) = (Term::default(), Vec::new());
        for (begin, end) in events.values() {
            // Before something ends is when most may be live.
            if !end.is_empty() && !terms.iter().any(|t| now.is_within(t)) {
                terms.retain(|t| !t.is_within(&now));
                terms.push(now.clone());
            }
            end.iter().for_each(|i| now.change(plan, &exprs, *i, false));
            begin.iter().for_each(|i| now.change(plan, &exprs, *i, true));
        }
        Ok(Formula { terms })
    }

    /// The peak where the symbols have these values; none where one of them is missing.
    pub fn bytes(&self, plan: &Plan, value: impl Fn(SymbolId) -> Option<i64>) -> Option<u64> {
        let values = evaluate_all(&plan.exprs, value);
        let size = |e: &ExprId| {
            let bytes = values.get(e.index()).copied().flatten();
            bytes.and_then(|n| u64::try_from(n).ok()).map(|n| aligned(plan, n))
        };
        let sum = |t: &Term| t.parts.iter().try_fold(t.fixed, |sum, (e, n)| sum.checked_add(size(e)?.checked_mul(*n)?));
        self.terms.iter().try_fold(0, |most, t| Some(u64::max(most, sum(t)?)))
    }

    /// The formula, with expressions as `text` writes them: `max(64 + 2 * up(4 * n), …)`, where `up` is to the next multiple of the
    /// alignment.
    pub fn text(&self, text: impl Fn(ExprId) -> String) -> String {
        let term = |t: &Term| {
            let fixed = (t.fixed > 0 || t.parts.is_empty()).then(|| t.fixed.to_string());
            let parts = t.parts.iter().map(|(e, n)| {
                let times = if *n == 1 { String::new() } else { format!("{n} * ") };
                format!("{times}up({})", text(*e))
            });
            fixed.into_iter().chain(parts).collect::<Vec<_>>().join(" + ")
        };
        let terms: Vec<String> = self.terms.iter().map(term).collect();
        match terms.as_slice() {
            [] => "0".to_owned(),
            [one] => one.clone(),
            all => format!("max({})", all.join(", ")),
        }
    }

    /// How many sums there are.
    pub fn len(&self) -> usize {
        self.terms.len()
    }

    /// Whether nothing is ever live.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

impl Term {
    fn change(&mut self, plan: &Plan, exprs: &Exprs, buffer: usize, begins: bool) {
        let Some(buffer) = plan.buffers.get(buffer) else { return };
        if constant(plan, buffer.bytes).is_some() {
            let bytes = aligned(plan, buffer.max_bytes);
            self.fixed = if begins { self.fixed.saturating_add(bytes) } else { self.fixed.saturating_sub(bytes) };
            return;
        }
        let e = ExprId(exprs.number_of(buffer.bytes));
        let count = self.parts.entry(e).or_insert(0);
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            self.parts.remove(&e);
        }
    }
}

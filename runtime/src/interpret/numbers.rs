//! The symbols of a run and the expressions over them.

use alloc::vec::Vec;
use plan::{Expr, ExprId, Plan, SymbolId};

/// What has to be computed anew when a symbol gets a value.
#[derive(Clone, Debug, Default)]
struct Dependents {
    exprs: Vec<u32>,
    values: Vec<u32>,
}

/// The values of symbols and expressions, as far as the run knows them.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    symbols: Vec<Option<i64>>,
    exprs: Vec<Option<i64>>,
    dependents: Vec<Dependents>,
}

impl Numbers {
    /// Nothing known but what the plan says.
    pub(crate) fn new(plan: &Plan) -> Numbers {
        let symbols = alloc::vec![None; plan.symbols.len()];
        let exprs = alloc::vec![None; plan.exprs.len()];
        let dependents = (0u32..).zip(&plan.symbols).map(|(i, _)| dependents(plan, SymbolId(i))).collect();
        let mut numbers = Numbers { symbols, exprs, dependents };
        numbers.evaluate(&plan.exprs);
        numbers
    }

    /// Forgets every symbol.
    pub(crate) fn forget(&mut self) {
        self.symbols.fill(None);
    }

    /// Gives a symbol its value, without computing anything.
    pub(crate) fn set(&mut self, symbol: SymbolId, value: i64) {
        if let Some(place) = self.symbols.get_mut(symbol.index()) {
            *place = Some(value);
        }
    }

    /// A symbol's value.
    pub(crate) fn symbol(&self, symbol: SymbolId) -> Option<i64> {
        self.symbols.get(symbol.index()).copied().flatten()
    }

    /// An expression's value.
    pub(crate) fn get(&self, expr: ExprId) -> Option<i64> {
        self.exprs.get(expr.index()).copied().flatten()
    }

    /// An extent: an expression's value that is not negative.
    pub(crate) fn extent(&self, expr: ExprId) -> Option<usize> {
        self.get(expr).and_then(|v| usize::try_from(v).ok())
    }

    /// Computes every expression.
    pub(crate) fn evaluate(&mut self, table: &[Expr]) {
        for (i, expr) in table.iter().enumerate() {
            self.evaluate_one(i, expr);
        }
    }

    /// Computes the expressions that depend on a symbol.
    pub(crate) fn update(&mut self, table: &[Expr], symbol: SymbolId) {
        let count = self.dependents.get(symbol.index()).map_or(0, |d| d.exprs.len());
        for k in 0..count {
            let index = self.dependents.get(symbol.index()).and_then(|d| d.exprs.get(k)).map(|i| *i as usize);
            if let Some((index, expr)) = index.and_then(|i| Some((i, table.get(i)?))) {
                self.evaluate_one(index, expr);
            }
        }
    }

    /// The tensors whose place or dims depend on a symbol.
    pub(crate) fn dependent_values(&self, symbol: SymbolId) -> impl Iterator<Item = usize> + '_ {
        self.dependents.get(symbol.index()).into_iter().flat_map(|d| d.values.iter().map(|v| *v as usize))
    }

    fn evaluate_one(&mut self, index: usize, expr: &Expr) {
        let symbols = &self.symbols;
        let exprs = &self.exprs;
        // A table out of order reads values that are not there yet.
        let value = expr.evaluate(
            |s: SymbolId| symbols.get(s.index()).copied().flatten(),
            |e: ExprId| if e.index() < index { exprs.get(e.index()).copied().flatten() } else { None },
        );
        if let Some(place) = self.exprs.get_mut(index) {
            *place = value;
        }
    }
}

/// The expressions and values that depend on a symbol, in order.
fn dependents(plan: &Plan, symbol: SymbolId) -> Dependents {
    let mut touched = alloc::vec![false; plan.exprs.len()];
    let mut found = Dependents::default();
    for (i, expr) in (0u32..).zip(&plan.exprs) {
        let depends = match expr {
            Expr::Symbol(s) => *s == symbol,
            _ => expr.operands().any(|e| touched.get(e.index()).copied().unwrap_or(false)),
        };
        if depends && let Some(place) = touched.get_mut(i as usize) {
            *place = true;
            found.exprs.push(i);
        }
    }
    for (i, value) in (0u32..).zip(&plan.values) {
        let strides = value.place.strides.as_ref().map_or(&[][..], |s| s);
        let mut parts = value.dims.iter().chain(strides).chain(core::iter::once(&value.place.offset));
        if parts.any(|e| touched.get(e.index()).copied().unwrap_or(false)) {
            found.values.push(i);
        }
    }
    found
}

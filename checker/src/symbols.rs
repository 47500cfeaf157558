//! The values of symbols and expressions while a plan runs.

use crate::{Reason, Rejection};
use plan::{Expr, ExprId, Plan, SymbolId, SymbolKind};

/// Which expressions depend on symbols that change during a run: lists by the low six bits of the symbol.
pub struct Dependents {
    lists: Vec<Vec<u32>>,
}

impl Dependents {
    /// Reads the table of expressions.
    pub fn new(plan: &Plan) -> Dependents {
        let mut masks: Vec<u64> = Vec::with_capacity(plan.exprs.len());
        let mut lists = vec![Vec::new(); 64];
        for (i, expr) in plan.exprs.iter().enumerate() {
            let mut mask = expr.operands().fold(0, |m, o| m | masks.get(o.index()).copied().unwrap_or(0));
            if let Expr::Symbol(s) = expr
                && plan.symbols.get(s.index()).is_some_and(|s| matches!(s.kind, SymbolKind::Run {}))
            {
                mask |= 1 << (s.0 % 64);
            }
            masks.push(mask);
            for (bit, list) in lists.iter_mut().enumerate() {
                if mask & (1 << bit) != 0 {
                    list.push(i as u32);
                }
            }
        }
        Dependents { lists }
    }
}

/// The symbols and expressions of one run.
pub struct Env<'p> {
    plan: &'p Plan,
    dependents: &'p Dependents,
    symbols: Vec<Option<i64>>,
    values: Vec<Option<i64>>,
}

impl<'p> Env<'p> {
    /// With these values of the input symbols; the others have none yet.
    pub fn new(plan: &'p Plan, dependents: &'p Dependents, point: &[Option<i64>]) -> Env<'p> {
        let values = plan::evaluate_all(&plan.exprs, |s| point.get(s.index()).copied().flatten());
        Env { plan, dependents, symbols: point.to_vec(), values }
    }

    /// Gives a symbol a value. Returns how many expressions that changed.
    pub fn set(&mut self, symbol: SymbolId, value: i64) -> usize {
        let Some(slot) = self.symbols.get_mut(symbol.index()) else { return 0 };
        *slot = Some(value);
        let list = self.dependents.lists.get(symbol.0 as usize % 64).map_or(&[][..], |l| l);
        for &i in list {
            let new = self.plan.exprs.get(i as usize).and_then(|e| self.one(e));
            if let Some(slot) = self.values.get_mut(i as usize) {
                *slot = new;
            }
        }
        list.len()
    }

    fn one(&self, expr: &Expr) -> Option<i64> {
        // A table of the operands alone, so that the meaning of an expression stands in one place.
        let mut table = [Expr::Const(0); 4];
        let mut n = 0u32;
        let mut operand = |e: ExprId| -> Option<ExprId> {
            *table.get_mut(n as usize)? = Expr::Const(self.get(e)?);
            n += 1;
            Some(ExprId(n - 1))
        };
        let whole = match *expr {
            Expr::Const(v) => return Some(v),
            Expr::Symbol(s) => return self.symbols.get(s.index()).copied().flatten(),
            Expr::Add(a, b) => Expr::Add(operand(a)?, operand(b)?),
            Expr::Sub(a, b) => Expr::Sub(operand(a)?, operand(b)?),
            Expr::Mul(a, b) => Expr::Mul(operand(a)?, operand(b)?),
            Expr::FloorDiv(a, b) => Expr::FloorDiv(operand(a)?, operand(b)?),
            Expr::CeilDiv(a, b) => Expr::CeilDiv(operand(a)?, operand(b)?),
            Expr::Mod(a, b) => Expr::Mod(operand(a)?, operand(b)?),
            Expr::Min(a, b) => Expr::Min(operand(a)?, operand(b)?),
            Expr::Max(a, b) => Expr::Max(operand(a)?, operand(b)?),
            Expr::Eq(a, b) => Expr::Eq(operand(a)?, operand(b)?),
            Expr::Lt(a, b) => Expr::Lt(operand(a)?, operand(b)?),
            Expr::Select(a, b, c) => {
                let taken = if self.get(a)? != 0 { b } else { c };
                return self.get(taken);
            }
        };
        *table.get_mut(n as usize)? = whole;
        plan::evaluate(&table, ExprId(n), &|_| None).ok()
    }

    /// The value of an expression, if it has one now.
    pub fn get(&self, e: ExprId) -> Option<i64> {
        self.values.get(e.index()).copied().flatten()
    }

    /// The value of an expression that must have one.
    pub fn value(&self, e: ExprId) -> Result<i64, Rejection> {
        self.get(e).ok_or_else(|| Rejection::new(Reason::Unevaluable, format!("expression {} has no value here", e.0)))
    }
}

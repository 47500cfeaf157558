//! Which expressions are the same, and new ones.

use super::poly::Poly;
use plan::{Expr, ExprId, Plan, SymbolKind};
use std::collections::BTreeMap;

/// A numbering of a plan's expressions in which equal ones have equal numbers.
pub struct Exprs {
    numbers: Vec<u32>,
    known: BTreeMap<Expr, ExprId>,
    /// Whether a symbol takes part that only a step of the run defines.
    found: Vec<bool>,
}

impl Exprs {
    /// Reads the table.
    pub fn new(plan: &Plan) -> Exprs {
        let mut exprs = Exprs { numbers: Vec::new(), known: BTreeMap::new(), found: Vec::new() };
        for i in 0..plan.exprs.len() {
            exprs.enter(plan, i);
        }
        exprs
    }

    fn enter(&mut self, plan: &Plan, i: usize) {
        let Some(expr) = plan.exprs.get(i) else { return };
        let expr = self.normal(expr);
        let id = *self.known.entry(expr).or_insert(ExprId(i as u32));
        self.numbers.push(id.0);
        let found = match expr {
            Expr::Symbol(s) => plan.symbols.get(s.index()).is_none_or(|s| matches!(s.kind, SymbolKind::Run {})),
            _ => expr.operands().any(|o| self.is_found(o)),
        };
        self.found.push(found);
    }

    /// The expression over the numbers of its operands, in one order where the order does not matter.
    fn normal(&self, expr: &Expr) -> Expr {
        let n = |e: ExprId| ExprId(self.numbers.get(e.index()).copied().unwrap_or(e.0));
        let sorted = |a: ExprId, b: ExprId| if n(a) <= n(b) { (n(a), n(b)) } else { (n(b), n(a)) };
        match *expr {
            Expr::Const(_) | Expr::Symbol(_) => *expr,
            Expr::Add(a, b) => Expr::Add(sorted(a, b).0, sorted(a, b).1),
            Expr::Mul(a, b) => Expr::Mul(sorted(a, b).0, sorted(a, b).1),
            Expr::Min(a, b) => Expr::Min(sorted(a, b).0, sorted(a, b).1),
            Expr::Max(a, b) => Expr::Max(sorted(a, b).0, sorted(a, b).1),
            Expr::Eq(a, b) => Expr::Eq(sorted(a, b).0, sorted(a, b).1),
            Expr::Sub(a, b) => Expr::Sub(n(a), n(b)),
            Expr::FloorDiv(a, b) => Expr::FloorDiv(n(a), n(b)),
            Expr::CeilDiv(a, b) => Expr::CeilDiv(n(a), n(b)),
            Expr::Mod(a, b) => Expr::Mod(n(a), n(b)),
            Expr::Lt(a, b) => Expr::Lt(n(a), n(b)),
            Expr::Select(a, b, c) => Expr::Select(n(a), n(b), n(c)),
        }
    }

    /// Whether two expressions are known to be equal.
    pub fn same(&self, plan: &Plan, a: ExprId, b: ExprId) -> bool {
        if self.number_of(a) == self.number_of(b) {
            return true;
        }
        if constant(plan, a).is_some() && constant(plan, b).is_some() {
            return false;
        }
        let (a, b) = (Poly::of(plan, self, a), Poly::of(plan, self, b));
        a.is_some() && a == b
    }

    /// The number of an expression: equal expressions have equal numbers.
    pub fn number_of(&self, e: ExprId) -> u32 {
        self.numbers.get(e.index()).copied().unwrap_or(e.0)
    }

    /// Whether a symbol takes part that only a step of the run defines.
    pub fn is_found(&self, e: ExprId) -> bool {
        self.found.get(e.index()).copied().unwrap_or(true)
    }

    fn push(&mut self, plan: &mut Plan, expr: Expr) -> ExprId {
        if let Some(id) = self.known.get(&self.normal(&expr)) {
            return *id;
        }
        plan.exprs.push(expr);
        let id = plan.exprs.len() - 1;
        self.enter(plan, id);
        ExprId(id as u32)
    }

    /// A constant.
    pub fn number(&mut self, plan: &mut Plan, n: i64) -> ExprId {
        self.push(plan, Expr::Const(n))
    }

    /// A sum.
    pub fn add(&mut self, plan: &mut Plan, a: ExprId, b: ExprId) -> ExprId {
        match (constant(plan, a), constant(plan, b)) {
            (Some(0), _) => b,
            (_, Some(0)) => a,
            (Some(x), Some(y)) if x.checked_add(y).is_some() => self.push(plan, Expr::Const(x.saturating_add(y))),
            _ => self.push(plan, Expr::Add(a, b)),
        }
    }

    /// A product.
    pub fn mul(&mut self, plan: &mut Plan, a: ExprId, b: ExprId) -> ExprId {
        match (constant(plan, a), constant(plan, b)) {
            (Some(1), _) => b,
            (_, Some(1)) => a,
            (Some(x), Some(y)) if x.checked_mul(y).is_some() => self.push(plan, Expr::Const(x.saturating_mul(y))),
            _ => self.push(plan, Expr::Mul(a, b)),
        }
    }
}

/// The value of a constant expression.
pub fn constant(plan: &Plan, e: ExprId) -> Option<i64> {
    match plan.exprs.get(e.index()) {
        Some(Expr::Const(v)) => Some(*v),
        _ => None,
    }
}

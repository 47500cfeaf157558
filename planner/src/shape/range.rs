//! What values an expression can take.

use super::{Exprs, Poly};
use plan::{Expr, ExprId, SymbolId};

/// Up to this many points a range is enumerated rather than bounded.
const MAX_POINTS: i64 = 1 << 16;

impl Exprs {
    /// Bounds of an expression over the whole range of its symbols: cheap, and not always tight.
    pub fn range(&self, id: ExprId) -> (i64, i64) {
        self.ranges.get(id.index()).copied().unwrap_or((i64::MIN, i64::MAX))
    }

    pub(super) fn range_of_difference(&self, a: ExprId, b: ExprId) -> (i64, i64) {
        if a == b {
            return (0, 0);
        }
        let direct = sub(self.range(a), self.range(b));
        match self.difference(a, b) {
            Some(p) => meet(self.range_of_poly(&p), direct),
            None => direct,
        }
    }

    fn range_of_poly(&self, poly: &Poly) -> (i64, i64) {
        let mut total = (0, 0);
        for (atoms, c) in poly.terms() {
            let mut term = (*c, *c);
            for atom in atoms {
                term = mul(term, self.range(*atom));
            }
            total = add(total, term);
        }
        total
    }

    pub(super) fn range_of(&self, expr: &Expr) -> (i64, i64) {
        let r = |id: &ExprId| self.range(*id);
        match expr {
            Expr::Const(v) => (*v, *v),
            Expr::Symbol(s) => self.symbols().get(s.index()).map_or((i64::MIN, i64::MAX), |s| (s.lo, s.hi)),
            Expr::Add(a, b) => self.poly_or(a, b, |p, q| p.add(q), add(r(a), r(b))),
            Expr::Sub(a, b) => self.poly_or(a, b, |p, q| p.add(&q.negated()?), sub(r(a), r(b))),
            Expr::Mul(a, b) => self.poly_or(a, b, |p, q| p.mul(q), mul(r(a), r(b))),
            Expr::FloorDiv(a, b) => quotient(r(a), r(b), |x, y| x.div_euclid(y)),
            Expr::CeilDiv(a, b) => quotient(r(a), r(b), |x, y| -(-x).div_euclid(y)),
            Expr::Mod(_, b) => {
                if r(b).0 > 0 {
                    (0, r(b).1 - 1)
                } else {
                    (i64::MIN, i64::MAX)
                }
            }
            Expr::Min(a, b) => (r(a).0.min(r(b).0), r(a).1.min(r(b).1)),
            Expr::Max(a, b) => (r(a).0.max(r(b).0), r(a).1.max(r(b).1)),
            Expr::Eq(..) | Expr::Lt(..) => (0, 1),
            Expr::Select(_, b, c) => (r(b).0.min(r(c).0), r(b).1.max(r(c).1)),
        }
    }

    fn poly_or(
        &self,
        a: &ExprId,
        b: &ExprId,
        combine: impl Fn(&Poly, &Poly) -> Option<Poly>,
        direct: (i64, i64),
    ) -> (i64, i64) {
        match combine(self.poly(*a), self.poly(*b)) {
            Some(p) => meet(self.range_of_poly(&p), direct),
            None => direct,
        }
    }

    /// The largest value over the range of the symbols: exact where the points are few enough to enumerate, else proven by
    /// interval arithmetic. `None` where it exceeds `i64` or nothing bounds it.
    pub fn maximum(&self, id: ExprId) -> Option<i64> {
        if let Some(v) = self.as_const(id) {
            return Some(v);
        }
        self.enumerate(id).map(|(_, hi)| hi).or_else(|| Some(self.range(id).1).filter(|hi| *hi < i64::MAX))
    }

    /// As [`Exprs::maximum`], for the smallest value.
    pub fn minimum(&self, id: ExprId) -> Option<i64> {
        if let Some(v) = self.as_const(id) {
            return Some(v);
        }
        self.enumerate(id).map(|(lo, _)| lo).or_else(|| Some(self.range(id).0).filter(|lo| *lo > i64::MIN))
    }

    /// The exact extremes where the points are few.
    fn enumerate(&self, id: ExprId) -> Option<(i64, i64)> {
        let mut best = None::<(i64, i64)>;
        self.each_point(&[id], MAX_POINTS, |values| {
            for &v in values {
                best = Some(best.map_or((v, v), |(lo, hi)| (lo.min(v), hi.max(v))));
            }
        })?;
        best
    }

    /// Whether there are few points, and two expressions are equal in none of them.
    pub(super) fn differ_everywhere(&self, a: ExprId, b: ExprId) -> bool {
        let mut meet = false;
        self.each_point(&[a, b], MAX_POINTS, |values| meet |= values.first() == values.last()).is_some() && !meet
    }

    /// Calls `visit` with the values of some expressions at every point of the ranges of their symbols; none where there are more
    /// than `most` points, or a value is none.
    pub(crate) fn each_point(&self, ids: &[ExprId], most: i64, mut visit: impl FnMut(&[i64])) -> Option<()> {
        let cone = self.cone(ids);
        let symbol = |id: &ExprId| match self.nodes().get(id.index()) {
            Some(Expr::Symbol(s)) => self.symbols().get(s.index()).map(|info| (*s, info)),
            _ => None,
        };
        let symbols: Vec<_> = cone.iter().filter_map(symbol).collect();
        let mut points = 1i64;
        for (_, info) in &symbols {
            points = points.checked_mul((info.hi.checked_sub(info.lo)? / info.step.max(1)).checked_add(1)?)?;
            if points > most {
                return None;
            }
        }
        if points.saturating_mul(cone.len() as i64) > 16 * MAX_POINTS {
            return None;
        }
        let mut at: Vec<(SymbolId, i64)> = symbols.iter().map(|(s, info)| (*s, info.lo)).collect();
        let (mut memo, mut values) = (vec![None; self.nodes().len()], Vec::with_capacity(ids.len()));
        for _ in 0..points {
            self.eval_cone(&cone, &at, &mut memo)?;
            values.clear();
            for id in ids {
                values.push(memo.get(id.index()).copied().flatten()?);
            }
            visit(&values);
            for ((_, value), (_, info)) in at.iter_mut().zip(&symbols) {
                *value = value.saturating_add(info.step);
                if *value <= info.hi {
                    break;
                }
                *value = info.lo;
            }
        }
        Some(())
    }

    /// Everything that some expressions need, in order.
    fn cone(&self, ids: &[ExprId]) -> Vec<ExprId> {
        let (mut todo, mut seen) = (ids.to_vec(), std::collections::BTreeSet::new());
        while let Some(e) = todo.pop() {
            if seen.insert(e)
                && let Some(node) = self.nodes().get(e.index())
            {
                todo.extend(node.operands());
            }
        }
        seen.into_iter().collect()
    }

    /// Leaves the values of expressions at their indices in `memo`.
    fn eval_cone(&self, cone: &[ExprId], at: &[(SymbolId, i64)], memo: &mut [Option<i64>]) -> Option<()> {
        for id in cone {
            let node = self.nodes().get(id.index())?;
            let value = match node {
                Expr::Symbol(s) => at.iter().find(|(t, _)| t == s).map(|(_, v)| *v),
                _ => plan::evaluate_node(node, |e| memo.get(e.index()).copied().flatten()),
            };
            *memo.get_mut(id.index())? = value;
        }
        Some(())
    }

    /// The value of an expression for these symbols' values.
    pub fn evaluate(&self, id: ExprId, symbol: &impl Fn(SymbolId) -> Option<i64>) -> Option<i64> {
        plan::evaluate(self.nodes(), id, symbol).ok()
    }
}

fn clamp(v: i128) -> i64 {
    v.clamp(i64::MIN as i128, i64::MAX as i128) as i64
}
fn add(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    (widen(a.0, b.0, |x, y| x + y, i64::MIN), widen(a.1, b.1, |x, y| x + y, i64::MAX))
}
fn sub(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    (widen(a.0, b.1, |x, y| x - y, i64::MIN), widen(a.1, b.0, |x, y| x - y, i64::MAX))
}
/// An unbounded side stays unbounded.
fn widen(a: i64, b: i64, f: impl Fn(i128, i128) -> i128, open: i64) -> i64 {
    if [a, b].iter().any(|v| *v == i64::MIN || *v == i64::MAX) { open } else { clamp(f(a as i128, b as i128)) }
}
fn mul(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    let products = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)].map(|(x, y)| clamp(x as i128 * y as i128));
    (products.into_iter().min().unwrap_or(i64::MIN), products.into_iter().max().unwrap_or(i64::MAX))
}
fn quotient(a: (i64, i64), b: (i64, i64), f: impl Fn(i128, i128) -> i128) -> (i64, i64) {
    if b.0 <= 0 {
        return (i64::MIN, i64::MAX);
    }
    let all = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)].map(|(x, y)| clamp(f(x as i128, y as i128)));
    (all.into_iter().min().unwrap_or(i64::MIN), all.into_iter().max().unwrap_or(i64::MAX))
}
fn meet(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    (a.0.max(b.0), a.1.min(b.1))
}

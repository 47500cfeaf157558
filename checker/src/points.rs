//! Which values of the symbols are tried.

use crate::{Reason, Rejection};
use plan::{Expr, Guard, Plan, Relation, Symbol, SymbolKind, evaluate_all};

/// Which values of the symbols are tried, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Points {
    /// Points inside the ranges, beside the corners.
    pub inner: u32,
    /// Assignments to try besides: a value for each symbol of the plan (those that a run finds are ignored).
    pub given: Vec<Vec<i64>>,
    /// The most turns of a loop whose number of turns depends on the data.
    pub max_trips: u32,
    /// The most steps to execute; beyond that the plan is too large to be checked.
    pub max_steps: u64,
}

impl Default for Points {
    fn default() -> Self {
        Points { inner: 2, given: Vec::new(), max_trips: 3, max_steps: 20_000_000 }
    }
}

/// One assignment: a value for each symbol of an input.
pub type Point = Vec<Option<i64>>;

/// All ends of up to this many ranges are combined; of more, each range leaves its neighbours' end in turn.
const MAX_COMBINED: usize = 3;

impl Points {
    /// The points that satisfy the guards.
    pub(crate) fn of(&self, plan: &Plan) -> Result<Vec<Point>, Rejection> {
        let symbols = plan.symbols.iter().enumerate();
        let free: Vec<usize> = symbols.filter(|(_, s)| is_input(s)).map(|(i, _)| i).collect();
        let mut points: Vec<Point> = Vec::new();
        let mut add = |of: &dyn Fn(usize, &Symbol) -> i64| {
            let point = plan.symbols.iter().enumerate().map(|(i, s)| is_input(s).then(|| of(i, s)));
            if let Some(point) = admitted(plan, point.collect())
                && !points.contains(&point)
            {
                points.push(point);
            }
        };
        add(&|_, s| top(s));
        add(&|_, s| s.lo);
        if free.len() <= MAX_COMBINED {
            for mask in 0..1usize << free.len() {
                add(&|i, s| {
                    if free.iter().position(|f| *f == i).is_some_and(|k| mask >> k & 1 == 1) { top(s) } else { s.lo }
                });
            }
        } else {
            for odd in free.iter().take(8) {
                add(&|i, s| if i == *odd { s.lo } else { top(s) });
                add(&|i, s| if i == *odd { top(s) } else { s.lo });
            }
        }
        let n = u64::from(self.inner.min(64));
        for k in 1..=n {
            add(&|i, s| inside(s, k, n + 1 + i as u64 % 2));
        }
        for given in &self.given {
            add(&|i, s| given.get(i).copied().unwrap_or(s.lo));
        }
        // Guards can leave all of these out: look for points that they admit.
        let tries = if points.is_empty() { 10_000_000 / (plan.exprs.len() as u64 + 1) } else { 0 };
        for seed in 0..tries.min(1000) {
            let mut add = |of: &dyn Fn(usize, &Symbol) -> i64| {
                let point = plan.symbols.iter().enumerate().map(|(i, s)| is_input(s).then(|| of(i, s)));
                points.extend(admitted(plan, point.collect()));
            };
            add(&|i, s| inside(s, mix(seed, i as u64) % 4096, 4095));
            if points.len() > 2 {
                break;
            }
        }
        if points.is_empty() {
            return Err(Rejection::new(
                Reason::NoPoint,
                "no assignment of the symbols was found that satisfies the guards",
            ));
        }
        Ok(points)
    }
}

fn is_input(s: &Symbol) -> bool {
    matches!(s.kind, SymbolKind::Input { .. })
}

/// The largest value that a symbol takes.
fn top(s: &Symbol) -> i64 {
    inside(s, 1, 1)
}

/// The value at `part` of `of` parts of a symbol's range.
fn inside(s: &Symbol, part: u64, of: u64) -> i64 {
    let (lo, step) = (i128::from(s.lo), i128::from(s.step.max(1)));
    let steps = (i128::from(s.hi) - lo) / step;
    let value = lo + steps * i128::from(part) / i128::from(of.max(1)) * step;
    i64::try_from(value).unwrap_or(s.lo)
}

fn mix(a: u64, b: u64) -> u64 {
    let x = (a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_add(0x632b_e59b_d9b4_e019))
        .wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

/// The point, moved to where equalities with a bare symbol hold; none where a guard does not.
fn admitted(plan: &Plan, mut point: Point) -> Option<Point> {
    for guard in plan.guards.iter().filter(|g| g.relation == Relation::Equal).take(64) {
        let values = evaluate_all(&plan.exprs, |s| point.get(s.index()).copied().flatten());
        let value = |e: plan::ExprId| values.get(e.index()).copied().flatten();
        for (this, other) in [(guard.left, guard.right), (guard.right, guard.left)] {
            let Some(Expr::Symbol(s)) = plan.exprs.get(this.index()) else { continue };
            if value(this) != value(other)
                && let Some(slot) = point.get_mut(s.index())
                && slot.is_some()
                && let Some(v) = value(other)
            {
                *slot = Some(v);
                break;
            }
        }
    }
    let in_range = plan.symbols.iter().zip(&point).all(|(s, v)| {
        v.is_none_or(|v| v >= s.lo && v <= s.hi && (i128::from(v) - i128::from(s.lo)) % i128::from(s.step.max(1)) == 0)
    });
    let values = evaluate_all(&plan.exprs, |s| point.get(s.index()).copied().flatten());
    let holds = |g: &Guard| {
        let (left, right) = (values.get(g.left.index())?.as_ref()?, values.get(g.right.index())?.as_ref()?);
        Some(match g.relation {
            Relation::Equal => left == right,
            Relation::LessOrEqual => left <= right,
        })
    };
    (in_range && plan.guards.iter().all(|g| holds(g) == Some(true))).then_some(point)
}

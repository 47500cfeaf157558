//! Expressions as sums of products, to see that two that are written differently are the same.

use super::exprs::Exprs;
use plan::{Expr, ExprId, Plan};
use std::collections::BTreeMap;

/// Terms beyond which nothing is said.
const MAX_TERMS: usize = 64;
/// Expressions looked at beyond which nothing is said.
const MAX_WORK: u32 = 512;

/// The factors of each term (numbers of symbols and of what is neither a sum nor a product, ascending) and how often it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poly(BTreeMap<Vec<u32>, i128>);

impl Poly {
    /// A constant.
    pub fn number(n: i64) -> Poly {
        let mut terms = BTreeMap::new();
        if n != 0 {
            terms.insert(Vec::new(), i128::from(n));
        }
        Poly(terms)
    }

    /// An expression of a plan; none where it is too long.
    pub fn of(plan: &Plan, exprs: &Exprs, e: ExprId) -> Option<Poly> {
        Self::deep(plan, exprs, e, &mut 0)
    }

    fn deep(plan: &Plan, exprs: &Exprs, e: ExprId, work: &mut u32) -> Option<Poly> {
        *work += 1;
        if *work > MAX_WORK {
            return None;
        }
        let mut sub = |e: ExprId| Self::deep(plan, exprs, e, work);
        match *plan.exprs.get(e.index())? {
            Expr::Const(n) => Some(Poly::number(n)),
            Expr::Add(a, b) => {
                let a = sub(a)?;
                a.plus(&sub(b)?, 1)
            }
            Expr::Sub(a, b) => {
                let a = sub(a)?;
                a.plus(&sub(b)?, -1)
            }
            Expr::Mul(a, b) => {
                let a = sub(a)?;
                a.times(&sub(b)?)
            }
            _ => Some(Poly(BTreeMap::from([(vec![exprs.number_of(e)], 1)]))),
        }
    }

    /// The sum with `times` times another.
    pub fn plus(mut self, other: &Poly, times: i128) -> Option<Poly> {
        for (factors, n) in &other.0 {
            let count = self.0.entry(factors.clone()).or_insert(0);
            *count = count.checked_add(n.checked_mul(times)?)?;
        }
        self.0.retain(|_, n| *n != 0);
        (self.0.len() <= MAX_TERMS).then_some(self)
    }

    /// The product.
    pub fn times(&self, other: &Poly) -> Option<Poly> {
        let mut product = Poly(BTreeMap::new());
        for (a, n) in &self.0 {
            for (b, m) in &other.0 {
                let mut factors = [a.as_slice(), b.as_slice()].concat();
                factors.sort_unstable();
                product = product.plus(&Poly(BTreeMap::from([(factors, n.checked_mul(*m)?)])), 1)?;
            }
        }
        Some(product)
    }
}

//! Integer expressions over symbols.

use crate::{ExprId, SymbolId};
use alloc::vec::Vec;

/// One integer expression. Operands stand earlier in the table than the expression that uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "text", derive(serde::Serialize, serde::Deserialize))]
pub enum Expr {
    /// A constant.
    Const(i64),
    /// The value of a symbol.
    Symbol(SymbolId),
    /// `a + b`.
    Add(ExprId, ExprId),
    /// `a - b`.
    Sub(ExprId, ExprId),
    /// `a * b`.
    Mul(ExprId, ExprId),
    /// `a / b`, rounded towards minus infinity; not evaluable where `b` is 0.
    FloorDiv(ExprId, ExprId),
    /// `a / b`, rounded towards plus infinity; not evaluable where `b` is 0.
    CeilDiv(ExprId, ExprId),
    /// `a - b * floor(a / b)`; not evaluable where `b` is 0.
    Mod(ExprId, ExprId),
    /// The smaller.
    Min(ExprId, ExprId),
    /// The larger.
    Max(ExprId, ExprId),
    /// 1 where `a == b`, else 0.
    Eq(ExprId, ExprId),
    /// 1 where `a < b`, else 0.
    Lt(ExprId, ExprId),
    /// `b` where `a` is not 0, else `c`.
    Select(ExprId, ExprId, ExprId),
}

impl Expr {
    /// The value, where `symbol` and `get` give those of symbols and operands; none where it is not evaluable.
    pub fn evaluate(
        &self,
        symbol: impl Fn(SymbolId) -> Option<i64>,
        get: impl Fn(ExprId) -> Option<i64>,
    ) -> Option<i64> {
        evaluate_one(self, &symbol, get)
    }

    /// The operands, at most three.
    pub fn operands(&self) -> impl Iterator<Item = ExprId> + use<> {
        let (a, b, c) = match *self {
            Expr::Const(_) | Expr::Symbol(_) => (None, None, None),
            Expr::Add(a, b)
            | Expr::Sub(a, b)
            | Expr::Mul(a, b)
            | Expr::FloorDiv(a, b)
            | Expr::CeilDiv(a, b)
            | Expr::Mod(a, b)
            | Expr::Min(a, b)
            | Expr::Max(a, b)
            | Expr::Eq(a, b)
            | Expr::Lt(a, b) => (Some(a), Some(b), None),
            Expr::Select(a, b, c) => (Some(a), Some(b), Some(c)),
        };
        [a, b, c].into_iter().flatten()
    }
}

/// Why an expression has no value: an overflow, a division by zero, a symbol that is not known yet,
/// or a table that is not in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unevaluable(pub ExprId);

/// The value of every expression of a table; `None` where it is not evaluable.
pub fn evaluate_all(table: &[Expr], symbol: impl Fn(SymbolId) -> Option<i64>) -> Vec<Option<i64>> {
    let mut done: Vec<Option<i64>> = Vec::with_capacity(table.len());
    for expr in table {
        let value = evaluate_one(expr, &symbol, |id| done.get(id.index()).copied().flatten());
        done.push(value);
    }
    done
}

/// The value of one expression of a table.
///
/// # Errors
/// [`Unevaluable`] names the expression that has no value.
pub fn evaluate(table: &[Expr], id: ExprId, symbol: &impl Fn(SymbolId) -> Option<i64>) -> Result<i64, Unevaluable> {
    // Only the part of the table up to `id` can matter.
    let part = table.get(..=id.index()).ok_or(Unevaluable(id))?;
    if let Some(Expr::Const(v)) = part.last() {
        return Ok(*v);
    }
    evaluate_all(part, symbol).last().copied().flatten().ok_or(Unevaluable(id))
}

/// The value of an expression that is no symbol, whose operands' values `get` gives; `None` where it is not evaluable.
pub fn evaluate_node(expr: &Expr, get: impl Fn(ExprId) -> Option<i64>) -> Option<i64> {
    evaluate_one(expr, &|_| None, get)
}

fn evaluate_one(
    expr: &Expr,
    symbol: &impl Fn(SymbolId) -> Option<i64>,
    get: impl Fn(ExprId) -> Option<i64>,
) -> Option<i64> {
    Some(match *expr {
        Expr::Const(v) => v,
        Expr::Symbol(s) => symbol(s)?,
        Expr::Add(a, b) => get(a)?.checked_add(get(b)?)?,
        Expr::Sub(a, b) => get(a)?.checked_sub(get(b)?)?,
        Expr::Mul(a, b) => get(a)?.checked_mul(get(b)?)?,
        Expr::FloorDiv(a, b) => floor_div(get(a)?, get(b)?)?,
        Expr::CeilDiv(a, b) => floor_div(get(a)?.checked_neg()?, get(b)?)?.checked_neg()?,
        Expr::Mod(a, b) => {
            let (a, b) = (get(a)?, get(b)?);
            a.checked_sub(b.checked_mul(floor_div(a, b)?)?)?
        }
        Expr::Min(a, b) => get(a)?.min(get(b)?),
        Expr::Max(a, b) => get(a)?.max(get(b)?),
        Expr::Eq(a, b) => i64::from(get(a)? == get(b)?),
        Expr::Lt(a, b) => i64::from(get(a)? < get(b)?),
        Expr::Select(a, b, c) => {
            if get(a)? != 0 {
                get(b)?
            } else {
                get(c)?
            }
        }
    })
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { q.checked_sub(1)? } else { q })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_rounds_as_named() {
        for a in -7..=7i64 {
            for b in [-3i64, -2, -1, 1, 2, 3] {
                let table = [
                    Expr::Const(a),
                    Expr::Const(b),
                    Expr::FloorDiv(ExprId(0), ExprId(1)),
                    Expr::CeilDiv(ExprId(0), ExprId(1)),
                    Expr::Mod(ExprId(0), ExprId(1)),
                ];
                let v = evaluate_all(&table, |_| None);
                let exact = a as f64 / b as f64;
                assert_eq!(v[2], Some(exact.floor() as i64));
                assert_eq!(v[3], Some(exact.ceil() as i64));
                assert_eq!(v[4], Some(a - b * exact.floor() as i64));
            }
        }
    }

    #[test]
    fn no_value_for_overflow_or_zero_divisor() {
        let table = [
            Expr::Const(i64::MAX),
            Expr::Const(0),
            Expr::Add(ExprId(0), ExprId(0)),
            Expr::FloorDiv(ExprId(0), ExprId(1)),
            Expr::Symbol(SymbolId(0)),
        ];
        let v = evaluate_all(&table, |_| None);
        assert_eq!(&v[2..], &[None, None, None]);
    }
}

//! Integer expressions over symbols, kept in a normal form so that equal extents get equal ids, with proven ranges.
//!
//! Sums and products are kept as polynomials over *atoms* (symbols and what is no polynomial), so that `(8 * s) / 8` and `s` are
//! one expression. A symbol whose values share a divisor `g` is written as `g * (s / g)`, so that halving it is exact.

mod poly;
mod range;

pub use poly::Poly;

use plan::{Expr, ExprId, SymbolId, SymbolKind};
use std::collections::BTreeMap;

/// A free extent and its values `lo, lo + step, ..., hi`.
#[derive(Clone, Debug, PartialEq)]
pub struct SymbolInfo {
    /// The name in messages.
    pub name: String,
    /// Where its value comes from.
    pub kind: SymbolKind,
    /// Smallest value.
    pub lo: i64,
    /// Largest value.
    pub hi: i64,
    /// Distance between values, at least 1.
    pub step: i64,
    /// For a symbol that the run defines: an expression that it never exceeds.
    pub bound: Option<ExprId>,
}

/// The most nodes of an expression that a message shows: what operators share in the table repeats in text, and would grow
/// without bound.
const SHOWN: usize = 64;

/// The table of expressions.
#[derive(Clone, Debug, Default)]
pub struct Exprs {
    nodes: Vec<Expr>,
    polys: Vec<Poly>,
    ranges: Vec<(i64, i64)>,
    index: BTreeMap<Expr, ExprId>,
    symbols: Vec<SymbolInfo>,
}

impl Exprs {
    /// The expressions, operands before their users.
    pub fn nodes(&self) -> &[Expr] {
        &self.nodes
    }

    /// The symbols.
    pub fn symbols(&self) -> &[SymbolInfo] {
        &self.symbols
    }

    /// A new symbol.
    pub fn symbol(&mut self, info: SymbolInfo) -> SymbolId {
        let id = SymbolId(self.symbols.len() as u32);
        self.symbols.push(info);
        id
    }

    /// The value of a symbol. A symbol with one value is that constant.
    pub fn of_symbol(&mut self, id: SymbolId) -> ExprId {
        let Some(info) = self.symbols.get(id.index()) else { return self.int(0) };
        let run = matches!(info.kind, SymbolKind::Run {});
        if info.lo == info.hi && !run {
            let value = info.lo;
            return self.int(value);
        }
        self.intern(Expr::Symbol(id))
    }

    /// The constant `value`.
    pub fn int(&mut self, value: i64) -> ExprId {
        self.intern(Expr::Const(value))
    }

    /// The constant that an expression is, if it is one.
    pub fn as_const(&self, id: ExprId) -> Option<i64> {
        match self.nodes.get(id.index()) {
            Some(Expr::Const(v)) => Some(*v),
            _ => None,
        }
    }

    /// `a + b`.
    pub fn add(&mut self, a: ExprId, b: ExprId) -> ExprId {
        match self.poly(a).add(self.poly(b)) {
            Some(p) => self.of_poly(&p),
            None => self.intern(Expr::Add(a, b)),
        }
    }

    /// `a - b`.
    pub fn sub(&mut self, a: ExprId, b: ExprId) -> ExprId {
        match self.difference(a, b) {
            Some(p) => self.of_poly(&p),
            None => self.intern(Expr::Sub(a, b)),
        }
    }

    /// `a * b`.
    pub fn mul(&mut self, a: ExprId, b: ExprId) -> ExprId {
        match self.poly(a).mul(self.poly(b)) {
            Some(p) => self.of_poly(&p),
            None => self.intern(Expr::Mul(a, b)),
        }
    }

    /// The product of all.
    pub fn product(&mut self, ids: impl IntoIterator<Item = ExprId>) -> ExprId {
        let one = self.int(1);
        ids.into_iter().fold(one, |all, e| self.mul(all, e))
    }

    /// `a / b`, rounded towards minus infinity.
    pub fn floor_div(&mut self, a: ExprId, b: ExprId) -> ExprId {
        if let (Some(x), Some(y)) = (self.as_const(a), self.as_const(b))
            && y != 0
            && !(x == i64::MIN && y == -1)
        {
            return self.int(x.div_euclid(y) - i64::from(y < 0 && x.rem_euclid(y) != 0));
        }
        if self.as_const(b) == Some(1) {
            return a;
        }
        if self.range(b).0 > 0 && a == b {
            return self.int(1);
        }
        if let Some(q) = self.poly(a).divide_exactly(self.poly(b)) {
            return self.of_poly(&q);
        }
        if let Some(c) = self.as_const(b).filter(|c| *c > 1) {
            let (whole, rest) = self.poly(a).split_by(c);
            let rest = self.of_poly(&rest);
            let (lo, hi) = self.range(rest);
            let tail = if lo.div_euclid(c) == hi.div_euclid(c) {
                self.int(lo.div_euclid(c))
            } else {
                self.intern(Expr::FloorDiv(rest, b))
            };
            let whole = self.of_poly(&whole);
            return self.add(whole, tail);
        }
        self.intern(Expr::FloorDiv(a, b))
    }

    /// `a / b`, rounded towards plus infinity, for a positive `b`.
    pub fn ceil_div(&mut self, a: ExprId, b: ExprId) -> ExprId {
        let one = self.int(1);
        let less = self.sub(b, one);
        let sum = self.add(a, less);
        self.floor_div(sum, b)
    }

    /// `a - b * floor(a / b)`.
    pub fn modulo(&mut self, a: ExprId, b: ExprId) -> ExprId {
        let q = self.floor_div(a, b);
        let whole = self.mul(q, b);
        self.sub(a, whole)
    }

    /// The smaller.
    pub fn min(&mut self, a: ExprId, b: ExprId) -> ExprId {
        match self.compare(a, b) {
            Some(true) => a,
            Some(false) => b,
            None => self.intern(Expr::Min(a.min(b), a.max(b))),
        }
    }

    /// The larger.
    pub fn max(&mut self, a: ExprId, b: ExprId) -> ExprId {
        match self.compare(a, b) {
            Some(true) => b,
            Some(false) => a,
            None => self.intern(Expr::Max(a.min(b), a.max(b))),
        }
    }

    /// 1 where `a == b`, else 0.
    pub fn eq(&mut self, a: ExprId, b: ExprId) -> ExprId {
        let (lo, hi) = self.range_of_difference(a, b);
        if lo == 0 && hi == 0 {
            self.int(1)
        } else if lo > 0 || hi < 0 {
            self.int(0)
        } else {
            self.intern(Expr::Eq(a.min(b), a.max(b)))
        }
    }

    /// 1 where `a < b`, else 0.
    pub fn lt(&mut self, a: ExprId, b: ExprId) -> ExprId {
        let (lo, hi) = self.range_of_difference(a, b);
        if hi < 0 {
            self.int(1)
        } else if lo >= 0 {
            self.int(0)
        } else {
            self.intern(Expr::Lt(a, b))
        }
    }

    /// `b` where `a` is not 0, else `c`.
    pub fn select(&mut self, a: ExprId, b: ExprId, c: ExprId) -> ExprId {
        let (lo, hi) = self.range(a);
        if b == c || lo > 0 || hi < 0 {
            b
        } else if lo == 0 && hi == 0 {
            c
        } else {
            self.intern(Expr::Select(a, b, c))
        }
    }

    /// `Some(true)` where `a <= b` always, `Some(false)` where `a >= b` always.
    fn compare(&self, a: ExprId, b: ExprId) -> Option<bool> {
        let (lo, hi) = self.range_of_difference(a, b);
        if hi <= 0 {
            Some(true)
        } else if lo >= 0 {
            Some(false)
        } else {
            None
        }
    }

    /// Whether `a` equals `b` for every value of the symbols.
    pub fn always_equal(&self, a: ExprId, b: ExprId) -> bool {
        a == b || self.range_of_difference(a, b) == (0, 0)
    }

    /// Whether `a` equals `b` for no value of the symbols.
    pub fn never_equal(&self, a: ExprId, b: ExprId) -> bool {
        let (lo, hi) = self.range_of_difference(a, b);
        lo > 0 || hi < 0 || ((lo, hi) != (0, 0) && self.differ_everywhere(a, b))
    }

    /// The symbols that an expression depends on.
    pub fn symbols_of(&self, id: ExprId) -> Vec<SymbolId> {
        let (mut todo, mut found) = (vec![id], Vec::new());
        let mut seen = std::collections::BTreeSet::new();
        while let Some(e) = todo.pop() {
            let Some(node) = self.nodes.get(e.index()) else { continue };
            if !seen.insert(e) {
                continue;
            }
            if let Expr::Symbol(s) = node {
                found.push(*s);
            }
            todo.extend(node.operands());
        }
        found.sort();
        found.dedup();
        found
    }

    /// The expression as people write it; what is long ends in dots.
    pub fn display(&self, id: ExprId) -> String {
        let mut left = SHOWN;
        self.written(id, &mut left)
    }

    /// As `display`, for as long as `left` nodes are not used up.
    fn written(&self, id: ExprId, left: &mut usize) -> String {
        let Some(rest) = left.checked_sub(1) else { return "…".to_owned() };
        *left = rest;
        let sum = |e: &ExprId| matches!(self.nodes.get(e.index()), Some(Expr::Add(..) | Expr::Sub(..)));
        let mut plain = |e: &ExprId| self.written(*e, left);
        let factor = |text: String, e: &ExprId| if sum(e) { format!("({text})") } else { text };
        match self.nodes.get(id.index()) {
            None => "?".to_owned(),
            Some(Expr::Const(v)) => v.to_string(),
            Some(Expr::Symbol(s)) => self.symbols.get(s.index()).map_or("?".to_owned(), |s| s.name.clone()),
            Some(Expr::Mul(a, b)) => format!("{}*{}", factor(plain(a), a), factor(plain(b), b)),
            Some(Expr::FloorDiv(a, b)) => format!("floor({}/{})", factor(plain(a), a), factor(plain(b), b)),
            Some(Expr::CeilDiv(a, b)) => format!("ceil({}/{})", factor(plain(a), a), factor(plain(b), b)),
            Some(Expr::Mod(a, b)) => format!("{} mod {}", factor(plain(a), a), factor(plain(b), b)),
            Some(Expr::Add(a, b)) => format!("{} + {}", plain(a), plain(b)),
            Some(Expr::Sub(a, b)) => format!("{} - {}", plain(a), factor(plain(b), b)),
            Some(Expr::Min(a, b)) => format!("min({}, {})", plain(a), plain(b)),
            Some(Expr::Max(a, b)) => format!("max({}, {})", plain(a), plain(b)),
            Some(Expr::Eq(a, b)) => format!("({} == {})", plain(a), plain(b)),
            Some(Expr::Lt(a, b)) => format!("({} < {})", plain(a), plain(b)),
            Some(Expr::Select(a, b, c)) => format!("if {} then {} else {}", plain(a), plain(b), plain(c)),
        }
    }

    /// Dims as people write them, such as `[batch, 3, 2*h]`.
    pub fn display_dims(&self, dims: &[ExprId]) -> String {
        let parts: Vec<String> = dims.iter().map(|d| self.display(*d)).collect();
        format!("[{}]", parts.join(", "))
    }

    fn poly(&self, id: ExprId) -> &Poly {
        static ZERO: Poly = Poly::ZERO;
        self.polys.get(id.index()).unwrap_or(&ZERO)
    }

    fn difference(&self, a: ExprId, b: ExprId) -> Option<Poly> {
        self.poly(a).add(&self.poly(b).negated()?)
    }

    fn intern(&mut self, expr: Expr) -> ExprId {
        if let Some(id) = self.index.get(&expr) {
            return *id;
        }
        let poly = match expr {
            Expr::Const(v) => Some(Poly::constant(v)),
            Expr::Symbol(s) => self.poly_of_symbol(s, expr),
            Expr::Add(a, b) => self.poly(a).add(self.poly(b)),
            Expr::Sub(a, b) => self.difference(a, b),
            Expr::Mul(a, b) => self.poly(a).mul(self.poly(b)),
            _ => None,
        };
        // `poly_of_symbol` may have interned others.
        if let Some(id) = self.index.get(&expr) {
            return *id;
        }
        let id = ExprId(self.nodes.len() as u32);
        let range = self.range_of(&expr);
        self.nodes.push(expr);
        self.polys.push(poly.unwrap_or_else(|| Poly::atom(id)));
        self.ranges.push(range);
        self.index.insert(expr, id);
        id
    }

    /// The polynomial of a symbol whose values share a divisor `g > 1`: `g * (s / g)`.
    fn poly_of_symbol(&mut self, s: SymbolId, expr: Expr) -> Option<Poly> {
        let info = self.symbols.get(s.index())?;
        let g = gcd(info.lo, info.step);
        if g <= 1 || matches!(info.kind, SymbolKind::Run {}) {
            return None;
        }
        let range = (info.lo, info.hi);
        // The symbol itself comes first, so that the quotient can name it.
        let by = self.int(g);
        let id = ExprId(self.nodes.len() as u32);
        let quotient = ExprId(id.0 + 1);
        let poly = Poly::atom(quotient).scaled(g)?;
        self.nodes.push(expr);
        self.polys.push(poly.clone());
        self.ranges.push(range);
        self.index.insert(expr, id);
        self.nodes.push(Expr::FloorDiv(id, by));
        self.polys.push(Poly::atom(quotient));
        self.ranges.push((range.0 / g, range.1 / g));
        self.index.insert(Expr::FloorDiv(id, by), quotient);
        Some(poly)
    }

    /// The canonical expression of a polynomial.
    fn of_poly(&mut self, poly: &Poly) -> ExprId {
        let mut total: Option<ExprId> = None;
        let mut subtract: Vec<ExprId> = Vec::new();
        for (atoms, coefficient) in poly.terms() {
            let (mut coefficient, mut factors) = (*coefficient, Vec::new());
            for atom in atoms {
                // `k * g * (s / g)` is `k * s`.
                match self.nodes.get(atom.index()) {
                    Some(Expr::FloorDiv(s, g))
                        if matches!(self.nodes.get(s.index()), Some(Expr::Symbol(_)))
                            && self
                                .as_const(*g)
                                .is_some_and(|g| coefficient % g == 0 && self.poly(*s).is_scaled_atom(*atom)) =>
                    {
                        coefficient /= self.as_const(*g).unwrap_or(1);
                        factors.push(*s);
                    }
                    _ => factors.push(*atom),
                }
            }
            let negative = coefficient < 0 && !factors.is_empty();
            let size = if negative { coefficient.saturating_neg() } else { coefficient };
            if size != 1 || factors.is_empty() {
                factors.push(self.int(size));
            }
            factors.sort();
            let mut factors = factors.into_iter();
            let Some(mut term) = factors.next() else { continue };
            for f in factors {
                term = self.intern(Expr::Mul(term, f));
            }
            if negative {
                subtract.push(term);
            } else {
                total = Some(match total {
                    None => term,
                    Some(sum) => self.intern(Expr::Add(sum, term)),
                });
            }
        }
        let mut sum = match total {
            Some(sum) => sum,
            None => self.int(0),
        };
        for term in subtract {
            sum = self.intern(Expr::Sub(sum, term));
        }
        sum
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

#[cfg(test)]
mod tests;

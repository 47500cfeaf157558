//! Polynomials with integer coefficients over atoms.

use plan::ExprId;
use std::collections::BTreeMap;

/// A sum of products of atoms. No coefficient is 0; overflow gives `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poly {
    terms: BTreeMap<Vec<ExprId>, i64>,
}

/// More terms than this are not expanded: the expression then stays as it was written.
const MAX_TERMS: usize = 64;

impl Poly {
    /// Zero.
    pub const ZERO: Poly = Poly { terms: BTreeMap::new() };

    /// A constant.
    pub fn constant(value: i64) -> Poly {
        let mut p = Poly::ZERO;
        if value != 0 {
            p.terms.insert(Vec::new(), value);
        }
        p
    }

    /// An atom.
    pub fn atom(id: ExprId) -> Poly {
        Poly { terms: BTreeMap::from([(vec![id], 1)]) }
    }

    /// Products of atoms (sorted) with their coefficients; the constant comes first.
    pub fn terms(&self) -> impl DoubleEndedIterator<Item = (&Vec<ExprId>, &i64)> {
        self.terms.iter()
    }

    /// Whether this is a multiple of one atom.
    pub fn is_scaled_atom(&self, atom: ExprId) -> bool {
        self.terms.len() == 1 && self.terms.keys().next().is_some_and(|k| k.as_slice() == [atom])
    }

    fn add_term(&mut self, atoms: Vec<ExprId>, coefficient: i64) -> Option<()> {
        let slot = self.terms.entry(atoms).or_insert(0);
        *slot = slot.checked_add(coefficient)?;
        Some(())
    }

    fn cleaned(mut self) -> Option<Poly> {
        self.terms.retain(|_, c| *c != 0);
        (self.terms.len() <= MAX_TERMS).then_some(self)
    }

    /// The sum.
    pub fn add(&self, other: &Poly) -> Option<Poly> {
        let mut sum = self.clone();
        for (atoms, c) in &other.terms {
            sum.add_term(atoms.clone(), *c)?;
        }
        sum.cleaned()
    }

    /// The negative.
    pub fn negated(&self) -> Option<Poly> {
        self.scaled(-1)
    }

    /// A multiple.
    pub fn scaled(&self, by: i64) -> Option<Poly> {
        let mut p = Poly::ZERO;
        for (atoms, c) in &self.terms {
            p.terms.insert(atoms.clone(), c.checked_mul(by)?);
        }
        p.cleaned()
    }

    /// The product.
    pub fn mul(&self, other: &Poly) -> Option<Poly> {
        if self.terms.len().saturating_mul(other.terms.len()) > 4 * MAX_TERMS {
            return None;
        }
        let mut p = Poly::ZERO;
        for (a, c) in &self.terms {
            for (b, d) in &other.terms {
                let mut atoms = [a.as_slice(), b.as_slice()].concat();
                atoms.sort();
                if atoms.len() > MAX_TERMS {
                    return None;
                }
                p.add_term(atoms, c.checked_mul(*d)?)?;
            }
        }
        p.cleaned()
    }

    /// The term of the highest degree, ties broken by its atoms: an order that multiplication keeps.
    fn leading(&self) -> Option<(&Vec<ExprId>, &i64)> {
        self.terms.iter().max_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
    }

    /// The quotient, where there is no rest: long division by the leading term.
    pub fn divide_exactly(&self, by: &Poly) -> Option<Poly> {
        let (lead, lead_c) = by.leading()?;
        let (mut rest, mut quotient) = (self.clone(), Poly::ZERO);
        for _ in 0..MAX_TERMS {
            let Some((atoms, c)) = rest.leading() else { return Some(quotient) };
            let factor = without(atoms, lead)?;
            if c.checked_rem(*lead_c)? != 0 {
                return None;
            }
            let mut term = Poly::ZERO;
            term.terms.insert(factor, c / lead_c);
            quotient = quotient.add(&term)?;
            rest = rest.add(&by.mul(&term)?.negated()?)?;
        }
        None
    }

    /// `(q, r)` with `self = c * q + r`: in `q` what divides, in `r` the rest, its constant in `0..c`.
    pub fn split_by(&self, c: i64) -> (Poly, Poly) {
        let (mut whole, mut rest) = (Poly::ZERO, Poly::ZERO);
        for (atoms, k) in &self.terms {
            if atoms.is_empty() {
                if k.div_euclid(c) != 0 {
                    whole.terms.insert(Vec::new(), k.div_euclid(c));
                }
                if k.rem_euclid(c) != 0 {
                    rest.terms.insert(Vec::new(), k.rem_euclid(c));
                }
            } else if k % c == 0 {
                whole.terms.insert(atoms.clone(), k / c);
            } else {
                rest.terms.insert(atoms.clone(), *k);
            }
        }
        (whole, rest)
    }
}

/// The sorted list without the items of another, or none where one is missing.
fn without(atoms: &[ExprId], remove: &[ExprId]) -> Option<Vec<ExprId>> {
    let mut left = atoms.to_vec();
    for r in remove {
        let at = left.iter().position(|a| a == r)?;
        left.remove(at);
    }
    Some(left)
}

//! `Einsum`: operand after operand is multiplied in, each time as a batched matrix product where two operands share summed axes.

use super::{Cx, Lowered, product};
use crate::graph::{Problem, V};
use crate::onnx::Node;
use plan::{ExprId, prim::*};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// An axis: a letter, or a place within the ellipsis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Axis {
    /// Counted from the ellipsis's end, so that shorter ones line up with longer ones.
    Dots(Reverse<usize>),
    Letter(char),
}

/// A tensor and what its axes are called.
#[derive(Clone, Debug)]
struct Term {
    v: V,
    axes: Vec<Axis>,
}

pub(super) fn lower(cx: &mut Cx<'_>, node: &Node) -> Lowered {
    let equation: String = node.string("equation")?.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((l, r)) => (l, Some(r)),
        None => (equation.as_str(), None),
    };
    let inputs = cx.inputs(node)?;
    let names: Vec<&str> = left.split(',').collect();
    if names.len() != inputs.len() || inputs.is_empty() {
        return Err(Problem::new(format!("{} operands for the equation {equation}", inputs.len())));
    }
    let mut terms = Vec::new();
    for (v, name) in inputs.into_iter().zip(&names) {
        let axes = axes_of(name, Some(cx.b.rank(v)), 0)?;
        terms.push(Term { v, axes });
    }
    let dots = terms.iter().flat_map(|t| &t.axes).filter(|a| matches!(a, Axis::Dots(_))).count();
    let widest = terms.iter().map(|t| t.axes.iter().filter(|a| matches!(a, Axis::Dots(_))).count()).max().unwrap_or(0);
    let output = match right {
        Some(r) => axes_of(r, None, if dots == 0 { 0 } else { widest })?,
        None => implicit_output(&terms),
    };
    let extents = extents(cx, &terms)?;
    if let Some(unknown) = output.iter().find(|a| !extents.contains_key(a)) {
        return Err(Problem::new(format!("the equation {equation} does not say what {unknown:?} is")));
    }
    let mut rest = Vec::new();
    for t in terms {
        rest.push(diagonal(cx, t)?);
    }
    let mut rest = rest.into_iter();
    let Some(mut total) = rest.next() else { return Err(Problem::new("no operands")) };
    let later: Vec<Term> = rest.collect();
    for (i, t) in later.iter().enumerate() {
        let needed: Vec<Axis> =
            output.iter().copied().chain(later.iter().skip(i + 1).flat_map(|t| t.axes.iter().copied())).collect();
        total = multiply(cx, total, t.clone(), &needed, &extents)?;
    }
    let total = sum_out(cx, total, &output)?;
    let y = arrange(cx, &total, &output)?;
    // An output axis that stands in no operand with its full extent is repeated.
    let dims: Vec<ExprId> = output.iter().filter_map(|a| extents.get(a).copied()).collect();
    Ok(vec![cx.b.broadcast(y, &dims)?.into()])
}

/// The axes of a term. The ellipsis stands for what is left of `rank`, or for `dots` axes.
fn axes_of(term: &str, rank: Option<usize>, dots: usize) -> Result<Vec<Axis>, Problem> {
    let bad = || Problem::new(format!("the term {term} of an equation"));
    let letters = |s: &str| -> Result<Vec<Axis>, Problem> {
        s.chars().map(|c| if c.is_ascii_alphabetic() { Ok(Axis::Letter(c)) } else { Err(bad()) }).collect()
    };
    let Some((before, after)) = term.split_once("...") else {
        let axes = letters(term)?;
        return if rank.is_none_or(|r| r == axes.len()) { Ok(axes) } else { Err(bad()) };
    };
    let (before, after) = (letters(before)?, letters(after)?);
    let dots = match rank {
        Some(rank) => rank.checked_sub(before.len() + after.len()).ok_or_else(bad)?,
        None => dots,
    };
    let middle = (0..dots).rev().map(|i| Axis::Dots(Reverse(i)));
    Ok(before.into_iter().chain(middle).chain(after).collect())
}

/// Without a right side: the ellipsis, then the letters that stand once, in their order.
fn implicit_output(terms: &[Term]) -> Vec<Axis> {
    let mut count: BTreeMap<Axis, usize> = BTreeMap::new();
    for a in terms.iter().flat_map(|t| &t.axes) {
        *count.entry(*a).or_default() += 1;
    }
    count.into_iter().filter(|(a, n)| *n == 1 || matches!(a, Axis::Dots(_))).map(|(a, _)| a).collect()
}

/// The extent of each axis, broadcast over the operands.
fn extents(cx: &mut Cx<'_>, terms: &[Term]) -> Result<BTreeMap<Axis, ExprId>, Problem> {
    let mut all: BTreeMap<Axis, ExprId> = BTreeMap::new();
    for t in terms {
        for (axis, extent) in t.axes.iter().zip(cx.b.dims(t.v)) {
            let known = all.get(axis).copied().unwrap_or(extent);
            let both = cx.b.broadcast_dims(&[known], &[extent])?;
            all.insert(*axis, both.first().copied().unwrap_or(extent));
        }
    }
    Ok(all)
}

/// A term in which no axis stands twice: of repeated ones, the diagonal.
fn diagonal(cx: &mut Cx<'_>, mut t: Term) -> Result<Term, Problem> {
    loop {
        let twice = t
            .axes
            .iter()
            .enumerate()
            .find_map(|(i, a)| t.axes.iter().skip(i + 1).position(|b| a == b).map(|j| (i, i + 1 + j)));
        let Some((i, j)) = twice else { return Ok(t) };
        // With both axes last and merged, the diagonal is every (n + 1)th element.
        let mut perm: Vec<usize> = (0..t.axes.len()).filter(|k| *k != i && *k != j).collect();
        let lead = perm.len();
        perm.extend([i, j]);
        let v = cx.b.permute(t.v, &perm)?;
        let dims = cx.b.dims(v);
        let n = cx.b.dim(v, lead)?;
        let m = cx.b.dim(v, lead + 1)?;
        cx.b.require_equal(n, m, "axes of one name have one extent")?;
        let Some(extent) = cx.b.exprs().as_const(n) else {
            return Err(Problem::new("the diagonal of axes whose extent is not known while planning"));
        };
        let (one, zero, whole) = (cx.b.int(1), cx.b.int(0), cx.b.exprs().mul(n, m));
        let mut flat: Vec<ExprId> = dims.iter().take(lead).copied().collect();
        flat.push(whole);
        let v = cx.b.reshape(v, &flat)?;
        let mut step = vec![1; lead];
        step.push(extent + 1);
        if let Some(last) = flat.last_mut() {
            *last = n;
        }
        let start = vec![zero; lead + 1];
        let v = if n == one { cx.b.reshape(v, &flat)? } else { cx.b.slice(v, &start, &step, &flat)? };
        let axis = t.axes.get(i).copied();
        t.axes = perm.iter().take(lead).filter_map(|k| t.axes.get(*k).copied()).chain(axis).collect();
        t.v = v;
    }
}

/// Sums over the axes that are not needed.
fn sum_out(cx: &mut Cx<'_>, t: Term, needed: &[Axis]) -> Result<Term, Problem> {
    let gone: Vec<usize> = t.axes.iter().enumerate().filter(|(_, a)| !needed.contains(a)).map(|(i, _)| i).collect();
    if gone.is_empty() {
        return Ok(t);
    }
    let v = cx.b.reduce(ReduceOp::Sum, t.v, &gone, false)?;
    Ok(Term { v, axes: t.axes.into_iter().filter(|a| needed.contains(a)).collect() })
}

/// The tensor with its axes in the order of `axes`; those that it lacks have extent 1.
fn arrange(cx: &mut Cx<'_>, t: &Term, axes: &[Axis]) -> Result<V, Problem> {
    let perm: Vec<usize> = axes.iter().filter_map(|a| t.axes.iter().position(|b| a == b)).collect();
    let v = cx.b.permute(t.v, &perm)?;
    let missing: Vec<i64> =
        axes.iter().enumerate().filter(|(_, a)| !t.axes.contains(a)).map(|(i, _)| i as i64).collect();
    if missing.is_empty() { Ok(v) } else { cx.b.unsqueeze(v, &missing) }
}

/// The product of two terms, summed over the axes that nobody needs any more.
fn multiply(
    cx: &mut Cx<'_>,
    a: Term,
    b: Term,
    needed: &[Axis],
    extents: &BTreeMap<Axis, ExprId>,
) -> Result<Term, Problem> {
    let with = |own: &[Axis]| -> Vec<Axis> { own.iter().chain(needed).copied().collect() };
    let (keep_a, keep_b) = (with(&b.axes), with(&a.axes));
    let (a, b) = (sum_out(cx, a, &keep_a)?, sum_out(cx, b, &keep_b)?);
    let pick =
        |from: &Term, f: &dyn Fn(&Axis) -> bool| -> Vec<Axis> { from.axes.iter().copied().filter(|x| f(x)).collect() };
    let batch = pick(&a, &|x| b.axes.contains(x) && needed.contains(x));
    let summed = pick(&a, &|x| b.axes.contains(x) && !needed.contains(x));
    let left = pick(&a, &|x| !b.axes.contains(x));
    let right = pick(&b, &|x| !a.axes.contains(x));
    let axes = [batch.as_slice(), &left, &right].concat();
    if summed.is_empty() {
        let (x, y) = (arrange(cx, &a, &axes)?, arrange(cx, &b, &axes)?);
        return Ok(Term { v: cx.b.binary(MapOp::Mul, x, y)?, axes });
    }
    let x = matrix(cx, &a, &batch, &left, &summed, extents)?;
    let y = matrix(cx, &b, &batch, &summed, &right, extents)?;
    let v = product(cx, x, y)?;
    let lead: Vec<ExprId> = cx.b.dims(v).into_iter().take(batch.len()).collect();
    let tail = left.iter().chain(&right).filter_map(|a| extents.get(a).copied());
    let dims: Vec<ExprId> = lead.into_iter().chain(tail).collect();
    Ok(Term { v: cx.b.reshape(v, &dims)?, axes })
}

/// The tensor as matrices: the batch axes, then the rows' axes as one, then the columns' axes as one.
fn matrix(
    cx: &mut Cx<'_>,
    t: &Term,
    batch: &[Axis],
    rows: &[Axis],
    columns: &[Axis],
    extents: &BTreeMap<Axis, ExprId>,
) -> Result<V, Problem> {
    let v = arrange(cx, t, &[batch, rows, columns].concat())?;
    let lead: Vec<ExprId> = cx.b.dims(v).into_iter().take(batch.len()).collect();
    let full = |axes: &[Axis]| -> Vec<ExprId> { axes.iter().filter_map(|a| extents.get(a).copied()).collect() };
    let (rows, columns) = (full(rows), full(columns));
    let v = cx.b.broadcast(v, &[lead.as_slice(), &rows, &columns].concat())?;
    let (m, n) = (cx.b.exprs().product(rows), cx.b.exprs().product(columns));
    cx.b.reshape(v, &[lead.as_slice(), &[m, n]].concat())
}

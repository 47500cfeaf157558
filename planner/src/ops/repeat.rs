//! Bodies that run again and again: `Loop` and `Scan`.
//!
//! A body is written out where how often it runs is known and it is small, or where it has to be: where sequences are carried, or
//! dims change on the way. Else it becomes a loop of the graph.

use super::control::{decided, single_bool};
use super::slice::padded;
use super::{Cx, Lowered, Val};
use crate::graph::{B, LoopOp, Op, Problem, V};
use crate::onnx::{Attribute, Dim, Graph, Node, Type, ValueInfo};
use plan::{DType, ExprId, SymbolId, prim::PadMode};

/// Loops of up to this many iterations are written out if that gives few nodes.
const FEW_TRIPS: i64 = 16;
/// Written-out loops may have this many nodes of the model in all.
const FEW_NODES: usize = 256;
/// The most iterations that are written out where nothing else will do.
const MOST_TRIPS: i64 = 1024;
/// A written-out loop may have this many values.
const MOST_VALUES: usize = 1 << 18;
/// More iterations than any loop has: the bound where there is none.
const ENDLESS: i64 = 1 << 48;

/// A tensor of which each iteration sees one row.
#[derive(Clone, Copy)]
struct Rows {
    v: V,
    axis: usize,
    reverse: bool,
}

/// A loop to be lowered.
struct Repeat<'m> {
    graph: &'m Graph,
    /// The most iterations, as a scalar (i64).
    trip: Option<V>,
    /// The most iterations, where they are known.
    count: Option<ExprId>,
    /// Whether to begin at all.
    cond: Option<V>,
    /// What is carried, at first.
    initial: Vec<Val>,
    /// What is read row by row.
    rows: Vec<Rows>,
    /// `Loop`: the body gets the number of the iteration and the condition, and gives the next condition.
    counts: bool,
}

/// What one iteration gives.
struct Turn {
    cond: Option<Val>,
    carried: Vec<Val>,
    stacked: Vec<V>,
}

pub(super) fn lower_loop<'m>(cx: &mut Cx<'m>, node: &'m Node) -> Lowered {
    let graph = node.graph("body")?;
    let trip = match cx.opt(node, 0)? {
        Some(v) => {
            let v = cx.b.cast(v, DType::I64)?;
            Some(cx.b.reshape(v, &[])?)
        }
        None => None,
    };
    let cond = match cx.opt(node, 1)? {
        Some(v) => Some(single_bool(cx, v)?),
        None => None,
    };
    let count = trip.and_then(|v| cx.b.known(v)).and_then(|k| k.first().copied());
    let initial = (2..node.inputs.len()).map(|i| cx.val(node, i)).collect::<Result<_, _>>()?;
    Repeat { graph, trip, count, cond, initial, rows: Vec::new(), counts: true }.lower(cx)
}

/// The flags or axes of a list attribute, with a default for each of `n`.
fn per_item(node: &Node, name: &str, n: usize) -> Result<Vec<i64>, Problem> {
    let list = node.ints_or(name, &[])?;
    if !list.is_empty() && list.len() != n {
        return Err(Problem::new(format!("{name} has {} entries, not {n}", list.len())));
    }
    Ok((0..n).map(|i| list.get(i).copied().unwrap_or(0)).collect())
}

pub(super) fn lower_scan<'m>(cx: &mut Cx<'m>, node: &'m Node) -> Lowered {
    let graph = node.graph("body")?;
    let scanned = usize::try_from(node.int("num_scan_inputs")?).unwrap_or(usize::MAX);
    let Some(states) = node.inputs.len().checked_sub(scanned) else {
        return Err(Problem::new(format!("{scanned} of {} inputs are scanned", node.inputs.len())));
    };
    let stacked = graph.outputs.len().saturating_sub(states);
    let axes = per_item(node, "scan_input_axes", scanned)?;
    let directions = per_item(node, "scan_input_directions", scanned)?;
    let mut rows = Vec::new();
    for (i, (axis, direction)) in axes.into_iter().zip(directions).enumerate() {
        let v = cx.input(node, states + i)?;
        rows.push(Rows { v, axis: cx.b.axis(axis, cx.b.rank(v))?, reverse: direction != 0 });
    }
    let initial = (0..states).map(|i| cx.val(node, i)).collect::<Result<_, _>>()?;
    let out_axes = per_item(node, "scan_output_axes", stacked)?;
    let out_directions = per_item(node, "scan_output_directions", stacked)?;
    let mut outputs = scan(cx, graph, initial, rows)?;
    for ((out, axis), direction) in outputs.iter_mut().skip(states).zip(out_axes).zip(out_directions) {
        if let Val::Tensor(v) = out {
            *out = unstack(cx, *v, axis, direction != 0)?.into();
        }
    }
    Ok(outputs)
}

/// Scans rows with these states: the last states, then what is stacked along axis 0.
fn scan<'m>(cx: &mut Cx<'m>, graph: &'m Graph, initial: Vec<Val>, rows: Vec<Rows>) -> Lowered {
    let Some(first) = rows.first() else { return Err(Problem::new("nothing to scan")) };
    let count = cx.b.dim(first.v, first.axis)?;
    for r in &rows {
        let d = cx.b.dim(r.v, r.axis)?;
        cx.b.require_equal(d, count, "scanned inputs have equally many rows")?;
    }
    let trip = cx.b.of_exprs(DType::I64, &[], &[count])?;
    Repeat { graph, trip: Some(trip), count: Some(count), cond: None, initial, rows, counts: false }.lower(cx)
}

/// Rows stacked along axis 0, put along another axis, the other way round if `reverse`.
fn unstack(cx: &mut Cx<'_>, v: V, axis: i64, reverse: bool) -> Result<V, Problem> {
    let (dims, rank) = (cx.b.dims(v), cx.b.rank(v));
    let mut v = v;
    if reverse && let Some(first) = dims.first() {
        let (zero, one) = (cx.b.int(0), cx.b.int(1));
        let last = cx.b.exprs().sub(*first, one);
        let (mut start, mut step) = (vec![zero; rank], vec![1; rank]);
        (start[0], step[0]) = (cx.b.exprs().max(last, zero), -1);
        v = cx.b.slice(v, &start, &step, &dims)?;
    }
    let axis = cx.b.axis(axis, rank)?;
    let mut perm: Vec<usize> = (1..rank).collect();
    perm.insert(axis, 0);
    cx.b.permute(v, &perm)
}

/// `Scan` of opset 8: every tensor has a batch axis, and each item of the batch is scanned by itself.
pub(super) fn lower_batched_scan<'m>(cx: &mut Cx<'m>, node: &'m Node) -> Lowered {
    let graph = node.graph("body")?;
    let scanned = usize::try_from(node.int("num_scan_inputs")?).unwrap_or(usize::MAX);
    let Some(states) = node.inputs.len().checked_sub(1).and_then(|n| n.checked_sub(scanned)) else {
        return Err(Problem::new(format!("{scanned} of {} inputs are scanned", node.inputs.len())));
    };
    let directions = per_item(node, "directions", scanned)?;
    let lengths = cx.opt_const_ints(node, 0)?;
    let inputs = (1..node.inputs.len()).map(|i| cx.input(node, i)).collect::<Result<Vec<V>, _>>()?;
    let batch = match inputs.first() {
        Some(v) => cx.b.dim(*v, 0)?,
        None => return Err(Problem::new("nothing to scan")),
    };
    let Some(batch) = cx.b.exprs().as_const(batch).filter(|b| *b <= MOST_TRIPS) else {
        return Err(Problem::new(format!("the batch of a Scan of opset 8 must be known, and at most {MOST_TRIPS}"))
            .with("give the batch dim a value, or convert the model to opset 9 or later"));
    };
    let (one, mut items) = (cx.b.int(1), vec![Vec::new(); graph.outputs.len()]);
    for b in 0..batch {
        let at = cx.b.int(b);
        let mut own = Vec::new();
        for v in &inputs {
            let part = cx.b.narrow(*v, 0, at, one)?;
            own.push(cx.b.squeeze(part, &[0])?);
        }
        let (own_states, own_rows) = own.split_at(states);
        let full = match own_rows.first() {
            Some(v) => cx.b.dim(*v, 0)?,
            None => return Err(Problem::new("nothing to scan")),
        };
        let length = lengths.as_ref().and_then(|l| l.get(b as usize)).map(|l| cx.b.int(*l));
        let mut rows = Vec::new();
        for (v, direction) in own_rows.iter().zip(&directions) {
            let zero = cx.b.int(0);
            let v = cx.b.narrow(*v, 0, zero, length.unwrap_or(full))?;
            rows.push(Rows { v, axis: 0, reverse: *direction != 0 });
        }
        let initial = own_states.iter().map(|v| Val::from(*v)).collect();
        for (i, (out, list)) in scan(cx, graph, initial, rows)?.into_iter().zip(&mut items).enumerate() {
            let Val::Tensor(v) = out else { return Ok(vec![Val::Poison; graph.outputs.len()]) };
            let v = match length {
                Some(length) if i >= states => lengthened(cx, v, length, full)?,
                _ => v,
            };
            list.push(cx.b.unsqueeze(v, &[0])?);
        }
    }
    items.into_iter().map(|list| cx.b.concat(&list, 0).map(Val::from)).collect()
}

/// Rows after the first `length` are zero.
fn lengthened(cx: &mut Cx<'_>, v: V, length: ExprId, full: ExprId) -> Result<V, Problem> {
    let zero = cx.b.int(0);
    let before = vec![zero; cx.b.rank(v)];
    let mut after = before.clone();
    if let Some(first) = after.first_mut() {
        *first = cx.b.exprs().sub(full, length);
    }
    padded(&mut cx.b, v, &before, &after, PadMode::Constant, None)
}

impl<'m> Repeat<'m> {
    fn lower(self, cx: &mut Cx<'m>) -> Lowered {
        let count = self.count.and_then(|c| cx.b.exprs().as_const(c));
        let begin = self.cond.map_or(Some(true), |c| decided(cx, c));
        if begin == Some(false) || count.is_some_and(|n| n <= 0) {
            return self.never(cx);
        }
        let (mark, problems) = (cx.b.mark(), cx.problems.len());
        let carries_lists = self.initial.iter().any(|v| !matches!(v, Val::Tensor(_)));
        let few = count.is_some_and(|n| n <= FEW_TRIPS && node_count(self.graph) * n as usize <= FEW_NODES);
        let open = self.trip.is_none() && begin == Some(true);
        if (few || carries_lists || open) && begin == Some(true) {
            let most = if open { FEW_TRIPS } else { MOST_TRIPS };
            if let Some(done) = self.unroll(cx, count, most)? {
                return Ok(done);
            }
            if carries_lists {
                return Err(Problem::new("sequences are carried through a loop whose iterations are not known")
                    .with("fix the model input that says how often the loop runs (`--fix INPUT=VALUE`)"));
            }
            cx.b.rollback(&mark);
            cx.problems.truncate(problems);
        }
        let looped = self.as_loop(cx);
        match (looped, count) {
            (Err(_), Some(n)) if n <= MOST_TRIPS && begin == Some(true) && !few => {}
            (looped, _) => return looped,
        }
        // What cannot be a loop may still be done one iteration after another.
        cx.b.rollback(&mark);
        cx.problems.truncate(problems);
        match self.unroll(cx, count, MOST_TRIPS)? {
            Some(done) => Ok(done),
            None => {
                cx.b.rollback(&mark);
                cx.problems.truncate(problems);
                self.as_loop(cx)
            }
        }
    }

    /// Lowers the body into the current block.
    fn turn(&self, cx: &mut Cx<'m>, index: ExprId, carried: Vec<Val>) -> Result<Option<Turn>, Problem> {
        let mut vals = Vec::new();
        if self.counts {
            let [number, cond, ..] = self.graph.inputs.as_slice() else {
                return Err(Problem::new("the body has no inputs for the iteration and the condition"));
            };
            let dims = ones(cx, number);
            vals.push(Val::from(cx.b.of_exprs(DType::I64, &dims, &[index])?));
            let (dims, yes) = (ones(cx, cond), cx.b.int(1));
            vals.push(Val::from(cx.b.of_exprs(DType::Bool, &dims, &[yes])?));
        }
        vals.extend(carried);
        for r in &self.rows {
            vals.push(self.row(cx, r, index)?.into());
        }
        if vals.len() != self.graph.inputs.len() {
            return Err(Problem::new(format!("{} values for the body's {}", vals.len(), self.graph.inputs.len())));
        }
        let names = self.graph.inputs.iter().map(|i| i.name.as_str());
        let results = cx.graph(self.graph, names.zip(vals).collect());
        if results.iter().any(|v| matches!(v, Val::Poison)) {
            return Ok(None);
        }
        let mut results = results.into_iter();
        let cond = if self.counts { results.next() } else { None };
        let carried: Vec<Val> = results.by_ref().take(self.initial.len()).collect();
        if carried.len() != self.initial.len() {
            return Err(Problem::new(format!("the body gives {} of {} values", carried.len(), self.initial.len())));
        }
        let mut stacked = Vec::new();
        for (i, val) in results.enumerate() {
            let Val::Tensor(v) = val else { return Err(Problem::new(format!("stacked result {i} is no tensor"))) };
            stacked.push(v);
        }
        Ok(Some(Turn { cond, carried, stacked }))
    }

    /// The row of this iteration.
    fn row(&self, cx: &mut Cx<'m>, r: &Rows, index: ExprId) -> Result<V, Problem> {
        let (extent, one) = (cx.b.dim(r.v, r.axis)?, cx.b.int(1));
        let at = if r.reverse {
            let last = cx.b.exprs().sub(extent, one);
            cx.b.exprs().sub(last, index)
        } else {
            index
        };
        let part = cx.b.narrow(r.v, r.axis, at, one)?;
        cx.b.drop_axes(part, &[r.axis], false)
    }

    fn poison(&self) -> Vec<Val> {
        vec![Val::Poison; self.graph.outputs.len() - usize::from(self.counts)]
    }

    /// No iteration: what is carried stays as it was, and nothing is stacked.
    fn never(&self, cx: &mut Cx<'m>) -> Lowered {
        let (mark, problems) = (cx.b.mark(), cx.problems.len());
        let zero = cx.b.int(0);
        let turn = self.in_block(cx, |this, cx| this.turn(cx, zero, this.initial.clone()));
        let forms = match turn {
            Ok((_, Some(turn))) => turn.stacked.iter().map(|v| (cx.b.dtype(*v), cx.b.dims(*v))).collect::<Vec<_>>(),
            Ok((_, None)) => return Ok(self.poison()),
            Err(p) => return Err(p),
        };
        cx.b.rollback(&mark);
        cx.problems.truncate(problems);
        let mut out = self.initial.clone();
        for (dtype, dims) in forms {
            let nothing = cx.b.scalar(dtype, 0.0)?;
            let dims = [&[zero], dims.as_slice()].concat();
            out.push(cx.b.broadcast(nothing, &dims)?.into());
        }
        Ok(out)
    }

    /// Runs `f` with a new block to put nodes into.
    fn in_block<T>(
        &self,
        cx: &mut Cx<'m>,
        f: impl FnOnce(&Self, &mut Cx<'m>) -> Result<T, Problem>,
    ) -> Result<(B, T), Problem> {
        let (block, outer) = cx.b.open_block();
        let done = f(self, cx);
        cx.b.close_block(Vec::new(), outer);
        Ok((block, done?))
    }

    /// The iterations one after another; none where it is not known when to stop, or only after more than `most`.
    fn unroll(&self, cx: &mut Cx<'m>, count: Option<i64>, most: i64) -> Result<Option<Vec<Val>>, Problem> {
        let (mut carried, mut stacks) = (self.initial.clone(), Vec::<Vec<V>>::new());
        let before = cx.b.graph.values.len();
        for i in 0.. {
            if count.is_some_and(|n| i >= n) {
                break;
            }
            if i >= most || cx.b.graph.values.len() - before > MOST_VALUES {
                return Ok(None);
            }
            let index = cx.b.int(i);
            let Some(turn) = self.turn(cx, index, carried)? else { return Ok(Some(self.poison())) };
            carried = turn.carried;
            stacks.resize(turn.stacked.len(), Vec::new());
            for (stack, v) in stacks.iter_mut().zip(turn.stacked) {
                stack.push(cx.b.unsqueeze(v, &[0])?);
            }
            match turn.cond {
                None => {}
                Some(Val::Tensor(cond)) => match decided(cx, cond) {
                    Some(true) => {}
                    Some(false) => break,
                    None if count == Some(i + 1) => break,
                    None => return Ok(None),
                },
                Some(_) => return Err(Problem::new("the body's condition is no tensor")),
            }
        }
        for stack in stacks {
            carried.push(cx.b.concat(&stack, 0)?.into());
        }
        Ok(Some(carried))
    }

    /// As a loop of the graph.
    fn as_loop(&self, cx: &mut Cx<'m>) -> Lowered {
        let zero = cx.b.int(0);
        let bound = self.count.map(|count| cx.b.exprs().max(count, zero));
        let bound = bound.filter(|bound| cx.b.exprs().maximum(*bound).is_some_and(|most| most < ENDLESS));
        let max_trips = bound.unwrap_or_else(|| cx.b.int(ENDLESS));
        let mut initial = Vec::new();
        for val in &self.initial {
            let Val::Tensor(v) = val else { return Err(Problem::new("what is carried is no tensor")) };
            initial.push(*v);
        }
        // What a body hands on unchanged is no different inside from outside: then it is read from there.
        let mut constant = vec![false; initial.len()];
        let mark = cx.b.mark();
        let first_symbol = cx.b.exprs().symbols().len();
        loop {
            let counter = cx.b.run_symbol(format!("iteration of {}", cx.b.origin), max_trips)?;
            let (block, made) = self.in_block(cx, |this, cx| this.loop_body(cx, counter, &initial, &constant))?;
            let Some(body) = made else { return Ok(self.poison()) };
            let stays: Vec<bool> = (0..initial.len())
                .map(|i| constant[i] || Some(&body.next[i]) == body.seen.get(i) || body.next[i] == initial[i])
                .collect();
            if stays != constant {
                constant = stays;
                cx.b.rollback(&mark);
                continue;
            }
            let part = Part {
                counter,
                block,
                max_trips,
                bounded: bound.is_some(),
                first_symbol,
                constant: &constant,
                initial: &initial,
            };
            return self.close(cx, part, body);
        }
    }

    fn loop_body(
        &self,
        cx: &mut Cx<'m>,
        counter: SymbolId,
        initial: &[V],
        constant: &[bool],
    ) -> Result<Option<Made>, Problem> {
        let mut seen = Vec::new();
        for (v, stays) in initial.iter().zip(constant) {
            let (dtype, dims) = (cx.b.dtype(*v), cx.b.dims(*v));
            seen.push(if *stays { *v } else { cx.b.carried(dtype, &dims)? });
        }
        let index = cx.b.exprs().of_symbol(counter);
        let Some(turn) = self.turn(cx, index, seen.iter().map(|v| Val::from(*v)).collect())? else { return Ok(None) };
        let mut next = Vec::new();
        for (i, (val, old)) in turn.carried.into_iter().zip(initial).enumerate() {
            let Val::Tensor(v) = val else { return Err(Problem::new(format!("carried value {i} is no tensor"))) };
            let (new_dims, old_dims) = (cx.b.dims(v), cx.b.dims(*old));
            if cx.b.dtype(v) != cx.b.dtype(*old) || new_dims.len() != old_dims.len() {
                return Err(changes(cx, i, *old, v));
            }
            for (a, b) in new_dims.into_iter().zip(old_dims) {
                if cx.b.exprs().never_equal(a, b) {
                    return Err(changes(cx, i, *old, v));
                }
                cx.b.require_equal(a, b, format!("carried value {i} keeps its dims"))?;
            }
            next.push(v);
        }
        let cond = match turn.cond {
            Some(Val::Tensor(v)) if decided(cx, v) != Some(true) => Some(single_bool(cx, v)?),
            Some(Val::Tensor(_)) | None => None,
            Some(_) => return Err(Problem::new("the body's condition is no tensor")),
        };
        Ok(Some(Made { seen, next, stacked: turn.stacked, cond }))
    }

    fn close(&self, cx: &mut Cx<'m>, part: Part<'_>, body: Made) -> Lowered {
        let has_cond = body.cond.is_some();
        if !part.bounded && !body.stacked.is_empty() {
            return Err(Problem::new(
                "nothing bounds how often the loop runs, so there is no telling how much room its stacked results need",
            )
            .with("fix the model input that says how often it runs (`--fix INPUT=VALUE`)"));
        }
        let cond = match (self.cond, has_cond) {
            (Some(c), _) if has_cond || decided(cx, c) != Some(true) => Some(c),
            (None, true) | (Some(_), true) => {
                let yes = cx.b.int(1);
                Some(cx.b.of_exprs(DType::Bool, &[], &[yes])?)
            }
            _ => None,
        };
        let rows = if cond.is_some() { cx.b.exprs().of_symbol(part.counter) } else { part.max_trips };
        let (mut reads, mut writes) = (vec![self.trip, cond], Vec::new());
        let (mut carried, mut results): (Vec<V>, Vec<V>) = (Vec::new(), body.cond.into_iter().collect());
        for (i, v) in part.initial.iter().enumerate().filter(|(i, _)| !part.constant[*i]) {
            reads.push(Some(*v));
            carried.push(body.seen[i]);
            results.push(body.next[i]);
            writes.push((cx.b.dtype(*v), cx.b.dims(*v)));
        }
        for v in &body.stacked {
            let dims = cx.b.dims(*v);
            let inner = |d: &ExprId| cx.b.graph.exprs.symbols_of(*d).iter().any(|s| s.index() >= part.first_symbol);
            if dims.iter().any(inner) {
                let rows = cx.b.describe(*v);
                return Err(Problem::new(format!("rows {rows} to be stacked differ from iteration to iteration")));
            }
            results.push(*v);
            writes.push((cx.b.dtype(*v), [&[rows], dims.as_slice()].concat()));
        }
        cx.b.graph.blocks[part.block.index()].results = results;
        let (counter, max_trips) = (part.counter, part.max_trips);
        let op = LoopOp { body: part.block, counter, carried, has_cond, max_trips };
        let mut outs = cx.b.control(Op::Loop(op), &reads, &writes)?.into_iter();
        let mut all = Vec::new();
        for (v, stays) in part.initial.iter().zip(part.constant) {
            all.push(Val::from(if *stays { *v } else { outs.next().unwrap_or(*v) }));
        }
        all.extend(outs.map(Val::from));
        Ok(all)
    }
}

/// A lowered body.
struct Made {
    seen: Vec<V>,
    next: Vec<V>,
    stacked: Vec<V>,
    cond: Option<V>,
}

/// The surroundings of a lowered body.
struct Part<'a> {
    counter: SymbolId,
    block: B,
    max_trips: ExprId,
    bounded: bool,
    first_symbol: usize,
    constant: &'a [bool],
    initial: &'a [V],
}

fn changes(cx: &Cx<'_>, i: usize, old: V, new: V) -> Problem {
    Problem::new(format!(
        "carried value {i} begins as {} and becomes {}, which needs a known number of iterations",
        cx.b.describe(old),
        cx.b.describe(new)
    ))
    .with("fix the model input that says how often the loop runs (`--fix INPUT=VALUE`)")
}

/// The dims of a single number as a body declares them: none, or ones.
fn ones(cx: &mut Cx<'_>, info: &ValueInfo) -> Vec<ExprId> {
    let one = cx.b.int(1);
    match &info.ty {
        Type::Tensor { dims: Some(dims), .. } if dims.iter().all(|d| *d == Dim::Known(1)) => vec![one; dims.len()],
        _ => Vec::new(),
    }
}

/// How many nodes a graph has, its bodies' included.
fn node_count(graph: &Graph) -> usize {
    let inner = |node: &Node| -> usize {
        node.attributes.iter().map(|(_, a)| if let Attribute::Graph(g) = a { node_count(g) } else { 0 }).sum()
    };
    graph.nodes.iter().map(|n| 1 + inner(n)).sum()
}

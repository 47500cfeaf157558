//! Control flow: `If`, and the operators that repeat a body.

use super::{Cx, Lowered, Operator, Val, repeat};
use crate::graph::{B, Op, Problem, V};
use crate::onnx::{Graph, Node};
use plan::{DType, ExprId, SymbolId};

/// These need the bodies' graphs, whose lifetime is the model's: see [`lower`].
pub(super) const OPERATORS: &[Operator] = &[];

/// Whether [`lower`] takes this operator.
pub(super) fn knows(operator: &str) -> bool {
    matches!(operator, "If" | "Loop" | "Scan" | "SequenceMap" | "ai.onnx.preview::FlexAttention")
}

/// Lowers a control-flow node; none for any other operator.
pub(super) fn lower<'m>(cx: &mut Cx<'m>, node: &'m Node) -> Option<Lowered> {
    match node.operator().as_str() {
        "If" => Some(lower_if(cx, node)),
        "Loop" => Some(repeat::lower_loop(cx, node)),
        "Scan" if node.opset < 9 => Some(repeat::lower_batched_scan(cx, node)),
        "Scan" => Some(repeat::lower_scan(cx, node)),
        "SequenceMap" => Some(sequence_map(cx, node)),
        "ai.onnx.preview::FlexAttention" => Some(super::attention::flex(cx, node)),
        _ => None,
    }
}

/// What a condition is for every value of the symbols, where that is one.
pub(super) fn decided(cx: &Cx<'_>, cond: V) -> Option<bool> {
    let known = cx.b.known(cond)?;
    let [one] = known.as_slice() else { return None };
    match (cx.b.graph.exprs.minimum(*one)?, cx.b.graph.exprs.maximum(*one)?) {
        (0, 0) => Some(false),
        (lo, hi) if lo > 0 || hi < 0 => Some(true),
        _ => None,
    }
}

fn lower_if<'m>(cx: &mut Cx<'m>, node: &'m Node) -> Lowered {
    let cond = cx.input(node, 0)?;
    let (yes, no) = (node.graph("then_branch")?, node.graph("else_branch")?);
    // A branch that is known to be taken stands in the place of the `If`.
    if let Some(known) = decided(cx, cond) {
        return Ok(cx.graph(if known { yes } else { no }, Vec::new()));
    }
    let cond = single_bool(cx, cond)?;
    let (then_block, then_results) = branch(cx, yes);
    let (else_block, else_results) = branch(cx, no);
    let (mut then_vs, mut else_vs, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    let mut join = Join { cond: cx.b.known(cond).and_then(|k| k.first().copied()), defines: Vec::new() };
    for (i, (t, e)) in then_results.iter().zip(&else_results).enumerate() {
        let (Val::Tensor(t), Val::Tensor(e)) = (t, e) else {
            if matches!((t, e), (Val::Poison, _) | (_, Val::Poison)) {
                return Ok(vec![Val::Poison; then_results.len()]);
            }
            return Err(Problem::new(format!(
                "result {i} of the branches is no tensor, and the data of a run chooses the branch"
            )));
        };
        writes.push((cx.b.dtype(*t), join.dims(cx, *t, *e, i)?));
        then_vs.push(*t);
        else_vs.push(*e);
    }
    let known: Vec<_> = then_vs.iter().zip(&else_vs).map(|(t, e)| join.known(cx, *t, *e)).collect();
    let owned = |pick: fn(&(SymbolId, ExprId, ExprId)) -> (SymbolId, ExprId)| join.defines.iter().map(pick).collect();
    let (then_defines, else_defines) = (owned(|d| (d.0, d.1)), owned(|d| (d.0, d.2)));
    for (block, results, defines) in [(then_block, then_vs, then_defines), (else_block, else_vs, else_defines)] {
        let block = &mut cx.b.graph.blocks[block.index()];
        (block.results, block.defines) = (results, defines);
    }
    let outs = cx.b.control(Op::If { then_block, else_block }, &[Some(cond)], &writes)?;
    for (v, known) in outs.iter().zip(known) {
        cx.b.graph.values[v.index()].known = known.map(Into::into);
    }
    Ok(outs.into_iter().map(Val::from).collect())
}

fn branch<'m>(cx: &mut Cx<'m>, graph: &'m Graph) -> (B, Vec<Val>) {
    let (block, outer) = cx.b.open_block();
    let results = cx.graph(graph, Vec::new());
    cx.b.close_block(Vec::new(), outer);
    (block, results)
}

pub(super) fn single_bool(cx: &mut Cx<'_>, v: V) -> Result<V, Problem> {
    if cx.b.dtype(v) != DType::Bool {
        return Err(Problem::new(format!("a condition must be boolean, not {}", cx.b.describe(v))));
    }
    let one = cx.b.int(1);
    let count = cx.b.count(v);
    cx.b.require_equal(count, one, "a condition has one element")?;
    cx.b.reshape(v, &[])
}

/// Two branches whose results become one.
struct Join {
    /// The condition, where it is an expression of the symbols.
    cond: Option<ExprId>,
    /// Extents that the branch taken defines: the symbol, and its value in either branch.
    defines: Vec<(SymbolId, ExprId, ExprId)>,
}

impl Join {
    /// The dims of a result of both branches. An extent that differs is an expression of the condition, or a symbol.
    fn dims(&mut self, cx: &mut Cx<'_>, t: V, e: V, i: usize) -> Result<Vec<ExprId>, Problem> {
        let (dt, de) = (cx.b.dims(t), cx.b.dims(e));
        if cx.b.dtype(t) != cx.b.dtype(e) || dt.len() != de.len() {
            return Err(Problem::new(format!(
                "result {i} is {} in one branch and {} in the other, and {} chooses the branch",
                cx.b.describe(t),
                cx.b.describe(e),
                if self.cond.is_some() { "an extent with a range" } else { "the data of a run" }
            ))
            .with("fix what the condition depends on, or export the model with results of one rank and type"));
        }
        let mut dims = Vec::new();
        for (axis, (a, b)) in dt.iter().zip(&de).enumerate() {
            dims.push(if cx.b.exprs().always_equal(*a, *b) {
                *a
            } else if let Some(cond) = self.cond {
                cx.b.exprs().select(cond, *a, *b)
            } else if let Some((symbol, ..)) = self.defines.iter().find(|d| (d.1, d.2) == (*a, *b)) {
                let symbol = *symbol;
                cx.b.exprs().of_symbol(symbol)
            } else {
                let bound = cx.b.exprs().max(*a, *b);
                let name = format!("axis {axis} of result {i} of {}", cx.b.origin);
                let symbol = cx.b.run_symbol(name, bound)?;
                self.defines.push((symbol, *a, *b));
                cx.b.exprs().of_symbol(symbol)
            });
        }
        Ok(dims)
    }

    /// The elements of a result of both branches, where they are expressions.
    fn known(&self, cx: &mut Cx<'_>, t: V, e: V) -> Option<Vec<ExprId>> {
        let (kt, ke) = (cx.b.known(t)?, cx.b.known(e)?);
        if kt == ke {
            return Some(kt);
        }
        let cond = self.cond.filter(|_| kt.len() == ke.len())?;
        Some(kt.into_iter().zip(ke).map(|(a, b)| cx.b.exprs().select(cond, a, b)).collect())
    }
}

/// Lowers the body once for each element of the sequences.
fn sequence_map<'m>(cx: &mut Cx<'m>, node: &'m Node) -> Lowered {
    let graph = node.graph("body")?;
    let Val::Sequence(first) = cx.val(node, 0)? else { return Err(Problem::new("input 0 is no sequence")) };
    let mut outputs = vec![Vec::new(); graph.outputs.len()];
    for i in 0..first.len() {
        let mut bound = Vec::new();
        for (k, input) in graph.inputs.iter().enumerate() {
            let val = match cx.val(node, k)? {
                Val::Sequence(items) => items.get(i).cloned().ok_or_else(|| {
                    Problem::new(format!("input {k} is a sequence of {}, input 0 one of {}", items.len(), first.len()))
                })?,
                other => other,
            };
            bound.push((input.name.as_str(), val));
        }
        for (list, result) in outputs.iter_mut().zip(cx.graph(graph, bound)) {
            list.push(result);
        }
    }
    let broken = outputs.iter().flatten().any(|v| matches!(v, Val::Poison));
    Ok(outputs.into_iter().map(|list| if broken { Val::Poison } else { Val::Sequence(list) }).collect())
}

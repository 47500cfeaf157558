//! Control flow: `If`, `Loop`, `Scan`.

use super::{Cx, Lowered, Operator, Val};
use crate::graph::{Op, Problem, V};
use crate::onnx::{Graph, Node};
use plan::{DType, ExprId};

/// These need the bodies' graphs, whose lifetime is the model's: see [`lower`].
pub(super) const OPERATORS: &[Operator] = &[];

/// Lowers a control-flow node; none for any other operator.
pub(super) fn lower<'m>(cx: &mut Cx<'m>, node: &'m Node) -> Option<Lowered> {
    match node.operator().as_str() {
        "If" => Some(lower_if(cx, node)),
        _ => None,
    }
}

fn lower_if<'m>(cx: &mut Cx<'m>, node: &'m Node) -> Lowered {
    let cond = cx.input(node, 0)?;
    let (yes, no) = (node.graph("then_branch")?, node.graph("else_branch")?);
    // A branch that is known to be taken stands in the place of the `If`.
    if let Some([known]) = cx.b.known_ints(cond).as_deref() {
        return Ok(cx.graph(if *known != 0 { yes } else { no }, Vec::new()));
    }
    let cond = single_bool(cx, cond)?;
    let (then_block, then_results, outer) = branch(cx, yes);
    cx.b.close_block(Vec::new(), outer);
    let (else_block, else_results, outer) = branch(cx, no);
    cx.b.close_block(Vec::new(), outer);
    let (mut then_vs, mut else_vs, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    for (i, (t, e)) in then_results.iter().zip(&else_results).enumerate() {
        let (Val::Tensor(t), Val::Tensor(e)) = (t, e) else {
            if matches!((t, e), (Val::Poison, _) | (_, Val::Poison)) {
                return Ok(vec![Val::Poison; then_results.len()]);
            }
            return Err(Problem::new(format!("result {i} of the branches is no tensor")));
        };
        writes.push((cx.b.dtype(*t), joined_dims(cx, *t, *e, i)?));
        then_vs.push(*t);
        else_vs.push(*e);
    }
    cx.b.graph.blocks[then_block.index()].results = then_vs;
    cx.b.graph.blocks[else_block.index()].results = else_vs;
    let outs = cx.b.control(Op::If { then_block, else_block }, &[Some(cond)], &writes)?;
    Ok(outs.into_iter().map(Val::from).collect())
}

fn branch<'m>(cx: &mut Cx<'m>, graph: &'m Graph) -> (crate::graph::B, Vec<Val>, crate::graph::B) {
    let (block, outer) = cx.b.open_block();
    let results = cx.graph(graph, Vec::new());
    (block, results, outer)
}

fn single_bool(cx: &mut Cx<'_>, v: V) -> Result<V, Problem> {
    if cx.b.dtype(v) != DType::Bool {
        return Err(Problem::new(format!("a condition must be boolean, not {}", cx.b.describe(v))));
    }
    let one = cx.b.int(1);
    let count = cx.b.count(v);
    cx.b.require_equal(count, one, "a condition has one element")?;
    cx.b.reshape(v, &[])
}

/// The dims of a result of both branches. Extents that differ are not supported yet where only the run can tell the branch.
fn joined_dims(cx: &mut Cx<'_>, t: V, e: V, i: usize) -> Result<Vec<ExprId>, Problem> {
    let (dt, de) = (cx.b.dims(t), cx.b.dims(e));
    if cx.b.dtype(t) != cx.b.dtype(e) || dt.len() != de.len() {
        return Err(Problem::new(format!(
            "result {i} is {} or {}, depending on the data of a run",
            cx.b.describe(t),
            cx.b.describe(e)
        )));
    }
    let mut dims = Vec::new();
    for (a, b) in dt.iter().zip(&de) {
        if a == b {
            dims.push(*a);
            continue;
        }
        return Err(Problem::new(format!(
            "result {i} has dims {} or {}, depending on the data of a run",
            cx.b.graph.exprs.display_dims(&dt),
            cx.b.graph.exprs.display_dims(&de)
        )));
    }
    Ok(dims)
}

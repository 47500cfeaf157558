//! Workspace is reserved for every node before anything is rewritten: as much as the node's kernel may need over the whole range,
//! whichever of the ways to store its weights a later rewrite takes. What the scheduler declares at last is compared with it.

use super::{Changed, Context, prepack};
use crate::graph::{Graph, N, Op};
use crate::workspace::{Bound, Operand, Sizer};
use plan::{Axes, ExprId, Primitive, prim::*};

pub(super) fn run(graph: &mut Graph, _: &mut Context) -> Changed {
    let mut sizer = Sizer::default();
    for n in graph.live_nodes() {
        let Op::Prim(prim) = graph.node(n).op else { continue };
        if kernels::uses_workspace(&prim) {
            let bound = over_routes(graph, n, &prim, &mut sizer);
            graph.reserve(n, bound);
        }
    }
    Changed::No
}

/// What the node needs at most by any of the routes.
fn over_routes(graph: &mut Graph, n: N, prim: &Primitive<ExprId>, sizer: &mut Sizer) -> Bound {
    let operands = |graph: &Graph, list: &[Option<crate::graph::V>]| -> Vec<Option<Operand>> {
        list.iter().map(|v| v.map(|v| (graph.value(v).dtype, graph.value(v).dims))).collect()
    };
    let (reads, writes) = (operands(graph, &graph.node(n).reads), operands(graph, &graph.node(n).writes));
    let own = sizer.bound(&graph.exprs, prim, &reads, &writes);
    match packed(graph, n, prim, reads) {
        Some((prim, reads)) => own.max(sizer.bound(&graph.exprs, &prim, &reads, &writes)),
        None => own,
    }
}

/// The node as it will be if its weights are packed.
fn packed(
    graph: &mut Graph,
    n: N,
    prim: &Primitive<ExprId>,
    mut reads: Vec<Option<Operand>>,
) -> Option<(Primitive<ExprId>, Vec<Option<Operand>>)> {
    let prim = match prim {
        Primitive::MatMul(m) => {
            prepack::constant_matrix(graph, n)?;
            MatMul { b: MatLayout::Panels16, ..*m }.into()
        }
        Primitive::Rnn(r) => {
            prepack::recurrent_weights(graph, n)?;
            Rnn { weights: RnnLayout::Panels16, ..*r }.into()
        }
        Primitive::Conv(c) => {
            let (weights, _, dims) = prepack::conv_weights(graph, n, c)?;
            let dims: Vec<ExprId> = dims.into_iter().map(|d| graph.exprs.int(d)).collect();
            reads.get_mut(1)?.as_mut()?.1 = Axes::from_slice(&dims)?;
            Conv { weights, ..*c }.into()
        }
        _ => return None,
    };
    Some((prim, reads))
}

//! Reservations through rewrites, and the comparison at the end.

use crate::graph::{Builder, Graph, N, Op, Port, V};
use crate::ops::nets::{constant, floats, graph, node, of_floats};
use crate::schedule::schedule;
use crate::workspace::{Bound, Count, Counts, Declared, compare};
use crate::{ErrorKind, Options, onnx, passes};
use plan::{DType, prim::*};

/// Bytes for a product of 4 rows of 32 terms with 8 columns: 4 rows of 32 + 16 numbers, and 32 terms of a panel of 16 columns.
const PRODUCT: u64 = (4 * 48 + 32 * 16) * 4;

/// A product of two inputs.
fn product(b: &mut Builder, name: &str) -> V {
    let [four, k, n] = [4, 32, 8].map(|d| b.int(d));
    b.origin = name.to_owned();
    let x = b.input(&format!("{name}_x"), DType::F32, &[four, k]).unwrap();
    let w = b.input(&format!("{name}_w"), DType::F32, &[k, n]).unwrap();
    let prim = MatMul { activation: Activation::IDENTITY, b: MatLayout::Plain };
    b.emit1(prim, &[Some(x), Some(w)], DType::F32, &[four, n]).unwrap()
}

fn output(b: &mut Builder, v: V) {
    b.graph.outputs.push(Port { name: format!("out{}", v.0), value: v });
}

/// The nodes that run, by what was reserved for them.
fn reserved(graph: &Graph) -> Vec<(String, Option<Bound>)> {
    graph.live_nodes().into_iter().map(|n| (graph.node(n).name.clone(), graph.node(n).reserved.clone())).collect()
}

/// Row I6. Where a product takes in what follows it, one node is left, with the product's reservation; a node that nothing uses gives
/// its own back; the declarations are what was reserved.
#[test]
fn reservations_follow_their_nodes() {
    let mut b = Builder::new("test");
    let made = product(&mut b, "kept");
    let relu = b.unary(MapOp::Relu, made).unwrap();
    output(&mut b, relu);
    product(&mut b, "unused");
    let mut graph = b.graph;
    passes::run(&mut graph, &mut passes::Context::default()).unwrap();
    assert_eq!(reserved(&graph), [("kept".to_owned(), Some(Bound::Known(PRODUCT)))]);
    let workspace = schedule(&mut graph, 64).map_err(|p| p.what).unwrap().workspace;
    let equal = Count { nodes: 1, bytes: PRODUCT };
    assert_eq!(workspace.counts, Counts { equal, ..Counts::default() });
    assert!(workspace.findings.is_empty(), "{:?}", workspace.findings);
}

/// Row I6. A node that does the work of two has room for both; what one leaves to another is its own no more.
#[test]
fn reservations_merge_and_move() {
    let mut b = Builder::new("test");
    let made = [product(&mut b, "first"), product(&mut b, "second"), product(&mut b, "third")];
    made.into_iter().for_each(|v| output(&mut b, v));
    let mut graph = b.graph;
    let nodes: Vec<N> = made.iter().map(|v| graph.producer_of(*v).unwrap().0).collect();
    for n in &nodes {
        graph.reserve(*n, Bound::Known(PRODUCT));
    }
    let (op, reads) = (graph.node(nodes[1]).op.clone(), graph.node(nodes[1]).reads.clone());
    graph.replace(nodes[1], op, reads, &[nodes[0], nodes[1]]);
    let of = |graph: &Graph| nodes.iter().map(|n| graph.node(*n).reserved.clone()).collect::<Vec<_>>();
    let known = |n: u64| Some(Bound::Known(n));
    assert_eq!(of(&graph), [None, known(2 * PRODUCT), known(PRODUCT)]);
    graph.succeed(nodes[1], nodes[0]);
    assert_eq!(of(&graph), [known(2 * PRODUCT), None, known(PRODUCT)]);
    graph.retire(nodes[2]);
    assert_eq!(of(&graph), [known(2 * PRODUCT), None, None]);
}

/// Row I6. A branch that does not run leaves no reservation behind.
#[test]
fn a_branch_that_is_dropped() {
    let (mut b, cond) = (Builder::new("test"), "cond");
    let cond = b.input(cond, DType::Bool, &[]).unwrap();
    let mut blocks = Vec::new();
    let mut made = Vec::new();
    for name in ["yes", "no"] {
        let (block, outer) = b.open_block();
        let v = product(&mut b, name);
        made.push(b.graph.producer_of(v).unwrap().0);
        b.close_block(vec![v], outer);
        blocks.push(block);
    }
    let [four, n] = [4, 8].map(|d| b.int(d));
    let op = Op::If { then_block: blocks[0], else_block: blocks[1] };
    let chosen = b.control(op, &[Some(cond)], &[(DType::F32, vec![four, n])]).unwrap()[0];
    let kept = product(&mut b, "kept");
    output(&mut b, kept);
    let mut graph = b.graph;
    assert_eq!(passes::PASSES[0].name, "reserve");
    (passes::PASSES[0].run)(&mut graph, &mut passes::Context::default());
    assert!(made.iter().all(|n| graph.node(*n).reserved == Some(Bound::Known(PRODUCT))), "inside branches, too");
    passes::run(&mut graph, &mut passes::Context::default()).unwrap();
    assert!(graph.producer_of(chosen).is_some_and(|(n, _)| !graph.live_nodes().contains(&n)));
    let workspace = schedule(&mut graph, 64).map_err(|p| p.what).unwrap().workspace;
    assert_eq!(workspace.counts.orphan, Count::default(), "{:?}", workspace.findings);
}

/// Row I6. Each way in which a declaration and a reservation can differ is counted, with its bytes.
#[test]
fn differences_are_counted() {
    let mut b = Builder::new("test");
    let names = ["larger", "equal", "smaller", "undeclared", "unreserved", "unknown", "nothing"];
    let made = names.map(|name| product(&mut b, name));
    made.into_iter().for_each(|v| output(&mut b, v));
    let gone = product(&mut b, "gone");
    let mut graph = b.graph;
    let of = |graph: &Graph, v: V| graph.producer_of(v).unwrap().0;
    let nodes = made.map(|v| of(&graph, v));
    let gone = of(&graph, gone);
    graph.blocks[0].nodes.retain(|n| *n != gone);
    for (n, bytes) in nodes.into_iter().zip([100, 200, 300, 400]).chain([(gone, 70)]) {
        graph.reserve(n, Bound::Known(bytes));
    }
    graph.reserve(nodes[5], Bound::Unavailable("no estimate".to_owned()));
    graph.reserve(nodes[6], Bound::Known(0));
    let declared = [(0, 150), (1, 200), (2, 270), (4, 9), (5, 11), (6, 0)];
    let declared =
        declared.map(|(i, n): (usize, u64)| Declared { node: nodes[i], primitive: "MatMul", bound: Bound::Known(n) });
    let found = compare(&graph, &declared);
    let count = |nodes: u64, bytes: u64| Count { nodes, bytes };
    let (larger, equal, smaller) = (count(1, 50), count(1, 200), count(1, 30));
    assert_eq!(found.counts, Counts { larger, equal, smaller, missing: count(3, 420), orphan: count(1, 70) });
    assert_eq!(
        found.findings,
        [
            "larger (MatMul): declares a workspace of 150 bytes, but 100 are reserved",
            "undeclared (a node): workspace is reserved, but its kernel declares none",
            "unreserved (MatMul): declares a workspace of 9 bytes, but none is reserved",
            "unknown (MatMul): declares a workspace of 11 bytes, but what to reserve is not known: no estimate",
            "gone: workspace of 70 bytes is reserved, but the node does not run",
        ]
    );
}

/// A model of one product of two inputs, lowered.
fn lowered() -> Graph {
    let product = node("MatMul", &["x", "w"], &["y"], &[]);
    let graph = graph(vec![floats("x", "4 32"), floats("w", "32 8")], vec![], vec![product], &["y"]);
    let model = onnx::Model { ir_version: 10, opsets: [(String::new(), 21)].into(), graph, ..Default::default() };
    crate::lower(model, &Options::default()).unwrap().0
}

/// Plans a product for which this was reserved.
fn planned(bound: Bound, strict_workspace: bool) -> Result<Vec<String>, crate::Error> {
    let mut graph = lowered();
    graph.live_nodes().into_iter().for_each(|n| graph.reserve(n, bound.clone()));
    let options = Options { strict_workspace, ..Options::default() };
    crate::finish(graph, &options, &mut Vec::new(), Vec::new()).map(|planned| planned.warnings)
}

/// Rows F3 and I6. Under strict verification a declaration that is larger than its reservation, or one of which nobody knew what to
/// reserve, fails the build by the node's name; else it is warned of, once. An explicit zero is known.
#[test]
fn strict_verification() {
    assert_eq!(planned(Bound::Known(PRODUCT), true).unwrap(), Vec::<String>::new());
    assert_eq!(planned(Bound::Known(PRODUCT + 1), true).unwrap(), Vec::<String>::new());
    let unknown = Bound::Unavailable("no estimate".to_owned());
    for bound in [Bound::Known(PRODUCT - 1), Bound::Known(0), unknown] {
        let error = planned(bound.clone(), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Workspace);
        let text = error.to_string();
        assert!(text.contains("MatMul") && text.contains(&PRODUCT.to_string()), "{text}");
        let warnings = planned(bound, false).unwrap();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(text.starts_with(&warnings[0]), "{text}");
    }
}

/// Row I7. Weights are packed while planning: two products that share a matrix of 100 bytes have it once, in panels of 320 bytes, and
/// the matrix itself stays out of the weights file. The build holds both, a run neither; nothing is packed when a model is loaded.
#[test]
fn weights_are_packed_while_planning() {
    let products = ["a", "b"].map(|y| node("MatMul", &[&format!("{y}_in"), "w"], &[y], &[]));
    let w = of_floats("w", &[5, 5], &(0..25).map(|i| i as f32).collect::<Vec<_>>());
    let inputs = vec![floats("a_in", "3 5"), floats("b_in", "3 5")];
    let graph = graph(inputs, vec![w, constant("unused", &[2], &[1, 2])], products.to_vec(), &["a", "b"]);
    let model = onnx::Model { ir_version: 10, opsets: [(String::new(), 21)].into(), graph, ..Default::default() };
    let (graph, ..) = crate::lower(model, &Options::default()).unwrap();
    assert_eq!((graph.given_bytes - 16, graph.folded_bytes), (100, 320), "the build's peak is their sum");
    let plan = crate::finish(graph, &Options::default(), &mut Vec::new(), Vec::new()).unwrap();
    assert_eq!(plan.plan.weight_bytes, 320);
    assert_eq!(plan.weights.pieces.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(), 320);
    let in_arena = |class| plan.plan.buffers.iter().filter(|b| b.class == class).map(|b| b.max_bytes).sum::<u64>();
    let prepacks = plan.plan.blocks[0].steps.iter().filter(|s| format!("{:?}", s.action).contains("Prepack"));
    assert_eq!(prepacks.count(), 0);
    assert!(plan.plan.arena_bytes <= 2 * 64 + in_arena(plan::Class::Work).next_multiple_of(64));
}

//! Versions, names and order.

use super::super::fields::{
    attribute as attr, graph as graph_field, model as model_field, node as node_field, tensor as field,
};
use super::super::{ErrorKind, Model, read_bytes};
use super::encode::{Msg, attribute, graph, info, model, node, opset, tensor, with};
use super::{has, read_model, refusal};

fn ops(model: &Model) -> Vec<&str> {
    model.graph.nodes.iter().map(|node| node.op_type.as_str()).collect()
}

#[test]
fn versions_outside_the_range() {
    let versions = |ir: i64, version: i64| {
        Msg::default()
            .int(model_field::IR_VERSION, ir)
            .msg(model_field::OPSET_IMPORT, opset("ai.onnx", version))
            .msg(model_field::GRAPH, graph(vec![node("Relu", &["x"], &["y"])], &["x"], &["y"]))
    };
    for (ir, version) in [(3, 7), (14, 28)] {
        let model = read_model(&versions(ir, version).0).unwrap();
        assert_eq!((model.ir_version, model.opsets[""]), (ir, version));
        assert_eq!(model.graph.nodes[0].opset, version);
    }
    for (ir, version, said) in [(2, 7, "3 to 14"), (15, 7, "3 to 14"), (3, 5, "6 to 28"), (3, 29, "6 to 28")] {
        let error = read_model(&versions(ir, version).0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        has(&error.to_string(), &[said]);
    }
    let both = read_model(&versions(2, 5).0).unwrap_err();
    assert_eq!(both.problems().len(), 2);
    has(&both.to_string(), &["2 problems: (1) IR version 2", "; (2) opset 5"]);
}

#[test]
fn what_is_no_model() {
    has(&refusal(&[]), &["empty"]);
    has(&refusal(b"<html>not a model</html>"), &["ModelProto"]);
    has(&refusal(&Msg::default().int(model_field::IR_VERSION, 8).0), &["no graph"]);
    has(&refusal(&Msg::default().msg(model_field::GRAPH, graph(vec![], &[], &[])).0), &["no IR version"]);
    has(&refusal(&model(graph(vec![], &[], &[])).msg(model_field::GRAPH, Msg::default()).0), &["two graphs"]);
    let text = Msg::default().bytes(node_field::OP_TYPE, b"\xff");
    has(&refusal(&model(graph(vec![text], &[], &[])).0), &["field 4 of NodeProto", "UTF-8"]);
}

#[test]
fn every_missing_import_is_reported() {
    let custom = |name: &str| node("Foo", &["x"], &[name]).text(node_field::DOMAIN, "com.x");
    let text = refusal(&model(graph(vec![custom("y"), custom("z")], &["x"], &["y"])).0);
    has(
        &text,
        &["2 problems", "com.x::Foo that makes `y`", "com.x::Foo that makes `z`", "imports no opset of `com.x`"],
    );
    has(&refusal(&model(graph(vec![node("", &["x"], &["y"])], &["x"], &["y"])).0), &["without an operator", "`y`"]);
}

/// Row K5.
#[test]
fn nodes_are_put_in_the_order_that_the_outputs_ask_for() {
    let mut nodes = vec![
        node("C", &["b"], &["c"]),
        node("D", &["x"], &["d"]),
        node("B", &["a"], &["b"]),
        node("F", &["d"], &[]),
        node("A", &["x"], &["a"]),
        node("G", &["c", "a"], &["g"]),
        node("E", &["", "c", "a"], &["e", ""]),
    ];
    // Whatever the file's order. D and F are of no use to any output.
    for _ in 0..nodes.len() {
        nodes.rotate_left(3);
        nodes.swap(0, 1);
        let model = read_model(&model(graph(nodes.clone(), &["x"], &["e", "g"])).0).unwrap();
        assert_eq!(ops(&model), ["A", "B", "C", "E", "G", "D", "F"]);
    }
}

#[test]
fn bodies_count_for_the_order() {
    let body = graph(vec![node("Neg", &["late"], &["r"])], &[], &["r"]);
    let outer = with(node("If", &["x"], &["y"]), attribute("then_branch", 5).msg(attr::GRAPH, body));
    let nodes = vec![outer, node("Abs", &["x"], &["late"])];
    let model = read_model(&model(graph(nodes, &["x"], &["y"])).0).unwrap();
    assert_eq!(ops(&model), ["Abs", "If"]);
}

#[test]
fn a_cycle_is_named() {
    let nodes = vec![
        node("Start", &["x"], &["s"]),
        node("A", &["s", "c"], &["a"]),
        node("B", &["a"], &["b"]),
        node("C", &["b"], &["c"]),
        node("After", &["c"], &["y"]),
    ];
    let text = refusal(&model(graph(nodes, &["x"], &["y"])).0);
    has(&text, &["nodes form a cycle", "A that makes `a` → B that makes `b` → C that makes `c` → A"]);
    assert!(!text.contains("After") && !text.contains("Start"));
    has(&refusal(&model(graph(vec![node("A", &["y"], &["y"])], &[], &["y"])).0), &["cycle: A", "→ A"]);
}

#[test]
fn names_that_clash_or_are_missing() {
    let two = vec![node("A", &["x"], &["y"]), node("B", &["x"], &["y"])];
    has(&refusal(&model(graph(two, &["x"], &["y"])).0), &["B that makes `y`", "defined twice"]);
    let input = vec![node("A", &["x"], &["x"])];
    has(&refusal(&model(graph(input, &["x"], &["x"])).0), &["`x` is defined twice"]);
    has(&refusal(&model(graph(vec![], &["x", "x"], &["x"])).0), &["`x` is defined twice among inputs"]);
    let missing = vec![node("A", &["p"], &["y"]), node("B", &["q"], &["z"])];
    let text = refusal(&model(graph(missing, &[], &["y", "gone"])).0);
    has(
        &text,
        &[
            "3 problems",
            "A that makes `y`: `p` is used",
            "B that makes `z`: `q`",
            "`gone` is used but nothing makes it",
        ],
    );
    let body = graph(vec![node("Neg", &["nowhere"], &["r"])], &[], &["r"]);
    let outer = with(node("If", &["x"], &["y"]), attribute("then_branch", 5).msg(attr::GRAPH, body));
    let text = refusal(&model(graph(vec![outer], &["x"], &["y"])).0);
    has(&text, &["in If that makes `y`: Neg that makes `r`", "`nowhere`"]);
}

#[test]
fn initializers_are_no_inputs() {
    let weight = || tensor("w", 1, &[1]).bytes(field::RAW_DATA, &[0; 4]);
    let nodes = vec![node("Add", &["x", "w"], &["y"])];
    let graph_message = graph(nodes, &["x", "w"], &["y"]);
    let once = graph_message.clone().msg(graph_field::INITIALIZER, weight());
    let model_read = read_model(&model(once.clone()).0).unwrap();
    let inputs: Vec<&str> = model_read.graph.inputs.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(inputs, ["x"]);
    let twice = once.msg(graph_field::INITIALIZER, weight());
    has(&refusal(&model(twice).0), &["`w` is defined twice among inputs and initializers"]);
}

#[test]
fn messages_stay_in_one_short_line() {
    let long = "very\n".repeat(1000);
    let graph = graph(vec![node("A", &[&long], &["y"])], &[], &["y"]);
    let text = refusal(&model(graph).0);
    assert!(!text.contains('\n') && text.len() < 400, "{text}");
}

#[test]
fn notes_are_kept() {
    let entry = Msg::default().text(1, "author").bytes(2, b"x\xff");
    let message = model(graph(vec![], &[], &[]).msg(graph_field::VALUE_INFO, info("v", &["2"])))
        .text(model_field::PRODUCER_NAME, "maker")
        .text(model_field::PRODUCER_VERSION, "1.2")
        .msg(model_field::METADATA, entry);
    let model = read_bytes(message.0.into(), None).unwrap();
    assert_eq!(model.producer, "maker 1.2");
    assert_eq!(model.metadata, [("author".to_owned(), "x\u{fffd}".to_owned())]);
    assert_eq!(model.graph.value_infos.len(), 1);
}

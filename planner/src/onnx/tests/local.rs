//! Local functions and their expansion.

use super::super::fields::{attribute as attr, function as function_field, model as model_field, node as node_field};
use super::super::{Error, Graph, Model, Node, inline_functions};
use super::encode::{Msg, attribute, graph, model, node, opset, reference, with};
use super::{has, read_model, refusal};

fn function(name: &str, inputs: &[&str], outputs: &[&str], nodes: Vec<Msg>) -> Msg {
    let mut message = Msg::default()
        .text(function_field::NAME, name)
        .text(function_field::DOMAIN, "local")
        .msg(function_field::OPSET_IMPORT, opset("", 18));
    for input in inputs {
        message = message.text(function_field::INPUT, input);
    }
    for output in outputs {
        message = message.text(function_field::OUTPUT, output);
    }
    nodes.into_iter().fold(message, |message, node| message.msg(function_field::NODE, node))
}

fn call(name: &str, inputs: &[&str], outputs: &[&str]) -> Msg {
    node(name, inputs, outputs).text(node_field::DOMAIN, "local")
}

fn with_functions(graph: Msg, functions: Vec<Msg>) -> Msg {
    functions.into_iter().fold(model(graph), |model, f| model.msg(model_field::FUNCTIONS, f))
}

fn inlined(graph: Msg, functions: Vec<Msg>) -> Result<Model, Error> {
    read_model(&with_functions(graph, functions).0).and_then(inline_functions)
}

fn shown(node: &Node) -> String {
    format!("{} = {}({})", node.outputs.join(", "), node.op_type, node.inputs.join(", "))
}

fn listing(graph: &Graph) -> Vec<String> {
    graph.nodes.iter().map(shown).collect()
}

#[test]
fn bodies_replace_calls() {
    let body = vec![node("Mul", &["t", "a"], &["r"]), node("Add", &["a", "b"], &["t"])];
    let f = function("F", &["a", "b"], &["r", "t"], body);
    let nodes = vec![
        call("F", &["x", "w"], &["y"]).text(node_field::NAME, "first"),
        call("F", &["y"], &["z", "u"]).text(node_field::NAME, "first"),
        node("Neg", &["u"], &["first.2/t"]),
    ];
    let read = read_model(&with_functions(graph(nodes, &["x", "w"], &["z"]), vec![f]).0).unwrap();
    assert_eq!(read.function("local", "F", "").unwrap().inputs, ["a", "b"]);
    let model = inline_functions(read).unwrap();
    assert_eq!(
        listing(&model.graph),
        ["first/t = Add(x, w)", "y = Mul(first/t, x)", "u = Add(y, )", "z = Mul(u, y)", "first.2/t = Neg(u)",]
    );
    assert!(model.functions.is_empty());
    // The function's own import holds for its nodes.
    let opsets: Vec<i64> = model.graph.nodes.iter().map(|node| node.opset).collect();
    assert_eq!(opsets, [18, 18, 18, 18, 21]);
}

#[test]
fn functions_call_functions() {
    let inner = function("G", &["a"], &["b"], vec![node("Neg", &["a"], &["n"]), node("Abs", &["n"], &["b"])]);
    let outer = function("F", &["a"], &["b"], vec![call("G", &["a"], &["m"]), call("G", &["m"], &["b"])]);
    let model = inlined(graph(vec![call("F", &["x"], &["y"])], &["x"], &["y"]), vec![outer, inner]).unwrap();
    assert_eq!(listing(&model.graph), ["F/G/n = Neg(x)", "F/m = Abs(F/G/n)", "F/G.2/n = Neg(F/m)", "y = Abs(F/G.2/n)"]);
}

#[test]
fn attributes_come_from_call_default_or_not_at_all() {
    let mut body = node("Op", &["a"], &["b"]);
    for (name, of) in [("p", "given"), ("q", "standard"), ("r", "absent")] {
        body = with(body, reference(name, 2, of));
    }
    let f = function("F", &["a"], &["b"], vec![body])
        .text(function_field::ATTRIBUTE, "given")
        .text(function_field::ATTRIBUTE, "absent")
        .msg(function_field::ATTRIBUTE_PROTO, attribute("standard", 2).int(attr::INT, 9));
    let caller = with(call("F", &["x"], &["y"]), attribute("given", 2).int(attr::INT, 5));
    let model = inlined(graph(vec![caller], &["x"], &["y"]), vec![f.clone()]).unwrap();
    let node = &model.graph.nodes[0];
    assert_eq!((node.int("p").unwrap(), node.int("q").unwrap()), (5, 9));
    assert_eq!(node.opt_int("r").unwrap(), None);
    let wrong = with(call("F", &["x"], &["y"]), attribute("given", 1).float(attr::FLOAT, 5.0));
    let error = inlined(graph(vec![wrong], &["x"], &["y"]), vec![f]).unwrap_err();
    has(&error.to_string(), &["local::F that makes `y`", "`p`", "`given`", "float", "int"]);
}

#[test]
fn bodies_inside_functions_are_renamed() {
    // The branch takes `a` and `t` from around it, and has a `b` of its own.
    let then = graph(vec![node("Add", &["a", "t"], &["b"]), node("Neg", &["b"], &["o"])], &[], &["o"]);
    let body = vec![
        node("Abs", &["a"], &["t"]),
        with(node("If", &["c"], &["b"]), attribute("then_branch", 5).msg(attr::GRAPH, then)),
    ];
    let f = function("F", &["a", "c"], &["b"], body);
    let model = inlined(graph(vec![call("F", &["x", "k"], &["y"])], &["x", "k"], &["y"]), vec![f]).unwrap();
    assert_eq!(listing(&model.graph), ["F/t = Abs(x)", "y = If(k)"]);
    let branch = model.graph.nodes[1].graph("then_branch").unwrap();
    assert_eq!(listing(branch), ["F/b = Add(x, F/t)", "F/o = Neg(F/b)"]);
    assert_eq!(branch.outputs[0].name, "F/o");
}

#[test]
fn calls_inside_bodies_are_expanded() {
    let f = function("F", &["a"], &["b"], vec![node("Neg", &["a"], &["b"])]);
    let then = graph(vec![call("F", &["x"], &["o"])], &[], &["o"]);
    let outer = with(node("If", &["x"], &["y"]), attribute("then_branch", 5).msg(attr::GRAPH, then));
    let model = inlined(graph(vec![outer], &["x"], &["y"]), vec![f]).unwrap();
    assert_eq!(listing(model.graph.nodes[0].graph("then_branch").unwrap()), ["o = Neg(x)"]);
}

#[test]
fn an_input_handed_out_is_copied() {
    let f = function("F", &["a"], &["a", "b", "b"], vec![node("Neg", &["a"], &["b"])]);
    let model = inlined(graph(vec![call("F", &["x"], &["p", "q", "r"])], &["x"], &["p", "q", "r"]), vec![f]);
    assert_eq!(listing(&model.unwrap().graph), ["q = Neg(x)", "p = Identity(x)", "r = Identity(q)"]);
}

#[test]
fn what_functions_may_not_do() {
    let refuse = |nodes: Vec<Msg>, functions: Vec<Msg>, parts: &[&str]| {
        let error = inlined(graph(nodes, &["x"], &["y"]), functions).unwrap_err();
        has(&error.to_string(), parts);
    };
    let once = |op: &str| vec![call(op, &["x"], &["y"])];
    let calls = |name: &str, other: &str| function(name, &["a"], &["b"], vec![call(other, &["a"], &["b"])]);
    refuse(once("F"), vec![calls("F", "G"), calls("G", "F")], &["call themselves", "`F` → `G` → `F`"]);
    let f = || function("F", &["a"], &["b"], vec![node("Neg", &["a"], &["b"])]);
    refuse(vec![call("F", &["x", "x"], &["y"])], vec![f()], &["2 inputs", "`local::F` has 1"]);
    refuse(vec![call("F", &["x"], &["y", "z"])], vec![f()], &["2 outputs", "`local::F` has 1"]);
    refuse(once("F"), vec![f(), f()], &["`local::F` is defined twice"]);
    let leaks = function("F", &["a"], &["b"], vec![node("Neg", &["x"], &["b"])]);
    refuse(once("F"), vec![leaks], &["function `local::F`", "`x` is used"]);
}

#[test]
fn expansion_is_bounded() {
    // Each function calls the next one twice: 2^30 nodes from a file of a few kilobytes.
    let twice = |index: usize| {
        let next = format!("F{}", index + 1);
        let body = vec![call(&next, &["a"], &["m"]), call(&next, &["m"], &["b"])];
        function(&format!("F{index}"), &["a"], &["b"], body)
    };
    let mut functions: Vec<Msg> = (0..30).map(twice).collect();
    functions.push(function("F30", &["a"], &["b"], vec![node("Neg", &["a"], &["b"])]));
    let error = inlined(graph(vec![call("F0", &["x"], &["y"])], &["x"], &["y"]), functions).unwrap_err();
    has(&error.to_string(), &["needs more than"]);
    assert!(error.to_string().len() < 5000);
    has(&refusal(&with_functions(graph(vec![], &[], &[]), vec![Msg::default().int(1, 1)]).0), &["FunctionProto"]);
}

//! What a user reads when a model, its options or a run is wrong: every message with node, operator, opset, shapes and what to do,
//! and all problems of one kind together. The texts are in `snapshots/`.

mod common;
#[path = "common/onnx.rs"]
mod onnx;

use insta::{Settings, assert_snapshot};
use onnx::{BOOL, F32, Graph, I64, Node, U8};
use std::fs;

/// Compares a text with its snapshot.
fn shown(name: &str, text: &str) {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| assert_snapshot!(format!("message_{name}"), text));
}

/// What `planner report` says of a model that it refuses.
fn refusal(name: &str, graph: &Graph, options: &[&str]) -> String {
    let folder = common::scratch(&format!("messages-{name}"));
    let path = folder.join("model.onnx");
    fs::write(&path, graph.model()).unwrap();
    let mut args = vec!["report".into(), path.into_os_string()];
    args.extend(options.iter().map(Into::into));
    let (code, out, err) = common::planner(args);
    assert_eq!((code, &*out), (1, ""), "{err}");
    err.replace(&format!("{}/", folder.display()), "")
}

/// Row H2. Operators that nobody knows, both of them, and an operand that does not fit: in one go.
#[test]
fn unknown_operators() {
    let graph = Graph::new()
        .import("com.example", 3)
        .input("x", F32, &["2", "3"])
        .input("n", I64, &["4"])
        .node(Node::new("Frobnicate", &["x"], &["a"]).name("first"))
        .node(Node::new("Warp", &["x", "", "n"], &["b"]).domain("com.example"))
        .node(Node::new("Relu", &["a"], &["c"]))
        .node(Node::new("MatMul", &["x", "x"], &["d"]).name("product"))
        .output("c", F32, &["2", "3"])
        .output("b", F32, &["2", "3"])
        .output("d", F32, &["2", "3"]);
    shown("unknown_operators", &refusal("unknown", &graph, &[]));
}

/// Row H2.
#[test]
fn a_cycle() {
    let graph = Graph::new()
        .input("x", F32, &["2"])
        .node(Node::new("Add", &["x", "c"], &["a"]).name("one"))
        .node(Node::new("Relu", &["a"], &["b"]))
        .node(Node::new("Neg", &["b"], &["c"]).name("three"))
        .output("c", F32, &["2"]);
    shown("cycle", &refusal("cycle", &graph, &[]));
}

/// Row H2.
#[test]
fn a_dim_of_two_to_the_62() {
    let big = "4611686018427387904";
    let graph = Graph::new().input("x", F32, &[big, "4"]).node(Node::new("Relu", &["x"], &["y"]).name("large")).output(
        "y",
        F32,
        &[big, "4"],
    );
    shown("huge_dim", &refusal("huge", &graph, &[]));
    let graph =
        Graph::new().input("x", F32, &["n", "4"]).node(Node::new("Relu", &["x"], &["y"])).output("y", F32, &["n", "4"]);
    shown("huge_option", &refusal("huge-option", &graph, &["--dim", &format!("n=1..={big}")]));
    let graph = Graph::new()
        .input("x", F32, &["1"])
        .ints("dims", &[2], &[1 << 31, 1 << 31])
        .node(Node::new("Expand", &["x", "dims"], &["wide"]).name("widened"))
        .node(Node::new("Relu", &["wide"], &["y"]).name("large"))
        .output("y", F32, &["?", "?"]);
    shown("huge_inner", &refusal("huge-inner", &graph, &[]));
}

/// Row H2. Every free dim at once.
#[test]
fn free_dims_without_a_range() {
    let graph = Graph::new()
        .input("x", F32, &["batch", "?", "3"])
        .input("mask", BOOL, &["batch", "length"])
        .node(Node::new("Relu", &["x"], &["y"]))
        .output("y", F32, &["batch", "?", "3"]);
    shown("free_dims", &refusal("free", &graph, &[]));
    shown("free_dims_and_options", &refusal("free-options", &graph, &["--dim", "btch=1", "--fix", "msk=1"]));
}

/// Row H2. Two nodes whose operands have the wrong type.
#[test]
fn wrong_dtypes() {
    let graph = Graph::new()
        .input("x", F32, &["2", "3"])
        .input("n", I64, &["3"])
        .input("b", BOOL, &["2"])
        .node(Node::new("Add", &["x", "n"], &["s"]).name("mixed"))
        .node(Node::new("And", &["x", "b"], &["t"]).name("both"))
        .node(Node::new("LSTM", &["x", "n", "b"], &["u"]).int("hidden_size", 4))
        .output("s", F32, &["2", "3"])
        .output("t", BOOL, &["2"])
        .output("u", U8, &["2"]);
    shown("wrong_dtypes", &refusal("dtypes", &graph, &[]));
}

/// Row H2.
#[test]
fn external_data_outside_the_folder() {
    let graph = Graph::new()
        .input("x", F32, &["4"])
        .external("passwords", &[4], "../../etc/passwd")
        .external("gone", &[4], "gone.bin")
        .node(Node::new("Add", &["x", "passwords"], &["y"]))
        .node(Node::new("Add", &["y", "gone"], &["z"]))
        .output("z", F32, &["4"]);
    shown("external_data", &refusal("external", &graph, &[]));
}

/// Row H2.
#[test]
fn unsupported_versions() {
    let relu = |opset| {
        Graph::new()
            .opset(opset)
            .input("x", F32, &["2"])
            .node(Node::new("Relu", &["x"], &["y"]))
            .node(Node::new("Twist", &["y"], &["z"]).domain("com.example"))
            .output("z", F32, &["2"])
    };
    shown("old_opset", &refusal("old", &relu(5), &[]));
    shown("new_opset", &refusal("new", &relu(99), &[]));
    shown("no_import", &refusal("import", &relu(21), &[]));
}

/// Whether these stand in a text, in this order.
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} is missing, or too early, in {text:?}"));
        rest = &rest[at + part.len()..];
    }
}

/// A constant whose data is missing, in a branch of a branch.
fn deep() -> Graph {
    let constant = Node::new("Constant", &[], &["w"]).name("inner").external("value", "weights", &[4], "gone.bin");
    let body = Graph::new().node(constant).output("w", F32, &["4"]);
    let other = || Graph::new().node(Node::new("Neg", &["x"], &["n"])).output("n", F32, &["4"]);
    let branch =
        Node::new("If", &["c"], &["b"]).name("middle").graph("then_branch", body).graph("else_branch", other());
    let body = Graph::new().node(branch).output("b", F32, &["4"]);
    let outer = Node::new("If", &["c"], &["y"]).name("outer").graph("then_branch", body).graph("else_branch", other());
    Graph::new().input("x", F32, &["4"]).input("c", BOOL, &["1"]).node(outer).output("y", F32, &["4"])
}

const DEEP: [&str; 7] = [
    "model.onnx`: ",
    "If `outer`: ",
    "If `middle`: ",
    "Constant `inner`: ",
    "tensor `weights`: ",
    "external data `gone.bin`: ",
    "cannot open the file: ",
];

/// Row H1. The command line.
#[test]
fn the_whole_chain_on_the_command_line() {
    let text = refusal("chain", &deep(), &[]);
    in_order(&text, &DEEP);
    assert_eq!(text.lines().count(), 1, "{text}");
    shown("chain", &text);
}

/// Row H1. The build script, as cargo shows it.
#[test]
fn the_whole_chain_in_a_build_script() {
    let folder = common::scratch("messages-build");
    let path = folder.join("model.onnx");
    fs::write(&path, deep().model()).unwrap();
    let error = flightplan::build::Model::new(&path).emit_to(&folder).unwrap_err();
    // What `main` returns is printed by its `Debug`.
    let text = format!("Error: {error:?}");
    in_order(&text, &DEEP);
    assert_eq!(text.matches("model.onnx").count(), 1, "{text}");
    assert_eq!(format!("{error}"), format!("{error:?}"));
    assert_eq!(error.kind(), flightplan::build::ErrorKind::Read);
    in_order(
        &error.chain().join("|"),
        &["outer", "|", "middle", "|", "inner", "|", "weights", "|", "gone.bin", "|", "open"],
    );
    let error = planner::onnx::read(&path).unwrap_err();
    in_order(
        &error.chain().join("|"),
        &["outer", "|", "middle", "|", "inner", "|", "weights", "|", "gone.bin", "|", "open"],
    );
}

/// Row H1. A node inside bodies that cannot be lowered is named with those around it.
#[test]
fn the_whole_chain_of_bodies() {
    let bad = Graph::new().node(Node::new("Frobnicate", &["x"], &["f"]).name("deep")).output("f", F32, &["4"]);
    let fine = || Graph::new().node(Node::new("Neg", &["x"], &["n"])).output("n", F32, &["4"]);
    let branch = |body, name: &str| {
        Node::new("If", &["c"], &[name]).name(name).graph("then_branch", body).graph("else_branch", fine())
    };
    let graph = Graph::new()
        .input("x", F32, &["4"])
        .input("c", BOOL, &["1"])
        .node(branch(Graph::new().node(branch(bad, "inner")).output("inner", F32, &["4"]), "outer"))
        .node(Node::new("Twist", &["outer"], &["after"]))
        .output("after", F32, &["4"]);
    let text = refusal("bodies", &graph, &[]);
    in_order(&text, &["2 problems", "in If `outer`: in If `inner`: Frobnicate `deep`", "Twist that makes `after`"]);
    shown("bodies", &text);
}

/// Rows H1 and H2. A run that fails: the model, the step with its index, the plan, and why.
#[test]
fn the_whole_chain_of_a_run() {
    let folder = common::scratch("messages-run");
    let path = folder.join("model.onnx");
    let graph = Graph::new()
        .input("x", I64, &["2"])
        .ints("seven", &[1], &[7])
        .node(Node::new("CumSum", &["x", "zero"], &["s"]).name("summed"))
        .ints("zero", &[], &[0])
        .node(Node::new("Div", &["seven", "s"], &["y"]).name("divided"))
        .output("y", I64, &["2"]);
    fs::write(&path, graph.model()).unwrap();
    fs::write(
        folder.join("x.npy"),
        common::npy("<i8", "2,", &[1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]),
    )
    .unwrap();
    let input = format!("x={}", folder.join("x.npy").display());
    let model = path.to_string_lossy();
    let (code, _, report) = {
        let (code, out, err) = common::planner(["report", &model, "--json"]);
        (code, err, out)
    };
    assert_eq!(code, 0);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let hash = report["plan_hash"].as_str().unwrap().to_owned();
    let (code, _, err) = common::planner(["run", &model, "--input", &input, "-o", &folder.to_string_lossy()]);
    assert_eq!(code, 1, "{err}");
    in_order(
        &err,
        &["model.onnx`: ", "step 1 (`divided`, ", &format!("of plan {}: ", &hash[..12]), "division by zero"],
    );
}

/// Row H3. What a build script can tell apart.
#[test]
fn kinds_of_build_errors() {
    use flightplan::build::{ErrorKind, Model};
    let folder = common::scratch("messages-kinds");
    let path = folder.join("model.onnx");
    let graph = Graph::new()
        .input("x", F32, &["n", "4"])
        .node(Node::new("Softmax", &["x"], &["s"]))
        .node(Node::new("CumSum", &["s", "zero"], &["y"]))
        .ints("zero", &[], &[0])
        .output("y", F32, &["n", "4"]);
    fs::write(&path, graph.model()).unwrap();
    let model = || Model::new(&path);
    let kind = |model: Model| model.emit_to(&folder).unwrap_err().kind();
    assert_eq!(kind(model()), ErrorKind::Options);
    assert_eq!(kind(model().dim("n", 1).step(0)), ErrorKind::Options);
    assert_eq!(kind(model().dim("n", 1).budget("much")), ErrorKind::Options);
    assert_eq!(kind(model().dim("n", 16).budget("1")), ErrorKind::Budget);
    assert_eq!(kind(model().dim("n", 1..=1i64 << 60)), ErrorKind::Invalid);
    assert_eq!(kind(Model::new(folder.join("none.onnx"))), ErrorKind::Read);
    let unknown = Graph::new().input("x", F32, &["4"]).node(Node::new("Frob", &["x"], &["y"])).output("y", F32, &["4"]);
    fs::write(&path, unknown.model()).unwrap();
    assert_eq!(kind(model()), ErrorKind::Unsupported);
    fs::write(&path, unknown.opset(99).model()).unwrap();
    assert_eq!(kind(model()), ErrorKind::Unsupported);
    fs::write(&path, "no model").unwrap();
    assert_eq!(kind(model()), ErrorKind::Read);
}

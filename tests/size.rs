//! The size of generated code: bounded by what a compiler can take, for models of thousands of nodes.

#[path = "common/onnx.rs"]
mod onnx;

use onnx::{F32, Graph, Node};

/// Lines of a module for 4,000 nodes; of 400 more there are the types and functions that every model has.
const LINES: usize = 4_600;
/// Lines of a function, whatever the model: 32 calls, some of them broken into several lines.
const FUNCTION: usize = 64;

/// A model in the making: nodes one after another, with names that count up.
struct Net {
    graph: Graph,
    values: usize,
    noise: u64,
}

const WIDTH: i64 = 16;
const HEADS: i64 = 2;
const ROWS: i64 = 8;

impl Net {
    fn new() -> Net {
        let dims = ["1".to_owned(), ROWS.to_string(), WIDTH.to_string()];
        let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
        let graph = Graph::new().input("x", F32, &dims).output("y", F32, &dims);
        Net { graph, values: 0, noise: 1 }
    }

    fn name(&mut self) -> String {
        self.values += 1;
        format!("v{}", self.values)
    }

    fn node(&mut self, operator: &str, inputs: &[&str], with: impl Fn(Node) -> Node) -> String {
        let out = self.name();
        self.graph = std::mem::take(&mut self.graph).node(with(Node::new(operator, inputs, &[&out])));
        out
    }

    fn op(&mut self, operator: &str, inputs: &[&str]) -> String {
        self.node(operator, inputs, |n| n)
    }

    /// Weights that no other has.
    fn weights(&mut self, dims: &[i64]) -> String {
        let count: i64 = dims.iter().product();
        let mut next = || {
            self.noise = self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.noise >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        let data: Vec<f32> = (0..count).map(|_| next()).collect();
        let name = self.name();
        self.graph = std::mem::take(&mut self.graph).floats(&name, dims, &data);
        name
    }

    fn number(&mut self, value: f32) -> String {
        let name = self.name();
        self.graph = std::mem::take(&mut self.graph).floats(&name, &[], &[value]);
        name
    }

    fn ints(&mut self, values: &[i64]) -> String {
        let name = self.name();
        self.graph = std::mem::take(&mut self.graph).ints(&name, &[values.len() as i64], values);
        name
    }

    /// A product and a bias.
    fn linear(&mut self, x: &str, from: i64, to: i64) -> String {
        let (w, b) = (self.weights(&[from, to]), self.weights(&[to]));
        let product = self.op("MatMul", &[x, &w]);
        self.op("Add", &[&product, &b])
    }

    /// Layer normalisation as older exporters write it.
    fn norm(&mut self, x: &str) -> String {
        let (last, two, tiny) = (self.ints(&[-1]), self.number(2.0), self.number(1e-5));
        let (gain, shift) = (self.weights(&[WIDTH]), self.weights(&[WIDTH]));
        let mean = self.op("ReduceMean", &[x, &last]);
        let centred = self.op("Sub", &[x, &mean]);
        let squared = self.op("Pow", &[&centred, &two]);
        let variance = self.op("ReduceMean", &[&squared, &last]);
        let safe = self.op("Add", &[&variance, &tiny]);
        let deviation = self.op("Sqrt", &[&safe]);
        let normal = self.op("Div", &[&centred, &deviation]);
        let scaled = self.op("Mul", &[&normal, &gain]);
        self.op("Add", &[&scaled, &shift])
    }

    /// `[1, rows, width]` as `[1, heads, rows, width / heads]`.
    fn heads(&mut self, x: &str, perm: &[i64]) -> String {
        let dims = self.ints(&[1, ROWS, HEADS, WIDTH / HEADS]);
        let split = self.op("Reshape", &[x, &dims]);
        self.node("Transpose", &[&split], |n| n.ints("perm", perm))
    }

    /// A block of a transformer as exporters write it: 48 nodes.
    fn block(&mut self, x: &str) -> String {
        let normal = self.norm(x);
        let [q, k, v] = [0; 3].map(|_| self.linear(&normal, WIDTH, WIDTH));
        let (q, v) = (self.heads(&q, &[0, 2, 1, 3]), self.heads(&v, &[0, 2, 1, 3]));
        let k = self.heads(&k, &[0, 2, 3, 1]);
        let scores = self.op("MatMul", &[&q, &k]);
        let root = self.number(2.828);
        let scores = self.op("Div", &[&scores, &root]);
        let weights = self.node("Softmax", &[&scores], |n| n.int("axis", -1));
        let mixed = self.op("MatMul", &[&weights, &v]);
        let mixed = self.node("Transpose", &[&mixed], |n| n.ints("perm", &[0, 2, 1, 3]));
        let dims = self.ints(&[1, ROWS, WIDTH]);
        let mixed = self.op("Reshape", &[&mixed, &dims]);
        let out = self.linear(&mixed, WIDTH, WIDTH);
        let x = self.op("Add", &[x, &out]);
        let normal = self.norm(&x);
        let wide = self.linear(&normal, WIDTH, 4 * WIDTH);
        // The Gelu with `erf`.
        let (root, one, half) = (self.number(1.414), self.number(1.0), self.number(0.5));
        let scaled = self.op("Div", &[&wide, &root]);
        let erf = self.op("Erf", &[&scaled]);
        let shifted = self.op("Add", &[&erf, &one]);
        let product = self.op("Mul", &[&wide, &shifted]);
        let active = self.op("Mul", &[&product, &half]);
        let narrow = self.linear(&active, 4 * WIDTH, WIDTH);
        self.op("Add", &[&x, &narrow])
    }

    fn finish(self, last: &str) -> Graph {
        self.graph.node(Node::new("Identity", &[last], &["y"]))
    }
}

/// At least `nodes` nodes of transformer blocks.
fn transformer(nodes: usize) -> Graph {
    let mut net = Net::new();
    let mut x = "x".to_owned();
    while net.graph.count() < nodes {
        x = net.block(&x);
    }
    net.finish(&x)
}

/// Nodes of which no two become one step.
fn chain(nodes: usize) -> Graph {
    let mut net = Net::new();
    let mut x = "x".to_owned();
    while net.graph.count() + 1 < nodes {
        x = match net.graph.count() % 3 {
            0 => net.node("Softmax", &[&x], |n| n.int("axis", -1)),
            1 => {
                let axis = net.ints(&[1]);
                net.op("CumSum", &[&x, &axis])
            }
            _ => {
                let w = net.weights(&[WIDTH, WIDTH]);
                net.op("MatMul", &[&x, &w])
            }
        };
    }
    net.finish(&x)
}

/// The code of a model for both executors, and how many steps its plan has.
fn code(graph: &Graph) -> ([String; 2], usize) {
    let model = planner::onnx::read_bytes(graph.model().into(), None).unwrap();
    let planned = planner::plan(model, &planner::Options::default()).unwrap();
    let steps = planned.plan.blocks.iter().map(|b| b.steps.len()).sum();
    let code = [codegen::Mode::Static, codegen::Mode::Eager].map(|mode| {
        let options = codegen::Options { mode, ..codegen::Options::default() };
        codegen::generate(&planned.plan, &options).unwrap()
    });
    (code, steps)
}

/// Lines of the longest function.
fn longest(code: &str) -> usize {
    let (mut longest, mut open) = (0, None);
    for (i, line) in code.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim_start().trim_start_matches("pub ").trim_start_matches("const ");
        match open {
            None if text.starts_with("fn ") && !line.ends_with('}') => open = Some((i, indent)),
            Some((start, outer)) if indent == outer && line.trim_start() == "}" => {
                longest = longest.max(i + 1 - start);
                open = None;
            }
            _ => {}
        }
    }
    assert!(open.is_none(), "a function without an end");
    longest
}

/// Row M1. Time and size of a build follow the number of lines, and that of the largest function.
#[test]
fn code_stays_small() {
    for nodes in [100, 1_000, 4_000] {
        for (kind, graph) in [("transformer", transformer(nodes)), ("chain", chain(nodes))] {
            let (codes, steps) = code(&graph);
            assert!(graph.count() >= nodes);
            for (mode, code) in ["static", "eager"].iter().zip(codes) {
                let (lines, function) = (code.lines().count(), longest(&code));
                println!("{kind}, {mode}: {nodes} nodes, {steps} steps: {lines} lines, longest function {function}");
                // Where no two nodes become one step, each is a line; every third has weights, which are another.
                let most = if kind == "chain" { 200 + nodes * 7 / 4 } else { LINES * nodes / 4_000 + 400 };
                assert!(lines < most, "{kind} of {nodes} nodes, {mode}: {lines} lines");
                assert!(function <= FUNCTION, "{kind} of {nodes} nodes, {mode}: a function of {function} lines");
            }
        }
    }
    // More lines for more nodes, so that the figures are about the models.
    let (small, large) = (code(&chain(10)).0, code(&chain(20)).0);
    assert!(small[0].lines().count() < large[0].lines().count());
}

#[test]
fn functions_are_measured() {
    assert_eq!(longest("fn a() {\n    b\n}\nconst fn c(\n) {\n    d\n    e\n}\n"), 5);
    assert_eq!(longest("impl X {\n    pub fn a() {\n        {\n        }\n    }\n}\n"), 4);
}

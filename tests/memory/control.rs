//! Branches and loops.

use crate::kit::*;
use crate::onnx::{BOOL, F32, Graph, I64, Node};
use plan::{Action, Primitive, Step};
use runtime::interpret::{Interpreter, Mode};

fn body(nodes: Vec<Node>, outputs: &[(&str, i64, &[&str])]) -> Graph {
    let graph = nodes.into_iter().fold(Graph::new(), Graph::node);
    outputs.iter().fold(graph, |g, (name, dtype, dims)| g.output(name, *dtype, dims))
}

/// All elements of output `i` after each run, in every mode the same.
#[track_caller]
fn left(case: &Case, i: usize, runs: &[Vec<Data>]) -> Vec<Vec<f32>> {
    let of = |mode| {
        let mut exec = Interpreter::with_mode((*case.plan).clone(), case.weights.clone(), mode).unwrap();
        let run = |inputs: &Vec<Data>| {
            exec.run(&views(inputs)).unwrap();
            let bytes = exec.output(i).unwrap().bytes;
            bytes.chunks(4).map(|c| f32::from_ne_bytes(c.try_into().unwrap())).collect()
        };
        runs.iter().map(run).collect::<Vec<Vec<f32>>>()
    };
    let all = of(Mode::Static);
    assert_eq!(all, of(Mode::Eager));
    assert_eq!(all, of(Mode::Naive));
    all
}

/// The steps of a plan's bodies, but for those that copy and those that tell an extent.
fn computed(case: &Case) -> Vec<&Step> {
    let steps = case.plan.blocks.iter().skip(1).flat_map(|b| &b.steps);
    let idle = |s: &&Step| match s.action {
        Action::Run { prim, .. } => matches!(prim, Primitive::Copy(_)),
        _ => matches!(s.action, Action::Define { .. }),
    };
    steps.filter(|s| !idle(s)).collect()
}

/// An `If` of two branches that add constants, `n` elements of them, and its largest and smallest elements.
fn constants(n: i64) -> Graph {
    let way = |five: &str| {
        body(
            vec![Node::new("Expand", &[five, "n"], &["wide"]), Node::new("Add", &["wide", "wide"], &["sum"])],
            &[("sum", F32, &["n"])],
        )
    };
    Graph::new()
        .input("c", BOOL, &[])
        .floats("five", &[1], &[5.0])
        .floats("ten", &[1], &[10.0])
        .ints("n", &[1], &[n])
        .node(Node::new("If", &["c"], &["r"]).graph("then_branch", way("five")).graph("else_branch", way("ten")))
        .node(Node::new("ReduceMax", &["r"], &["high"]).int("keepdims", 0))
        .node(Node::new("ReduceMin", &["r"], &["low"]).int("keepdims", 0))
        .output("high", F32, &[])
        .output("low", F32, &[])
}

/// Row C1. T, T, F, F, T gives 10, 10, 20, 20, 10. Small branches are folded: no run computes them. Large ones are not: each run
/// computes the one that it takes, so that there is nothing to keep from run to run, and nothing that could be stale.
#[test]
fn branches_of_constants() {
    let runs = [true, true, false, false, true].map(|c| vec![Data::flag(c)]);
    let want = [10.0, 10.0, 20.0, 20.0, 10.0].map(|v| vec![v]);
    for (n, name) in [(4, "folded"), (400_000, "large")] {
        let case = Case::new(name, &constants(n), &[], &[]);
        let computed = computed(&case).len();
        assert_eq!(computed, if name == "folded" { 0 } else { 2 }, "{name}: a step for each branch, or none");
        assert_eq!(case.plan.certificate.persist_bytes, 0, "there is no slot");
        assert_eq!((left(&case, 0, &runs), left(&case, 1, &runs)), (want.to_vec(), want.to_vec()), "{name}");
        if name == "folded" {
            case.differential(&runs);
        }
    }
}

/// Rows A13 and C1. The root of what such an `If` gives: 2 in each of three runs. The constant stays what it was.
#[test]
fn the_root_of_a_branch_of_constants() {
    let way = |four: &str| body(vec![Node::new("Add", &[four, four], &["sum"])], &[("sum", F32, &["2"])]);
    let graph = Graph::new()
        .input("c", BOOL, &[])
        .floats("two", &[2], &[2.0; 2])
        .floats("eight", &[2], &[8.0; 2])
        .node(Node::new("If", &["c"], &["r"]).graph("then_branch", way("two")).graph("else_branch", way("eight")))
        .node(Node::new("Sqrt", &["r"], &["y"]))
        .output("y", F32, &["2"]);
    let case = Case::new("root", &graph, &[], &[]);
    assert_eq!(computed(&case).len(), 0);
    let runs = [true, true, true, false].map(|c| vec![Data::flag(c)]);
    assert_eq!(left(&case, 0, &runs), [[2.0; 2], [2.0; 2], [2.0; 2], [4.0; 2]]);
    case.differential(&runs);
}

/// Row C2. A branch that reads what changes is computed in each run, though the same way is taken.
#[test]
fn branches_that_read_what_changes() {
    let way = |operator: &str| body(vec![Node::new(operator, &["s", "one"], &["q"])], &[("q", F32, &["4"])]);
    let graph = Graph::new()
        .input("x", F32, &["4"])
        .input("c", BOOL, &[])
        .floats("one", &[1], &[1.0])
        .node(Node::new("Add", &["x", "x"], &["s"]))
        .node(Node::new("If", &["c"], &["r"]).graph("then_branch", way("Add")).graph("else_branch", way("Sub")))
        .node(Node::new("Neg", &["r"], &["y"]))
        .output("y", F32, &["4"]);
    let case = Case::new("changes", &graph, &[], &[]);
    assert!(computed(&case).len() >= 2);
    let x = |v: f32| Data::floats(&[4], &[v; 4]);
    let runs = [(1.0, true), (2.0, true), (2.0, false), (3.0, false), (4.0, true)];
    let want = runs.map(|(v, c)| vec![-(2.0 * v + if c { 1.0 } else { -1.0 }); 4]);
    let runs = runs.map(|(v, c)| vec![x(v), Data::flag(c)]);
    assert_eq!(left(&case, 0, &runs), want);
    case.differential(&runs);
}

/// Row C4. One branch leaves two rows, the other all of them twice. There is room for either, and the way may change from one
/// replay to the next.
#[test]
fn branches_of_different_sizes() {
    let narrow = body(vec![Node::new("Slice", &["e", "from", "to"], &["q"])], &[("q", F32, &["a", "4"])]);
    let wide = body(vec![Node::new("Concat", &["e", "e"], &["q"]).int("axis", 0)], &[("q", F32, &["b", "4"])]);
    let graph = Graph::new()
        .input("x", F32, &["n", "4"])
        .input("c", BOOL, &[])
        .ints("from", &[1], &[0])
        .ints("to", &[1], &[2])
        .node(Node::new("Abs", &["x"], &["e"]))
        .node(Node::new("If", &["c"], &["r"]).graph("then_branch", narrow).graph("else_branch", wide))
        .node(Node::new("Neg", &["r"], &["y"]))
        .output("y", F32, &["m", "4"]);
    let case = Case::new("sizes", &graph, &[("n", 2, 5)], &[]);
    let result = case.plan.values.iter().find(|v| v.name == "r").unwrap();
    let room = case.plan.buffers[result.place.buffer.index()].max_bytes;
    assert_eq!(room, 2 * 5 * 4 * 4, "room for the larger of both");
    let runs: Vec<Vec<Data>> = [(5, true), (5, false), (5, true), (2, false), (3, true)]
        .map(|(n, c)| vec![Data::ramp(&[n, 4], n), Data::flag(c)])
        .into();
    let rows: Vec<usize> = left(&case, 0, &runs).iter().map(|y| y.len() / 4).collect();
    assert_eq!(rows, [2, 10, 2, 4, 2]);
    let done = case.differential(&runs);
    assert!(done.failed == 0 && done.replays > 0);
}

/// Row C5. A body whose outputs are its inputs, the number of the turn among them, and a branch that hands on what lies outside.
#[test]
fn bodies_that_hand_on() {
    let turn = Graph::new()
        .input("i", I64, &[])
        .input("go", BOOL, &[])
        .input("v", F32, &["2"])
        .output("go", BOOL, &[])
        .output("v", F32, &["2"])
        .output("i", I64, &[])
        .output("v", F32, &["2"]);
    let same = Graph::new().output("x", F32, &["2"]);
    let other = body(vec![Node::new("Neg", &["x"], &["q"])], &[("q", F32, &["2"])]);
    let graph = Graph::new()
        .input("x", F32, &["2"])
        .input("c", BOOL, &[])
        .constant("yes", BOOL, &[], &[1])
        .ints("three", &[], &[3])
        .node(Node::new("Loop", &["three", "yes", "x"], &["last", "turns", "rows"]).graph("body", turn))
        .node(Node::new("Cast", &["turns"], &["numbers"]).int("to", F32))
        .node(Node::new("If", &["c"], &["way"]).graph("then_branch", same).graph("else_branch", other))
        .output("last", F32, &["2"])
        .output("numbers", F32, &["3"])
        .output("rows", F32, &["3", "2"])
        .output("way", F32, &["2"]);
    let case = Case::new("hand-on", &graph, &[], &[]);
    let x = |v: f32| Data::floats(&[2], &[v, v + 1.0]);
    let runs = [(1.0, true), (1.0, true), (5.0, false)].map(|(v, c)| vec![x(v), Data::flag(c)]);
    assert_eq!(left(&case, 0, &runs), [[1.0, 2.0], [1.0, 2.0], [5.0, 6.0]]);
    assert_eq!(left(&case, 1, &runs), [[0.0, 1.0, 2.0]; 3]);
    assert_eq!(left(&case, 2, &runs), [[1.0, 2.0].repeat(3), [1.0, 2.0].repeat(3), [5.0, 6.0].repeat(3)]);
    assert_eq!(left(&case, 3, &runs), [[1.0, 2.0], [1.0, 2.0], [-5.0, -6.0]]);
    case.differential(&runs);
}

/// The most that one run holds.
fn peak(case: &Case, inputs: &[Data]) -> u64 {
    let device = device();
    case.eager(&device).run(&views(inputs)).unwrap();
    device.counted().run_peak
}

/// Row A12. One turn, two and seven come to the same peak, and in the arena none as well; without a turn a loop leaves what it began with.
#[test]
fn turns_cost_no_memory() {
    let case = Case::new("turns", &repeated(), &[], &[]);
    let inputs = |n: i64| vec![Data::ramp(&[4], 2), Data::ints(&[], &[n])];
    let peaks = [0, 1, 2, 7].map(|n| peak(&case, &inputs(n)));
    // Without a turn nothing of the body is taken; the arena holds it in any case.
    assert_eq!(peaks[1..], [case.plan.certificate.eager_peak_bytes; 3]);
    assert!(peaks[0] <= peaks[1]);
    let fixed = [0, 1, 2, 7].map(|n| {
        let device = device();
        case.fixed(&device).run(&views(&inputs(n))).unwrap();
        device.counted().run_peak
    });
    assert_eq!(fixed, [case.plan.arena_bytes; 4]);
    case.differential(&[0, 1, 2, 7].map(inputs));
    // What the loop began with: e = Exp(x), and y = Softmax(e).
    let body = Graph::new()
        .input("i", I64, &[])
        .input("go", BOOL, &[])
        .input("v", F32, &["2"])
        .node(Node::new("Identity", &["go"], &["on"]))
        .node(Node::new("Add", &["v", "v"], &["w"]))
        .output("on", BOOL, &[])
        .output("w", F32, &["2"]);
    let graph = Graph::new()
        .input("x", F32, &["2"])
        .input("n", I64, &[])
        .constant("yes", BOOL, &[], &[1])
        .node(Node::new("Loop", &["n", "yes", "x"], &["y"]).graph("body", body))
        .output("y", F32, &["2"]);
    let case = Case::new("doubles", &graph, &[], &[]);
    let runs = [0, 1, 2, 7].map(|n| vec![Data::floats(&[2], &[1.0, -3.0]), Data::ints(&[], &[n])]);
    assert_eq!(left(&case, 0, &runs), [1.0, 2.0, 4.0, 128.0].map(|f| [f, -3.0 * f]));
    case.differential(&runs);
}

/// Row A12. What a loop stacks costs its exact bytes, and nothing else grows with the turns.
#[test]
fn stacked_rows_cost_their_bytes() {
    let body = Graph::new()
        .input("i", I64, &[])
        .input("go", BOOL, &[])
        .input("v", F32, &["64"])
        .node(Node::new("Identity", &["go"], &["on"]))
        .node(Node::new("Softmax", &["v"], &["w"]))
        .node(Node::new("Neg", &["w"], &["row"]))
        .output("on", BOOL, &[])
        .output("w", F32, &["64"])
        .output("row", F32, &["64"]);
    let graph = Graph::new()
        .input("x", F32, &["64"])
        .input("many", F32, &["n"])
        .constant("yes", BOOL, &[], &[1])
        .ints("zero", &[], &[0])
        .node(Node::new("Shape", &["many"], &["shape"]))
        .node(Node::new("Gather", &["shape", "zero"], &["count"]))
        .node(Node::new("Loop", &["count", "yes", "x"], &["last", "rows"]).graph("body", body))
        .output("last", F32, &["64"])
        .output("rows", F32, &["n", "64"]);
    let case = Case::new("stacked", &graph, &[("n", 0, 7)], &[]);
    let inputs = |n: usize| vec![Data::ramp(&[64], 1), Data::ramp(&[n], 1)];
    let peaks = [0, 1, 2, 7].map(|n| peak(&case, &inputs(n)));
    assert_eq!(peaks[1..].iter().map(|p| p - peaks[1]).collect::<Vec<_>>(), [0, 256, 6 * 256]);
    assert!(peaks[0] <= peaks[1] - 256, "no turn, no row, and nothing within");
    assert_eq!(peaks[3], case.plan.certificate.eager_peak_bytes);
    case.differential(&[7, 0, 2].map(inputs));
}

//! Models and options made to break the planner: an error or a plan, in bounded time and memory.

use super::*;
use crate::{Error, ErrorKind, Fixed};

fn strings(name: &str, values: &[&str]) -> Node {
    let values = values.iter().map(|v| bytes::Bytes::copy_from_slice(v.as_bytes())).collect();
    node("Constant", &[], &[name], &[("value_strings", Attribute::Strings(values))])
}

fn text(result: Result<Planned, Error>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn products_of_huge_windows() {
    let huge = i64::from(u32::MAX);
    let attributes = [("kernel_shape", ints(&[huge, huge])), ("dilations", ints(&[huge, huge]))];
    let pool = node("MaxPool", &["x"], &["y"], &attributes);
    let why = text(try_planned(graph(vec![floats("x", "1 1 8 8")], vec![], vec![pool], &["y"]), &[]));
    assert!(why.contains("is negative"), "{why}");
    let constants = vec![constant("i", &[2], &[4, 4]), constant("b", &[2], &[huge, huge])];
    let columns = node("Col2Im", &["x", "i", "b"], &["y"], &[]);
    assert!(try_planned(graph(vec![floats("x", "1 4 4")], constants, vec![columns], &["y"]), &[]).is_err());
}

#[test]
fn strings_of_huge_shapes_and_many_strings() {
    let reshape = node("Reshape", &["s", "d"], &["r"], &[]);
    let shape = vec![constant("d", &[2], &[1 << 33, 1 << 33])];
    let nodes = vec![strings("s", &["1"]), reshape, node("Cast", &["r"], &["y"], &[("to", int(1))])];
    let why = text(try_planned(graph(vec![], shape, nodes, &["y"]), &[]));
    assert!(why.contains("1 strings under the dims"), "{why}");
    let mut nodes = vec![strings("s0", &["1"; 16])];
    for i in 0..40 {
        let (from, to) = (format!("s{i}"), format!("s{}", i + 1));
        nodes.push(node("Concat", &[&from, &from], &[&to], &[("axis", int(0))]));
    }
    nodes.push(node("Cast", &["s40"], &["y"], &[("to", int(1))]));
    let why = text(try_planned(graph(vec![], vec![], nodes, &["y"]), &[]));
    assert!(why.contains("strings in one tensor"), "{why}");
}

/// Constants that double from node to node are folded only as long as they are small.
#[test]
fn constants_that_double() {
    let mut nodes = Vec::new();
    for i in 0..22 {
        let (from, to) = (format!("c{i}"), format!("c{}", i + 1));
        nodes.push(node("Concat", &[&from, &from], &[&to], &[("axis", int(0))]));
    }
    nodes.push(node("Relu", &["c22"], &["y"], &[]));
    let start = of_floats("c0", &[1024], &[1.0; 1024]);
    let planned = try_planned(graph(vec![], vec![start], nodes, &["y"]), &[]).unwrap();
    assert!(planned.weights.len <= 64 << 20, "{} bytes of weights", planned.weights.len);
    assert!(planned.plan.arena_bytes >= 4 << 32);
}

/// Constants that are only steps to others do not stay in memory.
#[test]
fn steps_of_folding_are_given_back() {
    const N: usize = 1 << 18;
    let constants = vec![
        of_floats("c", &[1, 4, 1 << 16], &vec![0.5; N]),
        of_floats("scale", &[4], &[1.0; 4]),
        of_floats("bias", &[4], &[2.0; 4]),
    ];
    let groups = node("GroupNormalization", &["c", "scale", "bias"], &["w"], &[("num_groups", int(2))]);
    let nodes = vec![groups, node("Add", &["x", "w"], &["y"], &[])];
    let model = Model {
        ir_version: 10,
        opsets: [(String::new(), 21)].into(),
        graph: graph(vec![floats("x", "1 4 65536")], constants, nodes, &["y"]),
        ..Model::default()
    };
    let (lowered, ..) = crate::front::lower(model, &Options::default()).unwrap();
    let held: usize = lowered.constants.iter().map(|c| c.bytes.len()).sum();
    assert!(lowered.folded_bytes >= 4 * N, "the normalisation was not folded");
    assert!(held <= 2 * 4 * N + 4096, "{held} bytes");
    assert!(lowered.folded_bytes <= 4 * N + 4096, "{} bytes", lowered.folded_bytes);
}

/// Each of these extents names the one before several times: written out, the last would have more than 2^40 parts.
#[test]
fn extents_of_extents() {
    let mut nodes = vec![node("Shape", &["x"], &["s0"], &[])];
    for i in 0..40 {
        let name = |letter: &str| format!("{letter}{i}");
        let (from, to) = (name("s"), format!("s{}", i + 1));
        nodes.push(node("Mod", &[&from, "seven"], &[&name("m")], &[]));
        nodes.push(node("Max", &[&name("m"), &from], &[&name("a")], &[]));
        nodes.push(node("Mul", &[&name("a"), &name("m")], &[&name("b")], &[]));
        nodes.push(node("Min", &[&name("b"), &name("a")], &[&name("c")], &[]));
        nodes.push(node("Add", &[&name("c"), &name("b")], &[&to], &[]));
    }
    nodes.push(node("Reshape", &["x", "s40"], &["y"], &[]));
    let seven = constant("seven", &[1], &[7]);
    let net = graph(vec![floats("x", "n")], vec![seven], nodes, &["y"]);
    if let Err(e) = try_planned(net, &[dim("n", 1, 9)]) {
        assert!(e.to_string().len() < 10_000, "{e}");
    }
}

#[test]
fn fixed_values_that_do_not_fit() {
    let fixed = |ty, dims: &str, value| {
        let net =
            graph(vec![info("x", ty, dims)], vec![], vec![node("Cast", &["x"], &["y"], &[("to", int(1))])], &["y"]);
        let model = Model { ir_version: 10, opsets: [(String::new(), 21)].into(), graph: net, ..Model::default() };
        plan(model, &Options { fix: vec![("x".into(), value)], ..Options::default() })
    };
    let refused = |ty, dims, value| {
        let error = fixed(ty, dims, value).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Options);
        error.to_string()
    };
    let (large, half) = (Fixed::Ints(vec![5_000_000_000]), Fixed::Floats(vec![0.5]));
    assert!(refused(ElemType::Int32, "1", large.clone()).contains("5000000000 is no element of i32"));
    assert!(refused(ElemType::Bool, "1", Fixed::Ints(vec![2])).contains("2 is no element of bool"));
    assert!(refused(ElemType::UInt64, "1", Fixed::Ints(vec![-1])).contains("-1 is no element of u64"));
    assert!(refused(ElemType::Int8, "1", half).contains("no integers"));
    assert!(refused(ElemType::Int8, "3", Fixed::Ints(vec![1, 2])).contains("2 numbers for the dims [3]"));
    for (ty, value) in [
        (ElemType::Int64, large),
        (ElemType::Int8, Fixed::Floats(vec![-128.0])),
        (ElemType::UInt8, Fixed::Ints(vec![255])),
    ] {
        assert!(fixed(ty, "2 3", value).is_ok());
    }
    // One number for more elements than any machine holds.
    let dims = (1i64 << 40).to_string();
    assert!(fixed(ElemType::Int64, &format!("{dims} {dims}"), Fixed::Ints(vec![0])).is_err());
}

#[test]
fn an_alignment_that_is_none() {
    for align in [3, 1 << 40] {
        let net = graph(vec![floats("x", "2")], vec![], vec![node("Relu", &["x"], &["y"], &[])], &["y"]);
        let model = Model { ir_version: 10, opsets: [(String::new(), 21)].into(), graph: net, ..Model::default() };
        let error = plan(model, &Options { align, ..Options::default() }).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Options);
    }
}

//! Files that are cut off, damaged, or made to hurt.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

use super::super::fields::{
    attribute as attr, function as function_field, graph as graph_field, model as model_field, node as node_field,
    sparse, tensor as field, type_inner, type_proto, type_tensor,
};
use super::super::{ErrorKind, Type, inline_functions, read_bytes, read_value_bytes};
use super::encode::{Msg, attribute, constant_model, graph, info, model, node, opset, reference, tensor, with};
use super::{has, read_model, refusal};

/// A model with something of everything in it.
fn rich() -> Vec<u8> {
    let body = graph(vec![node("Neg", &["s"], &["r"])], &[], &["r"]);
    let sparse = Msg::default()
        .msg(sparse::VALUES, tensor("sp", 1, &[1]).bytes(field::RAW_DATA, &[0; 4]))
        .msg(sparse::INDICES, tensor("", 7, &[1]).packed(field::INT64_DATA, &[2]))
        .packed(sparse::DIMS, &[4]);
    let nodes = vec![
        node("F", &["x"], &["f"]).text(node_field::DOMAIN, "local"),
        with(node("If", &["f"], &["y"]), attribute("then_branch", 5).msg(attr::GRAPH, body)),
        with(node("Add", &["x", "w"], &["s"]), attribute("axes", 7).packed(attr::INTS, &[0, -1])),
    ];
    let graph = graph(nodes, &["x"], &["y"])
        .msg(graph_field::INITIALIZER, tensor("w", 1, &[2]).bytes(field::RAW_DATA, &[0; 8]))
        .msg(graph_field::INITIALIZER, tensor("i", 6, &[3]).packed(field::INT32_DATA, &[1, -1, 300]))
        .msg(graph_field::SPARSE_INITIALIZER, sparse)
        .msg(graph_field::VALUE_INFO, info("s", &["?", "8"]));
    let inner = with(node("Neg", &["a"], &["b"]), reference("k", 2, "outer"));
    let function = Msg::default()
        .text(function_field::NAME, "F")
        .text(function_field::DOMAIN, "local")
        .text(function_field::INPUT, "a")
        .text(function_field::OUTPUT, "b")
        .msg(function_field::OPSET_IMPORT, opset("", 21))
        .msg(function_field::NODE, inner);
    model(graph).msg(model_field::FUNCTIONS, function).text(model_field::PRODUCER_NAME, "test").0
}

/// Reads and expands; a panic fails the test.
fn survives(bytes: &[u8]) -> bool {
    let bytes = Bytes::copy_from_slice(bytes);
    catch_unwind(AssertUnwindSafe(|| {
        let value = read_value_bytes(bytes.clone(), &Type::Sequence(Box::new(Type::Unknown)));
        let value = value.or_else(|_| read_value_bytes(bytes.clone(), &Type::Unknown));
        drop(value);
        match read_bytes(bytes, None).and_then(inline_functions) {
            Ok(model) => !model.graph.nodes.is_empty(),
            Err(error) => error.to_string().is_empty(),
        }
    }))
    .expect("a panic")
}

#[test]
fn cut_off_anywhere() {
    let whole = rich();
    assert!(survives(&whole));
    for length in 0..whole.len() {
        assert!(read_model(&whole[..length]).is_ok_and(|m| m.producer != "test") || !survives(&whole[..length]));
    }
}

#[test]
fn flipped_bits() {
    let whole = rich();
    for byte in 0..whole.len() {
        for bit in 0..8 {
            let mut broken = whole.clone();
            broken[byte] ^= 1 << bit;
            survives(&broken);
        }
    }
    // Several at once, from a fixed pseudo-random sequence.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..3000 {
        let mut broken = whole.clone();
        for _ in 0..4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize;
            let index = at / 8 % broken.len();
            broken[index] ^= 1 << (at % 8);
        }
        survives(&broken);
    }
}

/// Fails unless the bytes are refused for the memory they would take.
#[track_caller]
fn too_large(bytes: &[u8]) {
    // The model itself would be a very long message.
    let error = read_model(bytes).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
}

#[test]
fn small_messages_that_become_large_structs() {
    // A megabyte of empty messages, each two bytes in the file.
    let empty = |number: u32| Msg((0..500_000).flat_map(|_| Msg::default().msg(number, Msg::default()).0).collect());
    for number in [graph_field::NODE, graph_field::INPUT, graph_field::INITIALIZER] {
        too_large(&model(empty(number)).0);
    }
    too_large(&model(graph(vec![empty(node_field::ATTRIBUTE)], &[], &[])).0);
    too_large(&model(graph(vec![empty(node_field::OUTPUT)], &[], &[])).0);
    too_large(&empty(model_field::FUNCTIONS).0);
    let packed = vec![1; 4 << 20];
    too_large(&constant_model(tensor("w", 7, &[4 << 20]).bytes(field::INT64_DATA, &packed)).0);
    too_large(&constant_model(Msg::default().bytes(field::DIMS, &packed)).0);
    let ints = with(node("A", &[], &["y"]), attribute("a", 7).bytes(attr::INTS, &packed));
    too_large(&model(graph(vec![ints], &[], &["y"])).0);
    let sparse = Msg::default()
        .msg(sparse::VALUES, tensor("w", 1, &[1]).bytes(field::RAW_DATA, &[0; 4]))
        .msg(sparse::INDICES, tensor("", 7, &[1]).packed(field::INT64_DATA, &[2]))
        .packed(sparse::DIMS, &[1 << 24]);
    too_large(&model(graph(vec![], &[], &[]).msg(graph_field::SPARSE_INITIALIZER, sparse)).0);
}

#[test]
fn nesting_is_bounded() {
    let mut body = graph(vec![node("Neg", &["x"], &["y"])], &[], &["y"]);
    for _ in 0..200 {
        let outer = with(node("If", &["x"], &["y"]), attribute("then_branch", 5).msg(attr::GRAPH, body));
        body = graph(vec![outer], &[], &["y"]);
    }
    has(&refusal(&model(body).0), &["nested over 32 deep"]);
    let mut ty = Msg::default().msg(type_proto::TENSOR, Msg::default().int(type_tensor::ELEM_TYPE, 1));
    for _ in 0..10_000 {
        ty = Msg::default().msg(type_proto::SEQUENCE, Msg::default().msg(type_inner::ELEM_TYPE, ty));
    }
    let input = Msg::default().text(1, "x").msg(2, ty);
    has(&refusal(&model(graph(vec![], &[], &[]).msg(graph_field::INPUT, input)).0), &["nested over"]);
}

#[test]
fn many_problems_are_counted_not_listed() {
    let nodes = (0..500).map(|index| node("A", &[&format!("gone{index}")], &[])).collect();
    let error = read_model(&model(graph(nodes, &[], &[])).0).unwrap_err();
    assert_eq!(error.problems().len(), 50);
    has(&error.to_string(), &["500 problems: (1)"]);
}

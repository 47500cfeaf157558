//! Tensor data in each of its forms, attributes, types, test values.

use bytes::Bytes;

use super::super::fields::{
    attribute as attr, graph as graph_field, map, optional, sequence, sparse, tensor as field, type_inner, type_proto,
};
use super::super::{
    Attribute, Dim, ElemType, Error, ErrorKind, Node, Tensor, TensorData, TestValue, Type, constant_tensor,
    read_value_bytes,
};
use super::encode::{Msg, attribute, constant_model, graph, info, model, node, tensor, with};
use super::{has, read_model};

fn initializer(message: Msg) -> Result<Tensor, Error> {
    read_model(&constant_model(message).0).map(|model| model.graph.initializers[0].clone())
}

#[track_caller]
fn data(message: Msg, want: &[u8]) {
    let tensor = initializer(message).unwrap();
    assert_eq!(tensor.bytes().unwrap().as_ref(), want);
}

#[track_caller]
fn bad(message: Msg, parts: &[&str]) {
    has(&initializer(message).unwrap_err().to_string(), parts);
}

#[test]
fn raw_data_is_shared() {
    let file = Bytes::from(constant_model(tensor("w", 1, &[2]).bytes(field::RAW_DATA, &[7; 8])).0);
    let model = super::super::read_bytes(file.clone(), None).unwrap();
    let data = model.graph.initializers[0].bytes().unwrap();
    assert!(file.as_ptr_range().contains(&data.as_ptr()));
}

#[test]
fn typed_fields_become_raw() {
    let floats: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    data(tensor("w", 1, &[2]).bytes(field::FLOAT_DATA, &floats), &floats);
    data(tensor("w", 1, &[2]).float(field::FLOAT_DATA, 1.5).float(field::FLOAT_DATA, -2.0), &floats);
    data(tensor("w", 14, &[1]).bytes(field::FLOAT_DATA, &floats), &floats);
    let doubles: Vec<u8> = 0.1f64.to_le_bytes().to_vec();
    data(tensor("w", 11, &[]).bytes(field::DOUBLE_DATA, &doubles), &doubles);
    data(tensor("w", 7, &[2]).packed(field::INT64_DATA, &[-1, 3]), &[[0xff; 8], [3, 0, 0, 0, 0, 0, 0, 0]].concat());
    data(
        tensor("w", 7, &[2]).int(field::INT64_DATA, -1).packed(field::INT64_DATA, &[0]),
        &[[0xff; 8], [0; 8]].concat(),
    );
    data(tensor("w", 6, &[2]).packed(field::INT32_DATA, &[-2, 1]), &[254, 255, 255, 255, 1, 0, 0, 0]);
    data(tensor("w", 3, &[2]).packed(field::INT32_DATA, &[-2, 1]), &[254, 1]);
    data(tensor("w", 4, &[1]).packed(field::INT32_DATA, &[0xabcd]), &[0xcd, 0xab]);
    data(tensor("w", 10, &[1]).packed(field::INT32_DATA, &[0x3c00]), &[0, 0x3c]);
    data(tensor("w", 16, &[1]).packed(field::INT32_DATA, &[0x3f80]), &[0x80, 0x3f]);
    data(tensor("w", 17, &[2]).packed(field::INT32_DATA, &[1, 0xff]), &[1, 0xff]);
    data(tensor("w", 12, &[1]).packed(field::UINT64_DATA, &[0xffff_ffff]), &[0xff; 4]);
    data(tensor("w", 13, &[1]).packed(field::UINT64_DATA, &[-1]), &[0xff; 8]);
    data(tensor("w", 9, &[3]).packed(field::INT32_DATA, &[0, 1, 2]), &[0, 1, 1]);
    data(tensor("w", 9, &[3]).bytes(field::RAW_DATA, &[0, 1, 2]), &[0, 1, 1]);
    data(tensor("w", 1, &[0, 1 << 62]), &[]);
}

#[test]
fn elements_smaller_than_a_byte() {
    data(tensor("w", 21, &[3]).packed(field::INT32_DATA, &[0x21, 0x03]), &[0x21, 0x03]);
    data(tensor("w", 22, &[3]).bytes(field::RAW_DATA, &[0x21, 0x03]), &[0x21, 0x03]);
    data(tensor("w", 25, &[5]).packed(field::INT32_DATA, &[0xe4, 1]), &[0xe4, 1]);
    // 1, 2, 3, 63, 5: each in six bits, the first in the lowest.
    let packed = [0b10_000001, 0b0011_0000, 0b1111_1100, 5];
    data(tensor("w", 27, &[5]).packed(field::INT32_DATA, &[1, 2, 3, 63, 5]), &packed);
    data(tensor("w", 28, &[5]).bytes(field::RAW_DATA, &packed), &packed);
    bad(tensor("w", 22, &[3]).bytes(field::RAW_DATA, &[1, 2, 3]), &["int4", "[3]", "3 bytes", "2"]);
    for dtype in ElemType::ALL {
        assert_eq!(ElemType::from_onnx(dtype.to_onnx()), Some(*dtype));
        assert_eq!(dtype.bits().is_none(), *dtype == ElemType::String);
    }
}

#[test]
fn strings_are_bytes() {
    let message = tensor("w", 8, &[2]).bytes(field::STRING_DATA, b"a\xff").text(field::STRING_DATA, "");
    let want = vec![Bytes::from_static(b"a\xff"), Bytes::new()];
    assert_eq!(initializer(message).unwrap().data, TensorData::Strings(want));
    bad(tensor("w", 8, &[2]).text(field::STRING_DATA, "a"), &["`w`", "1 strings", "2"]);
    bad(tensor("w", 8, &[1]).bytes(field::RAW_DATA, &[1]), &["string_data"]);
}

#[test]
fn data_that_does_not_fit() {
    let four = [0; 4];
    bad(tensor("w", 1, &[2]).bytes(field::RAW_DATA, &four), &["`w`", "float32", "[2]", "4 bytes", "8"]);
    bad(tensor("w", 1, &[2]), &["0 bytes"]);
    bad(tensor("w", 1, &[-1]), &["negative"]);
    bad(tensor("w", 1, &[1 << 62, 4]), &["too large"]);
    bad(tensor("w", 11, &[1 << 62]), &["too large"]);
    bad(tensor("w", 1, &[1 << 40]), &["needed"]);
    bad(tensor("w", 99, &[1]).bytes(field::RAW_DATA, &four), &["element type 99"]);
    bad(tensor("w", 0, &[1]).bytes(field::RAW_DATA, &four), &["no element type"]);
    bad(tensor("w", 6, &[1]).bytes(field::FLOAT_DATA, &four), &["another type"]);
    bad(tensor("w", 6, &[2]).packed(field::INT32_DATA, &[1]), &["1 numbers", "2"]);
    bad(tensor("w", 6, &[1]).bytes(field::RAW_DATA, &four).packed(field::INT32_DATA, &[1]), &["two fields"]);
    bad(tensor("w", 6, &[1]).msg(field::SEGMENT, Msg::default()), &["segments"]);
}

fn sparse_message(dtype: i64, values: &[u8], indices: Msg, dims: &[i64]) -> Msg {
    let count = (values.len() / 4) as i64;
    Msg::default()
        .msg(sparse::VALUES, tensor("w", dtype, &[count]).bytes(field::RAW_DATA, values))
        .msg(sparse::INDICES, indices)
        .packed(sparse::DIMS, dims)
}

fn sparse_model(message: Msg) -> Msg {
    let graph = graph(vec![node("Identity", &["w"], &["y"])], &[], &["y"]);
    model(graph.msg(graph_field::SPARSE_INITIALIZER, message))
}

#[test]
fn sparse_initializers_are_made_dense() {
    let values = [1u32, 2].map(u32::to_le_bytes).concat();
    let want = [0u32, 1, 0, 0, 2, 0].map(u32::to_le_bytes).concat();
    let linear = tensor("", 7, &[2]).packed(field::INT64_DATA, &[1, 4]);
    let pairs = tensor("", 7, &[2, 2]).packed(field::INT64_DATA, &[0, 1, 1, 1]);
    for indices in [linear, pairs] {
        let model = read_model(&sparse_model(sparse_message(12, &values, indices, &[2, 3])).0);
        let tensor = model.unwrap().graph.initializers[0].clone();
        assert_eq!((tensor.name.as_str(), tensor.dims.as_slice()), ("w", [2, 3].as_slice()));
        assert_eq!(tensor.bytes().unwrap().as_ref(), want);
    }
    let refuse =
        |indices: Msg, dims: &[i64]| super::refusal(&sparse_model(sparse_message(12, &values, indices, dims)).0);
    let at = |list: &[i64]| tensor("", 7, &[2]).packed(field::INT64_DATA, list);
    has(&refuse(at(&[0, 6]), &[2, 3]), &["index outside"]);
    has(&refuse(at(&[0, -1]), &[2, 3]), &["index outside"]);
    has(&refuse(at(&[0, 1]), &[1 << 40]), &["more than"]);
    has(&refuse(at(&[0, 1]), &[1 << 62, 4]), &["too large"]);
    has(&refuse(tensor("", 7, &[2, 2]).packed(field::INT64_DATA, &[0, 3, 1, 1]), &[2, 3]), &["index outside"]);
}

fn first_node(attributes: Vec<Msg>) -> Result<Node, Error> {
    let message = attributes.into_iter().fold(node("Constant", &[], &["y"]), with);
    read_model(&model(graph(vec![message], &[], &["y"])).0).map(|m| m.graph.nodes[0].clone())
}

#[test]
fn constants_in_each_form() {
    let constant = |message: Msg| constant_tensor(&first_node(vec![message]).unwrap()).unwrap();
    let value = tensor("other", 7, &[1]).packed(field::INT64_DATA, &[5]);
    let tensor_of = |dims: Vec<i64>, values: &[i64]| Tensor::from_ints("y", dims, values).unwrap();
    assert_eq!(constant(attribute("value", 4).msg(attr::TENSOR, value)), tensor_of(vec![1], &[5]));
    assert_eq!(constant(attribute("value_int", 2).int(attr::INT, -3)), tensor_of(vec![], &[-3]));
    assert_eq!(constant(attribute("value_ints", 7).packed(attr::INTS, &[1, 2])), tensor_of(vec![2], &[1, 2]));
    assert_eq!(constant(attribute("value_ints", 7)), tensor_of(vec![0], &[]));
    assert_eq!(
        constant(attribute("value_float", 1).float(attr::FLOAT, 0.5)),
        Tensor::from_floats("y", vec![], &[0.5]).unwrap()
    );
    assert_eq!(
        constant(attribute("value_floats", 6).float(attr::FLOATS, 0.5).float(attr::FLOATS, 2.0)),
        Tensor::from_floats("y", vec![2], &[0.5, 2.0]).unwrap()
    );
    assert_eq!(
        constant(attribute("value_string", 3).text(attr::STRING, "hé")),
        Tensor::from_strings("y", vec![], vec!["hé".into()]).unwrap()
    );
    assert_eq!(
        constant(attribute("value_strings", 8).text(attr::STRINGS, "a").text(attr::STRINGS, "b")),
        Tensor::from_strings("y", vec![2], vec!["a".into(), "b".into()]).unwrap()
    );
    let indices = tensor("", 7, &[1]).packed(field::INT64_DATA, &[1]);
    let sparse = sparse_message(6, &[9, 0, 0, 0], indices, &[2]);
    let dense = constant(attribute("sparse_value", 11).msg(attr::SPARSE_TENSOR, sparse));
    assert_eq!(dense.to_ints(), Some(vec![0, 9]));
    for wrong in [vec![], vec![attribute("value_int", 2), attribute("value_float", 1)]] {
        let error = constant_tensor(&first_node(wrong).unwrap()).unwrap_err();
        has(&error.to_string(), &["Constant that makes `y`", "exactly one"]);
    }
    let wrong = first_node(vec![attribute("value_int", 1)]).unwrap();
    has(&constant_tensor(&wrong).unwrap_err().to_string(), &["`value_int`", "float"]);
}

#[test]
fn attributes_by_type() {
    let node = first_node(vec![
        attribute("axis", 2).int(attr::INT, -1),
        attribute("mode", 3).text(attr::STRING, "linear"),
        attribute("bad", 3).bytes(attr::STRING, b"\xff"),
        attribute("zero", 1),
        // Without a type, the one value decides.
        Msg::default().text(attr::NAME, "pads").packed(attr::INTS, &[1, 2]),
    ])
    .unwrap();
    assert_eq!(node.int("axis").unwrap(), -1);
    assert_eq!(node.int_or("none", 3).unwrap(), 3);
    assert_eq!(node.opt_int("none").unwrap(), None);
    assert_eq!(node.float("zero").unwrap(), 0.0);
    assert_eq!(node.string("mode").unwrap(), "linear");
    assert_eq!(node.string_or("none", "x").unwrap(), "x");
    assert_eq!(node.ints("pads").unwrap(), [1, 2]);
    assert!(node.flag("axis", false).unwrap());
    let error = node.float("axis").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attribute);
    assert_eq!(error.node(), Some("Constant that makes `y`"));
    has(&error.to_string(), &["Constant that makes `y`", "`axis`", "int", "float"]);
    has(&node.int("none").unwrap_err().to_string(), &["`none`", "missing"]);
    has(&node.string("bad").unwrap_err().to_string(), &["`bad`", "UTF-8"]);
    let names: Vec<&str> = node.attributes.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["axis", "bad", "mode", "pads", "zero"]);
}

#[test]
fn attributes_that_are_wrong() {
    let refuse = |list: Vec<Msg>, parts: &[&str]| {
        has(&first_node(list).unwrap_err().to_string(), parts);
    };
    refuse(vec![attribute("a", 77)], &["Constant", "`a`", "attribute type 77"]);
    refuse(vec![Msg::default().text(attr::NAME, "a")], &["`a`", "neither"]);
    refuse(vec![attribute("a", 1).int(attr::INT, 3)], &["`a`", "float", "int"]);
    refuse(vec![attribute("a", 1).float(attr::FLOAT, 1.0).int(attr::INT, 3)], &["more than one"]);
    refuse(vec![attribute("a", 2), attribute("a", 2)], &["`a`", "twice"]);
    refuse(vec![attribute("a", 4)], &["`a`", "0 values"]);
    refuse(vec![attribute("a", 2).text(attr::REF_ATTR_NAME, "b")], &["`a`", "outside a function"]);
}

#[test]
fn every_attribute_type() {
    let value = || tensor("", 7, &[]).packed(field::INT64_DATA, &[1]);
    let body = || graph(vec![node("Identity", &["k"], &["z"])], &["k"], &["z"]);
    let ty = || Msg::default().msg(type_proto::TENSOR, Msg::default().int(1, 1));
    let node = first_node(vec![
        attribute("g", 5).msg(attr::GRAPH, body()),
        attribute("gs", 10).msg(attr::GRAPHS, body()).msg(attr::GRAPHS, body()),
        attribute("ts", 9).msg(attr::TENSORS, value()),
        attribute("tp", 13).msg(attr::TYPE_PROTO, ty()),
        attribute("tps", 14).msg(attr::TYPE_PROTOS, ty()).msg(attr::TYPE_PROTOS, ty()),
    ])
    .unwrap();
    assert_eq!(node.graph("g").unwrap().nodes.len(), 1);
    assert_eq!(*node.type_proto("tp").unwrap(), Type::Tensor { dtype: ElemType::Float32, dims: None });
    assert!(matches!(node.attribute("gs"), Some(Attribute::Graphs(list)) if list.len() == 2));
    assert!(matches!(node.attribute("ts"), Some(Attribute::Tensors(list)) if list.len() == 1));
    assert!(matches!(node.attribute("tps"), Some(Attribute::Types(list)) if list.len() == 2));
}

#[test]
fn dims_as_exporters_write_them() {
    let dims = |params: &[&str]| {
        let graph = graph(vec![], &[], &[]).msg(graph_field::INPUT, info("x", params));
        match read_model(&model(graph).0).unwrap().graph.inputs[0].ty.clone() {
            Type::Tensor { dims, .. } => dims.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let named = Dim::Named("batch".to_owned());
    assert_eq!(
        dims(&["batch", "?", "", "-1", "12", " batch "]),
        [named.clone(), Dim::Free, Dim::Free, Dim::Free, Dim::Known(12), named]
    );
    assert_eq!([Dim::from_value(-1), Dim::from_value(0)], [Dim::Free, Dim::Known(0)]);
}

#[test]
fn test_values_by_declared_type() {
    let one = || tensor("x", 7, &[1]).packed(field::INT64_DATA, &[1]);
    let value = TestValue::Tensor(Tensor::from_ints("x", vec![1], &[1]).unwrap());
    let read = |message: Msg, ty: &Type| read_value_bytes(message.0.into(), ty).unwrap();
    let unknown = || Box::new(Type::Unknown);
    assert_eq!(read(one(), &Type::Unknown), value);
    let list = || Msg::default().int(sequence::ELEM_TYPE, 1).msg(sequence::TENSORS, one());
    let values = || TestValue::Sequence(vec![value.clone()]);
    assert_eq!(read(list(), &Type::Sequence(unknown())), values());
    let nested = Msg::default().int(sequence::ELEM_TYPE, 3).msg(sequence::SEQUENCES, list());
    assert_eq!(read(nested, &Type::Sequence(unknown())), TestValue::Sequence(vec![values()]));
    let optional_ty = Type::Optional(unknown());
    assert_eq!(read(Msg::default(), &optional_ty), TestValue::Optional(None));
    let some = Msg::default().int(optional::ELEM_TYPE, 1).msg(optional::TENSOR, one());
    assert_eq!(read(some, &optional_ty), TestValue::Optional(Some(Box::new(value.clone()))));
    let some = Msg::default().int(optional::ELEM_TYPE, 3).msg(optional::SEQUENCE, list());
    assert_eq!(read(some, &optional_ty), TestValue::Optional(Some(Box::new(values()))));
    let pairs = Msg::default().text(map::STRING_KEYS, "k").msg(map::VALUES, list());
    let map_ty = Type::Map { key: ElemType::String, value: unknown() };
    let keys = Tensor::from_strings("", vec![1], vec!["k".into()]).unwrap();
    assert_eq!(read(pairs, &map_ty), TestValue::Map { keys, values: vec![value] });
}

#[test]
fn types_of_every_sort() {
    let float = Msg::default().msg(type_proto::TENSOR, Msg::default().int(1, 1));
    let inner = |ty: Msg| Msg::default().msg(type_inner::ELEM_TYPE, ty);
    let sequence = Msg::default().msg(type_proto::SEQUENCE, inner(float));
    let optional = Msg::default().msg(type_proto::OPTIONAL, inner(sequence));
    let message = Msg::default().text(1, "x").msg(2, optional);
    let graph = graph(vec![], &[], &[]).msg(graph_field::INPUT, message);
    let ty = read_model(&model(graph).0).unwrap().graph.inputs[0].ty.clone();
    let float = Type::Tensor { dtype: ElemType::Float32, dims: None };
    assert_eq!(ty, Type::Optional(Box::new(Type::Sequence(Box::new(float)))));
}

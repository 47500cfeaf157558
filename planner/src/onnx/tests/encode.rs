//! Writes ONNX messages: the smallest encoder that the tests can do with.

use super::super::fields;

/// A message being written.
#[derive(Clone, Default)]
pub struct Msg(pub Vec<u8>);

impl Msg {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, number: u32, wire: u64) {
        self.varint(u64::from(number) << 3 | wire);
    }

    pub fn int(mut self, number: u32, value: i64) -> Self {
        self.key(number, 0);
        self.varint(value.cast_unsigned());
        self
    }

    pub fn float(mut self, number: u32, value: f32) -> Self {
        self.key(number, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn bytes(mut self, number: u32, bytes: &[u8]) -> Self {
        self.key(number, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    pub fn text(self, number: u32, text: &str) -> Self {
        self.bytes(number, text.as_bytes())
    }

    pub fn msg(self, number: u32, message: Msg) -> Self {
        self.bytes(number, &message.0)
    }

    pub fn packed(self, number: u32, values: &[i64]) -> Self {
        let mut inner = Msg::default();
        values.iter().for_each(|value| inner.varint(value.cast_unsigned()));
        self.msg(number, inner)
    }
}

/// A model of opset 21 around a graph.
pub fn model(graph: Msg) -> Msg {
    Msg::default()
        .int(fields::model::IR_VERSION, 10)
        .msg(fields::model::OPSET_IMPORT, opset("", 21))
        .msg(fields::model::GRAPH, graph)
}

pub fn opset(domain: &str, version: i64) -> Msg {
    Msg::default().text(fields::opset::DOMAIN, domain).int(fields::opset::VERSION, version)
}

pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> Msg {
    let mut node = Msg::default().text(fields::node::OP_TYPE, op);
    for input in inputs {
        node = node.text(fields::node::INPUT, input);
    }
    for output in outputs {
        node = node.text(fields::node::OUTPUT, output);
    }
    node
}

/// A float tensor's declaration with one dim per entry, given by name.
pub fn info(name: &str, dims: &[&str]) -> Msg {
    let mut shape = Msg::default();
    for param in dims {
        shape = shape.msg(fields::shape::DIM, Msg::default().text(fields::dim::PARAM, param));
    }
    let tensor = Msg::default().int(fields::type_tensor::ELEM_TYPE, 1).msg(fields::type_tensor::SHAPE, shape);
    Msg::default()
        .text(fields::value_info::NAME, name)
        .msg(fields::value_info::TYPE, Msg::default().msg(fields::type_proto::TENSOR, tensor))
}

/// A graph of nodes from inputs to outputs.
pub fn graph(nodes: Vec<Msg>, inputs: &[&str], outputs: &[&str]) -> Msg {
    let mut graph = Msg::default().text(fields::graph::NAME, "g");
    for node in nodes {
        graph = graph.msg(fields::graph::NODE, node);
    }
    for input in inputs {
        graph = graph.msg(fields::graph::INPUT, info(input, &["n"]));
    }
    for output in outputs {
        graph = graph.msg(fields::graph::OUTPUT, info(output, &["n"]));
    }
    graph
}

/// A tensor without data.
pub fn tensor(name: &str, dtype: i64, dims: &[i64]) -> Msg {
    let mut tensor = Msg::default().text(fields::tensor::NAME, name).int(fields::tensor::DATA_TYPE, dtype);
    for dim in dims {
        tensor = tensor.int(fields::tensor::DIMS, *dim);
    }
    tensor
}

/// An attribute of this type number, to which the caller adds the value.
pub fn attribute(name: &str, kind: i64) -> Msg {
    Msg::default().text(fields::attribute::NAME, name).int(fields::attribute::TYPE, kind)
}

/// An attribute in a function's body that refers to the caller's.
pub fn reference(name: &str, kind: i64, of: &str) -> Msg {
    attribute(name, kind).text(fields::attribute::REF_ATTR_NAME, of)
}

pub fn with(node: Msg, attribute: Msg) -> Msg {
    node.msg(fields::node::ATTRIBUTE, attribute)
}

/// A model whose only content is one initializer that is also its output.
pub fn constant_model(tensor: Msg) -> Msg {
    let graph = graph(vec![node("Identity", &["w"], &["y"])], &[], &["y"]);
    model(graph.msg(fields::graph::INITIALIZER, tensor))
}

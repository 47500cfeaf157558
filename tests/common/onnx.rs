//! Writes small ONNX models, so that a test shows the model that it is about.

#![allow(dead_code)]

/// Element types, by their numbers in ONNX.
pub const F32: i64 = 1;
/// Eight-bit integers.
pub const U8: i64 = 2;
/// Integers of indices and shapes.
pub const I64: i64 = 7;
/// Booleans.
pub const BOOL: i64 = 9;

/// A protobuf message being written.
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

    /// An integer field.
    pub fn int(mut self, number: u64, value: i64) -> Msg {
        self.varint(number << 3);
        self.varint(value.cast_unsigned());
        self
    }

    /// A field of bytes: text, or another message.
    pub fn bytes(mut self, number: u64, bytes: &[u8]) -> Msg {
        self.varint(number << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, number: u64, text: &str) -> Msg {
        self.bytes(number, text.as_bytes())
    }

    fn msg(self, number: u64, message: Msg) -> Msg {
        self.bytes(number, &message.0)
    }
}

/// A node. Attributes follow by `int`, `ints` and `graph`.
#[derive(Clone)]
pub struct Node(Msg);

impl Node {
    /// An operator on values by their names.
    pub fn new(operator: &str, inputs: &[&str], outputs: &[&str]) -> Node {
        let inputs = inputs.iter().fold(Msg::default(), |m, name| m.text(1, name));
        Node(outputs.iter().fold(inputs, |m, name| m.text(2, name)).text(4, operator))
    }

    /// Its name.
    pub fn name(self, name: &str) -> Node {
        Node(self.0.text(3, name))
    }

    /// The domain of its operator.
    pub fn domain(self, domain: &str) -> Node {
        Node(self.0.text(7, domain))
    }

    fn attribute(self, name: &str, kind: i64, value: Msg) -> Node {
        let mut attribute = Msg::default().text(1, name).int(20, kind);
        attribute.0.extend(value.0);
        Node(self.0.msg(5, attribute))
    }

    /// An integer attribute.
    pub fn int(self, name: &str, value: i64) -> Node {
        self.attribute(name, 2, Msg::default().int(3, value))
    }

    /// An attribute of several integers.
    pub fn ints(self, name: &str, values: &[i64]) -> Node {
        self.attribute(name, 7, values.iter().fold(Msg::default(), |m, v| m.int(8, *v)))
    }

    /// A tensor attribute of f32 whose data lies in another file.
    pub fn external(self, name: &str, tensor: &str, dims: &[i64], location: &str) -> Node {
        self.attribute(name, 4, Msg::default().msg(5, outside(tensor, dims, location)))
    }

    /// A body.
    pub fn graph(self, name: &str, graph: Graph) -> Node {
        self.attribute(name, 5, Msg::default().msg(6, graph.message()))
    }
}

/// A graph, and the model around it.
#[derive(Clone, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    rest: Msg,
    opset: Option<i64>,
    imports: Msg,
}

impl Graph {
    /// A graph without anything.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// A node.
    pub fn node(mut self, node: Node) -> Graph {
        self.nodes.push(node);
        self
    }

    /// How many nodes there are.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Puts the nodes in another order, the same for the same `seed`.
    pub fn shuffled(mut self, mut seed: u64) -> Graph {
        for i in (1..self.nodes.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.nodes.swap(i, (seed >> 33) as usize % (i + 1));
        }
        self
    }

    /// An input. Each dim is a number, a name, or `?`.
    pub fn input(mut self, name: &str, dtype: i64, dims: &[&str]) -> Graph {
        self.rest = self.rest.msg(11, info(name, dtype, dims));
        self
    }

    /// An output.
    pub fn output(mut self, name: &str, dtype: i64, dims: &[&str]) -> Graph {
        self.rest = self.rest.msg(12, info(name, dtype, dims));
        self
    }

    /// A constant.
    pub fn constant(mut self, name: &str, dtype: i64, dims: &[i64], data: &[u8]) -> Graph {
        self.rest = self.rest.msg(5, tensor(name, dtype, dims).bytes(9, data));
        self
    }

    /// A constant of f32.
    pub fn floats(self, name: &str, dims: &[i64], data: &[f32]) -> Graph {
        self.constant(name, F32, dims, &data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    /// A constant of i64.
    pub fn ints(self, name: &str, dims: &[i64], data: &[i64]) -> Graph {
        self.constant(name, I64, dims, &data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    /// A constant of f32 whose data lies in another file.
    pub fn external(mut self, name: &str, dims: &[i64], location: &str) -> Graph {
        self.rest = self.rest.msg(5, outside(name, dims, location));
        self
    }

    /// The version of the standard's operators; 21 where not given.
    pub fn opset(mut self, version: i64) -> Graph {
        self.opset = Some(version);
        self
    }

    /// Another set of operators.
    pub fn import(mut self, domain: &str, version: i64) -> Graph {
        self.imports = self.imports.msg(8, Msg::default().text(1, domain).int(2, version));
        self
    }

    fn message(&self) -> Msg {
        let mut all = self.nodes.iter().fold(Msg::default().text(2, "g"), |m, node| m.bytes(1, &node.0.0));
        all.0.extend(&self.rest.0);
        all
    }

    /// The model's file.
    pub fn model(&self) -> Vec<u8> {
        let standard = Msg::default().text(1, "").int(2, self.opset.unwrap_or(21));
        let mut all = Msg::default().int(1, 10).msg(8, standard);
        all.0.extend(&self.imports.0);
        all.msg(7, self.message()).0
    }

    /// Another model with this graph's nodes, inputs, outputs and constants added to its own.
    pub fn added_to(&self, model: &[u8]) -> Vec<u8> {
        with_graph(model, |graph| {
            let mut all = self.nodes.iter().fold(Msg(graph.to_vec()), |m, node| m.bytes(1, &node.0.0));
            all.0.extend(&self.rest.0);
            all.0
        })
    }
}

/// A model with its nodes in another order, the same for the same `seed`.
pub fn shuffled(model: &[u8], seed: u64) -> Vec<u8> {
    with_graph(model, |graph| {
        let mut nodes = Graph::new();
        let mut rest = Vec::new();
        for (number, field, content) in fields(graph) {
            if number == 1 {
                nodes.nodes.push(Node(Msg(content.to_vec())));
            } else {
                rest.extend(field);
            }
        }
        assert!(nodes.count() > 0, "the model has no nodes");
        let nodes = nodes.shuffled(seed).nodes;
        rest.extend(nodes.iter().fold(Msg::default(), |m, node| m.bytes(1, &node.0.0)).0);
        rest
    })
}

/// A model with something else in the place of its graph.
fn with_graph(model: &[u8], change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut out = Msg::default();
    for (number, field, content) in fields(model) {
        if number == 7 {
            out = out.bytes(7, &change(content));
        } else {
            out.0.extend(field);
        }
    }
    out.0
}

/// The fields of a message: number, all its bytes, and its content.
fn fields(message: &[u8]) -> Vec<(u64, &[u8], &[u8])> {
    let (mut at, mut found) = (0, Vec::new());
    while at < message.len() {
        let (key, used) = varint(&message[at..]);
        let (value, more) = varint(&message[at + used..]);
        let content = at + used + more;
        assert!(key & 7 == 0 || key & 7 == 2, "a field of a kind that models do not have");
        let end = if key & 7 == 2 { content + value as usize } else { content };
        found.push((key >> 3, &message[at..end], &message[content..end]));
        at = end;
    }
    found
}

fn varint(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0;
    for (i, byte) in bytes.iter().enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return (value, i + 1);
        }
    }
    panic!("the model ends within a number")
}

fn tensor(name: &str, dtype: i64, dims: &[i64]) -> Msg {
    dims.iter().fold(Msg::default(), |m, d| m.int(1, *d)).int(2, dtype).text(8, name)
}

fn outside(name: &str, dims: &[i64], location: &str) -> Msg {
    let entry = Msg::default().text(1, "location").text(2, location);
    tensor(name, F32, dims).msg(13, entry).int(14, 1)
}

fn info(name: &str, dtype: i64, dims: &[&str]) -> Msg {
    let dim = |text: &&str| match text.parse::<i64>() {
        Ok(value) => Msg::default().int(1, value),
        Err(_) if *text == "?" => Msg::default(),
        Err(_) => Msg::default().text(2, text),
    };
    let shape = dims.iter().fold(Msg::default(), |m, d| m.msg(1, dim(d)));
    let tensor = Msg::default().int(1, dtype).msg(2, shape);
    Msg::default().text(1, name).msg(2, Msg::default().msg(1, tensor))
}

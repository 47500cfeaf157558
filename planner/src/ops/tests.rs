//! Tests of lowering: dims over symbols, folding, and the forms that the passes look for.

use super::{Cx, Lowered, Val, find, operators};
use crate::graph::{Builder, Op, V};
use crate::onnx::{Attribute, Node};
use crate::shape::SymbolInfo;
use plan::{DType, ExprId, Primitive, SymbolKind, prim::*};

struct Bench {
    cx: Cx<'static>,
}

impl Bench {
    fn new() -> Bench {
        Bench { cx: Cx::new(Builder::new("test")) }
    }

    /// A free extent between two bounds.
    fn symbol(&mut self, name: &str, lo: i64, hi: i64) -> ExprId {
        let kind = SymbolKind::Input { input: 0, axis: 0 };
        let info = SymbolInfo { name: name.to_owned(), kind, lo, hi, step: 1, bound: None };
        let id = self.cx.b.exprs().symbol(info);
        self.cx.b.exprs().of_symbol(id)
    }

    fn input(&mut self, name: &'static str, dims: &[ExprId]) -> V {
        let v = self.cx.b.input(name, DType::F32, dims).unwrap();
        self.cx.bind(name, v.into());
        v
    }

    fn fixed(&mut self, name: &'static str, dims: &[i64]) -> V {
        let dims = self.cx.b.ints(dims);
        self.input(name, &dims)
    }

    fn floats(&mut self, name: &'static str, dims: &[usize], values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let v = self.cx.b.constant(DType::F32, dims, bytes.into(), true).unwrap();
        self.cx.bind(name, v.into());
    }

    fn lower(&mut self, operator: &str, opset: i64, inputs: &[&str], attributes: &[(&str, Attribute)]) -> Lowered {
        let mut node = Node { op_type: operator.into(), opset, outputs: vec!["y".into()], ..Node::default() };
        node.inputs = inputs.iter().map(|i| (*i).to_owned()).collect();
        for (name, value) in attributes {
            node.attributes.insert((*name).to_owned(), value.clone());
        }
        find(operator).unwrap()(&mut self.cx, &node)
    }

    fn one(&mut self, operator: &str, opset: i64, inputs: &[&str], attributes: &[(&str, Attribute)]) -> V {
        match self.lower(operator, opset, inputs, attributes).unwrap().first() {
            Some(Val::Tensor(v)) => *v,
            other => panic!("no tensor: {other:?}"),
        }
    }

    fn dims(&self, v: V) -> String {
        self.cx.b.graph.exprs.display_dims(&self.cx.b.dims(v))
    }

    fn primitives(&self) -> Vec<&'static str> {
        let nodes = self.cx.b.graph.nodes().iter();
        nodes.filter_map(|n| if let Op::Prim(p) = &n.op { Some(p.traits().name) } else { None }).collect()
    }
}

fn text(s: &str) -> Attribute {
    Attribute::String(bytes::Bytes::copy_from_slice(s.as_bytes()))
}

#[test]
fn no_operator_is_listed_twice() {
    let all = operators();
    assert!(all.windows(2).all(|w| w[0].name != w[1].name));
    assert!(all.len() > 200);
}

#[test]
fn windows_over_a_free_extent() {
    let mut t = Bench::new();
    let (n, w) = (t.symbol("n", 1, 8), t.symbol("w", 4, 100));
    let c = t.cx.b.int(3);
    t.input("x", &[n, c, w]);
    t.floats("k", &[5, 3, 2], &[0.5; 30]);
    let strides = ("strides", Attribute::Ints(vec![2]));
    let same = t.one("Conv", 11, &["x", "k"], &[("auto_pad", text("SAME_UPPER")), strides.clone()]);
    let [two, five, nine] = [2, 5, 9].map(|v| t.cx.b.int(v));
    let up = t.cx.b.exprs().ceil_div(w, two);
    assert_eq!(t.cx.b.dims(same), [n, five, up]);
    let plain = t.one("Conv", 11, &["x", "k"], &[strides]);
    let down = t.cx.b.exprs().floor_div(w, two);
    assert_eq!(t.cx.b.dims(plain), [n, five, down]);
    assert!(t.cx.b.graph.guards.is_empty());
    let wide = [("dilations", Attribute::Ints(vec![9]))];
    let long = t.one("Conv", 11, &["x", "k"], &wide);
    let less = t.cx.b.exprs().sub(w, nine);
    assert_eq!(t.cx.b.dims(long), [n, five, less]);
    // Ten elements are not always there: checked when a run begins.
    assert_eq!(t.cx.b.graph.guards.len(), 1);
}

#[test]
fn ceil_mode_drops_a_window_that_begins_in_the_padding() {
    let mut t = Bench::new();
    t.fixed("x", &[1, 1, 2, 5]);
    let attributes = [
        ("kernel_shape", Attribute::Ints(vec![1, 2])),
        ("strides", Attribute::Ints(vec![3, 3])),
        ("ceil_mode", Attribute::Int(1)),
    ];
    let y = t.one("MaxPool", 12, &["x"], &attributes);
    assert_eq!(t.dims(y), "[1, 1, 1, 2]");
}

#[test]
fn scales_of_a_free_extent_are_fractions() {
    let mut t = Bench::new();
    let w = t.symbol("w", 1, 100);
    t.input("x", &[w, w]);
    t.floats("scales", &[2], &[1.5, 2.0]);
    let y = t.one("Resize", 13, &["x", "", "scales"], &[]);
    let (two, three) = (t.cx.b.int(2), t.cx.b.int(3));
    let e = t.cx.b.exprs();
    let (thrice, twice) = (e.mul(w, three), e.mul(w, two));
    let wanted = [e.floor_div(thrice, two), twice];
    assert_eq!(t.cx.b.dims(y), wanted);
}

#[test]
fn softmax_of_old_flattens() {
    let mut t = Bench::new();
    t.fixed("x", &[2, 3, 4]);
    let old = t.one("Softmax", 11, &["x"], &[]);
    let (n, _) = t.cx.b.graph.producer_of(old).unwrap();
    assert_eq!(t.cx.b.graph.node(n).op, Op::View(crate::graph::View::Reshape));
    let before = t.cx.b.graph.nodes().len();
    t.one("Softmax", 13, &["x"], &[]);
    assert_eq!(t.cx.b.graph.nodes().len(), before + 1);
}

#[test]
fn einsum_is_a_matrix_product() {
    let mut t = Bench::new();
    t.fixed("a", &[2, 3, 4]);
    t.fixed("b", &[2, 4, 5]);
    let y = t.one("Einsum", 12, &["a", "b"], &[("equation", text("bij, bjk -> bki"))]);
    assert_eq!(t.dims(y), "[2, 5, 3]");
    assert_eq!(t.primitives(), ["MatMul"]);
    t.fixed("s", &[3, 3]);
    let y = t.one("Einsum", 12, &["s"], &[("equation", text("ii->i"))]);
    assert_eq!(t.dims(y), "[3]");
    assert!(t.lower("Einsum", 12, &["s"], &[("equation", text("iij->i"))]).is_err());
}

#[test]
fn normalisation_by_constants_is_a_product_and_a_sum() {
    let mut t = Bench::new();
    t.fixed("x", &[1, 2, 4, 4]);
    for name in ["scale", "bias", "mean", "var"] {
        t.floats(name, &[2], &[1.0, 2.0]);
    }
    t.one("BatchNormalization", 15, &["x", "scale", "bias", "mean", "var"], &[]);
    let ops: Vec<MapOp> = t.cx.b.graph.nodes().iter().filter_map(|n| single(&n.op)).collect();
    assert_eq!(ops, [MapOp::Mul, MapOp::Add]);
}

fn single(op: &Op) -> Option<MapOp> {
    let Op::Prim(Primitive::Map(map)) = op else { return None };
    map.code.first().map(|i| i.op)
}

#[test]
fn what_does_not_fit_is_an_error() {
    let mut t = Bench::new();
    t.fixed("x", &[1, 3, 8, 8]);
    t.floats("k", &[4, 2, 3, 3], &[0.0; 72]);
    assert!(t.lower("Conv", 11, &["x", "k"], &[]).is_err());
    assert!(t.lower("ReduceSum", 11, &["x"], &[("axes", Attribute::Ints(vec![4]))]).is_err());
    assert!(t.lower("Gelu", 20, &["x"], &[("approximate", text("some"))]).is_err());
    assert!(t.lower("MaxPool", 12, &["x"], &[("kernel_shape", Attribute::Ints(vec![0, -1]))]).is_err());
    assert!(t.lower("Gemm", 13, &["x", "x"], &[]).is_err());
}

#[test]
fn operator_set_6_says_whether_it_trains() {
    let mut t = Bench::new();
    t.fixed("x", &[1, 2, 4, 4]);
    t.fixed("b", &[2]);
    for name in ["scale", "bias", "mean", "var"] {
        t.floats(name, &[2], &[1.0, 2.0]);
    }
    let test = [("is_test", Attribute::Int(1))];
    for (operator, inputs) in
        [("BatchNormalization", &["x", "scale", "bias", "mean", "var"][..]), ("Dropout", &["x"][..])]
    {
        assert!(t.lower(operator, 6, inputs, &[]).is_err(), "{operator}");
        t.one(operator, 6, inputs, &test);
        t.one(operator, 7, inputs, &[]);
    }
    // The second operand stands where `axis` says.
    let axis = [("broadcast", Attribute::Int(1)), ("axis", Attribute::Int(1))];
    let y = t.one("Add", 6, &["x", "b"], &axis);
    assert_eq!(t.dims(y), "[1, 2, 4, 4]");
    assert!(t.lower("Add", 7, &["x", "b"], &axis).is_err());
}

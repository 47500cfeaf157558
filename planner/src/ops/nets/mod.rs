//! Small models, planned, checked and run.

mod control;
mod corners;
mod hostile;
mod packing;
mod shapes;

pub(crate) use crate::memory::tests::run::Data;
use crate::onnx::{Attribute, Dim, ElemType, Graph, Model, Node, Tensor, Type, ValueInfo};
use crate::{DimOption, DimTarget, Options, Planned, plan};
use ::plan::DType;
use runtime::interpret::{InputTensor, Interpreter, Mode, OutputTensor};

pub(crate) fn node(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Attribute)]) -> Node {
    let owned = |list: &[&str]| list.iter().map(|s| s.to_string()).collect();
    let mut node =
        Node { op_type: op.into(), opset: 21, inputs: owned(inputs), outputs: owned(outputs), ..Node::default() };
    for (name, value) in attributes {
        node.attributes.insert(name.to_string(), value.clone());
    }
    node
}

pub(crate) fn int(value: i64) -> Attribute {
    Attribute::Int(value)
}

pub(crate) fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

pub(crate) fn body(graph: Graph) -> Attribute {
    Attribute::Graph(Box::new(graph))
}

/// A constant vector, or a scalar of one number.
pub(crate) fn constant(name: &str, dims: &[i64], values: &[i64]) -> Tensor {
    Tensor::from_ints(name, dims.to_vec(), values).unwrap()
}

pub(crate) fn of_floats(name: &str, dims: &[i64], values: &[f32]) -> Tensor {
    Tensor::from_floats(name, dims.to_vec(), values).unwrap()
}

/// A declared tensor; dims that are no numbers are names.
pub(crate) fn info(name: &str, dtype: ElemType, dims: &str) -> ValueInfo {
    let dims = dims.split_whitespace().map(|d| d.parse().map_or_else(|_| Dim::Named(d.into()), Dim::Known)).collect();
    ValueInfo { name: name.into(), ty: Type::Tensor { dtype, dims: Some(dims) } }
}

pub(crate) fn floats(name: &str, dims: &str) -> ValueInfo {
    info(name, ElemType::Float32, dims)
}

/// A graph whose outputs declare nothing.
pub(crate) fn graph(inputs: Vec<ValueInfo>, constants: Vec<Tensor>, nodes: Vec<Node>, outputs: &[&str]) -> Graph {
    let outputs = outputs.iter().map(|name| ValueInfo { name: name.to_string(), ty: Type::Unknown }).collect();
    Graph { name: "net".into(), nodes, inputs, outputs, initializers: constants, ..Graph::default() }
}

pub(crate) fn dim(name: &str, lo: i64, hi: i64) -> DimOption {
    DimOption { target: DimTarget::Named(name.into()), lo, hi, step: 1 }
}

pub(crate) fn try_planned(graph: Graph, dims: &[DimOption]) -> Result<Planned, crate::Error> {
    let model = Model { ir_version: 10, opsets: [(String::new(), 21)].into(), graph, ..Model::default() };
    plan(model, &Options { dims: dims.to_vec(), strict_workspace: true, ..Options::default() })
}

/// The plan, which the checker has accepted.
pub(crate) fn planned(graph: Graph, dims: &[DimOption]) -> Planned {
    let planned = try_planned(graph, dims).unwrap_or_else(|e| panic!("{e}"));
    if let Err(rejection) = checker::check(&planned.plan, &checker::Points::default()) {
        panic!("{rejection:?}");
    }
    planned
}

pub(crate) fn f32s(dims: &[usize], values: &[f32]) -> Data {
    Data { dtype: DType::F32, dims: dims.to_vec(), bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
}

pub(crate) fn i64s(dims: &[usize], values: &[i64]) -> Data {
    Data { dtype: DType::I64, dims: dims.to_vec(), bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
}

pub(crate) fn bools(dims: &[usize], values: &[bool]) -> Data {
    Data { dtype: DType::Bool, dims: dims.to_vec(), bytes: values.iter().map(|v| u8::from(*v)).collect() }
}

/// Counts up from 1.
pub(crate) fn counting(dims: &[usize]) -> Data {
    let values: Vec<f32> = (1..=dims.iter().product::<usize>()).map(|i| i as f32).collect();
    f32s(dims, &values)
}

/// The outputs, the same from the static arena and from memory taken tensor by tensor.
pub(crate) fn run(planned: &Planned, inputs: &[Data]) -> Vec<OutputTensor> {
    let inputs: Vec<InputTensor<'_>> = inputs.iter().map(Data::view).collect();
    let mut all = Vec::new();
    for mode in [Mode::Static, Mode::Naive] {
        let mut machine = Interpreter::with_mode(planned.plan.clone(), planned.weights.to_vec(), mode).unwrap();
        machine.run(&inputs).unwrap_or_else(|e| panic!("{e}"));
        let outputs = 0..planned.plan.outputs.len();
        all.push(outputs.map(|i| machine.output(i).unwrap()).collect::<Vec<_>>());
    }
    assert_eq!(all[0], all[1]);
    all.swap_remove(0)
}

pub(crate) fn as_f32s(t: &OutputTensor) -> Vec<f32> {
    assert_eq!(t.dtype, DType::F32);
    t.bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

pub(crate) fn as_i64s(t: &OutputTensor) -> Vec<i64> {
    assert_eq!(t.dtype, DType::I64);
    t.bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()
}

//! The walk over a model's nodes: scopes, operands, and collecting what cannot be done.

use super::{Lowered, Val, find, value::Strings, value::dtype_of};
use crate::graph::{Builder, Problem, V};
use crate::onnx::{self, Node, TensorData};
use plan::{DType, ExprId};
use std::cell::Cell;
use std::collections::BTreeMap;

/// A model being lowered.
pub struct Cx<'m> {
    /// Receives primitives.
    pub b: Builder,
    /// What names stand for, innermost body last.
    scopes: Vec<BTreeMap<&'m str, Val>>,
    /// What could not be lowered.
    pub problems: Vec<Found>,
    /// The nodes whose bodies are being lowered, outermost first, as messages call them.
    path: Vec<String>,
    /// Which of the first 64 inputs of the current node were asked for.
    asked: Cell<u64>,
    marker: std::marker::PhantomData<&'m onnx::Model>,
}

/// A node that could not be lowered.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The node, as messages call it, after those in whose bodies it is.
    pub node: String,
    /// Its operator, with the domain where that is not the standard's.
    pub operator: String,
    /// The operator set that holds for it.
    pub opset: i64,
    /// Types and dims of its operands.
    pub operands: Vec<String>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: Option<String>,
    /// Whether the operator itself is not supported.
    pub unsupported: bool,
}

impl From<onnx::Error> for Problem {
    fn from(e: onnx::Error) -> Problem {
        Problem::new(e.to_string())
    }
}

impl<'m> Cx<'m> {
    /// Starts on an empty graph.
    pub fn new(b: Builder) -> Self {
        Cx {
            b,
            scopes: vec![BTreeMap::new()],
            problems: Vec::new(),
            path: Vec::new(),
            asked: Cell::new(0),
            marker: std::marker::PhantomData,
        }
    }

    // ---- operands -----------------------------------------------------------------------------------------------------------

    /// What a name stands for.
    pub fn lookup(&self, name: &str) -> Option<&Val> {
        self.scopes.iter().rev().find_map(|s| s.get(name))
    }

    /// Gives a name its value in the innermost scope.
    pub fn bind(&mut self, name: &'m str, val: Val) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, val);
        }
    }

    /// Input `i` of a node, whatever it is; none where it is absent.
    pub fn opt_val(&self, node: &Node, i: usize) -> Option<Val> {
        self.asked.set(self.asked.get() | 1u64.checked_shl(i as u32).unwrap_or(0));
        self.peek(node, i).cloned()
    }

    /// Input `i` of a node, without asking for it.
    fn peek(&self, node: &Node, i: usize) -> Option<&Val> {
        node.input(i).and_then(|name| self.lookup(name))
    }

    /// Input `i` of a node, whatever it is.
    ///
    /// # Errors
    /// When it is absent.
    pub fn val(&self, node: &Node, i: usize) -> Result<Val, Problem> {
        self.opt_val(node, i).ok_or_else(|| Problem::new(format!("input {i} is absent")))
    }

    /// Input `i` of a node, a tensor; none where it is absent (or an optional that holds none).
    ///
    /// # Errors
    /// When it is no tensor.
    pub fn opt(&self, node: &Node, i: usize) -> Result<Option<V>, Problem> {
        match self.opt_val(node, i) {
            None | Some(Val::Optional(None)) => Ok(None),
            Some(Val::Tensor(v)) => Ok(Some(v)),
            Some(Val::Optional(Some(inner))) => match *inner {
                Val::Tensor(v) => Ok(Some(v)),
                _ => Err(Problem::new(format!("input {i} is no tensor"))),
            },
            Some(Val::Strings(_)) => Err(Problem::new(format!("input {i} holds strings, which only live on the host"))
                .with("compute strings before or after the model")),
            Some(_) => Err(Problem::new(format!("input {i} is no tensor"))),
        }
    }

    /// Input `i` of a node, a tensor.
    ///
    /// # Errors
    /// When it is absent or no tensor.
    pub fn input(&self, node: &Node, i: usize) -> Result<V, Problem> {
        self.opt(node, i)?.ok_or_else(|| Problem::new(format!("input {i} is absent")))
    }

    /// All inputs of a node, tensors.
    ///
    /// # Errors
    /// When one is absent or no tensor.
    pub fn inputs(&self, node: &Node) -> Result<Vec<V>, Problem> {
        (0..node.inputs.len()).map(|i| self.input(node, i)).collect()
    }

    /// The elements of input `i` as expressions; none where it is absent.
    ///
    /// # Errors
    /// When only the run can tell them.
    pub fn opt_exprs(&self, node: &Node, i: usize) -> Result<Option<Vec<ExprId>>, Problem> {
        let Some(v) = self.opt(node, i)? else { return Ok(None) };
        self.b.known(v).map(Some).ok_or_else(|| self.not_known(node, i))
    }

    /// The elements of input `i` as constant integers; none where it is absent.
    ///
    /// # Errors
    /// When they are not known.
    pub fn opt_const_ints(&self, node: &Node, i: usize) -> Result<Option<Vec<i64>>, Problem> {
        let Some(v) = self.opt(node, i)? else { return Ok(None) };
        self.b.known_ints(v).map(Some).ok_or_else(|| self.not_known(node, i))
    }

    /// The elements of input `i` as constant numbers; none where it is absent.
    ///
    /// # Errors
    /// When they are not known.
    pub fn opt_const_floats(&self, node: &Node, i: usize) -> Result<Option<Vec<f64>>, Problem> {
        let Some(v) = self.opt(node, i)? else { return Ok(None) };
        self.b.known_floats(v).map(Some).ok_or_else(|| self.not_known(node, i))
    }

    /// That input `i` is not known while planning, and what to do about it.
    pub(super) fn not_known(&self, node: &Node, i: usize) -> Problem {
        Problem::new(format!(
            "input {i} ({}) must be known while planning, but depends on the data of a run",
            node.input(i).unwrap_or("absent")
        ))
        .with("fix the model input it comes from to a value (`--fix INPUT=VALUE`)")
    }

    /// An integer list that older operator sets give as an attribute and newer ones as input `i`.
    ///
    /// # Errors
    /// When it is given as an input that is not known.
    pub fn ints_attr_or_input(&self, node: &Node, name: &str, i: usize) -> Result<Option<Vec<i64>>, Problem> {
        match node.opt_ints(name)? {
            Some(list) => Ok(Some(list.to_vec())),
            None => self.opt_const_ints(node, i),
        }
    }

    // ---- constants ----------------------------------------------------------------------------------------------------------

    /// A constant of the model.
    ///
    /// # Errors
    /// When its type is unknown.
    pub fn constant(&mut self, tensor: &onnx::Tensor) -> Result<Val, Problem> {
        let dims: Vec<usize> = tensor.dims.iter().map(|d| usize::try_from(*d).unwrap_or(0)).collect();
        match &tensor.data {
            TensorData::Strings(data) => Ok(Val::Strings(Strings { dims, data: data.clone() })),
            TensorData::Bytes(bytes) => {
                let dtype = dtype_of(tensor.dtype).ok_or_else(|| {
                    Problem::new(format!("element type {} of tensor {}", tensor.dtype.name(), tensor.name))
                })?;
                let v = self.b.constant(dtype, &dims, bytes.clone(), true)?;
                self.b.name(v, &tensor.name);
                Ok(v.into())
            }
        }
    }

    // ---- walking ------------------------------------------------------------------------------------------------------------

    /// Lowers a graph in a scope of its own; gives its outputs.
    pub fn graph(&mut self, graph: &'m onnx::Graph, bound: Vec<(&'m str, Val)>) -> Vec<Val> {
        self.scopes.push(bound.into_iter().collect());
        self.body(graph);
        let outputs = graph.outputs.iter().map(|o| self.lookup(&o.name).cloned().unwrap_or(Val::Poison)).collect();
        self.scopes.pop();
        outputs
    }

    /// Lowers initialisers and nodes into the innermost scope.
    pub fn body(&mut self, graph: &'m onnx::Graph) {
        for t in &graph.initializers {
            let val = match self.constant(t) {
                Ok(val) => val,
                Err(p) => {
                    self.report(format!("initialiser {}", t.name), "initialiser", 0, Vec::new(), p, true);
                    Val::Poison
                }
            };
            self.bind(&t.name, val);
        }
        for node in &graph.nodes {
            self.node(node);
        }
    }

    fn node(&mut self, node: &'m Node) {
        let poisoned = node.inputs.iter().any(|i| matches!(self.lookup(i), Some(Val::Poison)));
        let outputs = if poisoned {
            self.unknown(node);
            Vec::new()
        } else {
            let before = std::mem::replace(&mut self.b.origin, origin(node));
            let mark = self.b.mark();
            self.path.push(node.label());
            let outer = self.asked.replace(0);
            let lowered = self.dispatch(node);
            if lowered.is_ok() {
                self.warn_of_unread_inputs(node);
            }
            self.asked.set(outer);
            self.path.pop();
            self.b.origin = before;
            match lowered {
                Ok(outputs) => {
                    let mut kept = Vec::new();
                    outputs.iter().for_each(|val| val.tensors(&mut kept));
                    self.b.forget_steps(&mark, &kept);
                    outputs
                }
                Err(found) => {
                    self.problems.push(*found);
                    Vec::new()
                }
            }
        };
        for (i, name) in node.outputs.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
            let val = outputs.get(i).cloned().unwrap_or(Val::Poison);
            if let Val::Tensor(v) = val {
                self.b.name(v, name);
            }
            self.bind(name, val);
        }
    }

    fn dispatch(&mut self, node: &'m Node) -> Result<Vec<Val>, Box<Found>> {
        let operator = node.operator();
        let operands: Vec<String> = (0..node.inputs.len()).map(|i| self.describe(node, i)).collect();
        let place = self.place();
        let found = |p: Problem, unsupported| {
            Box::new(Found {
                node: place.clone(),
                operator: operator.clone(),
                opset: node.opset,
                operands: operands.clone(),
                what: p.what,
                remedy: p.remedy,
                unsupported,
            })
        };
        let Some(lower) = find(&operator) else {
            let control: Option<Lowered> = super::control::lower(self, node);
            return match control {
                Some(done) => done.map_err(|p| found(p, false)),
                None => Err(found(not_supported(), true)),
            };
        };
        let outputs = lower(self, node).map_err(|p| found(p, false))?;
        let wanted =
            node.outputs.iter().enumerate().filter(|(_, n)| !n.is_empty()).map(|(i, _)| i + 1).max().unwrap_or(0);
        if outputs.len() < wanted {
            return Err(found(Problem::new(format!("output {} is not supported", outputs.len())), true));
        }
        Ok(outputs)
    }

    /// Says which inputs of a node were not asked for: what they mean to the model is lost.
    fn warn_of_unread_inputs(&mut self, node: &Node) {
        if find(&node.operator()).is_none() {
            return;
        }
        let asked = self.asked.get();
        let inputs = node.inputs.iter().take(64).enumerate();
        let unread: Vec<String> = inputs
            .filter(|(i, name)| !name.is_empty() && asked >> i & 1 == 0)
            .map(|(i, name)| format!("input {i} `{name}`"))
            .collect();
        if !unread.is_empty() {
            let (place, operator, opset) = (self.place(), node.operator(), node.opset);
            self.b.warnings.push(format!("{place}: {operator} (opset {opset}) does not use {}", unread.join(", ")));
        }
    }

    /// The innermost node, after those in whose bodies it is.
    fn place(&self) -> String {
        let (last, outer) = self.path.split_last().map_or(("", &[][..]), |(last, outer)| (last.as_str(), outer));
        outer.iter().map(|label| format!("in {label}: ")).chain([last.to_owned()]).collect()
    }

    /// Reports the operators that are not supported of a node that is not lowered, because what it reads is not there: all of
    /// them are told together.
    fn unknown(&mut self, node: &Node) {
        self.path.push(node.label());
        let operator = node.operator();
        if find(&operator).is_none() && !super::control::knows(&operator) {
            let operands = (0..node.inputs.len()).map(|i| self.describe(node, i)).collect();
            self.report(self.place(), &operator, node.opset, operands, not_supported(), true);
        }
        for body in node.attributes.iter().flat_map(|(_, attribute)| attribute.graphs()) {
            body.nodes.iter().for_each(|n| self.unknown(n));
        }
        self.path.pop();
    }

    /// Type and dims of an input, for messages.
    pub fn describe(&self, node: &Node, i: usize) -> String {
        match self.peek(node, i) {
            None if node.input(i).is_some() => "?".into(),
            None => "absent".into(),
            Some(Val::Tensor(v)) => self.b.describe(*v),
            Some(Val::Sequence(items)) => format!("sequence of {}", items.len()),
            Some(Val::Optional(o)) => if o.is_some() { "optional" } else { "empty optional" }.into(),
            Some(Val::Strings(s)) => format!("string{:?}", s.dims),
            Some(Val::Poison) => "?".into(),
        }
    }

    fn report(
        &mut self,
        node: String,
        operator: &str,
        opset: i64,
        operands: Vec<String>,
        p: Problem,
        unsupported: bool,
    ) {
        let operator = operator.to_owned();
        self.problems.push(Found { node, operator, opset, operands, what: p.what, remedy: p.remedy, unsupported });
    }
}

fn not_supported() -> Problem {
    Problem::new("the operator is not supported")
        .with("export the model without it; docs/operators.md lists the operators, docs/adding-an-operator.md adds one")
}

/// The name that the steps of a node carry: its own, or its first output's.
fn origin(node: &Node) -> String {
    if node.name.is_empty() { node.output(0).unwrap_or(&node.op_type).to_owned() } else { node.name.clone() }
}

/// The element type that an attribute's number names.
///
/// # Errors
/// When it names none, or strings.
pub fn dtype_attr(number: i64) -> Result<DType, Problem> {
    onnx::ElemType::from_onnx(number)
        .and_then(dtype_of)
        .ok_or_else(|| Problem::new(format!("element type number {number} is not supported here")))
}

//! A model as lowering sees it: names, nodes and types, with nothing of the file format left.

use std::collections::BTreeMap;

use super::attribute::Attributes;
use super::cost::Meter;
use super::elem::ElemType;
use super::error::quote;
use super::tensor::Tensor;

/// Versions of operator sets by domain; the standard's domain is `""`.
pub type OpsetMap = BTreeMap<String, i64>;

/// A model that has been read and checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Version of the file format.
    pub ir_version: i64,
    /// The imported operator sets.
    pub opsets: OpsetMap,
    /// The tool that wrote the file and its version, as far as the file says.
    pub producer: String,
    /// The model's own domain.
    pub domain: String,
    /// The model's own version.
    pub model_version: i64,
    /// Free-form notes, in the order of the file.
    pub metadata: Vec<(String, String)>,
    /// What the model computes.
    pub graph: Graph,
    /// Functions that nodes may call, each key (domain, name, overload) once.
    pub functions: Vec<Function>,
    /// The files of the model's folder that hold data of its tensors, by the names it has for them.
    pub files: Vec<String>,
    /// What is left of the memory that a model of this size may take.
    pub(crate) meter: Meter,
}

/// A graph: the model's own, or the body of an `If`, `Loop` and the like.
///
/// Nodes are in topological order. Every name that is used is defined: in the graph itself, or in a
/// graph around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Its nodes, each after those whose results it uses.
    pub nodes: Vec<Node>,
    /// Its inputs; those that are also initialisers are left out.
    pub inputs: Vec<ValueInfo>,
    /// Its outputs.
    pub outputs: Vec<ValueInfo>,
    /// Its constants; sparse ones made dense.
    pub initializers: Vec<Tensor>,
    /// Types of inner values, as far as the file gives them: hints, which may be wrong.
    pub value_infos: Vec<ValueInfo>,
}

/// One call of an operator or a local function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its name, often empty and not always unique: for messages only.
    pub name: String,
    /// The operator.
    pub op_type: String,
    /// The operator's domain; `""` for the standard's.
    pub domain: String,
    /// Which of several local functions of the same name is meant.
    pub overload: String,
    /// The version of the domain's operator set that holds for this node (in a function, the
    /// function's own); 1 for a local function whose domain nobody imports.
    pub opset: i64,
    /// Names of the values it reads; `""` where an optional input is absent.
    pub inputs: Vec<String>,
    /// Names of the values it makes; `""` where an optional output is not wanted.
    pub outputs: Vec<String>,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A function that the model brings along.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Function {
    /// Its domain.
    pub domain: String,
    /// Its name, which nodes give as `op_type`.
    pub name: String,
    /// Tells functions of the same name apart.
    pub overload: String,
    /// Names of its parameters.
    pub inputs: Vec<String>,
    /// Names of its results.
    pub outputs: Vec<String>,
    /// Attributes without a default.
    pub attributes: Vec<String>,
    /// Attributes with their defaults.
    pub defaults: Attributes,
    /// Its body, in topological order.
    pub nodes: Vec<Node>,
    /// The operator sets it imports itself.
    pub opsets: OpsetMap,
}

/// A name and what is declared of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueInfo {
    /// The value's name.
    pub name: String,
    /// Its declared type.
    pub ty: Type,
}

/// A declared type.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Type {
    /// Nothing is declared.
    #[default]
    Unknown,
    /// A tensor.
    Tensor {
        /// The type of its elements.
        dtype: ElemType,
        /// Its extents; nothing where not even the rank is known.
        dims: Option<Vec<Dim>>,
    },
    /// A sparse tensor.
    SparseTensor {
        /// The type of its elements.
        dtype: ElemType,
        /// Its extents; nothing where not even the rank is known.
        dims: Option<Vec<Dim>>,
    },
    /// A list of values of one type.
    Sequence(Box<Type>),
    /// A value or none.
    Optional(Box<Type>),
    /// A map.
    Map {
        /// The type of the keys: an integer type or string.
        key: ElemType,
        /// The type of the values.
        value: Box<Type>,
    },
    /// Something only its domain knows.
    Opaque,
}

/// A declared extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A number, not negative.
    Known(i64),
    /// A symbol: the same name is the same extent.
    Named(String),
    /// Not known and without a name.
    Free,
}

impl Dim {
    /// What a number in a file means: negative ones stand for an unknown extent.
    pub fn from_value(value: i64) -> Self {
        if value < 0 { Self::Free } else { Self::Known(value) }
    }

    /// What a name in a file means: exporters also write numbers and several sorts of "unknown".
    pub fn from_param(param: &str) -> Self {
        match param.trim() {
            "" | "?" | "None" => Self::Free,
            name => match name.parse() {
                Ok(value) => Self::from_value(value),
                Err(_) => Self::Named(name.to_owned()),
            },
        }
    }
}

impl Model {
    /// The function that a node of this domain, operator and overload calls.
    pub fn function(&self, domain: &str, name: &str, overload: &str) -> Option<&Function> {
        self.functions.iter().find(|f| f.key() == (domain, name, overload))
    }
}

impl Function {
    /// What tells it from others: domain, name, overload.
    pub fn key(&self) -> (&str, &str, &str) {
        (&self.domain, &self.name, &self.overload)
    }

    pub(crate) fn label(&self) -> String {
        let domain = if self.domain.is_empty() { "ai.onnx" } else { &self.domain };
        format!("function {}", quote(&format!("{domain}::{}", self.name)))
    }
}

impl Node {
    /// The operator's name with its domain where that is not the standard's.
    pub fn operator(&self) -> String {
        if self.domain.is_empty() { self.op_type.clone() } else { format!("{}::{}", self.domain, self.op_type) }
    }

    /// How messages call this node: operator, and its name or that of its first output.
    pub fn label(&self) -> String {
        let operator = quote(&self.operator());
        let operator = operator.trim_matches('`');
        match self.outputs.iter().find(|name| !name.is_empty()) {
            _ if !self.name.is_empty() => format!("{operator} {}", quote(&self.name)),
            Some(output) => format!("{operator} that makes {}", quote(output)),
            None => operator.to_owned(),
        }
    }

    /// The name of the `index`th input; nothing if it is absent.
    pub fn input(&self, index: usize) -> Option<&str> {
        self.inputs.get(index).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// The name of the `index`th output; nothing if it is absent.
    pub fn output(&self, index: usize) -> Option<&str> {
        self.outputs.get(index).map(String::as_str).filter(|name| !name.is_empty())
    }
}

//! Attributes of nodes, and typed access to them.

use bytes::Bytes;

use super::error::{Error, ErrorKind, quote};
use super::fields::attribute as field;
use super::model::{Graph, Node, Type};
use super::tensor::{SparseTensor, Tensor};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// A text, which need not be UTF-8.
    String(Bytes),
    /// A tensor.
    Tensor(Box<Tensor>),
    /// A body.
    Graph(Box<Graph>),
    /// A sparse tensor.
    SparseTensor(Box<SparseTensor>),
    /// A type.
    Type(Box<Type>),
    /// Several floats.
    Floats(Vec<f32>),
    /// Several integers.
    Ints(Vec<i64>),
    /// Several texts.
    Strings(Vec<Bytes>),
    /// Several tensors.
    Tensors(Vec<Tensor>),
    /// Several bodies.
    Graphs(Vec<Graph>),
    /// Several sparse tensors.
    SparseTensors(Vec<SparseTensor>),
    /// Several types.
    Types(Vec<Type>),
    /// In a function's body: the attribute of the calling node that has this name.
    Ref {
        /// The attribute of the caller.
        name: String,
        /// The type it must have.
        kind: AttributeKind,
    },
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, $field:ident, $name:literal;)*) => {
        /// The type of an attribute.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AttributeKind { $($(#[$doc])* $kind,)* }

        impl AttributeKind {
            /// Every kind.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The field of each kind's value, in the order of `ALL`.
            pub(crate) const FIELDS: [u32; Self::ALL.len()] = [$(field::$field,)*];

            /// The kind with this number in a file.
            pub(crate) fn from_onnx(number: i32) -> Option<Self> {
                match number { $($number => Some(Self::$kind),)* _ => None }
            }

            /// The field of the message that holds the value.
            pub(crate) fn field(self) -> u32 {
                match self { $(Self::$kind => field::$field,)* }
            }

            /// The name in the standard, in lower case.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }

        impl Attribute {
            /// Its type; for a reference, the type it must resolve to.
            pub fn kind(&self) -> AttributeKind {
                match self {
                    $(Self::$kind(_) => AttributeKind::$kind,)*
                    Self::Ref { kind, .. } => *kind,
                }
            }
        }
    };
}

kinds! {
    /// A float.
    Float = 1, FLOAT, "float";
    /// An integer.
    Int = 2, INT, "int";
    /// A text.
    String = 3, STRING, "string";
    /// A tensor.
    Tensor = 4, TENSOR, "tensor";
    /// A body.
    Graph = 5, GRAPH, "graph";
    /// Several floats.
    Floats = 6, FLOATS, "floats";
    /// Several integers.
    Ints = 7, INTS, "ints";
    /// Several texts.
    Strings = 8, STRINGS, "strings";
    /// Several tensors.
    Tensors = 9, TENSORS, "tensors";
    /// Several bodies.
    Graphs = 10, GRAPHS, "graphs";
    /// A sparse tensor.
    SparseTensor = 11, SPARSE_TENSOR, "sparse tensor";
    /// Several sparse tensors.
    SparseTensors = 12, SPARSE_TENSORS, "sparse tensors";
    /// A type.
    Type = 13, TYPE_PROTO, "type";
    /// Several types.
    Types = 14, TYPE_PROTOS, "types";
}

/// The attributes of a node, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(Vec<(String, Attribute)>);

impl Attributes {
    /// The attribute of this name.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.get(self.find(name).ok()?).map(|(_, value)| value)
    }

    /// Sets an attribute; gives back the one of this name that was there.
    pub fn insert(&mut self, name: String, value: Attribute) -> Option<Attribute> {
        match self.find(&name) {
            Ok(at) => self.0.get_mut(at).map(|slot| std::mem::replace(&mut slot.1, value)),
            Err(at) => {
                self.0.insert(at, (name, value));
                None
            }
        }
    }

    /// Takes an attribute out.
    pub fn remove(&mut self, name: &str) -> Option<Attribute> {
        self.find(name).ok().map(|at| self.0.remove(at).1)
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attribute)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sorts what was read; the error is a name that occurs twice.
    pub(crate) fn from_unsorted(mut list: Vec<(String, Attribute)>) -> Result<Self, Error> {
        list.sort_by(|a, b| a.0.cmp(&b.0));
        let twice = list.windows(2).find_map(|pair| match pair {
            [(a, _), (b, _)] if a == b => Some(a),
            _ => None,
        });
        match twice {
            Some(name) => Err(Error::invalid(format!("attribute {} is given twice", quote(name)))),
            None => Ok(Self(list)),
        }
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Attribute> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(key, _)| key.as_str().cmp(name))
    }
}

impl Attribute {
    /// The graphs that the attribute holds.
    pub(crate) fn graphs(&self) -> &[Graph] {
        match self {
            Self::Graph(graph) => std::slice::from_ref(graph),
            Self::Graphs(graphs) => graphs,
            _ => &[],
        }
    }

    /// The graphs that the attribute holds.
    pub(crate) fn graphs_mut(&mut self) -> &mut [Graph] {
        match self {
            Self::Graph(graph) => std::slice::from_mut(graph),
            Self::Graphs(graphs) => graphs,
            _ => &mut [],
        }
    }
}

macro_rules! typed {
    ($life:lifetime; $($kind:ident: $ty:ty, $opt:ident, $required:ident, $or:ident, $pick:expr;)*) => {
        /// Typed attributes. Each fails, naming node and attribute, if the attribute has another
        /// type; `NAME` also if it is missing.
        impl Node {
            $(
                /// The attribute's value, or nothing if it is not given.
                pub fn $opt<$life>(&$life self, name: &str) -> Result<Option<$ty>, Error> {
                    self.pick(name, AttributeKind::$kind, $pick)
                }

                /// The value of an attribute that must be given.
                pub fn $required<$life>(&$life self, name: &str) -> Result<$ty, Error> {
                    self.$opt(name)?.ok_or_else(|| self.missing(name, AttributeKind::$kind))
                }

                /// The attribute's value, or `default`.
                pub fn $or<$life>(&$life self, name: &str, default: $ty) -> Result<$ty, Error> {
                    Ok(self.$opt(name)?.unwrap_or(default))
                }
            )*
        }
    };
}

typed! { 'a;
    Int: i64, opt_int, int, int_or, |a| match a { Attribute::Int(v) => Some(*v), _ => None };
    Float: f32, opt_float, float, float_or, |a| match a { Attribute::Float(v) => Some(*v), _ => None };
    Ints: &'a [i64], opt_ints, ints, ints_or, |a| match a { Attribute::Ints(v) => Some(v.as_slice()), _ => None };
    Floats: &'a [f32], opt_floats, floats, floats_or, |a| match a { Attribute::Floats(v) => Some(v.as_slice()), _ => None };
    String: &'a [u8], opt_bytes, bytes, bytes_or, |a| match a { Attribute::String(v) => Some(&v[..]), _ => None };
    Strings: &'a [Bytes], opt_bytes_list, bytes_list, bytes_list_or, |a| match a { Attribute::Strings(v) => Some(v.as_slice()), _ => None };
    Tensor: &'a Tensor, opt_tensor, tensor, tensor_or, |a| match a { Attribute::Tensor(v) => Some(&**v), _ => None };
    Graph: &'a Graph, opt_graph, graph, graph_or, |a| match a { Attribute::Graph(v) => Some(&**v), _ => None };
    SparseTensor: &'a SparseTensor, opt_sparse_tensor, sparse_tensor, sparse_tensor_or, |a| match a { Attribute::SparseTensor(v) => Some(&**v), _ => None };
    Type: &'a Type, opt_type_proto, type_proto, type_proto_or, |a| match a { Attribute::Type(v) => Some(&**v), _ => None };
}

impl Node {
    /// The attribute of this name, whatever its type.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.get(name)
    }

    /// A text attribute, or nothing if it is not given. Fails if it is not UTF-8.
    pub fn opt_string(&self, name: &str) -> Result<Option<&str>, Error> {
        self.opt_bytes(name)?.map(|bytes| self.utf8(name, bytes)).transpose()
    }

    /// A text attribute that must be given. Fails if it is not UTF-8.
    pub fn string(&self, name: &str) -> Result<&str, Error> {
        self.utf8(name, self.bytes(name)?)
    }

    /// A text attribute, or `default`. Fails if it is not UTF-8.
    pub fn string_or<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str, Error> {
        Ok(self.opt_string(name)?.unwrap_or(default))
    }

    /// A list of texts, or nothing if it is not given. Fails if one is not UTF-8.
    pub fn opt_strings(&self, name: &str) -> Result<Option<Vec<&str>>, Error> {
        let list = self.opt_bytes_list(name)?;
        list.map(|list| list.iter().map(|bytes| self.utf8(name, bytes)).collect()).transpose()
    }

    /// A list of texts that must be given. Fails if one is not UTF-8.
    pub fn strings(&self, name: &str) -> Result<Vec<&str>, Error> {
        self.opt_strings(name)?.ok_or_else(|| self.missing(name, AttributeKind::Strings))
    }

    /// A flag: an integer attribute that is not 0; `default` if it is not given.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        Ok(self.int_or(name, i64::from(default))? != 0)
    }

    fn pick<'a, T>(
        &'a self,
        name: &str,
        kind: AttributeKind,
        pick: impl Fn(&'a Attribute) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(attribute) = self.attributes.get(name) else {
            return Ok(None);
        };
        match pick(attribute) {
            Some(value) => Ok(Some(value)),
            None if matches!(attribute, Attribute::Ref { .. }) => Err(self.attribute_error(format!(
                "attribute {} refers to a function's attribute outside a function",
                quote(name)
            ))),
            None => Err(self.attribute_error(format!(
                "attribute {} is of type {}, not {}",
                quote(name),
                attribute.kind().name(),
                kind.name()
            ))),
        }
    }

    fn missing(&self, name: &str, kind: AttributeKind) -> Error {
        self.attribute_error(format!("attribute {} of type {} is missing", quote(name), kind.name()))
    }

    fn utf8<'a>(&self, name: &str, bytes: &'a [u8]) -> Result<&'a str, Error> {
        std::str::from_utf8(bytes).map_err(|_| self.attribute_error(format!("attribute {} is not UTF-8", quote(name))))
    }

    fn attribute_error(&self, message: String) -> Error {
        Error::new(ErrorKind::Attribute, message).at_node(self.label())
    }
}

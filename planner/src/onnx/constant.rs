//! The value of a `Constant` node, in each of the forms that opsets have given it.

use super::attribute::Attribute;
use super::error::{Error, ErrorKind};
use super::model::Node;
use super::tensor::Tensor;

/// Bytes that a sparse value may take when dense. Those of nodes in a file were already made dense
/// within the file's budget; this bounds nodes made by hand.
const SPARSE_LIMIT: u64 = 16 << 20;

/// The tensor that a `Constant` node makes, named after the node's output.
///
/// # Errors
/// If the node has not exactly one of the attributes `value`, `sparse_value`, `value_float`,
/// `value_floats`, `value_int`, `value_ints`, `value_string` and `value_strings`, or it is of another
/// type than its name says.
pub fn constant_tensor(node: &Node) -> Result<Tensor, Error> {
    let name = node.output(0).unwrap_or_default();
    let mut values = node.attributes.iter().filter(|(key, _)| {
        matches!(
            *key,
            "value"
                | "sparse_value"
                | "value_float"
                | "value_floats"
                | "value_int"
                | "value_ints"
                | "value_string"
                | "value_strings"
        )
    });
    let (Some((key, value)), None) = (values.next(), values.next()) else {
        let message = "a constant needs exactly one of value, sparse_value, value_float(s), \
                       value_int(s) and value_string(s)";
        return Err(Error::new(ErrorKind::Attribute, message).at_node(node.label()));
    };
    let vector = |count: usize| vec![count as i64];
    let tensor = match (key, value) {
        ("value", Attribute::Tensor(tensor)) => Ok(Tensor { name: name.to_owned(), ..(**tensor).clone() }),
        ("sparse_value", Attribute::SparseTensor(sparse)) => {
            sparse.to_dense(SPARSE_LIMIT).map(|tensor| Tensor { name: name.to_owned(), ..tensor })
        }
        ("value_float", Attribute::Float(value)) => Tensor::from_floats(name, vec![], &[*value]),
        ("value_floats", Attribute::Floats(values)) => Tensor::from_floats(name, vector(values.len()), values),
        ("value_int", Attribute::Int(value)) => Tensor::from_ints(name, vec![], &[*value]),
        ("value_ints", Attribute::Ints(values)) => Tensor::from_ints(name, vector(values.len()), values),
        ("value_string", Attribute::String(text)) => Tensor::from_strings(name, vec![], vec![text.clone()]),
        ("value_strings", Attribute::Strings(texts)) => Tensor::from_strings(name, vector(texts.len()), texts.clone()),
        (key, value) => {
            let kind = value.kind().name();
            let message = format!("attribute `{key}` must not be of type {kind}");
            Err(Error::new(ErrorKind::Attribute, message))
        }
    };
    tensor.map_err(|error| error.at_node(node.label()))
}

//! Reading ONNX files into a form that lowering can walk.
//!
//! What lives here: the wire format (`wire`), the messages, external data, the checks that
//! hold for every model whatever its operators (names, order, versions), and the expansion of local
//! functions. What may not enter: the meaning of an operator. Nothing here knows `Conv` from `Add`;
//! only `Constant` is named, because it is one more way of writing an initialiser.
//!
//! Files are not trusted. Everything that reading allocates is charged to a budget of the file's
//! size and a constant *before* it is allocated, raw tensor data is shared with the mapped file and
//! never copied, and nesting is bounded, so a hostile file gives an [`Error`].

mod attribute;
mod check;
mod constant;
mod cost;
mod decode;
mod elem;
mod error;
mod external;
mod fields;
mod inline;
mod model;
mod order;
mod read;
mod tensor;
mod tensor_decode;
mod testdata;
mod wire;

#[cfg(test)]
mod tests;

pub use attribute::{Attribute, AttributeKind, Attributes};
pub use constant::constant_tensor;
pub use elem::ElemType;
pub use error::{Error, ErrorKind};
pub use inline::inline_functions;
pub use model::{Dim, Function, Graph, Model, Node, OpsetMap, Type, ValueInfo};
pub use read::{IR_VERSIONS, OPSETS, read, read_bytes};
pub use tensor::{SparseTensor, Tensor, TensorData};
pub use testdata::{TestValue, read_value, read_value_bytes};

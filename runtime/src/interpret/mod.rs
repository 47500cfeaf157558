//! Running plans without generating code: for tests, tools and constant folding.

pub(crate) mod call;
pub(crate) mod eager;
pub(crate) mod entry;
mod exec;
mod fold;
mod host;
pub(crate) mod layout;
pub(crate) mod numbers;
pub(crate) mod tensor;
pub(crate) mod walk;

pub use exec::Interpreter;
pub use fold::{FoldInput, Folded, fold};
pub use layout::Mode;
pub use tensor::{InputTensor, OutputTensor};

//! Running plans without generating code: for tests, tools and constant folding.

mod call;
mod eager;
mod entry;
mod exec;
mod fold;
mod host;
mod layout;
mod numbers;
mod tensor;
mod walk;

pub use exec::Interpreter;
pub use fold::{FoldInput, Folded, fold};
pub use layout::Mode;
pub use tensor::{InputTensor, OutputTensor};

//! Turns a plan into Rust, and lays out the weights file.
//!
//! Sees plans only: nothing of ONNX, and no kernels. Equal plans and options give equal text.
//!
//! The text is written directly: what a step is worth reading as is one call on one line, and consts that stand for
//! tensors carry their names as comments.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod context;
mod docs;
mod exprs;
mod head;
mod layout;
mod literal;
mod model;
mod names;
mod operands;
mod places;
mod run;
mod states;
mod steps;
mod weights;

use plan::Plan;

pub use names::snake_case;
pub use weights::write_weights;

/// Weights of more bytes than this are left in a file, unless the user asks for something else.
pub const EMBED_LIMIT: u64 = 512 << 20;

/// Where generated code finds its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WeightsIn {
    /// In the binary, by `include_bytes!`.
    #[default]
    Binary,
    /// In a file that is opened at run time.
    File,
}

/// Which executor the code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// One arena at fixed offsets, taken once: a run allocates nothing, and its addresses never change.
    #[default]
    Static,
    /// Each buffer is taken before the step that first needs it, with the bytes of the run's extents, and given back after the
    /// step that last does.
    Eager,
}

/// How to generate.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Where the weights are.
    pub weights: WeightsIn,
    /// The weights file as `include_bytes!` names it, beside the generated file; none: `NAME.weights`.
    pub weights_file: Option<String>,
    /// The executor.
    pub mode: Mode,
}

/// Why a plan cannot become Rust.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan refers to what it does not hold.
    #[error("the plan contradicts itself: {0}")]
    Plan(String),
    /// The plan has no text form.
    #[error("the plan cannot be written: {0}")]
    Text(#[from] plan::TextError),
}

impl Error {
    pub(crate) fn missing(what: &str, id: impl std::fmt::Debug) -> Error {
        Error::Plan(format!("{what} {id:?} does not exist"))
    }
}

/// The identifiers of tensors at the border with these names in the model, in the order of the plan.
pub fn field_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut namer = names::Namer::default();
    names.into_iter().map(|name| namer.fresh(name)).collect()
}

/// The Rust module of a plan.
///
/// # Errors
/// When the plan refers to what it does not hold.
pub fn generate(plan: &Plan, options: &Options) -> Result<String, Error> {
    model::Generator::new(plan, options)?.module()
}

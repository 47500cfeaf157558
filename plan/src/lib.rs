//! The contract between the planner, the code generator, the checker, the runtime and the kernels.
//!
//! * bare: [`DType`], the parameter structs of the primitives ([`prim`]) and the one table of
//!   primitives ([`for_each_primitive!`]); no allocation, `no_std`;
//! * feature `alloc`: the [`Plan`];
//! * feature `text`: the plan's text form, which round-trips.
//!
//! Data only: no policy, no analysis and no I/O may enter here.
#![cfg_attr(not(any(test, feature = "text")), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

mod checksum;
mod dtype;
mod list;
pub mod prim;
mod table;

#[cfg(feature = "alloc")]
mod expr;
#[cfg(feature = "alloc")]
mod ids;
#[cfg(feature = "alloc")]
mod model;
#[cfg(feature = "text")]
mod text;

pub use checksum::Checksum;
pub use dtype::DType;
pub use list::{Filler, List};
pub use prim::MapExtents;
pub use table::{Primitive, Traits};

#[cfg(feature = "alloc")]
pub use expr::{Expr, Unevaluable, evaluate, evaluate_all, evaluate_node};
#[cfg(feature = "alloc")]
pub use ids::{BlockId, BufferId, ExprId, StepId, SymbolId, ValueId};
#[cfg(feature = "alloc")]
pub use model::{
    Action, Block, Buffer, Capture, Certificate, Class, Eager, Guard, Place, Plan, Port, Refusal, Relation, State,
    Step, Symbol, SymbolKind, Value,
};
#[cfg(feature = "text")]
pub use text::TextError;

/// The largest rank of a tensor that a plan may hold.
pub const MAX_RANK: usize = 8;
/// One entry for each axis.
pub type Axes<T> = List<T, MAX_RANK>;

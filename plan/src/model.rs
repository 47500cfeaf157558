//! The plan: what a model does, in which order, and where every byte lives.

use crate::{Axes, BlockId, BufferId, DType, Expr, ExprId, Primitive, SymbolId, ValueId};
use alloc::{string::String, vec::Vec};

macro_rules! data {
    ($($(#[$m:meta])* pub $kind:ident $name:ident { $($body:tt)* })*) => { $(
        $(#[$m])*
        #[derive(Clone, Debug, PartialEq)]
        #[cfg_attr(feature = "text", derive(serde::Serialize, serde::Deserialize))]
        pub $kind $name { $($body)* }
    )* };
}

data! {
/// Everything that was decided about a model while it was built.
pub struct Plan {
    /// The model's name: the stem of its file, or as given.
    pub name: String,
    /// Who made the model, and with what, in the model's own words.
    pub producer: String,
    /// The alignment of every buffer, in bytes.
    pub align: u64,
    /// Integer expressions; operands stand before their users.
    pub exprs: Vec<Expr>,
    /// Symbols: free dims, and extents that only the run can tell.
    pub symbols: Vec<Symbol>,
    /// What must hold of the symbols when a run begins.
    pub guards: Vec<Guard>,
    /// Inputs, in the model's order.
    pub inputs: Vec<Port>,
    /// Outputs, in the model's order.
    pub outputs: Vec<Port>,
    /// States: outputs fed back as inputs.
    pub states: Vec<State>,
    /// Every tensor, constants and views included.
    pub values: Vec<Value>,
    /// Every piece of memory.
    pub buffers: Vec<Buffer>,
    /// Sequences of steps; the first is the model's own, the others are bodies.
    pub blocks: Vec<Block>,
    /// Bytes of the arena of the static executor: activations, workspace and states.
    pub arena_bytes: u64,
    /// Bytes of the weights file.
    pub weight_bytes: u64,
    /// SHA-256 of the weights file, in hexadecimal.
    pub weight_digest: String,
    /// The [`Checksum`](crate::Checksum) of the weights file: what loading compares.
    pub weight_check: u64,
    /// What is known about the memory plan.
    pub certificate: Certificate,
}

/// A free extent.
pub struct Symbol {
    /// The name in messages.
    pub name: String,
    /// Where its value comes from.
    pub kind: SymbolKind,
    /// The smallest value.
    pub lo: i64,
    /// The largest value.
    pub hi: i64,
    /// Values are `lo`, `lo + step`, ...
    pub step: i64,
}

/// Where a symbol's value comes from.
pub enum SymbolKind {
    /// An axis of an input.
    Input {
        /// The input's index.
        input: u32,
        /// The axis.
        axis: u32,
    },
    /// A step of the run defines it.
    Run {},
}

/// A condition on the symbols that could not be proven while planning.
pub struct Guard {
    /// Left side.
    pub left: ExprId,
    /// What must hold.
    pub relation: Relation,
    /// Right side.
    pub right: ExprId,
    /// What it protects, for the message.
    pub what: String,
}

/// A relation of two integers.
#[derive(Copy, Eq)]
#[allow(missing_docs)]
pub enum Relation {
    Equal,
    LessOrEqual,
}

/// An input or an output.
pub struct Port {
    /// The name in the model.
    pub name: String,
    /// The tensor.
    pub value: ValueId,
}

/// An output that the model keeps and reads as an input in the next run. Zero at first.
pub struct State {
    /// The input's name.
    pub input: String,
    /// The output's name.
    pub output: String,
    /// The tensor that a run reads. Its buffer is of class `Persist`.
    pub current: ValueId,
    /// The tensor that a run leaves. If it lies elsewhere than `current`, the last steps copy it there.
    pub next: ValueId,
}

/// A tensor.
pub struct Value {
    /// The name in messages.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub dims: Axes<ExprId>,
    /// Where it lies.
    pub place: Place,
    /// The tensor of which this is a view, in the same buffer: whoever writes the one writes (a part of) the other.
    /// None: not a view, or not said yet (`planner::memory` then takes the tensor that its buffer was made for).
    pub root: Option<ValueId>,
}

/// Where a tensor lies in a buffer.
pub struct Place {
    /// The buffer.
    pub buffer: BufferId,
    /// The first element, counted in elements from the start of the buffer.
    pub offset: ExprId,
    /// The distance between neighbours along each axis, in elements; none: contiguous in row-major order.
    pub strides: Option<Axes<ExprId>>,
}

/// What a buffer holds, and so who may write it and how long it lives.
#[derive(Copy, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Weights and other constants; `offset` is into the weights file.
    Const,
    /// States, in the arena for as long as the model lives.
    Persist,
    /// An input in the caller's memory; `offset` is its index among the inputs.
    Input,
    /// Activations, outputs among them, in the arena.
    Act,
    /// A step's workspace, in the arena.
    Work,
}

/// A piece of memory.
pub struct Buffer {
    /// The name in messages.
    pub name: String,
    /// What it holds.
    pub class: Class,
    /// Bytes it needs, for the run's symbols.
    pub bytes: ExprId,
    /// The proven largest value of `bytes`.
    pub max_bytes: u64,
    /// Where it starts: see [`Class`].
    pub offset: u64,
    /// Values that keep it alive beyond its own last use (its views and in-place heirs), in step order.
    pub pinned_by: Vec<ValueId>,
    /// When the eager executor takes and gives back this buffer.
    pub eager: Option<Eager>,
}

/// The lifetime of a buffer in the eager executor, in steps of the block that owns it.
#[derive(Copy, Eq)]
pub struct Eager {
    /// The owning block.
    pub block: BlockId,
    /// Taken before this step of the block.
    pub alloc: u32,
    /// Given back after this step of the block; none: held until the run's end.
    pub free: Option<u32>,
}

/// A sequence of steps.
#[derive(Default)]
pub struct Block {
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One thing to do.
pub struct Step {
    /// The node of the model that it comes from.
    pub name: String,
    /// What to do.
    pub action: Action,
    /// Whether a device graph may record it.
    pub capture: Capture,
}

/// What a step does.
#[allow(clippy::large_enum_variant)]
pub enum Action {
    /// Runs a primitive.
    Run {
        /// The primitive.
        prim: Primitive<ExprId>,
        /// What it reads; none where absent.
        reads: Vec<Option<ValueId>>,
        /// What it writes; none where nobody wants it.
        writes: Vec<Option<ValueId>>,
        /// Its workspace.
        workspace: Option<BufferId>,
        /// The symbols whose values it finds.
        defines: Vec<SymbolId>,
    },
    /// Runs one of two blocks. Both end by writing the same values.
    If {
        /// A boolean of one element.
        cond: ValueId,
        /// Where it is true.
        then_block: BlockId,
        /// Where it is false.
        else_block: BlockId,
    },
    /// Runs a block again and again. The block itself copies what it carries.
    Loop {
        /// The most iterations (i64 of one element); none: no limit.
        trip: Option<ValueId>,
        /// Goes on while this boolean is true; read before each iteration; the body writes it.
        cond: Option<ValueId>,
        /// The number of the iteration, from 0; after the loop, how many there were.
        counter: SymbolId,
        /// The body.
        body: BlockId,
        /// The most iterations for which the plan has room.
        max_trips: ExprId,
    },
    /// Gives a symbol its value.
    Define {
        /// The symbol.
        symbol: SymbolId,
        /// The value.
        value: ExprId,
    },
}

/// Whether a device graph may record a step.
pub enum Capture {
    /// It may.
    Safe {},
    /// It may not, for this reason.
    Seam {
        /// The reason.
        reason: String,
    },
}

/// Figures of the memory plan, in bytes at the buffers' alignment.
#[derive(Default)]
pub struct Certificate {
    /// The sum of all activations and workspaces, each in its own memory.
    pub naive_bytes: u64,
    /// The most bytes live at one step, at the range's maximum: no placement can be smaller.
    pub lower_bound_bytes: u64,
    /// The peak of the eager executor at the range's maximum.
    pub eager_peak_bytes: u64,
    /// The most bytes that a single step reads and writes: no order can be better.
    pub order_bound_bytes: u64,
    /// Bytes of states.
    pub persist_bytes: u64,
    /// Whether the arena is proven to be the smallest for this order.
    pub optimal: bool,
    /// What could not share memory, and why.
    pub refusals: Vec<Refusal>,
}

/// A sharing of memory that was not possible.
pub struct Refusal {
    /// The step at which it would have been.
    pub step: String,
    /// The value that would have been written over or viewed.
    pub value: ValueId,
    /// Why not.
    pub reason: String,
}
}

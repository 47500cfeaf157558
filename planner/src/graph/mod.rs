//! The planner's intermediate representation: primitives, views and control flow over typed values.
//!
//! A value has a type and symbolic dims, and perhaps known contents. Nodes are in topological order within their block.
//! No ONNX names decide anything here: they are carried for messages only.

mod broadcast;
mod builder;
mod emit;
mod fold;
mod found;
mod known;
mod nodes;
mod text;
mod verify;

pub use builder::{Builder, Problem};
pub use found::{Counted, Mark};
pub use known::constant_bits;
pub use verify::Broken;

use crate::{shape::Exprs, workspace::Bound};
use bytes::Bytes;
use plan::{Axes, DType, ExprId, Primitive, Relation, SymbolId};
use std::rc::Rc;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
        impl $name {
            /// The index into the graph's list.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )* };
}
ids! {
    /// A value of the graph.
    V,
    /// A node of the graph.
    N,
    /// A block: a sequence of nodes.
    B,
    /// A constant's data.
    C
}

/// A model in primitives.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The model's name.
    pub name: String,
    /// Who made it.
    pub producer: String,
    /// Extents.
    pub exprs: Exprs,
    /// Values.
    pub values: Vec<Value>,
    /// Nodes, in no order; blocks order them. They are changed by the methods of [`nodes`] alone.
    nodes: Vec<Node>,
    /// Blocks; the first is the model's own.
    pub blocks: Vec<Block>,
    /// Data of constants.
    pub constants: Vec<Constant>,
    /// Bytes of the constants that the model brings.
    pub given_bytes: usize,
    /// Bytes of the constants that were computed from them while planning, and are still there.
    pub folded_bytes: usize,
    /// Inputs.
    pub inputs: Vec<Port>,
    /// Outputs.
    pub outputs: Vec<Port>,
    /// States: (input, output) positions.
    pub states: Vec<(usize, usize)>,
    /// What must hold when a run begins.
    pub guards: Vec<Guard>,
}

/// A named end of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// The name in the model.
    pub name: String,
    /// The value.
    pub value: V,
}

/// A condition on symbols that is checked when a run begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// Left side.
    pub left: ExprId,
    /// What must hold.
    pub relation: Relation,
    /// Right side.
    pub right: ExprId,
    /// What it protects.
    pub what: String,
}

/// A tensor.
#[derive(Clone, Debug)]
pub struct Value {
    /// The name in messages.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub dims: Axes<ExprId>,
    /// Where it comes from.
    pub source: Source,
    /// The elements as expressions, where they are known: integers and booleans only.
    pub known: Option<Rc<[ExprId]>>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The caller.
    Input(u32),
    /// The model.
    Const(C),
    /// A node's write.
    Node(N, u32),
    /// What the owning loop carries into its body.
    Carried,
}

/// A constant's data.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Little-endian elements in row-major order.
    pub bytes: Bytes,
    /// Whether the data is the model's own (else computed while planning).
    pub original: bool,
    /// Whether the data is part of [`Graph::folded_bytes`].
    pub counted: bool,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// The name of the model's node that it comes from.
    pub name: String,
    /// What it does.
    pub op: Op,
    /// What it reads; none where absent.
    pub reads: Vec<Option<V>>,
    /// What it writes; none where nobody wants it.
    pub writes: Vec<Option<V>>,
    /// The symbols that it defines.
    pub defines: Vec<SymbolId>,
    /// The workspace that was reserved for it when lowering ended; none: nothing was, or it has gone to another node.
    pub reserved: Option<Bound>,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum Op {
    /// Runs a primitive.
    Prim(Primitive<ExprId>),
    /// Looks at read 0 in another way, without moving anything.
    View(View),
    /// Runs one of two blocks, whose results become the writes. Read 0: a boolean of one element.
    If {
        /// Where it is true.
        then_block: B,
        /// Where it is false.
        else_block: B,
    },
    /// Runs a block again and again. Reads: the most iterations? (i64), the condition? (bool), then the initial value of each carried
    /// one. Writes: the last value of each carried one, then the stacked rows of each further result.
    Loop(LoopOp),
}

/// The parts of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopOp {
    /// The body. Its results: the next condition? (as `has_cond` says), the next value of each carried one, then the rows to stack.
    pub body: B,
    /// The number of the iteration, from 0; afterwards how many there were.
    pub counter: SymbolId,
    /// What the body sees of each carried value.
    pub carried: Vec<V>,
    /// Whether the first result of the body is the next condition.
    pub has_cond: bool,
    /// The most iterations there can be: stacked writes have room for these.
    pub max_trips: ExprId,
}

/// How a view looks at its operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View {
    /// The same elements in row-major order under other dims.
    Reshape,
    /// Axis `i` of the view is axis `perm[i]` of the operand.
    Permute(Axes<u8>),
    /// Along each axis from `start` with `step` (not 0; negative goes back).
    Slice {
        /// First index along each axis.
        start: Axes<ExprId>,
        /// Distance along each axis.
        step: Axes<i64>,
    },
    /// The operand repeated along leading axes and axes of extent 1, by the rules of NumPy.
    Broadcast,
}

/// A sequence of nodes.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The nodes, operands first.
    pub nodes: Vec<N>,
    /// What the block hands to the node that owns it: copied to its writes when the block ends.
    pub results: Vec<V>,
    /// Run symbols that get their values when the block ends, before the results are copied (an `If` whose branches differ in
    /// extents: each defines the extents of the joint values).
    pub defines: Vec<(SymbolId, ExprId)>,
}

impl Graph {
    /// The first block: the model's own.
    pub const MAIN: B = B(0);

    /// A value. The graph's own ids are always valid.
    pub fn value(&self, v: V) -> &Value {
        &self.values[v.index()]
    }

    /// A node.
    pub fn node(&self, n: N) -> &Node {
        &self.nodes[n.index()]
    }

    /// The node that writes a value, if one does.
    pub fn producer_of(&self, v: V) -> Option<(N, usize)> {
        match self.value(v).source {
            Source::Node(n, port) => Some((n, port as usize)),
            _ => None,
        }
    }

    /// The data of a constant.
    pub fn constant_of(&self, v: V) -> Option<&Bytes> {
        match self.value(v).source {
            Source::Const(c) => Some(&self.constants[c.index()].bytes),
            _ => None,
        }
    }

    /// Gives back the memory of a computed constant that nothing reads any more.
    pub fn forget(&mut self, v: V) {
        let Source::Const(c) = self.value(v).source else { return };
        let Some(constant) = self.constants.get_mut(c.index()).filter(|c| !c.original) else { return };
        let bytes = std::mem::take(&mut constant.bytes);
        // What others share stays.
        if std::mem::take(&mut constant.counted) && bytes.is_unique() {
            self.folded_bytes = self.folded_bytes.saturating_sub(bytes.len());
        }
    }

    /// The extents, where all are constants.
    pub fn static_dims(&self, v: V) -> Option<Vec<usize>> {
        self.value(v).dims.iter().map(|d| self.exprs.as_const(*d).and_then(|d| usize::try_from(d).ok())).collect()
    }

    /// The blocks that an operation owns.
    pub fn blocks_of(op: &Op) -> Vec<B> {
        match op {
            Op::If { then_block, else_block } => vec![*then_block, *else_block],
            Op::Loop(l) => vec![l.body],
            _ => Vec::new(),
        }
    }
}

//! What can be wrong with a plan.

use plan::{BlockId, Plan, ValueId};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why a plan is rejected.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Reason { $($(#[$doc])* $name),* }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Reason] = &[$(Reason::$name),*];
        }
    };
}

reasons! {
    /// An index points at nothing, or at something that stands later.
    Index,
    /// The blocks do not form a tree.
    Blocks,
    /// A field contradicts the table of primitives or another field: counts of operands, ranks, types, ranges of symbols.
    Malformed,
    /// An offset is not a multiple of the alignment.
    Misaligned,
    /// A buffer ends beyond the arena.
    OutsideArena,
    /// A constant ends beyond the weights file.
    OutsideWeights,
    /// A tensor reaches beyond its buffer.
    OutsideBuffer,
    /// A buffer needs more bytes than its proven maximum.
    Capacity,
    /// An expression has no value where it is needed, or an extent is negative.
    Unevaluable,
    /// A symbol leaves its range.
    SymbolRange,
    /// A view names a root in another buffer, or a root that is a view itself.
    Root,
    /// A step reads bytes that hold something else, or nothing.
    Read,
    /// A step writes where it may not: constants, inputs, a state that is not its own.
    Write,
    /// A step writes bytes of a tensor again that hold that tensor already.
    WrittenTwice,
    /// An operand that the kernel needs contiguous is not.
    Strided,
    /// A step writes over what it reads, where the table does not permit it.
    InPlace,
    /// Two writes of a step overlap, or one overlaps itself.
    WriteOverlap,
    /// A workspace overlaps an operand of its step, or is no workspace.
    Workspace,
    /// The eager executor uses a buffer that it does not hold.
    NotHeld,
    /// The eager executor takes a buffer that it holds.
    TakenTwice,
    /// The eager executor gives back what it does not hold, or what is not its own.
    FreedTwice,
    /// The eager executor never gives a buffer back.
    Leak,
    /// An output lies in the caller's memory.
    EscapingAlias,
    /// A run leaves a state other than it should.
    State,
    /// A state is written before a step that can fail.
    StateBeforeFailure,
    /// A turn of a loop reads what it has overwritten for the next one.
    Carried,
    /// A step that the host decides about is said to be safe to be recorded in a device graph.
    Capture,
    /// A figure of the certificate is wrong.
    Certificate,
    /// No assignment of the symbols satisfies the guards.
    NoPoint,
    /// The plan is too large to be checked.
    TooLarge,
}

/// Which executor was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Executor {
    /// One arena, constant offsets.
    Static,
    /// Buffers taken and given back.
    Eager,
}

/// What a byte holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Owner {
    /// A tensor, or a view of it.
    Value(ValueId),
    /// A tensor, as an earlier iteration or run left it.
    Old(ValueId),
    /// A workspace.
    Workspace,
    /// Nothing.
    Nobody,
}

/// A plan that is not sound: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// What is wrong.
    pub reason: Reason,
    /// The block, and the step in it; its number of steps means the run's end.
    pub step: Option<(BlockId, u32)>,
    /// The tensor.
    pub value: Option<ValueId>,
    /// The bytes in the arena (eager: in an address space of its own), from and to.
    pub bytes: Option<(u64, u64)>,
    /// What the bytes should hold.
    pub expected: Option<Owner>,
    /// What they hold.
    pub found: Option<Owner>,
    /// The executor that was followed; none: wrong for both.
    pub executor: Option<Executor>,
    message: Box<str>,
}

impl Rejection {
    /// A rejection that says `what`.
    pub(crate) fn new(reason: Reason, what: impl Into<String>) -> Rejection {
        let message = what.into().into_boxed_str();
        Rejection { reason, step: None, value: None, bytes: None, expected: None, found: None, executor: None, message }
    }

    /// The tensor in question.
    pub(crate) fn of(mut self, value: ValueId) -> Rejection {
        self.value = Some(value);
        self
    }

    /// The bytes in question.
    pub(crate) fn at(mut self, from: u64, to: u64) -> Rejection {
        self.bytes = Some((from, to));
        self
    }

    /// What the bytes should hold, and what they do.
    pub(crate) fn owners(mut self, expected: Owner, found: Owner) -> Rejection {
        (self.expected, self.found) = (Some(expected), Some(found));
        self
    }

    /// The step, once it is known; writes everything known into the message.
    pub(crate) fn within(mut self, plan: &Plan, step: Option<(BlockId, u32)>, executor: Option<Executor>) -> Rejection {
        use std::fmt::Write;
        (self.step, self.executor) = (step, executor);
        let mut text = String::new();
        if let Some((block, i)) = step {
            let name = plan.blocks.get(block.index()).and_then(|b| b.steps.get(i as usize)).map(|s| s.name.as_str());
            let _ = match name {
                Some(name) => write!(text, "step {i} of block {} `{name}`: ", block.0),
                None => write!(text, "end of the run: "),
            };
        }
        if let Some(v) = self.value {
            let _ = write!(text, "tensor {} `{}`: ", v.0, name_of(plan, v));
        }
        text.push_str(&self.message);
        if let Some((from, to)) = self.bytes {
            let _ = write!(text, ", bytes {from}..{to}");
        }
        if let (Some(expected), Some(found)) = (self.expected, self.found) {
            let _ = write!(text, ", expected {}, found {}", owner(plan, expected), owner(plan, found));
        }
        if let Some(executor) = executor {
            let _ = write!(text, " ({executor:?} executor)");
        }
        self.message = text.into_boxed_str();
        self
    }
}

fn name_of(plan: &Plan, v: ValueId) -> &str {
    plan.values.get(v.index()).map_or("?", |v| v.name.as_str())
}

fn owner(plan: &Plan, owner: Owner) -> String {
    match owner {
        Owner::Value(v) => format!("tensor {} `{}`", v.0, name_of(plan, v)),
        Owner::Old(v) => format!("tensor {} `{}` of an earlier time", v.0, name_of(plan, v)),
        Owner::Workspace => "a workspace".into(),
        Owner::Nobody => "nothing".into(),
    }
}

//! Typed indices: identity inside a plan.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "text", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
        pub struct $name(pub u32);

        impl $name {
            /// The index into the plan's list.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl crate::Filler for $name {
            const FILL: Self = $name(u32::MAX);
        }
    )* };
}

ids! {
    /// An index into `Plan::exprs`.
    ExprId,
    /// An index into `Plan::symbols`.
    SymbolId,
    /// An index into `Plan::values`.
    ValueId,
    /// An index into `Plan::buffers`.
    BufferId,
    /// An index into `Plan::blocks`.
    BlockId,
    /// An index into `Plan::steps`.
    StepId
}

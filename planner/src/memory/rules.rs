//! The rules by which memory is shared, each with a name: a test switches one off and sees that plans go wrong without it.

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A rule that a plan's memory follows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Rule { $($(#[$doc])* $name),* }

        #[cfg(test)]
        impl Rule {
            /// Every rule.
            pub const ALL: &[Rule] = &[$(Rule::$name),*];
        }
    };
}

rules! {
    // Lives.
    /// A use within a body counts at the step that runs the body.
    Captures,
    /// Outputs are held to the run's end.
    HeldOutputs,
    /// A workspace is in use while its step runs.
    Workspaces,
    /// What is written and never read lives for a step.
    DeadOutputs,
    /// States have their places for as long as the model lives.
    States,
    /// Buffers begin and end at the plan's alignment.
    Aligned,
    /// What is known of a body's memory counts at the step that runs it.
    InnerPeaks,
    /// What is taken before its size is known is taken at its largest.
    KnownSizes,
    /// Views of views are views of what lies beneath.
    FlatViews,
    // Taking memory, for whatever reason.
    /// Constants, the caller's inputs and states are nobody's to take.
    OwnClass,
    /// What belongs to an outer block is not a body's to take.
    OwnBlock,
    /// Outputs are not taken.
    NotOutput,
    /// Only the last use of all that lies in a buffer takes it.
    LastUse,
    // Writing over an operand.
    /// The kernel permits this operand and this result.
    KernelPermits,
    /// The step reads nothing else there.
    ReadOnce,
    /// Elements and buffers of one size.
    SameSize,
    /// The same extents.
    SameExtents,
    /// Both lie contiguously, from the start, and are all that their buffers hold.
    WholeBuffer,
    /// The result is no state.
    NoStateWritten,
    /// The result's memory is not in use before.
    ResultBegins,
    // Copies that are none.
    /// What was written as the source is now the result.
    Renamed,
    // Concatenations in place.
    /// The result's memory is not in use before.
    JoinBegins,
    /// An operand that is a part of a tensor lies there as in the result, and all other parts do, too.
    JoinPieces,
    /// The place in the result is known before the run.
    JoinKnownPlace,
    /// All that lies in an operand's memory has elements of its size.
    JoinElementSize,
    /// What touches an operand can do with strides, and it has no other views.
    JoinStrides,
    /// No step writes one part of a result while it touches another, where they interleave.
    JoinApart,
    /// No operand is placed where the peak would rise.
    JoinPeak,
    // States in place.
    /// The next value has the state's extents and fills its memory.
    StateShape,
    /// Nothing can fail from the writer of the next value on.
    StateSafe,
    /// The state is not read after its next value is written.
    StateRead,
    /// A writer that reads the state may write over what it reads.
    StatePermits,
}

/// Which rules hold: all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    #[cfg(test)]
    off: Option<Rule>,
}

impl Rules {
    /// Whether a rule holds.
    pub(crate) fn hold(self, rule: Rule) -> bool {
        #[cfg(test)]
        return self.off != Some(rule);
        #[cfg(not(test))]
        {
            let _ = rule;
            true
        }
    }

    /// An error where a rule holds and what it asks is not given.
    pub(crate) fn ask<E>(self, rule: Rule, given: bool, why: E) -> Result<(), E> {
        if given || !self.hold(rule) { Ok(()) } else { Err(why) }
    }

    /// All rules but one.
    #[cfg(test)]
    pub(crate) fn without(rule: Rule) -> Rules {
        Rules { off: Some(rule) }
    }
}

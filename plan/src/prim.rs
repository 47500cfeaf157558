//! The parameters of the primitives.
//!
//! Extents that may depend on a symbol have the type `E`: an index into the plan's expressions while
//! planning, an `i64` when a kernel is called. Dims of operands are not parameters: the views carry them.
//!
//! Operand lists below name reads as `r0, r1, …` and writes as `w0, w1, …`; `?` marks one that may be absent.

use crate::Filler;

/// Maps the extents of a parameter struct, for evaluation or for moving between expression tables.
pub trait MapExtents<E> {
    /// The same struct over other extents.
    type Over<F: Filler>;
    /// The struct with `f` of each extent.
    fn map_extents<F: Filler>(&self, f: &mut dyn FnMut(E) -> F) -> Self::Over<F>;
}

macro_rules! params {
    ($($(#[$m:meta])* pub $kind:ident $name:ident $(<$e:ident: $bound:ident>)? { $($body:tt)* })*) => { $(
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[cfg_attr(feature = "text", derive(serde::Serialize, serde::Deserialize))]
        pub $kind $name $(<$e: $bound>)? { $($body)* }
    )* };
}

/// Params without extents map to themselves.
macro_rules! fixed {
    ($($name:ident),*) => { $(
        impl<E> MapExtents<E> for $name {
            type Over<F: Filler> = $name;
            fn map_extents<F: Filler>(&self, _: &mut dyn FnMut(E) -> F) -> $name { *self }
        }
    )* };
}

/// Params with extents: the fields in brackets are lists of extents.
macro_rules! over_extents {
    ($($name:ident [$($ext:ident),*] { $($same:ident),* }),* $(,)?) => { $(
        impl<E: Filler> MapExtents<E> for $name<E> {
            type Over<F: Filler> = $name<F>;
            fn map_extents<F: Filler>(&self, f: &mut dyn FnMut(E) -> F) -> $name<F> {
                $name { $($ext: self.$ext.map(&mut *f),)* $($same: self.$same,)* }
            }
        }
    )* };
}

mod map;
mod movement;
mod product;
mod reduce;
mod select;
mod sequence;
mod spatial;

pub use map::*;
pub use movement::*;
pub use product::*;
pub use reduce::*;
pub use select::*;
pub use sequence::*;
pub use spatial::*;

//! Compute: one function for each primitive of the plan, over views of memory that others own.
//!
//! Nothing here allocates, knows of graphs, or looks at a clock. Each kernel validates its operands once at
//! entry and returns a [`Fault`] where they are wrong; after that it cannot fail but by the data itself.
#![no_std]
#![warn(clippy::undocumented_unsafe_blocks)]

#[cfg(test)]
extern crate std;

mod call;
mod element;
mod fault;
mod index;
mod isa;
mod number;
mod real;
mod spatial;
mod view;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod workspace_tests;

pub mod activation;
pub mod attention;
pub mod col2im;
pub mod conv;
pub mod conv_transpose;
pub mod copy;
pub mod det;
pub mod dft;
pub mod fill;
pub mod gather;
pub mod grid_sample;
pub mod map;
pub mod matmul;
pub mod nms;
pub mod norm;
pub mod pad;
pub mod pool;
pub mod prepack;
pub mod random;
pub mod reduce;
pub mod resize;
pub mod rnn;
pub mod roi_align;
pub mod scatter;
pub mod select;
pub mod simd;
pub mod small_float;
pub mod softmax;
pub mod topk;
pub mod unique;
pub mod vecmath;
pub mod walk;

pub use call::{Call, Meta, Workspace};
pub use element::{Element, Plain};
pub use fault::Fault;
pub use isa::Isa;
pub use view::{Dst, Shape, Src};

use plan::{Filler, Primitive, for_each_primitive};

macro_rules! dispatch {
    ($($name:ident($ty:ty) = $module:ident::$kernel:ident { $($rest:tt)* }),* $(,)?) => {
        /// Runs a primitive on the operands of `call`.
        ///
        /// # Errors
        /// A [`Fault`] when the operands do not fit the primitive, or the data makes it fail.
        pub fn execute(prim: &Primitive<i64>, call: &mut Call<'_, '_>) -> Result<(), Fault> {
            match prim {
                $(Primitive::$name(p) => $module::$kernel(p, call)),*
            }
        }
    };
}
for_each_primitive!(dispatch);

/// The primitives whose kernels need no workspace.
macro_rules! without_workspace {
    () => {
        Primitive::Map(_)
            | Primitive::Copy(_)
            | Primitive::Concat(_)
            | Primitive::Pad(_)
            | Primitive::Gather(_)
            | Primitive::GatherElements(_)
            | Primitive::GatherNd(_)
            | Primitive::ScatterElements(_)
            | Primitive::ScatterNd(_)
            | Primitive::Reduce(_)
            | Primitive::ArgReduce(_)
            | Primitive::Cumulative(_)
            | Primitive::Pool(_)
            | Primitive::Softmax(_)
            | Primitive::Norm(_)
            | Primitive::Resize(_)
            | Primitive::GridSample(_)
            | Primitive::RoiAlign(_)
            | Primitive::TopK(_)
            | Primitive::NonZero(_)
            | Primitive::Compress(_)
            | Primitive::Iota(_)
            | Primitive::Literal(_)
            | Primitive::Random(_)
            | Primitive::Col2Im(_)
            | Primitive::Prepack(_)
    };
}

/// Bytes of workspace that a primitive needs for operands of these types and dims: the one function that sizes it, for the planner,
/// for the plan and for the kernel itself, whatever the instruction set. It never shrinks when an extent grows, so its value at the
/// largest extents bounds it over a range. A primitive without a line here does not compile: none is known to need nothing.
///
/// # Errors
/// A [`Fault`] when the operands do not fit the primitive; [`Fault::Extent`] where no address space holds an operand or the workspace.
pub fn workspace(prim: &Primitive<i64>, reads: &[Option<Meta>], writes: &[Option<Meta>]) -> Result<usize, Fault> {
    let bytes = match prim {
        Primitive::MatMul(p) => matmul::workspace(p, of_memory(reads)?, of_memory(writes)?)?,
        Primitive::Conv(p) => conv::workspace(p, of_memory(reads)?, of_memory(writes)?)?,
        Primitive::ConvTranspose(p) => conv_transpose::workspace(p, of_memory(reads)?, of_memory(writes)?)?,
        Primitive::Rnn(p) => rnn::workspace(p, of_memory(reads)?, of_memory(writes)?)?,
        Primitive::Attention(p) => attention::workspace(p, of_memory(reads)?, of_memory(writes)?)?,
        Primitive::Unique(p) => unique::workspace(p, of_memory(reads)?, of_memory(writes)?)?,
        Primitive::NonMaxSuppression(p) => nms::workspace(p, of_memory(reads)?, of_memory(writes)?)?,
        Primitive::Dft(p) => dft::workspace(p, of_memory(reads)?, of_memory(writes)?)?,
        Primitive::Det(p) => det::workspace(p, of_memory(reads)?, of_memory(writes)?)?,
        without_workspace!() => 0,
    };
    if isize::try_from(bytes).is_ok() { Ok(bytes) } else { Err(Fault::Extent) }
}

/// Whether a primitive may need workspace, whatever its operands are.
pub const fn uses_workspace<E: Filler>(prim: &Primitive<E>) -> bool {
    !matches!(prim, without_workspace!())
}

/// The operands, if an address space can hold each, with extents of zero taken for one: products of some of their extents fit then.
fn of_memory(operands: &[Option<Meta>]) -> Result<&[Option<Meta>], Fault> {
    let fits = |meta: &Meta| {
        let count = meta.dims.iter().try_fold(1usize, |n, d| n.checked_mul((*d).max(1)));
        count.and_then(|n| meta.dtype.bytes_of(n)).is_some_and(|bytes| isize::try_from(bytes).is_ok())
    };
    if operands.iter().flatten().all(fits) { Ok(operands) } else { Err(Fault::Extent) }
}

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

use plan::{Primitive, for_each_primitive};

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

/// Bytes of workspace that a primitive needs for operands of these types and dims. It never shrinks when an extent grows,
/// so its value at the largest extents bounds it over a range.
///
/// # Errors
/// A [`Fault`] when the operands do not fit the primitive.
pub fn workspace(prim: &Primitive<i64>, reads: &[Option<Meta>], writes: &[Option<Meta>]) -> Result<usize, Fault> {
    match prim {
        Primitive::MatMul(p) => matmul::workspace(p, reads, writes),
        Primitive::Conv(p) => conv::workspace(p, reads, writes),
        Primitive::ConvTranspose(p) => conv_transpose::workspace(p, reads, writes),
        Primitive::Rnn(p) => rnn::workspace(p, reads, writes),
        Primitive::Attention(p) => attention::workspace(p, reads, writes),
        Primitive::TopK(p) => topk::workspace(p, reads, writes),
        Primitive::Unique(p) => unique::workspace(p, reads, writes),
        Primitive::NonMaxSuppression(p) => nms::workspace(p, reads, writes),
        Primitive::Resize(p) => resize::workspace(p, reads, writes),
        Primitive::Softmax(p) => softmax::workspace(p, reads, writes),
        Primitive::Dft(p) => dft::workspace(p, reads, writes),
        Primitive::Det(p) => det::workspace(p, reads, writes),
        _ => Ok(0),
    }
}

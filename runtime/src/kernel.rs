//! Primitives as something to call, with their row of the table.

use kernels::{Call, Fault};
use plan::{Primitive, Traits, for_each_primitive, prim::*};

/// A primitive's parameters, ready to run.
pub trait Kernel {
    /// The primitive's row of the table.
    fn traits(&self) -> Traits;

    /// Runs the kernel.
    ///
    /// # Errors
    /// A [`Fault`] when the operands do not fit, or the data makes it fail.
    fn run(&self, call: &mut Call<'_, '_>) -> Result<(), Fault>;
}

impl Kernel for Primitive<i64> {
    fn traits(&self) -> Traits {
        Primitive::traits(self)
    }

    fn run(&self, call: &mut Call<'_, '_>) -> Result<(), Fault> {
        kernels::execute(self, call)
    }
}

/// The extents of parameters that are about to run.
type E = i64;

macro_rules! implement {
    ($($name:ident($ty:ty) = $module:ident::$kernel:ident { reads: $rlo:literal..=$rhi:literal, writes: $wlo:literal..=$whi:literal,
        in_place: [$($pair:tt),*], strided_reads: $sr:expr, strided_writes: $sw:expr, fallible: $fallible:literal, random: $random:literal }),* $(,)?) => { $(
        impl Kernel for $ty {
            #[inline]
            fn traits(&self) -> Traits {
                Traits {
                    name: stringify!($name),
                    reads: ($rlo, $rhi),
                    writes: ($wlo, $whi),
                    in_place: &[$($pair),*],
                    strided_reads: $sr,
                    strided_writes: $sw,
                    fallible: $fallible,
                    random: $random,
                }
            }

            #[inline]
            fn run(&self, call: &mut Call<'_, '_>) -> Result<(), Fault> {
                kernels::$module::$kernel(self, call)
            }
        }
    )* };
}
for_each_primitive!(implement);

//! ONNX in, Rust out.
//!
//! A build script plans a model once and for all (`build::Model`, feature `build`); [`include_model!`] brings the Rust
//! that comes of it into the program. See the README for a whole example.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "build")]
pub mod build;

pub use runtime;
pub use runtime::{DType, Error, ErrorKind, Fault, TensorProblem, View};

/// Declares the module of a model that the build script has planned. The name is that of the model: the stem of its file in
/// snake_case, or as the build script says.
///
/// ```ignore
/// flightplan::include_model!(silero_vad_16k);
/// let mut vad = silero_vad_16k::Model::new()?;
/// ```
#[macro_export]
macro_rules! include_model {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[allow(dead_code, unreachable_pub, unused_imports)]
        #[allow(clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction)]
        #[doc = concat!("The model `", stringify!($name), "`.")]
        pub mod $name {
            // The documentation of a program lists private items too: tensors and steps would bury what can be called.
            #[doc(hidden)]
            mod generated {
                include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
            }
            #[doc(inline)]
            pub use generated::*;
        }
    };
}

/// What generated code has only where there is an allocator.
#[doc(hidden)]
#[cfg(feature = "alloc")]
#[macro_export]
macro_rules! if_alloc {
    ($($item:item)*) => { $($item)* };
}

/// What generated code has only where there is an allocator.
#[doc(hidden)]
#[cfg(not(feature = "alloc"))]
#[macro_export]
macro_rules! if_alloc {
    ($($item:item)*) => {};
}

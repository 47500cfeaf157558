//! The generated modules of the plans in `plans.rs`, under lints stricter than most users'.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused_qualifications, unused_lifetimes, clippy::all)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

flightplan::include_model!(rows);
flightplan::include_model!(control);
flightplan::include_model!(total);
flightplan::include_model!(found);
flightplan::include_model!(chain);
flightplan::include_model!(rows_eager);
flightplan::include_model!(control_eager);
flightplan::include_model!(total_eager);
flightplan::include_model!(found_eager);
flightplan::include_model!(chain_eager);
flightplan::include_model!(opened);
flightplan::include_model!(opened_eager);
flightplan::include_model!(flipped);
flightplan::include_model!(stream);
flightplan::include_model!(stream_eager);

/// Row M2. A constant that does not fit the others stops the compiler: each module as it was generated, and with one number changed.
#[doc = include_str!(concat!(env!("OUT_DIR"), "/corrupt.md"))]
pub mod a_corrupt_constant_does_not_compile {}

/// Row D4. What one executor can do is no function of the other: each program that does not compile stands beside one that does.
#[doc = include_str!("../types.md")]
pub mod an_executor_cannot_do_what_the_other_does {}

//! The generated modules of the plans in `plans.rs`, under lints stricter than most users'.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused_qualifications, unused_lifetimes, clippy::all)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

flightplan::include_model!(rows);
flightplan::include_model!(control);
flightplan::include_model!(total);
flightplan::include_model!(found);

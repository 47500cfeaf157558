//! What can go wrong between a caller and a model.

use crate::{DeviceCall, DeviceProblem};
use core::fmt;
use kernels::Fault;
use plan::DType;

/// A name in a message: static in generated code, owned where a plan is interpreted.
#[cfg(feature = "alloc")]
pub type Name = alloc::borrow::Cow<'static, str>;
/// A name in a message.
#[cfg(not(feature = "alloc"))]
pub type Name = &'static str;

/// Why a model could not be made or run. `Debug` prints the same readable text as `Display`, since that is what a program shows of
/// the error that its `main` returns.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct Error {
    kind: ErrorKind,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The kinds of errors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A dim of an input is outside the range that was planned for.
    EnvelopeViolation {
        /// The dim's name.
        symbol: Name,
        /// What was given.
        value: i64,
        /// The smallest value.
        lo: i64,
        /// The largest value.
        hi: i64,
        /// Values are `lo`, `lo + step`, ...
        step: i64,
    },
    /// A condition on the dims that was checked at entry.
    Guard {
        /// What it protects.
        what: Name,
        /// The left side's value.
        left: i64,
        /// What had to hold.
        relation: &'static str,
        /// The right side's value.
        right: i64,
    },
    /// An input, output buffer or state that does not fit.
    Tensor {
        /// The tensor's name.
        name: Name,
        /// What is wrong.
        problem: TensorProblem,
    },
    /// A step failed. States are as they were before the run, where the plan commits them by its last steps.
    Fault {
        /// The step's index, counted through all blocks of the plan.
        step: usize,
        /// The node that the step comes from.
        name: Name,
        /// The primitive.
        primitive: &'static str,
        /// The plan's hash.
        plan: Name,
        /// What happened.
        fault: Fault,
    },
    /// The dims' arithmetic has no value, or a loop does not end.
    Extent {
        /// What was being computed.
        what: Name,
        /// What happened.
        fault: Fault,
    },
    /// The weights are not those that the plan was made with.
    Weights {
        /// What is wrong.
        what: Name,
    },
    /// A file that cannot be read.
    File {
        /// The file.
        path: Name,
        /// Why.
        reason: Name,
    },
    /// The caller's arena is too small or misaligned.
    Arena {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
        /// The alignment needed.
        align: usize,
        /// Whether the address has it.
        aligned: bool,
    },
    /// Memory that could not be had.
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// A device that is not there, and no fallback was allowed.
    Device {
        /// The device asked for.
        requested: Name,
        /// Why it cannot be had.
        reason: Name,
    },
    /// A device that did not do what it was asked to.
    DeviceCall {
        /// What it was asked to do.
        call: DeviceCall,
        /// The step that asked, counted through all blocks of the plan.
        step: Option<usize>,
        /// The tensor or buffer that it was for.
        value: Name,
        /// Its bytes.
        bytes: usize,
        /// Why it did not.
        problem: DeviceProblem,
    },
    /// A call that is forbidden while a device graph is captured.
    CaptureViolation {
        /// The call.
        call: DeviceCall,
        /// The step that made it.
        step: Option<usize>,
        /// The tensor or buffer that it was for.
        value: Name,
    },
    /// A captured executable that does not fit what it is to run on: it was not run.
    Recapture {
        /// What has changed.
        which: Name,
        /// How.
        why: Name,
    },
    /// A plan that contradicts itself.
    Plan {
        /// What is wrong.
        what: Name,
    },
    /// A claim on a device's memory that its budget does not hold.
    Budget {
        /// Who claims.
        owner: Name,
        /// Bytes claimed.
        bytes: u64,
        /// Bytes left.
        left: u64,
    },
}

/// What is wrong with a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorProblem {
    /// There is none.
    Missing,
    /// Another element type.
    DType {
        /// What was given.
        found: DType,
        /// What is needed.
        wanted: DType,
    },
    /// Another number of axes.
    Rank {
        /// What was given.
        found: usize,
        /// What is needed.
        wanted: usize,
    },
    /// An extent that differs from a fixed one, or from the same dim elsewhere.
    Dim {
        /// The axis.
        axis: usize,
        /// What was given.
        found: i64,
        /// What is needed.
        wanted: i64,
    },
    /// Data of another length than the dims say.
    Length {
        /// Elements given.
        found: usize,
        /// Elements needed.
        wanted: usize,
    },
    /// The same where data is given as bytes.
    Bytes {
        /// Bytes given.
        found: usize,
        /// Bytes needed.
        wanted: usize,
    },
    /// A slice without dims where more than one dim is free.
    Flat,
    /// A boolean that is neither 0 nor 1.
    Bool,
    /// Another number of inputs.
    Count {
        /// How many were given.
        found: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// Not aligned for its elements.
    Misaligned,
}

impl Error {
    /// An error of this kind.
    pub const fn new(kind: ErrorKind) -> Error {
        Error { kind }
    }

    /// What kind of error it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// A dim outside its range.
    pub fn envelope(symbol: impl Into<Name>, value: i64, lo: i64, hi: i64, step: i64) -> Error {
        Error::new(ErrorKind::EnvelopeViolation { symbol: symbol.into(), value, lo, hi, step })
    }

    /// A condition that does not hold.
    pub fn guard(what: impl Into<Name>, left: i64, relation: &'static str, right: i64) -> Error {
        Error::new(ErrorKind::Guard { what: what.into(), left, relation, right })
    }

    /// A tensor that does not fit.
    pub fn tensor(name: impl Into<Name>, problem: TensorProblem) -> Error {
        Error::new(ErrorKind::Tensor { name: name.into(), problem })
    }

    /// A step that failed.
    pub fn step(
        step: usize,
        name: impl Into<Name>,
        primitive: &'static str,
        plan: impl Into<Name>,
        fault: Fault,
    ) -> Error {
        Error::new(ErrorKind::Fault { step, name: name.into(), primitive, plan: plan.into(), fault })
    }

    /// Arithmetic on dims without a value.
    pub fn extent(what: impl Into<Name>, fault: Fault) -> Error {
        Error::new(ErrorKind::Extent { what: what.into(), fault })
    }

    /// Weights that are not the plan's.
    pub fn weights(what: impl Into<Name>) -> Error {
        Error::new(ErrorKind::Weights { what: what.into() })
    }

    /// A file that cannot be read.
    pub fn file(path: impl Into<Name>, reason: impl Into<Name>) -> Error {
        Error::new(ErrorKind::File { path: path.into(), reason: reason.into() })
    }

    /// Memory that could not be had.
    pub const fn out_of_memory(bytes: usize) -> Error {
        Error::new(ErrorKind::OutOfMemory { bytes })
    }

    /// A caller's arena that does not do.
    pub const fn arena(needed: usize, given: usize, align: usize, aligned: bool) -> Error {
        Error::new(ErrorKind::Arena { needed, given, align, aligned })
    }

    /// A device that cannot be had.
    pub fn device(requested: impl Into<Name>, reason: impl Into<Name>) -> Error {
        Error::new(ErrorKind::Device { requested: requested.into(), reason: reason.into() })
    }

    /// A captured executable that must be captured again.
    pub fn recapture(which: impl Into<Name>, why: impl Into<Name>) -> Error {
        Error::new(ErrorKind::Recapture { which: which.into(), why: why.into() })
    }

    /// A plan that contradicts itself.
    pub fn plan(what: impl Into<Name>) -> Error {
        Error::new(ErrorKind::Plan { what: what.into() })
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::EnvelopeViolation { symbol, value, lo, hi, step } => {
                write!(f, "dim `{symbol}` is {value}, but was planned for {lo}..={hi}")?;
                if *step > 1 {
                    write!(f, " in steps of {step}")?;
                }
                f.write_str(": give another size, or plan again with a wider range")
            }
            ErrorKind::Guard { what, left, relation, right } => {
                write!(
                    f,
                    "the sizes of the inputs do not fit together: {what}: {left} {relation} {right} does not hold: give other sizes"
                )
            }
            ErrorKind::Tensor { name, problem: problem @ TensorProblem::Count { .. } } => {
                write!(f, "model `{name}`: {problem}")
            }
            ErrorKind::Tensor { name, problem } => write!(f, "tensor `{name}`: {problem}"),
            ErrorKind::Fault { step, name, primitive, plan, fault } => {
                // Of a hash, a few digits do.
                let plan = if plan.len() == 64 { plan.get(..12).unwrap_or(plan) } else { plan };
                write!(f, "step {step} (`{name}`, {primitive}) of plan {plan}: {fault}")
            }
            ErrorKind::Extent { what, fault } => write!(f, "{what}: {fault}"),
            ErrorKind::Weights { what } => {
                write!(f, "the weights do not belong to this plan: {what}: emit both again, together")
            }
            ErrorKind::File { path, reason } => {
                write!(f, "{path} cannot be read: {reason}: the weights that were emitted with this code belong there")
            }
            ErrorKind::Arena { needed, given, align, aligned } => {
                write!(f, "the arena needs {needed} bytes aligned to {align}, given are {given} bytes")?;
                if *aligned { Ok(()) } else { f.write_str(" at an address that is not aligned") }
            }
            ErrorKind::OutOfMemory { bytes } => {
                write!(f, "out of memory: {bytes} bytes could not be had: free some, or plan again for smaller sizes")
            }
            ErrorKind::Device { requested, reason } => {
                write!(
                    f,
                    "device {requested} is not available: {reason}: ask for another device, or allow the fallback to cpu"
                )
            }
            ErrorKind::DeviceCall { call, step, value, bytes, problem } => {
                write_step(f, *step)?;
                match value.is_empty() {
                    true => write!(f, "{call}: {problem}"),
                    false => write!(f, "{call} of `{value}` ({bytes} bytes): {problem}"),
                }
            }
            ErrorKind::CaptureViolation { call, step, value } => {
                write_step(f, *step)?;
                write!(f, "capture violation: {call}")?;
                if !value.is_empty() {
                    write!(f, " of `{value}`")?;
                }
                f.write_str(" while a device graph is captured: make it a seam, or do it before")
            }
            ErrorKind::Recapture { which, why } => {
                write!(f, "`{which}` is not what was captured: {why}: capture again; nothing was launched")
            }
            ErrorKind::Plan { what } => write!(f, "the plan contradicts itself: {what}: emit it again"),
            ErrorKind::Budget { owner, bytes, left } => {
                write!(
                    f,
                    "{owner} claims {bytes} bytes, but only {left} are left in the budget: free what others hold, or raise it"
                )
            }
        }
    }
}

/// The step that a message is about.
fn write_step(f: &mut fmt::Formatter<'_>, step: Option<usize>) -> fmt::Result {
    step.map_or(Ok(()), |step| write!(f, "step {step}: "))
}

impl fmt::Display for TensorProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorProblem::Missing => f.write_str("it is missing"),
            TensorProblem::DType { found, wanted } => write!(f, "elements are {found} where {wanted} is needed"),
            TensorProblem::Rank { found, wanted } => write!(f, "{found} axes where {wanted} are needed"),
            TensorProblem::Dim { axis, found, wanted } => write!(f, "axis {axis} is {found} where {wanted} is needed"),
            TensorProblem::Length { found, wanted } => write!(f, "{found} elements where {wanted} are needed"),
            TensorProblem::Bytes { found, wanted } => write!(f, "{found} bytes where {wanted} are needed"),
            TensorProblem::Flat => {
                f.write_str("more than one dim is free: give the dims with the data (`View::new(data, dims)`)")
            }
            TensorProblem::Bool => f.write_str("a boolean is neither 0 nor 1"),
            TensorProblem::Count { found, wanted } => write!(f, "{found} inputs where {wanted} are needed"),
            TensorProblem::Misaligned => f.write_str("the data is not aligned for its elements"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_it_all_on_one_line() {
        let error = Error::step(3, "conv_1", "Conv", "0123456789abcdef".repeat(4), Fault::DivisionByZero);
        assert_eq!(error.to_string(), "step 3 (`conv_1`, Conv) of plan 0123456789ab: integer division by zero");
        let error = Error::envelope("width", 7, 32, 960, 32);
        assert_eq!(
            error.to_string(),
            "dim `width` is 7, but was planned for 32..=960 in steps of 32: give another size, or plan again with a wider range"
        );
    }

    #[test]
    fn failures_of_devices_say_what_and_why() {
        let (step, value, bytes) = (Some(3), Name::from("h"), 2048);
        let problem = DeviceProblem::OutOfMemory { bytes: 2048, used: 3072, capacity: 4096 };
        let error = Error::new(ErrorKind::DeviceCall { call: DeviceCall::Alloc, step, value, bytes, problem });
        assert_eq!(
            error.to_string(),
            "step 3: alloc of `h` (2048 bytes): out of device memory: 2048 bytes asked for, 3072 of 4096 are in use"
        );
        let error =
            Error::new(ErrorKind::CaptureViolation { call: DeviceCall::Sync, step: None, value: Name::from("") });
        assert_eq!(
            error.to_string(),
            "capture violation: sync while a device graph is captured: make it a seam, or do it before"
        );
        let error = Error::recapture("x", "its dims were [2] and are [3]");
        assert_eq!(
            error.to_string(),
            "`x` is not what was captured: its dims were [2] and are [3]: capture again; nothing was launched"
        );
    }
}

//! Why a model cannot be planned.

use crate::onnx;
use crate::ops::Found;
use std::fmt::{self, Write};

/// How many problems one error lists; more are only counted.
const LISTED: usize = 50;

/// What to do where a node and its operands do not fit together.
const CONTRADICTION: &str = "\ncheck the values given to free dims and fixed inputs; where these are right, the model contradicts itself, and has \
                             to be exported again";

/// What sort of problem an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The model could not be read.
    Read,
    /// An operator, a type or a form of it is not supported.
    Unsupported,
    /// The model is wrong: shapes or types that do not fit.
    Invalid,
    /// A free dim without a value or range, or an option that fits nothing in the model.
    Options,
    /// The arena exceeds the budget.
    Budget,
    /// The workspace of a step is not what was reserved for its node, under strict verification.
    Workspace,
    /// The planner made a mistake.
    Internal,
}

/// Why a model cannot be planned. `Display` prints everything, one problem per line.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.text())]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    what: String,
    remedy: Option<String>,
    problems: Vec<Found>,
    /// More problems of the same sort, which are not about a node.
    more: Vec<String>,
    cause: Option<onnx::Error>,
    bytes: Option<(u64, u64)>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            what: what.into(),
            remedy: None,
            problems: Vec::new(),
            more: Vec::new(),
            cause: None,
            bytes: None,
        }))
    }

    /// One error for several things that are wrong in the same way; none where the list is empty.
    pub(crate) fn collected(kind: ErrorKind, mut list: Vec<String>) -> Option<Error> {
        if list.len() < 2 {
            return list.pop().map(|one| Error::new(kind, one));
        }
        let mut error = Error::new(kind, format!("{} problems", list.len()));
        error.0.more = list;
        Some(error)
    }

    /// One error for nodes that cannot be lowered; none where the list is empty.
    pub(crate) fn of_nodes(problems: Vec<Found>) -> Option<Error> {
        let unsupported = problems.iter().any(|p| p.unsupported);
        let kind = if unsupported { ErrorKind::Unsupported } else { ErrorKind::Invalid };
        // A body that is lowered several times has its problems as often.
        let mut all: Vec<Found> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for problem in problems {
            if seen.insert((problem.node.clone(), problem.what.clone())) {
                all.push(problem);
            }
        }
        let n = all.len();
        let mut error = Error::new(kind, format!("{n} problem{} in the model", if n == 1 { "" } else { "s" }));
        error.0.problems = all;
        (n > 0).then_some(error)
    }

    /// Says what to do about it.
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Error {
        self.0.remedy.get_or_insert(remedy.into());
        self
    }

    /// Says how many bytes were asked for, and how many there are.
    pub(crate) fn with_bytes(mut self, asked: u64, available: u64) -> Error {
        self.0.bytes = Some((asked, available));
        self
    }

    /// What sort of problem this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The nodes that cannot be lowered, all together.
    pub fn problems(&self) -> &[Found] {
        &self.0.problems
    }

    /// Bytes needed and bytes allowed, where the error is about them.
    pub fn bytes(&self) -> Option<(u64, u64)> {
        self.0.bytes
    }

    /// The links of the chain, outermost first.
    pub fn chain(&self) -> Vec<String> {
        self.0.cause.as_ref().map_or_else(|| vec![self.0.what.clone()], onnx::Error::chain)
    }

    fn text(&self) -> String {
        let inner = &self.0;
        if let Some(cause) = &inner.cause {
            return cause.to_string();
        }
        let mut text = inner.what.clone();
        let lines = inner.problems.iter().map(ToString::to_string).chain(inner.more.iter().cloned());
        for line in lines.take(LISTED) {
            text.push_str("\n  ");
            text.push_str(&line);
        }
        let total = inner.problems.len().max(inner.more.len());
        if total > LISTED {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  and {} more", total - LISTED);
        }
        if inner.problems.iter().any(|p| p.remedy.is_none()) {
            text.push_str(CONTRADICTION);
        }
        if let Some(remedy) = &inner.remedy {
            text.push_str(if total > 0 { "\n" } else { "; " });
            text.push_str(remedy);
        }
        text
    }
}

impl From<onnx::Error> for Error {
    fn from(e: onnx::Error) -> Error {
        let kind = if e.kind() == onnx::ErrorKind::Unsupported { ErrorKind::Unsupported } else { ErrorKind::Read };
        let mut error = Error::new(kind, String::new());
        error.0.cause = Some(e);
        error
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.node)?;
        if self.opset > 0 {
            write!(f, " (opset {})", self.opset)?;
        }
        write!(f, ": {}", self.what)?;
        if !self.operands.is_empty() {
            write!(f, "; operands {}", self.operands.join(", "))?;
        }
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

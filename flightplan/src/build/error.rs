//! Why a model could not be built.

use std::fmt;

/// What sort of problem an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option of the build script that fits nothing, or one that is missing: a free dim without a range, say.
    Options,
    /// The model could not be read.
    Read,
    /// The model uses what is not supported.
    Unsupported,
    /// The model is wrong: shapes or types that do not fit.
    Invalid,
    /// The arena exceeds the budget.
    Budget,
    /// The workspace of a step is not what was reserved for its node, under strict verification.
    Workspace,
    /// What was made could not be written.
    Write,
    /// flightplan made a mistake.
    Internal,
}

/// Why a model could not be built. `Display` prints the whole chain; `Debug` prints the same readable text, since that is what
/// cargo shows of the error that a build script's `main` returns.
pub struct Error {
    kind: ErrorKind,
    text: String,
    chain: Vec<String>,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, model: &std::path::Path, what: impl Into<String>) -> Error {
        let (model, what) = (format!("`{}`", model.display()), what.into());
        Error { kind, text: format!("{model}: {what}"), chain: vec![model, what] }
    }

    /// From an error that has a text and a chain of its own, in which the model may be named already.
    fn wrapped(kind: ErrorKind, model: &std::path::Path, text: &str, links: Vec<String>) -> Error {
        let mut error = Error::new(kind, model, text);
        let [name, _] = &error.chain[..] else { return error };
        if links.first() == Some(name) {
            (error.text, error.chain) = (text.to_owned(), links);
        } else {
            error.chain = std::iter::once(name.clone()).chain(links).collect();
        }
        error
    }

    pub(super) fn read(model: &std::path::Path, e: &planner::onnx::Error) -> Error {
        let unsupported = e.kind() == planner::onnx::ErrorKind::Unsupported;
        let kind = if unsupported { ErrorKind::Unsupported } else { ErrorKind::Read };
        Error::wrapped(kind, model, &e.to_string(), e.chain())
    }

    pub(super) fn plan(model: &std::path::Path, e: &planner::Error) -> Error {
        let kind = match e.kind() {
            planner::ErrorKind::Read => ErrorKind::Read,
            planner::ErrorKind::Unsupported => ErrorKind::Unsupported,
            planner::ErrorKind::Invalid => ErrorKind::Invalid,
            planner::ErrorKind::Options => ErrorKind::Options,
            planner::ErrorKind::Budget => ErrorKind::Budget,
            planner::ErrorKind::Workspace => ErrorKind::Workspace,
            _ => ErrorKind::Internal,
        };
        Error::wrapped(kind, model, &e.to_string(), e.chain())
    }

    /// What sort of problem this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The links of the chain, outermost first: the model, then where in it, then what.
    pub fn chain(&self) -> &[String] {
        &self.chain
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

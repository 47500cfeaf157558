//! The one error type of the reader.

use std::fmt::{self, Write};
use std::io;

/// What sort of problem an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file could not be opened or mapped.
    Io,
    /// The bytes are not a well-formed ONNX message.
    Malformed,
    /// The message is well formed but breaks a rule of ONNX: names, order, types, sizes.
    Invalid,
    /// The model uses a version or a feature that is not supported.
    Unsupported,
    /// Tensor data outside the model file is missing, too short, or outside the model's folder.
    ExternalData,
    /// An attribute is missing or has another type than its operator wants.
    Attribute,
    /// Reading would need more memory than a file of this size may take.
    TooLarge,
}

/// Why a model or a test value could not be read.
///
/// `Display` prints the whole chain in one line, outermost first; [`Error::chain`] gives the links.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.line())]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    /// Outermost last, because each caller adds its own.
    within: Vec<String>,
    node: Option<String>,
    tensor: Option<String>,
    message: String,
    cause: Option<io::Error>,
    remedy: Option<String>,
    problems: Vec<Error>,
}

/// How many problems one error lists; more are only counted.
const LISTED: usize = 50;
/// Longest name or value that is quoted whole, in characters.
const QUOTED: usize = 120;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            within: Vec::new(),
            node: None,
            tensor: None,
            message: message.into(),
            cause: None,
            remedy: None,
            problems: Vec::new(),
        }))
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Malformed, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    pub(crate) fn io(message: impl Into<String>, cause: io::Error) -> Self {
        let mut error = Self::new(ErrorKind::Io, message);
        error.0.cause = Some(cause);
        error
    }

    /// Says what to do about it.
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy.get_or_insert(remedy.into());
        self
    }

    pub(crate) fn caused_by(mut self, cause: io::Error) -> Self {
        self.0.cause.get_or_insert(cause);
        self
    }

    /// Adds the surrounding place.
    pub(crate) fn within(mut self, place: impl Into<String>) -> Self {
        self.0.within.push(place.into());
        self
    }

    /// Adds the node; the innermost one is the one that it is about.
    pub(crate) fn at_node(mut self, label: impl Into<String>) -> Self {
        let label = label.into();
        self.0.node.get_or_insert_with(|| label.clone());
        self.within(label)
    }

    /// Adds the tensor; the innermost one is the one that it is about.
    pub(crate) fn at_tensor(mut self, name: &str) -> Self {
        if name.is_empty() {
            return self;
        }
        let name = quote(name);
        let place = format!("tensor {name}");
        self.0.tensor.get_or_insert(name);
        self.within(place)
    }

    /// Nothing, the one problem, or all of them together.
    pub(crate) fn collected(problems: Problems) -> Result<(), Self> {
        let Problems { mut list, total } = problems;
        if total <= 1 {
            return list.pop().map_or(Ok(()), Err);
        }
        let kind = list.first().map_or(ErrorKind::Invalid, Error::kind);
        let mut error = Self::new(kind, format!("{total} problems"));
        error.0.problems = list;
        Err(error)
    }

    /// What sort of problem this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The node it is about: operator and name, quoted.
    pub fn node(&self) -> Option<&str> {
        self.0.node.as_deref()
    }

    /// The tensor it is about, quoted.
    pub fn tensor(&self) -> Option<&str> {
        self.0.tensor.as_deref()
    }

    /// The problems found together, empty where there is just this one.
    pub fn problems(&self) -> &[Error] {
        &self.0.problems
    }

    /// The links of the chain, outermost first.
    pub fn chain(&self) -> Vec<String> {
        let inner = &self.0;
        let mut links: Vec<String> = inner.within.iter().rev().cloned().collect();
        links.push(inner.message.clone());
        links.extend(inner.cause.as_ref().map(ToString::to_string));
        links
    }

    fn line(&self) -> OneLine<'_> {
        OneLine(self)
    }
}

struct OneLine<'a>(&'a Error);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.chain().join(": ");
        if let Some(remedy) = &self.0.0.remedy {
            text.push_str("; ");
            text.push_str(remedy);
        }
        for (index, problem) in self.0.problems().iter().enumerate() {
            let lead = if index == 0 { ":" } else { ";" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{lead} ({}) {problem}", index + 1);
        }
        for c in text.chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// Problems of one stage, collected so that all are reported together.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Error>,
    total: usize,
}

impl Problems {
    pub(crate) fn push(&mut self, problem: Error) {
        self.total = self.total.saturating_add(1);
        if self.list.len() < LISTED {
            self.list.push(problem);
        }
    }

    /// Adds the place to the problems from the `from`th on.
    pub(crate) fn within(&mut self, from: usize, place: &str) {
        for problem in self.list.iter_mut().skip(from) {
            problem.0.within.push(place.to_owned());
        }
    }

    pub(crate) fn listed(&self) -> usize {
        self.list.len()
    }
}

/// A name in quotes, shortened if it is very long.
pub(crate) fn quote(name: &str) -> String {
    match name.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("`{}…`", name.get(..end).unwrap_or_default()),
        None => format!("`{name}`"),
    }
}

/// Dims as messages show them, shortened if there are very many.
pub(crate) fn shape(dims: &[i64]) -> String {
    match dims.get(..16) {
        Some(first) if dims.len() > 16 => format!("{first:?} and {} more", dims.len() - 16),
        _ => format!("{dims:?}"),
    }
}

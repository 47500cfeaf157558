//! The plan's text form: RON with a format version, below a line that holds its digest.

use crate::Plan;
use alloc::{format, string::String};
use core::fmt::Write;
use sha2::{Digest, Sha256};

/// The version of the text form that this build reads and writes.
const FORMAT: u32 = 2;
/// What stands before the digest in the first line: a comment in RON.
const HEAD: &str = "// SHA-256 of all below: ";

#[derive(serde::Serialize)]
struct FileRef<'a> {
    format: u32,
    plan: &'a Plan,
}

#[derive(serde::Deserialize)]
struct Version {
    format: u32,
}

#[derive(serde::Deserialize)]
struct File {
    #[allow(dead_code)]
    format: u32,
    plan: Plan,
}

/// Why a plan's text form could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// It is not RON, or not a plan.
    #[error("the text is not a plan: {0}")]
    Malformed(String),
    /// Another version of flightplan wrote it.
    #[error("the plan has format {found}, this build reads format {FORMAT}: emit the plan again with this version")]
    Format {
        /// The version found.
        found: u32,
    },
    /// It is not what was written, or nothing tells.
    #[error("the plan was changed after it was written: {0}: emit it again")]
    Changed(String),
    /// It could not be written.
    #[error("the plan cannot be written as text: {0}")]
    Write(String),
}

impl Plan {
    /// The plan as text. Equal plans give equal text.
    ///
    /// # Errors
    /// When the plan holds what RON cannot express.
    pub fn to_text(&self) -> Result<String, TextError> {
        let body = self.body()?;
        Ok(format!("{HEAD}{}\n{body}", digest(&body)))
    }

    /// The plan's identity: the SHA-256 of its text form below the first line, which holds it too.
    ///
    /// # Errors
    /// As [`Plan::to_text`].
    pub fn hash(&self) -> Result<String, TextError> {
        self.body().map(|body| digest(&body))
    }

    fn body(&self) -> Result<String, TextError> {
        let config =
            ron::ser::PrettyConfig::new().new_line("\n").depth_limit(4).struct_names(false).compact_arrays(true);
        ron::ser::to_string_pretty(&FileRef { format: FORMAT, plan: self }, config)
            .map(|mut text| {
                text.push('\n');
                text
            })
            .map_err(|e| TextError::Write(format!("{e}")))
    }

    /// The plan that [`Plan::to_text`] wrote.
    ///
    /// # Errors
    /// When the text is malformed, of another format version, or not as it was written.
    pub fn from_text(text: &str) -> Result<Plan, TextError> {
        let malformed = |e: ron::error::SpannedError| TextError::Malformed(format!("{e}"));
        let head = text.split_once('\n').and_then(|(first, body)| Some((first.strip_prefix(HEAD)?, body)));
        let Some((written, body)) = head else {
            // Plans of older versions have no digest: they are told by their format.
            let version: Version = ron::from_str(text).map_err(malformed)?;
            return Err(match version.format {
                FORMAT => TextError::Changed(String::from("its first line holds no digest")),
                found => TextError::Format { found },
            });
        };
        let found = digest(body);
        if found != written {
            return Err(TextError::Changed(format!("its SHA-256 is {found}, its first line says {written}")));
        }
        let version: Version = ron::from_str(body).map_err(malformed)?;
        if version.format != FORMAT {
            return Err(TextError::Format { found: version.format });
        }
        ron::from_str::<File>(body).map(|file| file.plan).map_err(malformed)
    }
}

/// The SHA-256 of a text, in hexadecimal.
fn digest(text: &str) -> String {
    let mut hash = String::with_capacity(64);
    for byte in Sha256::digest(text) {
        // Writing to a string cannot fail.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

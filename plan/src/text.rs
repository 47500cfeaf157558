//! The plan's text form: RON with a format version.

use crate::Plan;
use alloc::string::String;

/// The version of the text form that this build reads and writes.
const FORMAT: u32 = 1;

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
        let config =
            ron::ser::PrettyConfig::new().new_line("\n").depth_limit(4).struct_names(false).compact_arrays(true);
        ron::ser::to_string_pretty(&FileRef { format: FORMAT, plan: self }, config)
            .map(|mut text| {
                text.push('\n');
                text
            })
            .map_err(|e| TextError::Write(alloc::format!("{e}")))
    }

    /// The plan that [`Plan::to_text`] wrote.
    ///
    /// # Errors
    /// When the text is malformed or of another format version.
    pub fn from_text(text: &str) -> Result<Plan, TextError> {
        let malformed = |e: ron::error::SpannedError| TextError::Malformed(alloc::format!("{e}"));
        let version: Version = ron::from_str(text).map_err(malformed)?;
        if version.format != FORMAT {
            return Err(TextError::Format { found: version.format });
        }
        ron::from_str::<File>(text).map(|file| file.plan).map_err(malformed)
    }
}

//! Tests of the reader, on messages put together here byte by byte.

mod data;
mod encode;
mod external;
mod hostile;
mod local;
mod names;
mod on_disk;

use bytes::Bytes;

use super::{Error, Model, read_bytes};

/// Reads a model that is given as bytes.
fn read_model(bytes: &[u8]) -> Result<Model, Error> {
    read_bytes(Bytes::copy_from_slice(bytes), None)
}

/// The message that reading these bytes fails with.
fn refusal(bytes: &[u8]) -> String {
    match read_model(bytes) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Fails unless the text has each of the parts.
#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

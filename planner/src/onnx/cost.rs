//! The budget that everything read from a file is charged to.

use super::error::{Error, ErrorKind};

/// Bytes that reading may take beyond the file's own size, whatever the file.
const BASE: u64 = 24 << 20;

/// What a text costs besides its bytes: the allocation, and an entry in a map of names.
const TEXT: u64 = 96;

/// Counts down the bytes that may still be allocated.
///
/// A repeated message of two bytes can become a struct of two hundred, so a small file could ask for
/// any amount of memory; charging before allocating turns that into an error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Meter {
    limit: u64,
    left: u64,
}

impl Default for Meter {
    fn default() -> Self {
        Self::for_file(0)
    }
}

impl Meter {
    /// The budget of a file of this many bytes.
    pub(crate) fn for_file(bytes: usize) -> Self {
        let limit = (bytes as u64).saturating_add(BASE);
        Self { limit, left: limit }
    }

    /// Takes `bytes` from the budget.
    pub(crate) fn charge(&mut self, bytes: u64) -> Result<(), Error> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the decoded model needs more than {} bytes, which is the file's size and {} MiB",
                    self.limit,
                    BASE >> 20
                ),
            )
            .remedy("store large tensors as raw or external data, or split the model")),
        }
    }

    /// Takes the room for a text of this many bytes.
    pub(crate) fn charge_text(&mut self, bytes: usize) -> Result<(), Error> {
        self.charge((bytes as u64).saturating_add(TEXT))
    }

    /// An empty vector with room for exactly `count` items, charged.
    pub(crate) fn vec<T>(&mut self, count: usize) -> Result<Vec<T>, Error> {
        self.charge((count as u64).saturating_mul(size_of::<T>() as u64))?;
        Ok(Vec::with_capacity(count))
    }
}

//! The weights file: constants one after another, aligned, each once.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The weights file in pieces: `(offset, bytes)`, ascending, zeros between them.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    /// The pieces.
    pub pieces: Vec<(u64, Bytes)>,
    /// Bytes of the whole file.
    pub len: u64,
    index: BTreeMap<[u8; 32], u64>,
}

impl Weights {
    /// The offset of these bytes, which are added unless they are there already.
    pub(super) fn add(&mut self, bytes: Bytes, align: u64) -> u64 {
        let key: [u8; 32] = Sha256::digest(&bytes).into();
        if let Some(offset) = self.index.get(&key) {
            return *offset;
        }
        let offset = self.len.next_multiple_of(align.max(1));
        self.len = offset + bytes.len() as u64;
        self.pieces.push((offset, bytes));
        self.index.insert(key, offset);
        offset
    }

    pub(super) fn finish(&mut self) {
        self.index.clear();
    }

    /// SHA-256 of the whole file, in hexadecimal.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let _ = self.write(|part| {
            hash.update(part);
            Ok(())
        });
        hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The checksum of the whole file.
    pub fn checksum(&self) -> u64 {
        let mut sum = plan::Checksum::default();
        let _ = self.write(|part| {
            sum.update(part);
            Ok(())
        });
        sum.finish()
    }

    /// Hands over the file from start to end.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn write(&self, mut sink: impl FnMut(&[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
        let mut at = 0u64;
        for (offset, bytes) in &self.pieces {
            while at < *offset {
                let n = (*offset - at).min(4096) as usize;
                sink(&[0u8; 4096][..n])?;
                at += n as u64;
            }
            sink(bytes)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// The whole file in memory.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(usize::try_from(self.len).unwrap_or(0));
        let _ = self.write(|part| {
            all.extend_from_slice(part);
            Ok(())
        });
        all
    }
}

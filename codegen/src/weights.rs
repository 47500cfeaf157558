//! Laying out the weights file.

use std::io::{self, Write};

/// Writes a weights file of `len` bytes: these pieces at these offsets, ascending, and zeros between them.
///
/// # Errors
/// When writing fails, or the pieces overlap or do not lie within the file.
pub fn write_weights<B: AsRef<[u8]>>(
    out: &mut impl Write,
    pieces: impl IntoIterator<Item = (u64, B)>,
    len: u64,
) -> io::Result<()> {
    let mut at = 0u64;
    for (offset, bytes) in pieces {
        pad(out, at, offset)?;
        out.write_all(bytes.as_ref())?;
        at = offset.saturating_add(bytes.as_ref().len() as u64);
    }
    pad(out, at, len)
}

/// Writes zeros from one offset to another.
fn pad(out: &mut impl Write, from: u64, to: u64) -> io::Result<()> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let wrong =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("weights overlap at byte {to}, written are {from}"));
    let mut left = to.checked_sub(from).ok_or_else(wrong)?;
    while left > 0 {
        let part = left.min(ZEROS.len() as u64);
        out.write_all(ZEROS.get(..part as usize).unwrap_or(&[]))?;
        left -= part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_zero_and_overlaps_refused() {
        let mut out = Vec::new();
        write_weights(&mut out, [(1, &[7u8, 8][..]), (4, &[9])], 6).unwrap();
        assert_eq!(out, [0, 7, 8, 0, 9, 0]);
        assert!(write_weights(&mut Vec::new(), [(0, &[7u8, 8][..]), (1, &[9])], 6).is_err());
        assert!(write_weights(&mut Vec::new(), [(0, &[7u8, 8][..])], 1).is_err());
    }
}

//! Weights: embedded in the binary, or mapped from a file. Nothing is done to them at start-up, but that a file is read once to see
//! that it is the plan's.

use crate::Error;
use plan::Checksum;

/// Gives embedded bytes the alignment that kernels like.
#[repr(C, align(64))]
pub struct Aligned<T: ?Sized>(pub T);

/// A model's weights.
pub enum Weights {
    /// In the binary.
    Embedded(&'static [u8]),
    /// In a file that is mapped.
    #[cfg(feature = "std")]
    Mapped(memmap2::Mmap),
    /// In memory of its own.
    #[cfg(feature = "alloc")]
    Owned(crate::AlignedBytes),
}

impl AsRef<[u8]> for Weights {
    fn as_ref(&self) -> &[u8] {
        match self {
            Weights::Embedded(bytes) => bytes,
            #[cfg(feature = "std")]
            Weights::Mapped(map) => map,
            #[cfg(feature = "alloc")]
            Weights::Owned(bytes) => bytes,
        }
    }
}

/// Whether these are the weights of a plan, by its checksum of them.
///
/// # Errors
/// When they are not.
pub fn verify(weights: &[u8], check: u64) -> Result<(), Error> {
    if Checksum::of(weights) == check {
        Ok(())
    } else {
        Err(Error::weights("their checksum is another than the plan's"))
    }
}

/// Weights that several models read.
#[cfg(feature = "std")]
pub type SharedWeights = std::sync::Arc<Weights>;

#[cfg(feature = "std")]
impl Weights {
    /// Maps a file, and checks that it is `bytes` long and has this SHA-256 (in hexadecimal).
    ///
    /// The file must not be changed while it is mapped.
    ///
    /// # Errors
    /// When it cannot be read, or is not the file that the plan was made with.
    pub fn open(path: &std::path::Path, bytes: usize, digest: &str) -> Result<Weights, Error> {
        let weights = Weights::open_unverified(path, bytes)?;
        let found = hex_digest(weights.as_ref());
        if found != digest {
            let file = path.display();
            return Err(Error::weights(std::format!("{file} has the SHA-256 {found}, the plan has {digest}")));
        }
        Ok(weights)
    }

    /// As [`Weights::open`], checking the length only: for files so large that reading them once is too much.
    ///
    /// # Errors
    /// When it cannot be read, or has another length.
    pub fn open_unverified(path: &std::path::Path, bytes: usize) -> Result<Weights, Error> {
        let file = path.display();
        let unreadable = |e: std::io::Error| Error::file(std::format!("{file}"), std::format!("{e}"));
        let handle = std::fs::File::open(path).map_err(unreadable)?;
        let found = handle.metadata().map_err(unreadable)?.len();
        if found != bytes as u64 {
            return Err(Error::weights(std::format!("{file} has {found} bytes, the plan has {bytes}")));
        }
        if bytes == 0 {
            return Ok(Weights::Embedded(&[]));
        }
        // SAFETY: the mapping is read only and private to this process; that the file stays as it is while mapped is
        // asked of the caller, as for every mapped file.
        let map = unsafe { memmap2::MmapOptions::new().map_copy_read_only(&handle) }.map_err(unreadable)?;
        Ok(Weights::Mapped(map))
    }
}

/// The SHA-256 of some bytes, in hexadecimal.
#[cfg(feature = "std")]
pub fn hex_digest(bytes: &[u8]) -> std::string::String {
    use sha2::Digest;
    use std::fmt::Write;
    let mut text = std::string::String::with_capacity(64);
    for byte in sha2::Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    /// Row M3.
    #[test]
    fn embedded_weights_with_a_flipped_byte_are_told() {
        let check = Checksum::of(&[1, 2, 3]);
        verify(&[1, 2, 3], check).unwrap();
        let text = verify(&[1, 2, 2], check).unwrap_err().to_string();
        assert!(text.contains("checksum") && text.contains("emit both again"), "{text}");
    }

    /// Row M3.
    #[test]
    fn a_flipped_byte_is_refused() {
        let path = std::env::temp_dir().join(format!("flightplan-weights-{}", std::process::id()));
        let mut bytes = vec![7u8; 100];
        let digest = hex_digest(&bytes);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Weights::open(&path, 100, &digest).unwrap().as_ref(), bytes);
        let short = Weights::open(&path, 99, &digest).err().unwrap().to_string();
        assert!(short.contains("has 100 bytes, the plan has 99"), "{short}");
        bytes[50] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let flipped = Weights::open(&path, 100, &digest).err().unwrap().to_string();
        assert!(flipped.contains("SHA-256") && flipped.contains("emit both again"), "{flipped}");
        std::fs::remove_file(&path).unwrap();
        assert!(Weights::open(&path, 100, &digest).is_err());
    }
}

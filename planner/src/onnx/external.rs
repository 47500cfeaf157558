//! Tensor data in files beside the model, mapped and never outside the model's folder.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use memmap2::Mmap;

use super::error::{Error, ErrorKind, quote};

/// Maps a file; its pages are read when they are touched.
///
/// Only regular files: opening a pipe would wait for its writer, and a device has no length.
pub(crate) fn map_file(path: &Path) -> io::Result<Bytes> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the mapping is private and read-only, and nothing in this process writes to the file.
    // That no other process changes it while the model is in use is documented on `read`.
    let map = unsafe { Mmap::map(&file)? };
    Ok(Bytes::from_owner(map))
}

/// Where the data of one tensor lies, as the model says.
#[derive(Debug, Default)]
pub(crate) struct Location {
    pub(crate) file: Option<String>,
    pub(crate) offset: Option<String>,
    pub(crate) length: Option<String>,
}

/// The model's folder and the files of it that have been mapped.
#[derive(Debug, Default)]
pub(crate) struct External {
    folder: Option<PathBuf>,
    canonical: Option<PathBuf>,
    maps: BTreeMap<String, Bytes>,
}

impl External {
    pub(crate) fn new(folder: Option<&Path>) -> Self {
        Self { folder: folder.map(Path::to_owned), ..Self::default() }
    }

    /// The names of the files that were mapped.
    pub(crate) fn files(&self) -> Vec<String> {
        self.maps.keys().cloned().collect()
    }

    /// The `size` bytes that a tensor has at `location`.
    pub(crate) fn bytes(&mut self, location: &Location, size: u64) -> Result<Bytes, Error> {
        let Some(file) = &location.file else {
            return Err(external("external data without a location"));
        };
        let place = |error: Error| error.within(format!("external data {}", quote(file)));
        let offset = number(location.offset.as_deref(), "offset").map_err(place)?.unwrap_or(0);
        let length = number(location.length.as_deref(), "length").map_err(place)?.unwrap_or(size);
        if length != size {
            return Err(place(external(format!("the length is {length} bytes, but the tensor's dims need {size}"))));
        }
        if !self.maps.contains_key(file) {
            let bytes = self.map(file).map_err(place)?;
            self.maps.insert(file.clone(), bytes);
        }
        let bytes = self.maps.get(file).cloned().unwrap_or_default();
        let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let range = range
            .and_then(|(start, length)| Some(start..start.checked_add(length)?))
            .filter(|range| range.end <= bytes.len());
        range.map(|range| bytes.slice(range)).ok_or_else(|| {
            place(
                external(format!("{length} bytes at offset {offset} are asked of a file of {}", bytes.len()))
                    .remedy("the file is cut off or belongs to another model: fetch it again"),
            )
        })
    }

    fn map(&mut self, file: &str) -> Result<Bytes, Error> {
        let Some(folder) = &self.folder else {
            return Err(external("the model was given without a folder")
                .remedy("read it from a file, or save it with its tensors inside"));
        };
        let relative = Path::new(file);
        let plain = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
        if file.is_empty() || !relative.components().all(plain) {
            return Err(outside());
        }
        let root = match &self.canonical {
            Some(root) => root.clone(),
            None => folder.canonicalize().map_err(|cause| {
                external(format!("no folder {}", quote(&folder.to_string_lossy()))).caused_by(cause)
            })?,
        };
        let target = root.join(relative).canonicalize().map_err(missing)?;
        if !target.starts_with(&root) {
            return Err(outside());
        }
        self.canonical = Some(root);
        map_file(&target).map_err(missing)
    }
}

fn external(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::ExternalData, message)
}

fn outside() -> Error {
    external("the location is outside the model's folder")
        .remedy("put the file itself, not a link, beside the model, and save its name as the location")
}

fn missing(cause: io::Error) -> Error {
    external("cannot open the file").caused_by(cause).remedy("put it beside the model")
}

fn number(text: Option<&str>, what: &str) -> Result<Option<u64>, Error> {
    text.map(|text| {
        text.trim().parse().map_err(|_| external(format!("the {what} {} is not a number of bytes", quote(text))))
    })
    .transpose()
}

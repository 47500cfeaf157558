//! Opening a model file.

use std::ops::RangeInclusive;
use std::path::Path;

use bytes::Bytes;

use super::check::check;
use super::decode::Decoder;
use super::error::{Error, ErrorKind, quote};
use super::external::{External, map_file};
use super::model::Model;

/// The file format versions that are read.
pub const IR_VERSIONS: RangeInclusive<i64> = 3..=14;

/// The versions of the standard operator set that are read.
pub const OPSETS: RangeInclusive<i64> = 6..=28;

/// Reads the model in a file and checks it.
///
/// The file is mapped, and the data of raw tensors stays where it is: it must not change while the
/// model or anything made from its tensors is alive. External data is looked for in the file's
/// folder. Besides the mapping, reading takes at most as much memory as the file has bytes, and 24
/// MiB.
///
/// # Errors
/// If the file cannot be mapped, is no ONNX model, breaks a rule of ONNX, or has a version that is
/// not among [`IR_VERSIONS`] and [`OPSETS`].
pub fn read(path: &Path) -> Result<Model, Error> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let place = quote(&path.to_string_lossy());
    map_file(path)
        .map_err(|cause| Error::io("cannot open the file", cause))
        .and_then(|bytes| read_bytes(bytes, Some(folder)))
        .map_err(|error| error.within(place))
}

/// Reads the model in these bytes and checks it; `folder` is where its external data lies.
///
/// # Errors
/// As [`read`]. Without a folder, external data is an error.
pub fn read_bytes(bytes: Bytes, folder: Option<&Path>) -> Result<Model, Error> {
    if bytes.is_empty() {
        return Err(Error::new(ErrorKind::Malformed, "the file is empty"));
    }
    let mut model = Decoder::new(bytes, External::new(folder)).model()?;
    check(&mut model)?;
    Ok(model)
}

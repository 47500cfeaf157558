//! Test cases in ONNX's layout: a folder with `model.onnx`, `test_data_set_*` folders of `input_<j>.pb` and `output_<j>.pb`,
//! and perhaps a `tolerance.json`.

use crate::onnx::{self, ElemType, Tensor, TestValue, Type, ValueInfo};
use crate::ops::dtype_of;
use bytes::Bytes;
use plan::DType;
use runtime::interpret::InputTensor;
use std::path::{Path, PathBuf};

/// How a case ends, other than by passing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bad {
    /// Something is wrong.
    Fail(String),
    /// Something is not there yet.
    Unsupported(String),
}

/// A case that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its path below the folder that was searched; its own name where it is that folder.
    pub name: String,
    /// Where it is.
    pub folder: PathBuf,
}

impl Case {
    /// The model's file.
    pub fn model(&self) -> PathBuf {
        self.folder.join("model.onnx")
    }

    /// The folders of the data sets, by number.
    pub fn sets(&self) -> Result<Vec<PathBuf>, Bad> {
        let unreadable = |e: std::io::Error| Bad::Fail(format!("the folder cannot be read: {e}"));
        let mut sets = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            if let Some(number) = name.to_string_lossy().strip_prefix("test_data_set_")
                && entry.path().is_dir()
            {
                sets.push((number.parse().unwrap_or(u64::MAX), entry.path()));
            }
        }
        sets.sort();
        Ok(sets.into_iter().map(|(_, path)| path).collect())
    }
}

/// How many levels below a given folder cases may lie.
const DEPTH: usize = 2;

/// The cases in a folder: itself, or those below it, by name. Names that start with a dot are skipped.
pub fn find(root: &Path) -> std::io::Result<Vec<Case>> {
    let mut found = Vec::new();
    if !root.is_dir() {
        return Err(std::io::Error::new(std::io::ErrorKind::NotADirectory, "no such folder"));
    }
    if root.join("model.onnx").exists() {
        // A folder such as `.` has a name only when spelled out.
        let full = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let name = full.file_name().map_or_else(|| ".".to_owned(), |n| n.to_string_lossy().into_owned());
        found.push(Case { name, folder: root.to_owned() });
    } else {
        descend(root, "", DEPTH, &mut found)?;
    }
    Ok(found)
}

fn descend(folder: &Path, prefix: &str, depth: usize, found: &mut Vec<Case>) -> std::io::Result<()> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && entry.path().is_dir() {
            entries.push((name, entry.path()));
        }
    }
    entries.sort();
    for (name, path) in entries {
        let name = format!("{prefix}{name}");
        if path.join("model.onnx").exists() {
            found.push(Case { name, folder: path });
        } else if depth > 1 {
            descend(&path, &format!("{name}/"), depth - 1, found)?;
        }
    }
    Ok(())
}

/// A tensor of a data set, in a type that a plan can hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub dims: Vec<usize>,
    /// Elements, row-major and little-endian.
    pub bytes: Bytes,
}

impl Data {
    /// A tensor of the file format; strings and 6-bit floats are not supported.
    pub fn of(tensor: &Tensor) -> Result<Data, String> {
        let dtype = dtype_of(tensor.dtype).ok_or_else(|| format!("elements of type {}", tensor.dtype))?;
        let dims = tensor.dims.iter().map(|d| usize::try_from(*d).map_err(|_| "a negative dim".to_owned()));
        let bytes = tensor.bytes().ok_or("strings")?.clone();
        Ok(Data { dtype, dims: dims.collect::<Result<_, _>>()?, bytes })
    }

    /// As the interpreter reads it.
    pub fn view(&self) -> InputTensor<'_> {
        InputTensor { dtype: self.dtype, dims: &self.dims, bytes: &self.bytes }
    }
}

/// One data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// The inputs, in the model's order; none where the set gives none.
    pub inputs: Vec<Option<Data>>,
    /// The expected outputs: which of the model's, and what.
    pub outputs: Vec<(usize, Data)>,
}

impl Set {
    /// Reads a data set. Tensors belong to the value of their name, else to that at their position.
    pub fn read(folder: &Path, graph: &onnx::Graph) -> Result<Set, Bad> {
        let inputs = values(folder, "input", &graph.inputs)?;
        let given = |i| inputs.iter().find(|(at, _)| *at == i).map(|(_, data)| data.clone());
        let ordered = (0..graph.inputs.len()).map(given).collect();
        let outputs = values(folder, "output", &graph.outputs)?;
        if outputs.is_empty() {
            return Err(Bad::Fail(format!("{} has no outputs to compare", label(folder))));
        }
        Ok(Set { inputs: ordered, outputs })
    }
}

fn label(folder: &Path) -> String {
    folder.file_name().map_or_else(|| folder.display().to_string(), |n| n.to_string_lossy().into_owned())
}

/// The values `KIND_<j>.pb` of a data set, each with the index among `infos` of what it belongs to.
fn values(folder: &Path, kind: &str, infos: &[ValueInfo]) -> Result<Vec<(usize, Data)>, Bad> {
    let mut read = Vec::new();
    for (j, path) in files(folder, kind)? {
        let info = infos.get(j);
        let ty = info.map_or(&Type::Unknown, |i| &i.ty);
        let value = onnx::read_value(&path, ty).map_err(|e| match e.kind() {
            onnx::ErrorKind::Unsupported => Bad::Unsupported(format!("test data: {e}")),
            _ => Bad::Fail(format!("test data: {e}")),
        })?;
        read.push((j, value));
    }
    let named = |value: &TestValue| infos.iter().position(|i| !i.name.is_empty() && i.name == value.name());
    let mut taken: Vec<usize> = read.iter().filter_map(|(_, v)| named(v)).collect();
    taken.sort_unstable();
    taken.dedup();
    let by_name = taken.len() == read.len();
    let mut found = Vec::new();
    for (j, value) in read {
        let index = if by_name { named(&value).unwrap_or(j) } else { j };
        let Some(info) = infos.get(index) else {
            return Err(Bad::Fail(format!("{}/{kind}_{j}.pb belongs to no {kind} of the model", label(folder))));
        };
        found.push((index, tensor(&value, kind, &info.name)?));
    }
    Ok(found)
}

fn tensor(value: &TestValue, kind: &str, name: &str) -> Result<Data, Bad> {
    let unsupported = |what: &str| Bad::Unsupported(format!("{kind} `{name}`: {what} at the border of a model"));
    match value {
        TestValue::Tensor(t) if t.dtype == ElemType::String => Err(unsupported("strings")),
        TestValue::Tensor(t) => Data::of(t).map_err(|what| unsupported(&what)),
        TestValue::Optional(Some(inner)) if matches!(**inner, TestValue::Tensor(_)) => tensor(inner, kind, name),
        TestValue::Optional(_) => Err(unsupported("an optional")),
        TestValue::Sequence(_) => Err(unsupported("a sequence")),
        TestValue::Map { .. } => Err(unsupported("a map")),
    }
}

/// The files `KIND_<j>.pb` with their `j`, ascending.
fn files(folder: &Path, kind: &str) -> Result<Vec<(usize, PathBuf)>, Bad> {
    let unreadable = |e: std::io::Error| Bad::Fail(format!("{} cannot be read: {e}", label(folder)));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix(kind).and_then(|n| n.strip_prefix('_')).and_then(|n| n.strip_suffix(".pb"));
        if let Some(j) = number.and_then(|n| n.parse().ok()) {
            files.push((j, entry.path()));
        }
    }
    files.sort();
    Ok(files)
}

//! Tensors that a model file holds.

use std::fmt;

use bytes::Bytes;

use super::elem::ElemType;
use super::error::{Error, quote, shape};

/// The data of a [`Tensor`].
#[derive(Clone, PartialEq)]
pub enum TensorData {
    /// Elements in row-major order, little-endian, packed: `ceil(elements × bits / 8)` bytes. Shares
    /// the mapped file wherever the file has them in this form, so it may not be aligned.
    Bytes(Bytes),
    /// The elements of a tensor of strings.
    Strings(Vec<Bytes>),
}

impl fmt::Debug for TensorData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Strings(strings) => write!(f, "{} strings", strings.len()),
        }
    }
}

/// A constant tensor whose data has been checked against its dims.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name, empty where the file gives none.
    pub name: String,
    /// The type of its elements.
    pub dtype: ElemType,
    /// Its extents, none negative; empty for a scalar.
    pub dims: Vec<i64>,
    /// Its elements.
    pub data: TensorData,
}

/// A tensor of which only some elements are stored; the others are zero.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseTensor {
    /// The stored elements, a vector; its name is the tensor's.
    pub values: Tensor,
    /// Where they are, `int64`: linear positions `[nnz]` or coordinates `[nnz, rank]`.
    pub indices: Tensor,
    /// The extents of the whole.
    pub dims: Vec<i64>,
}

/// The number of elements; nothing if a dim is negative or the product does not fit.
pub(crate) fn element_count(dims: &[i64]) -> Option<u64> {
    if dims.iter().any(|dim| *dim < 0) {
        return None;
    }
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1u64, |product, dim| product.checked_mul(dim.cast_unsigned()))
}

impl Tensor {
    /// Makes a tensor of packed little-endian bytes, checking their number.
    pub fn new(name: &str, dtype: ElemType, dims: Vec<i64>, bytes: Bytes) -> Result<Self, Error> {
        let wanted = element_count(&dims).and_then(|count| dtype.packed_bytes(count));
        if wanted != Some(bytes.len() as u64) {
            return Err(Error::invalid(format!(
                "{dtype} data of {} bytes do not fill dims {}",
                bytes.len(),
                shape(&dims)
            ))
            .at_tensor(name));
        }
        Ok(Self { name: name.to_owned(), dtype, dims, data: TensorData::Bytes(bytes) })
    }

    /// A vector of `int64`, or a scalar where `dims` is empty.
    pub fn from_ints(name: &str, dims: Vec<i64>, values: &[i64]) -> Result<Self, Error> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(name, ElemType::Int64, dims, bytes.into())
    }

    /// A vector of `float32`, or a scalar where `dims` is empty.
    pub fn from_floats(name: &str, dims: Vec<i64>, values: &[f32]) -> Result<Self, Error> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(name, ElemType::Float32, dims, bytes.into())
    }

    /// A tensor of strings, checking their number.
    pub fn from_strings(name: &str, dims: Vec<i64>, values: Vec<Bytes>) -> Result<Self, Error> {
        if element_count(&dims) != Some(values.len() as u64) {
            return Err(
                Error::invalid(format!("{} strings do not fill dims {}", values.len(), shape(&dims))).at_tensor(name)
            );
        }
        let data = TensorData::Strings(values);
        Ok(Self { name: name.to_owned(), dtype: ElemType::String, dims, data })
    }

    /// The number of elements.
    pub fn len(&self) -> u64 {
        element_count(&self.dims).unwrap_or(0)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packed bytes; nothing for strings.
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.data {
            TensorData::Bytes(bytes) => Some(bytes),
            TensorData::Strings(_) => None,
        }
    }

    /// The elements of an integer or boolean tensor of whole bytes, widened; nothing for any other
    /// type, and where a `uint64` does not fit.
    pub fn to_ints(&self) -> Option<Vec<i64>> {
        let bytes = self.bytes()?;
        fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> Option<i64>) -> Option<Vec<i64>> {
            bytes.as_chunks::<N>().0.iter().map(|chunk| f(*chunk)).collect()
        }
        match self.dtype {
            ElemType::Int64 => each(bytes, |b| Some(i64::from_le_bytes(b))),
            ElemType::UInt64 => each(bytes, |b| u64::from_le_bytes(b).try_into().ok()),
            ElemType::Int32 => each(bytes, |b| Some(i32::from_le_bytes(b).into())),
            ElemType::UInt32 => each(bytes, |b| Some(u32::from_le_bytes(b).into())),
            ElemType::Int16 => each(bytes, |b| Some(i16::from_le_bytes(b).into())),
            ElemType::UInt16 => each(bytes, |b| Some(u16::from_le_bytes(b).into())),
            ElemType::Int8 => each(bytes, |b| Some(i8::from_le_bytes(b).into())),
            ElemType::UInt8 | ElemType::Bool => each(bytes, |[b]| Some(b.into())),
            _ => None,
        }
    }

    /// The elements of a `float32` or `float64` tensor; nothing for any other type.
    pub fn to_floats(&self) -> Option<Vec<f64>> {
        let bytes = self.bytes()?;
        match self.dtype {
            ElemType::Float32 => Some(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect()),
            ElemType::Float64 => Some(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()),
            _ => None,
        }
    }
}

impl SparseTensor {
    /// Bytes that the dense form takes.
    pub(crate) fn dense_bytes(&self) -> Result<u64, Error> {
        element_count(&self.dims)
            .and_then(|count| self.values.dtype.packed_bytes(count))
            .ok_or_else(|| self.error("has a negative, too large or string shape"))
    }

    /// Writes every element out. Fails if that takes more than `limit` bytes.
    pub fn to_dense(&self, limit: u64) -> Result<Tensor, Error> {
        let size = self.dense_bytes()?;
        let length = usize::try_from(size).ok().filter(|_| size <= limit);
        let length = length.ok_or_else(|| {
            self.error(&format!("takes {size} bytes when dense, more than the {limit} allowed"))
                .remedy("store it as a dense initializer")
        })?;
        let (Some(bits), TensorData::Bytes(values)) = (self.values.dtype.bits(), &self.values.data) else {
            return Err(self.error("has string elements"));
        };
        if !bits.is_multiple_of(8) {
            return Err(self.error("has elements smaller than a byte"));
        }
        let width = bits as usize / 8;
        let positions = self.positions()?;
        if positions.len() as u64 != self.values.len() {
            return Err(self.error("has not as many indices as values"));
        }
        let mut dense = vec![0u8; length];
        for (position, value) in positions.iter().zip(values.chunks_exact(width)) {
            let start = usize::try_from(*position).ok().and_then(|at| at.checked_mul(width));
            let target = start
                .and_then(|start| dense.get_mut(start..start.checked_add(width)?))
                .ok_or_else(|| self.error("has an index outside its dims"))?;
            target.copy_from_slice(value);
        }
        Tensor::new(&self.values.name, self.values.dtype, self.dims.clone(), dense.into())
    }

    fn positions(&self) -> Result<Vec<i64>, Error> {
        let indices = self.indices.to_ints().filter(|_| self.indices.dtype == ElemType::Int64);
        let indices = indices.ok_or_else(|| self.error("has indices that are not int64"))?;
        let rank = self.dims.len();
        let coordinates = match self.indices.dims.as_slice() {
            [_] => return Ok(indices),
            [_, columns] if *columns == rank as i64 && rank > 0 => indices,
            _ => return Err(self.error("has indices that are neither [nnz] nor [nnz, rank]")),
        };
        coordinates
            .chunks_exact(rank)
            .map(|row| {
                row.iter().zip(&self.dims).try_fold(0i64, |linear, (index, dim)| {
                    let inside = (0..*dim).contains(index);
                    let next = linear.checked_mul(*dim).and_then(|n| n.checked_add(*index));
                    next.filter(|_| inside).ok_or_else(|| self.error("has an index outside its dims"))
                })
            })
            .collect()
    }

    fn error(&self, what: &str) -> Error {
        Error::invalid(format!("the sparse tensor of dims {} and type {} {what}", shape(&self.dims), self.values.dtype))
            .within(format!("sparse tensor {}", quote(&self.values.name)))
    }
}

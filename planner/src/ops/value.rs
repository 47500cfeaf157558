//! What a name stands for while a model is lowered.

use crate::graph::V;
use crate::onnx::ElemType;
use bytes::Bytes;
use plan::DType;

/// What a name stands for. Only tensors enter the graph; the rest is taken apart while planning.
#[derive(Clone, Debug)]
pub enum Val {
    /// A tensor.
    Tensor(V),
    /// A list of values whose length is known.
    Sequence(Vec<Val>),
    /// A value that may be absent, where it is known whether it is.
    Optional(Option<Box<Val>>),
    /// Text, which lives on the host.
    Strings(Strings),
    /// A name whose node could not be lowered: users of it are not reported again.
    Poison,
}

impl Val {
    /// Adds the tensors of the value to `list`.
    pub fn tensors(&self, list: &mut Vec<V>) {
        match self {
            Val::Tensor(v) => list.push(*v),
            Val::Sequence(items) => items.iter().for_each(|item| item.tensors(list)),
            Val::Optional(Some(item)) => item.tensors(list),
            Val::Optional(None) | Val::Strings(_) | Val::Poison => {}
        }
    }
}

/// A constant tensor of strings.
#[derive(Clone, Debug, PartialEq)]
pub struct Strings {
    /// Extents.
    pub dims: Vec<usize>,
    /// Elements in row-major order, UTF-8 as a rule.
    pub data: Vec<Bytes>,
}

impl From<V> for Val {
    fn from(v: V) -> Val {
        Val::Tensor(v)
    }
}

/// The element type of the plan that stands for one of ONNX; none for strings and undefined.
pub fn dtype_of(elem: ElemType) -> Option<DType> {
    Some(match elem {
        ElemType::Float32 => DType::F32,
        ElemType::Float64 => DType::F64,
        ElemType::Float16 => DType::F16,
        ElemType::BFloat16 => DType::BF16,
        ElemType::Int8 => DType::I8,
        ElemType::Int16 => DType::I16,
        ElemType::Int32 => DType::I32,
        ElemType::Int64 => DType::I64,
        ElemType::UInt8 => DType::U8,
        ElemType::UInt16 => DType::U16,
        ElemType::UInt32 => DType::U32,
        ElemType::UInt64 => DType::U64,
        ElemType::Bool => DType::Bool,
        ElemType::Float8E4M3FN => DType::F8E4M3FN,
        ElemType::Float8E4M3FNUZ => DType::F8E4M3FNUZ,
        ElemType::Float8E5M2 => DType::F8E5M2,
        ElemType::Float8E5M2FNUZ => DType::F8E5M2FNUZ,
        ElemType::Float8E8M0 => DType::F8E8M0,
        ElemType::Float4E2M1 => DType::F4E2M1,
        ElemType::Int4 => DType::I4,
        ElemType::UInt4 => DType::U4,
        ElemType::Int2 => DType::I2,
        ElemType::UInt2 => DType::U2,
        ElemType::Complex64 => DType::C64,
        ElemType::Complex128 => DType::C128,
        ElemType::String | ElemType::Float6E2M3 | ElemType::Float6E3M2 => return None,
    })
}

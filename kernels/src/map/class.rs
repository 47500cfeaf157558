//! How values are held while a program runs.

use plan::DType;

/// The type of a register: what values of some element types are computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
}

impl Class {
    /// The class that computes for `dtype`; none for complex numbers.
    pub(super) fn of(dtype: DType) -> Option<Class> {
        Some(match dtype {
            DType::F32
            | DType::F16
            | DType::BF16
            | DType::F8E4M3FN
            | DType::F8E4M3FNUZ
            | DType::F8E5M2
            | DType::F8E5M2FNUZ
            | DType::F8E8M0
            | DType::F4E2M1 => Class::F32,
            DType::F64 => Class::F64,
            DType::I8 | DType::I4 | DType::I2 => Class::I8,
            DType::I16 => Class::I16,
            DType::I32 => Class::I32,
            DType::I64 => Class::I64,
            DType::U8 | DType::U4 | DType::U2 => Class::U8,
            DType::U16 => Class::U16,
            DType::U32 => Class::U32,
            DType::U64 => Class::U64,
            DType::Bool => Class::Bool,
            DType::C64 | DType::C128 => return None,
        })
    }

    /// Bytes of one value.
    pub(super) fn size(self) -> usize {
        match self {
            Class::I8 | Class::U8 | Class::Bool => 1,
            Class::I16 | Class::U16 => 2,
            Class::F32 | Class::I32 | Class::U32 => 4,
            Class::F64 | Class::I64 | Class::U64 => 8,
        }
    }
}

/// Whether elements in memory are as registers hold them.
pub(super) fn is_direct(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::F32
            | DType::F64
            | DType::I8
            | DType::I16
            | DType::I32
            | DType::I64
            | DType::U8
            | DType::U16
            | DType::U32
            | DType::U64
            | DType::Bool
    )
}

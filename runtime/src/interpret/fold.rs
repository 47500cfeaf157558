//! One primitive on plain bytes: constant folding.

use super::call::call;
use crate::{AlignedBytes, Error, Frame, Operand, Scratch, Space};
use alloc::vec::Vec;
use kernels::{Fault, Isa, Meta};
use plan::{DType, Primitive};

/// A constant to read.
#[derive(Clone, Copy, Debug)]
pub struct FoldInput<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub dims: &'a [usize],
    /// The distance between neighbours along each axis, in elements; none: row-major.
    pub strides: Option<&'a [isize]>,
    /// The first element, counted in bytes from the start of `bytes`.
    pub offset: usize,
    /// The data, at any address.
    pub bytes: &'a [u8],
}

impl<'a> FoldInput<'a> {
    /// A row-major tensor.
    pub fn new(dtype: DType, dims: &'a [usize], bytes: &'a [u8]) -> FoldInput<'a> {
        FoldInput { dtype, dims, strides: None, offset: 0, bytes }
    }
}

/// What a primitive wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// The written tensors, row-major; none where nobody wanted one.
    pub tensors: Vec<Option<Vec<u8>>>,
    /// The values of the symbols that the primitive defines (one for each axis of its writes at most).
    pub defines: Vec<i64>,
}

/// Room for the symbols that a primitive defines.
const DEFINES: usize = 8;

/// Runs one primitive. Data that is not aligned for its elements is copied to where it is.
///
/// # Errors
/// A [`Fault`] when the operands do not fit the primitive, or the data makes it fail.
pub fn fold(
    prim: &Primitive<i64>,
    reads: &[Option<FoldInput<'_>>],
    writes: &[Option<(DType, Vec<usize>)>],
    isa: Isa,
) -> Result<Folded, Fault> {
    let mut end = 0usize;
    let mut targets = Vec::with_capacity(writes.len());
    for write in writes {
        targets.push(match write {
            Some((dtype, dims)) => Some(place(&mut end, *dtype, dims)?),
            None => None,
        });
    }
    let metas: Vec<Option<Meta>> = reads.iter().map(|r| r.as_ref().map(meta).transpose()).collect::<Result<_, _>>()?;
    let write_metas: Vec<Option<Meta>> = targets.iter().map(|t| t.as_ref().map(Operand::meta)).collect();
    let scratch = Scratch::at(end, kernels::workspace(prim, &metas, &write_metas)?);
    let total = end.checked_add(scratch.len).ok_or(Fault::Extent)?;
    let mut arena = AlignedBytes::zeroed(total).map_err(|e| short(&e))?;

    // Only misaligned data is copied.
    let mut copies: Vec<Option<AlignedBytes>> = Vec::with_capacity(reads.len());
    for read in reads {
        copies.push(match read {
            Some(r) if !r.bytes.as_ptr().addr().is_multiple_of(r.dtype.align()) => {
                Some(AlignedBytes::copy_of(r.bytes).map_err(|e| short(&e))?)
            }
            _ => None,
        });
    }
    let inputs: Vec<&[u8]> = reads
        .iter()
        .zip(&copies)
        .map(|(read, copy)| match (copy, read) {
            (Some(copy), _) => &copy[..],
            (None, Some(read)) => read.bytes,
            (None, None) => &[],
        })
        .collect();
    let mut sources = Vec::with_capacity(reads.len());
    for (i, read) in (0u32..).zip(reads) {
        sources.push(match read {
            Some(r) => Some(Operand::of_slices(Space::Input(i), r.offset, r.dtype, r.dims, r.strides)?),
            None => None,
        });
    }

    let mut defines = [0i64; DEFINES];
    let mut frame = Frame::new(&mut arena, &[], &inputs, isa);
    let source_refs: Vec<Option<&Operand>> = sources.iter().map(Option::as_ref).collect();
    let target_refs: Vec<Option<&Operand>> = targets.iter().map(Option::as_ref).collect();
    call(&mut frame, prim, &source_refs, &target_refs, scratch, &mut defines)?;
    let mut tensors = Vec::with_capacity(targets.len());
    for target in &targets {
        tensors.push(target.as_ref().map(|t| frame.bytes(t).map(<[u8]>::to_vec)).transpose()?);
    }
    Ok(Folded { tensors, defines: defines.to_vec() })
}

/// The next free place for a row-major tensor.
fn place(end: &mut usize, dtype: DType, dims: &[usize]) -> Result<Operand, Fault> {
    let operand = Operand::of_slices(Space::Arena, *end, dtype, dims, None)?;
    let bytes = usize::try_from(operand.high).map_err(|_| Fault::Extent)?;
    *end = end.checked_add(bytes).and_then(|e| e.checked_next_multiple_of(64)).ok_or(Fault::Extent)?;
    Ok(operand)
}

fn meta(read: &FoldInput<'_>) -> Result<Meta, Fault> {
    let dims = plan::Axes::from_slice(read.dims).ok_or(Fault::Shape("rank above 8"))?;
    Ok(Meta { dtype: read.dtype, dims })
}

/// What a lack of memory is to a kernel.
fn short(error: &Error) -> Fault {
    match error.kind() {
        crate::ErrorKind::OutOfMemory { bytes } => Fault::Capacity { needed: *bytes, planned: 0 },
        _ => Fault::Extent,
    }
}

//! Tensors at the border between a caller and the interpreter.

use crate::{AlignedBytes, Error, Fault, Operand};
use alloc::vec::Vec;
use plan::DType;

/// A tensor that the caller gives: row-major, at any address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputTensor<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub dims: &'a [usize],
    /// The data.
    pub bytes: &'a [u8],
}

/// A tensor that a run left: row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputTensor {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub dims: Vec<usize>,
    /// The data.
    pub bytes: Vec<u8>,
}

/// The inputs of a run, aligned.
pub(super) struct Inputs<'a> {
    pub(super) slices: Vec<&'a [u8]>,
}

/// Copies of those inputs that are not aligned for their elements.
pub(super) fn align_inputs(inputs: &[InputTensor<'_>]) -> Result<Vec<Option<AlignedBytes>>, Error> {
    let crooked = |i: &InputTensor<'_>| !i.bytes.as_ptr().addr().is_multiple_of(i.dtype.align());
    if !inputs.iter().any(crooked) {
        return Ok(Vec::new());
    }
    inputs.iter().map(|i| if crooked(i) { AlignedBytes::copy_of(i.bytes).map(Some) } else { Ok(None) }).collect()
}

impl<'a> Inputs<'a> {
    /// The data of each input, or of its copy.
    pub(super) fn new(inputs: &[InputTensor<'a>], copies: &'a [Option<AlignedBytes>]) -> Inputs<'a> {
        let copy = |i: usize| copies.get(i).and_then(Option::as_ref).map(|c| &c[..]);
        Inputs { slices: inputs.iter().enumerate().map(|(i, t)| copy(i).unwrap_or(t.bytes)).collect() }
    }
}

/// The elements of an operand in `memory`, row-major.
pub(crate) fn gather(memory: &[u8], operand: &Operand) -> Result<Vec<u8>, Fault> {
    let dtype = operand.dtype;
    let total = dtype.bytes_of(operand.shape.len()).ok_or(Fault::Extent)?;
    if operand.shape.is_contiguous() {
        let end = operand.offset.checked_add(total).ok_or(Fault::OutOfBounds)?;
        let found = if total == 0 { Some(&[][..]) } else { memory.get(operand.offset..end) };
        return found.map(<[u8]>::to_vec).ok_or(Fault::OutOfBounds);
    }
    let size = dtype.size().ok_or(Fault::Strided)?;
    let (dims, strides) = (operand.shape.dims(), operand.shape.strides());
    let mut out = Vec::with_capacity(total);
    for flat in 0..operand.shape.len() {
        let (mut rest, mut offset) = (flat, operand.offset);
        for (dim, stride) in dims.iter().zip(strides).rev() {
            let step = (rest % dim) as isize * stride * size as isize;
            offset = offset.checked_add_signed(step).ok_or(Fault::OutOfBounds)?;
            rest /= dim;
        }
        out.extend_from_slice(memory.get(offset..offset + size).ok_or(Fault::OutOfBounds)?);
    }
    Ok(out)
}

/// Writes row-major `bytes` to an operand in `memory`.
pub(super) fn scatter(memory: &mut [u8], operand: &Operand, bytes: &[u8]) -> Result<(), Fault> {
    if !operand.shape.is_contiguous() {
        return Err(Fault::Strided);
    }
    let end = operand.offset.checked_add(bytes.len()).ok_or(Fault::OutOfBounds)?;
    memory.get_mut(operand.offset..end).ok_or(Fault::OutOfBounds)?.copy_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Space;

    #[test]
    fn strided_outputs_become_row_major() {
        let memory = [0u8, 1, 2, 3, 4, 5];
        let transposed = Operand::of_slices(Space::Arena, 0, DType::U8, &[3, 2], Some(&[1, 3])).unwrap();
        assert_eq!(gather(&memory, &transposed), Ok(vec![0, 3, 1, 4, 2, 5]));
        let flipped = Operand::of_slices(Space::Arena, 5, DType::U8, &[6], Some(&[-1])).unwrap();
        assert_eq!(gather(&memory, &flipped), Ok(vec![5, 4, 3, 2, 1, 0]));
        let beyond = Operand::of_slices(Space::Arena, 4, DType::U8, &[3], None).unwrap();
        assert_eq!(gather(&memory, &beyond), Err(Fault::OutOfBounds));
    }
}

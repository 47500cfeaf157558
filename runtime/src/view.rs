//! Typed tensors at the border between a caller and generated code.

use crate::{Error, Fault, Operand, Space, TensorProblem};
use plan::DType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type of elements that callers see.
pub trait Scalar: Copy + sealed::Sealed + 'static {
    /// The element type.
    const DTYPE: DType;
    /// Whether every byte pattern is a value; else only 0 and 1 are.
    const ANY_BITS: bool = true;
}

macro_rules! scalars {
    ($($t:ty => $d:ident),*) => { $(
        impl sealed::Sealed for $t {}
        impl Scalar for $t { const DTYPE: DType = DType::$d; }
    )* };
}
scalars!(f32 => F32, f64 => F64, half::f16 => F16, half::bf16 => BF16, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64, [f32; 2] => C64, [f64; 2] => C128);

impl sealed::Sealed for bool {}
impl Scalar for bool {
    const DTYPE: DType = DType::Bool;
    const ANY_BITS: bool = false;
}

/// The bytes of a slice of elements.
pub fn as_bytes<T: Scalar>(data: &[T]) -> &[u8] {
    // SAFETY: every `Scalar` is a number, a boolean or an array of numbers: no padding, and its bytes are initialised.
    unsafe { core::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// Bytes as a slice of elements.
///
/// # Errors
/// When the length is no multiple of an element's, the address is not aligned, or a boolean is neither 0 nor 1.
pub fn from_bytes<T: Scalar>(bytes: &[u8]) -> Result<&[T], TensorProblem> {
    let count = bytes.len() / size_of::<T>();
    if count * size_of::<T>() != bytes.len() {
        return Err(TensorProblem::Bytes { found: bytes.len(), wanted: count * size_of::<T>() });
    }
    if count == 0 {
        return Ok(&[]);
    }
    if !bytes.as_ptr().addr().is_multiple_of(align_of::<T>()) {
        return Err(TensorProblem::Misaligned);
    }
    if !T::ANY_BITS && bytes.iter().any(|b| *b > 1) {
        return Err(TensorProblem::Bool);
    }
    // SAFETY: length and alignment are checked; every bit pattern is a `T`, or is checked to be one.
    Ok(unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), count) })
}

/// A borrowed row-major tensor of a known rank.
///
/// As an input it can be had from a slice or array alone where at most one dim of the model's input is free: the model then
/// works out the dims. Otherwise [`View::new`] takes them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View<'a, T, const RANK: usize> {
    data: &'a [T],
    /// None: for the model to work out.
    dims: Option<[usize; RANK]>,
}

impl<'a, T: Scalar, const RANK: usize> View<'a, T, RANK> {
    /// A tensor with these dims.
    pub fn new(data: &'a [T], dims: [usize; RANK]) -> Self {
        View { data, dims: Some(dims) }
    }

    /// A tensor whose dims follow from its length and the model's fixed dims.
    pub fn flat(data: &'a [T]) -> Self {
        View { data, dims: None }
    }

    /// The elements, row-major.
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// The dims; those of a view made without them are not known, and given as 0.
    pub fn dims(&self) -> [usize; RANK] {
        self.dims.unwrap_or([0; RANK])
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The element at an index, or none outside the dims.
    pub fn get(&self, index: [usize; RANK]) -> Option<T> {
        let mut flat = 0usize;
        for (i, dim) in index.iter().zip(self.dims?.iter()) {
            if i >= dim {
                return None;
            }
            flat = flat.checked_mul(*dim)?.checked_add(*i)?;
        }
        self.data.get(flat).copied()
    }

    /// The bytes of the elements.
    pub fn bytes(&self) -> &'a [u8] {
        as_bytes(self.data)
    }

    /// The dims, where `known` gives those that the model fixes; checked against them and the length.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn resolve(&self, name: &'static str, known: [Option<usize>; RANK]) -> Result<[usize; RANK], Error> {
        self.resolve_as(known, T::DTYPE).map_err(|problem| Error::tensor(name, problem))
    }

    /// As [`View::resolve`], where the elements stand for those of another type (8-bit floats, packed integers).
    fn resolve_as(&self, known: [Option<usize>; RANK], dtype: DType) -> Result<[usize; RANK], TensorProblem> {
        let dims = match self.dims {
            Some(dims) => dims,
            None => {
                let per_byte = 8usize.checked_div(dtype.bits()).unwrap_or(0).max(1);
                infer(self.data.len().saturating_mul(per_byte), known)?
            }
        };
        for (axis, (found, wanted)) in dims.iter().zip(known.iter()).enumerate() {
            if let Some(wanted) = wanted
                && found != wanted
            {
                return Err(TensorProblem::Dim { axis, found: integer(*found), wanted: integer(*wanted) });
            }
        }
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let wanted = count.and_then(|n| dtype.bytes_of(n)).unwrap_or(usize::MAX);
        if size_of_val(self.data) != wanted {
            return Err(if dtype == T::DTYPE {
                TensorProblem::Length { found: self.data.len(), wanted: wanted / size_of::<T>().max(1) }
            } else {
                TensorProblem::Bytes { found: size_of_val(self.data), wanted }
            });
        }
        Ok(dims)
    }
}

impl<'a, const RANK: usize> View<'a, u8, RANK> {
    /// As [`View::resolve`], for bytes that hold elements of `dtype`, a type that Rust does not have.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn resolve_bytes(
        &self,
        name: &'static str,
        known: [Option<usize>; RANK],
        dtype: DType,
    ) -> Result<[usize; RANK], Error> {
        self.resolve_as(known, dtype).map_err(|problem| Error::tensor(name, problem))
    }
}

impl<'a, T: Scalar> View<'a, T, 0> {
    /// The only element of a scalar.
    pub fn value(&self) -> Option<T> {
        self.data.first().copied()
    }
}

/// The dims of `len` elements, where at most one is free.
fn infer<const RANK: usize>(len: usize, known: [Option<usize>; RANK]) -> Result<[usize; RANK], TensorProblem> {
    let fixed = known.iter().flatten().try_fold(1usize, |n, d| n.checked_mul(*d)).unwrap_or(usize::MAX);
    let free = known.iter().filter(|k| k.is_none()).count();
    if free > 1 {
        return Err(TensorProblem::Flat);
    }
    // With an extent of 0 among the fixed ones, the free one may be anything; 0 is.
    let rest = len.checked_div(fixed).unwrap_or(0);
    if free == 1 && rest.checked_mul(fixed) != Some(len) {
        return Err(TensorProblem::Length { found: len, wanted: rest.saturating_mul(fixed) });
    }
    Ok(known.map(|k| k.unwrap_or(rest)))
}

/// Output `name` of a run that has ended: what lies at `operand` in the arena, or among the weights.
///
/// # Errors
/// When it does not lie within its memory as a row-major tensor of this type and rank.
pub fn output<'a, T: Scalar, const RANK: usize>(
    name: &'static str,
    arena: &'a [u8],
    weights: &'a [u8],
    operand: &Operand,
) -> Result<View<'a, T, RANK>, Error> {
    let memory = match operand.space {
        Space::Arena => arena,
        Space::Weights => weights,
        Space::Heap(_) | Space::Input(_) => return Err(Error::extent(name, Fault::OutOfBounds)),
    };
    view_of(name, memory, operand)
}

/// Output `name` of a run of the eager executor: what lies at `operand` in a buffer that is held, among the states, or among
/// the weights.
///
/// # Errors
/// As [`output`].
#[cfg(feature = "alloc")]
pub fn held_output<'a, T: Scalar, const RANK: usize>(
    name: &'static str,
    heap: &'a crate::Heap,
    states: &'a [u8],
    weights: &'a [u8],
    operand: &Operand,
) -> Result<View<'a, T, RANK>, Error> {
    match operand.space {
        Space::Heap(buffer) => {
            let memory = heap.bytes(buffer).map_err(|fault| Error::extent(name, fault))?;
            view_of(name, memory, operand)
        }
        _ => output(name, states, weights, operand),
    }
}

/// The tensor at `operand` in its memory.
fn view_of<'a, T: Scalar, const RANK: usize>(
    name: &'static str,
    memory: &'a [u8],
    operand: &Operand,
) -> Result<View<'a, T, RANK>, Error> {
    let outside = || Error::extent(name, Fault::OutOfBounds);
    if !operand.shape.is_contiguous() {
        return Err(Error::extent(name, Fault::Strided));
    }
    let bytes = usize::try_from(operand.high - operand.low).map_err(|_| outside())?;
    let range = if bytes == 0 { Some(&[][..]) } else { memory.get(operand.offset..).and_then(|m| m.get(..bytes)) };
    let data = from_bytes(range.ok_or_else(outside)?).map_err(|problem| Error::tensor(name, problem))?;
    let dims: [usize; RANK] = operand.dims().try_into().map_err(|_| outside())?;
    Ok(View::new(data, dims))
}

/// Copies data into the memory of a state or of the caller.
///
/// # Errors
/// When the lengths differ.
pub fn copy_into<T: Scalar>(name: &'static str, to: &mut [T], from: &[T]) -> Result<(), Error> {
    if to.len() != from.len() {
        return Err(Error::tensor(name, TensorProblem::Length { found: to.len(), wanted: from.len() }));
    }
    to.copy_from_slice(from);
    Ok(())
}

/// Writes a state's contents to where it lies in the arena.
///
/// # Errors
/// When the length is another than the state's.
pub fn set_state<T: Scalar>(name: &'static str, arena: &mut [u8], operand: &Operand, data: &[T]) -> Result<(), Error> {
    let bytes = as_bytes(data);
    let wanted = usize::try_from(operand.high - operand.low).unwrap_or(usize::MAX);
    if bytes.len() != wanted {
        let problem = TensorProblem::Length { found: data.len(), wanted: operand.shape.len() };
        return Err(Error::tensor(name, problem));
    }
    let end = operand.offset.saturating_add(bytes.len());
    let place = arena.get_mut(operand.offset..end).ok_or_else(|| Error::extent(name, Fault::OutOfBounds))?;
    place.copy_from_slice(bytes);
    Ok(())
}

fn integer(extent: usize) -> i64 {
    i64::try_from(extent).unwrap_or(i64::MAX)
}

impl<'a, T: Scalar, const RANK: usize> From<&'a [T]> for View<'a, T, RANK> {
    fn from(data: &'a [T]) -> Self {
        View::flat(data)
    }
}
impl<'a, T: Scalar, const N: usize, const RANK: usize> From<&'a [T; N]> for View<'a, T, RANK> {
    fn from(data: &'a [T; N]) -> Self {
        View::flat(data)
    }
}
impl<'a, T: Scalar, const N: usize, const M: usize> From<&'a [[T; N]; M]> for View<'a, T, 2> {
    fn from(data: &'a [[T; N]; M]) -> Self {
        View::new(data.as_flattened(), [M, N])
    }
}
impl<'a, T: Scalar, const N: usize, const M: usize, const L: usize> From<&'a [[[T; N]; M]; L]> for View<'a, T, 3> {
    fn from(data: &'a [[[T; N]; M]; L]) -> Self {
        View::new(data.as_flattened().as_flattened(), [L, M, N])
    }
}
impl<'a, T: Scalar> From<&'a T> for View<'a, T, 0> {
    fn from(value: &'a T) -> Self {
        View::new(core::slice::from_ref(value), [])
    }
}
#[cfg(feature = "alloc")]
impl<'a, T: Scalar, const RANK: usize> From<&'a alloc::vec::Vec<T>> for View<'a, T, RANK> {
    fn from(data: &'a alloc::vec::Vec<T>) -> Self {
        View::flat(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_free_dim_is_worked_out() {
        let data = [0f32; 12];
        let view: View<'_, f32, 3> = (&data).into();
        assert_eq!(view.resolve("x", [Some(1), None, Some(4)]), Ok([1, 3, 4]));
        assert!(view.resolve("x", [Some(1), None, Some(5)]).is_err());
        assert!(view.resolve("x", [None, None, Some(4)]).is_err());
        assert!(view.resolve("x", [Some(1), Some(2), Some(4)]).is_err());
        let shaped = View::new(&data, [3, 4]);
        assert_eq!(shaped.resolve("x", [None, None]), Ok([3, 4]));
        assert!(View::new(&data, [3, 5]).resolve("x", [None, None]).is_err());
        assert_eq!(shaped.get([2, 3]), Some(0.0));
        assert_eq!(shaped.get([3, 0]), None);
    }

    #[test]
    fn bytes_become_elements_only_if_they_are_such() {
        assert!(from_bytes::<bool>(&[0, 1, 2]).is_err());
        assert_eq!(from_bytes::<bool>(&[0, 1]), Ok(&[false, true][..]));
        assert!(from_bytes::<f32>(&[0; 7]).is_err());
        let words = [1u32, 2];
        assert_eq!(from_bytes::<u32>(as_bytes(&words)), Ok(&words[..]));
        assert!(from_bytes::<u32>(&as_bytes(&words)[1..5]).is_err());
    }
}

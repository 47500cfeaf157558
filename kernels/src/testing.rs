//! What the tests of several kernels share.

use crate::{Call, Dst, Fault, Isa, Shape, Src};
use core::ptr::NonNull;
use plan::{DType, Primitive};
use std::{vec, vec::Vec};

/// A small deterministic generator (splitmix64).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn range(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * ((self.next() >> 40) as f32 / (1u64 << 24) as f32)
    }
}

/// The instruction sets that this processor has.
pub(crate) fn isas() -> Vec<Isa> {
    [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().filter(|i| *i <= Isa::detect()).collect()
}

/// A tensor of a test: bytes with room around, and a view of them.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    /// Aligned memory.
    pub(crate) memory: Vec<u128>,
    /// Elements before the first one of the view.
    pub(crate) origin: usize,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

impl Tensor {
    /// Zeros, contiguous.
    pub(crate) fn zeros(dtype: DType, dims: &[usize]) -> Tensor {
        let shape = Shape::contiguous(dims).unwrap();
        let bytes = dtype.bytes_of(shape.len()).unwrap();
        Tensor { memory: vec![0; bytes.div_ceil(16) + 1], origin: 0, dtype, shape }
    }

    /// Elements of a type.
    pub(crate) fn of<T: crate::Element>(data: &[T], dims: &[usize]) -> Tensor {
        Self::with_bits(T::DTYPE, data, dims)
    }

    /// Elements by their bits, such as booleans as `u8`.
    pub(crate) fn with_bits<T: Copy>(dtype: DType, data: &[T], dims: &[usize]) -> Tensor {
        let mut t = Self::zeros(dtype, dims);
        assert!(t.shape.len() == data.len() || dtype.bits() < 8);
        // SAFETY: the memory is at least as large as the data.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), t.memory.as_mut_ptr().cast(), data.len()) };
        t
    }

    /// The same elements, laid out with the axes in another order in memory, some of them backwards, with gaps.
    pub(crate) fn scattered(&self, rng: &mut Rng) -> Tensor {
        let dims = self.shape.dims();
        let mut order: Vec<usize> = (0..dims.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
        let mut strides = vec![0isize; dims.len()];
        let (mut step, mut origin) = (1 + rng.below(2) as isize, 0usize);
        for axis in order {
            strides[axis] = step;
            if rng.below(3) == 0 {
                strides[axis] = -step;
                origin += step as usize * dims[axis].saturating_sub(1);
            }
            step *= dims[axis].max(1) as isize + rng.below(2) as isize;
        }
        let size = self.dtype.size().unwrap();
        let room = (step as usize + 2) * size;
        let shape = Shape::strided(dims, &strides).unwrap();
        let mut t = Tensor { memory: vec![0; room.div_ceil(16) + 1], origin, dtype: self.dtype, shape };
        for (i, at) in self.offsets().into_iter().zip(t.offsets()) {
            let (from, to) = (self.bytes()[i * size..][..size].to_vec(), at * size);
            t.bytes_mut()[to..to + size].copy_from_slice(&from);
        }
        t
    }

    /// Index in memory of each element, in row-major order.
    pub(crate) fn offsets(&self) -> Vec<usize> {
        let mut all = vec![self.origin as isize];
        for (d, s) in self.shape.dims().iter().zip(self.shape.strides()) {
            all = all.iter().flat_map(|o| (0..*d).map(move |i| o + i as isize * s)).collect();
        }
        all.into_iter().map(|o| usize::try_from(o).unwrap()).collect()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: bytes of integers.
        unsafe { core::slice::from_raw_parts(self.memory.as_ptr().cast(), self.memory.len() * 16) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: bytes of integers.
        unsafe { core::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.memory.len() * 16) }
    }

    /// The elements in row-major order.
    pub(crate) fn to_vec<T: Copy>(&self) -> Vec<T> {
        let data = self.memory.as_ptr().cast::<T>();
        // SAFETY: the offsets of a view are within its memory.
        self.offsets().into_iter().map(|o| unsafe { *data.add(o) }).collect()
    }

    fn first(&self) -> NonNull<u8> {
        let skip = self.origin * self.dtype.bits() / 8;
        NonNull::new(self.memory.as_ptr().cast::<u8>().wrapping_add(skip).cast_mut()).unwrap()
    }

    pub(crate) fn src(&self) -> Src<'_> {
        // SAFETY: the view is within the memory, which is borrowed.
        unsafe { Src::from_raw(self.first(), self.dtype, self.shape, false) }
    }

    pub(crate) fn dst(&mut self) -> Dst<'_> {
        let first =
            NonNull::new(self.memory.as_mut_ptr().cast::<u8>().wrapping_add(self.origin * self.dtype.bits() / 8));
        // SAFETY: the view is within the memory, which is borrowed for writing.
        unsafe { Dst::from_raw(first.unwrap(), self.dtype, self.shape, false) }
    }
}

/// Runs a primitive; with `shared`, read `shared` is the memory of write 0 (which must hold the same elements already).
pub(crate) fn run(
    prim: &Primitive<i64>,
    reads: &[Option<&Tensor>],
    writes: &mut [Tensor],
    shared: Option<usize>,
    isa: Isa,
) -> Result<Vec<i64>, Fault> {
    let meta = |t: &Tensor| crate::Meta { dtype: t.dtype, dims: plan::Axes::from_slice(t.shape.dims()).unwrap() };
    let read_metas: Vec<_> = reads.iter().map(|r| r.map(meta)).collect();
    let write_metas: Vec<_> = writes.iter().map(|w| Some(meta(w))).collect();
    let need = crate::workspace(prim, &read_metas, &write_metas)?;
    let mut room = vec![[0x5au8; 64]; need.div_ceil(64) + 1];
    let start = room.as_ptr().cast::<u8>().align_offset(64);
    let workspace = &mut room.as_flattened_mut()[start..start + need];
    let mut dsts = Vec::new();
    let mut shared_src = None;
    for (i, w) in writes.iter_mut().enumerate() {
        let mut d = w.dst();
        if shared.is_some() && i == 0 {
            let first = NonNull::new(d.as_ptr()).unwrap();
            // SAFETY: one read and one write of the same view, marked as shared.
            unsafe {
                shared_src = Some(Src::from_raw(first, d.dtype(), *d.shape(), true));
                d = Dst::from_raw(first, d.dtype(), *d.shape(), true);
            }
        }
        dsts.push(Some(d));
    }
    let srcs: Vec<_> = reads
        .iter()
        .enumerate()
        .map(|(i, r)| if shared == Some(i) { shared_src } else { r.map(Tensor::src) })
        .collect();
    let mut defines = [-1; 2];
    crate::execute(prim, &mut Call::new(&srcs, &mut dsts, workspace, &mut defines, isa))?;
    Ok(defines.to_vec())
}

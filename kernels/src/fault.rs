//! What can go wrong in a kernel.

use plan::DType;

/// Why a kernel stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An operand is absent.
    Missing {
        /// Its place in the list.
        operand: usize,
    },
    /// An operand has another element type than the kernel needs.
    DType {
        /// What was found.
        found: DType,
        /// What the kernel can do.
        wanted: &'static str,
    },
    /// Extents do not fit together.
    Shape(&'static str),
    /// An operand that must be contiguous is not.
    Strided,
    /// A read shares memory with a write where the kernel does not allow it.
    Shared,
    /// A view does not lie within its memory, or is not aligned.
    OutOfBounds,
    /// A step would write a constant or an input.
    ReadOnly,
    /// A write overlaps another operand of its step, and is no permitted in-place pair with it.
    Overlap,
    /// The workspace is too small.
    Workspace {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// An index in the data is out of range.
    Index {
        /// The index.
        index: i64,
        /// The extent.
        extent: usize,
    },
    /// An integer division by zero.
    DivisionByZero,
    /// The data asks for more elements than the plan has room for.
    Capacity {
        /// Elements needed.
        needed: usize,
        /// Elements planned.
        planned: usize,
    },
    /// The kernel does not do this.
    Unsupported(&'static str),
    /// A buffer of the heap is used, or given back, while it is not held.
    NotHeld {
        /// Its number.
        buffer: u32,
    },
    /// A buffer of the heap is taken while it is held.
    Held {
        /// Its number.
        buffer: u32,
    },
    /// There is no memory for a buffer of the heap.
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// An extent cannot be computed: overflow or division by zero.
    Extent,
    /// Caller's data of the wrong size.
    Input {
        /// Which input.
        input: usize,
        /// What is wrong.
        what: &'static str,
    },
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Fault::Missing { operand } => write!(f, "operand {operand} is missing"),
            Fault::DType { found, wanted } => write!(f, "element type {found} where {wanted} is needed"),
            Fault::Shape(what) => write!(f, "shapes do not fit: {what}"),
            Fault::Strided => f.write_str("an operand is strided where contiguous data is needed"),
            Fault::Shared => f.write_str("an operand shares memory with a result"),
            Fault::OutOfBounds => f.write_str("a view lies outside its memory or is misaligned"),
            Fault::ReadOnly => f.write_str("a write to memory that is read only"),
            Fault::Overlap => f.write_str("a write overlaps another operand of its step"),
            Fault::Workspace { needed, given } => write!(f, "workspace of {needed} bytes needed, {given} given"),
            Fault::Index { index, extent } => write!(f, "index {index} is out of range for an extent of {extent}"),
            Fault::DivisionByZero => f.write_str("integer division by zero"),
            Fault::Capacity { needed, planned } => write!(f, "{needed} elements needed, {planned} planned"),
            Fault::Unsupported(what) => write!(f, "not supported: {what}"),
            Fault::NotHeld { buffer } => write!(f, "buffer {buffer} is not held"),
            Fault::Held { buffer } => write!(f, "buffer {buffer} is held already"),
            Fault::OutOfMemory { bytes } => write!(f, "{bytes} bytes of memory cannot be had"),
            Fault::Extent => f.write_str("an extent cannot be computed"),
            Fault::Input { input, what } => write!(f, "input {input}: {what}"),
        }
    }
}

impl core::error::Error for Fault {}

//! Where the interpreter puts buffers and tensors.

use super::numbers::Numbers;
use crate::{Error, Fault, Operand, Scratch, Space};
use alloc::{format, vec::Vec};
use plan::{Class, Plan, Value};

/// How the interpreter lays out memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The plan's arena at the plan's offsets.
    Static,
    /// Every buffer at a place of its own, poisoned before each run. Needs no offsets in the plan; the memory grows with the
    /// run's sizes.
    Naive,
    /// Every buffer in memory of its own, taken before the step that first needs it, poisoned, and given back after the step
    /// that last does, as the plan's eager schedule says. Needs no offsets in the plan.
    Eager,
}

/// The alignment of buffers in naive mode.
const APART: usize = 64;

/// The offset in its memory of each buffer, and the size of the arena.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    pub(super) offsets: Vec<usize>,
    pub(super) arena: usize,
    /// Bytes at the start of the arena that survive runs in naive mode.
    pub(super) kept: usize,
    /// Whether activations and workspaces are taken during the run: then only states have a place.
    held: bool,
}

impl Layout {
    /// The plan's own.
    pub(super) fn of_plan(plan: &Plan) -> Result<Layout, Error> {
        let offsets = plan.buffers.iter().map(|b| size(b.offset)).collect::<Result<_, _>>()?;
        Ok(Layout { offsets, arena: size(plan.arena_bytes)?, kept: 0, held: false })
    }

    /// Every buffer after the others, states first. `numbers` tells sizes that depend on the inputs.
    pub(super) fn naive(plan: &Plan, numbers: &Numbers) -> Result<Layout, Error> {
        let mut layout = Layout::states(plan)?;
        for (buffer, offset) in plan.buffers.iter().zip(&mut layout.offsets) {
            if matches!(buffer.class, Class::Act | Class::Work) {
                *offset = take(&mut layout.arena, buffer_bytes(buffer, numbers)?)?;
            }
        }
        Ok(layout)
    }

    /// The states alone, one after the other.
    fn states(plan: &Plan) -> Result<Layout, Error> {
        let mut layout = Layout::default();
        layout.offsets.resize(plan.buffers.len(), 0);
        for (buffer, offset) in plan.buffers.iter().zip(&mut layout.offsets) {
            match buffer.class {
                Class::Persist => *offset = take(&mut layout.arena, size(buffer.max_bytes)?)?,
                Class::Const | Class::Input => *offset = size(buffer.offset)?,
                Class::Act | Class::Work => {}
            }
        }
        layout.kept = layout.arena;
        Ok(layout)
    }

    /// States in the arena, everything else in buffers that are taken during the run.
    pub(super) fn eager(plan: &Plan) -> Result<Layout, Error> {
        Ok(Layout { held: true, ..Layout::states(plan)? })
    }

    /// Where a tensor lies, or none where that is not known yet.
    pub(super) fn operand(&self, plan: &Plan, value: &Value, numbers: &Numbers) -> Result<Option<Operand>, Fault> {
        let Some(mut operand) = within_buffer(value, numbers)? else { return Ok(None) };
        let id = value.place.buffer.index();
        let (Some(buffer), Some(start)) = (plan.buffers.get(id), self.offsets.get(id)) else {
            return Err(Fault::OutOfBounds);
        };
        let start = match buffer.class {
            Class::Const => {
                operand.space = Space::Weights;
                *start
            }
            Class::Input => {
                operand.space = Space::Input(u32::try_from(buffer.offset).map_err(|_| Fault::OutOfBounds)?);
                0
            }
            Class::Act | Class::Work if self.held => {
                operand.space = Space::Heap(u32::try_from(id).map_err(|_| Fault::OutOfBounds)?);
                0
            }
            Class::Persist | Class::Act | Class::Work => *start,
        };
        operand.offset = operand.offset.checked_add(start).ok_or(Fault::OutOfBounds)?;
        Ok(Some(operand))
    }

    /// Where a workspace lies.
    pub(super) fn scratch(&self, plan: &Plan, buffer: plan::BufferId, numbers: &Numbers) -> Result<Scratch, Fault> {
        let (Some(found), Some(offset)) = (plan.buffers.get(buffer.index()), self.offsets.get(buffer.index())) else {
            return Err(Fault::OutOfBounds);
        };
        if self.held {
            return Ok(Scratch::held(buffer.0));
        }
        let len = match numbers.extent(found.bytes) {
            Some(len) => len,
            None => usize::try_from(found.max_bytes).map_err(|_| Fault::Extent)?,
        };
        Ok(Scratch::at(*offset, len))
    }
}

/// A tensor's place counted from the start of its buffer, its type and its shape; none where that is not known yet.
pub(crate) fn within_buffer(value: &Value, numbers: &Numbers) -> Result<Option<Operand>, Fault> {
    let mut dims = plan::Axes::<usize>::EMPTY;
    for dim in value.dims.iter() {
        let Some(extent) = numbers.get(*dim) else { return Ok(None) };
        let extent = usize::try_from(extent).map_err(|_| Fault::Extent)?;
        dims.push(extent).ok_or(Fault::Shape("rank above 8"))?;
    }
    let mut strides = None;
    if let Some(exprs) = &value.place.strides {
        let mut list = plan::Axes::<isize>::EMPTY;
        for stride in exprs.iter() {
            let Some(stride) = numbers.get(*stride) else { return Ok(None) };
            list.push(isize::try_from(stride).map_err(|_| Fault::Extent)?).ok_or(Fault::Shape("rank above 8"))?;
        }
        strides = Some(list);
    }
    let Some(first) = numbers.get(value.place.offset) else { return Ok(None) };
    let first = usize::try_from(first).map_err(|_| Fault::Extent)?;
    let first = value.dtype.bytes_of(first).ok_or(Fault::Extent)?;
    Operand::of_slices(Space::Arena, first, value.dtype, &dims, strides.as_deref()).map(Some)
}

/// Bytes of a buffer in this run; where the run has not told yet, its proven maximum.
pub(crate) fn buffer_bytes(buffer: &plan::Buffer, numbers: &Numbers) -> Result<usize, Error> {
    match numbers.extent(buffer.bytes) {
        Some(bytes) => Ok(bytes),
        None => size(buffer.max_bytes),
    }
}

/// The next free place.
fn take(end: &mut usize, bytes: usize) -> Result<usize, Error> {
    let start = *end;
    *end =
        start.checked_add(bytes).and_then(|e| e.checked_next_multiple_of(APART)).ok_or(Error::out_of_memory(bytes))?;
    Ok(start)
}

fn size(bytes: u64) -> Result<usize, Error> {
    usize::try_from(bytes).map_err(|_| Error::plan(format!("{bytes} bytes do not fit this machine's addresses")))
}

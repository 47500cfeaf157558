//! What a kernel is called with.

use crate::{Dst, Fault, Isa, Src};
use core::mem::take;
use plan::{Axes, DType};

/// Type and extents of an operand, for sizing without memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meta {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub dims: Axes<usize>,
}

/// Scratch memory of one step, aligned to 64 bytes. Its contents are arbitrary.
pub type Workspace<'m> = &'m mut [u8];

/// The operands of one step.
pub struct Call<'c, 'm> {
    reads: &'c [Option<Src<'m>>],
    writes: &'c mut [Option<Dst<'m>>],
    workspace: Workspace<'m>,
    defines: &'c mut [i64],
    isa: Isa,
}

impl<'c, 'm> Call<'c, 'm> {
    /// A call with these operands. `defines` receives the values of the symbols that the step finds.
    pub fn new(
        reads: &'c [Option<Src<'m>>],
        writes: &'c mut [Option<Dst<'m>>],
        workspace: Workspace<'m>,
        defines: &'c mut [i64],
        isa: Isa,
    ) -> Self {
        Call { reads, writes, workspace, defines, isa }
    }

    /// The instruction set to use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// How many places the list of reads has.
    pub fn reads(&self) -> usize {
        self.reads.len()
    }

    /// Read `i`.
    ///
    /// # Errors
    /// When it is absent.
    pub fn src(&self, i: usize) -> Result<Src<'m>, Fault> {
        self.opt_src(i).ok_or(Fault::Missing { operand: i })
    }

    /// Read `i`, or none where it is absent.
    pub fn opt_src(&self, i: usize) -> Option<Src<'m>> {
        self.reads.get(i).copied().flatten()
    }

    /// Read `i` where it stands, or none where it is absent.
    pub fn read(&self, i: usize) -> Option<&'c Src<'m>> {
        self.reads.get(i).and_then(Option::as_ref)
    }

    /// Takes write `i`, which can be taken once.
    ///
    /// # Errors
    /// When it is absent.
    pub fn dst(&mut self, i: usize) -> Result<Dst<'m>, Fault> {
        self.opt_dst(i).ok_or(Fault::Missing { operand: i })
    }

    /// Takes write `i`, which can be taken once, or gives none where it is absent.
    pub fn opt_dst(&mut self, i: usize) -> Option<Dst<'m>> {
        self.writes.get_mut(i).and_then(Option::take)
    }

    /// Takes the workspace, which can be taken once.
    pub fn take_workspace(&mut self) -> Workspace<'m> {
        take(&mut self.workspace)
    }

    /// Takes the workspace as `len` elements of `T` (f32, i32, ...), which can be taken once.
    ///
    /// # Errors
    /// When it is too small.
    pub fn take_workspace_of<T: crate::Plain>(&mut self, len: usize) -> Result<&'m mut [T], Fault> {
        let memory = self.take_workspace();
        let given = memory.len();
        // SAFETY: every bit pattern is a `T`.
        let (_, whole, _) = unsafe { memory.align_to_mut::<T>() };
        whole.get_mut(..len).ok_or(Fault::Workspace { needed: len.saturating_mul(size_of::<T>()), given })
    }

    /// Gives symbol `i` of those that the step defines its value.
    pub fn define(&mut self, i: usize, value: i64) {
        if let Some(place) = self.defines.get_mut(i) {
            *place = value;
        }
    }
}

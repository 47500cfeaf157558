//! Memory of the host as the walker sees it: an arena laid out before the run, weights, and the caller's inputs.

use super::{
    call::call,
    layout::Layout,
    numbers::Numbers,
    walk::{At, Memory, Operands, Stop},
};
use crate::{Error, Fault, Frame, Operand, Scratch};
use alloc::vec::Vec;
use plan::{BlockId, Plan, Primitive, SymbolId, ValueId};

/// What poisoned memory holds: NaN as a float, -1 as a signed integer.
pub(super) const POISON: u8 = 0xff;

/// The memory of one run.
pub(super) struct Host<'r> {
    pub(super) plan: &'r Plan,
    pub(super) layout: &'r Layout,
    /// Where each tensor lies, as far as that is known.
    pub(super) operands: &'r mut [Option<Operand>],
    pub(super) frame: Frame<'r>,
    pub(super) observer: &'r mut dyn FnMut(BlockId, usize),
}

impl Host<'_> {
    /// Where a tensor lies.
    fn operand(&self, value: ValueId) -> Result<Operand, Fault> {
        self.operands.get(value.index()).copied().flatten().ok_or(Fault::Extent)
    }
}

impl Memory for Host<'_> {
    fn enter(&mut self, at: At, _: &Numbers) -> Result<(), Error> {
        (self.observer)(at.block, at.step);
        Ok(())
    }

    fn leave(&mut self, _: At, _: &Numbers) -> Result<(), Error> {
        Ok(())
    }

    fn launch(
        &mut self,
        _: At,
        prim: &Primitive<i64>,
        of: Operands<'_>,
        numbers: &Numbers,
        defines: &mut [i64],
    ) -> Result<(), Stop> {
        let scratch = match of.workspace {
            Some(buffer) => self.layout.scratch(self.plan, buffer, numbers)?,
            None => Scratch::NONE,
        };
        // Most steps have few operands: those need no allocation.
        const FEW: usize = 8;
        let (reads, writes) = (of.reads, of.writes);
        if reads.len() <= FEW && writes.len() <= FEW {
            let (mut read_refs, mut write_refs) = ([None; FEW], [None; FEW]);
            collect(self.operands, reads, &mut read_refs)?;
            collect(self.operands, writes, &mut write_refs)?;
            let (Some(reads), Some(writes)) = (read_refs.get(..reads.len()), write_refs.get(..writes.len())) else {
                return Err(Fault::OutOfBounds.into());
            };
            return Ok(call(&mut self.frame, prim, reads, writes, scratch, defines)?);
        }
        let (mut read_refs, mut write_refs): (Vec<_>, Vec<_>) =
            (alloc::vec![None; reads.len()], alloc::vec![None; writes.len()]);
        collect(self.operands, reads, &mut read_refs)?;
        collect(self.operands, writes, &mut write_refs)?;
        Ok(call(&mut self.frame, prim, &read_refs, &write_refs, scratch, defines)?)
    }

    fn flag(&mut self, value: ValueId) -> Result<bool, Stop> {
        Ok(self.operand(value).and_then(|o| self.frame.flag(&o))?)
    }

    fn integer(&mut self, value: ValueId) -> Result<i64, Stop> {
        Ok(self.operand(value).and_then(|o| self.frame.integer(&o))?)
    }

    fn moved(&mut self, symbol: SymbolId, numbers: &Numbers) {
        for index in numbers.dependent_values(symbol) {
            if let (Some(value), Some(place)) = (self.plan.values.get(index), self.operands.get_mut(index)) {
                *place = self.layout.operand(self.plan, value, numbers).unwrap_or(None);
            }
        }
    }
}

/// The operands of these values.
fn collect<'o>(
    operands: &'o [Option<Operand>],
    values: &[Option<ValueId>],
    into: &mut [Option<&'o Operand>],
) -> Result<(), Fault> {
    for (value, place) in values.iter().zip(into) {
        if let Some(value) = value {
            let found = operands.get(value.index()).and_then(Option::as_ref);
            *place = Some(found.ok_or(Fault::Extent)?);
        }
    }
    Ok(())
}

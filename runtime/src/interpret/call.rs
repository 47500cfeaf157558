//! Calls with as many operands as a plan says.

use crate::{Frame, Kernel, Operand, Scratch};
use alloc::vec::Vec;
use kernels::{Call, Dst, Fault, Src};
use plan::Primitive;

/// The most operands of a step that runs without an allocation.
const FEW: usize = 32;

/// Runs a primitive on these operands.
pub(crate) fn call(
    frame: &mut Frame<'_>,
    prim: &Primitive<i64>,
    reads: &[Option<&Operand>],
    writes: &[Option<&Operand>],
    scratch: Scratch,
    defines: &mut [i64],
) -> Result<(), Fault> {
    if reads.len() <= FEW && writes.len() <= FEW {
        let mut srcs = [None; FEW];
        let mut dsts = [const { None }; FEW];
        let (srcs, dsts) = (srcs.get_mut(..reads.len()), dsts.get_mut(..writes.len()));
        let (Some(srcs), Some(dsts)) = (srcs, dsts) else { return Err(Fault::OutOfBounds) };
        call_in(frame, prim, (reads, writes), scratch, defines, (srcs, dsts))
    } else {
        let mut srcs: Vec<Option<Src<'_>>> = reads.iter().map(|_| None).collect();
        let mut dsts: Vec<Option<Dst<'_>>> = writes.iter().map(|_| None).collect();
        call_in(frame, prim, (reads, writes), scratch, defines, (&mut srcs, &mut dsts))
    }
}

fn call_in<'m>(
    frame: &'m mut Frame<'_>,
    prim: &Primitive<i64>,
    (reads, writes): (&[Option<&Operand>], &[Option<&Operand>]),
    scratch: Scratch,
    defines: &mut [i64],
    (srcs, dsts): (&mut [Option<Src<'m>>], &mut [Option<Dst<'m>>]),
) -> Result<(), Fault> {
    let isa = frame.isa();
    let workspace = frame.views(&Kernel::traits(prim), reads, writes, scratch, srcs, dsts)?;
    prim.run(&mut Call::new(srcs, dsts, workspace, defines, isa))
}

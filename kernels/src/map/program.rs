//! A checked program with a place for each of its values.

use super::class::{Class, is_direct};
use crate::{Fault, Isa, map::cast, map::float, map::scalar};
use plan::{
    DType,
    prim::{MapInstr, MapOp},
};

/// Bytes of all slots together, on the stack.
pub(super) const ROOM: usize = 32 * 1024;
/// No slot.
pub(super) const NONE: u8 = u8::MAX;
/// The most elements of a block.
const BLOCK: usize = 512;

/// How an operand comes to the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed {
    /// No instruction reads it.
    Unused,
    /// From where it lies.
    Direct,
    /// One value for all, put into its slot once.
    Scalar,
    /// One value for each row, put into its slot when the row begins.
    Row,
    /// Loaded into its slot block by block.
    Load,
}

/// A program of at most `V` values, operands first, then results.
pub(super) struct Program<'p, const V: usize> {
    pub(super) code: &'p [MapInstr],
    pub(super) reads: usize,
    /// Where each value lies: a slot, or [`NONE`] for what is used in place or not at all.
    pub(super) slots: [u8; V],
    /// Elements of a block.
    pub(super) block: usize,
    /// Bytes from one slot to the next.
    pub(super) pitch: usize,
    /// Slots in all.
    pub(super) used: usize,
}

/// The type that an instruction wants of argument `k`.
pub(super) fn wanted(instr: &MapInstr, k: usize) -> DType {
    if instr.op == MapOp::Select && k == 0 { DType::Bool } else { instr.dtype }
}

/// Whether the result of an instruction has the class that its operation gives.
fn result_fits(instr: &MapInstr) -> bool {
    match instr.op {
        MapOp::Cast | MapOp::CastSaturate | MapOp::CastNoSaturate | MapOp::Const => true,
        MapOp::Eq | MapOp::Lt | MapOp::Le | MapOp::IsNan | MapOp::IsPosInf | MapOp::IsNegInf => {
            instr.out == DType::Bool
        }
        _ => Class::of(instr.out) == Class::of(instr.dtype),
    }
}

/// Checks that the program fits its operands, given by their types, so that running it cannot read or write beyond its registers.
pub(super) fn check(code: &[MapInstr], operand: impl Fn(usize) -> Option<DType>, reads: usize) -> Result<(), Fault> {
    for (i, instr) in code.iter().enumerate() {
        if Class::of(instr.dtype).is_none() || Class::of(instr.out).is_none() {
            return Err(Fault::DType { found: instr.dtype, wanted: "real numbers" });
        }
        if !result_fits(instr) {
            return Err(Fault::DType { found: instr.out, wanted: "the type that the operation gives" });
        }
        for (k, arg) in instr.args.iter().take(instr.op.arity()).enumerate() {
            let arg = usize::from(*arg);
            let found = if arg < reads {
                operand(arg).ok_or(Fault::Missing { operand: arg })?
            } else if arg - reads < i {
                code[arg - reads].out
            } else {
                return Err(Fault::Shape("an instruction reads a later register"));
            };
            if Class::of(found) != Class::of(wanted(instr, k)) {
                return Err(Fault::DType { found, wanted: wanted(instr, k).name() });
            }
        }
    }
    Ok(())
}

impl<'p, const V: usize> Program<'p, V> {
    /// Gives slots to the values of a checked program. `feeds` says how the operands come, `dtypes` what they are; `direct` whether
    /// the last result goes straight to memory.
    pub(super) fn new(code: &'p [MapInstr], feeds: &[Feed], dtypes: impl Fn(usize) -> DType, direct: bool) -> Self {
        let reads = feeds.len();
        let mut last = [0u8; V];
        for (i, instr) in code.iter().enumerate() {
            for arg in instr.args.iter().take(instr.op.arity()) {
                last[usize::from(*arg)] = i as u8;
            }
        }
        let mut program = Program { code, reads, slots: [NONE; V], block: BLOCK, pitch: 0, used: 0 };
        let (mut free, mut width) = (!0u128, 1);
        let mut take = |slots: &mut [u8; V], value: usize, size: usize, free: &mut u128| {
            let slot = free.trailing_zeros();
            *free &= !(1 << slot);
            slots[value] = slot as u8;
            width = width.max(size);
            program.used = program.used.max(slot as usize + 1);
        };
        let size = |d: DType| Class::of(d).map_or(8, Class::size);
        for (value, feed) in feeds.iter().enumerate() {
            if matches!(feed, Feed::Scalar | Feed::Row | Feed::Load) {
                take(&mut program.slots, value, size(dtypes(value)), &mut free);
            }
        }
        for (i, instr) in code.iter().enumerate() {
            if instr.op == MapOp::Const {
                take(&mut program.slots, reads + i, size(instr.out), &mut free);
            }
        }
        for (i, instr) in code.iter().enumerate() {
            if instr.op == MapOp::Const {
                continue;
            }
            let is_last = i + 1 == code.len();
            // The result's slot first: it may not be that of an argument of another size.
            if !(is_last && direct) {
                take(&mut program.slots, reads + i, size(instr.out), &mut free);
            }
            for arg in instr.args.iter().take(instr.op.arity()) {
                let arg = usize::from(*arg);
                let fixed = match arg.checked_sub(reads) {
                    None => matches!(feeds[arg], Feed::Scalar | Feed::Row),
                    Some(k) => code[k].op == MapOp::Const,
                };
                if usize::from(last[arg]) == i && program.slots[arg] != NONE && !fixed {
                    free |= 1 << program.slots[arg];
                }
            }
            // Nobody reads it: only the last result is wanted.
            if last[reads + i] == 0 && !is_last && program.slots[reads + i] != NONE {
                free |= 1 << program.slots[reads + i];
            }
        }
        if program.used > 0 {
            program.block = (ROOM / (program.used * width)).min(BLOCK) / 32 * 32;
            program.pitch = program.block * width;
        } else {
            program.block = usize::MAX;
        }
        program
    }

    /// Runs the instructions that are not constants on `n` elements. `at` finds the register of a value.
    ///
    /// # Safety
    /// The registers hold `n` values of the classes of the program, and `out` can be written with `n` results; the processor has
    /// `isa`.
    pub(super) unsafe fn run(
        &self,
        isa: Isa,
        at: impl Fn(usize) -> *mut u8,
        out: *mut u8,
        n: usize,
    ) -> Result<(), Fault> {
        for (i, instr) in self.code.iter().enumerate() {
            if instr.op == MapOp::Const {
                continue;
            }
            let a = instr.args.map(|arg| at(usize::from(arg)).cast_const());
            let o = if i + 1 == self.code.len() { out } else { at(self.reads + i) };
            // SAFETY: the program was checked: arguments and results have the classes of the instruction.
            unsafe { step(isa, instr, scalar::Registers { a, o, n })? }
        }
        Ok(())
    }
}

/// Runs one instruction.
///
/// # Safety
/// The registers hold values of the instruction's classes, and the processor has `isa`.
pub(super) unsafe fn step(isa: Isa, instr: &MapInstr, r: scalar::Registers) -> Result<(), Fault> {
    let Some(class) = Class::of(instr.dtype) else { return Err(Fault::Unsupported("complex numbers")) };
    // SAFETY: passed on to the caller.
    unsafe {
        match instr.op {
            MapOp::Cast | MapOp::CastSaturate | MapOp::CastNoSaturate => {
                cast::cast(isa, instr.op, instr.dtype, instr.out, r.a[0], r.o, r.n);
            }
            MapOp::Select => match class.size() {
                1 => scalar::select::<u8>(r),
                2 => scalar::select::<u16>(r),
                4 => scalar::select::<u32>(r),
                _ => scalar::select::<u64>(r),
            },
            op => match class {
                Class::F32 => {
                    let a = r.a.map(|p| p.cast::<f32>());
                    if instr.out == DType::Bool {
                        if !float::compare(isa, op, a, r.o, r.n) {
                            return Err(Fault::Unsupported("this comparison"));
                        }
                    } else if !float::arithmetic(isa, op, a, r.o.cast(), r.n) {
                        scalar::on_f32(op, r)?;
                    }
                }
                Class::F64 => scalar::on_f64(op, r)?,
                Class::I8 => scalar::on_i8(op, r)?,
                Class::I16 => scalar::on_i16(op, r)?,
                Class::I32 => scalar::on_i32(op, r)?,
                Class::I64 => scalar::on_i64(op, r)?,
                Class::U8 => scalar::on_u8(op, r)?,
                Class::U16 => scalar::on_u16(op, r)?,
                Class::U32 => scalar::on_u32(op, r)?,
                Class::U64 => scalar::on_u64(op, r)?,
                Class::Bool => scalar::on_bool(op, r)?,
            },
        }
    }
    Ok(())
}

/// Whether an operand of this type can be used where it lies, given the elements are one after another.
pub(super) fn usable_in_place(dtype: DType) -> bool {
    is_direct(dtype)
}

//! Fused elementwise programs.
//!
//! A program runs block by block: operands that are not dense are loaded into registers (a few hundred elements each, on the
//! stack), each instruction is one loop over the block, and the result is stored. Dense operands and results are used where they
//! lie. Nothing is contracted: each operation rounds by itself, so a program gives the bits that its operations give one by one,
//! on every instruction set. f16, bf16 and the smaller floats are held as f32 and rounded by casts and when stored.

mod cast;
mod class;
mod float;
pub(crate) mod memory;
mod program;
mod scalar;

use crate::{Call, Dst, Fault, Isa, Src, walk::Walk};
use class::Class;
use core::mem::MaybeUninit;
use plan::{
    DType, MAX_RANK,
    prim::{Map, MapInstr, MapOp},
};
use program::{Feed, NONE, Program, ROOM};

/// Rows shorter than this are put together into blocks.
const SHORT_ROW: usize = 128;

/// Runs [`Map`].
///
/// # Errors
/// A [`Fault`] when the operands do not fit, or an integer is divided by zero.
pub fn map(p: &Map, call: &mut Call<'_, '_>) -> Result<(), Fault> {
    let code = p.code.as_slice();
    let dst = call.dst(0)?;
    let isa = call.isa();
    if code.is_empty() {
        let src = call.src(0)?;
        return if src.is_shared() { Ok(()) } else { crate::copy::copy_view(&src, dst) };
    }
    let reads = call.reads();
    if reads > 32 {
        return Err(Fault::Unsupported("more than 32 operands"));
    }
    program::check(code, |i| call.read(i).map(Src::dtype), reads)?;
    let mut used = 0u64;
    for instr in code {
        for arg in instr.args.iter().take(instr.op.arity()) {
            if usize::from(*arg) < reads {
                used |= 1 << arg;
            }
        }
    }
    let found = code.last().map_or(dst.dtype(), |i| i.out);
    if found != dst.dtype() {
        return Err(Fault::DType { found: dst.dtype(), wanted: found.name() });
    }
    if let [only] = code
        && let Some(done) = dense(isa, only, call, &dst)
    {
        return done;
    }
    let (operands, values) = (used.count_ones() as usize, reads + code.len());
    let task = Task { code, call, reads, used, isa };
    match (operands, values) {
        (..=1, ..=4) => task.run::<2, 4>(dst),
        (..=3, ..=12) => task.run::<4, 12>(dst),
        (..=8, ..=24) => task.run::<9, 24>(dst),
        (..=32, ..=64) => task.run::<33, 64>(dst),
        _ => Err(Fault::Unsupported("more than 32 instructions")),
    }
}

/// Runs a checked single instruction whose operands and result all lie dense as registers would; none where they do not. This is
/// the short way for the most frequent programs.
fn dense(isa: Isa, instr: &MapInstr, call: &Call<'_, '_>, dst: &Dst<'_>) -> Option<Result<(), Fault>> {
    let fits = |dtype: DType, contiguous: bool| contiguous && program::usable_in_place(dtype);
    if instr.op == MapOp::Const || !fits(dst.dtype(), dst.is_contiguous()) {
        return None;
    }
    let mut a = [core::ptr::null(); 3];
    for (place, arg) in a.iter_mut().zip(instr.args).take(instr.op.arity()) {
        let src = call.read(usize::from(arg))?;
        if src.dims() != dst.dims() || !fits(src.dtype(), src.is_contiguous()) {
            return None;
        }
        *place = src.as_ptr().cast_const();
    }
    // SAFETY: the operands have the types of the instruction, and as many elements as the result; one that shares the result's
    // memory does so exactly.
    Some(unsafe { program::step(isa, instr, scalar::Registers { a, o: dst.as_ptr(), n: dst.len() }) })
}

/// What a program is to work on.
struct Task<'t, 'c, 'm> {
    code: &'t [MapInstr],
    call: &'t Call<'c, 'm>,
    reads: usize,
    /// Bit `i`: some instruction reads operand `i`.
    used: u64,
    isa: Isa,
}

/// An operand that is used.
#[derive(Clone, Copy)]
struct Operand {
    first: *const u8,
    dtype: DType,
    feed: Feed,
    /// Its elements lie one after another in the order of the walk.
    linear: bool,
    /// Which value of the program it is.
    value: u8,
}

/// Everything that a run needs: the walk over destination (0) and operands (1..), and the program.
struct Engine<'t, const N: usize, const V: usize> {
    walk: Walk<N>,
    program: Program<'t, V>,
    operands: [Operand; N],
    count: usize,
    out: *mut u8,
    out_dtype: DType,
    out_linear: bool,
    /// Results go to memory without a register in between.
    out_direct: bool,
    flat: bool,
    isa: Isa,
}

impl<'t> Task<'t, '_, '_> {
    fn run<const N: usize, const V: usize>(&self, dst: Dst<'_>) -> Result<(), Fault> {
        let none = Operand { first: core::ptr::null(), dtype: DType::F32, feed: Feed::Unused, linear: false, value: 0 };
        let mut operands = [none; N];
        let mut strides: [&[isize]; N] = [&[]; N];
        strides[0] = dst.strides();
        let mut count = 1;
        for i in (0..self.reads).filter(|i| self.used & 1 << i != 0) {
            let src = self.call.read(i).ok_or(Fault::Missing { operand: i })?;
            if src.dims() != dst.dims() {
                return Err(Fault::Shape("an operand of Map has other dims than the result"));
            }
            operands[count] = Operand { first: src.as_ptr(), dtype: src.dtype(), value: i as u8, ..none };
            strides[count] = src.strides();
            count += 1;
        }
        let line = self.line(&dst, &operands[..count]);
        let walk = match line {
            Some(strides) => Walk::line(dst.len(), strides),
            None => Walk::any_order(dst.dims(), strides),
        };
        if walk.is_empty() {
            return Ok(());
        }
        let flat = walk.dims().len() > 1 && walk.row() < SHORT_ROW;
        let mut feeds = [Feed::Unused; V];
        for (k, operand) in operands.iter_mut().enumerate().take(count).skip(1) {
            operand.linear = is_linear(&walk, k);
            operand.feed = feed_of(&walk, k, operand, flat);
            feeds[usize::from(operand.value)] = operand.feed;
        }
        let out_linear = is_linear(&walk, 0);
        let dense = if flat { out_linear } else { out_linear || walk.row_strides()[0] == 1 };
        let fills = self.code.last().is_some_and(|i| i.op == MapOp::Const);
        let out_direct = dense && !fills && program::usable_in_place(dst.dtype());
        let dtype_of = |value: usize| self.call.read(value).map_or(DType::F64, Src::dtype);
        let program = Program::<V>::new(self.code, &feeds[..self.reads], dtype_of, out_direct);
        let out = dst.as_ptr();
        let out_dtype = dst.dtype();
        let isa = self.isa;
        let engine = Engine { walk, program, operands, count, out, out_dtype, out_linear, out_direct, flat, isa };
        if engine.program.used == 0 { engine.start(core::ptr::null_mut()) } else { engine.with_room() }
    }
}

impl Task<'_, '_, '_> {
    /// The strides of one line, where everything is dense or a single value.
    fn line<const N: usize>(&self, dst: &Dst<'_>, operands: &[Operand]) -> Option<[isize; N]> {
        let mut strides = [0; N];
        strides[0] = if dst.is_contiguous() { 1 } else { return None };
        for (stride, operand) in strides.iter_mut().zip(operands).skip(1) {
            let src = self.call.read(usize::from(operand.value))?;
            *stride = if src.is_contiguous() {
                1
            } else if src.strides().iter().all(|s| *s == 0) {
                0
            } else {
                return None;
            };
        }
        Some(strides)
    }
}

/// Whether the elements of operand `k` lie one after another in the order of the walk.
fn is_linear<const N: usize>(walk: &Walk<N>, k: usize) -> bool {
    let dims = walk.dims();
    let mut step = 1isize;
    for (axis, dim) in dims.iter().enumerate().rev() {
        if *dim != 1 && walk.strides(axis)[k] != step {
            return false;
        }
        step = step.saturating_mul(*dim as isize);
    }
    true
}

fn feed_of<const N: usize>(walk: &Walk<N>, k: usize, operand: &Operand, flat: bool) -> Feed {
    let direct = program::usable_in_place(operand.dtype);
    if operand.linear && direct {
        return Feed::Direct;
    }
    if (0..walk.dims().len()).all(|axis| walk.strides(axis)[k] == 0) {
        return Feed::Scalar;
    }
    match walk.row_strides()[k] {
        1 if direct && !flat => Feed::Direct,
        0 if !flat => Feed::Row,
        _ => Feed::Load,
    }
}

/// Registers on the stack.
#[repr(align(64))]
struct Room([MaybeUninit<u8>; ROOM]);

impl<const N: usize, const V: usize> Engine<'_, N, V> {
    #[inline(never)]
    fn with_room(&self) -> Result<(), Fault> {
        let mut room = Room([MaybeUninit::uninit(); ROOM]);
        self.start(room.0.as_mut_ptr().cast())
    }

    /// Fills what stays the same and runs all blocks. `room` has the bytes of all slots of the program.
    fn start(&self, room: *mut u8) -> Result<(), Fault> {
        let mut registers: [*mut u8; V] = [core::ptr::null_mut(); V];
        for (register, slot) in registers.iter_mut().zip(self.program.slots) {
            if slot != NONE {
                *register = room.wrapping_add(usize::from(slot) * self.program.pitch);
            }
        }
        let most = if self.flat { self.walk.len() } else { self.walk.row() }.min(self.program.block);
        for (i, instr) in self.program.code.iter().enumerate().filter(|(_, i)| i.op == MapOp::Const) {
            let bits = instr.bits.to_le_bytes();
            // SAFETY: eight bytes hold any constant, and a slot has room for a block.
            unsafe {
                let to = registers[self.program.reads + i];
                memory::load(self.isa, instr.out, bits.as_ptr(), 0, 0, to, most);
            }
        }
        for operand in self.used().filter(|o| o.feed == Feed::Scalar) {
            // SAFETY: a scalar has one element at its first address, and a slot has room for a block.
            unsafe {
                let to = registers[usize::from(operand.value)];
                memory::load(self.isa, operand.dtype, operand.first, 0, 0, to, most);
            }
        }
        // SAFETY: the registers are those of the program, in `room`; the walk is that of the views.
        unsafe { if self.flat { self.blocks(&mut registers) } else { self.rows(&mut registers) } }
    }

    fn used(&self) -> impl Iterator<Item = &Operand> {
        self.operands[..self.count].iter().skip(1)
    }

    /// Row by row.
    ///
    /// # Safety
    /// `registers` has the slots of the program.
    unsafe fn rows(&self, registers: &mut [*mut u8; V]) -> Result<(), Fault> {
        let (row, steps) = (self.walk.row(), self.walk.row_strides());
        let out_step = if row == 1 { 1 } else { steps[0] };
        self.walk.rows(|at| {
            for (k, operand) in self.operands.iter().enumerate().take(self.count).skip(1) {
                if operand.feed == Feed::Row {
                    let to = registers[usize::from(operand.value)];
                    // SAFETY: the row's element is within the view, and a slot has room for a block.
                    unsafe {
                        memory::load(self.isa, operand.dtype, operand.first, at[k], 0, to, row.min(self.program.block));
                    }
                }
            }
            let mut i = 0;
            while i < row {
                let n = (row - i).min(self.program.block);
                for (k, operand) in self.operands.iter().enumerate().take(self.count).skip(1) {
                    let register = &mut registers[usize::from(operand.value)];
                    let first = at[k] + i as isize * steps[k];
                    match operand.feed {
                        Feed::Direct => *register = operand.place(first),
                        // SAFETY: the elements are within the view, and a slot has room for a block.
                        Feed::Load => unsafe {
                            memory::load(self.isa, operand.dtype, operand.first, first, steps[k], *register, n);
                        },
                        _ => {}
                    }
                }
                let first = at[0] + i as isize * out_step;
                // SAFETY: registers are loaded for `n` elements; the elements are within the destination.
                unsafe {
                    let out = self.result(registers, first);
                    self.program.run(
                        self.isa,
                        |v| registers.get(v).copied().unwrap_or(core::ptr::null_mut()),
                        out,
                        n,
                    )?;
                    if !self.out_direct {
                        memory::store(self.isa, self.out_dtype, out, self.out, first, out_step, n);
                    }
                }
                i += n;
            }
            Ok(())
        })
    }

    /// Block by block through rows too short to be blocks.
    ///
    /// # Safety
    /// `registers` has the slots of the program.
    unsafe fn blocks(&self, registers: &mut [*mut u8; V]) -> Result<(), Fault> {
        let total = self.walk.len();
        let mut i = 0;
        while i < total {
            let n = (total - i).min(self.program.block);
            for (k, operand) in self.operands.iter().enumerate().take(self.count).skip(1) {
                let register = &mut registers[usize::from(operand.value)];
                match operand.feed {
                    Feed::Direct => *register = operand.place(i as isize),
                    // SAFETY: the elements are within the view, and a slot has room for a block.
                    Feed::Load => unsafe {
                        let (dtype, from, to) = (operand.dtype, operand.first, *register);
                        if operand.linear {
                            memory::load(self.isa, dtype, from, i as isize, 1, to, n);
                        } else {
                            let size = Class::of(dtype).map_or(0, Class::size);
                            pieces(&self.walk, k, i, n, |first, step, done, len| {
                                memory::load(self.isa, dtype, from, first, step, to.wrapping_add(done * size), len);
                            });
                        }
                    },
                    _ => {}
                }
            }
            // SAFETY: registers are loaded for `n` elements; the elements are within the destination.
            unsafe {
                let out = self.result(registers, i as isize);
                self.program.run(self.isa, |v| registers.get(v).copied().unwrap_or(core::ptr::null_mut()), out, n)?;
                if !self.out_direct {
                    let size = Class::of(self.out_dtype).map_or(0, Class::size);
                    if self.out_linear {
                        memory::store(self.isa, self.out_dtype, out, self.out, i as isize, 1, n);
                    } else {
                        pieces(&self.walk, 0, i, n, |first, step, done, len| {
                            let from = out.wrapping_add(done * size);
                            memory::store(self.isa, self.out_dtype, from, self.out, first, step, len);
                        });
                    }
                }
            }
            i += n;
        }
        Ok(())
    }

    /// Where the last instruction writes: element `first` of the destination, or a register.
    fn result(&self, registers: &[*mut u8; V], first: isize) -> *mut u8 {
        if self.out_direct {
            self.out.wrapping_offset(first * (self.out_dtype.bits() / 8) as isize)
        } else {
            registers[self.program.reads + self.program.code.len() - 1]
        }
    }
}

impl Operand {
    /// The address of element `at`, for elements of whole bytes.
    fn place(&self, at: isize) -> *mut u8 {
        self.first.wrapping_offset(at * (self.dtype.bits() / 8) as isize).cast_mut()
    }
}

/// Calls `f(first, step, done, len)` for each piece of a row among elements `start..start + n` of the walk, for operand `k`.
fn pieces<const N: usize>(
    walk: &Walk<N>,
    k: usize,
    start: usize,
    n: usize,
    mut f: impl FnMut(isize, isize, usize, usize),
) {
    let dims = walk.dims();
    let (row, step) = (walk.row(), walk.row_strides()[k]);
    let outer = dims.len() - 1;
    let mut index = [0usize; MAX_RANK];
    let (mut rest, mut at) = (start / row, 0isize);
    for axis in (0..outer).rev() {
        index[axis] = rest % dims[axis];
        rest /= dims[axis];
        at += index[axis] as isize * walk.strides(axis)[k];
    }
    let (mut within, mut done) = (start % row, 0);
    while done < n {
        let len = (row - within).min(n - done);
        f(at + within as isize * step, step, done, len);
        done += len;
        within = 0;
        for axis in (0..outer).rev() {
            at += walk.strides(axis)[k];
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            at -= walk.strides(axis)[k] * dims[axis] as isize;
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests;

//! The walker: the steps of a plan in the order of a run, through its blocks, wherever memory is.
//!
//! Control flow, symbols and the wording of failures are here; where a tensor lies and how a primitive runs is a
//! [`Memory`]'s to know: the arena of the host, memory taken step by step, or a device's.

use super::numbers::Numbers;
use crate::{Error, Fault};
use alloc::vec::Vec;
use core::ops::Range;
use plan::{Action, BlockId, BufferId, Plan, Primitive, Step, SymbolId, ValueId};

/// Blocks may not nest deeper.
const DEPTH: usize = 64;

/// The most symbols that one step may define.
const DEFINES: usize = 8;

/// Why a step did not end well.
pub(crate) enum Stop {
    /// The step itself failed: the walker says which it was.
    Fault(Fault),
    /// Something else, already told.
    Error(Error),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

/// A step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    /// Its block.
    pub(crate) block: BlockId,
    /// Its place in the block.
    pub(crate) step: usize,
    /// Its number, counted through all blocks: how messages number steps.
    pub(crate) index: usize,
}

/// What a primitive works on.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'p> {
    pub(crate) reads: &'p [Option<ValueId>],
    pub(crate) writes: &'p [Option<ValueId>],
    pub(crate) workspace: Option<BufferId>,
}

/// Where the tensors of a walk lie.
pub(crate) trait Memory {
    /// A step begins.
    fn enter(&mut self, at: At, numbers: &Numbers) -> Result<(), Error>;

    /// A step, with all bodies that it ran, has ended well.
    fn leave(&mut self, at: At, numbers: &Numbers) -> Result<(), Error>;

    /// Runs a primitive. `defines` receives the values of the symbols that it finds.
    fn launch(
        &mut self,
        at: At,
        prim: &Primitive<i64>,
        operands: Operands<'_>,
        numbers: &Numbers,
        defines: &mut [i64],
    ) -> Result<(), Stop>;

    /// The only element of a boolean tensor.
    fn flag(&mut self, value: ValueId) -> Result<bool, Stop>;

    /// The only element of an i64 tensor.
    fn integer(&mut self, value: ValueId) -> Result<i64, Stop>;

    /// A symbol has got another value: tensors that depend on it lie elsewhere, or have other dims.
    fn moved(&mut self, symbol: SymbolId, numbers: &Numbers);
}

/// The number of the first step of each block, counted through all blocks.
pub(crate) fn first_steps(plan: &Plan) -> Vec<usize> {
    let mut count = 0usize;
    let first = |block: &plan::Block| {
        let first = count;
        count = count.saturating_add(block.steps.len());
        first
    };
    plan.blocks.iter().map(first).collect()
}

/// What a step does, for messages.
pub(crate) fn kind(action: &Action) -> &'static str {
    match action {
        Action::Run { prim, .. } => prim.traits().name,
        Action::If { .. } => "If",
        Action::Loop { .. } => "Loop",
        Action::Define { .. } => "Define",
    }
}

/// The error of a step that failed.
pub(crate) fn failed(plan: &Plan, index: usize, name: &str, primitive: &'static str, fault: Fault) -> Error {
    // Only a message needs the hash. A plan without one has no text either, so its name has to do.
    let hash = plan.hash().unwrap_or_else(|_| plan.name.clone());
    Error::step(index, alloc::string::String::from(name), primitive, hash, fault)
}

/// One run.
pub(crate) struct Walk<'r, M> {
    pub(crate) plan: &'r Plan,
    pub(crate) numbers: &'r mut Numbers,
    pub(crate) first_steps: &'r [usize],
    pub(crate) memory: M,
}

impl<'r, M: Memory> Walk<'r, M> {
    /// Runs the model's own block.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        self.block(BlockId(0), 0)
    }

    fn block(&mut self, block: BlockId, depth: usize) -> Result<(), Error> {
        self.steps(block, 0..usize::MAX, depth)
    }

    /// Runs those steps of a block.
    pub(crate) fn steps(&mut self, block: BlockId, range: Range<usize>, depth: usize) -> Result<(), Error> {
        if depth > DEPTH {
            return Err(Error::plan("blocks nest too deeply"));
        }
        let steps = &self.plan.blocks.get(block.index()).ok_or_else(|| Error::plan("a block is missing"))?.steps;
        let first = self.first_steps.get(block.index()).copied().unwrap_or(0);
        for (i, step) in steps.iter().enumerate().take(range.end).skip(range.start) {
            let at = At { block, step: i, index: first.saturating_add(i) };
            self.memory.enter(at, self.numbers)?;
            self.step(step, at, depth)?;
            self.memory.leave(at, self.numbers)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &'r Step, at: At, depth: usize) -> Result<(), Error> {
        let plan = self.plan;
        self.act(step, at, depth).map_err(|stop| match stop {
            Stop::Fault(fault) => failed(plan, at.index, &step.name, kind(&step.action), fault),
            Stop::Error(error) => error,
        })
    }

    fn act(&mut self, step: &'r Step, at: At, depth: usize) -> Result<(), Stop> {
        match &step.action {
            Action::Run { prim, reads, writes, workspace, defines } => {
                let operands = Operands { reads, writes, workspace: *workspace };
                self.primitive(at, prim, operands, defines)
            }
            Action::If { cond, then_block, else_block } => {
                let flag = self.memory.flag(*cond)?;
                Ok(self.block(if flag { *then_block } else { *else_block }, depth + 1)?)
            }
            Action::Loop { trip, cond, counter, body, max_trips } => {
                let limit = match trip {
                    Some(trip) => self.memory.integer(*trip)?,
                    None => i64::MAX,
                };
                let room = self.numbers.get(*max_trips).ok_or(Fault::Extent)?;
                let mut done = 0i64;
                while done < limit {
                    if let Some(cond) = cond
                        && !self.memory.flag(*cond)?
                    {
                        break;
                    }
                    if done >= room {
                        let needed = extent(done).saturating_add(1);
                        return Err(Fault::Capacity { needed, planned: extent(room) }.into());
                    }
                    self.define(*counter, done)?;
                    self.block(*body, depth + 1)?;
                    done += 1;
                }
                Ok(self.define(*counter, done)?)
            }
            Action::Define { symbol, value } => {
                let value = self.numbers.get(*value).ok_or(Fault::Extent)?;
                Ok(self.define(*symbol, value)?)
            }
        }
    }

    fn primitive(
        &mut self,
        at: At,
        prim: &Primitive<plan::ExprId>,
        operands: Operands<'_>,
        defines: &[SymbolId],
    ) -> Result<(), Stop> {
        let mut missing = false;
        let numbers = &*self.numbers;
        let concrete = prim.map_extents(&mut |e| {
            numbers.get(e).unwrap_or_else(|| {
                missing = true;
                0
            })
        });
        if missing {
            return Err(Fault::Extent.into());
        }
        let mut found = [0i64; DEFINES];
        let found =
            found.get_mut(..defines.len()).ok_or(Fault::Unsupported("a step that defines more than 8 symbols"))?;
        self.memory.launch(at, &concrete, operands, numbers, found)?;
        for (symbol, value) in defines.iter().zip(found.iter()) {
            self.define(*symbol, *value)?;
        }
        Ok(())
    }

    /// Gives a symbol its value, and computes what depends on it.
    fn define(&mut self, symbol: SymbolId, value: i64) -> Result<(), Fault> {
        let known = self.plan.symbols.get(symbol.index()).ok_or(Fault::Extent)?;
        if value > known.hi || value < known.lo {
            return Err(Fault::Capacity { needed: extent(value), planned: extent(known.hi) });
        }
        if self.numbers.symbol(symbol) == Some(value) {
            return Ok(());
        }
        self.numbers.set(symbol, value);
        self.numbers.update(&self.plan.exprs, symbol);
        self.memory.moved(symbol, self.numbers);
        Ok(())
    }
}

/// A count in a message.
fn extent(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}

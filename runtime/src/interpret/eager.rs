//! Memory that is taken before the step that first needs it and given back after the step that last does, as the walker sees
//! it. A buffer's number in the heap is its index in the plan.

use super::{
    host::{Host, POISON},
    layout::buffer_bytes,
    numbers::Numbers,
    walk::{At, Memory, Operands, Stop, failed, kind},
};
use crate::{Error, Fault};
use alloc::vec::Vec;
use plan::{BufferId, Class, Plan, Primitive, SymbolId, ValueId};

/// What the steps take and give back.
#[derive(Default)]
pub(crate) struct Schedule {
    /// Of each block, for each step.
    blocks: Vec<Vec<Turn>>,
}

/// Buffers that a step is the first and the last to need.
#[derive(Clone, Default)]
struct Turn {
    takes: Vec<u32>,
    gives: Vec<u32>,
}

impl Schedule {
    /// The plan's eager schedule.
    pub(crate) fn new(plan: &Plan) -> Schedule {
        let turns = |block: &plan::Block| alloc::vec![Turn::default(); block.steps.len()];
        let mut schedule = Schedule { blocks: plan.blocks.iter().map(turns).collect() };
        for (id, buffer) in (0u32..).zip(&plan.buffers) {
            let Some(eager) = buffer.eager.filter(|_| matches!(buffer.class, Class::Act | Class::Work)) else {
                continue;
            };
            let Some(steps) = schedule.blocks.get_mut(eager.block.index()) else { continue };
            if let Some(turn) = steps.get_mut(eager.alloc as usize) {
                turn.takes.push(id);
            }
            if let Some(turn) = eager.free.and_then(|free| steps.get_mut(free as usize)) {
                turn.gives.push(id);
            }
        }
        // Workspace goes first.
        let root = |b: &u32| plan.buffers.get(*b as usize).is_some_and(|b| b.class != Class::Work);
        schedule.blocks.iter_mut().flatten().for_each(|turn| turn.gives.sort_by_key(root));
        schedule
    }

    /// What a step is the first to need.
    pub(crate) fn takes(&self, at: At) -> &[u32] {
        self.turn(at).map_or(&[], |t| &t.takes)
    }

    /// What a step is the last to need, in the order in which it is given back.
    pub(crate) fn gives(&self, at: At) -> &[u32] {
        self.turn(at).map_or(&[], |t| &t.gives)
    }

    fn turn(&self, at: At) -> Option<&Turn> {
        self.blocks.get(at.block.index())?.get(at.step)
    }
}

/// The memory of one run.
pub(super) struct Eager<'r> {
    pub(super) host: Host<'r>,
    pub(super) schedule: &'r Schedule,
}

impl Eager<'_> {
    /// Takes a buffer of as many bytes as this run needs.
    fn take(&mut self, id: u32, numbers: &Numbers) -> Result<(), Fault> {
        let buffer = self.host.plan.buffers.get(BufferId(id).index()).ok_or(Fault::NotHeld { buffer: id })?;
        let bytes = buffer_bytes(buffer, numbers).map_err(|_| Fault::Extent)?;
        let planned = usize::try_from(buffer.max_bytes).map_err(|_| Fault::Extent)?;
        if bytes > planned {
            return Err(Fault::Capacity { needed: bytes, planned });
        }
        self.host.frame.take(id, bytes)?;
        self.host.frame.poison(id, POISON);
        Ok(())
    }

    fn told(&self, at: At, fault: Fault) -> Error {
        let plan = self.host.plan;
        match plan.blocks.get(at.block.index()).and_then(|b| b.steps.get(at.step)) {
            Some(step) => failed(plan, at.index, &step.name, kind(&step.action), fault),
            None => Error::plan("a step is missing"),
        }
    }
}

impl Memory for Eager<'_> {
    fn enter(&mut self, at: At, numbers: &Numbers) -> Result<(), Error> {
        let takes = self.schedule.takes(at);
        takes.iter().try_for_each(|id| self.take(*id, numbers)).map_err(|fault| self.told(at, fault))?;
        self.host.enter(at, numbers)
    }

    fn leave(&mut self, at: At, numbers: &Numbers) -> Result<(), Error> {
        let gives = self.schedule.gives(at);
        gives.iter().try_for_each(|id| self.host.frame.give(*id)).map_err(|fault| self.told(at, fault))?;
        self.host.leave(at, numbers)
    }

    fn launch(
        &mut self,
        at: At,
        prim: &Primitive<i64>,
        operands: Operands<'_>,
        numbers: &Numbers,
        defines: &mut [i64],
    ) -> Result<(), Stop> {
        self.host.launch(at, prim, operands, numbers, defines)
    }

    fn flag(&mut self, value: ValueId) -> Result<bool, Stop> {
        self.host.flag(value)
    }

    fn integer(&mut self, value: ValueId) -> Result<i64, Stop> {
        self.host.integer(value)
    }

    fn moved(&mut self, symbol: SymbolId, numbers: &Numbers) {
        self.host.moved(symbol, numbers);
    }
}

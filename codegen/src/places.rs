//! Where buffers lie for the executor that is generated, and when the eager one takes them and gives them back.

use crate::{Error, Mode, operands::buffer};
use plan::{Action, BlockId, Buffer, BufferId, Class, Plan, Step};

/// Where a buffer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// In the weights file, at this byte.
    Weights(u64),
    /// At the first byte of an input.
    Input(u64),
    /// In the arena, at this byte.
    Arena(u64),
    /// In memory of its own, under this number.
    Heap(u32),
}

/// What a step takes and gives back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    /// Numbers in the heap, and the buffers that have them from here on.
    pub(crate) takes: Vec<(u32, BufferId)>,
    /// Numbers that are free after the step.
    pub(crate) gives: Vec<u32>,
}

/// The places of a plan's buffers.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) mode: Mode,
    spots: Vec<Option<Spot>>,
    /// Of each block, for each step. Empty where nothing is taken.
    turns: Vec<Vec<Turn>>,
    /// How many numbers there are.
    pub(crate) numbers: u32,
    /// Bytes of the memory that a model keeps: the arena, or the states alone.
    pub(crate) kept_bytes: u64,
}

impl Places {
    pub(crate) fn new(plan: &Plan, mode: Mode) -> Result<Places, Error> {
        let spot = |b: &Buffer| match b.class {
            Class::Const => Some(Spot::Weights(b.offset)),
            Class::Input => Some(Spot::Input(b.offset)),
            Class::Persist | Class::Act | Class::Work => match mode {
                Mode::Static => Some(Spot::Arena(b.offset)),
                Mode::Eager => None,
            },
        };
        let spots = plan.buffers.iter().map(spot).collect();
        let mut places = Places { mode, spots, turns: Vec::new(), numbers: 0, kept_bytes: plan.arena_bytes };
        if mode == Mode::Eager {
            places.keep_states(plan)?;
            places.turns = plan.blocks.iter().map(|b| vec![Turn::default(); b.steps.len()]).collect();
            let held = |b: &&(usize, &Buffer)| matches!(b.1.class, Class::Act | Class::Work);
            let buffers: Vec<_> = plan.buffers.iter().enumerate().collect();
            for (i, found) in buffers.iter().filter(held) {
                places.schedule(*i, found)?;
            }
            places.number(plan, BlockId(0), &mut Vec::new(), 0)?;
        }
        Ok(places)
    }

    /// One state after the other, each at the plan's alignment.
    fn keep_states(&mut self, plan: &Plan) -> Result<(), Error> {
        self.kept_bytes = 0;
        for (found, spot) in plan.buffers.iter().zip(&mut self.spots).filter(|(b, _)| b.class == Class::Persist) {
            *spot = Some(Spot::Arena(self.kept_bytes));
            let bytes = found.max_bytes.checked_next_multiple_of(plan.align.max(1));
            let end = bytes.and_then(|b| self.kept_bytes.checked_add(b));
            self.kept_bytes = end.ok_or_else(|| Error::Plan(format!("state {} is too large", found.name)))?;
        }
        Ok(())
    }

    /// Notes the steps that take a buffer and give it back. What nobody uses has none.
    fn schedule(&mut self, index: usize, found: &Buffer) -> Result<(), Error> {
        let Some(eager) = found.eager else { return Ok(()) };
        let wrong =
            || Error::Plan(format!("buffer {} is taken or given back at a step that does not exist", found.name));
        let id = BufferId(u32::try_from(index).map_err(|_| wrong())?);
        let steps = self.turns.get_mut(eager.block.index()).ok_or_else(wrong)?;
        if eager.free.is_some_and(|free| free < eager.alloc) {
            return Err(Error::Plan(format!("buffer {} is given back before it is taken", found.name)));
        }
        // The number follows when the blocks are walked.
        steps.get_mut(eager.alloc as usize).ok_or_else(wrong)?.takes.push((u32::MAX, id));
        if let Some(free) = eager.free {
            steps.get_mut(free as usize).ok_or_else(wrong)?.gives.push(id.0);
        }
        Ok(())
    }

    /// Gives every buffer of a block, and of the blocks within it, the lowest number that is free while it is held: what repeats
    /// in a model has the same numbers each time, and so the same code. `busy` says which are not free when the block begins.
    fn number(&mut self, plan: &Plan, id: BlockId, busy: &mut Vec<bool>, depth: usize) -> Result<(), Error> {
        let steps = &plan.blocks.get(id.index()).ok_or_else(|| Error::missing("block", id))?.steps;
        if depth > plan.blocks.len() {
            return Err(Error::Plan(format!("block {} runs itself", id.0)));
        }
        for (i, step) in steps.iter().enumerate() {
            let mut turn = self.turns.get(id.index()).and_then(|b| b.get(i)).cloned().unwrap_or_default();
            for (number, buffer) in &mut turn.takes {
                *number = lowest(busy)?;
                self.numbers = self.numbers.max(number.saturating_add(1));
                match self.spots.get_mut(buffer.index()) {
                    Some(spot @ None) => *spot = Some(Spot::Heap(*number)),
                    _ => return Err(Error::Plan(format!("block {} runs in two places", id.0))),
                }
            }
            for body in bodies(step).into_iter().flatten() {
                self.number(plan, body, &mut busy.clone(), depth + 1)?;
            }
            for number in &mut turn.gives {
                let Some(Some(Spot::Heap(held))) = self.spots.get(BufferId(*number).index()) else {
                    return Err(Error::missing("buffer", BufferId(*number)));
                };
                *number = *held;
                if let Some(place) = busy.get_mut(*held as usize) {
                    *place = false;
                }
            }
            turn.gives.sort_unstable();
            if let Some(place) = self.turns.get_mut(id.index()).and_then(|b| b.get_mut(i)) {
                *place = turn;
            }
        }
        Ok(())
    }

    /// Where a buffer begins.
    pub(crate) fn spot(&self, plan: &Plan, id: BufferId) -> Result<Spot, Error> {
        let name = &buffer(plan, id)?.name;
        let missing = || Error::Plan(format!("buffer {name} is used, and never taken"));
        self.spots.get(id.index()).copied().flatten().ok_or_else(missing)
    }

    /// What a step takes and gives back.
    pub(crate) fn turn(&self, block: BlockId, step: usize) -> Option<&Turn> {
        self.turns.get(block.index())?.get(step)
    }

    /// Every buffer that is taken.
    pub(crate) fn taken(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.turns.iter().flatten().flat_map(|turn| turn.takes.iter().map(|(_, buffer)| *buffer))
    }

    /// The constant that says how many bytes the model keeps.
    pub(crate) fn bound(&self) -> &'static str {
        match self.mode {
            Mode::Static => "ARENA_BYTES",
            Mode::Eager => "STATE_BYTES",
        }
    }

    /// The field of the memory that the model keeps.
    pub(crate) fn kept(&self) -> &'static str {
        match self.mode {
            Mode::Static => "arena",
            Mode::Eager => "states",
        }
    }
}

/// The lowest number that is free, which it is no longer.
fn lowest(busy: &mut Vec<bool>) -> Result<u32, Error> {
    let number = busy.iter().position(|b| !b).unwrap_or(busy.len());
    match busy.get_mut(number) {
        Some(place) => *place = true,
        None => busy.push(true),
    }
    u32::try_from(number).map_err(|_| Error::Plan(String::from("too many buffers are held at once")))
}

/// The blocks that a step runs.
fn bodies(step: &Step) -> [Option<BlockId>; 2] {
    match step.action {
        Action::If { then_block, else_block, .. } => [Some(then_block), Some(else_block)],
        Action::Loop { body, .. } => [Some(body), None],
        Action::Run { .. } | Action::Define { .. } => [None, None],
    }
}

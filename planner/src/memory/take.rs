//! Who may have a buffer's memory: one predicate for every taking, be it by a step that writes over what it reads, by a copy
//! that is no step at all, or by giving the memory back.

use super::{
    lives::Life,
    rules::{Rule, Rules},
};
use plan::{BufferId, Class, Plan};

/// Why a buffer may not be taken.
pub type Refused = &'static str;

/// A plan, and what decides who may take what.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The lives of its buffers.
    pub lives: &'a [Option<Life>],
    /// The rules.
    pub rules: Rules,
}

impl Ground<'_> {
    /// Whether a buffer's memory belongs to the run, and not to the model or its caller.
    pub fn of_the_run(&self, buffer: BufferId) -> Result<(), Refused> {
        let class = self.plan.buffers.get(buffer.index()).map(|b| b.class);
        let why = match class {
            Some(Class::Act | Class::Work) => return Ok(()),
            Some(Class::Const) => "it is a constant",
            Some(Class::Input) => "it is the caller's",
            Some(Class::Persist) => "it is a state",
            None => "it does not exist",
        };
        self.rules.ask(Rule::OwnClass, false, why)
    }

    /// Whether a block decides over a buffer's memory: it belongs to the run and to that block, and nobody looks at it after
    /// the run.
    pub fn owned(&self, buffer: BufferId, block: u32) -> Result<Life, Refused> {
        self.of_the_run(buffer)?;
        let life = self.lives.get(buffer.index()).copied().flatten().ok_or("it is not used")?;
        self.rules.ask(Rule::OwnBlock, life.block == block, "it belongs to another block")?;
        let steps = self.plan.blocks.get(life.block as usize).map_or(0, |b| b.steps.len());
        self.rules.ask(Rule::NotOutput, (life.last as usize) < steps, "it is an output")?;
        Ok(life)
    }

    /// Whether a buffer's memory is free for others from step `at` on, all that lies in it done with.
    pub fn may_take(&self, buffer: BufferId, at: (u32, u32)) -> Result<(), Refused> {
        let life = self.owned(buffer, at.0)?;
        self.rules.ask(Rule::LastUse, life.last == at.1, "it is read later")
    }
}

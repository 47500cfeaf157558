//! The functions on states: what a model keeps from one run to the next.

use crate::{
    Error,
    layout::Lines,
    model::Generator,
    names::quoted,
    operands::{Operands, buffer, value},
    places::Spot,
};
use plan::{BufferId, Class, ValueId};

impl Generator<'_> {
    /// The function that sets states to zero; also those that no port shows.
    pub(crate) fn reset(&self, out: &mut Lines) -> Result<(), Error> {
        let (kept, bound) = (self.places.kept(), self.places.bound());
        let mut ranges = Vec::new();
        for (_, id, _) in &self.states {
            ranges.push(self.range(value(self.plan, *id)?.place.buffer)?);
        }
        ranges.sort_unstable();
        ranges.dedup();
        for (id, found) in (0u32..).zip(&self.plan.buffers) {
            let range = if found.class == Class::Persist { Some(self.range(BufferId(id))?) } else { None };
            ranges.extend(range.filter(|r| !ranges.contains(r)));
        }
        out.line("/// Sets every state to zero.");
        out.open("pub fn reset(&mut self) {");
        for (offset, bytes) in ranges {
            out.line(&format!("const {{ Scratch::at({offset}, {bytes}).within({bound}) }}.clear(&mut self.{kept});"));
        }
        out.close("}");
        out.line("");
        Ok(())
    }

    /// Where a state lies in the memory that the model keeps.
    fn range(&self, id: BufferId) -> Result<(u64, u64), Error> {
        let found = buffer(self.plan, id)?;
        match self.places.spot(self.plan, id)? {
            Spot::Arena(offset) => Ok((offset, found.max_bytes)),
            _ => Err(Error::Plan(format!("state {} does not lie where states do", found.name))),
        }
    }

    /// The functions that show states and change them.
    pub(crate) fn state_functions(&self, operands: &mut Operands, out: &mut Lines) -> Result<(), Error> {
        if self.states.is_empty() {
            return Ok(());
        }
        let kept = self.places.kept();
        let place = |operands: &mut Operands, id: ValueId, name: &str| {
            let text = operands.reference_for(self.context(), id, name)?;
            Ok::<_, Error>(text.replace("(sizes)", "(&self.sizes)"))
        };
        out.line("/// What the model keeps.");
        out.line("///");
        out.line("/// # Errors");
        out.line("/// When the size of a state is not known yet, since nothing has run.");
        out.open("pub fn state(&self) -> Result<States<'_>, rt::Error> {");
        out.line(&format!("let {kept} = self.{kept}.bytes();"));
        out.open("Ok(States {");
        for (field, id, name) in &self.states {
            let place = place(operands, *id, name)?;
            out.line(&format!("{field}: rt::output({}, {kept}, &[], {place})?,", quoted(name)));
        }
        out.close("})");
        out.close("}");
        out.line("");
        out.line("/// Gives the model other states to go on from.");
        out.line("///");
        out.line("/// # Errors");
        out.line("/// When a state has another size.");
        out.open("pub fn set_state(&mut self, states: &States<'_>) -> Result<(), rt::Error> {");
        for (field, id, name) in &self.states {
            let place = place(operands, *id, name)?;
            let name = quoted(name);
            out.line(&format!("rt::set_state({name}, self.{kept}.bytes_mut(), {place}, states.{field}.data())?;"));
        }
        out.line("Ok(())");
        out.close("}");
        Ok(())
    }
}

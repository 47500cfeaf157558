//! What code is written from: the plan, its expressions, and where its buffers lie.

use crate::{Error, Mode, exprs::Exprs, operands::buffer, places::Places};
use plan::Plan;

#[derive(Clone, Copy)]
pub(crate) struct Context<'c, 'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) exprs: &'c Exprs<'p>,
    pub(crate) places: &'c Places,
}

impl Context<'_, '_> {
    /// The parameters of a function over the frame.
    pub(crate) fn signature(&self, uses_frame: bool, uses_sizes: bool) -> String {
        let frame = match self.places.mode {
            Mode::Static => "Frame",
            Mode::Eager => "EagerFrame",
        };
        let name = if uses_frame { "f" } else { "_" };
        let sizes = match (self.exprs.is_dynamic(), uses_sizes) {
            (false, _) => "",
            (true, true) => ", sizes: &mut Sizes",
            (true, false) => ", _: &mut Sizes",
        };
        format!("{name}: &mut {frame}<'_>{sizes}")
    }

    /// The arguments that stand for these parameters.
    pub(crate) fn arguments(&self) -> &'static str {
        if self.exprs.is_dynamic() { "f, sizes" } else { "f" }
    }

    /// Buffers with their bytes in a run, in a function that has `sizes`.
    pub(crate) fn takes(&self, takes: &[(u32, plan::BufferId)]) -> Result<Vec<String>, Error> {
        let mut items = Vec::with_capacity(takes.len());
        for (number, id) in takes {
            let found = buffer(self.plan, *id)?;
            let bytes = match self.exprs.constant(found.bytes) {
                Some(bytes) => match u64::try_from(bytes) {
                    Ok(bytes) if bytes <= found.max_bytes => bytes.to_string(),
                    _ => return Err(Error::Plan(format!("buffer {} has more bytes than its most", found.name))),
                },
                None => format!("{}.bytes({})?", self.exprs.operand(found.bytes), found.max_bytes),
            };
            items.push(format!("({number}, {bytes})"));
        }
        Ok(items)
    }
}

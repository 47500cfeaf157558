//! What kernels ask for at given extents, step by step.

use super::{Bound, sized};
use plan::{Action, BlockId, BufferId, Plan, SymbolId, evaluate_all};

/// The workspace of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The block and the step in it.
    pub at: (BlockId, usize),
    /// The step's name.
    pub step: String,
    /// The primitive.
    pub primitive: &'static str,
    /// The buffer that it is given; none where the plan gives none.
    pub buffer: Option<BufferId>,
    /// What the plan gives it (C).
    pub capacity: u64,
    /// What its kernel asks for at these extents (R).
    pub request: Bound,
}

/// The steps of a plan whose kernels may need workspace, and what they ask for where the symbols have these values.
pub fn requests(plan: &Plan, symbol: impl Fn(SymbolId) -> Option<i64>) -> Vec<Request> {
    let numbers = evaluate_all(&plan.exprs, symbol);
    let mut found = Vec::new();
    for (b, block) in plan.blocks.iter().enumerate() {
        for (i, step) in block.steps.iter().enumerate() {
            let Action::Run { prim, reads, writes, workspace, .. } = &step.action else { continue };
            if !kernels::uses_workspace(prim) {
                continue;
            }
            let operands = |list: &[Option<plan::ValueId>]| -> Vec<Option<super::Operand>> {
                let value = |id: &plan::ValueId| plan.values.get(id.index()).map(|v| (v.dtype, v.dims));
                list.iter().map(|id| id.as_ref().and_then(value)).collect()
            };
            let (reads, writes) = (operands(reads), operands(writes));
            let mut extents = Vec::new();
            prim.map_extents(&mut |e| {
                extents.push(e);
                e
            });
            extents.extend(reads.iter().chain(&writes).flatten().flat_map(|(_, dims)| dims.iter().copied()));
            let values = extents.iter().map(|e| numbers.get(e.index()).copied().flatten());
            let request = match values.collect::<Option<Vec<i64>>>() {
                None => Bound::Unavailable("an extent that only the run can tell".to_owned()),
                Some(values) => sized(prim, &reads, &writes, &values)
                    .map_or_else(|fault| Bound::Unavailable(fault.to_string()), Bound::Known),
            };
            let buffer = workspace.and_then(|w| plan.buffers.get(w.index()));
            found.push(Request {
                at: (BlockId(b as u32), i),
                step: step.name.clone(),
                primitive: prim.traits().name,
                buffer: *workspace,
                capacity: buffer.map_or(0, |b| b.max_bytes),
                request,
            });
        }
    }
    found
}

//! Workspace: the memory that a step's kernel needs besides its operands.
//!
//! Three figures are kept apart. The *bound* (W) is reserved for a node when lowering ends, over the whole range and every way in
//! which its weights may be stored: what admits the node. The *capacity* (C) is declared when the node is scheduled as it has become,
//! and stands in the plan as the size of a buffer. The *request* (R) is what the kernel asks for in a run, at that run's extents; it
//! is never above the capacity. All three come from one function, `kernels::workspace`; [`compare`] holds declarations against
//! reservations.

mod bound;
mod compare;
mod request;
#[cfg(test)]
mod tests;

pub use bound::{Bound, Growth, over_range};
pub use compare::{Count, Counts, Declared, Need, Workspaces, compare};
pub use request::{Request, requests};

use crate::shape::Exprs;
use kernels::{Fault, Meta};
use plan::{Axes, DType, ExprId, Primitive};
use std::collections::BTreeMap;

/// Type and extents of an operand.
pub type Operand = (DType, Axes<ExprId>);

/// Bounds the workspace of primitives, those that are alike once.
#[derive(Default)]
pub struct Sizer {
    known: BTreeMap<String, Bound>,
}

impl Sizer {
    /// The most that a primitive needs over the range of its extents.
    pub fn bound(
        &mut self,
        exprs: &Exprs,
        prim: &Primitive<ExprId>,
        reads: &[Option<Operand>],
        writes: &[Option<Operand>],
    ) -> Bound {
        if !kernels::uses_workspace(prim) {
            return Bound::Known(0);
        }
        let key = format!("{prim:?} {reads:?} {writes:?}");
        if let Some(bound) = self.known.get(&key) {
            return bound.clone();
        }
        let mut extents = Vec::new();
        prim.map_extents(&mut |e| {
            extents.push(e);
            e
        });
        extents.extend(reads.iter().chain(writes).flatten().flat_map(|(_, dims)| dims.iter().copied()));
        let bound = over_range(exprs, &extents, Growth::NeverShrinks, |values| sized(prim, reads, writes, values));
        self.known.insert(key, bound.clone());
        bound
    }
}

/// What a primitive needs where its extents, and then those of its operands, have these values.
fn sized(
    prim: &Primitive<ExprId>,
    reads: &[Option<Operand>],
    writes: &[Option<Operand>],
    values: &[i64],
) -> Result<u64, Fault> {
    let mut values = values.iter().copied();
    let concrete = prim.map_extents(&mut |_| values.next().unwrap_or(0));
    let mut metas = |list: &[Option<Operand>]| -> Result<Vec<Option<Meta>>, Fault> {
        let mut meta = |(dtype, dims): &Operand| {
            let extents = dims.iter().map(|_| usize::try_from(values.next().unwrap_or(0).max(0)).ok());
            let extents: Vec<usize> = extents.collect::<Option<_>>().ok_or(Fault::Extent)?;
            let dims = Axes::from_slice(&extents).ok_or(Fault::Shape("rank above 8"))?;
            Ok(Meta { dtype: *dtype, dims })
        };
        list.iter().map(|operand| operand.as_ref().map(&mut meta).transpose()).collect()
    };
    let (reads, writes) = (metas(reads)?, metas(writes)?);
    kernels::workspace(&concrete, &reads, &writes).map(|bytes| bytes as u64)
}

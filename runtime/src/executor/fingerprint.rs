//! What a recorded run depends on: if any of it has changed, the recording is stale.

use crate::Error;
use crate::device::Pointer;
use crate::interpret::InputTensor;
use plan::{DType, Plan};
use std::sync::Arc;

/// Device memory in which an input lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The input.
    pub name: String,
    /// Where.
    pub pointer: Pointer,
    /// Bytes that there are.
    pub capacity: usize,
    /// The type of the elements there.
    pub dtype: DType,
}

/// All addresses and extents that a recorded run was recorded with.
pub(super) struct Fingerprint {
    plan: Arc<Plan>,
    arena: Pointer,
    weights: Pointer,
    bindings: Vec<(Binding, Vec<usize>)>,
}

impl Fingerprint {
    pub(super) fn new(
        plan: &Arc<Plan>,
        (arena, weights): (Pointer, Pointer),
        bindings: &[Binding],
        inputs: &[InputTensor<'_>],
    ) -> Fingerprint {
        let bindings = bindings.iter().cloned().zip(inputs.iter().map(|i| i.dims.to_vec())).collect();
        Fingerprint { plan: plan.clone(), arena, weights, bindings }
    }

    /// What has changed since, if anything has.
    pub(super) fn check(&self, now: &Fingerprint) -> Result<(), Error> {
        if !Arc::ptr_eq(&self.plan, &now.plan) {
            return Err(Error::recapture(now.plan.name.clone(), format!("`{}` was captured", self.plan.name)));
        }
        for (what, was, is) in [("arena", self.arena, now.arena), ("weights", self.weights, now.weights)] {
            if was != is {
                return Err(Error::recapture(what, moved(was, is)));
            }
        }
        for ((was, old), (is, new)) in self.bindings.iter().zip(&now.bindings) {
            if let Some(why) = differs((was, old), (is, new)) {
                return Err(Error::recapture(is.name.clone(), why));
            }
        }
        Ok(())
    }
}

fn moved(was: Pointer, is: Pointer) -> String {
    if (was.device, was.address) == (is.device, is.address) {
        return format!("the memory at {:#x} is another allocation now", is.address);
    }
    format!("it lay at {:#x} and lies at {:#x}", was.address, is.address)
}

fn differs((was, old): (&Binding, &[usize]), (is, new): (&Binding, &[usize])) -> Option<String> {
    if was.dtype != is.dtype {
        return Some(format!("its elements were {} and are {}", was.dtype, is.dtype));
    }
    if was.pointer != is.pointer {
        return Some(moved(was.pointer, is.pointer));
    }
    if was.capacity != is.capacity {
        return Some(format!("it had room for {} bytes and has for {}", was.capacity, is.capacity));
    }
    (old != new).then(|| format!("its dims were {old:?} and are {new:?}"))
}

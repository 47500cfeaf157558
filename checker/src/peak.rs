//! The figures that a plan states about itself, counted again.

use crate::{
    Reason, Rejection,
    facts::{Facts, bodies},
};
use plan::{Class, Plan};

/// Checks the certificate against the buffers and the eager schedule, at the range's maximum.
pub fn check(plan: &Plan, facts: &Facts) -> Result<(), Rejection> {
    let certificate = &plan.certificate;
    let persist = plan
        .buffers
        .iter()
        .filter(|b| b.class == Class::Persist)
        .try_fold(0u64, |sum, b| sum.checked_add(b.max_bytes.checked_next_multiple_of(plan.align)?));
    let stated = |what: &str, stated: u64, counted: u64| {
        let text = format!("the certificate says {what} {stated}, counted are {counted}");
        Err(Rejection::new(Reason::Certificate, text))
    };
    let persist = persist.ok_or_else(|| Rejection::new(Reason::TooLarge, "the states are too large"))?;
    if persist != certificate.persist_bytes {
        return stated("persist_bytes", certificate.persist_bytes, persist);
    }
    let peak = eager_peak(plan, facts).and_then(|p| p.checked_add(persist));
    let peak = peak.ok_or_else(|| Rejection::new(Reason::TooLarge, "the buffers are too large"))?;
    if peak != certificate.eager_peak_bytes {
        return stated("eager_peak_bytes", certificate.eager_peak_bytes, peak);
    }
    if certificate.lower_bound_bytes > plan.arena_bytes {
        return stated("lower_bound_bytes", certificate.lower_bound_bytes, plan.arena_bytes);
    }
    Ok(())
}

/// The most that the eager executor holds at a step: what its block holds, and the most that a body of it adds.
fn eager_peak(plan: &Plan, facts: &Facts) -> Option<u64> {
    let mut most = vec![0u64; plan.blocks.len()];
    for &b in facts.order.iter().rev() {
        let (mut held, mut peak) = (0u64, 0u64);
        for (i, step) in plan.blocks.get(b as usize)?.steps.iter().enumerate() {
            for buffer in facts.takes.get(b as usize)?.get(i)? {
                held = held.checked_add(rounded(plan, buffer.index())?)?;
            }
            let inner = bodies(step).iter().filter_map(|c| most.get(c.index())).max().copied().unwrap_or(0);
            peak = peak.max(held.checked_add(inner)?);
            for buffer in facts.gives.get(b as usize)?.get(i)? {
                held = held.checked_sub(rounded(plan, buffer.index())?)?;
            }
        }
        *most.get_mut(b as usize)? = peak;
    }
    most.first().copied()
}

fn rounded(plan: &Plan, buffer: usize) -> Option<u64> {
    plan.buffers.get(buffer)?.max_bytes.checked_next_multiple_of(plan.align)
}

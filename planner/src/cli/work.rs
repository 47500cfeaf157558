//! The workspace part of `planner report`: what was reserved (W), what the plan holds (C), what kernels ask for (R).

use super::{Failure, Io, words};
use crate::Planned;
use crate::workspace::{Bound, Count, Request};
use plan::{Class, Plan};
use serde_json::{Value, json};

/// Steps that are listed.
const TOP: usize = 10;

/// A bound in JSON: a number, or an object that says why there is none.
pub fn bound(bound: &Bound) -> Value {
    match bound {
        Bound::Known(bytes) => json!(bytes),
        Bound::Unavailable(reason) => json!({ "unavailable": reason }),
    }
}

/// The largest request: steps run one after another.
fn largest(requests: &[Request]) -> Bound {
    requests.iter().map(|r| r.request.clone()).fold(Bound::Known(0), Bound::max)
}

/// Bytes of all workspaces and of all activations, each in its own memory.
fn sums(plan: &Plan) -> (u64, u64) {
    let of = |class: Class| {
        let sizes = plan.buffers.iter().filter(|b| b.class == class).map(|b| crate::peak::aligned(plan, b.max_bytes));
        sizes.fold(0u64, u64::saturating_add)
    };
    (of(Class::Work), of(Class::Act))
}

/// The steps with most, largest first.
fn top(requests: &[Request]) -> Vec<&Request> {
    let mut all: Vec<&Request> = requests.iter().filter(|r| r.capacity > 0 || !r.request.is_zero()).collect();
    all.sort_by_key(|r| std::cmp::Reverse(r.capacity));
    all.truncate(TOP);
    all
}

/// The part in JSON. `parallel_bytes` is what steps that all ran at once could need: nothing may share memory then.
pub fn json(planned: &Planned, requests: &[Request]) -> Value {
    let found = &planned.workspace;
    let (work, activations) = sums(&planned.plan);
    let count = |c: Count| json!({ "nodes": c.nodes, "bytes": c.bytes });
    let counts = &found.counts;
    let steps: Vec<Value> = top(requests)
        .into_iter()
        .map(|r| {
            json!({
                "step": r.step, "primitive": r.primitive, "capacity_bytes": r.capacity, "request_bytes": bound(&r.request),
            })
        })
        .collect();
    let nodes: Vec<Value> = found
        .needs
        .iter()
        .take(TOP)
        .map(|n| {
            let of = |b: &Option<Bound>| b.as_ref().map_or(json!({ "unavailable": "there is none" }), bound);
            json!({
                "node": n.node, "primitive": n.primitive, "bound_bytes": of(&n.reserved), "capacity_bytes": of(&n.declared),
            })
        })
        .collect();
    json!({
        "bound_bytes": bound(&found.bound()),
        "capacity_bytes": requests.iter().map(|r| r.capacity).max().unwrap_or(0),
        "request_bytes": bound(&largest(requests)),
        "sum_bytes": work,
        "parallel_bytes": work.saturating_add(activations),
        "reservations": {
            "larger": count(counts.larger), "equal": count(counts.equal), "smaller": count(counts.smaller),
            "missing": count(counts.missing), "orphan": count(counts.orphan),
        },
        "nodes": nodes,
        "steps": steps,
    })
}

/// What loading needs besides the arena. Weights are packed while planning, so that nothing is packed, and no scratch memory taken,
/// when a model is loaded.
pub fn loading(plan: &Plan) -> Value {
    json!({ "weight_bytes": plan.weight_bytes, "prepack_bytes": 0, "scratch_bytes": 0, "peak_bytes": plan.weight_bytes })
}

/// The part as text.
pub fn print(planned: &Planned, requests: &[Request], io: &mut Io<'_>) -> Result<(), Failure> {
    let found = &planned.workspace;
    if found.needs.is_empty() {
        return Ok(writeln!(io.out, "\nworkspace: none")?);
    }
    let bytes = |b: &Bound| b.known().map_or_else(|| b.to_string(), |n| format!("{} bytes", words::bytes(n)));
    let capacity = requests.iter().map(|r| r.capacity).max().unwrap_or(0);
    let (reserved, request) = (bytes(&found.bound()), bytes(&largest(requests)));
    writeln!(
        io.out,
        "\nworkspace of a step: up to {reserved} reserved, {} bytes planned, {request} asked for",
        words::bytes(capacity)
    )?;
    let c = &found.counts;
    let parts: Vec<String> = [
        ("larger than reserved", c.larger),
        ("as reserved", c.equal),
        ("smaller", c.smaller),
        ("missing", c.missing),
        ("reserved for nothing", c.orphan),
    ]
    .into_iter()
    .filter(|(_, count)| count.nodes > 0)
    .map(|(what, count)| format!("{} {what} ({} bytes)", count.nodes, words::bytes(count.bytes)))
    .collect();
    writeln!(io.out, "  nodes: {}", parts.join(", "))?;
    for r in top(requests) {
        writeln!(io.out, "  {:>16}  {} ({})", words::bytes(r.capacity), r.step, r.primitive)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_json(value: &Value) -> Option<Bound> {
        match value.get("unavailable") {
            Some(reason) => Some(Bound::Unavailable(reason.as_str()?.to_owned())),
            None => value.as_u64().map(Bound::Known),
        }
    }

    /// Row I2. In text and in JSON a known zero and an unavailable size are different things, and are read back as they were.
    #[test]
    fn zero_is_not_unavailable() {
        let unavailable = Bound::Unavailable("an extent that nothing bounds".to_owned());
        assert_eq!(bound(&Bound::Known(0)).to_string(), "0");
        assert_eq!(bound(&unavailable).to_string(), r#"{"unavailable":"an extent that nothing bounds"}"#);
        for b in [Bound::Known(0), Bound::Known(438_272), Bound::Known(u64::MAX), unavailable] {
            let json = serde_json::to_string(&bound(&b)).unwrap();
            assert_eq!(of_json(&serde_json::from_str(&json).unwrap()), Some(b.clone()));
            assert_eq!(b.to_string().parse(), Ok(b));
        }
        assert_eq!(Bound::Unavailable(String::new()).to_string().parse(), Ok(Bound::Unavailable(String::new())));
        assert!("".parse::<Bound>().is_err() && "none".parse::<Bound>().is_err());
    }
}

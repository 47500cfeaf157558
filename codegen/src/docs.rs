//! The Rustdoc of a generated model.

use crate::{Error, Mode, exprs::Exprs, layout::Lines, names::comment, operands::value};
use plan::{Plan, SymbolKind, ValueId};
use std::collections::BTreeMap;

/// Bytes as people read them.
fn bytes(count: u64) -> String {
    match count {
        0..10_240 => format!("{count} B"),
        10_240..10_485_760 => format!("{} KiB", count.div_ceil(1024)),
        _ => format!("{} MiB", count.div_ceil(1024 * 1024)),
    }
}

/// A tensor's type and dims.
fn tensor(plan: &Plan, exprs: &Exprs<'_>, id: ValueId) -> Result<String, Error> {
    let found = value(plan, id)?;
    let dims: Vec<String> = found.dims.iter().map(|e| exprs.human(*e)).collect();
    Ok(format!("{} `[{}]`", found.dtype, dims.join(", ")))
}

/// Text of a model in a doc comment: on one line, and no markup.
fn plain(text: &str) -> String {
    comment(text).replace('`', "'").replace('|', "/")
}

/// The names of a model's tensors beside the fields that stand for them.
pub(crate) struct Ports<'a> {
    pub(crate) inputs: &'a [(String, ValueId, String)],
    pub(crate) outputs: &'a [(String, ValueId, String)],
    pub(crate) states: &'a [(String, ValueId, String)],
}

/// Writes the doc comment of `Model`.
pub(crate) fn model(
    plan: &Plan,
    exprs: &Exprs<'_>,
    mode: Mode,
    ports: &Ports<'_>,
    kinds: &BTreeMap<&'static str, usize>,
    out: &mut Lines,
) -> Result<(), Error> {
    let mut doc = |text: &str| out.line(format!("/// {text}").trim_end());
    doc(&format!("The model `{}`.", plain(&plan.name)));
    doc("");
    match mode {
        Mode::Static => doc("Runs on the static executor: one arena at fixed offsets, and a run allocates nothing."),
        Mode::Eager => {
            doc(
                "Runs on the eager executor: memory is taken and given back step by step, as much as a run's extents need.",
            );
        }
    }
    if !plan.producer.is_empty() {
        doc("");
        doc(&format!("Made by {}.", plain(&plan.producer)));
    }
    for (title, list) in [("Inputs", ports.inputs), ("Outputs", ports.outputs), ("States", ports.states)] {
        if list.is_empty() {
            continue;
        }
        doc("");
        doc(&format!("# {title}"));
        for (field, id, name) in list {
            doc(&format!("* `{field}`: {} (`{}` in the model)", tensor(plan, exprs, *id)?, plain(name)));
        }
    }
    let free: Vec<_> =
        plan.symbols.iter().filter(|s| matches!(s.kind, SymbolKind::Input { .. }) && s.lo < s.hi).collect();
    if !free.is_empty() {
        doc("");
        doc("# Sizes");
        for symbol in free {
            let step = if symbol.step > 1 { format!(" in steps of {}", symbol.step) } else { String::new() };
            doc(&format!("* `{}`: {}..={}{step}", plain(&symbol.name), symbol.lo, symbol.hi));
        }
    }
    doc("");
    doc("# Memory");
    doc("| what | bytes |");
    doc("|---|---|");
    let certificate = &plan.certificate;
    let most = match mode {
        Mode::Static => ("arena", plan.arena_bytes),
        Mode::Eager => ("most that is held at once", certificate.eager_peak_bytes),
    };
    for (what, count) in [
        most,
        ("of it states", certificate.persist_bytes),
        ("no placement is smaller than", certificate.lower_bound_bytes),
        ("without sharing", certificate.naive_bytes),
        ("weights", plan.weight_bytes),
    ] {
        doc(&format!("| {what} | {} |", bytes(count)));
    }
    doc("");
    doc("# Steps");
    let list: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    for chunk in list.chunks(8) {
        doc(&format!("{}.", chunk.join(", ")));
    }
    Ok(())
}

//! The generated pages of the documentation are fresh.

use std::path::Path;

/// `docs/operators.md` as it should be.
fn operators() -> String {
    let mut text = String::from(
        "# Operators\n\nGenerated from the tables in `planner/src/ops/`: `UPDATE_DOCS=1 cargo test -p planner --test docs`.\n\n\
         Forms and types that are not supported are refused while planning, with what to do. `If`, `Loop` and `Scan` are part of\n\
         every plan. Opsets 6 to 28.\n\n",
    );
    let mut domain = None;
    let mut all: Vec<(String, String)> = planner::ops::operators()
        .iter()
        .map(|o| match o.name.rsplit_once("::") {
            Some((domain, name)) => (domain.to_owned(), name.to_owned()),
            None => ("ai.onnx".to_owned(), o.name.to_owned()),
        })
        .chain(["If", "Loop", "Scan"].map(|n| ("ai.onnx".to_owned(), n.to_owned())))
        .collect();
    all.sort();
    all.dedup();
    for (d, name) in &all {
        if domain != Some(d) {
            let count = all.iter().filter(|(other, _)| other == d).count();
            text.push_str(&format!("{}## {d} ({count})\n\n", if domain.is_some() { "\n" } else { "" }));
            domain = Some(d);
        }
        text.push_str(&format!("- {name}\n"));
    }
    text
}

#[test]
fn the_table_of_operators_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operators.md");
    let want = operators();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &want).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == want, "docs/operators.md is stale: UPDATE_DOCS=1 cargo test -p planner --test docs");
}

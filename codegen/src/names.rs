//! Identifiers.

use std::collections::BTreeSet;

/// Strict and reserved words of every edition.
const KEYWORDS: [&str; 53] = [
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super",
    "trait", "true", "try", "type", "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while",
    "yield",
];

/// A name as a Rust identifier: snake_case, other characters `_`, and a `_` at a leading digit or a keyword.
pub fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    let mut before = '_';
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            // A new word begins at a capital after anything else.
            if c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
                out.push('_');
            }
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
        before = c;
    }
    let trimmed = out.trim_end_matches('_');
    if trimmed.is_empty() {
        return String::from("unnamed");
    }
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("_{trimmed}");
    }
    if KEYWORDS.contains(&trimmed) { format!("{trimmed}_") } else { trimmed.to_owned() }
}

/// Gives out names that do not clash.
#[derive(Debug, Default)]
pub(crate) struct Namer {
    used: BTreeSet<String>,
}

impl Namer {
    /// An identifier for `name`, with `_2`, `_3` ... where it is taken.
    pub(crate) fn fresh(&mut self, name: &str) -> String {
        let base = snake_case(name);
        let mut candidate = base.clone();
        let mut count = 2u32;
        while !self.used.insert(candidate.clone()) {
            candidate = format!("{base}_{count}");
            count += 1;
        }
        candidate
    }
}

/// A string literal.
pub(crate) fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// Text that can stand in a comment on one line.
pub(crate) fn comment(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        for (name, wanted) in [
            ("stateN", "state_n"),
            ("INPUT__0", "input_0"),
            ("images:0", "images_0"),
            ("0", "_0"),
            ("type", "type_"),
            ("/model/Conv.1", "model_conv_1"),
            ("日本", "unnamed"),
            ("H", "h"),
            ("a__b_", "a_b"),
        ] {
            assert_eq!(snake_case(name), wanted);
        }
    }

    #[test]
    fn clashes_are_numbered() {
        let mut namer = Namer::default();
        assert_eq!(namer.fresh("y"), "y");
        assert_eq!(["x", "X", "y", "x_2", "x"].map(|n| namer.fresh(n)), ["x", "x_2", "y_2", "x_2_2", "x_3"]);
    }

    #[test]
    fn keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted());
    }
}

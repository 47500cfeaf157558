//! The table of `docs/memory-rows.md` against the tests themselves.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Rows that must be shown.
const DUE: [&str; 82] = [
    "A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12", "A13", "A14", "B1", "B2", "B3", "B4",
    "B5", "B7", "C1", "C2", "C3", "C4", "C5", "D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8", "D9", "D10", "D11",
    "D12", "D13", "E2", "E3", "F3", "H1", "H2", "H3", "H4", "I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9",
    "I10", "J1", "J2", "J4", "J5", "J6", "J7", "K1", "K2", "K3", "K4", "K5", "K6", "K7", "L1", "L2", "L3", "L4", "L5",
    "M1", "M2", "M3", "M4", "T1", "T2", "T3", "T4", "T5",
];

/// A row and a test that shows it, as `FILE::NAME`.
type Pair = (String, String);

/// What the table says.
fn listed(text: &str) -> BTreeSet<Pair> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|l| l.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [row, _, tests] = cells[..] else { panic!("a line has three cells: {line}") };
        if row == "row" {
            continue;
        }
        assert!(is_row(row), "{row} is no row");
        for test in tests.split(", ") {
            let test = test.strip_prefix('`').and_then(|t| t.strip_suffix('`'));
            let test = test.unwrap_or_else(|| panic!("{row}: tests stand in backticks: {tests}"));
            assert!(found.insert((row.to_owned(), test.to_owned())), "{row}: {test} stands there twice");
        }
    }
    found
}

/// A letter from A to M, or T for test equipment, and a number.
fn is_row(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| ('A'..='M').contains(&c) || c == 'T')
        && !chars.as_str().is_empty()
        && chars.all(|c| c.is_ascii_digit())
}

/// The rows that a line of a doc comment names: `/// Row A1.`, `/// Rows A1, B2 and C3.`
fn named(line: &str) -> Vec<&str> {
    let Some(rest) = line.trim_start().strip_prefix("/// Row") else { return Vec::new() };
    let Some((list, _)) = rest.trim_start_matches('s').trim_start().split_once('.') else { return Vec::new() };
    let rows: Vec<&str> = list.split(", ").flat_map(|part| part.split(" and ")).collect();
    if rows.iter().all(|r| is_row(r)) { rows } else { Vec::new() }
}

/// The item that a doc comment is about, if it is a test: a function under `#[test]`, a module whose documentation is one, or a
/// type whose documentation shows what does not compile.
fn item<'a>(lines: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut tested = false;
    for line in lines {
        let line = line.trim_start();
        tested |=
            line == "#[test]" || line.starts_with("#[doc = include_str!(") || line.starts_with("/// ```compile_fail");
        let name = ["fn ", "pub mod ", "pub struct "].iter().find_map(|p| line.strip_prefix(p));
        if let Some(name) = name {
            return name.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|_| tested);
        }
        if !line.starts_with("//") && !line.starts_with("#[") {
            return None;
        }
    }
    None
}

/// What the doc comments of a source say.
fn commented(file: &str, text: &str) -> BTreeSet<Pair> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = BTreeSet::new();
    for (i, line) in lines.iter().enumerate() {
        for row in named(line) {
            let name = item(lines[i..].iter().copied());
            let name = name.unwrap_or_else(|| panic!("{file}:{}: {row} is named at what is no test", i + 1));
            found.insert((row.to_owned(), format!("{file}::{name}")));
        }
    }
    found
}

/// The sources below a folder, by their paths from the root of the workspace.
fn sources(root: &Path, folder: &Path, found: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Build folders hold copies, and nested workspaces of other folders are none of ours.
        if path.is_dir() && !name.starts_with('.') && name != "target" && !path.join("CACHEDIR.TAG").exists() {
            sources(root, &path, found);
        } else if name.ends_with(".rs") {
            found.push(path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/"));
        }
    }
}

#[test]
fn the_table_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = listed(&fs::read_to_string(root.join("docs/memory-rows.md")).unwrap());
    let mut files = Vec::new();
    sources(root, root, &mut files);
    let mut commented_pairs = BTreeSet::new();
    for file in files.iter().filter(|f| *f != "tests/rows.rs") {
        commented_pairs.extend(commented(file, &fs::read_to_string(root.join(file)).unwrap()));
    }
    let gone: Vec<&Pair> = listed.difference(&commented_pairs).collect();
    assert!(gone.is_empty(), "listed, but no such test names the row in its doc comment: {gone:#?}");
    let missing: Vec<&Pair> = commented_pairs.difference(&listed).collect();
    assert!(missing.is_empty(), "tests that name a row, but are not in docs/memory-rows.md: {missing:#?}");
    for row in DUE {
        assert!(listed.iter().any(|(r, _)| r == row), "{row} is shown by no test");
    }
}

#[test]
fn comments_are_read() {
    let text = "    /// Rows A1, B22 and C3. Why.\n    /// More.\n    #[test]\n    fn shows_it() {\n";
    let wanted = ["A1", "B22", "C3"].map(|row| (row.to_owned(), "f.rs::shows_it".to_owned()));
    assert_eq!(commented("f.rs", text), BTreeSet::from(wanted));
    assert_eq!(named("/// Row by row."), Vec::<&str>::new());
    assert_eq!(named("/// Rows: 3."), Vec::<&str>::new());
    assert_eq!(named("// Row A1."), Vec::<&str>::new());
    assert_eq!(item(["/// Row A1.", "fn helper() {"].into_iter()), None);
    assert_eq!(item(["/// Row A1.", "#[doc = include_str!(x)]", "pub mod m {}"].into_iter()), Some("m"));
    assert_eq!(item(["/// Row A1.", "/// ```compile_fail,E0599", "pub struct S<T> {"].into_iter()), Some("S"));
    let table = "| row | what | by |\n|---|---|---|\n| A1 | x | `a.rs::b`, `c.rs::d` |\n";
    let wanted = [("A1", "a.rs::b"), ("A1", "c.rs::d")].map(|(r, t)| (r.to_owned(), t.to_owned()));
    assert_eq!(listed(table), BTreeSet::from(wanted));
}

//! The ONNX project's own backend cases, through the interpreter. None may fail; what is not supported is listed with its reason, and a
//! line that is no longer true fails.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

/// Fewer passing cases than this are a step back.
const AT_LEAST: usize = 1932;

/// Row H4. What fails is listed, and nothing else is.
#[test]
fn backend_cases() {
    let Some(cases) = common::data("onnx-cases") else { return };
    let (_, out, err) = common::planner(["verify".as_ref(), cases.as_os_str()]);
    let mut unsupported = BTreeMap::new();
    let (mut passed, mut failed) = (0, Vec::new());
    for line in out.lines() {
        let Some((case, verdict)) = line.split_once(": ") else { continue };
        if verdict == "pass" {
            passed += 1;
        } else if let Some(why) = verdict.strip_prefix("unsupported: ") {
            // Without the folder, which is another one elsewhere.
            unsupported.insert(case.to_owned(), why.replace(&format!("{}/", cases.display()), ""));
        } else if verdict.starts_with("fail") {
            failed.push(line);
        }
    }
    println!("{passed} passed, {} failed, {} unsupported", failed.len(), unsupported.len());
    assert!(passed >= AT_LEAST, "only {passed} cases passed\n{err}");
    assert!(failed.is_empty(), "{failed:#?}\n{err}");
    compare(&unsupported);
}

/// The lines of a list, `case: why`.
fn list(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expectations").join(name);
    let text = std::fs::read_to_string(&path).expect("the list of expectations is there");
    text.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect()
}

/// Against the list of what is not supported.
fn compare(unsupported: &BTreeMap<String, String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expectations/onnx.txt");
    if std::env::var_os("UPDATE_EXPECTATIONS").is_some() {
        let mut text = String::from(
            "# Backend cases that are not supported, and why. UPDATE_EXPECTATIONS=1 cargo test --test onnx_cases\n",
        );
        for (case, why) in unsupported {
            text.push_str(&format!("{case}: {why}\n"));
        }
        std::fs::write(&path, text).expect("the list can be written");
    }
    let expected = list("onnx.txt");
    let found: Vec<String> = unsupported.iter().map(|(case, why)| format!("{case}: {why}")).collect();
    let stale: Vec<&String> = expected.iter().filter(|line| !found.contains(line)).collect();
    let new: Vec<&String> = found.iter().filter(|line| !expected.contains(line)).collect();
    assert!(stale.is_empty(), "these are no longer so: take them off the list: {stale:#?}; not on it: {new:#?}");
    assert!(new.is_empty(), "these cases are not supported any more, or for another reason: {new:#?}");
}

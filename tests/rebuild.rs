//! What a build script does when it runs again: nothing where nothing changed, everything where anything did.

mod common;
#[path = "common/onnx.rs"]
mod onnx;

use flightplan::build::Model;
use onnx::{F32, Graph, Node};
use std::fs;
use std::path::Path;

/// `y = x + w`, with `w` in a file whose name has nothing to do with the model's, and wrong dims declared for `y`.
fn model(folder: &Path) -> Model {
    let graph = Graph::new()
        .input("x", F32, &["4"])
        .external("w", &[4], "numbers.bin")
        .node(Node::new("Add", &["x", "w"], &["y"]))
        .output("y", F32, &["5"]);
    let path = folder.join("sum.onnx");
    if !path.exists() {
        fs::write(&path, graph.model()).unwrap();
    }
    Model::new(path)
}

fn floats(values: [f32; 4]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn data_in_another_file_is_looked_at() {
    let folder = common::scratch("rebuild-external");
    fs::write(folder.join("numbers.bin"), floats([1.0, 2.0, 3.0, 4.0])).unwrap();
    model(&folder).emit_to(&folder).unwrap();
    let (weights, code) = (folder.join("sum.weights"), folder.join("sum.rs"));
    let before = fs::read(&weights).unwrap();
    assert!(before.starts_with(&floats([1.0, 2.0, 3.0, 4.0])));
    // Nothing changed: what is there stays, whatever it is.
    fs::write(&code, "left alone").unwrap();
    model(&folder).emit_to(&folder).unwrap();
    assert_eq!(fs::read_to_string(&code).unwrap(), "left alone");
    fs::write(folder.join("numbers.bin"), floats([1.0, 2.0, 3.0, 5.0])).unwrap();
    model(&folder).emit_to(&folder).unwrap();
    assert!(fs::read(&weights).unwrap().starts_with(&floats([1.0, 2.0, 3.0, 5.0])));
    assert_ne!(fs::read_to_string(&code).unwrap(), "left alone");
    fs::remove_file(folder.join("numbers.bin")).unwrap();
    assert!(model(&folder).emit_to(&folder).is_err());
}

#[test]
fn warnings_are_told_again() {
    let folder = common::scratch("rebuild-warnings");
    fs::write(folder.join("numbers.bin"), floats([0.0; 4])).unwrap();
    let first = model(&folder).emit_to(&folder).unwrap();
    assert!(first.iter().any(|w| w.contains('y')), "{first:?}");
    assert_eq!(model(&folder).emit_to(&folder).unwrap(), first);
}

#[test]
fn other_options_give_another_module() {
    let folder = common::scratch("rebuild-options");
    fs::write(folder.join("numbers.bin"), floats([0.0; 4])).unwrap();
    model(&folder).emit_to(&folder).unwrap();
    fs::write(folder.join("sum.rs"), "old").unwrap();
    model(&folder).weights_file().emit_to(&folder).unwrap();
    assert!(fs::read_to_string(folder.join("sum.rs")).unwrap().contains("pub fn open("));
}

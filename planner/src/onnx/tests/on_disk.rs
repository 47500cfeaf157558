//! Real files, where the machine has them: models that the project's scripts fetched, and the ONNX
//! backend cases.

use std::path::{Path, PathBuf};

use super::super::{Attribute, Graph, constant_tensor, inline_functions, read, read_value};

fn cache(folder: &str) -> PathBuf {
    let home = std::env::var_os("HOME").unwrap_or_default();
    Path::new(&home).join(".cache/flightplan").join(folder)
}

fn files(folder: &Path, suffix: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = folder.read_dir() else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, suffix, found);
        } else if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
}

fn constants(graph: &Graph) -> Result<usize, super::super::Error> {
    let mut count = 0;
    for node in &graph.nodes {
        if node.op_type == "Constant" && node.domain.is_empty() {
            constant_tensor(node)?;
            count += 1;
        }
        for (_, value) in node.attributes.iter() {
            count += match value {
                Attribute::Graph(graph) => constants(graph)?,
                _ => 0,
            };
        }
    }
    Ok(count)
}

/// Every model is read, with all its constants and test values, or refused for its opset.
#[test]
fn models_on_this_machine() {
    let mut paths = Vec::new();
    for folder in ["models", "cases", "onnx-cases"] {
        files(&cache(folder), ".onnx", &mut paths);
    }
    paths.sort();
    let (mut good, mut values, mut functions) = (0, 0, 0);
    let mut refused = Vec::new();
    for path in &paths {
        match read(path) {
            Ok(model) => {
                functions += usize::from(!model.functions.is_empty());
                test_values(path, &model.graph, &mut values);
                let model = inline_functions(model).unwrap_or_else(|e| panic!("{path:?}: {e}"));
                constants(&model.graph).unwrap_or_else(|e| panic!("{path:?}: {e}"));
                good += 1;
            }
            Err(error) => refused.push(error.to_string()),
        }
    }
    println!("{good} models read ({functions} with functions), {values} values, refused:");
    refused.iter().for_each(|refusal| println!("  {refusal}"));
    let others: Vec<_> = refused.iter().filter(|text| !text.contains(": opset ")).collect();
    assert!(others.is_empty(), "{others:#?}");
}

fn test_values(model: &Path, graph: &Graph, count: &mut usize) {
    let Some(folder) = model.parent() else { return };
    for (what, infos) in [("input", &graph.inputs), ("output", &graph.outputs)] {
        for (index, info) in infos.iter().enumerate() {
            for set in 0.. {
                let path = folder.join(format!("test_data_set_{set}/{what}_{index}.pb"));
                if !path.exists() {
                    break;
                }
                read_value(&path, &info.ty).unwrap_or_else(|e| panic!("{e}"));
                *count += 1;
            }
        }
    }
}

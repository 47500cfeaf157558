//! The same model and options give the same bytes, from any folder.

mod common;
#[path = "common/onnx.rs"]
mod onnx;

use std::fs;
use std::path::{Path, PathBuf};

/// What `emit` writes and `report` says of a model in a folder of its own.
fn everything(name: &str, model: &[u8], options: &[&str]) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = common::scratch(name);
    let file = folder.join("model.onnx");
    fs::write(&file, model).unwrap();
    let out = folder.join("out");
    let mut all = Vec::new();
    for command in [vec!["emit", "-o", &*out.to_string_lossy()], vec!["report", "--json"], vec!["report"]] {
        let mut args: Vec<&str> = command;
        let path = file.to_string_lossy();
        args.push(&path);
        args.extend(options);
        let (code, text, err) = common::planner(args.iter().copied());
        assert_eq!(code, 0, "{name}: {text}{err}");
        all.push((PathBuf::from(args[0]), text.into_bytes()));
    }
    let mut files: Vec<PathBuf> = fs::read_dir(&out).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 3, "{name}: {files:?}");
    all.extend(files.iter().map(|f| (PathBuf::from(f.file_name().unwrap()), fs::read(f).unwrap())));
    all
}

/// Row K5. The order of the nodes in a file says nothing: plan, weights, code and report are the same.
#[test]
fn shuffled_nodes_give_the_same_bytes() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    for (name, file, options) in [
        ("magika", "magika/magika.onnx", &["--dim", "bytes#0=1"][..]),
        ("silero", "silero-vad/silero_vad_16k.onnx", &["--dim", "batch=1", "--dim", "sequence=576"]),
    ] {
        let model = fs::read(models.join(file)).unwrap();
        let wanted = everything(&format!("shuffle-{name}"), &model, options);
        for seed in 1..=3 {
            let other = onnx::shuffled(&model, seed);
            assert_ne!(other, model);
            for ((what, a), (_, b)) in wanted.iter().zip(everything(&format!("shuffle-{name}-{seed}"), &other, options))
            {
                assert!(*a == b, "{name}: {} differs with nodes in another order", what.display());
            }
        }
    }
}

/// Row K5.
#[test]
fn emitting_twice_gives_the_same_bytes() {
    let Some(models) = common::data("models") else { return };
    for (model, dims) in [("magika", vec!["unk__214=1"]), ("crnn-lstm", vec!["input1#3=40..=400/8"])] {
        let (first, second) = (common::scratch(&format!("{model}-a")), common::scratch(&format!("{model}-b")));
        // The second time from another folder.
        let copy = second.join(format!("{model}.onnx"));
        fs::copy(models.join(format!("{model}.onnx")), &copy).unwrap();
        for (file, out) in [(models.join(format!("{model}.onnx")), &first), (copy, &second)] {
            let mut args = vec!["emit".into(), file.into_os_string(), "-o".into(), out.clone().into_os_string()];
            for d in &dims {
                args.extend(["--dim".into(), d.into()]);
            }
            let (code, stdout, err) = common::planner(args);
            assert_eq!(code, 0, "{model}: {stdout}{err}");
        }
        let mut compared = 0;
        for entry in fs::read_dir(&first).unwrap() {
            let name = entry.unwrap().file_name();
            assert_eq!(
                fs::read(first.join(&name)).unwrap(),
                fs::read(second.join(&name)).unwrap(),
                "{model}: {name:?}"
            );
            compared += 1;
        }
        assert!(compared >= 3, "{model}: only {compared} files were written");
    }
}

//! What the end-to-end tests share: where their data is, and a tool to call `planner` in process.

#![allow(dead_code)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A folder of the data that `scripts/setup_data.sh` brings, or none: then the test says so and ends. In CI it fails.
pub fn data(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("FLIGHTPLAN_DATA")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/flightplan")))?;
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "{} is missing: run scripts/setup_data.sh", path.display());
    eprintln!("skipped: {} is missing; scripts/setup_data.sh brings it", path.display());
    None
}

/// Runs a command of `planner`: exit status, standard output, standard error.
pub fn planner<S: Into<OsString>>(args: impl IntoIterator<Item = S>) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = planner::cli::run(args.into_iter().map(Into::into), &mut out, &mut err, false);
    (code, String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned())
}

/// A folder of this test run's own.
pub fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the target folder can be written");
    path
}

/// `--dim` options that give every free dim of a case's model the value that the first data set has.
pub fn dims(case: &Path) -> Vec<OsString> {
    use planner::onnx::{Dim, TestValue, Type, read, read_value};
    let model = read(&case.join("model.onnx")).expect("the model can be read");
    let mut options: Vec<OsString> = Vec::new();
    for (j, input) in model.graph.inputs.iter().enumerate() {
        let Type::Tensor { dims: Some(dims), .. } = &input.ty else { continue };
        let file = case.join(format!("test_data_set_0/input_{j}.pb"));
        let Ok(TestValue::Tensor(tensor)) = read_value(&file, &input.ty) else { continue };
        for (axis, (dim, extent)) in dims.iter().zip(&tensor.dims).enumerate() {
            let name = match dim {
                Dim::Known(_) => continue,
                Dim::Named(name) => name.clone(),
                Dim::Free => format!("{}#{axis}", input.name),
            };
            // A name that several inputs share is given once.
            let option: OsString = format!("{name}={extent}").into();
            if !options.contains(&option) {
                options.extend(["--dim".into(), option]);
            }
        }
    }
    options
}

/// A `.npy` file: elements of a `kind` that NumPy knows, dims as in Python, and the data.
pub fn npy(kind: &str, dims: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({dims}), }}");
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

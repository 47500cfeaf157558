// A real stream, the committed model of voice activity, with a step that fails when it is told to. Shared by the build script and
// the tests.

use planner::{DimOption, DimTarget, Fixed, Options, Planned, onnx::read_bytes};
use std::error::Error;

#[path = "../common/onnx.rs"]
mod onnx;

/// The model's file, seen from this package.
pub const MODEL: &str = "../../models/silero-vad/silero_vad_16k.onnx";

/// Samples of a chunk.
#[allow(dead_code, reason = "for the tests")]
pub const CHUNK: usize = 576;

/// The model with an input more, `fuse`: a row of the next state is taken at that index, so the run fails where there is no such
/// row, after the next state has been computed.
pub fn planned() -> Result<Planned, Box<dyn Error>> {
    let fuse = onnx::Graph::new()
        .node(onnx::Node::new("Gather", &["stateN", "fuse"], &["burnt"]).name("fuse").int("axis", 0))
        .input("fuse", onnx::I64, &["1"])
        .output("burnt", onnx::F32, &["1", "?", "?"]);
    let model = read_bytes(fuse.added_to(&std::fs::read(MODEL)?).into(), None)?;
    let dim = |name: &str, n| DimOption { target: DimTarget::Named(name.into()), lo: n, hi: n, step: 1 };
    let options = Options {
        name: Some("stream".into()),
        dims: vec![dim("batch", 1), dim("sequence", CHUNK as i64)],
        fix: vec![("sr".into(), Fixed::Ints(vec![16_000]))],
        states: vec![("state".into(), "stateN".into())],
        ..Options::default()
    };
    Ok(planner::plan(model, &options)?)
}

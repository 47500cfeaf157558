//! A real model as a stream: `reset` starts it again, and a run that fails leaves the state as it was.

use flightplan::{ErrorKind, Fault, View};
use generated::stream::{Inputs, Model};
use runtime::interpret::{InputTensor, Interpreter};
use runtime::{DType, as_bytes};

#[path = "../stream.rs"]
mod source;

use source::CHUNK;

/// A row that the fuse takes, and one that it does not have.
const FINE: [i64; 1] = [1];
const BLOWN: [i64; 1] = [2];

/// The samples of a chunk.
fn chunk(i: usize) -> [f32; CHUNK] {
    std::array::from_fn(|k| ((i * CHUNK + k) as f32 * 0.037).sin() * 0.4)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// What a stream of chunks gives, from the state that the model has: results and last state.
fn listen(model: &mut Model<'_>, chunks: std::ops::Range<usize>) -> Vec<u32> {
    let mut heard = Vec::new();
    for i in chunks {
        let outputs = model.run(&Inputs { input: (&chunk(i)).into(), fuse: (&FINE).into() }).unwrap();
        heard.extend(bits(outputs.output.data()));
    }
    heard.extend(bits(model.state().unwrap().state.data()));
    heard
}

#[test]
fn a_reset_gives_the_same_bits_again() {
    let mut model = Model::new().unwrap();
    let first = listen(&mut model, 0..20);
    assert_ne!(listen(&mut model, 0..20), first, "the state counts");
    model.reset();
    assert!(model.state().unwrap().state.data().iter().all(|v| v.to_bits() == 0));
    assert_eq!(listen(&mut model, 0..20), first);
}

#[test]
fn a_run_that_fails_leaves_the_state() {
    let (mut model, mut undisturbed) = (Model::new().unwrap(), Model::new().unwrap());
    assert_eq!(listen(&mut model, 0..5), listen(&mut undisturbed, 0..5));
    let before = bits(model.state().unwrap().state.data());
    let sound = chunk(5);
    // Too short, which is seen at entry.
    let short = View::flat(&sound[1..]);
    let error = model.run(&Inputs { input: short, fuse: (&FINE).into() }).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::Tensor { .. }), "{error}");
    assert_eq!(bits(model.state().unwrap().state.data()), before);
    // A step that fails when the next state is known.
    let error = model.run(&Inputs { input: (&sound).into(), fuse: (&BLOWN).into() }).err().unwrap();
    assert!(
        matches!(error.kind(), ErrorKind::Fault { name, fault: Fault::Index { .. }, .. } if name == "fuse"),
        "{error}"
    );
    assert_eq!(bits(model.state().unwrap().state.data()), before);
    assert_eq!(listen(&mut model, 5..20), listen(&mut undisturbed, 5..20));
}

#[test]
fn the_interpreter_does_the_same() {
    let planned = source::planned().unwrap();
    let mut plain = Interpreter::new(planned.plan.clone(), planned.weights.to_vec()).unwrap();
    let mut run = |i: usize, samples: usize, fuse: [i64; 1]| {
        plain.run(&[
            InputTensor { dtype: DType::F32, dims: &[1, samples], bytes: as_bytes(&chunk(i)[..samples]) },
            InputTensor { dtype: DType::I64, dims: &[1], bytes: as_bytes(&fuse) },
        ])?;
        plain.output(0).map(|o| o.bytes)
    };
    let mut model = Model::new().unwrap();
    let mut wanted = |i: usize| {
        let sound = chunk(i);
        let outputs = model.run(&Inputs { input: (&sound).into(), fuse: (&FINE).into() }).unwrap();
        as_bytes(outputs.output.data()).to_vec()
    };
    for i in 0..4 {
        assert_eq!(run(i, CHUNK, FINE).unwrap(), wanted(i));
        let short = run(9, CHUNK - 1, FINE).unwrap_err();
        assert!(matches!(short.kind(), ErrorKind::EnvelopeViolation { value: 575, .. }), "{short}");
        assert!(matches!(run(9, CHUNK, BLOWN).unwrap_err().kind(), ErrorKind::Fault { .. }));
    }
    let state = plain.state(0).unwrap().bytes;
    assert_eq!(state, as_bytes(model.state().unwrap().state.data()));
    plain.reset().unwrap();
    assert!(plain.state(0).unwrap().bytes.iter().all(|b| *b == 0));
}

//! What a program reads when it cannot load or run a model: compiled and interpreted alike. The texts are in `snapshots/`.

use flightplan::{ErrorKind, View};
use generated::{flipped, opened, rows, total};
use insta::{Settings, assert_snapshot};
use runtime::interpret::{InputTensor, Interpreter};
use runtime::{DType, as_bytes};

#[path = "../plans.rs"]
#[allow(dead_code, reason = "not every test uses every plan")]
mod plans;

/// Compares texts with their snapshot.
fn shown(name: &str, lines: &[String]) {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../../../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| assert_snapshot!(format!("message_{name}"), lines.join("\n")));
}

fn floats(dims: &'static [usize], bytes: &'static [f32]) -> InputTensor<'static> {
    InputTensor { dtype: DType::F32, dims, bytes: as_bytes(bytes) }
}

/// Row H2. What does not fit at entry, in the same words from generated code and from the interpreter.
#[test]
fn a_run_that_is_refused() {
    static DATA: [f32; 160] = [0.0; 160];
    let mut model = rows::Model::new().unwrap();
    let mut plain = Interpreter::new(plans::rows().plan, plans::rows().weights).unwrap();
    let mut lines = Vec::new();
    let cases: [(&[usize], &[usize]); 4] =
        [(&[3, 4], &[6, 4]), (&[10, 4], &[20, 4]), (&[4, 4], &[4, 4]), (&[8, 4], &[16, 4])];
    for (a, b) in cases {
        let data = |dims: &[usize]| DATA.get(..dims[0] * dims[1]).unwrap();
        let view = |dims: &[usize]| View::new(data(dims), [dims[0], dims[1]]);
        let compiled = model.run(&rows::Inputs { x: view(a), more_data: view(b) }).err().unwrap().to_string();
        let interpreted = plain.run(&[floats(a, data(a)), floats(b, data(b))]).unwrap_err().to_string();
        assert_eq!(compiled, interpreted);
        lines.push(compiled);
    }
    let inputs =
        [InputTensor { dtype: DType::I32, dims: &[4, 4], bytes: as_bytes(&DATA[..16]) }, floats(&[8, 4], &DATA[..32])];
    lines.push(plain.run(&inputs).unwrap_err().to_string());
    lines.push(plain.run(&inputs[..1]).unwrap_err().to_string());
    shown("entry", &lines);
}

/// Rows H1 and H2. The step with its index and node, the plan by its hash, and what happened: from both.
#[test]
fn a_step_that_fails() {
    let made = plans::total();
    let hash = made.plan.hash().unwrap();
    assert_eq!(hash, total::PLAN_HASH);
    let compiled = total::Model::new().unwrap().run(&total::Inputs { x: (&[1, 0, 1, 1]).into() }).err().unwrap();
    let mut plain = Interpreter::new(made.plan, made.weights).unwrap();
    let zero = [1i32, 0, 1, 1];
    let interpreted = plain.run(&[InputTensor { dtype: DType::I32, dims: &[4], bytes: as_bytes(&zero) }]).unwrap_err();
    assert_eq!(compiled, interpreted);
    let ErrorKind::Fault { step: 1, plan, .. } = compiled.kind() else { panic!("{compiled}") };
    assert_eq!(*plan, hash);
    shown("fault", &[compiled.to_string().replace(&hash[..12], "HASH")]);
}

/// Row M3. Embedded weights with a byte that is another are told from the right ones.
#[test]
fn a_flipped_byte_in_embedded_weights_is_told() {
    let error = flipped::verify_weights().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Weights { .. }), "{error}");
    shown("embedded_weights", &[error.to_string()]);
}

/// Row M3. The same for weights in a file, and for the interpreter.
#[test]
fn a_flipped_byte_in_a_file_is_refused() {
    let right = std::path::Path::new(env!("OPENED_WEIGHTS"));
    opened::Model::open(right).unwrap();
    let mut bytes = std::fs::read(right).unwrap();
    let folder = std::env::temp_dir().join(format!("flightplan-messages-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("opened.weights");
    for i in 0..bytes.len() {
        bytes[i] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        let error = opened::Model::open(&path).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::Weights { .. }), "byte {i}: {error}");
        let error = Interpreter::new(plans::rows().plan, bytes.clone()).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::Weights { .. }), "byte {i}: {error}");
        bytes[i] ^= 0x10;
    }
    bytes.push(0);
    std::fs::write(&path, &bytes).unwrap();
    let long = opened::Model::open(&path).err().unwrap().to_string();
    let none = opened::Model::open(folder.join("none")).err().unwrap().to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    let place = format!("{}/", folder.display());
    shown("file_weights", &[long.replace(&place, ""), none.replace(&place, "")]);
}

/// Row M3. A plan's text with a byte that is another.
#[test]
fn a_flipped_byte_in_a_plan_is_refused() {
    let plan = plans::rows().plan;
    let text = plan.to_text().unwrap();
    assert_eq!(plan::Plan::from_text(&text).unwrap(), plan);
    for i in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[i] ^= 1;
        // What is no text is none for the reader of the file.
        let Ok(other) = String::from_utf8(bytes) else { continue };
        assert!(plan::Plan::from_text(&other).is_err(), "byte {i}");
    }
    let changed = text.replacen("64", "65", 1);
    let error = plan::Plan::from_text(&changed).unwrap_err().to_string();
    assert!(error.contains("changed after it was written") && error.contains("emit it again"), "{error}");
    // Nothing but the first line speaks against a text that was changed with care.
    let (_, body) = changed.split_once('\n').unwrap();
    assert!(plan::Plan::from_text(body).unwrap_err().to_string().contains("no digest"));
}

/// Row H3. Refusal by budget, memory that is not there, and a size outside its range are told apart.
#[test]
fn kinds_of_refusals() {
    let ledger = runtime::ledger::Ledger::new(1000);
    let _held = ledger.claim("one model", 600).unwrap();
    let budget = ledger.claim("another model", 500).unwrap_err();
    assert!(matches!(budget.kind(), ErrorKind::Budget { bytes: 500, left: 400, .. }), "{budget}");
    let memory = runtime::Arena::owned(usize::MAX / 2).err().unwrap();
    assert!(matches!(memory.kind(), ErrorKind::OutOfMemory { .. }), "{memory}");
    let inputs = rows::Inputs { x: (&[0.0; 12]).into(), more_data: (&[0.0; 24]).into() };
    let range = rows::Model::new().unwrap().run(&inputs).err().unwrap();
    assert!(matches!(range.kind(), ErrorKind::EnvelopeViolation { .. }), "{range}");
    let device = runtime::device::resolve(runtime::device::DeviceRequest::Cuda(4_000_000), false).unwrap_err();
    assert!(matches!(device.kind(), ErrorKind::Device { .. }), "{device}");
    let mut small = [0; 64];
    let arena = rows::Model::with_arena(&mut small).err().unwrap();
    assert!(matches!(arena.kind(), ErrorKind::Arena { .. }), "{arena}");
    // What a program shows of the error that its `main` returns.
    assert_eq!(format!("{range:?}"), range.to_string());
    shown("refusals", &[budget, memory, range, device, arena].map(|e| e.to_string()));
}

//! Real models against what ONNX Runtime gave for the same inputs, through the interpreter: three sets of inputs each.

mod common;

use std::path::PathBuf;

/// Planned for the shapes of their data.
const MODELS: [&str; 14] = [
    "vad-2k",
    "vad-2k-int8",
    "silero-vad-16k",
    "silero-vad-half",
    "magika",
    "ppocr-cls",
    "ppocr4-det",
    "resnet50-nsfw",
    "yolox-det",
    "crnn-lstm",
    "rxn-transformer",
    "speech-embedding",
    "melspectrogram",
    "mtcnn-pnet",
];

fn verify(case: PathBuf, options: &[&str]) {
    let mut args = vec!["verify".into(), case.clone().into_os_string()];
    args.extend(options.iter().map(Into::into));
    let (code, out, err) = common::planner(args);
    assert_eq!(code, 0, "{}: {out}{err}", case.display());
    assert!(out.contains("1 passed, 0 failed, 0 unsupported"), "{out}");
}

#[test]
fn three_inputs_each() {
    let Some(cases) = common::data("cases") else { return };
    for model in MODELS {
        verify(cases.join(model), &[]);
    }
}

#[test]
fn one_plan_for_several_shapes() {
    let Some(cases) = common::data("cases") else { return };
    verify(cases.join("crnn-lstm@variants"), &[]);
    verify(cases.join("rxn-transformer@variants"), &[]);
    verify(
        cases.join("ppocr4-det@variants"),
        &[
            "--dim",
            "p2o.DynamicDimension.0=1",
            "--dim",
            "p2o.DynamicDimension.1=32..=960/32",
            "--dim",
            "p2o.DynamicDimension.2=32..=960/32",
        ],
    );
}

#[test]
fn a_stream_with_its_state_kept() {
    let Some(cases) = common::data("cases") else { return };
    verify(cases.join("silero-vad-16k@stream"), &["--state", "state=stateN", "--fix", "sr=16000"]);
}

#[test]
fn arenas_are_close_to_their_bound() {
    let Some(cases) = common::data("cases") else { return };
    for model in MODELS {
        let case = cases.join(model);
        let mut args = vec!["report".into(), case.join("model.onnx").into_os_string(), "--json".into()];
        args.extend(common::dims(&case));
        let (code, out, err) = common::planner(args);
        assert_eq!(code, 0, "{model}: {err}");
        let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        let bytes = |key: &str| report[key].as_u64().unwrap_or_else(|| panic!("{model}: {key} in {out}"));
        let (arena, bound) = (bytes("arena_bytes"), bytes("lower_bound_bytes"));
        println!(
            "{model}: naive {} bound {bound} eager {} arena {arena}",
            bytes("naive_bytes"),
            bytes("eager_peak_bytes")
        );
        // In whole numbers: at most 2 in a hundred above.
        assert!(arena * 100 <= bound * 102, "{model}: arena {arena}, bound {bound}");
    }
}

//! Hostile and broken models: an error, or a plan that the checker accepts. Never a panic.

mod common;
#[path = "common/flips.rs"]
mod flips;

use std::time::Duration;

#[test]
fn random_bit_flips() {
    let Some(models) = common::data("models") else { return };
    for (i, name) in ["vad-2k", "silero-vad-half", "magika"].into_iter().enumerate() {
        let file = std::fs::read(models.join(format!("{name}.onnx"))).expect("the model is there");
        let tally = flips::run(&file, 0x5eed + i as u64, 167, Duration::from_secs(60));
        println!("{name}: {tally:?}");
        assert_eq!(tally.panics + tally.rejected, 0, "{name}: {tally:?}");
    }
}

#[test]
fn every_truncation_is_refused() {
    let Some(models) = common::data("models") else { return };
    let file = std::fs::read(models.join("vad-2k.onnx")).expect("the model is there");
    for len in (0..file.len()).step_by(97) {
        let outcome = flips::attempt(file[..len].to_vec());
        assert!(!matches!(outcome, flips::Outcome::Panic | flips::Outcome::Rejected), "cut at {len}: {outcome:?}");
    }
}

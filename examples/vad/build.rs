//! Plans the example's model.

fn main() -> flightplan::build::Result {
    flightplan::build::Model::new("../../models/silero-vad/silero_vad_16k.onnx")
        .dim("batch", 1)
        .dim("sequence", 576) // 64 samples of what was before, and 512 new ones
        .fix("sr", 16_000)
        .state("state", "stateN")
        .budget("128 KiB")
        .emit()
}

//! Plans the model.

fn main() -> flightplan::build::Result {
    flightplan::build::Model::new("../../models/silero-vad/silero_vad_16k.onnx")
        .dim("batch", 1)
        .dim("sequence", 576)
        .fix("sr", 16_000)
        .state("state", "stateN")
        .emit()
}

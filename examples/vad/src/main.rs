//! Finds speech in a WAV file, 32 ms at a time, as one would in a live stream: the model keeps its state between chunks.

mod wav;

use std::{path::Path, process::ExitCode};

flightplan::include_model!(silero_vad_16k);

/// Samples that are new in each chunk.
const CHUNK: usize = 512;
/// Samples of what was before that the model sees again.
const CONTEXT: usize = 64;
/// Samples in a second.
const RATE: u32 = 16_000;
/// Speech begins at this probability, and ends when it has been below `END` for `PATIENCE` chunks.
const BEGIN: f32 = 0.5;
const END: f32 = 0.35;
const PATIENCE: usize = 4;

/// Voice activity detection over a stream.
struct Detector {
    model: silero_vad_16k::Model<'static>,
    window: [f32; CONTEXT + CHUNK],
}

impl Detector {
    fn new() -> Result<Detector, flightplan::Error> {
        Ok(Detector { model: silero_vad_16k::Model::new()?, window: [0.0; CONTEXT + CHUNK] })
    }

    /// The probability of speech in the next chunk. A short one is filled up with silence.
    fn next(&mut self, chunk: &[f32]) -> Result<f32, flightplan::Error> {
        self.window.copy_within(CHUNK.., 0);
        let (_, new) = self.window.split_at_mut(CONTEXT);
        for (i, to) in new.iter_mut().enumerate() {
            *to = chunk.get(i).copied().unwrap_or(0.0);
        }
        let outputs = self.model.run(&silero_vad_16k::Inputs { input: (&self.window).into() })?;
        Ok(outputs.output.data().first().copied().unwrap_or(0.0))
    }
}

/// A stretch of speech, in chunks.
#[derive(Debug, PartialEq)]
struct Speech {
    from: usize,
    to: usize,
    peak: f32,
}

/// The stretches of speech in a row of probabilities.
fn stretches(probabilities: &[f32]) -> Vec<Speech> {
    let mut found = Vec::new();
    let mut open: Option<Speech> = None;
    for (i, p) in probabilities.iter().enumerate() {
        match &mut open {
            None if *p >= BEGIN => open = Some(Speech { from: i, to: i + 1, peak: *p }),
            None => {}
            Some(speech) => {
                if *p >= END {
                    speech.to = i + 1;
                    speech.peak = speech.peak.max(*p);
                } else if i + 1 - speech.to >= PATIENCE {
                    found.extend(open.take());
                }
            }
        }
    }
    found.extend(open);
    found
}

fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let sound = wav::read(path)?;
    if sound.rate != RATE {
        return Err(format!("it has {} samples a second, the model hears {RATE}: resample it first", sound.rate).into());
    }
    let mut detector = Detector::new()?;
    let probabilities = sound.samples.chunks(CHUNK).map(|c| detector.next(c)).collect::<Result<Vec<_>, _>>()?;
    let seconds = |chunks: usize| (chunks * CHUNK) as f64 / f64::from(RATE);
    let found = stretches(&probabilities);
    for speech in &found {
        println!("{:8.2} s .. {:8.2} s   {:3.0} %", seconds(speech.from), seconds(speech.to), speech.peak * 100.0);
    }
    let total: usize = found.iter().map(|s| s.to - s.from).sum();
    println!("{:.2} s of speech in {:.2} s", seconds(total), sound.samples.len() as f64 / f64::from(RATE));
    Ok(())
}

fn main() -> ExitCode {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    let [path] = &paths[..] else {
        eprintln!("usage: vad FILE.wav   (mono or stereo, 16 kHz, 16-bit PCM or 32-bit float)");
        return ExitCode::from(2);
    };
    match run(Path::new(path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", Path::new(path).display());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_pauses_do_not_end_speech() {
        let p = [0.1, 0.6, 0.9, 0.4, 0.1, 0.1, 0.6, 0.1, 0.1, 0.1, 0.1, 0.7];
        let wanted = [Speech { from: 1, to: 7, peak: 0.9 }, Speech { from: 11, to: 12, peak: 0.7 }];
        assert_eq!(stretches(&p), wanted);
    }

    #[test]
    fn a_stream_starts_over_after_a_reset() {
        let mut detector = Detector::new().unwrap();
        let sound: Vec<f32> = (0..CHUNK * 8).map(|i| ((i * i) as f32 * 0.001).sin() * 0.5).collect();
        let listen = |d: &mut Detector| sound.chunks(CHUNK).map(|c| d.next(c).unwrap().to_bits()).collect::<Vec<_>>();
        let first = listen(&mut detector);
        assert_ne!(first, listen(&mut detector));
        detector.model.reset();
        detector.window.fill(0.0);
        assert_eq!(first, listen(&mut detector));
    }

    #[test]
    fn a_chunk_that_does_not_fit_leaves_the_stream_as_it_was() {
        let state =
            |d: &Detector| d.model.state().unwrap().state.data().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let mut detector = Detector::new().unwrap();
        detector.next(&[0.25; CHUNK]).unwrap();
        let before = state(&detector);
        let short = [0.5; CONTEXT + CHUNK - 1];
        let inputs = silero_vad_16k::Inputs { input: flightplan::View::flat(&short) };
        let error = detector.model.run(&inputs).err().unwrap().to_string();
        assert_eq!(error, "tensor `input`: 575 elements where 576 are needed");
        assert_eq!(state(&detector), before);
    }
}

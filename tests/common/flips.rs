//! Models with flipped bits, planned and checked.

use bytes::Bytes;
use planner::{DimOption, DimTarget, Options, onnx};
use std::time::{Duration, Instant};

/// What came of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It could not be read.
    Unreadable,
    /// It was refused.
    Refused,
    /// A plan that the checker accepts.
    Accepted,
    /// A plan that the checker rejects.
    Rejected,
    /// A panic.
    Panic,
}

/// How often each came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub unreadable: usize,
    pub refused: usize,
    pub accepted: usize,
    pub rejected: usize,
    pub panics: usize,
    /// The longest that one took.
    pub slowest: Duration,
}

/// `count` models, each with one to three flipped bits; nine of ten outside long runs of raw data.
pub fn run(file: &[u8], seed: u64, count: usize, limit: Duration) -> Tally {
    let structure = structure(file);
    let (mut state, mut tally) = (seed, Tally::default());
    for case in 0..count {
        let mut bytes = file.to_vec();
        for _ in 0..1 + next(&mut state) % 3 {
            let at = if case % 10 == 9 || structure.is_empty() {
                next(&mut state) as usize % bytes.len()
            } else {
                structure[next(&mut state) as usize % structure.len()]
            };
            bytes[at] ^= 1 << (next(&mut state) % 8);
        }
        let start = Instant::now();
        match attempt(bytes) {
            Outcome::Unreadable => tally.unreadable += 1,
            Outcome::Refused => tally.refused += 1,
            Outcome::Accepted => tally.accepted += 1,
            Outcome::Rejected => tally.rejected += 1,
            Outcome::Panic => tally.panics += 1,
        }
        let took = start.elapsed();
        assert!(took < limit, "case {case} of seed {seed} took {took:?}");
        tally.slowest = tally.slowest.max(took);
    }
    tally
}

/// Reads, plans and checks.
pub fn attempt(bytes: Vec<u8>) -> Outcome {
    let work = move || {
        let Ok(model) = onnx::read_bytes(Bytes::from(bytes), None) else { return Outcome::Unreadable };
        let Ok(planned) = planner::plan(model.clone(), &options(&model)) else { return Outcome::Refused };
        match checker::check(&planned.plan, &checker::Points::default()) {
            Ok(_) => Outcome::Accepted,
            Err(_) => Outcome::Rejected,
        }
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(Outcome::Panic)
}

/// A value for each free dim, so that planning goes on to the end.
fn options(model: &onnx::Model) -> Options {
    let mut options = Options::default();
    for input in &model.graph.inputs {
        let onnx::Type::Tensor { dims: Some(dims), .. } = &input.ty else { continue };
        for (axis, dim) in dims.iter().enumerate() {
            let target = match dim {
                onnx::Dim::Known(_) => continue,
                onnx::Dim::Named(name) => DimTarget::Named(name.clone()),
                onnx::Dim::Free => DimTarget::Axis { input: input.name.clone(), axis },
            };
            let size = if axis == 0 { 1 } else { 512 };
            if !options.dims.iter().any(|d| d.target == target) {
                options.dims.push(DimOption { target, lo: size, hi: size, step: 1 });
            }
        }
    }
    options
}

/// Places that are not inside long tensors' raw data: a field of more than 64 bytes that holds no text is taken for such.
fn structure(file: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut at = 0;
    while at < file.len() {
        // The key of `raw_data` in a tensor, then its length.
        if file[at] == 0x4a
            && let Some((len, used)) = varint(&file[at + 1..])
            && len > 64
            && at + 1 + used + len <= file.len()
        {
            places.extend(at..at + 1 + used);
            at += 1 + used + len;
            continue;
        }
        places.push(at);
        at += 1;
    }
    places
}

fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0usize;
    for (i, b) in bytes.iter().enumerate().take(5) {
        value |= usize::from(b & 0x7f) << (7 * i);
        if b & 0x80 == 0 {
            return Some((value, i + 1));
        }
    }
    None
}

/// A small generator of numbers: the same on every run.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

//! Plans run with data: on the naive interpreter and on every executor of the simulated device.

use super::{build::Build, random::Rng};
use plan::*;
use runtime::Error;
use runtime::interpret::{InputTensor, Interpreter, Mode, OutputTensor};
use runtime::sim::{Difference, Differential};

/// A tensor of the caller.
#[derive(Clone)]
pub struct Data {
    pub dtype: DType,
    pub dims: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Data {
    pub fn view(&self) -> InputTensor<'_> {
        InputTensor { dtype: self.dtype, dims: &self.dims, bytes: &self.bytes }
    }
}

/// Inputs of one run, small numbers that `seed` decides; the sizes of free dims come from `sizes`.
pub fn inputs(plan: &Plan, seed: u64, sizes: u64) -> Vec<Data> {
    let mut rng = Rng::new(seed);
    let mut free = Rng::new(sizes);
    let symbols: Vec<i64> = plan.symbols.iter().map(|s| s.lo + free.below((s.hi - s.lo + 1) as usize) as i64).collect();
    let of = |e: ExprId| evaluate(&plan.exprs, e, &|s| Some(symbols[s.index()])).unwrap() as usize;
    let tensor = |port: &Port| {
        let value = &plan.values[port.value.index()];
        let dims: Vec<usize> = value.dims.iter().map(|d| of(*d)).collect();
        let n = dims.iter().product::<usize>();
        let mut one = || -> Vec<u8> {
            let small = rng.below(17) as i64 - 8;
            match value.dtype {
                DType::F32 => (small as f32 / 4.0).to_ne_bytes().to_vec(),
                DType::F16 => half::f16::from_f32(small as f32 / 4.0).to_ne_bytes().to_vec(),
                DType::I64 => (small.abs() % 5).to_ne_bytes().to_vec(),
                DType::Bool => vec![u8::from(small > 0)],
                _ => vec![small as u8; value.dtype.bits() / 8],
            }
        };
        Data { dtype: value.dtype, dims, bytes: (0..n).flat_map(|_| one()).collect() }
    };
    plan.inputs.iter().map(tensor).collect()
}

/// Runs on everything: the naive interpreter and every executor must leave the same bits.
pub fn differential(plan: &Plan, weights: &[u8], runs: &[Vec<Data>]) -> Result<Differential, Difference> {
    let runs: Vec<Vec<InputTensor<'_>>> = runs.iter().map(|r| r.iter().map(Data::view).collect()).collect();
    runtime::sim::differential(plan, weights, &runs)
}

/// Three runs with identical inputs and three with changed ones, sizes included; the same bits as before the memory of `naive` was
/// planned.
#[track_caller]
pub fn everywhere(naive: &Plan, plan: &Plan, weights: &[u8]) {
    let same = vec![inputs(plan, 1, 1); 3];
    let changed: Vec<_> = (1..4).map(|i| inputs(plan, i, i)).collect();
    for runs in [same, changed] {
        assert!(like_unplanned(naive, plan, weights, &runs));
        let done = differential(plan, weights, &runs).unwrap_or_else(|d| panic!("{d}"));
        assert_eq!((done.runs, done.failed), (54, 0));
    }
}

/// Whether a plan leaves in its arena what the graph left before its memory was planned, every tensor in memory of its own. A step
/// that fails is not the same.
pub fn like_unplanned(naive: &Plan, plan: &Plan, weights: &[u8], runs: &[Vec<Data>]) -> bool {
    let wanted = outputs(naive, weights, Mode::Naive, runs);
    left(plan, weights, Mode::Static, runs).is_ok_and(|left| left == wanted)
}

/// What the interpreter leaves after each run.
pub fn outputs(plan: &Plan, weights: &[u8], mode: Mode, runs: &[Vec<Data>]) -> Vec<Vec<OutputTensor>> {
    left(plan, weights, mode, runs).unwrap()
}

/// The same, or why a run failed.
fn left(plan: &Plan, weights: &[u8], mode: Mode, runs: &[Vec<Data>]) -> Result<Vec<Vec<OutputTensor>>, Error> {
    let mut exec = Interpreter::with_mode(plan.clone(), weights.to_vec(), mode)?;
    let run = |inputs: &Vec<Data>| {
        exec.run(&inputs.iter().map(Data::view).collect::<Vec<_>>())?;
        (0..plan.outputs.len()).map(|i| exec.output(i)).collect()
    };
    runs.iter().map(run).collect()
}

/// The naive plan that `b` made, planned as `options` say, and its weights.
pub fn planned(b: &Build, options: &crate::memory::Options) -> (Plan, Vec<u8>) {
    let mut plan = b.plan.clone();
    crate::memory::optimise(&mut plan, options).unwrap();
    checker::check(&plan, &checker::Points::default()).unwrap();
    (plan, b.weights.clone())
}

//! One plan, every executor, every mode of the simulated device: all runs must leave the same bits.

use super::{Addresses, QueueMode, SimDevice, SimOptions};
use crate::device::{Device, MemoryClass};
use crate::executor::{Captured, EagerExec, StaticExec};
use crate::interpret::{InputTensor, Interpreter, Mode, OutputTensor};
use crate::{Error, ErrorKind};
use core::fmt;
use plan::Plan;
use std::sync::Arc;

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differential {
    /// Runs on simulated devices.
    pub runs: usize,
    /// Runs that failed, and alike everywhere, counted once for all executors.
    pub failed: usize,
    /// Captures, the first one of each executor and those that changed sizes made necessary.
    pub captures: usize,
    /// Replays.
    pub replays: usize,
}

/// The first thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The executor and the mode of the device.
    pub executor: String,
    /// The run, counted from 0.
    pub run: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, run {}: {}", self.executor, self.run, self.what)
    }
}

/// What a run left: outputs and then states, or the error.
type Left = Result<Vec<OutputTensor>, Error>;

/// An executor in a run matrix.
enum Exec {
    Eager(Box<EagerExec<SimDevice>>),
    Static(Box<StaticExec<SimDevice>>),
    Captured(Box<StaticExec<SimDevice>>, Option<Captured<SimDevice>>),
}

/// The kinds of [`Exec`], as messages name them.
const KINDS: [&str; 3] = ["EagerExec", "StaticExec", "StaticExec captured"];

/// Runs a plan with the inputs of each run, in order, on the interpreter in each of its modes, and then on every executor of
/// devices, with every way of handing out addresses and of queueing. Runs that fail must fail everywhere, at the same step and for the same reason.
///
/// # Errors
/// The first run that differs from the naive interpreter's, violation that a device has seen, or memory that is left over.
pub fn differential(plan: &Plan, weights: &[u8], runs: &[Vec<InputTensor<'_>>]) -> Result<Differential, Difference> {
    let mut summary = Differential::default();
    let wanted = interpreted(plan, weights, runs, Mode::Naive)?;
    summary.failed = wanted.iter().filter(|w| w.is_err()).count();
    for mode in [Mode::Static, Mode::Eager] {
        let got = interpreted(plan, weights, runs, mode)?;
        for (run, (wanted, got)) in wanted.iter().zip(&got).enumerate() {
            let executor = format!("{mode:?} interpreter");
            same(wanted, got).map_err(|what| Difference { executor, run, what })?;
        }
    }
    let plan = Arc::new(plan.clone());
    for addresses in [Addresses::NeverReuse, Addresses::AdversarialReuse, Addresses::Shift(1)] {
        for queue in [QueueMode::Immediate, QueueMode::Lazy] {
            for kind in KINDS {
                let options = SimOptions { addresses, queue, ..SimOptions::default() };
                let executor = format!("{kind}, {addresses:?}, {queue:?}");
                let mut at = 0;
                let done = one(&plan, weights, runs, &wanted, kind, options, &mut summary, &mut at);
                done.map_err(|what| Difference { executor, run: at, what })?;
            }
        }
    }
    Ok(summary)
}

/// What the interpreter leaves after each run.
fn interpreted(
    plan: &Plan,
    weights: &[u8],
    runs: &[Vec<InputTensor<'_>>],
    mode: Mode,
) -> Result<Vec<Left>, Difference> {
    let refused = |e: Error| Difference { executor: format!("{mode:?} interpreter"), run: 0, what: e.to_string() };
    let mut exec = Interpreter::with_mode(plan.clone(), weights.to_vec(), mode).map_err(refused)?;
    let run = |inputs: &Vec<InputTensor<'_>>| {
        exec.run(inputs)?;
        left(plan, |i| exec.output(i), |i| exec.state(i))
    };
    Ok(runs.iter().map(run).collect())
}

/// One executor in one mode.
#[allow(clippy::too_many_arguments)]
fn one(
    plan: &Arc<Plan>,
    weights: &[u8],
    runs: &[Vec<InputTensor<'_>>],
    wanted: &[Left],
    kind: &str,
    options: SimOptions,
    summary: &mut Differential,
    at: &mut usize,
) -> Result<(), String> {
    let device = SimDevice::new(0, options).map_err(|e| e.to_string())?;
    let mut exec = Exec::prepare(kind, &device, plan, weights).map_err(|e| format!("prepare: {e}"))?;
    let prepared = device.counted();
    for (i, (inputs, wanted)) in runs.iter().zip(wanted).enumerate() {
        *at = i;
        summary.runs += 1;
        same(wanted, &exec.run(inputs, summary).and_then(|()| exec.left(plan)))?;
        let now = device.counted();
        if kind == KINDS[0] {
            let live = |class| now.live(class);
            if [MemoryClass::Act, MemoryClass::Work, MemoryClass::Io].map(live) != [0; 3] {
                return Err(format!("memory of the run is left over: {:?}", device.living()));
            }
        } else if (now.allocs, now.frees) != (prepared.allocs, prepared.frees) {
            return Err("the run has allocated or given back".to_owned());
        }
        if let Some(violation) = device.violations().first() {
            return Err(violation.clone());
        }
    }
    drop(exec);
    device.sync().map_err(|f| f.to_string())?;
    let left = device.living();
    let stage = device.counted().live(MemoryClass::Stage);
    if !left.is_empty() || stage > 0 {
        return Err(format!("memory is left over: {left:?}, {stage} bytes of staging"));
    }
    match device.violations().first() {
        Some(violation) => Err(violation.clone()),
        None => Ok(()),
    }
}

impl Exec {
    fn prepare(kind: &str, device: &SimDevice, plan: &Arc<Plan>, weights: &[u8]) -> Result<Exec, Error> {
        if kind == KINDS[0] {
            return EagerExec::prepare(device.clone(), plan.clone(), weights).map(|e| Exec::Eager(Box::new(e)));
        }
        let exec = Box::new(StaticExec::prepare(device.clone(), plan.clone(), weights)?);
        Ok(if kind == KINDS[1] { Exec::Static(exec) } else { Exec::Captured(exec, None) })
    }

    fn run(&mut self, inputs: &[InputTensor<'_>], summary: &mut Differential) -> Result<(), Error> {
        let (exec, slot) = match self {
            Exec::Eager(exec) => return exec.run(inputs),
            Exec::Static(exec) => return exec.run(inputs),
            Exec::Captured(exec, slot) => (exec, slot),
        };
        if let Some(captured) = slot {
            match exec.replay(captured, inputs) {
                Err(error) if matches!(error.kind(), ErrorKind::Recapture { .. }) => *slot = None,
                done => {
                    summary.replays += 1;
                    return done;
                }
            }
        }
        summary.captures += 1;
        *slot = Some(exec.capture(inputs)?);
        Ok(())
    }

    fn left(&self, plan: &Plan) -> Left {
        match self {
            Exec::Eager(exec) => left(plan, |i| exec.output(i), |i| exec.state(i)),
            Exec::Static(exec) | Exec::Captured(exec, _) => left(plan, |i| exec.output(i), |i| exec.state(i)),
        }
    }
}

/// All that a run has left.
fn left(
    plan: &Plan,
    output: impl Fn(usize) -> Result<OutputTensor, Error>,
    state: impl Fn(usize) -> Result<OutputTensor, Error>,
) -> Left {
    (0..plan.outputs.len()).map(output).chain((0..plan.states.len()).map(state)).collect()
}

/// Whether a run has left what it should.
fn same(wanted: &Left, got: &Left) -> Result<(), String> {
    match (wanted, got) {
        (Ok(wanted), Ok(got)) => {
            for (i, (w, g)) in wanted.iter().zip(got).enumerate() {
                if (w.dtype, &w.dims) != (g.dtype, &g.dims) {
                    return Err(format!("result {i} is {}{:?} instead of {}{:?}", g.dtype, g.dims, w.dtype, w.dims));
                }
                if let Some(byte) = w.bytes.iter().zip(&g.bytes).position(|(w, g)| w != g) {
                    return Err(format!("result {i} differs from byte {byte} on"));
                }
            }
            Ok(())
        }
        (Err(wanted), Err(got)) if wanted == got => Ok(()),
        (Ok(_), Err(got)) => Err(format!("it fails: {got}")),
        (Err(wanted), Err(got)) => Err(format!("it fails otherwise: {got}, instead of: {wanted}")),
        (Err(wanted), Ok(_)) => Err(format!("it does not fail, but should: {wanted}")),
    }
}

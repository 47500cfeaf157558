//! Recorded runs of the static executor.

use super::fingerprint::Fingerprint;
use super::fixed::{Held, Item, StaticExec};
use super::memory::Told;
use crate::device::{Device, record};
use crate::interpret::InputTensor;
use crate::{Error, ErrorKind};
use std::sync::Arc;

/// A run that was recorded in device graphs, with seams between them that each replay does anew.
///
/// It may be replayed with other data. Addresses, extents and types must be those of the recorded run; a replay that fails
/// makes it invalid.
pub struct Captured<D: Device> {
    parts: Vec<Part<D>>,
    fingerprint: Fingerprint,
    /// Why it cannot be replayed any more.
    invalid: Option<String>,
    /// The graphs name this memory, so it goes after them.
    _held: Arc<Held<D>>,
}

enum Part<D: Device> {
    Graph(D::Graph),
    Seam(Vec<Item>),
}

/// What is checked before a replay. Each can be switched off, so that tests can show what it prevents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guard {
    /// Whether addresses, extents and types are those of the recorded run.
    Fingerprint,
    /// Whether an earlier replay has failed.
    Latch,
}

impl<D: Device> Captured<D> {
    /// How many graphs it has.
    pub fn segments(&self) -> usize {
        self.parts.iter().filter(|p| matches!(p, Part::Graph(_))).count()
    }

    /// The graphs.
    pub fn graphs(&self) -> impl Iterator<Item = &D::Graph> {
        self.parts.iter().filter_map(|p| if let Part::Graph(graph) = p { Some(graph) } else { None })
    }
}

impl<D: Device> StaticExec<D> {
    /// Runs the plan and records the run. Each segment is recorded first and then replayed, so that the seam behind it finds
    /// its results.
    ///
    /// # Errors
    /// As [`StaticExec::run`]; when the device cannot record. The executor and the device are then as after a failed run.
    pub fn capture(&mut self, inputs: &[InputTensor<'_>]) -> Result<Captured<D>, Error> {
        self.bound.enter(inputs)?;
        self.check_bindings(inputs)?;
        let fingerprint = self.fingerprint(inputs);
        self.begin(inputs)?;
        let mut parts = Vec::new();
        let recorded = self.record(&mut parts);
        let pass = self.device.clone();
        let _pass = pass.gate().pass();
        self.end(recorded)?;
        Ok(Captured { parts, fingerprint, invalid: None, _held: self.held.clone() })
    }

    fn record(&mut self, parts: &mut Vec<Part<D>>) -> Result<(), Error> {
        let device = self.device.clone();
        for (recorded, items) in self.parts() {
            if !recorded {
                let _pass = device.gate().pass();
                self.issue(&items)?;
                parts.push(Part::Seam(items));
                continue;
            }
            let graph = record(&device, || self.issue(&items).map_err(Told::Error)).map_err(|told| match told {
                Told::Error(error) => error,
                Told::Failure(failure) => self.bound.told(failure),
            })?;
            let _pass = device.gate().pass();
            device.replay(&graph).map_err(|f| self.bound.told(f))?;
            parts.push(Part::Graph(graph));
        }
        Ok(())
    }

    /// Runs the plan as it was recorded, with these inputs.
    ///
    /// # Errors
    /// [`ErrorKind::Recapture`] when the recording does not fit: then nothing was launched. When a step fails: then the
    /// recording is invalid, and there are no outputs.
    pub fn replay(&mut self, captured: &mut Captured<D>, inputs: &[InputTensor<'_>]) -> Result<(), Error> {
        if let Some(why) = &captured.invalid
            && !self.off.contains(&Guard::Latch)
        {
            return Err(Error::recapture(self.bound.plan.name.clone(), why.clone()));
        }
        self.bound.enter(inputs)?;
        if !self.off.contains(&Guard::Fingerprint) {
            captured.fingerprint.check(&self.fingerprint(inputs))?;
        }
        let device = self.device.clone();
        let _pass = device.gate().pass();
        self.begin(inputs)?;
        let issued = captured.parts.iter().try_for_each(|part| match part {
            Part::Graph(graph) => device.replay(graph).map_err(|f| self.bound.told(f)),
            Part::Seam(items) => self.issue(items),
        });
        let ended = self.end(issued);
        if let Err(error) = &ended
            && !matches!(error.kind(), ErrorKind::Recapture { .. })
        {
            captured.invalid = Some(format!("a replay has failed: {error}"));
        }
        ended
    }

    /// Switches a check off: for tests that show what it prevents, and for nothing else. Executors are there with the feature `sim` only.
    pub fn disable(&mut self, guard: Guard) {
        self.off.push(guard);
    }
}

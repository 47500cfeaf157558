//! What keeps captures and the calls that would break them apart.
//!
//! On a real device a call that waits makes every capture invalid that records meanwhile, whichever thread made it. So
//! whoever makes such calls passes the gate first, and a capture has it alone. Memory that is let go of while a capture
//! records is put aside and given back when it has ended.

use super::memory::{Release, ReleaseStage};
use alloc::vec::Vec;
use core::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// The gate of one device.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    capturing: Option<ThreadId>,
    passing: usize,
    memory: Vec<Release>,
    stages: Vec<ReleaseStage>,
}

/// Permission to make calls that wait. Given back when dropped.
#[must_use = "the gate is held for as long as this lives"]
pub struct Pass<'g>(&'g Gate);

/// The gate, held by a capture.
#[must_use = "the gate is held for as long as this lives"]
pub(super) struct Exclusive<'g>(&'g Gate);

impl Gate {
    /// Waits until no other thread captures.
    pub fn pass(&self) -> Pass<'_> {
        let me = thread::current().id();
        let mut state = self.state();
        while state.capturing.is_some_and(|owner| owner != me) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.passing += 1;
        Pass(self)
    }

    /// Waits until nobody passes, and lets nobody pass. A thread that holds a [`Pass`] would wait for itself.
    pub(super) fn capture(&self) -> Exclusive<'_> {
        let mut state = self.state();
        while state.capturing.is_some() || state.passing > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.capturing = Some(thread::current().id());
        Exclusive(self)
    }

    /// Puts a release aside if a capture records; else gives a pass to do it now.
    pub(super) fn defer(&self, release: Release) -> Result<(), (Release, Pass<'_>)> {
        let mut state = self.state();
        if state.capturing.is_some() {
            state.memory.push(release);
            return Ok(());
        }
        state.passing += 1;
        Err((release, Pass(self)))
    }

    /// As [`Gate::defer`], for staging memory.
    pub(super) fn defer_stage(&self, release: ReleaseStage) -> Result<(), (ReleaseStage, Pass<'_>)> {
        let mut state = self.state();
        if state.capturing.is_some() {
            state.stages.push(release);
            return Ok(());
        }
        state.passing += 1;
        Err((release, Pass(self)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is a single assignment: it is consistent wherever a holder stops.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.passing = state.passing.saturating_sub(1);
        self.0.changed.notify_all();
    }
}

impl Exclusive<'_> {
    /// Opens the gate, and returns what was put aside.
    pub(super) fn end(self) -> (Vec<Release>, Vec<ReleaseStage>) {
        let gate = self.0;
        // Opened here, under the same lock that the lists are taken under: what comes later is not put aside any more.
        mem::forget(self);
        let mut state = gate.state();
        state.capturing = None;
        gate.changed.notify_all();
        (mem::take(&mut state.memory), mem::take(&mut state.stages))
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        self.0.state().capturing = None;
        self.0.changed.notify_all();
    }
}

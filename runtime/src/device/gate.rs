//! What keeps captures and the calls that would break them apart.
//!
//! On a real device a call that waits makes every capture invalid that records meanwhile, whichever thread made it. So
//! whoever runs something on a device passes its gate first: one thread at a time, since what fails in the queue is told to
//! whoever waits next. Memory that is let go of while a capture records is put aside and given back when it has ended.

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
    /// The thread that has passed, and how often.
    owner: Option<ThreadId>,
    depth: usize,
    capturing: bool,
    /// Releases that are under way, from whichever thread.
    releasing: usize,
    memory: Vec<Release>,
    stages: Vec<ReleaseStage>,
}

/// Permission to make calls that wait. Given back when dropped.
#[must_use = "the gate is held for as long as this lives"]
pub struct Pass<'g>(&'g Gate);

/// The gate, held by a capture.
#[must_use = "the gate is held for as long as this lives"]
pub(super) struct Capturing<'g>(&'g Gate);

/// A release that no capture may begin before the end of.
pub(super) struct Releasing<'g>(&'g Gate);

impl Gate {
    /// Waits until no other thread has passed. The same thread may pass again.
    pub fn pass(&self) -> Pass<'_> {
        let _state = self.enter(|_| true);
        Pass(self)
    }

    /// As [`Gate::pass`], for a capture.
    pub(super) fn capture(&self) -> Capturing<'_> {
        let mut state = self.enter(|state| !state.capturing && state.releasing == 0);
        state.capturing = true;
        Capturing(self)
    }

    /// Puts a release aside if a capture records; else keeps captures from beginning until it has been done.
    pub(super) fn defer(&self, release: Release) -> Result<(), (Release, Releasing<'_>)> {
        self.aside(release, |state| &mut state.memory)
    }

    /// As [`Gate::defer`], for staging memory.
    pub(super) fn defer_stage(&self, release: ReleaseStage) -> Result<(), (ReleaseStage, Releasing<'_>)> {
        self.aside(release, |state| &mut state.stages)
    }

    fn aside<T>(&self, release: T, list: fn(&mut State) -> &mut Vec<T>) -> Result<(), (T, Releasing<'_>)> {
        let mut state = self.state();
        if state.capturing {
            list(&mut state).push(release);
            return Ok(());
        }
        state.releasing += 1;
        Err((release, Releasing(self)))
    }

    fn enter(&self, free: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let me = thread::current().id();
        let mut state = self.state();
        while state.owner.is_some_and(|owner| owner != me) || !free(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.owner = Some(me);
        state.depth += 1;
        state
    }

    fn leave(&self, state: &mut State) {
        state.depth = state.depth.saturating_sub(1);
        if state.depth == 0 {
            state.owner = None;
        }
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No holder stops between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.leave(&mut self.0.state());
    }
}

impl Capturing<'_> {
    /// Ends the capture, and returns what was put aside. No other capture begins before this is dropped.
    pub(super) fn end(&self) -> (Vec<Release>, Vec<ReleaseStage>) {
        let mut state = self.0.state();
        // Under the same lock that the lists are taken under: what comes later is not put aside any more.
        state.capturing = false;
        (mem::take(&mut state.memory), mem::take(&mut state.stages))
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.capturing = false;
        self.0.leave(&mut state);
    }
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.releasing = state.releasing.saturating_sub(1);
        self.0.changed.notify_all();
    }
}

//! Shadow memory: what every byte holds, as intervals.

use std::collections::BTreeMap;

/// What a byte holds: a tensor or a workspace, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The tensor's index, or [`WORKSPACE`].
    pub owner: u32,
    /// The turn of the tensor's block in which it was written.
    pub turn: u64,
}

/// The owner of bytes that a workspace was over.
pub const WORKSPACE: u32 = u32::MAX;

/// An address space.
#[derive(Default)]
pub struct Shadow {
    /// From the first byte of an interval to its end and tag. Neighbours with equal tags are one.
    tags: BTreeMap<u64, (u64, Tag)>,
}

impl Shadow {
    /// Tags bytes, or makes them hold nothing.
    pub fn set(&mut self, mut from: u64, mut to: u64, tag: Option<Tag>) {
        if from >= to {
            return;
        }
        // The interval that begins before, and what sticks out of it.
        if let Some((&start, &(end, old))) = self.tags.range(..from).next_back()
            && end > from
        {
            self.tags.insert(start, (from, old));
            if end > to {
                self.tags.insert(to, (end, old));
            }
        }
        while let Some((&start, &(end, old))) = self.tags.range(from..to).next() {
            self.tags.remove(&start);
            if end > to {
                self.tags.insert(to, (end, old));
            }
        }
        let Some(tag) = tag else { return };
        if let Some((&start, &(end, old))) = self.tags.range(..from).next_back()
            && end == from
            && old == tag
        {
            self.tags.remove(&start);
            from = start;
        }
        if let Some(&(end, old)) = self.tags.get(&to)
            && old == tag
        {
            self.tags.remove(&to);
            to = end;
        }
        self.tags.insert(from, (to, tag));
    }

    /// Whether no byte holds anything.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Calls `f` with the pieces of `from..to` and their tags, in order, until it gives true.
    pub fn any(&self, from: u64, to: u64, f: &mut dyn FnMut(u64, u64, Option<Tag>) -> bool) -> bool {
        if from >= to {
            return false;
        }
        let mut at = from;
        let before = self.tags.range(..=from).next_back().filter(|(_, (end, _))| *end > from);
        let after = self.tags.range(from..to).filter(|(start, _)| **start > from);
        for (&start, &(end, tag)) in before.into_iter().chain(after) {
            if start > at && f(at, start, None) {
                return true;
            }
            if f(start.max(at), end.min(to), Some(tag)) {
                return true;
            }
            at = end.min(to);
        }
        at < to && f(at, to, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against an array of bytes.
    #[test]
    fn intervals_behave_like_bytes() {
        let (mut shadow, mut bytes) = (Shadow::default(), [None; 64]);
        let mut seed = 1u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..2000 {
            let (from, tag) = (next(64), next(4));
            let to = (from + next(20)).min(64);
            let tag = (tag > 0).then_some(Tag { owner: tag as u32, turn: 0 });
            shadow.set(from, to, tag);
            bytes[from as usize..to as usize].fill(tag);
            let (a, b) = (next(64), 64 - next(8));
            let mut got = Vec::new();
            shadow.any(a, b, &mut |x, y, t| {
                (x..y).for_each(|_| got.push(t));
                false
            });
            assert_eq!(got, bytes.get(a as usize..b as usize).unwrap_or(&[]));
        }
    }
}

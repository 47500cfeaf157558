//! The host bytes behind a simulated device's addresses.

use crate::{AlignedBytes, DeviceProblem};
use std::collections::BTreeMap;

/// Bytes around each allocation that nobody may write.
pub(super) const RED_ZONE: usize = 64;
/// What they hold.
const RED: u8 = 0x5c;
/// Ranges start at multiples of this.
const GRAIN: usize = 256;

/// One piece of memory, handed out in ranges. It grows as needed, so ranges are offsets and no addresses.
pub(super) struct Slab {
    bytes: AlignedBytes,
    /// Free ranges by their start; no two touch.
    free: BTreeMap<usize, usize>,
}

impl Slab {
    pub(super) fn new() -> Result<Slab, crate::Error> {
        Ok(Slab { bytes: AlignedBytes::zeroed(0)?, free: BTreeMap::new() })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The whole range for this many bytes: a red zone (and what aligns) before, the bytes, a red zone after.
    fn whole(bytes: usize) -> Option<usize> {
        bytes.checked_add(GRAIN + RED_ZONE)?.checked_next_multiple_of(GRAIN)
    }

    /// The start of that many bytes, with red zones around them.
    pub(super) fn take(&mut self, bytes: usize) -> Result<usize, DeviceProblem> {
        let short = DeviceProblem::OutOfMemory { bytes, used: self.bytes.len(), capacity: usize::MAX };
        let whole = Slab::whole(bytes).ok_or(short)?;
        let start = match self.free.iter().find(|(_, len)| **len >= whole).map(|(start, _)| *start) {
            Some(start) => start,
            None => {
                self.grow(whole).ok_or(short)?;
                let last = self.free.iter().next_back().filter(|(_, len)| **len >= whole);
                last.map(|(start, _)| *start).ok_or(short)?
            }
        };
        let len = self.free.remove(&start).ok_or(short)?;
        if len > whole {
            self.free.insert(start + whole, len - whole);
        }
        let first = start + GRAIN;
        for zone in self.zones(first, bytes) {
            if let Some(zone) = self.bytes.get_mut(zone) {
                zone.fill(RED);
            }
        }
        Ok(first)
    }

    /// Gives a range back.
    pub(super) fn give(&mut self, first: usize, bytes: usize) {
        let (Some(whole), Some(mut start)) = (Slab::whole(bytes), first.checked_sub(GRAIN)) else { return };
        let mut len = whole;
        if let Some(after) = self.free.remove(&(start + len)) {
            len += after;
        }
        if let Some((before, its)) = self.free.range(..start).next_back().map(|(s, l)| (*s, *l))
            && before + its == start
        {
            self.free.remove(&before);
            start = before;
            len += its;
        }
        self.free.insert(start, len);
    }

    /// Whether nobody has written around a range.
    pub(super) fn intact(&self, first: usize, bytes: usize) -> bool {
        self.zones(first, bytes).into_iter().all(|zone| {
            const WHOLE: [u8; RED_ZONE] = [RED; RED_ZONE];
            self.bytes.get(zone).is_some_and(|z| z == WHOLE)
        })
    }

    fn zones(&self, first: usize, bytes: usize) -> [core::ops::Range<usize>; 2] {
        [first.saturating_sub(RED_ZONE)..first, first + bytes..first + bytes + RED_ZONE]
    }

    /// Makes room for at least that many bytes more, at the end.
    fn grow(&mut self, whole: usize) -> Option<()> {
        let old = self.bytes.len();
        let more = whole.max(old).max(1 << 14);
        let mut grown = AlignedBytes::zeroed(old.checked_add(more)?).ok()?;
        grown.get_mut(..old)?.copy_from_slice(&self.bytes);
        self.bytes = grown;
        let touching = self.free.iter().next_back().filter(|(start, len)| *start + *len == old);
        let start = touching.map_or(old, |(start, _)| *start);
        self.free.insert(start, old + more - start);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_apart_and_join_again() {
        let mut slab = Slab::new().unwrap();
        let ranges: Vec<(usize, usize)> = [0, 1, 300, 70_000].map(|n| (slab.take(n).unwrap(), n)).to_vec();
        for (i, (a, n)) in ranges.iter().enumerate() {
            assert_eq!(a % GRAIN, 0);
            for (b, m) in &ranges[..i] {
                assert!(a + n + RED_ZONE <= *b - RED_ZONE || b + m + RED_ZONE <= *a - RED_ZONE);
            }
        }
        let (first, bytes) = ranges[2];
        assert!(slab.intact(first, bytes));
        slab.bytes_mut()[first + bytes] = 0;
        assert!(!slab.intact(first, bytes));
        ranges.iter().for_each(|(a, n)| slab.give(*a, *n));
        assert_eq!(slab.free.len(), 1);
        assert_eq!(slab.free.get(&0), Some(&slab.bytes().len()));
    }
}

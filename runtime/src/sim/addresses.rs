//! Which address an allocation gets.

/// Where a simulated device puts what is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// No address is ever handed out twice: whoever uses memory too long finds nothing there.
    NeverReuse,
    /// What was given back last is handed out first.
    AdversarialReuse,
    /// Every allocation lies somewhere else, drawn from this seed.
    Shift(u64),
}

/// Addresses are multiples of this.
const GRAIN: u64 = 256;
/// Nobody has the addresses between two allocations.
const GAP: u64 = 4096;

/// Hands out addresses.
pub(super) struct Space {
    mode: Addresses,
    next: u64,
    random: u64,
    /// Addresses that were given back and the room there, the last one last.
    free: Vec<(u64, u64)>,
}

impl Space {
    pub(super) fn new(mode: Addresses, device: u32) -> Space {
        let random = match mode {
            Addresses::Shift(seed) => seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            Addresses::NeverReuse | Addresses::AdversarialReuse => 1,
        };
        // Ranges of devices do not meet.
        Space { mode, next: (u64::from(device) + 1) << 44, random, free: Vec::new() }
    }

    /// An address with room for that many bytes, and how much room there is.
    pub(super) fn take(&mut self, bytes: usize) -> (u64, u64) {
        let room = (bytes as u64).next_multiple_of(GRAIN).max(GRAIN);
        match self.mode {
            Addresses::NeverReuse => {}
            Addresses::AdversarialReuse => {
                if let Some(i) = self.free.iter().rposition(|(_, r)| *r >= room) {
                    return self.free.remove(i);
                }
            }
            Addresses::Shift(_) => {
                self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                self.next += (self.random >> 40).next_multiple_of(GRAIN);
            }
        }
        let address = self.next;
        self.next += room + GAP;
        (address, room)
    }

    /// Takes an address back.
    pub(super) fn give(&mut self, address: u64, room: u64) {
        if self.mode == Addresses::AdversarialReuse {
            self.free.push((address, room));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        let twice = |mode| {
            let mut space = Space::new(mode, 0);
            let first = space.take(100);
            space.give(first.0, first.1);
            (first.0, space.take(50).0)
        };
        let (a, b) = twice(Addresses::NeverReuse);
        assert_ne!(a, b);
        let (a, b) = twice(Addresses::AdversarialReuse);
        assert_eq!(a, b);
        let (a, b) = twice(Addresses::Shift(7));
        assert_ne!(a, b);
        assert_ne!(twice(Addresses::Shift(7)), twice(Addresses::Shift(8)));
    }
}

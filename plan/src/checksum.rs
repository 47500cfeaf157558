//! A checksum of weights that is fast enough to be looked at whenever a model is loaded.

/// Bytes that are taken in one go, eight to a lane.
const BLOCK: usize = 64;
const LANES: usize = BLOCK / 8;
/// An odd number whose bits look random: multiplying by it loses nothing.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A checksum in the making, of bytes that come in pieces of any size.
///
/// It finds damage, not forgery: any change within eight neighbouring bytes at a multiple of eight gives another sum, since every
/// step can be undone; other changes do but for one in 2⁶⁴. No bytes have the sum 0.
#[derive(Clone, Debug)]
pub struct Checksum {
    lanes: [u64; LANES],
    rest: [u8; BLOCK],
    held: usize,
    len: u64,
}

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum { lanes: [ODD; LANES], rest: [0; BLOCK], held: 0, len: 0 }
    }
}

fn mix(state: u64, word: u64) -> u64 {
    (state ^ word).wrapping_mul(ODD).rotate_left(29)
}

fn take(lanes: &mut [u64; LANES], block: &[u8; BLOCK]) {
    let (words, _) = block.as_chunks::<8>();
    for (lane, word) in lanes.iter_mut().zip(words) {
        *lane = mix(*lane, u64::from_le_bytes(*word));
    }
}

impl Checksum {
    /// The sum of these bytes.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut sum = Checksum::default();
        sum.update(bytes);
        sum.finish()
    }

    /// Adds the next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.len = self.len.wrapping_add(bytes.len() as u64);
        if self.held > 0 {
            let room = self.rest.get_mut(self.held..).unwrap_or_default();
            let n = room.len().min(bytes.len());
            let (now, later) = bytes.split_at(n);
            for (to, from) in room.iter_mut().zip(now) {
                *to = *from;
            }
            self.held += n;
            bytes = later;
            if self.held < BLOCK {
                return;
            }
            take(&mut self.lanes, &self.rest);
            self.held = 0;
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        // Kept apart from `self`, so that the lanes stay in registers.
        let mut lanes = self.lanes;
        for block in blocks {
            take(&mut lanes, block);
        }
        self.lanes = lanes;
        for (to, from) in self.rest.iter_mut().zip(rest) {
            *to = *from;
        }
        self.held = rest.len();
    }

    /// The sum of all bytes so far.
    pub fn finish(&self) -> u64 {
        if self.len == 0 {
            return 0;
        }
        let mut last = [0; BLOCK];
        for (to, from) in last.iter_mut().zip(self.rest.iter().take(self.held)) {
            *to = *from;
        }
        let mut lanes = self.lanes;
        take(&mut lanes, &last);
        lanes.iter().fold(self.len, |sum, lane| mix(sum, *lane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(n: usize) -> Vec<u8> {
        (0..n).map(|i| (i * 31 % 251) as u8).collect()
    }

    #[test]
    fn pieces_do_not_matter() {
        for n in [0, 1, 63, 64, 65, 200] {
            let all = bytes(n);
            for piece in [1, 7, 64, 100] {
                let mut sum = Checksum::default();
                all.chunks(piece).for_each(|part| sum.update(part));
                assert_eq!(sum.finish(), Checksum::of(&all), "{n} bytes in pieces of {piece}");
            }
        }
        assert_eq!(Checksum::of(&[]), 0);
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let all = bytes(150);
        let sum = Checksum::of(&all);
        for i in 0..all.len() * 8 {
            let mut other = all.clone();
            other[i / 8] ^= 1 << (i % 8);
            assert_ne!(Checksum::of(&other), sum, "bit {i}");
        }
        assert_ne!(Checksum::of(&[0; 3]), Checksum::of(&[0; 4]));
    }
}

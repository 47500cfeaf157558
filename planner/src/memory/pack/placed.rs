//! Placed items by the sections in which they live: a tree of ranges of sections.

/// A tree over sections. An item stands at the few nodes whose ranges make up its life.
pub struct Placed {
    leaves: usize,
    items: Vec<Vec<u32>>,
    /// Whether there is anything at a node or below it.
    some: Vec<bool>,
}

impl Placed {
    /// An empty tree.
    pub fn new(sections: usize) -> Placed {
        let leaves = sections.max(1).next_power_of_two();
        Placed { leaves, items: vec![Vec::new(); 2 * leaves], some: vec![false; 2 * leaves] }
    }

    /// Adds an item that lives in the sections `from..to`.
    pub fn insert(&mut self, span: (u32, u32), item: u32) {
        if span.0 >= span.1 {
            return;
        }
        let (mut a, mut b) = (span.0 as usize + self.leaves, span.1 as usize + self.leaves);
        while a < b {
            if a % 2 == 1 {
                self.put(a, item);
                a += 1;
            }
            if b % 2 == 1 {
                b -= 1;
                self.put(b, item);
            }
            (a, b) = (a / 2, b / 2);
        }
    }

    fn put(&mut self, mut node: usize, item: u32) {
        self.items[node].push(item);
        while node > 0 && !std::mem::replace(&mut self.some[node], true) {
            node /= 2;
        }
    }

    /// Calls `f` with every item that lives in any of the sections `from..to`, some of them more than once.
    pub fn over(&self, span: (u32, u32), f: &mut dyn FnMut(u32)) {
        if span.0 >= span.1 {
            return;
        }
        let (from, to) = (span.0 as usize, span.1 as usize);
        let mut stack = vec![(1usize, 0usize, self.leaves)];
        while let Some((node, start, len)) = stack.pop() {
            if !self.some[node] || start >= to || start + len <= from {
                continue;
            }
            self.items[node].iter().for_each(|i| f(*i));
            if len > 1 {
                stack.push((2 * node, start, len / 2));
                stack.push((2 * node + 1, start + len / 2, len / 2));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Placed;

    #[test]
    fn finds_what_lives_together() {
        let spans: Vec<(u32, u32)> = (0..40).map(|i| (i * 7 % 23, i * 7 % 23 + 1 + i % 5)).collect();
        let mut placed = Placed::new(30);
        for (i, span) in spans.iter().enumerate() {
            let mut found = Vec::new();
            placed.over(*span, &mut |j| found.push(j as usize));
            found.sort_unstable();
            found.dedup();
            let want: Vec<usize> = (0..i).filter(|j| spans[*j].0 < span.1 && span.0 < spans[*j].1).collect();
            assert_eq!(found, want);
            placed.insert(*span, i as u32);
        }
    }
}

//! What the search is asked for, and in which orders of the items.
//!
//! The time that one order needs is heavy-tailed: it finds a placement at once or not in a long while. So several orders take
//! turns with growing limits, half of the steps go to orders with disturbed keys, and parts of the problem that are solved stay
//! solved.

use super::{
    search::{Outcome, Search},
    sections::Problem,
};

/// Items in one part beyond which there is no search.
const MAX_ITEMS: usize = 20_000;
/// Places of items in sections beyond which there is no search.
const MAX_MEMBERS: usize = 20_000_000;

/// The best placement so far.
pub struct Best<'a, 'p> {
    problem: &'a Problem<'p>,
    /// Its offsets.
    pub offsets: Vec<u64>,
    /// Its height.
    pub height: u64,
    /// No placement is below this, by an exhausted search.
    proven: u64,
    /// Search steps taken.
    pub nodes: u64,
    members: Vec<Vec<u32>>,
    parts: Vec<Vec<u32>>,
}

impl<'a, 'p> Best<'a, 'p> {
    /// Begins with a placement.
    pub fn new(problem: &'a Problem<'p>, offsets: Vec<u64>, height: u64, bound: u64) -> Self {
        let places: usize = problem.spans.iter().map(|s| (s.1 - s.0) as usize).sum();
        let small = problem.is_listed() && problem.items.len() <= MAX_ITEMS && places <= MAX_MEMBERS;
        let members = if small { problem.members() } else { Vec::new() };
        let parts = if small { problem.parts() } else { Vec::new() };
        Best { problem, offsets, height, proven: bound, nodes: 0, members, parts }
    }

    /// Whether nothing lower is possible.
    pub fn is_proven(&self) -> bool {
        self.height <= self.proven
    }

    /// Looks for a placement no higher than `enough` in at most `first` steps, then, as far as the budget goes, for anything lower
    /// than there is.
    pub fn improve(&mut self, enough: u64, budget: u64, first: u64) {
        if self.parts.is_empty() || self.reach(enough, first) {
            return;
        }
        // Halfway between what failed and what there is; then again with more steps for each target.
        let mut effort = (budget / 32).max(1);
        while self.nodes < budget && self.height > enough.max(self.proven) {
            let before = self.nodes;
            // Every height down to this one is out of reach, or not worth the steps.
            let mut failed = enough.max(self.proven).saturating_sub(1);
            let near = (self.height - failed) / 16;
            while self.nodes < budget && self.height.saturating_sub(failed) > 1 + near {
                let target = failed + (self.height - failed) / 2;
                let left = budget - self.nodes;
                if !self.reach(target, effort.min(left)) {
                    failed = target;
                }
            }
            if self.nodes == before {
                return;
            }
            effort = effort.saturating_mul(4);
        }
    }

    /// Looks for a placement no higher than a target.
    fn reach(&mut self, target: u64, budget: u64) -> bool {
        let problem = self.problem;
        let mut search = Search::new(problem, &self.members, target);
        let mut offsets = self.offsets.clone();
        for part in self.parts.clone() {
            let low = |i: &u32| offsets[*i as usize].saturating_add(problem.items[*i as usize].size) <= target;
            if part.iter().all(low) {
                continue;
            }
            let left = budget.saturating_sub(search.nodes);
            match find(&mut search, problem, &part, left) {
                Outcome::Fits => part.iter().for_each(|i| offsets[*i as usize] = search.offset(*i)),
                outcome => {
                    self.nodes += search.nodes;
                    // With windows there are placements that the search does not know.
                    if outcome == Outcome::Impossible && !problem.has_windows() {
                        self.proven = self.proven.max(target.saturating_add(1));
                    }
                    return false;
                }
            }
        }
        self.nodes += search.nodes;
        self.height = problem.height(&offsets);
        self.offsets = offsets;
        true
    }
}

/// Lets orders take turns on one part.
fn find(search: &mut Search<'_, '_>, problem: &Problem<'_>, part: &[u32], budget: u64) -> Outcome {
    let start = search.nodes;
    let n = part.len() as u64;
    let mut limit = 2 * n;
    let mut disturbed = 0u64;
    loop {
        let before = search.nodes;
        for key in PLAIN {
            let outcome = search.run(part, &|p: &[u32], rest: &[u64]| ranked(problem, p, rest, key, None), limit);
            if outcome != Outcome::Unknown {
                return outcome;
            }
        }
        // As many steps again in disturbed orders, in smaller helpings.
        let until = search.nodes + (search.nodes - before);
        while search.nodes < until {
            let key = PLAIN[disturbed as usize % PLAIN.len()];
            let outcome = search.run(
                part,
                &|p: &[u32], rest: &[u64]| ranked(problem, p, rest, key, Some(disturbed)),
                (4 * n).max(limit / 8),
            );
            disturbed += 1;
            if outcome != Outcome::Unknown {
                return outcome;
            }
        }
        if search.nodes - start >= budget {
            return Outcome::Unknown;
        }
        limit = (4 * limit).min((budget - (search.nodes - start)).max(2 * n));
    }
}

/// What an order looks at first, second and third: life, area, total.
type Key = [usize; 3];
const PLAIN: [Key; 3] = [[2, 0, 1], [2, 1, 0], [0, 1, 2]];

/// The items in descending order of their keys, which a seed disturbs.
fn ranked(problem: &Problem<'_>, part: &[u32], rest: &[u64], key: Key, seed: Option<u64>) -> Vec<u32> {
    let mut keyed: Vec<([u128; 3], u32)> = part
        .iter()
        .map(|i| {
            let item = &problem.items[*i as usize];
            let life = u128::from(item.end - item.start);
            let (a, b) = problem.spans[*i as usize];
            let total = rest.get(a as usize..b as usize).and_then(|r| r.iter().max()).copied().unwrap_or(0);
            let facts = [life, u128::from(item.size) * life, u128::from(total)];
            let mut at = 0u64;
            let values = key.map(|k| {
                at += 1;
                disturb(facts[k], seed, u64::from(*i) * 4 + at)
            });
            (values, *i)
        })
        .collect();
    keyed.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    keyed.into_iter().map(|(_, i)| i).collect()
}

/// A value times 1 ± 1.5 to 15 percent, by a counter-based generator.
fn disturb(value: u128, seed: Option<u64>, counter: u64) -> u128 {
    let Some(seed) = seed else { return value };
    let percent = [15u64, 30, 50, 100, 150][(seed / 3) as usize % 5];
    let mut x = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ counter.wrapping_mul(0xd1b5_4a32_d192_ed03);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    let thousandths = 1000 - percent + x % (2 * percent + 1);
    (value.min(u128::MAX >> 16) << 4) * u128::from(thousandths) / 1000
}

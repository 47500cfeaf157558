//! Small arenas against every order of placement.

use super::{build::*, random::Rng};
use crate::memory::{
    Options, optimise,
    usage::{self, Ticks, Usage},
};
use plan::*;

/// A chain with side branches of at most eight tensors.
fn small(seed: u64) -> Plan {
    let mut rng = Rng::new(seed);
    let mut b = Build::new(1);
    let x = b.input_bytes("x", 8);
    let mut all = vec![x];
    for i in 0..3 + rng.below(6) {
        let size = 1 + rng.below(40) as i64;
        let next = b.bytes(&format!("t{i}"), size);
        let reads = [all[rng.below(all.len())], all[all.len() - 1 - rng.below(all.len().min(2))]];
        b.step("N", gather(), &reads, &[next]);
        all.push(next);
    }
    b.output(all[all.len() - 1]);
    let mut plan = b.plan;
    optimise(&mut plan, &Options { reorder: rng.below(2) == 0, ..Options::default() }).unwrap();
    checker::check(&plan, &checker::Points::default()).unwrap();
    plan
}

/// A tensor to be placed: when it lives, and its bytes.
type Item = (Ticks, u64);

/// The lowest height over all orders of placing each item at the lowest offset that is free for it. Some order leads to the
/// best placement: that by the offsets there.
fn lowest(items: &[Item], placed: &mut Vec<(Item, u64)>, left: &mut Vec<usize>, best: &mut u64) {
    let height = placed.iter().map(|((_, size), at)| at + size).max().unwrap_or(0);
    if height >= *best {
        return;
    }
    if left.is_empty() {
        *best = height;
        return;
    }
    for k in 0..left.len() {
        let i = left.remove(k);
        let ((start, end), size) = items[i];
        let meets: Vec<(u64, u64)> = placed
            .iter()
            .filter(|(((s, e), _), _)| *s < end && start < *e)
            .map(|((_, size), at)| (*at, at + size))
            .collect();
        let fits = |at: u64| meets.iter().all(|(from, to)| at + size <= *from || *to <= at);
        let at = std::iter::once(0).chain(meets.iter().map(|m| m.1)).filter(|at| fits(*at)).min().unwrap_or(0);
        placed.push((items[i], at));
        lowest(items, placed, left, best);
        placed.pop();
        left.insert(k, i);
    }
}

/// Row L4. The arenas of up to eight tensors are as small as those of any order of placement: there is no gap.
#[test]
fn no_order_of_placement_is_better() {
    let (mut tried, mut above_live) = (0, 0);
    for seed in 0..200 {
        let plan = small(seed);
        let usage = Usage::new(&plan).unwrap();
        let sizes = usage::sizes(&plan, |_| None);
        let items: Vec<Item> = usage.arena.iter().zip(&sizes).filter_map(|(t, s)| Some(((*t)?, *s))).collect();
        assert!((1..=8).contains(&items.len()));
        let mut best = u64::MAX;
        lowest(&items, &mut Vec::new(), &mut (0..items.len()).collect(), &mut best);
        assert_eq!(plan.arena_bytes, best, "seed {seed}");
        tried += usize::from(items.len() >= 6);
        above_live += usize::from(best > plan.certificate.lower_bound_bytes);
    }
    assert!(tried > 50, "only {tried} had six tensors or more");
    println!("{above_live} of 200 need more than what is live at once");
}

//! One item after the other, in several orders: the best of a fixed portfolio.

use super::{
    placed::Placed,
    sections::Problem,
    windows::{Forbidden, forbid},
};
use std::cmp::Reverse;

/// By what items are taken, most wanted first.
type Key = [Reverse<u128>; 3];

/// What an order can look at.
struct Facts {
    size: u128,
    life: u128,
    area: u128,
    total: u128,
    overlaps: u128,
    start: u128,
    end: u128,
}

/// The later a tick, the smaller.
fn early(tick: u128) -> u128 {
    u128::from(u64::MAX) - tick
}

/// Items beyond which only some orders are tried.
const MANY: usize = 20_000;

/// Those that do best on large problems, the best first: total and life, total and size, size and start, overlaps and size.
const FOR_MANY: [usize; 4] = [2, 1, 5, 9];

/// The orders of the portfolio.
const ORDERS: [fn(&Facts) -> [u128; 3]; 13] = [
    |f| [f.size, f.life, 0],
    |f| [f.total, f.size, 0],
    |f| [f.total, f.life, f.area],
    |f| [f.life, f.area, f.total],
    |f| [f.total, f.area, f.life],
    |f| [f.size, early(f.start), 0],
    |f| [f.size, early(f.end), 0],
    |f| [f.area, 0, 0],
    |f| [f.life, 0, 0],
    |f| [f.overlaps, f.size, 0],
    |f| [early(f.start), f.size, 0],
    |f| [early(f.end), f.size, 0],
    |f| [f.end, f.size, 0],
];

/// The best placement of all orders with both fits, or the first that reaches the bound.
pub fn portfolio(problem: &Problem<'_>, bound: u64) -> Vec<u64> {
    let facts = facts(problem);
    let orders = if problem.items.len() > MANY { FOR_MANY.to_vec() } else { (0..ORDERS.len()).collect() };
    let mut best: Option<(u64, Vec<u64>)> = None;
    for order in orders.into_iter().filter_map(|i| ORDERS.get(i)) {
        let mut sequence: Vec<(bool, Key, u32)> = facts
            .iter()
            .enumerate()
            .map(|(i, f)| {
                let free = problem.items[i].fixed.is_none();
                (free, order(f).map(Reverse), i as u32)
            })
            .collect();
        sequence.sort_unstable();
        let sequence: Vec<u32> = sequence.into_iter().map(|(_, _, i)| i).collect();
        for best_fit in [false, true] {
            let offsets = place(problem, &sequence, best_fit);
            let height = problem.height(&offsets);
            if best.as_ref().is_none_or(|(h, _)| height < *h) {
                best = Some((height, offsets));
            }
            if best.as_ref().is_some_and(|(h, _)| *h <= bound) {
                return best.map(|(_, o)| o).unwrap_or_default();
            }
        }
    }
    best.map(|(_, o)| o).unwrap_or_default()
}

fn facts(problem: &Problem<'_>) -> Vec<Facts> {
    let sorted = |f: fn(&super::Item) -> u64| {
        let mut ticks: Vec<u64> = problem.items.iter().map(f).collect();
        ticks.sort_unstable();
        ticks
    };
    let (starts, ends) = (sorted(|i| i.start), sorted(|i| i.end));
    let one = |(i, item): (usize, &super::Item)| {
        let life = u128::from(item.end.saturating_sub(item.start));
        // Those that begin before its end, less those that end by its start.
        let begun = starts.partition_point(|s| *s < item.end);
        let over = ends.partition_point(|e| *e <= item.start);
        Facts {
            size: u128::from(item.size),
            life,
            area: u128::from(item.size) * life,
            total: u128::from(problem.total_over(i as u32)),
            overlaps: begun.saturating_sub(over) as u128,
            start: u128::from(item.start),
            end: u128::from(item.end),
        }
    };
    problem.items.iter().enumerate().map(one).collect()
}

/// Places items in a given order, each in the first or the tightest gap among those that are placed.
fn place(problem: &Problem<'_>, sequence: &[u32], best_fit: bool) -> Vec<u64> {
    let mut offsets: Vec<Option<u64>> = problem.items.iter().map(|i| i.fixed).collect();
    let mut taken: Vec<Forbidden> = Vec::new();
    // Where neighbours are not listed, what is placed is looked up by time.
    let mut placed = (!problem.is_listed()).then(|| Placed::new(problem.totals.len()));
    for &i in sequence {
        let item = &problem.items[i as usize];
        taken.clear();
        let mut meet = |j: u32| {
            if let Some(offset) = offsets[j as usize] {
                forbid(problem, i, j, offset, &mut taken);
            }
        };
        match &placed {
            None => problem.neighbours(i).iter().for_each(|j| meet(*j)),
            Some(placed) => placed.over(problem.spans[i as usize], &mut meet),
        }
        taken.sort_unstable();
        offsets[i as usize] = Some(item.fixed.unwrap_or_else(|| gap(&taken, item.align, best_fit)));
        if let Some(placed) = &mut placed {
            placed.insert(problem.spans[i as usize], i);
        }
    }
    offsets.into_iter().map(|o| o.unwrap_or(0)).collect()
}

/// The lowest offset that is not forbidden, or the one with the least room to the next forbidden one; above them all where
/// there is no other. What is forbidden is ascending.
fn gap(forbidden: &[Forbidden], align: u64, best_fit: bool) -> u64 {
    let (mut low, mut best): (u64, Option<(u64, u64)>) = (0, None);
    for &(from, to) in forbidden {
        let offset = low.checked_next_multiple_of(align.max(1)).unwrap_or(u64::MAX);
        if let Some(room) = u64::try_from(from).ok().and_then(|from| from.checked_sub(offset)) {
            if !best_fit {
                return offset;
            }
            if best.is_none_or(|(r, _)| room < r) {
                best = Some((room, offset));
            }
        }
        low = low.max(to);
    }
    best.map_or_else(|| low.checked_next_multiple_of(align.max(1)).unwrap_or(low), |(_, offset)| offset)
}

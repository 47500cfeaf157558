//! The eager executor's accounts: what it takes, gives back, and leaves after a failure.

use crate::kit::*;

/// Row T3. Every executor, every way of handing out addresses and of queueing, several runs with changed data and shapes.
#[test]
fn everything_everywhere() {
    let ramp = |dims: &[usize], n| (0..n).map(|seed| vec![Data::ramp(dims, seed)]).collect::<Vec<_>>();
    Case::new("products", &two_products(), &[], &[]).differential(&ramp(&[8, 16], 3));
    let stateful = Case::new("sum", &running_sum(), &[], &[("sum", "next")]);
    stateful.differential(&ramp(&[4], 3));
    let found = Case::new("nonzero", &nonzero(), &[], &[]).differential(&ramp(&[2, 6], 3));
    assert_eq!((found.runs, found.failed, found.captures, found.replays), (54, 0, 6, 12));
    let runs = [true, false, true].map(|c| vec![Data::ramp(&[4, 4], 1), Data::flag(c)]);
    Case::new("branch", &branch(), &[], &[]).differential(&runs);
    let runs = [0, 3, 1].map(|n| vec![Data::ramp(&[4], 2), Data::ints(&[], &[n])]);
    Case::new("repeated", &repeated(), &[], &[]).differential(&runs);
    let runs = [(2, 1), (7, 6), (3, 9), (5, 0)];
    let runs = runs.map(|(n, i)| vec![Data::ramp(&[n, 4], n), Data::ints(&[3], &[0, i, 1])]);
    let found = Case::new("lookup", &lookup(), &[("n", 2, 9)], &[]).differential(&runs);
    assert_eq!(found.failed, 1, "an index beyond the rows fails everywhere alike");
}

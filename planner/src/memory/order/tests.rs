//! The search for an order: random wirings, whose best peaks are known, and small graphs against all of their orders.

use super::{HEURISTICS, Order, flow::Flow, lowest};

/// Randomly wired networks (Watts-Strogatz, 4 neighbours, 0.75), every tensor one unit: steps, seed, and what each step reads.
const WIRINGS: &str = include_str!("wirings.txt");

/// The lowest peaks of those with 32 steps inside, by seed.
const BEST: [u64; 6] = [15, 13, 17, 15, 15, 15];

fn wirings() -> Vec<(usize, usize, Flow)> {
    let one = |line: &str| {
        let mut parts = line.splitn(3, ' ');
        let mut number = || parts.next().unwrap().parse().unwrap();
        let (steps, seed) = (number(), number());
        let lists = parts.next().unwrap().split(';');
        let reads: Vec<Vec<u32>> = lists.map(|l| l.split_whitespace().map(|n| n.parse().unwrap()).collect()).collect();
        (steps, seed, Flow::of(&reads, &vec![1; reads.len()]))
    };
    WIRINGS.lines().filter(|l| !l.starts_with('#')).map(one).collect()
}

/// Whether every step comes once, and after what it waits for.
fn is_order(flow: &Flow, order: &[u32]) -> bool {
    let mut p = flow.start();
    order.len() == flow.len()
        && order.iter().all(|s| {
            let fine = flow.is_ready(&p, *s) && !flow.is_done(&p, *s);
            flow.run(&mut p, *s);
            fine
        })
}

fn found(flow: &Flow) -> (u64, bool) {
    let proposals: Vec<Order> = HEURISTICS.iter().map(|h| h(flow)).collect();
    let found = lowest(flow, proposals.iter());
    assert!(is_order(flow, &found.order));
    assert!(proposals.iter().all(|o| is_order(flow, o) && flow.peak(o) >= flow.peak(&found.order)));
    (flow.peak(&found.order), found.proven)
}

#[test]
fn random_wirings_come_to_their_best() {
    let all = wirings();
    assert_eq!(all.len(), BEST.len() + 1);
    for (steps, seed, flow) in &all {
        let file: Order = (0..flow.len() as u32).collect();
        let (peak, proven) = found(flow);
        println!("{steps} steps, seed {seed}: {} in the file's order, {peak}, proven {proven}", flow.peak(&file));
        if *steps == 32 {
            assert_eq!((peak, proven), (BEST[*seed], true), "seed {seed}");
        } else {
            assert!(peak <= 26, "{steps} steps: {peak}");
        }
    }
}

/// The lowest peak of all orders.
fn exhaustive(flow: &Flow, p: &super::flow::Progress, peak: u64, best: &mut u64) {
    let ready = flow.ready(p);
    if ready.is_empty() {
        *best = peak.min(*best);
    }
    for step in ready {
        let mut next = p.clone();
        let peak = peak.max(flow.run(&mut next, step).during);
        if peak < *best {
            exhaustive(flow, &next, peak, best);
        }
    }
}

#[test]
fn small_graphs_are_solved_exactly() {
    let mut state = 1u64;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for case in 0..600 {
        let n = 2 + below(8) as usize;
        let reads: Vec<Vec<u32>> =
            (0..n as u64).map(|i| (0..i).filter(|_| below(3) == 0).map(|j| j as u32).collect()).collect();
        let sizes: Vec<u64> = (0..n).map(|_| below(9)).collect();
        let flow = Flow::of(&reads, &sizes);
        let mut best = u64::MAX;
        exhaustive(&flow, &flow.start(), 0, &mut best);
        assert_eq!(found(&flow), (best, true), "case {case}: {reads:?} {sizes:?}");
    }
}

//! The order of the steps: any that keeps every dependency, for the lowest peak.
//!
//! Blocks are ordered each for itself. Heuristics and a bounded exact search propose orders on a model of memory (`flow`); the
//! proposals are then judged by the peak after sharing, and the file's order stays unless another is lower.

mod flow;
mod heuristics;
mod search;
#[cfg(test)]
mod tests;

use super::{Error, alias, lives::lives, schedule, tree::Timeline, tree::Tree, windows};
use flow::{Flow, flows};
use plan::{Block, Plan};

/// An order of a block's steps, by their numbers in the file.
type Order = Vec<u32>;

/// A way to order a block.
type Heuristic = fn(&Flow) -> Order;

/// The heuristics, tried on all blocks alike.
const HEURISTICS: [Heuristic; 4] =
    [heuristics::safe_first, heuristics::least_memory, heuristics::most_freed, heuristics::depth_first];

/// Reorders the steps of every block where that lowers the peak.
pub fn improve(plan: &mut Plan, in_place: bool) -> Result<(), Error> {
    let tree = Tree::new(plan)?;
    let flows = flows(plan, &tree);
    let identity: Vec<Order> = plan.blocks.iter().map(|b| (0..b.steps.len() as u32).collect()).collect();
    let mut proposals: Vec<Vec<Order>> = Vec::new();
    let mut propose = |orders: Vec<Order>| {
        if orders != identity && !proposals.contains(&orders) {
            proposals.push(orders);
        }
    };
    let each: Vec<Vec<Order>> = HEURISTICS.iter().map(|h| flows.iter().map(h).collect()).collect();
    // The best of the heuristics for each block, and what the search makes of it.
    let mut best = Vec::with_capacity(flows.len());
    for (b, flow) in flows.iter().enumerate() {
        best.push(lowest(flow, each.iter().filter_map(|orders| orders.get(b))).order);
    }
    propose(best);
    each.into_iter().for_each(&mut propose);
    let mut lowest = judge(plan, in_place)?;
    let mut chosen = None;
    for orders in proposals {
        let mut candidate = plan.clone();
        apply(&mut candidate, &orders);
        let peak = judge(&candidate, in_place)?;
        if peak < lowest {
            (lowest, chosen) = (peak, Some(candidate));
        }
    }
    if let Some(better) = chosen {
        plan.blocks = better.blocks;
    }
    Ok(())
}

/// The order of a block with the lowest peak that the proposals, or the search, come to; the file's where none is lower.
fn lowest<'a>(flow: &Flow, proposals: impl Iterator<Item = &'a Order>) -> search::Found {
    let file: Order = (0..flow.len() as u32).collect();
    let tried = proposals.map(|o| (flow.peak(o), o.clone()));
    let (peak, order) = tried.fold((flow.peak(&file), file), |a, o| if o.0 < a.0 { o } else { a });
    search::improve(flow, order, peak)
}

/// Whether the search proves its order of every block to have the lowest peak.
#[cfg(test)]
pub fn is_proven(plan: &Plan) -> bool {
    let each = flows(plan, &Tree::new(plan).unwrap());
    each.iter().all(|flow| lowest(flow, HEURISTICS.iter().map(|h| h(flow)).collect::<Vec<_>>().iter()).proven)
}

fn apply(plan: &mut Plan, orders: &[Order]) {
    for (block, order) in plan.blocks.iter_mut().zip(orders) {
        let mut steps: Vec<_> = std::mem::take(&mut block.steps).into_iter().map(Some).collect();
        let taken = order.iter().filter_map(|i| steps.get_mut(*i as usize).and_then(Option::take));
        *block = Block { steps: taken.collect() };
    }
}

/// The peak that a plan comes to once its buffers are shared.
fn judge(plan: &Plan, in_place: bool) -> Result<u64, Error> {
    let mut plan = plan.clone();
    let tree = Tree::new(&plan)?;
    if in_place {
        alias::merge(&mut plan, &tree);
    }
    let tree = Tree::new(&plan)?;
    let (lives, timeline) = (lives(&plan, &tree), Timeline::new(&plan, &tree));
    let windows = windows::of_plan(&plan, &tree, &timeline, &lives);
    schedule::peak(&plan, &lives, &timeline, &windows)
}

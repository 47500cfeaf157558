//! Orders by simple rules.

use super::flow::{Cost, Flow, Progress};

/// Runs steps one by one, each time the ready one for which `key` is least; ties go to the file's order.
fn list<K: Ord>(flow: &Flow, key: impl Fn(&Flow, &Progress, u32, Cost) -> K) -> Vec<u32> {
    let mut p = flow.start();
    let mut waiting: Vec<usize> = flow.before.iter().map(Vec::len).collect();
    let mut ready: Vec<u32> = (0..flow.len() as u32).filter(|s| waiting[*s as usize] == 0).collect();
    let mut order = Vec::with_capacity(flow.len());
    while let Some(at) =
        (0..ready.len()).min_by_key(|i| (key(flow, &p, ready[*i], flow.cost(&p, ready[*i])), ready[*i]))
    {
        let step = ready.swap_remove(at);
        flow.run(&mut p, step);
        order.push(step);
        for next in &flow.after[step as usize] {
            waiting[*next as usize] -= 1;
            if waiting[*next as usize] == 0 {
                ready.push(*next);
            }
        }
    }
    order
}

/// The file's order, but what leaves less memory than it found comes first.
pub fn safe_first(flow: &Flow) -> Vec<u32> {
    list(flow, |_, p, _, cost| cost.after > p.live)
}

/// The step after which least is live.
pub fn least_memory(flow: &Flow) -> Vec<u32> {
    list(flow, |_, _, _, cost| (cost.after, cost.during))
}

/// The step that frees most for what it adds.
pub fn most_freed(flow: &Flow) -> Vec<u32> {
    list(flow, |_, _, _, cost| (i128::from(cost.adds) - i128::from(cost.frees), cost.during))
}

/// From the last steps back to what they need, the branch first that needs most while it runs and leaves least.
pub fn depth_first(flow: &Flow) -> Vec<u32> {
    let n = flow.len();
    // How much a step's own branch adds while it runs, roughly: its costs on an empty block.
    let empty = flow.start();
    let mut weight: Vec<u64> = (0..n as u32).map(|s| flow.cost(&empty, s).adds).collect();
    for s in 0..n {
        let most = flow.before[s].iter().map(|b| weight[*b as usize]).max().unwrap_or(0);
        weight[s] = weight[s].max(most);
    }
    let mut order = Vec::with_capacity(n);
    let mut seen = vec![false; n];
    let sinks = (0..n as u32).filter(|s| flow.after[*s as usize].is_empty());
    for sink in sinks {
        let mut stack = vec![(sink, false)];
        while let Some((step, expanded)) = stack.pop() {
            if expanded {
                order.push(step);
                continue;
            }
            if std::mem::replace(&mut seen[step as usize], true) {
                continue;
            }
            stack.push((step, true));
            let mut before = flow.before[step as usize].clone();
            // The heaviest is popped first.
            before.sort_by_key(|b| (weight[*b as usize], std::cmp::Reverse(*b)));
            stack.extend(before.into_iter().map(|b| (b, false)));
        }
    }
    order
}

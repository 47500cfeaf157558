//! What was reserved for nodes against what their kernels declare once they are scheduled.

use super::Bound;
use crate::graph::{Graph, N};
use std::collections::BTreeMap;

/// What a scheduled node declares.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The node.
    pub node: N,
    /// The primitive.
    pub primitive: &'static str,
    /// What its kernel needs at most.
    pub bound: Bound,
}

/// How many nodes, and how many bytes that is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Nodes.
    pub nodes: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.nodes += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Declarations by how they compare with reservations. Nodes with neither are none of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Declared more than was reserved: the bytes above it.
    pub larger: Count,
    /// Declared as much.
    pub equal: Count,
    /// Declared less: the bytes below it.
    pub smaller: Count,
    /// One of the two is missing: the bytes of the other.
    pub missing: Count,
    /// Reserved for a node that does not run: the bytes that were.
    pub orphan: Count,
}

/// The workspace of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The node's name.
    pub node: String,
    /// The primitive.
    pub primitive: &'static str,
    /// What was reserved (W); none: nothing.
    pub reserved: Option<Bound>,
    /// What it declares (C).
    pub declared: Option<Bound>,
}

/// What is known of the workspace of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspaces {
    /// Nodes that have some, in the graph's order.
    pub needs: Vec<Need>,
    /// How declarations compare with reservations.
    pub counts: Counts,
    /// What is wrong: a line for each node whose declaration is larger or missing, and for each orphan.
    pub findings: Vec<String>,
}

/// Holds what was declared against what was reserved.
pub fn compare(graph: &Graph, declared: &[Declared]) -> Workspaces {
    let mut found = Workspaces::default();
    let by_node: BTreeMap<N, &Declared> = declared.iter().map(|d| (d.node, d)).collect();
    let live = graph.live_nodes();
    for n in &live {
        let node = graph.node(*n);
        let declared = by_node.get(n);
        let (reserved, bound) = (node.reserved.clone(), declared.map(|d| d.bound.clone()));
        // A known zero, or a node that has no kernel: nothing to compare.
        let nothing = |b: &Option<Bound>| b.as_ref().is_none_or(Bound::is_zero);
        if nothing(&reserved) && nothing(&bound) {
            continue;
        }
        let primitive = declared.map_or("a node", |d| d.primitive);
        found.judge(&format!("{} ({primitive})", node.name), &reserved, &bound);
        found.needs.push(Need { node: node.name.clone(), primitive, reserved, declared: bound });
    }
    let mut runs = vec![false; graph.nodes().len()];
    live.iter().for_each(|n| runs[n.index()] = true);
    for (node, _) in graph.nodes().iter().zip(runs).filter(|(_, runs)| !runs) {
        let Some(reserved) = node.reserved.as_ref().filter(|r| !r.is_zero()) else { continue };
        found.counts.orphan.add(reserved.known().unwrap_or(0));
        found
            .findings
            .push(format!("{}: workspace of {reserved} bytes is reserved, but the node does not run", node.name));
    }
    found
}

impl Workspaces {
    /// Counts a node, and says what is wrong with it.
    fn judge(&mut self, node: &str, reserved: &Option<Bound>, declared: &Option<Bound>) {
        let counts = &mut self.counts;
        let finding = match (reserved, declared) {
            (Some(Bound::Known(r)), Some(Bound::Known(d))) if d > r => {
                counts.larger.add(d - r);
                format!("declares a workspace of {d} bytes, but {r} are reserved")
            }
            (Some(Bound::Known(r)), Some(Bound::Known(d))) if d == r => return counts.equal.add(*d),
            (Some(Bound::Known(r)), Some(Bound::Known(d))) => return counts.smaller.add(r - d),
            (None, Some(Bound::Known(d))) => {
                counts.missing.add(*d);
                format!("declares a workspace of {d} bytes, but none is reserved")
            }
            (Some(Bound::Unavailable(why)), Some(Bound::Known(d))) => {
                counts.missing.add(*d);
                format!("declares a workspace of {d} bytes, but what to reserve is not known: {why}")
            }
            (r, Some(Bound::Unavailable(why))) => {
                counts.missing.add(r.as_ref().and_then(Bound::known).unwrap_or(0));
                format!("its workspace is not known: {why}")
            }
            (r, None) => {
                counts.missing.add(r.as_ref().and_then(Bound::known).unwrap_or(0));
                "workspace is reserved, but its kernel declares none".to_owned()
            }
        };
        self.findings.push(format!("{node}: {finding}"));
    }

    /// The most that is reserved for a node (W): nodes run one after another.
    pub fn bound(&self) -> Bound {
        let all = self.needs.iter().filter_map(|n| n.reserved.clone());
        all.fold(Bound::Known(0), Bound::max)
    }
}

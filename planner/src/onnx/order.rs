//! Names and order: every value is made once, every name that is used is made, and nodes stand in
//! the order that their graph's outputs ask for.
//!
//! That order is told by names and operands alone, not by the order in the file: all that comes later
//! goes node by node, so files that differ only in the order of their nodes give the same plan.

use petgraph::algo::{astar, toposort};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{DfsPostOrder, VisitMap};
use std::collections::{BTreeMap, BTreeSet};

use super::error::{Error, Problems, quote};
use super::model::{Function, Graph, Node};

/// How many undefined names are looked up for a message.
const LOOKED_UP: usize = 50;
/// How many nodes of a cycle are named.
const NAMED: usize = 12;

/// Orders the model's own graph, where every name must be defined.
pub(crate) fn order_model(graph: &mut Graph, problems: &mut Problems) {
    let missing = order_graph(graph, problems);
    undefined(&missing, &graph.nodes, problems);
}

/// Orders a function's body, which sees nothing but its inputs.
pub(crate) fn order_function(function: &mut Function, problems: &mut Problems) {
    let Function { nodes, inputs, outputs, .. } = function;
    let missing = order_nodes(nodes, &*inputs, &*outputs, problems);
    undefined(&missing, nodes, problems);
}

/// Orders a graph and those in it; gives back the names that must come from around it.
fn order_graph(graph: &mut Graph, problems: &mut Problems) -> BTreeSet<String> {
    let Graph { nodes, inputs, outputs, initializers, .. } = graph;
    let constants: BTreeSet<&str> = initializers.iter().map(|tensor| tensor.name.as_str()).collect();
    inputs.retain(|input| !constants.contains(input.name.as_str()));
    let made = initializers.iter().map(|t| &t.name).chain(inputs.iter().map(|info| &info.name));
    order_nodes(nodes, made, outputs.iter().map(|info| &info.name), problems)
}

/// Orders `nodes`, where the names in `made` exist before the first of them.
fn order_nodes<'a>(
    nodes: &mut Vec<Node>,
    made: impl IntoIterator<Item = &'a String>,
    outputs: impl IntoIterator<Item = &'a String>,
    problems: &mut Problems,
) -> BTreeSet<String> {
    let captured: Vec<BTreeSet<String>> = nodes.iter_mut().map(|node| order_bodies(node, problems)).collect();
    let mut makers: BTreeMap<&str, Option<usize>> = BTreeMap::new();
    for name in made {
        if name.is_empty() {
            problems.push(Error::invalid("an input or initializer without a name"));
        } else if makers.insert(name, None).is_some() {
            problems.push(Error::invalid(format!("{} is defined twice among inputs and initializers", quote(name))));
        }
    }
    for (index, node) in nodes.iter().enumerate() {
        for name in node.outputs.iter().filter(|name| !name.is_empty()) {
            if makers.insert(name, Some(index)).is_some() {
                problems.push(
                    Error::invalid(format!("{} is defined twice", quote(name)))
                        .at_node(node.label())
                        .remedy("give each value its own name"),
                );
            }
        }
    }
    let mut missing = BTreeSet::new();
    let mut needs = Needs::with_capacity(nodes.len(), 2 * nodes.len());
    for _ in nodes.iter() {
        needs.add_node(());
    }
    for ((user, node), mut captured) in (0u32..).zip(nodes.iter()).zip(captured) {
        let mut made_elsewhere = |name: &str| match makers.get(name) {
            Some(Some(maker)) => {
                needs.add_edge(NodeIndex::from(user), NodeIndex::new(*maker), ());
                false
            }
            Some(None) => false,
            None => true,
        };
        for name in node.inputs.iter().filter(|name| !name.is_empty()) {
            if made_elsewhere(name) && !missing.contains(name) {
                missing.insert(name.clone());
            }
        }
        captured.retain(|name| made_elsewhere(name));
        merge(&mut missing, captured);
    }
    let mut wanted = Vec::new();
    for name in outputs {
        match makers.get(name.as_str()) {
            _ if name.is_empty() => problems.push(Error::invalid("a graph output without a name")),
            Some(maker) => wanted.extend(*maker),
            None => {
                missing.insert(name.clone());
            }
        }
    }
    drop(makers);
    match order(&needs, &wanted, nodes) {
        Ok(order) => permute(nodes, &order),
        Err(cycle) => problems.push(cycle_error(nodes, &cycle)),
    }
    missing
}

/// Orders the graphs in a node's attributes; gives back the names that they take from outside.
fn order_bodies(node: &mut Node, problems: &mut Problems) -> BTreeSet<String> {
    let mut captured = BTreeSet::new();
    let before = problems.listed();
    for attribute in node.attributes.values_mut() {
        for graph in attribute.graphs_mut() {
            merge(&mut captured, order_graph(graph, problems));
        }
    }
    if problems.listed() > before {
        problems.within(before, &format!("in {}", node.label()));
    }
    captured
}

/// Moves the names of the smaller set into the larger one, so that many levels stay cheap.
fn merge(into: &mut BTreeSet<String>, mut from: BTreeSet<String>) {
    if from.len() > into.len() {
        std::mem::swap(into, &mut from);
    }
    into.extend(from);
}

/// Which nodes make what each node reads: edges lead from a node to its operands' makers, in the order of the operands.
type Needs = DiGraph<(), ()>;

/// The order in which the outputs need the nodes: for each, first what it reads, operand by operand. Nodes that no output needs
/// come last, by the names of what they make. Else a cycle.
fn order(needs: &Needs, wanted: &[usize], nodes: &[Node]) -> Result<Vec<usize>, Vec<usize>> {
    if let Err(on_cycle) = toposort(needs, None) {
        return Err(cycle(needs, on_cycle.node_id()));
    }
    let mut walk = DfsPostOrder::empty(needs);
    let mut order = Vec::with_capacity(nodes.len());
    let mut from = |walk: &mut DfsPostOrder<_, _>, node: usize| {
        walk.move_to(NodeIndex::new(node));
        while let Some(next) = walk.next(needs) {
            order.push(next.index());
        }
    };
    wanted.iter().for_each(|node| from(&mut walk, *node));
    let unreached = |n: &NodeIndex| !walk.finished.is_visited(n);
    let mut idle: Vec<usize> = needs.node_indices().filter(unreached).map(NodeIndex::index).collect();
    idle.sort_by_key(|i| nodes.get(*i).map(|n| (&n.outputs, &n.op_type, &n.inputs)));
    idle.into_iter().for_each(|node| from(&mut walk, node));
    Ok(order)
}

/// A shortest cycle through a node that is on one: each node before those that use its results, first the first in the file.
fn cycle(needs: &Needs, on_cycle: NodeIndex) -> Vec<usize> {
    let ways = needs.neighbors(on_cycle).filter_map(|maker| astar(needs, maker, |n| n == on_cycle, |_| 1, |_| 0));
    let (_, way) = ways.min_by_key(|(length, _)| *length).unwrap_or_default();
    let mut nodes: Vec<usize> = way.into_iter().map(NodeIndex::index).rev().collect();
    let first = nodes.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(at, _)| at);
    nodes.rotate_left(first);
    nodes
}

fn cycle_error(nodes: &[Node], cycle: &[usize]) -> Error {
    let label = |index: &usize| nodes.get(*index).map(Node::label).unwrap_or_default();
    let mut labels: Vec<String> = cycle.iter().take(NAMED).map(label).collect();
    if cycle.len() > NAMED {
        labels.push(format!("{} more", cycle.len() - NAMED));
    }
    labels.extend(cycle.first().map(label));
    Error::invalid(format!("nodes form a cycle: {}", labels.join(" → ")))
        .remedy("a result that goes back into a graph needs `Loop` or `Scan`: export the model again")
}

fn permute(nodes: &mut Vec<Node>, order: &[usize]) {
    let mut old: Vec<Option<Node>> = std::mem::take(nodes).into_iter().map(Some).collect();
    nodes.extend(order.iter().filter_map(|index| old.get_mut(*index)?.take()));
}

/// Says of each name who uses it.
fn undefined(missing: &BTreeSet<String>, nodes: &[Node], problems: &mut Problems) {
    for (count, name) in missing.iter().enumerate() {
        let error = Error::invalid(format!("{} is used but nothing makes it", quote(name)));
        let user = if count < LOOKED_UP { user_of(name, nodes) } else { None };
        problems.push(match user {
            Some(label) => error.at_node(label),
            None => error,
        });
    }
}

fn user_of(name: &str, nodes: &[Node]) -> Option<String> {
    nodes.iter().find_map(|node| {
        if node.inputs.iter().any(|input| input == name) {
            return Some(node.label());
        }
        let mut bodies = node.attributes.iter().flat_map(|(_, value)| value.graphs());
        bodies.find_map(|body| user_of(name, &body.nodes).map(|label| format!("in {}: {label}", node.label())))
    })
}

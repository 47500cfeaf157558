//! Names and order: every value is made once, every name that is used is made, and nodes come after
//! those whose results they use.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

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
    let mut links: Vec<(usize, usize)> = Vec::new();
    for (index, (node, mut captured)) in nodes.iter().zip(captured).enumerate() {
        let mut made_elsewhere = |name: &str| match makers.get(name) {
            Some(Some(maker)) => {
                links.push((*maker, index));
                false
            }
            Some(None) => false,
            None => true,
        };
        captured.retain(|name| made_elsewhere(name));
        merge(&mut missing, captured);
        for name in node.inputs.iter().filter(|name| !name.is_empty()) {
            if made_elsewhere(name) && !missing.contains(name) {
                missing.insert(name.clone());
            }
        }
    }
    for name in outputs {
        if name.is_empty() {
            problems.push(Error::invalid("a graph output without a name"));
        } else if !makers.contains_key(name.as_str()) {
            missing.insert(name.clone());
        }
    }
    drop(makers);
    if links.iter().any(|(maker, user)| maker >= user) {
        match sorted(nodes.len(), &mut links) {
            Ok(order) => permute(nodes, &order),
            Err(cycle) => problems.push(cycle_error(nodes, &cycle)),
        }
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

/// A topological order that keeps to the given one wherever it can, or a cycle.
fn sorted(count: usize, links: &mut [(usize, usize)]) -> Result<Vec<usize>, Vec<usize>> {
    links.sort_unstable();
    let mut waits = vec![0usize; count];
    for (_, user) in links.iter() {
        if let Some(wait) = waits.get_mut(*user) {
            *wait += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        waits.iter().enumerate().filter(|(_, wait)| **wait == 0).map(|(i, _)| Reverse(i)).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        let start = links.partition_point(|(maker, _)| *maker < node);
        for (_, user) in links.iter().skip(start).take_while(|(maker, _)| *maker == node) {
            if let Some(wait) = waits.get_mut(*user) {
                *wait -= 1;
                if *wait == 0 {
                    ready.push(Reverse(*user));
                }
            }
        }
    }
    if order.len() == count { Ok(order) } else { Err(cycle(&waits, links)) }
}

/// Some cycle among the nodes that still wait, each node before those that use its results.
fn cycle(waits: &[usize], links: &[(usize, usize)]) -> Vec<usize> {
    // A node that waits has a maker that waits too, so going from maker to maker must come round.
    let waiting = |node: usize| waits.get(node).is_some_and(|wait| *wait > 0);
    let makers: BTreeMap<usize, usize> = links
        .iter()
        .filter(|(maker, user)| waiting(*maker) && waiting(*user))
        .map(|(maker, user)| (*user, *maker))
        .collect();
    let mut seen = BTreeMap::new();
    let mut path = Vec::new();
    let mut at = waits.iter().position(|wait| *wait > 0);
    while let Some(node) = at {
        if let Some(start) = seen.insert(node, path.len()) {
            path.drain(..start);
            break;
        }
        path.push(node);
        at = makers.get(&node).copied();
    }
    path.reverse();
    let first = path.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(at, _)| at);
    path.rotate_left(first);
    path
}

fn cycle_error(nodes: &[Node], cycle: &[usize]) -> Error {
    let label = |index: &usize| nodes.get(*index).map(Node::label).unwrap_or_default();
    let mut labels: Vec<String> = cycle.iter().take(NAMED).map(label).collect();
    if cycle.len() > NAMED {
        labels.push(format!("{} more", cycle.len() - NAMED));
    }
    labels.extend(cycle.first().map(label));
    Error::invalid(format!("nodes form a cycle: {}", labels.join(" → ")))
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

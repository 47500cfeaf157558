//! Names and order: every value is made once, every name that is used is made, and nodes stand in
//! the order that their graph's outputs ask for.
//!
//! That order is told by names and operands alone, not by the order in the file: all that comes later
//! goes node by node, so files that differ only in the order of their nodes give the same plan.

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
    let mut needs = Needs::default();
    for (node, mut captured) in nodes.iter().zip(captured) {
        let mut made_elsewhere = |name: &str| match makers.get(name) {
            Some(Some(maker)) => {
                needs.makers.push(*maker);
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
        needs.ends.push(needs.makers.len());
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
    match needs.order(&wanted, nodes) {
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

/// Which nodes make what each node reads.
#[derive(Default)]
struct Needs {
    /// The makers, node after node.
    makers: Vec<usize>,
    /// Where each node's makers end.
    ends: Vec<usize>,
}

impl Needs {
    /// The `k`th maker of what a node reads.
    fn maker(&self, node: usize, k: usize) -> Option<usize> {
        let start = node.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.makers.get(start..*self.ends.get(node)?)?.get(k).copied()
    }

    /// The order in which the outputs need the nodes: for each, first what it reads, operand by operand. Nodes that no
    /// output needs come last, by the names of what they make. Else a cycle.
    fn order(&self, wanted: &[usize], nodes: &[Node]) -> Result<Vec<usize>, Vec<usize>> {
        let mut walk =
            Walk { needs: self, states: vec![State::New; nodes.len()], order: Vec::with_capacity(nodes.len()) };
        for node in wanted {
            walk.from(*node)?;
        }
        let unreached = |(i, state): (usize, &State)| matches!(state, State::New).then_some(i);
        let mut idle: Vec<usize> = walk.states.iter().enumerate().filter_map(unreached).collect();
        idle.sort_by_key(|i| nodes.get(*i).map(|n| (&n.outputs, &n.op_type, &n.inputs)));
        for node in idle {
            walk.from(node)?;
        }
        Ok(walk.order)
    }
}

/// How far the walk is with a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

/// A walk over nodes, from results to what they are made of.
struct Walk<'n> {
    needs: &'n Needs,
    states: Vec<State>,
    order: Vec<usize>,
}

impl Walk<'_> {
    fn set(&mut self, node: usize, state: State) {
        if let Some(place) = self.states.get_mut(node) {
            *place = state;
        }
    }

    /// Adds a node and all that it needs; a cycle where there is one, each node before those that use its results.
    fn from(&mut self, node: usize) -> Result<(), Vec<usize>> {
        // Nodes on the way, with the number of the operand that is next. Models are deep: no recursion.
        let mut path = Vec::new();
        if self.states.get(node) == Some(&State::New) {
            self.set(node, State::Open);
            path.push((node, 0));
        }
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            let Some(maker) = self.needs.maker(node, *next) else {
                self.set(node, State::Done);
                self.order.push(node);
                path.pop();
                continue;
            };
            *next += 1;
            match self.states.get(maker) {
                Some(State::New) => {
                    self.set(maker, State::Open);
                    path.push((maker, 0));
                }
                Some(State::Open) => return Err(cycle(&path, maker)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The cycle that a path closes by coming back to `node`.
fn cycle(path: &[(usize, usize)], node: usize) -> Vec<usize> {
    let mut nodes: Vec<usize> = path.iter().map(|(n, _)| *n).skip_while(|n| *n != node).collect();
    nodes.reverse();
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

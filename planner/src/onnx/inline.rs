//! Expanding local functions into the nodes of their bodies.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::attribute::{Attribute, Attributes};
use super::cost::Meter;
use super::error::{Error, ErrorKind, quote};
use super::model::{Function, Graph, Model, Node, ValueInfo};

/// How deep functions may call one another.
const MAX_CALLS: usize = 32;

/// Replaces every call of a local function by the function's nodes, in the calls' bodies too.
///
/// Inner values get names that occur nowhere else, attributes that refer to the function's get the
/// caller's value, else the default, else they are left out. The result has no functions.
///
/// # Errors
/// If functions call themselves, are called with more inputs or outputs than they have or with an
/// attribute of another type, or if the result would be larger than a model of this size may be.
pub fn inline_functions(mut model: Model) -> Result<Model, Error> {
    if model.functions.is_empty() {
        return Ok(model);
    }
    let functions = std::mem::take(&mut model.functions);
    let index = functions.iter().enumerate().map(|(index, f)| (f.key(), index)).collect();
    let mut inliner = Inliner {
        functions: &functions,
        index,
        names: BTreeSet::new(),
        numbers: BTreeMap::new(),
        meter: model.meter,
        calls: Vec::new(),
        opset: model.opsets.get("").copied().unwrap_or(1),
    };
    inliner.note_names(&model.graph)?;
    inliner.graph(&mut model.graph)?;
    model.meter = inliner.meter;
    Ok(model)
}

struct Inliner<'a> {
    functions: &'a [Function],
    index: BTreeMap<(&'a str, &'a str, &'a str), usize>,
    /// Every name of a value so far.
    names: BTreeSet<String>,
    /// The last number that was added to a node's name to make it unique.
    numbers: BTreeMap<String, u64>,
    meter: Meter,
    /// The functions being expanded, outermost first.
    calls: Vec<usize>,
    opset: i64,
}

/// What the names and attributes of a function's body become at one call.
struct Call<'a, 'c> {
    function: &'a Function,
    caller: &'c Node,
    prefix: String,
    /// Names of the function's inputs and outputs, and what the caller gives for them.
    formals: BTreeMap<&'a str, String>,
    /// Names that the graphs around the current place define anew.
    shadows: Vec<BTreeSet<&'a str>>,
}

impl Call<'_, '_> {
    fn rename(&self, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let shadowed = self.shadows.iter().any(|names| names.contains(name));
        match self.formals.get(name) {
            Some(actual) if !shadowed => actual.clone(),
            _ => format!("{}{name}", self.prefix),
        }
    }
}

impl<'a> Inliner<'a> {
    fn note(&mut self, name: &str) -> Result<(), Error> {
        if !name.is_empty() && !self.names.contains(name) {
            self.meter.charge_text(name.len())?;
            self.names.insert(name.to_owned());
        }
        Ok(())
    }

    fn note_names(&mut self, graph: &Graph) -> Result<(), Error> {
        for name in defined(graph) {
            self.note(name)?;
        }
        for node in &graph.nodes {
            // Names of outer values are noted where they are defined.
            for body in node.attributes.iter().flat_map(|(_, value)| value.graphs()) {
                self.note_names(body)?;
            }
        }
        Ok(())
    }

    fn graph(&mut self, graph: &mut Graph) -> Result<(), Error> {
        let nodes = std::mem::take(&mut graph.nodes);
        graph.nodes = self.nodes(nodes)?;
        Ok(())
    }

    fn nodes(&mut self, nodes: Vec<Node>) -> Result<Vec<Node>, Error> {
        let mut expanded = Vec::with_capacity(nodes.len());
        for mut node in nodes {
            for attribute in node.attributes.values_mut() {
                for graph in attribute.graphs_mut() {
                    self.graph(graph)?;
                }
            }
            let key = (node.domain.as_str(), node.op_type.as_str(), node.overload.as_str());
            match self.index.get(&key).copied() {
                None => expanded.push(node),
                Some(index) => {
                    let nodes = self.call(&node, index).map_err(|e| e.at_node(node.label()))?;
                    expanded.extend(nodes);
                }
            }
        }
        Ok(expanded)
    }

    /// The nodes that a call stands for.
    fn call(&mut self, caller: &Node, index: usize) -> Result<Vec<Node>, Error> {
        let Some(function) = self.functions.get(index) else {
            return Ok(Vec::new());
        };
        if self.calls.contains(&index) || self.calls.len() >= MAX_CALLS {
            return Err(self.too_deep(function));
        }
        for (what, given, known) in [
            ("inputs", caller.inputs.len(), function.inputs.len()),
            ("outputs", caller.outputs.len(), function.outputs.len()),
        ] {
            if given > known {
                return Err(Error::invalid(format!("{given} {what} are given, but {} has {known}", function.label())));
            }
        }
        let mut call =
            Call { function, caller, prefix: self.prefix(caller)?, formals: BTreeMap::new(), shadows: Vec::new() };
        let copies = self.formals(&mut call)?;
        let mut nodes = Vec::with_capacity(function.nodes.len() + copies.len());
        for node in &function.nodes {
            nodes.push(self.node(node, &mut call)?);
        }
        nodes.extend(copies);
        self.calls.push(index);
        let nodes = self.nodes(nodes)?;
        self.calls.pop();
        Ok(nodes)
    }

    /// Says what inputs and outputs are called outside; gives back the nodes that copy a value which
    /// the function hands out under a second name.
    fn formals(&mut self, call: &mut Call<'a, '_>) -> Result<Vec<Node>, Error> {
        let (function, caller) = (call.function, call.caller);
        for (index, formal) in function.inputs.iter().enumerate() {
            let actual = caller.inputs.get(index).cloned().unwrap_or_default();
            self.meter.charge_text(actual.len())?;
            call.formals.insert(formal, actual);
        }
        let mut copies = Vec::new();
        for (formal, actual) in function.outputs.iter().zip(&caller.outputs) {
            if actual.is_empty() {
                continue;
            }
            self.meter.charge_text(actual.len())?;
            match call.formals.get(formal.as_str()) {
                None => {
                    call.formals.insert(formal, actual.clone());
                }
                Some(source) if source.is_empty() => {
                    return Err(Error::invalid(format!(
                        "output {} is the input {}, which is absent",
                        quote(actual),
                        quote(formal)
                    )));
                }
                Some(source) => {
                    self.meter.charge(size_of::<Node>() as u64)?;
                    copies.push(Node {
                        name: format!("{}{formal}", call.prefix),
                        op_type: "Identity".to_owned(),
                        opset: self.opset,
                        inputs: vec![source.clone()],
                        outputs: vec![actual.clone()],
                        ..Node::default()
                    });
                }
            }
        }
        Ok(copies)
    }

    /// Whether some name begins with this.
    fn taken(&self, prefix: &str) -> bool {
        let mut from = self.names.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.next().is_some_and(|name| name.starts_with(prefix))
    }

    /// A beginning that no name has yet, from the calling node's name.
    fn prefix(&mut self, caller: &Node) -> Result<String, Error> {
        let stem = if caller.name.is_empty() { &caller.op_type } else { &caller.name };
        let mut prefix = format!("{stem}/");
        while self.taken(&prefix) {
            self.meter.charge_text(stem.len())?;
            // Counting on from the last number keeps many calls of one name from taking quadratic time.
            let number = self.numbers.entry(stem.clone()).or_insert(1);
            *number += 1;
            prefix = format!("{stem}.{number}/");
        }
        // A function without inner names takes its prefix too: node names should differ as well.
        let mark = prefix.clone();
        self.note(&mark)?;
        Ok(prefix)
    }

    fn node(&mut self, node: &'a Node, call: &mut Call<'a, '_>) -> Result<Node, Error> {
        self.meter.charge(size_of::<Node>() as u64)?;
        let mut attributes = Vec::with_capacity(node.attributes.len());
        for (name, value) in node.attributes.iter() {
            let value =
                self.attribute(value, call).map_err(|error| error.within(format!("attribute {}", quote(name))))?;
            if let Some(value) = value {
                self.meter.charge_text(name.len() + size_of::<(String, Attribute)>())?;
                attributes.push((name.to_owned(), value));
            }
        }
        let name = if node.name.is_empty() { &node.op_type } else { &node.name };
        let result = Node {
            name: format!("{}{name}", call.prefix),
            op_type: node.op_type.clone(),
            domain: node.domain.clone(),
            overload: node.overload.clone(),
            opset: node.opset,
            inputs: node.inputs.iter().map(|name| call.rename(name)).collect(),
            outputs: node.outputs.iter().map(|name| call.rename(name)).collect(),
            attributes: Attributes::from_unsorted(attributes)?,
        };
        self.meter.charge(texts_cost(&result))?;
        for name in &result.outputs {
            self.note(name)?;
        }
        Ok(result)
    }

    /// What an attribute becomes; nothing if it refers to one that is not given.
    fn attribute(&mut self, value: &'a Attribute, call: &mut Call<'a, '_>) -> Result<Option<Attribute>, Error> {
        Ok(Some(match value {
            Attribute::Ref { name, kind } => {
                let given = call.caller.attributes.get(name);
                let Some(value) = given.or_else(|| call.function.defaults.get(name)) else {
                    return Ok(None);
                };
                if value.kind() != *kind {
                    return Err(Error::new(
                        ErrorKind::Attribute,
                        format!("{} of the call is of type {}, not {}", quote(name), value.kind().name(), kind.name()),
                    ));
                }
                self.meter.charge(attribute_cost(value))?;
                value.clone()
            }
            Attribute::Graph(graph) => Attribute::Graph(Box::new(self.body(graph, call)?)),
            Attribute::Graphs(graphs) => {
                let graphs = graphs.iter().map(|graph| self.body(graph, call));
                Attribute::Graphs(graphs.collect::<Result<_, _>>()?)
            }
            other => {
                self.meter.charge(attribute_cost(other))?;
                other.clone()
            }
        }))
    }

    /// A graph inside the function's body.
    fn body(&mut self, graph: &'a Graph, call: &mut Call<'a, '_>) -> Result<Graph, Error> {
        self.meter.charge(size_of::<Graph>() as u64)?;
        call.shadows.push(defined(graph).collect());
        let infos = |this: &mut Self, list: &[ValueInfo], call: &Call| {
            list.iter()
                .map(|info| {
                    let name = call.rename(&info.name);
                    this.meter.charge_text(name.len() + size_of::<ValueInfo>())?;
                    Ok(ValueInfo { name, ty: info.ty.clone() })
                })
                .collect::<Result<Vec<_>, Error>>()
        };
        let mut result = Graph {
            name: graph.name.clone(),
            nodes: Vec::with_capacity(graph.nodes.len()),
            inputs: infos(self, &graph.inputs, call)?,
            outputs: infos(self, &graph.outputs, call)?,
            initializers: Vec::with_capacity(graph.initializers.len()),
            value_infos: infos(self, &graph.value_infos, call)?,
        };
        for tensor in &graph.initializers {
            let mut tensor = tensor.clone();
            tensor.name = call.rename(&tensor.name);
            self.meter.charge_text(tensor.name.len() + 2 * size_of_val(&tensor))?;
            result.initializers.push(tensor);
        }
        for node in &graph.nodes {
            result.nodes.push(self.node(node, call)?);
        }
        call.shadows.pop();
        let names: Vec<String> = defined(&result).map(str::to_owned).collect();
        for name in &names {
            self.note(name)?;
        }
        Ok(result)
    }

    fn too_deep(&self, function: &Function) -> Error {
        let chain = self.calls.iter().filter_map(|index| self.functions.get(*index));
        let chain: Vec<String> = chain.chain([function]).map(|f| quote(&f.name)).collect();
        Error::invalid(format!("functions call themselves or are nested over {MAX_CALLS} deep: {}", chain.join(" → ")))
    }
}

/// The names that a graph defines itself.
fn defined(graph: &Graph) -> impl Iterator<Item = &str> {
    let nodes = graph.nodes.iter().flat_map(|node| &node.outputs);
    let inputs = graph.inputs.iter().map(|info| &info.name);
    let constants = graph.initializers.iter().map(|tensor| &tensor.name);
    inputs.chain(constants).chain(nodes).map(String::as_str).filter(|name| !name.is_empty())
}

fn text_cost(text: &str) -> u64 {
    (size_of::<String>() + text.len() + 96) as u64
}

fn texts_cost(node: &Node) -> u64 {
    let fixed = [&node.name, &node.op_type, &node.domain, &node.overload];
    fixed.into_iter().chain(&node.inputs).chain(&node.outputs).map(|text| text_cost(text)).sum()
}

/// What a copy of an attribute takes, with the graphs in it.
fn attribute_cost(value: &Attribute) -> u64 {
    const TENSOR: u64 = 512;
    let bytes = match value {
        Attribute::Floats(list) => list.len() as u64 * 4,
        Attribute::Ints(list) => list.len() as u64 * 8,
        Attribute::Strings(list) => list.len() as u64 * 32,
        Attribute::Tensors(list) => list.len() as u64 * TENSOR,
        Attribute::SparseTensors(list) => list.len() as u64 * 2 * TENSOR,
        Attribute::Types(list) => list.len() as u64 * TENSOR,
        Attribute::Graph(_) | Attribute::Graphs(_) => value.graphs().iter().map(graph_cost).sum(),
        _ => 0,
    };
    bytes.saturating_add(TENSOR)
}

fn graph_cost(graph: &Graph) -> u64 {
    let node = |node: &Node| {
        let attributes: u64 = node.attributes.iter().map(|(_, value)| attribute_cost(value)).sum();
        size_of::<Node>() as u64 + texts_cost(node) + attributes
    };
    let nodes: u64 = graph.nodes.iter().map(node).sum();
    let infos = graph.inputs.len() + graph.outputs.len() + graph.value_infos.len();
    nodes + (infos + graph.initializers.len()) as u64 * 512 + size_of::<Graph>() as u64
}

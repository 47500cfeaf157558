//! The rules that hold for every model, whatever its operators.

use std::collections::BTreeSet;

use super::attribute::Attribute;
use super::error::{Error, Problems, quote};
use super::model::{Function, Graph, Model, Node, OpsetMap};
use super::order::{order_function, order_model};
use super::read::{IR_VERSIONS, OPSETS};

/// Checks a model that was just decoded: gives each node its opset, drops inputs that are
/// initialisers, and puts nodes in order.
pub(crate) fn check(model: &mut Model) -> Result<(), Error> {
    versions(model)?;
    resolve(model)?;
    let mut problems = Problems::default();
    for function in &mut model.functions {
        let before = problems.listed();
        order_function(function, &mut problems);
        problems.within(before, &function.label());
    }
    order_model(&mut model.graph, &mut problems);
    Error::collected(problems)
}

fn versions(model: &Model) -> Result<(), Error> {
    let mut problems = Problems::default();
    if !IR_VERSIONS.contains(&model.ir_version) {
        let what = format!(
            "IR version {} is not among those supported, {} to {}",
            model.ir_version,
            IR_VERSIONS.start(),
            IR_VERSIONS.end()
        );
        problems.push(
            Error::unsupported(what).remedy("export the model again with a version of ONNX that writes one of these"),
        );
    }
    let functions = model.functions.iter().map(|f| (Some(f), &f.opsets));
    for (function, opsets) in std::iter::once((None, &model.opsets)).chain(functions) {
        let version = opsets.get("").filter(|version| !OPSETS.contains(version));
        if let Some(version) = version {
            let error = Error::unsupported(format!(
                "opset {version} is not among those supported, {} to {}",
                OPSETS.start(),
                OPSETS.end()
            ))
            .remedy("export the model again for a supported opset, or convert its version");
            problems.push(match function {
                Some(function) => error.within(function.label()),
                None => error,
            });
        }
    }
    Error::collected(problems)
}

/// Gives every node the version of its domain, and checks what concerns a node alone.
fn resolve(model: &mut Model) -> Result<(), Error> {
    let mut problems = Problems::default();
    let mut keys = BTreeSet::new();
    for function in &model.functions {
        if !keys.insert(function.key()) {
            problems.push(Error::invalid(format!("{} is defined twice", function.label())));
        }
    }
    let local: BTreeSet<String> = model.functions.iter().map(|f| f.domain.clone()).collect();
    for function in &mut model.functions {
        let Function { nodes, opsets, .. } = function;
        let scope = Scope { own: opsets, model: &model.opsets, local: &local, inside_function: true };
        let before = problems.listed();
        scope.nodes(nodes, &mut problems);
        problems.within(before, &function.label());
    }
    let scope = Scope { own: &model.opsets, model: &model.opsets, local: &local, inside_function: false };
    scope.nodes(&mut model.graph.nodes, &mut problems);
    Error::collected(problems)
}

/// The imports that hold for a list of nodes.
struct Scope<'a> {
    own: &'a OpsetMap,
    model: &'a OpsetMap,
    /// Domains of local functions, which need no import.
    local: &'a BTreeSet<String>,
    inside_function: bool,
}

impl Scope<'_> {
    fn nodes(&self, nodes: &mut [Node], problems: &mut Problems) {
        for node in nodes {
            self.node(node, problems);
            let Node { attributes, .. } = node;
            for attribute in attributes.values_mut() {
                for Graph { nodes, .. } in attribute.graphs_mut() {
                    self.nodes(nodes, problems);
                }
            }
        }
    }

    fn node(&self, node: &mut Node, problems: &mut Problems) {
        if node.op_type.is_empty() {
            problems.push(Error::invalid("a node without an operator").at_node(node.label()));
        }
        let imported = self.own.get(&node.domain).or_else(|| self.model.get(&node.domain));
        match imported {
            Some(version) => node.opset = *version,
            None if self.local.contains(&node.domain) => node.opset = 1,
            None => {
                let domain = if node.domain.is_empty() { "ai.onnx" } else { &node.domain };
                problems.push(
                    Error::invalid(format!("the model imports no opset of {}", quote(domain)))
                        .at_node(node.label())
                        .remedy("export the model again: nobody can tell which version of the operator is meant"),
                );
            }
        }
        if self.inside_function {
            return;
        }
        for (name, value) in node.attributes.iter() {
            if matches!(value, Attribute::Ref { .. }) {
                problems.push(
                    Error::invalid(format!(
                        "attribute {} refers to a function's attribute outside a function",
                        quote(name)
                    ))
                    .at_node(node.label()),
                );
            }
        }
    }
}

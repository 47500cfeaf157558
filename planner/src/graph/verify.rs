//! The graph's verifier: run after each pass in tests and debug builds.

use super::{B, Graph, Op, Source, V, View};
use std::collections::BTreeSet;

/// What is wrong with a graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the graph is broken at {node}: {what}")]
pub struct Broken {
    /// The node, by name and number.
    pub node: String,
    /// What is wrong.
    pub what: String,
}

impl Graph {
    /// Checks that every operand is defined before it is used, that types and counts fit, and that ids are in range.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(&self) -> Result<(), Broken> {
        let fail = |what: &str| Broken { node: "the graph".to_owned(), what: what.to_owned() };
        let mut defined: BTreeSet<V> = BTreeSet::new();
        for p in &self.inputs {
            if p.value.index() >= self.values.len() {
                return Err(fail("an input's value does not exist"));
            }
        }
        for (i, value) in self.values.iter().enumerate() {
            if matches!(value.source, Source::Input(_) | Source::Const(_)) {
                defined.insert(V(i as u32));
            }
            if value.dims.iter().any(|d| d.index() >= self.exprs.nodes().len()) {
                return Err(fail("a dim does not exist"));
            }
        }
        self.verify_block(Self::MAIN, &mut defined)?;
        for p in &self.outputs {
            if !defined.contains(&p.value) {
                return Err(fail(&format!("output {} is not defined", p.name)));
            }
        }
        Ok(())
    }

    fn verify_block(&self, b: B, defined: &mut BTreeSet<V>) -> Result<(), Broken> {
        let block =
            self.blocks.get(b.index()).ok_or_else(|| Broken { node: "a block".into(), what: "is missing".into() })?;
        for n in &block.nodes {
            let Some(node) = self.nodes.get(n.index()) else {
                return Err(Broken { node: format!("node {}", n.0), what: "does not exist".into() });
            };
            let fail = |what: String| Broken { node: format!("{} (node {})", node.name, n.0), what };
            for r in node.reads.iter().flatten() {
                if !defined.contains(r) {
                    return Err(fail(format!("reads value {} before it is defined", r.0)));
                }
            }
            match &node.op {
                Op::Prim(prim) => {
                    let t = prim.traits();
                    if node.reads.len() < t.reads.0 || node.reads.len() > t.reads.1 || node.writes.len() > t.writes.1 {
                        return Err(fail(format!("{} has {} reads", t.name, node.reads.len())));
                    }
                }
                Op::View(view) => self.verify_view(view, node).map_err(fail)?,
                Op::If { .. } => {}
                Op::Loop(l) => defined.extend(l.carried.iter().copied()),
            }
            for inner in Graph::blocks_of(&node.op) {
                let mut seen = defined.clone();
                self.verify_block(inner, &mut seen)?;
                for r in &self.blocks[inner.index()].results {
                    if !seen.contains(r) {
                        return Err(fail(format!("a body's result {} is not defined", r.0)));
                    }
                }
            }
            for (port, w) in node.writes.iter().enumerate() {
                let Some(w) = w else { continue };
                if self.values.get(w.index()).map(|v| v.source) != Some(Source::Node(*n, port as u32)) {
                    return Err(fail(format!("value {} does not name its writer", w.0)));
                }
                if !defined.insert(*w) {
                    return Err(fail(format!("value {} is written twice", w.0)));
                }
            }
        }
        Ok(())
    }

    fn verify_view(&self, view: &View, node: &super::Node) -> Result<(), String> {
        let (Some(Some(from)), Some(Some(to))) = (node.reads.first(), node.writes.first()) else {
            return Err("a view without operand or result".into());
        };
        let (from, to) = (self.value(*from), self.value(*to));
        if from.dtype != to.dtype {
            return Err("a view changes the type".into());
        }
        let fits = match view {
            View::Reshape => true,
            View::Permute(p) => p.len() == from.dims.len() && p.len() == to.dims.len(),
            View::Slice { start, .. } => start.len() == from.dims.len() && start.len() == to.dims.len(),
            View::Broadcast => from.dims.len() <= to.dims.len(),
        };
        if fits { Ok(()) } else { Err("a view's rank does not fit".into()) }
    }
}

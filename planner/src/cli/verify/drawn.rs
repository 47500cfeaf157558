//! Which results of a plan are drawn at random: the standard says nothing of their values, so only types and shapes can be compared.

use plan::{Action, BlockId, Expr, ExprId, Plan, Primitive, Step, SymbolId, ValueId, prim::RandomKind};
use std::collections::{BTreeMap, BTreeSet};

/// Names of outputs, and what draws them.
pub type Drawn = BTreeMap<String, &'static str>;

/// The outputs and states that depend on a primitive whose results are random, and what draws them.
///
/// Tensors that share memory count as one, so of an output that is a part of another one it may say too much, but not too little.
pub fn outputs(plan: &Plan) -> Drawn {
    let mut walk = Walk { plan, values: BTreeMap::new(), symbols: BTreeMap::new() };
    walk.block(BlockId(0), None);
    let outputs = plan.outputs.iter().map(|port| (&port.name, port.value));
    let states = plan.states.iter().map(|state| (&state.output, state.next));
    let drawn = |(name, value): (&String, ValueId)| Some((name.clone(), walk.value(value)?));
    outputs.chain(states).filter_map(drawn).collect()
}

/// The operator that a random primitive stands for.
fn operator(prim: &Primitive<ExprId>) -> Option<&'static str> {
    let traits = prim.traits();
    traits.random.then_some(match prim {
        Primitive::Random(random) => match random.kind {
            RandomKind::Uniform { .. } => "RandomUniform",
            RandomKind::Normal { .. } => "RandomNormal",
            RandomKind::Bernoulli => "Bernoulli",
            RandomKind::Multinomial => "Multinomial",
        },
        _ => traits.name,
    })
}

/// What was found so far to be random, and what draws it.
struct Walk<'p> {
    plan: &'p Plan,
    /// By the tensor whose memory it is.
    values: BTreeMap<ValueId, &'static str>,
    symbols: BTreeMap<SymbolId, &'static str>,
}

impl Walk<'_> {
    fn root(&self, v: ValueId) -> ValueId {
        self.plan.values.get(v.index()).and_then(|value| value.root).unwrap_or(v)
    }

    /// What draws a tensor or one of its dims.
    fn value(&self, v: ValueId) -> Option<&'static str> {
        let dims = || self.plan.values.get(v.index())?.dims.iter().find_map(|dim| self.expr(*dim));
        self.values.get(&self.root(v)).copied().or_else(dims)
    }

    /// What draws a symbol of an expression.
    fn expr(&self, e: ExprId) -> Option<&'static str> {
        let (mut left, mut seen) = (vec![e], BTreeSet::new());
        while let Some(e) = left.pop().filter(|_| !self.symbols.is_empty()) {
            let Some(expr) = self.plan.exprs.get(e.index()).filter(|_| seen.insert(e)) else { continue };
            if let Expr::Symbol(s) = expr
                && let Some(by) = self.symbols.get(s)
            {
                return Some(by);
            }
            left.extend(expr.operands());
        }
        None
    }

    /// Walks a block that is run, or not, because of `cause`.
    fn block(&mut self, block: BlockId, cause: Option<&'static str>) {
        let plan = self.plan;
        for step in plan.blocks.get(block.index()).map_or(&[][..], |b| &b.steps) {
            self.step(step, cause);
        }
    }

    fn step(&mut self, step: &Step, cause: Option<&'static str>) {
        match &step.action {
            Action::Run { prim, reads, writes, defines, .. } => {
                let mut by = cause.or_else(|| operator(prim));
                by = by.or_else(|| reads.iter().flatten().find_map(|v| self.value(*v)));
                prim.map_extents(&mut |e| {
                    by = by.or_else(|| self.expr(e));
                    e
                });
                let Some(by) = by else { return };
                self.values.extend(writes.iter().flatten().map(|v| (self.root(*v), by)).collect::<Vec<_>>());
                self.symbols.extend(defines.iter().map(|s| (*s, by)));
            }
            Action::If { cond, then_block, else_block } => {
                let cause = cause.or_else(|| self.value(*cond));
                self.block(*then_block, cause);
                self.block(*else_block, cause);
            }
            Action::Loop { trip, cond, counter, body, .. } => loop {
                // What an iteration leaves, the next one reads.
                let before = (self.values.len(), self.symbols.len());
                let cause = cause.or_else(|| [trip, cond].into_iter().flatten().find_map(|v| self.value(*v)));
                self.symbols.extend(cause.map(|by| (*counter, by)));
                self.block(*body, cause);
                if before == (self.values.len(), self.symbols.len()) {
                    break;
                }
            },
            Action::Define { symbol, value } => {
                if let Some(by) = cause.or_else(|| self.expr(*value)) {
                    self.symbols.insert(*symbol, by);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::{ElemType, Graph};
    use crate::ops::nets::{body, constant, floats, graph, info, int, node, planned};

    fn check(net: Graph, wanted: &[(&str, &str)]) {
        let found = outputs(&planned(net, &[]).plan);
        let found: Vec<(&str, &str)> = found.iter().map(|(name, by)| (name.as_str(), *by)).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_reads_a_draw_is_drawn() {
        let nodes = vec![
            node("RandomNormalLike", &["x"], &["r"], &[]),
            node("Add", &["r", "x"], &["sum"], &[]),
            node("Transpose", &["sum"], &["turned"], &[]),
            node("Relu", &["x"], &["plain"], &[]),
            node("Shape", &["sum"], &["shape"], &[]),
        ];
        let net = graph(vec![floats("x", "3 2")], vec![], nodes, &["turned", "plain", "shape"]);
        check(net, &[("turned", "RandomNormal")]);
    }

    #[test]
    fn branches_draw_or_are_drawn() {
        let draws = graph(vec![], vec![], vec![node("Bernoulli", &["x"], &["a"], &[])], &["a"]);
        let not = |name| graph(vec![], vec![], vec![node("Neg", &["x"], &[name], &[])], &[name]);
        let branches = |a, b| [("then_branch", body(a)), ("else_branch", body(b))];
        let inputs = vec![info("cond", ElemType::Bool, ""), floats("x", "4")];
        let nodes = vec![
            node("If", &["cond"], &["y"], &branches(draws, not("b"))),
            node("If", &["cond"], &["z"], &branches(not("c"), not("d"))),
            node("ReduceSum", &["y"], &["sum"], &[("keepdims", int(0))]),
            node("Cast", &["sum"], &["luck"], &[("to", int(9))]),
            node("If", &["luck"], &["w"], &branches(not("e"), not("f"))),
        ];
        check(graph(inputs, vec![], nodes, &["y", "z", "w"]), &[("w", "Bernoulli"), ("y", "Bernoulli")]);
    }

    #[test]
    fn an_iteration_reads_what_the_one_before_left() {
        let inputs = vec![info("i", ElemType::Int64, ""), info("go", ElemType::Bool, "")];
        let carried = ["a", "b", "c"].map(|name| floats(name, "4"));
        let nodes = vec![
            node("Identity", &["go"], &["on"], &[]),
            node("Abs", &["b"], &["a2"], &[]),
            node("RandomUniformLike", &["c"], &["b2"], &[]),
            node("Neg", &["c"], &["c2"], &[]),
        ];
        let inner = graph(inputs.into_iter().chain(carried).collect(), vec![], nodes, &["on", "a2", "b2", "c2"]);
        let outer = vec![node("Loop", &["trip", "", "x", "x", "x"], &["p", "q", "r"], &[("body", body(inner))])];
        let net = graph(vec![floats("x", "4")], vec![constant("trip", &[], &[3])], outer, &["p", "q", "r"]);
        check(net, &[("p", "RandomUniform"), ("q", "RandomUniform")]);
    }

    #[test]
    fn extents_are_drawn_too() {
        let nodes = vec![
            node("Bernoulli", &["x"], &["r"], &[]),
            node("NonZero", &["r"], &["places"], &[]),
            node("Shape", &["places"], &["shape"], &[]),
        ];
        check(graph(vec![floats("x", "4")], vec![], nodes, &["shape"]), &[("shape", "Bernoulli")]);
    }
}

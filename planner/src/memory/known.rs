//! Which extents are known when the eager executor takes a buffer.

use super::{
    exprs::Exprs,
    tree::{Tree, bodies},
};
use plan::{Action, Expr, ExprId, Plan, Step, SymbolId};
use std::collections::BTreeSet;

/// Gives every buffer whose bytes are not known when it is taken the bytes of its maximum.
pub fn settle(plan: &mut Plan, tree: &Tree) {
    let mut exprs = Exprs::new(plan);
    let defined = definitions(plan, tree);
    for b in 0..plan.buffers.len() {
        let buffer = &plan.buffers[b];
        let Some(eager) = buffer.eager else { continue };
        if !exprs.is_found(buffer.bytes) {
            continue;
        }
        let symbols = found_symbols(plan, &exprs, buffer.bytes);
        let known = |s: &SymbolId| {
            let defs = defined.get(s.index()).map_or(&[][..], |d| d);
            defs.iter().any(|d| d.is_before(tree, eager.block.0, eager.alloc))
        };
        if !symbols.iter().all(known) {
            let most = i64::try_from(buffer.max_bytes).unwrap_or(i64::MAX);
            let bytes = exprs.number(plan, most);
            plan.buffers[b].bytes = bytes;
        }
    }
}

/// Where a symbol gets its value: after a step; none: when the block begins.
struct Definition {
    block: u32,
    step: Option<u32>,
}

impl Definition {
    fn is_before(&self, tree: &Tree, block: u32, step: u32) -> bool {
        let step = if self.block == block { Some(step) } else { tree.step_in(self.block, block) };
        step.is_some_and(|s| self.step.is_none_or(|d| d < s))
    }
}

fn definitions(plan: &Plan, tree: &Tree) -> Vec<Vec<Definition>> {
    let mut all: Vec<Vec<Definition>> = plan.symbols.iter().map(|_| Vec::new()).collect();
    // What each block defines for certain, children first.
    let mut certain: Vec<BTreeSet<SymbolId>> = vec![BTreeSet::new(); plan.blocks.len()];
    for &b in tree.order.iter().rev() {
        let Some(block) = plan.blocks.get(b as usize) else { continue };
        for (i, step) in block.steps.iter().enumerate() {
            for s in defines(step, &certain) {
                if let Some(list) = all.get_mut(s.index()) {
                    list.push(Definition { block: b, step: Some(i as u32) });
                }
                certain[b as usize].insert(s);
            }
            if let Action::Loop { counter, body, .. } = step.action
                && let Some(list) = all.get_mut(counter.index())
            {
                list.push(Definition { block: body.0, step: None });
            }
        }
    }
    all
}

/// The symbols that have a value after a step, whichever way it goes.
fn defines(step: &Step, certain: &[BTreeSet<SymbolId>]) -> Vec<SymbolId> {
    match &step.action {
        Action::Run { defines, .. } => defines.clone(),
        Action::Define { symbol, .. } => vec![*symbol],
        Action::Loop { counter, .. } => vec![*counter],
        Action::If { .. } => {
            let [yes, no] = bodies(step).map(|b| b.and_then(|b| certain.get(b.index())));
            match (yes, no) {
                (Some(yes), Some(no)) => yes.intersection(no).copied().collect(),
                _ => Vec::new(),
            }
        }
    }
}

/// The symbols in an expression that only a step of the run defines.
pub fn found_symbols(plan: &Plan, exprs: &Exprs, e: ExprId) -> BTreeSet<SymbolId> {
    let (mut seen, mut open, mut symbols) = (BTreeSet::new(), vec![e], BTreeSet::new());
    while let Some(e) = open.pop() {
        if !exprs.is_found(e) || !seen.insert(e) {
            continue;
        }
        match plan.exprs.get(e.index()) {
            Some(Expr::Symbol(s)) => {
                symbols.insert(*s);
            }
            Some(other) => open.extend(other.operands()),
            None => {}
        }
    }
    symbols
}

//! The graph's text form, for people and tests: a line per node.

use super::{B, Graph, Op, V, View};
use std::fmt::Write;

impl Graph {
    /// The graph as text. Equal graphs give equal text.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for p in &self.inputs {
            let _ = writeln!(out, "input {} = {}", self.show(p.value), p.name);
        }
        self.block_text(Self::MAIN, 0, &mut out);
        for p in &self.outputs {
            let _ = writeln!(out, "output {} = {}", p.name, self.short(p.value));
        }
        for g in &self.guards {
            let (l, r) = (self.exprs.display(g.left), self.exprs.display(g.right));
            let _ = writeln!(out, "guard {l} {:?} {r}", g.relation);
        }
        out
    }

    fn short(&self, v: V) -> String {
        match self.constant_of(v) {
            Some(_) => match self.value(v).known.as_deref() {
                Some([one]) => self.exprs.display(*one),
                _ => format!("const {}{}", self.value(v).dtype, self.exprs.display_dims(&self.value(v).dims)),
            },
            None => format!("%{}", v.0),
        }
    }

    fn show(&self, v: V) -> String {
        let value = self.value(v);
        format!("%{}: {}{}", v.0, value.dtype, self.exprs.display_dims(&value.dims))
    }

    fn block_text(&self, b: B, depth: usize, out: &mut String) {
        let indent = "  ".repeat(depth);
        for n in &self.blocks[b.index()].nodes {
            let node = self.node(*n);
            let writes: Vec<String> = node.writes.iter().map(|w| w.map_or("_".into(), |w| self.show(w))).collect();
            let reads: Vec<String> = node.reads.iter().map(|r| r.map_or("_".into(), |r| self.short(r))).collect();
            let what = match &node.op {
                Op::Prim(p) => format!("{:?}", p.map_extents(&mut |e| self.exprs.as_const(e).unwrap_or(i64::MIN))),
                Op::View(View::Permute(p)) => format!("Permute{p:?}"),
                Op::View(View::Slice { start, step }) => format!("Slice{}{step:?}", self.exprs.display_dims(start)),
                Op::View(v) => format!("{v:?}"),
                Op::If { .. } => "If".to_owned(),
                Op::Loop(_) => "Loop".to_owned(),
            };
            let _ = writeln!(out, "{indent}{} = {what} {}", writes.join(", "), reads.join(", "));
            for inner in Graph::blocks_of(&node.op) {
                let _ = writeln!(out, "{indent}  {{");
                self.block_text(inner, depth + 2, out);
                let results: Vec<String> = self.blocks[inner.index()].results.iter().map(|r| self.short(*r)).collect();
                let _ = writeln!(out, "{indent}  }} {}", results.join(", "));
            }
        }
    }
}

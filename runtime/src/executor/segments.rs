//! Which steps a device graph may record, and why not the others.

use core::ops::Range;
use plan::{Action, Block, Capture, Expr, ExprId, Plan, Step, SymbolId, SymbolKind, ValueId};

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Steps of the model's own block that are recorded together.
    Segment {
        /// Which.
        steps: Range<usize>,
    },
    /// A step between segments, which every run does itself, with all that lies in it.
    Seam {
        /// Which.
        step: usize,
        /// The node that it comes from.
        name: String,
        /// Why it is not recorded.
        reason: String,
    },
}

/// The pieces of a plan, in order.
pub(super) fn pieces(plan: &Plan) -> Vec<Piece> {
    let told = Told::new(plan);
    let mut pieces = Vec::new();
    let steps = plan.blocks.first().map_or(&[][..], |b: &Block| &b.steps);
    for (i, step) in steps.iter().enumerate() {
        match (told.reason(plan, step), pieces.last_mut()) {
            (Some(reason), _) => pieces.push(Piece::Seam { step: i, name: step.name.clone(), reason }),
            (None, Some(Piece::Segment { steps })) => steps.end = i + 1,
            (None, _) => pieces.push(Piece::Segment { steps: i..i + 1 }),
        }
    }
    pieces
}

/// For each expression a symbol in it that only the run tells.
pub(super) struct Told(Vec<Option<SymbolId>>);

impl Told {
    pub(super) fn new(plan: &Plan) -> Told {
        let mut told: Vec<Option<SymbolId>> = Vec::with_capacity(plan.exprs.len());
        for expr in &plan.exprs {
            let found = match expr {
                Expr::Symbol(s) => {
                    plan.symbols.get(s.index()).filter(|s| matches!(s.kind, SymbolKind::Run {})).map(|_| *s)
                }
                _ => expr.operands().find_map(|e| told.get(e.index()).copied().flatten()),
            };
            told.push(found);
        }
        Told(told)
    }

    fn expr(&self, e: ExprId) -> Option<SymbolId> {
        self.0.get(e.index()).copied().flatten()
    }

    /// A symbol that only the run tells, and that a tensor's place or extents depend on.
    pub(super) fn value(&self, plan: &Plan, value: ValueId) -> Option<SymbolId> {
        let value = plan.values.get(value.index())?;
        let strides = value.place.strides.as_ref().map_or(&[][..], |s| s);
        let mut parts = value.dims.iter().chain(strides).chain(core::iter::once(&value.place.offset));
        parts.find_map(|e| self.expr(*e))
    }

    /// Why a step may not be recorded. What the plan says is not enough: what the run itself tells would be recorded as it
    /// was once.
    fn reason(&self, plan: &Plan, step: &Step) -> Option<String> {
        if let Capture::Seam { reason } = &step.capture {
            return Some(reason.clone());
        }
        let (prim, reads, writes, workspace, defines) = match &step.action {
            Action::Run { prim, reads, writes, workspace, defines } => (prim, reads, writes, workspace, defines),
            Action::If { .. } => return Some("a branch that the data chooses".to_owned()),
            Action::Loop { .. } => return Some("a loop that the data may end".to_owned()),
            Action::Define { .. } => return Some("an extent that only the run can tell".to_owned()),
        };
        if !defines.is_empty() {
            return Some("an extent that only the data can tell".to_owned());
        }
        let mut found = reads.iter().chain(writes).flatten().find_map(|v| self.value(plan, *v));
        let scratch = workspace.and_then(|w| plan.buffers.get(w.index()));
        found = found.or_else(|| scratch.and_then(|b| self.expr(b.bytes)));
        prim.map_extents(&mut |e| {
            found = found.or_else(|| self.expr(e));
            0i64
        });
        let name = plan.symbols.get(found?.index()).map_or("", |s| s.name.as_str());
        Some(format!("its extents depend on `{name}`, which only the run tells"))
    }
}

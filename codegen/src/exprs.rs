//! Symbols and expressions as the fields of `Sizes`, and the functions that compute them.

use crate::{
    layout::Lines,
    names::{Namer, quoted},
};
use plan::{Expr, ExprId, Plan, SymbolId, SymbolKind};
use std::collections::BTreeSet;

/// Expressions deeper than this get a field of their own.
const INLINE_DEPTH: usize = 3;
/// Assignments in one function.
const CHUNK: usize = 48;

/// How the generated code computes each expression.
#[derive(Debug)]
pub(crate) struct Exprs<'p> {
    plan: &'p Plan,
    constants: Vec<Option<i64>>,
    /// The field that holds an expression.
    fields: Vec<Option<String>>,
    symbols: Vec<String>,
    /// Which symbols have a field.
    kept: Vec<bool>,
    /// For each expression, the symbols defined by steps that it depends on.
    run: Vec<BTreeSet<u32>>,
}

impl<'p> Exprs<'p> {
    /// `roots` are the expressions that steps, tensors and checks use.
    pub(crate) fn new(plan: &'p Plan, roots: &BTreeSet<ExprId>) -> Exprs<'p> {
        let constants = plan::evaluate_all(&plan.exprs, |_| None);
        let mut namer = Namer::default();
        let symbols = plan.symbols.iter().map(|s| namer.fresh(&s.name)).collect();
        let mut run: Vec<BTreeSet<u32>> = Vec::with_capacity(plan.exprs.len());
        for expr in &plan.exprs {
            let mut set = BTreeSet::new();
            if let Expr::Symbol(s) = expr
                && plan.symbols.get(s.index()).is_some_and(|s| matches!(s.kind, SymbolKind::Run {}))
            {
                set.insert(s.0);
            }
            for operand in expr.operands() {
                set.extend(run.get(operand.index()).into_iter().flatten());
            }
            run.push(set);
        }
        let mut exprs = Exprs { plan, constants, fields: vec![None; plan.exprs.len()], symbols, kept: Vec::new(), run };
        exprs.choose_fields(roots, &mut namer);
        exprs
    }

    /// Gives a field to what is used from outside, used twice, or deep.
    fn choose_fields(&mut self, roots: &BTreeSet<ExprId>, namer: &mut Namer) {
        let count = self.plan.exprs.len();
        let mut uses = vec![0usize; count];
        let mut depth = vec![0usize; count];
        let mut needed = vec![false; count];
        for root in roots {
            if let (Some(n), Some(u)) = (needed.get_mut(root.index()), uses.get_mut(root.index())) {
                *n = true;
                *u += 2;
            }
        }
        for (i, expr) in self.plan.exprs.iter().enumerate().rev() {
            if needed.get(i) != Some(&true) || self.constants.get(i).copied().flatten().is_some() {
                continue;
            }
            for operand in expr.operands() {
                if let (Some(n), Some(u)) = (needed.get_mut(operand.index()), uses.get_mut(operand.index())) {
                    *n = true;
                    *u += 1;
                }
            }
        }
        // What steps define has a field in any case; a dim only where something depends on it.
        self.kept = self.plan.symbols.iter().map(|s| matches!(s.kind, SymbolKind::Run {})).collect();
        for (expr, needed) in self.plan.exprs.iter().zip(&needed) {
            if let (Expr::Symbol(s), true) = (expr, needed)
                && let Some(kept) = self.kept.get_mut(s.index())
            {
                *kept = true;
            }
        }
        for (i, expr) in self.plan.exprs.iter().enumerate() {
            let known = self.constants.get(i).copied().flatten().is_some();
            if needed.get(i) != Some(&true) || known || matches!(expr, Expr::Symbol(_)) {
                continue;
            }
            let deep = expr.operands().filter_map(|o| depth.get(o.index())).max().copied().unwrap_or(0) + 1;
            if uses.get(i).copied().unwrap_or(0) >= 2 || deep > INLINE_DEPTH {
                if let Some(field) = self.fields.get_mut(i) {
                    *field = Some(namer.fresh(&format!("e{i}")));
                }
            } else if let Some(place) = depth.get_mut(i) {
                *place = deep;
            }
        }
    }

    /// Whether anything has to be computed at run time.
    pub(crate) fn is_dynamic(&self) -> bool {
        self.kept.contains(&true) || self.fields.iter().any(Option::is_some)
    }

    /// An expression's value where it does not depend on the run.
    pub(crate) fn constant(&self, e: ExprId) -> Option<i64> {
        self.constants.get(e.index()).copied().flatten()
    }

    /// The values of several expressions where none depends on the run.
    pub(crate) fn constants<'e>(&self, list: impl IntoIterator<Item = &'e ExprId>) -> Option<Vec<i64>> {
        list.into_iter().map(|e| self.constant(*e)).collect()
    }

    /// Whether anything depends on a symbol.
    pub(crate) fn is_kept(&self, symbol: SymbolId) -> bool {
        self.kept.get(symbol.index()) == Some(&true)
    }

    /// The field of a symbol.
    pub(crate) fn symbol(&self, symbol: SymbolId) -> &str {
        self.symbols.get(symbol.index()).map_or("unknown", |s| s)
    }

    /// An expression as an `i64`, in a function that has `sizes`.
    pub(crate) fn integer(&self, e: ExprId) -> String {
        match self.constant(e) {
            Some(value) => value.to_string(),
            None => format!("{}.get()?", self.within(e, "sizes", true)),
        }
    }

    /// An expression as a `Size` of which a method can be called, in a function that has `sizes`.
    pub(crate) fn operand(&self, e: ExprId) -> String {
        self.within(e, "sizes", true)
    }

    /// An expression as a `Size`, in a function that has `sizes`.
    pub(crate) fn size(&self, e: ExprId) -> String {
        self.text(e, "sizes")
    }

    /// An expression as a `Size`, where the fields belong to `owner`.
    pub(crate) fn text(&self, e: ExprId, owner: &str) -> String {
        self.within(e, owner, false)
    }

    fn within(&self, e: ExprId, owner: &str, nested: bool) -> String {
        if let Some(value) = self.constant(e) {
            return format!("n({value})");
        }
        if let Some(Some(field)) = self.fields.get(e.index()) {
            return format!("{owner}.{field}");
        }
        self.formula(e, owner, nested)
    }

    /// An expression spelt out.
    fn formula(&self, e: ExprId, owner: &str, nested: bool) -> String {
        let side = |e: ExprId| self.within(e, owner, true);
        let plain = |e: ExprId| self.within(e, owner, false);
        let infix = |a: ExprId, op: &str, b: ExprId| {
            let right = self.constant(b).map_or_else(|| side(b), |v| v.to_string());
            let text = format!("{} {op} {right}", side(a));
            if nested { format!("({text})") } else { text }
        };
        let call = |a: ExprId, method: &str, b: ExprId| format!("{}.{method}({})", side(a), plain(b));
        match self.plan.exprs.get(e.index()) {
            None => String::from("rt::Size::UNKNOWN"),
            Some(expr) => match *expr {
                Expr::Const(v) => format!("n({v})"),
                Expr::Symbol(s) => format!("{owner}.{}", self.symbol(s)),
                Expr::Add(a, b) => infix(a, "+", b),
                Expr::Sub(a, b) => infix(a, "-", b),
                Expr::Mul(a, b) => infix(a, "*", b),
                Expr::FloorDiv(a, b) => call(a, "floor_div", b),
                Expr::CeilDiv(a, b) => call(a, "ceil_div", b),
                Expr::Mod(a, b) => call(a, "modulo", b),
                Expr::Min(a, b) => call(a, "min", b),
                Expr::Max(a, b) => call(a, "max", b),
                Expr::Eq(a, b) => call(a, "equal", b),
                Expr::Lt(a, b) => call(a, "less", b),
                Expr::Select(a, b, c) => format!("{}.select({}, {})", side(a), plain(b), plain(c)),
            },
        }
    }

    /// An expression as people write it.
    pub(crate) fn human(&self, e: ExprId) -> String {
        self.human_at(e, 0)
    }

    fn human_at(&self, e: ExprId, depth: usize) -> String {
        if let Some(value) = self.constant(e) {
            return value.to_string();
        }
        if depth > 5 {
            return String::from("...");
        }
        let side = |e: ExprId| self.human_at(e, depth + 1);
        let infix = |a, op: &str, b| {
            let text = format!("{} {op} {}", side(a), side(b));
            if depth > 0 { format!("({text})") } else { text }
        };
        match self.plan.exprs.get(e.index()) {
            None => String::from("?"),
            Some(expr) => match *expr {
                Expr::Const(v) => v.to_string(),
                Expr::Symbol(s) => self
                    .plan
                    .symbols
                    .get(s.index())
                    .map_or_else(|| String::from("?"), |s| crate::names::comment(&s.name)),
                Expr::Add(a, b) => infix(a, "+", b),
                Expr::Sub(a, b) => infix(a, "-", b),
                Expr::Mul(a, b) => infix(a, "*", b),
                Expr::FloorDiv(a, b) => infix(a, "/", b),
                Expr::CeilDiv(a, b) => format!("ceil({} / {})", side(a), side(b)),
                Expr::Mod(a, b) => infix(a, "%", b),
                Expr::Min(a, b) => format!("min({}, {})", side(a), side(b)),
                Expr::Max(a, b) => format!("max({}, {})", side(a), side(b)),
                Expr::Eq(a, b) => infix(a, "==", b),
                Expr::Lt(a, b) => infix(a, "<", b),
                Expr::Select(a, b, c) => format!("if {} {{ {} }} else {{ {} }}", side(a), side(b), side(c)),
            },
        }
    }

    /// `struct Sizes` and what computes its fields.
    pub(crate) fn emit(&self, out: &mut Lines) {
        out.line("/// The extents of a run.");
        out.line("#[derive(Clone, Copy, Default)]");
        out.open("struct Sizes {");
        let symbols = self.symbols.iter().zip(&self.kept).filter_map(|(name, kept)| kept.then_some(name));
        for name in symbols.chain(self.fields.iter().flatten()) {
            out.line(&format!("{name}: rt::Size,"));
        }
        out.close("}");
        out.line("");
        let at_entry: Vec<String> = self.assignments(|deps| deps.is_empty());
        let setters: Vec<usize> = (0..self.plan.symbols.len()).filter(|i| self.is_run(*i)).collect();
        if at_entry.is_empty() && setters.is_empty() {
            return;
        }
        out.open("impl Sizes {");
        self.emit_entry(out, &at_entry);
        for i in setters {
            self.emit_setter(out, i);
        }
        out.close("}");
        out.line("");
    }

    /// Whether `enter` exists.
    pub(crate) fn has_entry(&self) -> bool {
        !self.assignments(|deps| deps.is_empty()).is_empty()
    }

    fn is_run(&self, symbol: usize) -> bool {
        self.plan.symbols.get(symbol).is_some_and(|s| matches!(s.kind, SymbolKind::Run {}))
    }

    fn assignments(&self, wanted: impl Fn(&BTreeSet<u32>) -> bool) -> Vec<String> {
        let mut list = Vec::new();
        for (i, (field, deps)) in (0u32..).zip(self.fields.iter().zip(&self.run)) {
            if let Some(field) = field
                && wanted(deps)
            {
                list.push(format!("self.{field} = {};", self.formula(ExprId(i), "self", false)));
            }
        }
        list
    }

    fn emit_entry(&self, out: &mut Lines, assignments: &[String]) {
        if assignments.is_empty() {
            return;
        }
        let chunks: Vec<&[String]> = assignments.chunks(CHUNK).collect();
        out.line("/// What follows from the dims of the inputs.");
        out.open("fn enter(&mut self) {");
        if chunks.len() == 1 {
            assignments.iter().for_each(|a| out.line(a));
            return out.close("}");
        }
        for k in 1..=chunks.len() {
            out.line(&format!("self.enter_{k}();"));
        }
        out.close("}");
        for (k, chunk) in (1..).zip(chunks) {
            out.line("");
            out.open(&format!("fn enter_{k}(&mut self) {{"));
            chunk.iter().for_each(|a| out.line(a));
            out.close("}");
        }
    }

    fn emit_setter(&self, out: &mut Lines, index: usize) {
        let (Some(symbol), Ok(id)) = (self.plan.symbols.get(index), u32::try_from(index)) else { return };
        let name = self.symbol(SymbolId(id));
        out.line(&format!(
            "/// `{}`, which a step finds, and what follows from it.",
            crate::names::comment(&symbol.name)
        ));
        out.open(&format!("fn set_{name}(&mut self, value: i64) -> Result<(), Fault> {{"));
        out.line(&format!("self.{name} = rt::found(value, {}, {})?;", symbol.lo, symbol.hi));
        self.assignments(|deps| deps.contains(&id)).iter().for_each(|a| out.line(a));
        out.line("Ok(())");
        out.close("}");
    }

    /// The checks of the guards, in a function that has `sizes`.
    pub(crate) fn emit_guards(&self, out: &mut Lines) {
        for guard in &self.plan.guards {
            let check = match guard.relation {
                plan::Relation::Equal => "guard_equal",
                plan::Relation::LessOrEqual => "guard_at_most",
            };
            let (left, right) = (self.size(guard.left), self.size(guard.right));
            out.line(&format!("rt::{check}({}, {left}, {right})?;", quoted(&guard.what)));
        }
    }
}

//! Parts of plans in words: extents, tensors, bytes.

use plan::{Class, Expr, ExprId, Plan, Relation, Value};

/// Deeper expressions are cut.
const DEPTH: usize = 8;

/// An expression over the symbols.
pub fn expr(plan: &Plan, id: ExprId) -> String {
    nested(plan, id, 0)
}

fn nested(plan: &Plan, id: ExprId, depth: usize) -> String {
    let Some(expr) = plan.exprs.get(id.index()) else { return "?".to_owned() };
    if depth > DEPTH {
        return "…".to_owned();
    }
    let side = |e: ExprId| nested(plan, e, depth + 1);
    let infix = |a, op: &str, b| {
        let text = format!("{} {op} {}", side(a), side(b));
        if depth > 0 { format!("({text})") } else { text }
    };
    match *expr {
        Expr::Const(v) => v.to_string(),
        Expr::Symbol(s) => plan.symbols.get(s.index()).map_or("?", |s| &*s.name).to_owned(),
        Expr::Add(a, b) => infix(a, "+", b),
        Expr::Sub(a, b) => infix(a, "-", b),
        Expr::Mul(a, b) => infix(a, "*", b),
        Expr::FloorDiv(a, b) => infix(a, "/", b),
        Expr::Mod(a, b) => infix(a, "%", b),
        Expr::Eq(a, b) => infix(a, "==", b),
        Expr::Lt(a, b) => infix(a, "<", b),
        Expr::CeilDiv(a, b) => format!("ceil({} / {})", side(a), side(b)),
        Expr::Min(a, b) => format!("min({}, {})", side(a), side(b)),
        Expr::Max(a, b) => format!("max({}, {})", side(a), side(b)),
        Expr::Select(a, b, c) => format!("if {} then {} else {}", side(a), side(b), side(c)),
    }
}

/// Type and dims of a tensor.
pub fn tensor(plan: &Plan, value: &Value) -> String {
    let dims: Vec<String> = value.dims.iter().map(|d| expr(plan, *d)).collect();
    format!("{}[{}]", value.dtype, dims.join(", "))
}

/// How a relation is written.
pub fn relation(relation: Relation) -> &'static str {
    match relation {
        Relation::Equal => "=",
        Relation::LessOrEqual => "<=",
    }
}

/// How a class of memory is called.
pub fn class(class: Class) -> &'static str {
    match class {
        Class::Const => "constant",
        Class::Persist => "state",
        Class::Input => "input",
        Class::Act => "activation",
        Class::Work => "workspace",
    }
}

/// The values of a range.
pub fn range(lo: i64, hi: i64, step: i64) -> String {
    match (lo == hi, step) {
        (true, _) => lo.to_string(),
        (false, 1) => format!("{lo}..={hi}"),
        (false, step) => format!("{lo}..={hi}/{step}"),
    }
}

/// Bytes with thousands apart.
pub fn bytes(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_apart() {
        assert_eq!(bytes(0), "0");
        assert_eq!(bytes(999), "999");
        assert_eq!(bytes(1_000), "1,000");
        assert_eq!(bytes(1_234_567), "1,234,567");
    }

    #[test]
    fn ranges() {
        assert_eq!(range(3, 3, 1), "3");
        assert_eq!(range(3, 5, 1), "3..=5");
        assert_eq!(range(32, 960, 32), "32..=960/32");
    }
}

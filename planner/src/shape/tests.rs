//! Tests of the expression table.

use super::*;

fn table(ranges: &[(i64, i64, i64)]) -> (Exprs, Vec<ExprId>) {
    let mut x = Exprs::default();
    let ids = ranges
        .iter()
        .enumerate()
        .map(|(i, (lo, hi, step))| {
            let s = x.symbol(SymbolInfo {
                name: format!("s{i}"),
                kind: SymbolKind::Input { input: 0, axis: i as u32 },
                lo: *lo,
                hi: *hi,
                step: *step,
                bound: None,
            });
            x.of_symbol(s)
        })
        .collect();
    (x, ids)
}

#[test]
fn reshaping_arithmetic_cancels() {
    let (mut x, s) = table(&[(1, 8, 1), (1, 512, 1)]);
    let eight = x.int(8);
    let twelve = x.int(12);
    let a = x.product([s[0], s[1], eight]);
    let b = x.product([eight, s[0]]);
    assert_eq!(x.floor_div(a, b), s[1]);
    let sum = x.add(s[0], twelve);
    let both = x.mul(sum, s[1]);
    assert_eq!(x.floor_div(both, sum), s[1]);
}

#[test]
fn stepped_symbols_halve_exactly() {
    let (mut x, s) = table(&[(32, 960, 32)]);
    let (two, one) = (x.int(2), x.int(1));
    // A convolution of stride 2, kernel 3, padding 1.
    let mut dim = s[0];
    for _ in 0..5 {
        let less = x.sub(dim, one);
        let half = x.floor_div(less, two);
        dim = x.add(half, one);
    }
    let mut back = dim;
    for _ in 0..5 {
        back = x.mul(back, two);
    }
    assert_eq!(back, s[0], "{}", x.display(back));
    assert_eq!(x.maximum(dim), Some(30));
}

#[test]
fn maxima_are_exact_where_sizes_are_not_monotone() {
    let (mut x, s) = table(&[(0, 100, 1)]);
    let seven = x.int(7);
    let m = x.modulo(s[0], seven);
    assert_eq!(x.maximum(m), Some(6));
    let hundred = x.int(100);
    let back = x.sub(hundred, s[0]);
    let area = x.mul(back, s[0]);
    assert_eq!(x.maximum(area), Some(2500));
}

#[test]
fn values_agree_with_plain_arithmetic() {
    let (mut x, s) = table(&[(1, 9, 1), (3, 30, 3)]);
    let c = x.int(5);
    let e1 = x.add(s[0], c);
    let e2 = x.mul(e1, s[1]);
    let e3 = x.floor_div(e2, c);
    let e4 = x.modulo(e3, s[1]);
    let e5 = x.max(e4, s[0]);
    for a in 1..=9 {
        for b in (3..=30).step_by(3) {
            let want = (((a + 5) * b) / 5 % b).max(a);
            let got = x.evaluate(e5, &|id| Some(if id.0 == 0 { a } else { b }));
            assert_eq!(got, Some(want));
        }
    }
}

//! Large plans: the peak follows what is live, not how many steps there are.

use super::build::*;
use crate::memory::{Options, optimise};
use plan::*;

/// A stack of transformer-like blocks: projections, attention, residuals, a window split and joined again.
fn encoder(blocks: usize) -> Plan {
    let mut b = Build::new(64);
    let (s, d, wide) = (b.symbol(0, 1, 128), b.number(64), b.number(256));
    let w = b.weight("w", &[64, 64]);
    let mut x = b.input("x", DType::F32, &[s, d]);
    let new = |b: &mut Build, dims: &[ExprId]| b.tensor("t", Class::Act, DType::F32, dims);
    for _ in 0..blocks {
        let [n, q, k, v, a, p, r, m, o, y] = [(); 10].map(|()| new(&mut b, &[s, d]));
        let (u, g) = (new(&mut b, &[s, wide]), new(&mut b, &[s, wide]));
        let [c, e, f] = [(); 3].map(|()| new(&mut b, &[s, d]));
        b.step("Norm", gather(), &[x, w], &[n]);
        b.step("Q", matmul(), &[n, w], &[q]);
        b.step("K", matmul(), &[n, w], &[k]);
        b.step("V", matmul(), &[n, w], &[v]);
        b.step("QK", map(), &[q, k], &[c]);
        b.step("KV", map(), &[k, v], &[e]);
        b.step("Attention", gather(), &[c, e], &[a]);
        b.step("Project", matmul(), &[a, w], &[p]);
        b.step("Add", map(), &[x, p], &[r]);
        b.step("Norm", gather(), &[r, w], &[m]);
        b.step("Up", matmul(), &[m, w], &[u]);
        b.workspace(1024);
        b.step("Gelu", map(), &[u], &[g]);
        b.step("Down", matmul(), &[g, w], &[o]);
        b.step("Scale", map(), &[o], &[f]);
        b.step("Add", map(), &[r, f], &[y]);
        x = y;
    }
    b.output(x);
    b.plan
}

/// Row T5. Twice the transformer blocks: the same peak of what is live, twice the sum.
#[test]
fn twice_the_blocks_same_peak() {
    let certificate = |blocks: usize| {
        let mut plan = encoder(blocks);
        optimise(&mut plan, &Options::default()).unwrap();
        assert_eq!(plan.arena_bytes, plan.certificate.lower_bound_bytes);
        plan.certificate
    };
    let (one, two) = (certificate(20), certificate(40));
    assert_eq!(one.lower_bound_bytes, two.lower_bound_bytes);
    assert_eq!(2 * one.naive_bytes, two.naive_bytes);
    assert!(one.lower_bound_bytes * 20 < one.naive_bytes);
}

/// 4,000 steps are planned, and the checker accepts the plan.
#[test]
fn four_thousand_steps() {
    let mut plan = encoder(267);
    optimise(&mut plan, &Options::default()).unwrap();
    checker::check(&plan, &checker::Points::default()).unwrap();
}

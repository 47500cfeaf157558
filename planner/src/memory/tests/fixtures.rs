//! The fixtures X1 to X10 with their exact bytes.

use super::build::*;
use crate::memory::{Options, optimise};
use plan::*;

fn plain() -> Options {
    Options { in_place: false, reorder: false, ..Options::default() }
}

fn in_place() -> Options {
    Options { reorder: false, ..Options::default() }
}

/// What a plan must come to.
struct Expect {
    naive: u64,
    eager: u64,
    arena: u64,
}

#[track_caller]
fn check(b: &Build, options: Options, want: Expect) -> Plan {
    let mut plan = b.plan.clone();
    optimise(&mut plan, &options).unwrap();
    assert_eq!(plan.certificate.naive_bytes, want.naive, "naive");
    assert_eq!(plan.certificate.eager_peak_bytes, want.eager, "eager peak");
    assert_eq!(plan.arena_bytes, want.arena, "arena");
    assert!(plan.certificate.optimal);
    let report = checker::check(&plan, &checker::Points::default()).unwrap();
    assert_eq!(report.not_tight, []);
    plan
}

/// `(step, buffer, bytes)` for everything that the eager executor gives back, in order.
fn releases(plan: &Plan) -> Vec<(String, String, u64)> {
    let mut all = Vec::new();
    for (i, step) in plan.blocks[0].steps.iter().enumerate() {
        for b in &plan.buffers {
            if b.eager.is_some_and(|e| e.block.0 == 0 && e.free == Some(i as u32)) {
                all.push((step.name.clone(), b.name.clone(), b.max_bytes));
            }
        }
    }
    all
}

#[track_caller]
fn check_releases(plan: &Plan, want: &[(&str, &str, u64)]) {
    let got = releases(plan);
    let got: Vec<_> = got.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), *c)).collect();
    assert_eq!(got, want);
}

/// A chain of four elementwise steps.
fn x1() -> Build {
    let mut b = Build::new(1);
    let mut last = b.input_bytes("x", 256);
    for (name, out) in [("R1", "a"), ("R2", "b"), ("R3", "c"), ("R4", "y")] {
        let next = b.bytes(out, 256);
        b.step(name, map(), &[last], &[next]);
        last = next;
    }
    b.output(last);
    b
}

#[test]
fn x1_chain() {
    let plan = check(&x1(), plain(), Expect { naive: 1024, eager: 512, arena: 512 });
    check_releases(&plan, &[("R2", "a", 256), ("R3", "b", 256), ("R4", "c", 256)]);
    check(&x1(), in_place(), Expect { naive: 1024, eager: 256, arena: 256 });
}

fn x2() -> Build {
    let mut b = Build::new(1);
    let dims = [b.number(8), b.number(16)];
    let x = b.input("x", DType::F32, &dims);
    let (w1, w2) = (b.weight("w1", &[16, 64]), b.weight("w2", &[64, 16]));
    let (h, g, y) = (b.act("h", &[8, 64]), b.act("g", &[8, 64]), b.act("y", &[8, 16]));
    b.step("MM1", matmul(), &[x, w1], &[h]);
    b.step("Gelu", map(), &[h], &[g]);
    b.step("MM2", matmul(), &[g, w2], &[y]);
    b.output(y);
    b
}

#[test]
fn x2_mlp() {
    let plan = check(&x2(), plain(), Expect { naive: 4608, eager: 4096, arena: 4096 });
    check_releases(&plan, &[("Gelu", "h", 2048), ("MM2", "g", 2048)]);
    check(&x2(), in_place(), Expect { naive: 4608, eager: 2560, arena: 2560 });
}

fn x3(align: u64) -> Build {
    let mut b = Build::new(align);
    let x = b.input_bytes("x", 96);
    let a = b.bytes("a", 96);
    let v2 = b.view("v2", a, &[48], 24, None);
    let (q, d, c) = (b.bytes("q", 96), b.bytes("d", 1024), b.bytes("c", 48));
    b.step("P", gather(), &[x, x], &[a]);
    b.step("Q", gather(), &[a, x], &[q]);
    b.step("D", gather(), &[q, x], &[d]);
    b.step("C", gather(), &[v2, d], &[c]);
    b.output(c);
    b
}

#[test]
fn x3_views_hold_their_root() {
    let plan = check(&x3(1), plain(), Expect { naive: 1264, eager: 1216, arena: 1216 });
    check_releases(&plan, &[("D", "q", 96), ("C", "a", 96), ("C", "d", 1024)]);
    let pinned: Vec<&str> = plan.buffers[1].pinned_by.iter().map(|v| plan.values[v.index()].name.as_str()).collect();
    assert_eq!(pinned, ["v2"]);
    check(&x3(256), in_place(), Expect { naive: 1792, eager: 1536, arena: 1536 });
}

fn x4() -> Build {
    let mut b = Build::new(1);
    let x = b.input_bytes("x", 1024);
    let (a, s0, s1, y) = (b.bytes("a", 1024), b.bytes("s0", 512), b.bytes("s1", 512), b.bytes("y", 512));
    b.step("P", gather(), &[x, x], &[a]);
    b.step("Split", prim::TopK { axis: 0, largest: true, sorted: true }.into(), &[a], &[s0, s1]);
    b.step("R", gather(), &[s0, x], &[y]);
    b.output(y);
    b
}

#[test]
fn x4_dead_on_arrival() {
    let plan = check(&x4(), in_place(), Expect { naive: 2560, eager: 2048, arena: 2048 });
    check_releases(&plan, &[("Split", "a", 1024), ("Split", "s1", 512), ("R", "s0", 512)]);
}

fn x5() -> Build {
    let mut b = Build::new(1);
    let x = b.input_bytes("x", 4096);
    let one = b.number(1);
    let cond = b.input("cond", DType::Bool, &[one]);
    let (a, bb, o, y) = (b.bytes("a", 4096), b.bytes("b", 4096), b.bytes("o", 256), b.bytes("y", 256));
    b.step("P", gather(), &[x, x], &[a]);
    b.step("Q", gather(), &[a, x], &[bb]);
    b.branch(cond, |b| b.step("T", gather(), &[a, x], &[o]), |b| b.step("E", gather(), &[x, x], &[o]));
    b.step("R", gather(), &[o, bb], &[y]);
    b.output(y);
    b
}

#[test]
fn x5_a_branch_is_the_last_use() {
    let plan = check(&x5(), in_place(), Expect { naive: 8704, eager: 8448, arena: 8448 });
    check_releases(&plan, &[("If", "a", 4096), ("R", "b", 4096), ("R", "o", 256)]);
}

#[test]
fn x6_twice_the_same_operand() {
    let mut b = Build::new(1);
    let x = b.input_bytes("x", 256);
    let (a, y) = (b.bytes("a", 256), b.bytes("y", 256));
    b.step("P", gather(), &[x, x], &[a]);
    b.step("Add", map(), &[a, a], &[y]);
    b.output(y);
    let plan = check(&b, in_place(), Expect { naive: 512, eager: 512, arena: 512 });
    check_releases(&plan, &[("Add", "a", 256)]);
}

fn x7() -> Build {
    let mut b = Build::new(1);
    let x = b.input_bytes("ids", 8);
    let (h0, n1, u1) = (b.bytes("h0", 1024), b.bytes("n1", 1024), b.bytes("u1", 4096));
    let (m1, h1) = (b.bytes("m1", 1024), b.bytes("h1", 1024));
    b.step("Emb", gather(), &[x, x], &[h0]);
    b.step("Norm", gather(), &[h0, x], &[n1]);
    b.step("Up", gather(), &[n1, x], &[u1]);
    b.step("Down", gather(), &[u1, x], &[m1]);
    b.step("Add", map(), &[h0, m1], &[h1]);
    b.output(h1);
    b
}

#[test]
fn x7_residual() {
    let plan = check(&x7(), plain(), Expect { naive: 8192, eager: 6144, arena: 6144 });
    let want = [("Up", "n1", 1024), ("Down", "u1", 4096), ("Add", "h0", 1024), ("Add", "m1", 1024)];
    check_releases(&plan, &want);
    let plan = check(&x7(), in_place(), Expect { naive: 8192, eager: 6144, arena: 6144 });
    // `h1` takes the place of an operand of its step.
    let want = [("Up", "n1", 1024), ("Down", "u1", 4096), ("Add", "m1", 1024)];
    check_releases(&plan, &want);
    assert_eq!(plan.buffers.iter().filter(|b| b.eager.is_some_and(|e| e.free.is_none())).count(), 1);
}

#[test]
fn x8_workspace() {
    const K: i64 = 1024;
    let mut b = Build::new(1);
    let mut last = b.input_bytes("x", 8);
    for (name, out, workspace) in [("N1", "a", 100), ("N2", "b", 300), ("N3", "y", 200)] {
        let next = b.bytes(out, 64 * K);
        b.step(name, gather(), &[last, last], &[next]);
        b.workspace(workspace * K);
        last = next;
    }
    b.output(last);
    check(&b, in_place(), Expect { naive: 196_608 + 614_400, eager: 438_272, arena: 438_272 });
}

/// The result of an `If` that is kept for later runs may not be written over.
#[test]
fn x9_what_persists_is_not_written_over() {
    let mut b = Build::new(1);
    let x = b.input_bytes("x", 8);
    let o = b.state("o", 8);
    let z = b.bytes("z", 8);
    b.step("Sqrt", map(), &[o], &[z]);
    b.output(z);
    let next = b.bytes("next", 8);
    b.step("Next", gather(), &[x, x], &[next]);
    b.commit(o, next);
    let mut plan = b.plan.clone();
    optimise(&mut plan, &in_place()).unwrap();
    assert_ne!(plan.values[o.index()].place.buffer, plan.values[z.index()].place.buffer);
}

#[test]
fn x10_growing_chain() {
    const K: i64 = 1024;
    let mut b = Build::new(1);
    let mut last = b.input_bytes("x", 8);
    for i in 0..6 {
        let next = b.bytes(&format!("t{i}"), K << i);
        b.step("N", gather(), &[last, last], &[next]);
        last = next;
    }
    b.output(last);
    check(&b, in_place(), Expect { naive: 64_512, eager: 49_152, arena: 49_152 });
}

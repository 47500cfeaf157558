//! The fixtures X1 to X10 with their exact bytes; each is run on every executor.

use super::{build::*, run};
use crate::memory::{
    Options, optimise, pins,
    usage::{self, Usage},
};
use plan::*;
use runtime::interpret::{Mode, OutputTensor};

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

/// Plans the fixture, which must come to this; the checker accepts it, and it leaves the same on every executor, in three runs
/// with identical and three with changed inputs.
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
    run::everywhere(&b.plan, &plan, &b.weights);
    plan
}

/// Live bytes of the eager executor at each step, and at the end.
fn live(plan: &Plan) -> Vec<u64> {
    let usage = Usage::new(plan).unwrap();
    usage.curve(&usage.eager, &usage::sizes(plan, |s| plan.symbols.get(s.index()).map(|s| s.hi)))
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

/// Rows `idx` of a tensor of integers, which may be any below 5.
fn rows(b: &mut Build, name: &str, from: ValueId, n: i64, below: i64) -> ValueId {
    let idx = b.indices(&format!("i{name}"), n, 3, below);
    let out = b.number(n);
    let out = b.tensor(name, Class::Act, DType::I64, &[out]);
    b.step(&name.to_uppercase(), gather(), &[from, idx], &[out]);
    out
}

fn ints(b: &mut Build, name: &str, n: i64) -> ValueId {
    let n = b.number(n);
    b.input(name, DType::I64, &[n])
}

fn half(b: &mut Build, name: &str, dims: &[i64]) -> ValueId {
    let dims: Vec<ExprId> = dims.iter().map(|d| b.number(*d)).collect();
    b.tensor(name, Class::Act, DType::F16, &dims)
}

/// Weights of 16 bits.
fn halves(b: &mut Build, name: &str, dims: &[i64]) -> ValueId {
    let n = dims.iter().product::<i64>();
    let data = (0..n).flat_map(|i| half::f16::from_f32(((i * 7) % 11 - 5) as f32 / 16.0).to_le_bytes());
    b.constant(name, DType::F16, dims, &data.collect::<Vec<_>>())
}

/// A chain of four elementwise steps on f32[64].
fn x1() -> Build {
    let mut b = Build::new(1);
    let n = b.number(64);
    let mut last = b.input("x", DType::F32, &[n]);
    for (name, out) in [("R1", "a"), ("R2", "b"), ("R3", "c"), ("R4", "y")] {
        let next = b.act(out, &[64]);
        b.step(name, unary(prim::MapOp::Relu, DType::F32, DType::F32), &[last], &[next]);
        last = next;
    }
    b.output(last);
    b
}

/// Rows A5, K1 and T5. Memory is taken where it is needed: at the first step one tensor is live, not all.
#[test]
fn x1_chain() {
    let plan = check(&x1(), plain(), Expect { naive: 1024, eager: 512, arena: 512 });
    check_releases(&plan, &[("R2", "a", 256), ("R3", "b", 256), ("R4", "c", 256)]);
    assert_eq!(live(&plan), [256, 512, 512, 512, 256]);
    let plan = check(&x1(), in_place(), Expect { naive: 1024, eager: 256, arena: 256 });
    assert_eq!(live(&plan), [256; 5]);
}

/// Two products. Those of f32 want a workspace, which the fixture does not count: in 16 bits, of twice the width, there is none.
fn x2() -> Build {
    let mut b = Build::new(1);
    let dims = [b.number(8), b.number(32)];
    let x = b.input("x", DType::F16, &dims);
    let (w1, w2) = (halves(&mut b, "w1", &[32, 128]), halves(&mut b, "w2", &[128, 32]));
    let (h, g, y) = (half(&mut b, "h", &[8, 128]), half(&mut b, "g", &[8, 128]), half(&mut b, "y", &[8, 32]));
    b.run("MM1", matmul(), &[Some(x), Some(w1)], &[h]);
    b.step("Gelu", unary(prim::MapOp::Gelu, DType::F16, DType::F16), &[h], &[g]);
    b.run("MM2", matmul(), &[Some(g), Some(w2)], &[y]);
    b.output(y);
    b
}

/// Rows C3, K1 and T5. A product, an elementwise step, a product; as each fixture it is run three times with the same inputs, and
/// three times with others.
#[test]
fn x2_mlp() {
    let plan = check(&x2(), plain(), Expect { naive: 4608, eager: 4096, arena: 4096 });
    check_releases(&plan, &[("Gelu", "h", 2048), ("MM2", "g", 2048)]);
    let plan = check(&x2(), in_place(), Expect { naive: 4608, eager: 2560, arena: 2560 });
    check_releases(&plan, &[("MM2", "h", 2048)]);
}

/// Twelve integers, seen as two rows, of which the second is used last.
pub fn x3(align: u64) -> Build {
    let mut b = Build::new(align);
    let x = ints(&mut b, "x", 12);
    let a = rows(&mut b, "a", x, 12, 12);
    let v1 = b.view("v1", a, &[2, 6], 0, None);
    let v2 = b.view("v2", v1, &[6], 6, None);
    b.plan.values[v2.index()].root = Some(v1);
    let q = rows(&mut b, "q", a, 12, 12);
    let d = rows(&mut b, "d", q, 128, 12);
    let six = b.number(6);
    let c = b.tensor("c", Class::Act, DType::I64, &[six]);
    b.step("C", gather(), &[d, v2], &[c]);
    b.output(c);
    b
}

/// Rows A2, B1 and T5. A root is held for the last of its views, and not longer; a view of a view is one of the root.
#[test]
fn x3_views_hold_their_root() {
    let plan = check(&x3(8), plain(), Expect { naive: 1264, eager: 1216, arena: 1216 });
    check_releases(&plan, &[("D", "q", 96), ("C", "a", 96), ("C", "d", 1024)]);
    let a = plan.values.iter().position(|v| v.name == "a").unwrap();
    let buffer = &plan.buffers[plan.values[a].place.buffer.index()];
    let pinned: Vec<&str> = buffer.pinned_by.iter().map(|v| plan.values[v.index()].name.as_str()).collect();
    assert_eq!((pinned.as_slice(), pins::until(&plan, buffer)), (&["v2"][..], Some("C")));
    let views: Vec<_> = ["v1", "v2"].map(|n| plan.values.iter().find(|v| v.name == n).unwrap().root).to_vec();
    assert_eq!(views, [Some(ValueId(a as u32)); 2]);
    check(&x3(8), in_place(), Expect { naive: 1264, eager: 1216, arena: 1216 });
    check(&x3(256), in_place(), Expect { naive: 1792, eager: 1536, arena: 1536 });
}

/// The largest half of some integers, and where it was found, which nobody wants to know.
pub fn x4() -> Build {
    let mut b = Build::new(1);
    let x = ints(&mut b, "x", 128);
    let a = rows(&mut b, "a", x, 128, 128);
    let n = b.number(64);
    let (s0, s1) = (b.tensor("s0", Class::Act, DType::I64, &[n]), b.tensor("s1", Class::Act, DType::I64, &[n]));
    b.step("Split", top_k(0), &[a], &[s0, s1]);
    let y = rows(&mut b, "r", s0, 64, 64);
    b.output(y);
    b
}

/// Rows A3 and T5. What nobody reads is given back where it was made; another tensor in its place harms nobody.
#[test]
fn x4_dead_on_arrival() {
    let mut plan = check(&x4(), in_place(), Expect { naive: 2560, eager: 2048, arena: 2048 });
    check_releases(&plan, &[("Split", "a", 1024), ("Split", "s1", 512), ("R", "s0", 512)]);
    let home = |plan: &Plan, name: &str| {
        let value = plan.values.iter().find(|v| v.name == name).unwrap();
        value.place.buffer.index()
    };
    let (dead, next, live) = (home(&plan, "s1"), home(&plan, "r"), home(&plan, "s0"));
    plan.buffers[next].offset = plan.buffers[dead].offset;
    checker::check(&plan, &checker::Points::default()).unwrap();
    run::everywhere(&x4().plan, &plan, &x4().weights);
    // But it may not lie over what lives.
    plan.buffers[dead].offset = plan.buffers[live].offset;
    assert_eq!(checker::check(&plan, &checker::Points::default()).unwrap_err().reason, checker::Reason::WriteOverlap);
}

/// `a` is used last by one branch.
pub fn x5() -> Build {
    let mut b = Build::new(1);
    let x = ints(&mut b, "x", 512);
    let cond = b.input("cond", DType::Bool, &[]);
    let (some, few) = (b.indices("some", 32, 7, 512), b.number(32));
    let a = rows(&mut b, "a", x, 512, 512);
    let bb = rows(&mut b, "b", a, 512, 512);
    let (o, y) = (b.tensor("o", Class::Act, DType::I64, &[few]), b.tensor("y", Class::Act, DType::I64, &[few]));
    b.branch(cond, |b| b.step("T", gather(), &[a, some], &[o]), |b| b.step("E", gather(), &[x, some], &[o]));
    b.step("R", gather(), &[bb, o], &[y]);
    b.output(y);
    b
}

/// Rows A1 and T5. A use within a branch counts at the `If`.
#[test]
fn x5_a_branch_is_the_last_use() {
    let plan = check(&x5(), in_place(), Expect { naive: 8704, eager: 8448, arena: 8448 });
    check_releases(&plan, &[("If", "a", 4096), ("R", "b", 4096), ("R", "o", 256)]);
}

/// Rows A4 and T5. What a step reads twice is given back once.
#[test]
fn x6_twice_the_same_operand() {
    let mut b = Build::new(1);
    let x = ints(&mut b, "x", 32);
    let a = rows(&mut b, "a", x, 32, 32);
    let n = b.number(32);
    let y = b.tensor("y", Class::Act, DType::I64, &[n]);
    b.step("Add", mix(DType::I64, 2), &[a, a], &[y]);
    b.output(y);
    let plan = check(&b, in_place(), Expect { naive: 512, eager: 512, arena: 512 });
    check_releases(&plan, &[("Add", "a", 256)]);
    // What is taken is given back or is an output.
    let held = |e: Option<Eager>| e.is_some_and(|e| e.free.is_none());
    assert_eq!(plan.buffers.iter().filter(|b| held(b.eager)).count(), plan.outputs.len());
}

/// A block with a residual, in 16 bits of twice the width as in X2.
fn x7() -> Build {
    let mut b = Build::new(1);
    let ids = ints(&mut b, "ids", 16);
    let table = halves(&mut b, "table", &[5, 32]);
    let (up, down) = (halves(&mut b, "up", &[32, 128]), halves(&mut b, "down", &[128, 32]));
    let [h0, n1, m1, h1] = ["h0", "n1", "m1", "h1"].map(|n| half(&mut b, n, &[16, 32]));
    let u1 = half(&mut b, "u1", &[16, 128]);
    let norm = prim::Norm { kind: prim::NormKind::Layer, axis: 1, epsilon: 1e-5 };
    b.step("Emb", gather(), &[table, ids], &[h0]);
    b.run("Norm", norm.into(), &[Some(h0)], &[n1]);
    b.run("Up", matmul(), &[Some(n1), Some(up)], &[u1]);
    b.run("Down", matmul(), &[Some(u1), Some(down)], &[m1]);
    b.step("Add", mix(DType::F16, 2), &[h0, m1], &[h1]);
    b.output(h1);
    b
}

/// Rows B4 and T5. The result takes one of two operands: two tensors are live at the last step, not three.
#[test]
fn x7_residual() {
    let plan = check(&x7(), plain(), Expect { naive: 8192, eager: 6144, arena: 6144 });
    assert_eq!(live(&plan)[4..], [3072, 1024]);
    let want = [("Up", "n1", 1024), ("Down", "u1", 4096), ("Add", "h0", 1024), ("Add", "m1", 1024)];
    check_releases(&plan, &want);
    let plan = check(&x7(), in_place(), Expect { naive: 8192, eager: 6144, arena: 6144 });
    assert_eq!(live(&plan)[4..], [2048, 1024]);
    // `h1` takes the place of an operand of its step.
    let want = [("Up", "n1", 1024), ("Down", "u1", 4096), ("Add", "m1", 1024)];
    check_releases(&plan, &want);
    assert_eq!(plan.buffers.iter().filter(|b| b.eager.is_some_and(|e| e.free.is_none())).count(), 1);
}

/// Three steps with workspace, and the last's result.
fn x8() -> (Build, ValueId) {
    const K: i64 = 1024;
    let mut b = Build::new(1);
    let mut last = ints(&mut b, "x", 8);
    for (out, workspace) in [("a", 100), ("b", 300), ("y", 200)] {
        last = rows(&mut b, out, last, 8 * K, 8);
        b.workspace(workspace * K);
    }
    b.output(last);
    (b, last)
}

/// Rows I5 and T5. One step at a time has its workspace, so the peak is at the step with most; if all ran at once nothing could
/// share, which is what every tensor in its own memory comes to.
#[test]
fn x8_workspace() {
    let plan = check(&x8().0, in_place(), Expect { naive: 196_608 + 614_400, eager: 438_272, arena: 438_272 });
    assert_eq!(plan.certificate.naive_bytes, 811_008);
}

/// Row I5. What persists is there beside the step with most, never instead of it.
#[test]
fn x8_with_a_slot_that_persists() {
    let (mut b, last) = x8();
    let n = b.number(8 * 1024);
    let slot = b.tensor("slot", Class::Persist, DType::I64, &[n]);
    b.commit(slot, last);
    let mut plan = b.plan.clone();
    optimise(&mut plan, &in_place()).unwrap();
    checker::check(&plan, &checker::Points::default()).unwrap();
    assert_eq!(plan.arena_bytes, (64 + 64 + 300) * 1024 + 64 * 1024);
}

/// Rows A13, C1 and T5. What is kept for later runs may not be written over, in any run: the root of 4 is 2 each time. An `If`
/// computes what is then kept; what it keeps is a state, since no plan computes in one run only.
#[test]
fn x9_what_persists_is_not_written_over() {
    let mut b = Build::new(1);
    let cond = b.input("cond", DType::Bool, &[]);
    let four = b.constant("four", DType::F32, &[2], &[4f32; 2].map(f32::to_le_bytes).concat());
    let two = b.number(2);
    let [memo, next, z] = [("memo", Class::Persist), ("next", Class::Act), ("z", Class::Act)]
        .map(|(name, class)| b.tensor(name, class, DType::F32, &[two]));
    // Whichever way it goes, the branch's value is the same.
    b.branch(cond, |b| b.step("Then", copy(), &[four], &[next]), |b| b.step("Else", copy(), &[four], &[next]));
    b.step("Sqrt", unary(prim::MapOp::Sqrt, DType::F32, DType::F32), &[memo], &[z]);
    b.output(z);
    b.commit(memo, next);
    for options in [plain(), in_place()] {
        let mut plan = b.plan.clone();
        optimise(&mut plan, &options).unwrap();
        checker::check(&plan, &checker::Points::default()).unwrap();
        assert_ne!(plan.values[memo.index()].place.buffer, plan.values[z.index()].place.buffer);
        assert_eq!((plan.certificate.naive_bytes, plan.certificate.persist_bytes), (16, 8));
        if options.in_place {
            let refused = plan.certificate.refusals.iter().find(|r| r.value == memo).unwrap();
            assert_eq!((refused.step.as_str(), refused.reason.as_str()), ("Sqrt", "it is a state"));
        }
        run::everywhere(&b.plan, &plan, &b.weights);
        let runs: Vec<_> = (0..4).map(|i| run::inputs(&plan, i, 0)).collect();
        let left = run::outputs(&plan, &b.weights, Mode::Static, &runs);
        let floats = |o: &OutputTensor| o.bytes.chunks(4).map(|c| f32::from_ne_bytes(c.try_into().unwrap())).collect();
        let all: Vec<Vec<f32>> = left.iter().map(|o| floats(&o[0])).collect();
        assert_eq!(all, [vec![0.0, 0.0], vec![2.0, 2.0], vec![2.0, 2.0], vec![2.0, 2.0]]);
        // Allowed all the same, it would be 2 once and then its root: the second run finds what the first one left there.
        let mut wrong = plan.clone();
        wrong.values[z.index()].place.buffer = wrong.values[memo.index()].place.buffer;
        let r = checker::check(&wrong, &checker::Points::default()).unwrap_err();
        assert_eq!((r.reason, r.value), (checker::Reason::Write, Some(z)), "{r}");
    }
}

/// Rows L4 and T5. Slots that never grow would take the sum, 64,512 bytes; offsets do with what is live at once.
#[test]
fn x10_growing_chain() {
    const K: i64 = 1024;
    let mut b = Build::new(1);
    let mut last = ints(&mut b, "x", 8);
    for i in 0..6 {
        last = rows(&mut b, &format!("t{i}"), last, (K / 8) << i, 8);
    }
    b.output(last);
    check(&b, in_place(), Expect { naive: 64_512, eager: 49_152, arena: 49_152 });
}

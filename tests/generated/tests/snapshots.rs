//! The text of generated code.

use insta::{Settings, assert_snapshot};

#[path = "../plans.rs"]
#[allow(dead_code, reason = "not every test uses every plan")]
mod plans;

#[test]
fn generated_code() {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../../../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for made in plans::all() {
            let code = codegen::generate(&made.plan, &codegen::Options::default()).unwrap();
            assert_snapshot!(format!("generated_{}", made.plan.name), code);
        }
        let options = codegen::Options { mode: codegen::Mode::Eager, ..codegen::Options::default() };
        for made in [plans::rows(), plans::chain()] {
            let made = plans::eager(made, false);
            assert_snapshot!(format!("generated_{}", made.plan.name), codegen::generate(&made.plan, &options).unwrap());
        }
    });
}

#[test]
fn the_same_plan_gives_the_same_text() {
    for (a, b) in plans::all().iter().zip(plans::all()) {
        let generate = |plan| codegen::generate(plan, &codegen::Options::default()).unwrap();
        assert_eq!(generate(&a.plan), generate(&b.plan));
        assert!(generate(&a.plan).lines().all(|l| l.len() <= 120 || l.trim_start().starts_with("//")));
    }
}

#[test]
fn weights_in_a_file() {
    let made = plans::rows;
    for mode in [codegen::Mode::Static, codegen::Mode::Eager] {
        let options = codegen::Options { weights: codegen::WeightsIn::File, weights_file: None, mode };
        let code = codegen::generate(&plans::eager(made(), false).plan, &options).unwrap();
        assert!(
            code.contains("pub fn open(") && code.contains("pub fn with_weights(") && !code.contains("include_bytes")
        );
    }
}

#[test]
fn plans_that_contradict_themselves_are_refused() {
    let mut made = plans::control();
    let plan::Action::If { then_block, .. } = &mut made.plan.blocks[0].steps[0].action else { panic!("an If") };
    *then_block = plan::BlockId(0);
    let text = codegen::generate(&made.plan, &codegen::Options::default()).unwrap_err().to_string();
    assert!(text.contains("block 0 runs itself"), "{text}");
    let mut made = plans::control();
    made.plan.values.pop();
    assert!(codegen::generate(&made.plan, &codegen::Options::default()).is_err());
}

/// Row M4. Generated code has no `unsafe`; that of `src/lib.rs` is compiled under `forbid(unsafe_code)`, too.
#[test]
fn nothing_is_unsafe() {
    for module in
        ["rows", "control", "total", "found", "opened", "stream", "chain_eager", "opened_eager", "stream_eager"]
    {
        let code = std::fs::read_to_string(concat!(env!("OUT_DIR"), "/").to_owned() + module + ".rs").unwrap();
        assert!(code.len() > 1000 && !code.contains("unsafe"), "{module}");
    }
    assert!(include_str!("../src/lib.rs").contains("\n#![forbid(unsafe_code)]\n"));
}

//! Tests of the page's data, and of how it gets into the page.

use super::{data::data, page};
use crate::memory::{Options, optimise, tests::build::*};
use crate::peak::largest_sizes;
use crate::peak::peak;
use plan::*;
use serde_json::{Value, json};

fn finished(b: &Build) -> Plan {
    let mut plan = b.plan.clone();
    optimise(&mut plan, &Options::default()).unwrap();
    checker::check(&plan, &checker::Points::default()).unwrap();
    plan
}

/// Two products, an addition of them, and a workspace.
fn small() -> Plan {
    let mut b = Build::new(64);
    let x = b.input_bytes("x", 256);
    let (p, q, y) = (b.bytes("p", 512), b.bytes("q", 128), b.bytes("y", 512));
    b.step("first", gather(), &[x, x], &[p]);
    b.workspace(100);
    b.step("second", gather(), &[p, p], &[q]);
    b.step("third", gather(), &[q, q], &[y]);
    b.output(y);
    finished(&b)
}

/// A branch within a sequence, and an input of free length.
fn branching() -> Plan {
    let mut b = Build::new(64);
    let n = b.symbol(0, 1, 1000);
    let x = b.input("x", DType::U8, &[n]);
    let yes = b.number(1);
    let cond = b.input("cond", DType::Bool, &[yes]);
    let (a, y) = (b.tensor("a", Class::Act, DType::U8, &[n]), b.bytes("y", 64));
    b.step("before", gather(), &[x, x], &[a]);
    let big = b.bytes("big", 4096);
    b.branch(
        cond,
        |b| {
            b.step("much", gather(), &[a, a], &[big]);
            b.step("less", gather(), &[big, big], &[y]);
        },
        |b| b.step("little", gather(), &[a, a], &[y]),
    );
    b.output(y);
    finished(&b)
}

fn list(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

/// What must hold of every plan: the curves, the ticks of the buffers and the certificate say the same.
#[track_caller]
fn check(plan: &Plan) -> Value {
    let data = data(plan).unwrap();
    let live = list(&data["live"]);
    assert_eq!(live.len(), data["ticks"].as_array().unwrap().len() + 1);
    let mut summed = vec![0; live.len()];
    for buffer in data["buffers"].as_array().unwrap().iter().filter(|b| !b["ticks"].is_null()) {
        let (ticks, bytes) = (list(&buffer["ticks"]), buffer["bytes"].as_u64().unwrap());
        summed[ticks[0] as usize..ticks[1] as usize].iter_mut().for_each(|n| *n += bytes);
        assert!(buffer["offset"].as_u64().unwrap() + bytes <= plan.arena_bytes, "{buffer}");
    }
    assert_eq!(live, summed);
    let most = live[data["peak"].as_u64().unwrap() as usize];
    assert_eq!(most, plan.certificate.lower_bound_bytes);
    assert_eq!(Some(&most), live.iter().max());
    let reported = peak(plan, &largest_sizes(plan));
    assert_eq!(most, reported.bytes);
    let step = data["ticks"][data["peak"].as_u64().unwrap() as usize].as_u64().unwrap();
    assert_eq!(data["steps"][step as usize]["name"], json!(reported.step.last().unwrap()));
    let eager = if data["eager"].is_null() { live } else { list(&data["eager"]) };
    assert_eq!(eager.iter().max(), Some(&plan.certificate.eager_peak_bytes));
    data
}

#[test]
fn live_bytes_add_up_to_the_bound() {
    let data = check(&small());
    assert_eq!(data["live"], json!([640, 640, 640, 512]));
    assert_eq!(data["buffers"][1]["name"], "p");
    assert_eq!(data["buffers"][1]["ticks"], json!([0, 2]));
    let kinds: Vec<&str> = data["buffers"].as_array().unwrap().iter().map(|b| b["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["input", "activation", "activation", "output", "workspace"]);
    // Needs 100 bytes, takes 128.
    assert_eq!((&data["buffers"][4]["needs"], &data["buffers"][4]["bytes"]), (&json!(100), &json!(128)));
    assert_eq!(data["steps"][0]["work"], 4);
    assert_eq!(data["least"], Value::Null);
}

#[test]
fn bodies_are_listed_inside_the_step_that_runs_them() {
    let data = check(&branching());
    let rows: Vec<String> = data["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| match row["step"].as_u64() {
            Some(s) => format!("{} {}", row["depth"], data["steps"][s as usize]["name"].as_str().unwrap()),
            None => format!("{} {} {}", row["depth"], row["body"].as_str().unwrap(), row["ticks"]),
        })
        .collect();
    assert_eq!(rows, ["0 before", "0 If", "1 then [1,3]", "1 much", "1 less", "1 else [3,4]", "1 little"]);
    assert_eq!(data["ticks"], json!([0, 2, 3, 4]));
    assert_eq!(data["steps"][1]["ticks"], json!([1, 4]));
    assert_eq!(data["profiles"][0]["ranges"], "s0 1..=1000");
    // At the smallest extents, one byte of input makes one unit of alignment.
    assert_eq!(data["least"].as_array().unwrap()[0], 64);
}

#[test]
fn states_are_live_throughout() {
    let mut b = Build::new(64);
    let (x, state) = (b.input_bytes("x", 64), b.state("h", 256));
    let (next, y) = (b.bytes("h2", 256), b.bytes("y", 64));
    b.step("cell", concat(0), &[x, state], &[next]);
    b.step("head", gather(), &[next, next], &[y]);
    b.commit(state, next);
    b.output(y);
    let data = check(&finished(&b));
    let state = data["buffers"].as_array().unwrap().iter().find(|b| b["kind"] == "state").unwrap();
    let end = data["ticks"].as_array().unwrap().len();
    assert_eq!(state["ticks"], json!([0, end + 1]));
}

#[test]
fn names_are_data_and_never_markup() {
    let hostile = "</script><img src=x onerror=alert(1)><!-- {{script}} {{data}}";
    let mut plan = small();
    plan.name = hostile.into();
    plan.producer = hostile.into();
    plan.values.iter_mut().for_each(|v| v.name = hostile.into());
    plan.buffers.iter_mut().for_each(|b| b.name = hostile.into());
    plan.blocks.iter_mut().flat_map(|b| &mut b.steps).for_each(|s| s.name = hostile.into());
    let page = page(&plan).unwrap();
    assert!(!page.contains("<img"), "a name became markup");
    assert_eq!(page.matches("</script").count(), 2);
    let (_, after) = page.split_once(r#"<script type="application/json" id="plan">"#).unwrap();
    let (json, _) = after.split_once("</script>").unwrap();
    let data: Value = serde_json::from_str(json).unwrap();
    assert_eq!((&data["name"], &data["steps"][2]["name"]), (&json!(hostile), &json!(hostile)));
}

#[test]
fn the_page_needs_nothing_else_and_is_the_same_twice() {
    let plan = branching();
    let first = page(&plan).unwrap();
    assert_eq!(first, page(&plan).unwrap());
    for reach in [
        "{{title}}",
        "{{style}}",
        "{{data}}",
        "{{script}}",
        "http:",
        "https:",
        "src=",
        "href=",
        "@import",
        "url(",
        "fetch(",
        "innerHTML",
    ] {
        assert!(!first.contains(reach), "the page has {reach}");
    }
}

#[test]
fn a_plan_without_steps() {
    let mut b = Build::new(64);
    b.input_bytes("x", 64);
    let data = data(&finished(&b)).unwrap();
    assert_eq!((&data["live"], &data["peak"]), (&json!([0]), &json!(0)));
}

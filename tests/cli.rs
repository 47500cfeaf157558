//! The command line: exit statuses, files and JSON keys that scripts rely on, on the model that the demo carries.

mod common;

use common::{planner, scratch};
use std::fs;
use std::path::{Path, PathBuf};

fn magika() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/magika/magika.onnx");
    path.to_string_lossy().into_owned()
}

/// The free dim of the model's only input.
const DIM: &str = "bytes#0=1";

fn with_dim<'a>(args: &[&'a str]) -> Vec<&'a str> {
    args.iter().copied().chain(["--dim", DIM]).collect()
}

#[test]
fn wrong_usage_is_2_and_help_is_0() {
    for args in [
        &[][..],
        &["fly"],
        &["report"],
        &["report", "a.onnx", "--wings"],
        &["report", "a.onnx", "b.onnx"],
        &["report", "a.onnx", "--dim", "n"],
        &["report", "a.onnx", "--mode", "fast"],
        &["report", "a.onnx", "--budget", "lots"],
        &["report", "a.onnx", "--align", "3"],
        &["verify"],
        &["pack"],
    ] {
        let (code, out, err) = planner(args.iter().copied());
        assert_eq!((code, &*out), (2, ""), "{args:?}");
        assert!(err.starts_with("error: ") && err.contains("usage: planner"), "{args:?}: {err}");
    }
    let (code, out, err) = planner(["--help"]);
    assert_eq!((code, &*err), (0, ""));
    for command in ["emit", "report", "check", "run", "verify", "bench", "pack", "explain", "view"] {
        assert!(out.contains(command), "{command} is not in {out}");
        let (code, help, err) = planner([command, "--help"]);
        assert_eq!((code, &*err), (0, ""), "{command}");
        assert!(help.starts_with(&format!("usage: planner {command}")), "{help}");
    }
}

#[test]
fn refusals_are_1_and_say_why() {
    let model = magika();
    for (args, wanted) in [
        (vec!["report", "/nowhere/m.onnx"], "/nowhere/m.onnx"),
        (vec!["report", &model], "free dims without a value or range"),
        (vec!["report", &model, "--dim", "nobody=1"], "nobody"),
        (with_dim(&["report", &model, "--budget", "1KiB"]), "budget is 1024"),
        (with_dim(&["report", &model, "--device", "cuda:4000000"]), "cuda:4000000"),
        (with_dim(&["report", &model, "--at", "nobody=1"]), "nobody"),
        (with_dim(&["explain", &model, "no such node"]), "no such node"),
        (vec!["check", &model], "magika.onnx"),
        (vec!["verify", "/nowhere"], "/nowhere"),
        (vec!["run", &model, "--input", "x=/nowhere.npy"], "/nowhere.npy"),
    ] {
        let (code, _, err) = planner(args.iter().copied());
        assert_eq!(code, 1, "{args:?}: {err}");
        assert!(err.starts_with("error: ") && err.contains(wanted), "{args:?}: {err}");
    }
}

/// Row E2. In every command that plans: by name, with the reason, and how to allow another.
#[test]
fn a_device_that_is_not_there_is_refused() {
    let model = magika();
    for command in ["report", "emit", "run", "bench", "explain", "view"] {
        let (code, out, err) = planner(with_dim(&[command, &model, "--device", "cuda:4000000"]));
        assert_eq!((code, &*out), (1, ""), "{command}: {err}");
        let parts = ["device cuda:4000000 is not available: ", "allow the fallback to cpu", "--allow-fallback"];
        for part in parts {
            assert!(err.contains(part), "{command}: {part:?} is not in {err}");
        }
        let reason = err.split(parts[0]).nth(1).unwrap();
        assert!(
            reason.starts_with("this build has no CUDA support") || reason.starts_with("the NVIDIA driver"),
            "{err}"
        );
    }
    let (code, _, err) = planner(["verify", "models", "--device", "cuda:4000000"]);
    assert!(code == 1 && err.contains("cuda:4000000"), "{err}");
}

/// Row E2.
#[test]
fn a_fallback_that_was_allowed_is_reported() {
    let model = magika();
    let (code, out, err) =
        planner(with_dim(&["report", &model, "--json", "--device", "cuda:4000000", "--allow-fallback"]));
    assert_eq!(code, 0, "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["placement"]["device"], "cpu");
    assert!(report["placement"]["fallback"].as_str().is_some_and(|f| f.contains("cuda:4000000")), "{out}");
    assert!(err.contains("warning: ") && err.contains("cuda:4000000"), "{err}");
}

/// Row K7. A budget of a byte less than the arena fails and names what is live at the peak; the arena itself passes.
#[test]
fn a_budget_is_exact() {
    let (folder, model) = (scratch("cli-budget"), magika());
    let (code, out, err) = planner(with_dim(&["report", &model, "--json"]));
    assert_eq!(code, 0, "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let arena = report["arena_bytes"].as_u64().unwrap();
    let (folder, budget) = (folder.to_string_lossy().into_owned(), arena.to_string());
    let (code, _, err) = planner(with_dim(&["emit", &model, "-o", &folder, "--budget", &budget]));
    assert_eq!(code, 0, "{err}");
    let less = (arena - 1).to_string();
    let (code, _, err) = planner(with_dim(&["emit", &model, "-o", &folder, "--budget", &less]));
    assert_eq!(code, 1, "{err}");
    assert!(err.contains(&format!("needs {arena} bytes, the budget is {less}")), "{err}");
    for top in report["top"].as_array().unwrap().iter().take(2) {
        let (name, bytes) = (top["name"].as_str().unwrap(), top["bytes"].as_u64().unwrap());
        assert!(err.contains(&format!("{name} {bytes} bytes")), "{name} {bytes}: {err}");
    }
    // The same through a build script.
    let build = |budget: u64| {
        flightplan::build::Model::new(&model).dim("bytes#0", 1).budget(&budget.to_string()).emit_to(Path::new(&folder))
    };
    build(arena).unwrap();
    let error = build(arena - 1).unwrap_err();
    assert_eq!(error.kind(), flightplan::build::ErrorKind::Budget);
    let text = format!("{error:?}");
    assert!(text.contains(report["top"][0]["name"].as_str().unwrap()) && text.contains("raise the budget"), "{text}");
}

#[test]
fn a_report_has_its_keys() {
    let model = magika();
    let (code, out, err) = planner(["report", &model, "--json", "--dim", "bytes#0=1..=4"]);
    assert_eq!(code, 0, "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["schema"], 1);
    let bytes = |report: &serde_json::Value, key: &str| report[key].as_u64().unwrap_or_else(|| panic!("{key}: {out}"));
    for key in ["weight_bytes", "persist_bytes", "order_bound_bytes", "eager_peak_bytes"] {
        bytes(&report, key);
    }
    let (bound, arena, naive) =
        (bytes(&report, "lower_bound_bytes"), bytes(&report, "arena_bytes"), bytes(&report, "naive_bytes"));
    assert!(bound <= arena && arena <= naive, "{bound} {arena} {naive}");
    for key in ["profiles", "top", "guards", "uncovered"] {
        assert!(report[key].is_array(), "{key}: {out}");
    }
    assert!(report["observed"]["unavailable"].is_string());
    // What is live at the peak is all of it.
    assert_eq!(report["peak"]["bytes"], report["lower_bound_bytes"]);
    let name = report["symbols"][0]["name"].as_str().unwrap().to_owned();
    let at = format!("{name}=1");
    let (code, out, err) = planner(["report", &model, "--json", "--dim", "bytes#0=1..=4", "--at", &at]);
    assert_eq!(code, 0, "{err}");
    let small: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(bytes(&small, "lower_bound_bytes") < bound, "{out}");
    assert_eq!(bytes(&small, "arena_bytes"), arena);
}

#[test]
fn what_is_emitted_is_accepted_and_a_wrong_plan_is_not() {
    let (folder, model) = (scratch("cli-emit"), magika());
    let out = folder.to_string_lossy().into_owned();
    let (code, text, err) = planner(with_dim(&["emit", &model, "-o", &out]));
    assert_eq!(code, 0, "{err}");
    assert!(text.contains("arena") && text.contains("magika.rs"), "{text}");
    let plan = folder.join("magika.plan.ron");
    for file in ["magika.rs", "magika.weights"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    let (code, text, err) = planner(["check".as_ref(), plan.as_os_str()]);
    assert!(code == 0 && text.starts_with("accepted"), "{text}{err}");
    // An arena that is too small by half.
    let text = fs::read_to_string(&plan).unwrap();
    let mut wrong = plan::Plan::from_text(&text).unwrap();
    wrong.arena_bytes /= 2;
    let path = folder.join("wrong.plan.ron");
    fs::write(&path, wrong.to_text().unwrap()).unwrap();
    let (code, out, err) = planner(["check".as_ref(), path.as_os_str()]);
    assert_eq!((code, &*out), (1, ""), "{err}");
    assert!(err.contains("rejects"), "{err}");
}

#[test]
fn a_run_reads_and_writes_npy() {
    let (folder, model) = (scratch("cli-run"), magika());
    let input = folder.join("in.npy");
    let data: Vec<u8> = (0..4096i32).flat_map(|i| (i % 257).to_le_bytes()).collect();
    let file = common::npy("<i4", "2, 2048", &data);
    fs::write(&input, file).unwrap();
    let (argument, out) = (format!("bytes={}", input.display()), folder.to_string_lossy().into_owned());
    let (code, text, err) = planner(["run", &model, "--input", &argument, "-o", &out]);
    assert_eq!(code, 0, "{err}");
    let written: Vec<PathBuf> =
        fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).filter(|p| *p != input).collect();
    assert_eq!(written.len(), 1, "{text}");
    let output = fs::read(&written[0]).unwrap();
    let dims = String::from_utf8_lossy(&output[10..128]).into_owned();
    assert!(dims.contains("'<f4'") && dims.contains("(2, "), "{dims}");
}

/// The eager executor wherever a mode can be asked for: the same outputs, its own code, its own figure, its own budget.
#[test]
fn the_eager_executor_is_a_mode() {
    let (folder, model) = (scratch("cli-eager"), magika());
    let out = folder.to_string_lossy().into_owned();
    let eager = |args: &[&str]| planner(args.iter().copied().chain(["--mode", "eager"]));
    let (code, text, err) = eager(&["report", &model, "--json", "--dim", DIM]);
    assert_eq!(code, 0, "{err}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["mode"], "eager");
    let peak = report["eager_peak_bytes"].as_u64().unwrap();
    let (exact, less) = (peak.to_string(), (peak - 1).to_string());
    let (code, text, err) = eager(&["emit", &model, "-o", &out, "--dim", DIM, "--budget", &exact]);
    assert!(code == 0 && text.contains("held at once, at most"), "{text}{err}");
    let code = fs::read_to_string(folder.join("magika.rs")).unwrap();
    assert!(code.contains(&format!("PEAK_BYTES: usize = {peak}")) && !code.contains("ARENA_BYTES"), "{code}");
    let (code, _, err) = eager(&["emit", &model, "-o", &out, "--dim", DIM, "--budget", &less]);
    let wanted = format!("the eager executor holds up to {peak} bytes, the budget is {less}");
    assert!(code == 1 && err.contains(&wanted), "{err}");
    let input = folder.join("in.npy");
    let data: Vec<u8> = (0..2048i32).flat_map(|i| (i % 257).to_le_bytes()).collect();
    fs::write(&input, common::npy("<i4", "1, 2048", &data)).unwrap();
    let argument = format!("bytes={}", input.display());
    let outputs = ["static", "eager"].map(|mode| {
        let folder = folder.join(mode);
        let out = folder.to_string_lossy().into_owned();
        let (code, _, err) = planner(["run", &model, "--input", &argument, "-o", &out, "--mode", mode]);
        assert_eq!(code, 0, "{err}");
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| fs::read(e.unwrap().path()).unwrap()).collect();
        assert_eq!(files.len(), 1);
        files
    });
    assert_eq!(outputs[0], outputs[1]);
}

#[test]
fn a_problem_is_packed() {
    let folder = scratch("cli-pack");
    let problem = folder.join("p.csv");
    fs::write(&problem, "id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\nd,9,21,4\ne,0,21,4\n").unwrap();
    let path = problem.to_string_lossy();
    let (code, out, err) = planner(["pack", &path, "--capacity", "12"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("id,lower,upper,size,offset\na,0,3,4,"), "{out}");
    assert!(err.contains("bound 12, peak 12"), "{err}");
    let (code, _, err) = planner(["pack", &path, "--capacity", "11"]);
    assert!(code == 1 && err.contains("above the capacity 11"), "{err}");
}

#[test]
fn the_page_of_a_model_is_written_once_and_again_the_same() {
    let (model, folder) = (magika(), scratch("view"));
    let pages: Vec<PathBuf> = ["a.html", "b.html"].iter().map(|name| folder.join(name)).collect();
    for page in &pages {
        let (code, out, err) = planner(with_dim(&["view", &model, "-o", &page.to_string_lossy()]));
        assert_eq!((code, &*err), (0, ""));
        assert!(out.contains(".html: "), "{out}");
    }
    let [a, b] = [0, 1].map(|i| fs::read_to_string(&pages[i]).unwrap());
    assert_eq!(a, b);
    assert!(a.contains("<title>magika: memory plan</title>"));
    // The plan that `emit` leaves makes the same page.
    let emitted = folder.to_string_lossy().into_owned();
    assert_eq!(planner(with_dim(&["emit", &model, "-o", &emitted])).0, 0);
    let (plan, page) = (folder.join("magika.plan.ron"), folder.join("c.html"));
    let (code, _, err) = planner(["view", &plan.to_string_lossy(), "-o", &page.to_string_lossy()]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(fs::read_to_string(page).unwrap(), a);
}

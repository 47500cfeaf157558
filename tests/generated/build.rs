//! Generates the code of the plans, as a user's build script would.

use std::{error::Error, fs, path::Path};

#[path = "plans.rs"]
#[allow(dead_code, reason = "each plan is also made by itself")]
mod plans;
#[path = "stream.rs"]
mod stream;

fn main() -> Result<(), Box<dyn Error>> {
    for file in ["build.rs", "plans.rs", "stream.rs", "../common/onnx.rs", stream::MODEL] {
        println!("cargo::rerun-if-changed={file}");
    }
    let out = std::env::var("OUT_DIR")?;
    let out = Path::new(&out);
    for made in plans::all() {
        let name = made.plan.name.clone();
        write(out, &name, &made.plan, &made.weights, BINARY)?;
    }
    for made in plans::all_eager() {
        let name = made.plan.name.clone();
        write(out, &name, &made.plan, &made.weights, EAGER)?;
    }
    // The same plan with its weights in a file, and with a byte of them that is another.
    let mut made = plans::rows();
    write(out, "opened", &made.plan, &made.weights, FILE)?;
    let eager = plans::eager(plans::rows(), false);
    write(out, "opened_eager", &eager.plan, &eager.weights, (codegen::WeightsIn::File, codegen::Mode::Eager))?;
    println!("cargo::rustc-env=OPENED_WEIGHTS={}", out.join("opened.weights").display());
    if let Some(byte) = made.weights.get_mut(5) {
        *byte ^= 1;
    }
    write(out, "flipped", &made.plan, &made.weights, BINARY)?;
    let planned = stream::planned()?;
    write(out, "stream", &planned.plan, &planned.weights.to_vec(), BINARY)?;
    write(out, "stream_eager", &planned.plan, &planned.weights.to_vec(), EAGER)?;
    fs::write(out.join("corrupt.md"), corrupt(out)?)?;
    Ok(())
}

/// Where the weights are, and the executor.
type Kind = (codegen::WeightsIn, codegen::Mode);
const BINARY: Kind = (codegen::WeightsIn::Binary, codegen::Mode::Static);
const FILE: Kind = (codegen::WeightsIn::File, codegen::Mode::Static);
const EAGER: Kind = (codegen::WeightsIn::Binary, codegen::Mode::Eager);

/// Writes a module and its weights.
fn write(out: &Path, name: &str, plan: &plan::Plan, weights: &[u8], (place, mode): Kind) -> Result<(), Box<dyn Error>> {
    let options = codegen::Options { weights: place, weights_file: Some(format!("{name}.weights")), mode };
    fs::write(out.join(format!("{name}.rs")), codegen::generate(plan, &options)?)?;
    Ok(fs::write(out.join(format!("{name}.weights")), weights)?)
}

/// Places of a module where one constant is wrong: the module, what stands there, and what is put there.
const CORRUPTIONS: [(&str, &str, &str); 8] = [
    ("control", "ARENA_BYTES: usize = 128", "ARENA_BYTES: usize = 64"),
    ("control", "arena(64, DType::F32, [4])", "arena(128, DType::F32, [4])"),
    ("control", "arena(64, DType::F32, [4])", "arena(66, DType::F32, [4])"),
    ("control", "arena(64, DType::F32, [4])", "arena(64, DType::F32, [17])"),
    ("total", "weights_view(0, DType::I32", "weights_view(64, DType::I32"),
    ("total", "Scratch::at(0, 16)", "Scratch::at(4096, 16)"),
    ("rows", "Room::new(Space::Arena, 128, 384, ARENA_BYTES)", "Room::new(Space::Arena, 192, 384, ARENA_BYTES)"),
    ("rows", "WEIGHT_BYTES: usize = 64", "WEIGHT_BYTES: usize = 63"),
];

/// Programs for the tests of the documentation: each module as it is, which must compile, and with each corruption, which must
/// not.
fn corrupt(out: &Path) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    let mut add = |fence: &str, code: &str| {
        text.push_str(&format!("```{fence}\nmod model {{\n{code}\n}}\nfn main() {{}}\n```\n\n"));
    };
    for module in ["control", "total", "rows"] {
        let code = fs::read_to_string(out.join(format!("{module}.rs")))?;
        let here = out.join(format!("{module}.weights")).display().to_string();
        let code = code.replace(&format!("\"{module}.weights\""), &format!("{here:?}"));
        add("no_run", &code);
        for (_, right, wrong) in CORRUPTIONS.iter().filter(|(of, _, _)| *of == module) {
            if code.matches(right).count() != 1 {
                return Err(format!("{module}: {right:?} does not stand there once:\n{code}").into());
            }
            add("compile_fail", &code.replace(right, wrong));
        }
    }
    Ok(text)
}

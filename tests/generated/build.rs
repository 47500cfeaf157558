//! Generates the code of the plans, as a user's build script would.

use std::{error::Error, fs, path::Path};

#[path = "plans.rs"]
#[allow(dead_code, reason = "each plan is also made by itself")]
mod plans;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=plans.rs");
    let out = std::env::var("OUT_DIR")?;
    for made in plans::all() {
        let path = |extension: &str| Path::new(&out).join(format!("{}.{extension}", made.plan.name));
        fs::write(path("rs"), codegen::generate(&made.plan, &codegen::Options::default())?)?;
        fs::write(path("weights"), &made.weights)?;
    }
    Ok(())
}

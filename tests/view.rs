//! The pages of `planner view` in a real browser: that they draw, in light and in dark, for few buffers and for thousands.
//!
//! Needs a Chromium: the one that `CHROMIUM` names, or one in the path. Without one the tests say so and end.

mod common;

use common::{dims, planner, scratch};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The browser.
fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .flat_map(|f| ["chromium", "chromium-browser", "google-chrome"].map(|name| f.join(name)))
        .find(|path| path.is_file());
    let browser = named.or(found);
    if browser.is_none() {
        eprintln!("skipped: there is no Chromium in the path, and CHROMIUM names none");
    }
    browser
}

/// A page opened in a browser: what it wrote to its standard output.
fn open(browser: &Path, page: &Path, arguments: &[&str]) -> String {
    let profile = page.with_extension("profile");
    let done = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null())
        .output()
        .expect("the browser starts");
    assert!(done.status.success(), "{}: {}", browser.display(), done.status);
    String::from_utf8(done.stdout).expect("a page is text")
}

/// The text of the element with this id, as far as its first nested end tag.
fn inside<'p>(dom: &'p str, id: &str) -> &'p str {
    let (_, rest) = dom.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("there is no {id}"));
    let (_, rest) = rest.split_once('>').unwrap_or_default();
    ["</ol>", "</ul>", "</table>", "</div>", "</h1>"]
        .iter()
        .filter_map(|end| rest.split_once(end))
        .map(|(a, _)| a)
        .min_by_key(|a| a.len())
        .unwrap_or_default()
}

/// How bright a screenshot is in the middle (0 to 255), and how many colours it has.
fn looks(browser: &Path, page: &Path, scheme: &str) -> (f64, usize) {
    let shot = page.with_extension(format!("{scheme}.png"));
    let dark = format!("--blink-settings=preferredColorScheme={}", if scheme == "dark" { 0 } else { 1 });
    open(browser, page, &["--window-size=1400,1000", &dark, &format!("--screenshot={}", shot.display())]);
    let mut reader = png::Decoder::new(std::io::BufReader::new(fs::File::open(&shot).expect("a screenshot")))
        .read_info()
        .expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a picture that fits memory")];
    let info = reader.next_frame(&mut pixels).expect("a whole PNG");
    let size = info.color_type.samples();
    let colours: BTreeSet<&[u8]> = pixels.chunks_exact(size).collect();
    let sum: u64 = pixels.chunks_exact(size).map(|p| u64::from(p[1])).sum();
    (sum as f64 / (pixels.len() / size) as f64, colours.len())
}

/// Writes the page of a model and looks at it; gives back its DOM.
fn check(browser: &Path, name: &str, model: &Path, options: Vec<OsString>) -> String {
    let page = scratch(&format!("view-{name}")).join(format!("{name}.html"));
    let mut args: Vec<OsString> = vec!["view".into(), model.into(), "-o".into(), page.clone().into()];
    args.extend(options);
    let (code, _, err) = planner(args);
    assert_eq!(code, 0, "{err}");
    let dom = open(browser, &page, &["--dump-dom"]);
    // The last thing that the page's script does is to list what is live.
    assert!(inside(&dom, "live").contains("<li"), "{name}: nothing is listed as live");
    assert!(inside(&dom, "answer").contains("A run needs"), "{name}: no summary");
    assert!(inside(&dom, "legend").matches("<li").count() >= 4, "{name}: no legend");
    let (light, light_colours) = looks(browser, &page, "light");
    let (dark, dark_colours) = looks(browser, &page, "dark");
    assert!(light > 150.0 && dark < 100.0, "{name}: brightness {light} in light colours, {dark} in dark ones");
    assert!(light_colours > 20 && dark_colours > 20, "{name}: {light_colours} and {dark_colours} colours");
    dom
}

#[test]
fn a_small_model() {
    let Some(browser) = chromium() else { return };
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/magika/magika.onnx");
    let dom = check(&browser, "magika", &model, vec!["--dim".into(), "bytes#0=1".into()]);
    assert!(inside(&dom, "name").contains("magika"));
}

#[test]
fn models_of_hundreds_of_steps() {
    let (Some(browser), Some(cases)) = (chromium(), common::data("cases")) else { return };
    for name in ["yolox-det", "rxn-transformer"] {
        let case = cases.join(name);
        check(&browser, name, &case.join("model.onnx"), dims(&case));
    }
}

//! `planner view`: a page that shows the memory of a plan.
//!
//! The page is one file that fetches nothing: `page.html` with the style, the scripts and the plan's data put in. What a plan
//! says is data for the scripts, never markup: names come from models, and models from anywhere.

mod data;
#[cfg(test)]
mod tests;

use super::args::{Common, Word, next, text};
use super::{Command, Failure, Io, load, words};
use plan::Plan;
use std::path::{Path, PathBuf};

pub const COMMAND: Command = Command {
    name: "view",
    summary: "writes a page that shows memory over time, and the steps",
    help: HELP,
    common: true,
    run,
};

const HELP: &str = "\
usage: planner view MODEL [-o FILE.html] [options]

Writes one page for a browser, which needs nothing else: the arena over time as a map, what is live at each step, the steps
with what they read and write, and the tables of `report`. MODEL may also be a plan, NAME.plan.ron.

  -o FILE.html            where to write (default: NAME.html in the current folder)
";

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPTS: [&str; 5] = [
    include_str!("base.js"),
    include_str!("map.js"),
    include_str!("panel.js"),
    include_str!("tables.js"),
    include_str!("main.js"),
];

fn run(parser: &mut lexopt::Parser, io: &mut Io<'_>) -> Result<(), Failure> {
    let (mut common, mut model, mut file) = (Common::default(), None, None);
    while let Some(word) = next(parser)? {
        if common.take(&word, parser)? {
            continue;
        }
        match word {
            Word::Flag(flag) if flag == "-o" || flag == "--out" => file = Some(PathBuf::from(text(parser)?)),
            other => load::model(&mut model, other)?,
        }
    }
    let model = load::required(model)?;
    load::device(&common, io)?;
    let plan = if model.extension().is_some_and(|e| e == "ron") {
        read(&model)?
    } else {
        load::planned(&model, &common, io)?.plan
    };
    let page = page(&plan)?;
    let file = file.unwrap_or_else(|| PathBuf::from(format!("{}.html", codegen::snake_case(&plan.name))));
    std::fs::write(&file, &page).map_err(|e| Failure::Refused(format!("{}: {e}", file.display())))?;
    writeln!(io.out, "{}: {} bytes", file.display(), words::bytes(page.len() as u64))?;
    Ok(())
}

/// A plan from its file, if the checker accepts it.
fn read(file: &Path) -> Result<Plan, Failure> {
    let refused = |e: String| Failure::Refused(format!("{}: {e}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|e| refused(e.to_string()))?;
    let plan = Plan::from_text(&text).map_err(|e| refused(e.to_string()))?;
    load::checked(&plan).map_err(refused)?;
    Ok(plan)
}

/// The page of a plan.
fn page(plan: &Plan) -> Result<String, Failure> {
    let data = data::data(plan).map_err(|e| Failure::Refused(e.to_string()))?;
    // Inside a script element, only `<` can begin something else.
    let json = data.to_string().replace('<', "\\u003c");
    let mut page = PAGE;
    let mut text = String::with_capacity(PAGE.len() + json.len() + (1 << 16));
    // One pass from left to right: nothing is looked for in what was put in.
    for (mark, fill) in [
        ("{{title}}", escaped(&plan.name)),
        ("{{style}}", STYLE.to_owned()),
        ("{{data}}", json),
        ("{{script}}", SCRIPTS.concat()),
    ] {
        if let Some((before, after)) = page.split_once(mark) {
            text.push_str(before);
            text.push_str(&fill);
            page = after;
        }
    }
    text.push_str(page);
    Ok(text)
}

/// Text as HTML.
fn escaped(text: &str) -> String {
    let mut html = String::new();
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

//! `planner pack`: the packer alone, on problems in MiniMalloc's format.

use super::args::{Word, next, number, unexpected};
use super::{Command, Failure, Io};
use crate::memory::pack::{Item, pack, pack_within};
use std::path::PathBuf;
use std::time::Instant;

pub const COMMAND: Command =
    Command { name: "pack", summary: "the packer alone, on a CSV problem", help: HELP, common: false, run };

const HELP: &str = "\
usage: planner pack PROBLEM.csv [--capacity N] [--budget STEPS]

Gives every buffer an offset so that no two overlap in time and space. The problem has a header with the columns id (or
buffer, buffer_id), lower (or start, begin), upper (or end, which is inclusive) and size, and perhaps alignment and offset
(where a buffer must lie). The result is the same with a column `offset`; bound, peak, steps and time go to standard
error. Exit status 1 if it does not fit the capacity.

  --capacity N            bytes that there are: any placement within them will do
  --budget STEPS          search steps of the exact packer (default 4000000)
";

/// No buffer is larger, and none must lie or be aligned beyond: sums of such numbers are exact.
const LARGEST: u64 = 1 << 46;

/// Search steps: seconds rather than minutes.
const BUDGET: u64 = 4_000_000;

/// A problem as it was read.
struct Problem {
    header: String,
    rows: Vec<String>,
    items: Vec<Item>,
    /// The column `offset`, where there is one.
    offset: Option<usize>,
}

fn run(parser: &mut lexopt::Parser, io: &mut Io<'_>) -> Result<(), Failure> {
    let (mut file, mut capacity, mut budget) = (None::<PathBuf>, None, BUDGET);
    while let Some(word) = next(parser)? {
        match word {
            Word::Flag(flag) if flag == "--capacity" => capacity = Some(number(parser, "--capacity", 0)?),
            Word::Flag(flag) if flag == "--budget" => budget = number(parser, "--budget", 0)?,
            Word::Value(path) if file.is_none() => file = Some(PathBuf::from(path)),
            other => return Err(unexpected(&other)),
        }
    }
    let file = file.ok_or_else(|| Failure::Usage("name a problem".to_owned()))?;
    let refused = |e: String| Failure::Refused(format!("{}: {e}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(|e| refused(e.to_string()))?;
    let problem = parse(&text).map_err(refused)?;
    let begin = Instant::now();
    let packing = match capacity {
        Some(capacity) => pack_within(&problem.items, capacity, budget),
        None => pack(&problem.items, budget),
    };
    let time = begin.elapsed();
    let lines = problem.solution(&packing.offsets);
    io.out.write_all(lines.as_bytes())?;
    let proven = if packing.optimal { "proven the lowest" } else { "not proven the lowest" };
    writeln!(
        io.err,
        "bound {}, peak {} ({proven}), {} steps, {:.3} s",
        packing.bound,
        packing.height,
        packing.nodes,
        time.as_secs_f64()
    )?;
    match capacity {
        Some(capacity) if packing.height > capacity => {
            Err(Failure::Refused(format!("the peak {} is above the capacity {capacity}", packing.height)))
        }
        _ => Ok(()),
    }
}

impl Problem {
    /// The rows with their offsets.
    fn solution(&self, offsets: &[u64]) -> String {
        let mut text = self.header.clone();
        if self.offset.is_none() {
            text.push_str(",offset");
        }
        text.push('\n');
        for (row, offset) in self.rows.iter().zip(offsets) {
            match self.offset {
                None => text.push_str(&format!("{row},{offset}\n")),
                Some(column) => {
                    let cells = row.split(',').enumerate();
                    let cells: Vec<String> =
                        cells.map(|(i, c)| if i == column { offset.to_string() } else { c.to_owned() }).collect();
                    text.push_str(&cells.join(","));
                    text.push('\n');
                }
            }
        }
        text
    }
}

fn parse(text: &str) -> Result<Problem, String> {
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let header = lines.next().ok_or("is empty")?.trim_start_matches('\u{feff}').to_owned();
    let names: Vec<String> = header.split(',').map(|n| n.trim().to_ascii_lowercase()).collect();
    let column = |wanted: &[&str]| names.iter().position(|n| wanted.contains(&n.as_str()));
    let needed = |wanted: &[&str]| column(wanted).ok_or_else(|| format!("has no column `{}`", wanted.join("` or `")));
    needed(&["id", "buffer", "buffer_id"])?;
    let (lower, size) = (needed(&["lower", "start", "begin"])?, needed(&["size"])?);
    let (upper, inclusive) = match column(&["upper"]) {
        Some(upper) => (upper, 0),
        None => (needed(&["upper", "end"])?, 1),
    };
    let (alignment, offset, gaps) = (column(&["alignment"]), column(&["offset"]), column(&["gaps"]));
    let (mut rows, mut items) = (Vec::new(), Vec::new());
    for (i, line) in lines.enumerate() {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let cell = |c: usize| cells.get(c).copied().filter(|c| !c.is_empty());
        let number = |c: usize| match cell(c).map(str::parse::<u64>) {
            Some(Ok(n)) => Ok(Some(n)),
            None => Ok(None),
            Some(Err(_)) => Err(format!("row {}: `{}` is no number", i + 1, cell(c).unwrap_or_default())),
        };
        let must = |c: usize| number(c)?.ok_or_else(|| format!("row {}: a number is missing", i + 1));
        let optional = |c: Option<usize>| c.map_or(Ok(None), number);
        if gaps.and_then(cell).is_some() {
            return Err(format!("row {}: gaps are not supported", i + 1));
        }
        let (start, end) = (must(lower)?, must(upper)?.saturating_add(inclusive));
        if end <= start {
            return Err(format!("row {}: ends before it begins", i + 1));
        }
        let align = optional(alignment)?.unwrap_or(1).max(1);
        let item = Item { size: must(size)?, align, start, end, fixed: optional(offset)? };
        if [item.size, item.align, item.fixed.unwrap_or(0)].iter().any(|n| *n > LARGEST) {
            return Err(format!("row {}: a size, alignment or offset above 2^46", i + 1));
        }
        items.push(item);
        rows.push(line.to_owned());
    }
    Ok(Problem { header, rows, items, offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minimalloc(name: &str) -> Problem {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/packing/minimalloc");
        parse(&std::fs::read_to_string(format!("{folder}/{name}.1048576.csv")).unwrap()).unwrap()
    }

    /// The packer's work is counted in steps, which are the same on every machine.
    #[test]
    fn problems_that_are_known_to_be_hard_fit_their_capacity() {
        for name in ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K"] {
            let packing = pack_within(&minimalloc(name).items, 1 << 20, 700_000);
            assert!(packing.height <= 1 << 20, "{name}: {} after {} steps", packing.height, packing.nodes);
        }
    }

    #[test]
    fn the_lowest_placement_is_found_and_proven() {
        let packing = pack(&minimalloc("C").items, 100_000);
        assert_eq!((packing.height, packing.optimal), (1_039_360, true));
    }

    #[test]
    fn numbers_that_would_not_add_up_are_refused() {
        for row in ["a,0,2,18446744073709551615,1", "a,0,2,70368744177665,1", "a,0,2,8,18446744073709551615"] {
            let why = parse(&format!("id,lower,upper,size,alignment\n{row}\n")).err().unwrap();
            assert!(why.contains("row 1") && why.contains("2^46"), "{why}");
        }
        assert!(parse("id,lower,upper,size\na,0,2,70368744177664\n").is_ok());
    }

    #[test]
    fn a_problem_and_its_solution() {
        let problem = parse("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n").unwrap();
        assert_eq!(problem.items[1], Item { size: 4, align: 1, start: 3, end: 9, fixed: None });
        assert_eq!(problem.solution(&[0, 8]), "id,lower,upper,size,offset\nb1,0,3,4,0\nb2,3,9,4,8\n");
    }

    #[test]
    fn other_names_and_optional_columns() {
        let problem = parse("buffer_id,start,end,size,alignment,offset\nx,0,3,4,8,\ny,1,2,5,,16\n").unwrap();
        assert_eq!(problem.items[0], Item { size: 4, align: 8, start: 0, end: 4, fixed: None });
        assert_eq!(problem.items[1], Item { size: 5, align: 1, start: 1, end: 3, fixed: Some(16) });
        let text = problem.solution(&[24, 16]);
        assert_eq!(text, "buffer_id,start,end,size,alignment,offset\nx,0,3,4,8,24\ny,1,2,5,,16\n");
    }

    #[test]
    fn broken_problems_are_refused() {
        for text in [
            "",
            "id,lower,size\n",
            "id,lower,upper,size\na,0,x,4",
            "id,lower,upper,size\na,0,3",
            "id,lower,upper,size\na,3,3,4",
            "id,lower,upper,size,gaps\na,0,9,4,2-3",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

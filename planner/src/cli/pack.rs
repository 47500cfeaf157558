//! `planner pack`: the packer alone, on problems in MiniMalloc's format.

use super::args::{Word, next, number, unexpected};
use super::{Command, Failure, Io};
use crate::memory::pack::{Item, Packing, Window, pack_windows};
use std::path::PathBuf;
use std::time::Instant;

pub const COMMAND: Command =
    Command { name: "pack", summary: "the packer alone, on a CSV problem", help: HELP, common: false, run };

const HELP: &str = "\
usage: planner pack PROBLEM.csv [--capacity N] [--budget STEPS]

Gives every buffer an offset so that no two overlap in time and space. The problem has a header with the columns id (or
buffer, buffer_id), lower (or start, begin), upper (or end, which is inclusive) and size, and perhaps alignment, offset
(where a buffer must lie) and gaps: `a-b` where nothing of a buffer is needed from a to b, `a-b@lo:hi` where only those of its
bytes are, several with spaces between. The result is the same with a column `offset`, whatever the order of the rows; bound,
peak, steps and time go to standard error. Exit status 1 if it does not fit the capacity.

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
    windows: Vec<Option<Vec<Window>>>,
    /// The rows in an order that does not depend on that of the file.
    order: Vec<usize>,
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
    let packing = problem.pack(capacity, budget);
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
    /// Places the buffers.
    fn pack(&self, capacity: Option<u64>, budget: u64) -> Packing {
        let items: Vec<Item> = self.order.iter().filter_map(|i| self.items.get(*i).copied()).collect();
        let windows: Vec<_> = self.order.iter().map(|i| self.windows.get(*i).cloned().flatten()).collect();
        let mut packing = pack_windows(&items, &windows, capacity, budget);
        let mut offsets = vec![0; self.items.len()];
        for (i, offset) in self.order.iter().zip(&packing.offsets) {
            if let Some(place) = offsets.get_mut(*i) {
                *place = *offset;
            }
        }
        packing.offsets = offsets;
        packing
    }

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
    let id = needed(&["id", "buffer", "buffer_id"])?;
    let (lower, size) = (needed(&["lower", "start", "begin"])?, needed(&["size"])?);
    let (upper, inclusive) = match column(&["upper"]) {
        Some(upper) => (upper, 0),
        None => (needed(&["upper", "end"])?, 1),
    };
    let (alignment, offset, gaps) = (column(&["alignment"]), column(&["offset"]), column(&["gaps"]));
    let (mut rows, mut items, mut windows, mut ids) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
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
        let (start, end) = (must(lower)?, must(upper)?.saturating_add(inclusive));
        if end <= start {
            return Err(format!("row {}: ends before it begins", i + 1));
        }
        let align = optional(alignment)?.unwrap_or(1).max(1);
        let item = Item { size: must(size)?, align, start, end, fixed: optional(offset)? };
        if [item.size, item.align, item.fixed.unwrap_or(0)].iter().any(|n| *n > LARGEST) {
            return Err(format!("row {}: a size, alignment or offset above 2^46", i + 1));
        }
        let list = gaps.and_then(cell).map(|text| without(&item, text, inclusive));
        windows.push(list.transpose().map_err(|why| format!("row {}: {why}", i + 1))?);
        items.push(item);
        rows.push(line.to_owned());
        ids.push(cell(id).unwrap_or_default().to_owned());
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    let key = |i: &usize| {
        let item = items.get(*i);
        (item.map(|x| (x.end, x.start, x.size, x.align, x.fixed)), windows.get(*i), ids.get(*i))
    };
    order.sort_by(|a, b| key(a).cmp(&key(b)));
    Ok(Problem { header, rows, items, windows, order, offset })
}

/// What a buffer needs outside its gaps, and within those that keep some of it.
fn without(item: &Item, gaps: &str, inclusive: u64) -> Result<Vec<Window>, String> {
    let pair = |text: &str, by: char| {
        let (a, b) = text.split_once(by)?;
        Some((a.parse::<u64>().ok()?, b.parse::<u64>().ok()?))
    };
    let mut all = Vec::new();
    for gap in gaps.split_whitespace() {
        let (span, kept) = gap.split_once('@').map_or((gap, None), |(span, kept)| (span, Some(kept)));
        let kept = kept.map(|k| pair(k, ':'));
        match (pair(span, '-'), kept) {
            (Some((from, to)), None) => all.push((from, to.saturating_add(inclusive), None)),
            (Some((from, to)), Some(Some(kept))) => all.push((from, to.saturating_add(inclusive), Some(kept))),
            _ => return Err(format!("`{gap}` is no gap like 2-5 or 2-5@0:64")),
        }
    }
    all.sort_unstable();
    let (mut at, mut windows) = (item.start, Vec::new());
    for (from, to, kept) in all {
        if from < at || to < from || to > item.end || kept.is_some_and(|(low, high)| low > high || high > item.size) {
            return Err(format!("the gap {from}-{to} overlaps another, or lies outside the buffer"));
        }
        windows.push(Window { start: at, end: from, low: 0, high: item.size });
        windows.extend(kept.map(|(low, high)| Window { start: from, end: to, low, high }));
        at = to;
    }
    windows.push(Window { start: at, end: item.end, low: 0, high: item.size });
    windows.retain(|w| w.start < w.end && w.low < w.high);
    Ok(windows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems that the project holds.
    const HARD: [&str; 11] = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K"];

    fn minimalloc(name: &str) -> (String, Problem) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/packing/minimalloc");
        let text = std::fs::read_to_string(format!("{folder}/{name}.1048576.csv")).unwrap();
        let problem = parse(&text).unwrap();
        (text, problem)
    }

    /// The packer's work is counted in steps, which are the same on every machine.
    #[test]
    fn problems_that_are_known_to_be_hard_fit_their_capacity() {
        for name in HARD {
            let packing = minimalloc(name).1.pack(Some(1 << 20), 700_000);
            assert!(packing.height <= 1 << 20, "{name}: {} after {} steps", packing.height, packing.nodes);
        }
    }

    #[test]
    fn the_lowest_placement_is_found_and_proven() {
        let packing = minimalloc("C").1.pack(None, 100_000);
        assert_eq!((packing.height, packing.optimal), (1_039_360, true));
    }

    #[test]
    fn the_order_of_the_rows_and_the_run_make_no_difference() {
        for name in ["C", "G", "H"] {
            let (text, problem) = minimalloc(name);
            let once = problem.solution(&problem.pack(None, 2_000).offsets);
            let sorted = |text: &str| {
                let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                lines.sort();
                lines
            };
            for run in 0..10u64 {
                // Another order each time; the first is that of the file.
                let mut lines: Vec<&str> = text.lines().collect();
                let mut state = run;
                for i in (2..lines.len()).rev().filter(|_| run > 0) {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    lines.swap(i, 1 + (state >> 33) as usize % i);
                }
                let shuffled = parse(&lines.join("\n")).unwrap();
                let again = shuffled.solution(&shuffled.pack(None, 2_000).offsets);
                assert_eq!(sorted(&again), sorted(&once), "{name}, run {run}");
            }
        }
    }

    /// Buffers one by one, each to the tightest gap among those that meet it.
    fn place(problem: &Problem, meet: &[Vec<usize>], sequence: &[usize]) -> (u64, Vec<u64>) {
        let items = &problem.items;
        let mut offsets = vec![None; items.len()];
        for &i in sequence {
            let placed = meet[i].iter().filter_map(|j| offsets[*j].map(|o| (o, o + items[*j].size)));
            let mut taken: Vec<(u64, u64)> = placed.collect();
            taken.sort_unstable();
            let (mut low, mut best) = (0u64, None);
            for (start, end) in taken {
                let at = low.next_multiple_of(items[i].align);
                if at + items[i].size <= start && best.is_none_or(|(room, _)| start - at < room) {
                    best = Some((start - at, at));
                }
                low = low.max(end);
            }
            offsets[i] = Some(best.map_or(low.next_multiple_of(items[i].align), |(_, at)| at));
        }
        let offsets: Vec<u64> = offsets.into_iter().map(Option::unwrap).collect();
        (items.iter().zip(&offsets).map(|(i, o)| i.size + o).max().unwrap(), offsets)
    }

    /// Swaps a buffer at the top with another, for so many turns, and keeps what is no worse.
    fn climb(problem: &Problem, meet: &[Vec<usize>], mut sequence: Vec<usize>, turns: usize) -> u64 {
        let (mut best, mut offsets) = place(problem, meet, &sequence);
        let mut state = 1u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        for _ in 0..turns {
            let top = sequence.iter().position(|i| offsets[*i] + problem.items[*i].size == best).unwrap();
            let with = below(sequence.len());
            sequence.swap(top, with);
            let (height, placed) = place(problem, meet, &sequence);
            if height <= best {
                (best, offsets) = (height, placed);
            } else {
                sequence.swap(top, with);
            }
        }
        best
    }

    #[test]
    fn never_above_what_others_do() {
        for name in HARD {
            let (_, problem) = minimalloc(name);
            let items = &problem.items;
            let meets = |i: usize, j: &usize| items[i].start < items[*j].end && items[*j].start < items[i].end;
            let all = 0..items.len();
            let meet: Vec<Vec<usize>> = all.clone().map(|i| all.clone().filter(|j| meets(i, j)).collect()).collect();
            let by = |key: &dyn Fn(&Item) -> (u64, u64)| {
                let mut sequence: Vec<usize> = (0..problem.items.len()).collect();
                sequence.sort_by_key(|i| (key(&problem.items[*i]), *i));
                sequence
            };
            let by_size = by(&|i| (u64::MAX - i.size, 0));
            let others = [
                ("greedy by size", place(&problem, &meet, &by_size).0),
                ("in order of birth", place(&problem, &meet, &by(&|i| (i.start, i.end))).0),
                ("hill climb of 500 turns", climb(&problem, &meet, by_size, 500)),
            ];
            let ours = problem.pack(None, 50_000).height;
            for (what, theirs) in others {
                assert!(ours <= theirs, "{name}: {ours}, {what} {theirs}");
            }
        }
    }

    /// The tail of one lies in the gap of another, and the parts of a third are born one by one.
    #[test]
    fn gaps_are_used() {
        let text = "id,lower,upper,size,gaps\na,0,9,8,2-4 5-7@0:4\nb,2,4,8,\nc,5,7,4,\n";
        let problem = parse(text).unwrap();
        let packing = problem.pack(None, 1000);
        assert_eq!((packing.height, packing.bound, packing.optimal, packing.offsets), (8, 8, true, vec![0, 0, 4]));
        for bad in ["0-x", "3", "5-7@9:12", "1-4 3-6", "7-12", "2-4@3"] {
            let text = format!("id,lower,upper,size,gaps\na,0,9,8,{bad}\n");
            assert!(parse(&text).err().unwrap().contains("row 1"), "{bad}");
        }
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
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

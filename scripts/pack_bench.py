#!/usr/bin/env python3
"""Run `planner pack` on packing problems, check every placement, and print a table.

    scripts/pack_bench.py [--planner FILE] [--capacity N] [CSV or FOLDER ...]      (default: benches/packing)

For each problem: buffers, the most bytes that live at once (no placement can be lower), the peak of two greedy packers (by size and in
order of birth, each into the tightest gap), our peak, its ratio to the bound, whether it is proven to be the lowest, search steps and
seconds. With --capacity a placement within that many bytes is enough. Placements are checked here, independently of the planner. Needs
only Python; builds the planner in release unless one is given.
"""
import argparse
import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def number(row, *names):
    for name in names:
        if row.get(name):
            return int(row[name])
    return None


def read(path):
    with open(path, newline="") as file:
        rows = [{k.strip().lower(): (v or "").strip() for k, v in row.items()} for row in csv.DictReader(file)]
    out = []
    for row in rows:
        end = number(row, "upper")
        out.append((number(row, "lower", "start", "begin"), end if end is not None else number(row, "end") + 1,
                    number(row, "size"), number(row, "alignment") or 1, number(row, "offset")))
    return out


def bound(items):
    change = {}
    for start, end, size, *_ in items:
        change[start] = change.get(start, 0) + size
        change[end] = change.get(end, 0) - size
    most = live = 0
    for tick in sorted(change):
        live += change[tick]
        most = max(most, live)
    return most


def check(items):
    """The peak of a placement; exits where two buffers overlap or one is misaligned."""
    events = sorted([(e, 0, i) for i, (_, e, *_) in enumerate(items)] + [(s, 1, i) for i, (s, *_) in enumerate(items)])
    live = []  # (offset, top), ascending: neighbours are all that has to be compared
    import bisect
    for _, begins, i in events:
        _, _, size, align, offset = items[i]
        if size == 0:
            continue
        piece = (offset, offset + size, i)
        at = bisect.bisect_left(live, piece)
        if not begins:
            live.pop(at)
            continue
        if offset % align or (at > 0 and live[at - 1][1] > offset) or (at < len(live) and live[at][0] < offset + size):
            sys.exit(f"buffer {i} overlaps another or is misaligned")
        live.insert(at, piece)
    return max((o + s for _, _, s, _, o in items), default=0)


def greedy(items, key):
    placed, top = [], 0
    for i in sorted(range(len(items)), key=key):
        start, end, size, align, _ = items[i]
        low, best = 0, None
        for o, t, _, _ in sorted(p for p in placed if p[2] < end and start < p[3]):
            at = -(-low // align) * align
            if o - at >= size and (best is None or o - at < best[0]):
                best = (o - at, at)
            low = max(low, t)
        offset = best[1] if best else -(-low // align) * align
        placed.append((offset, offset + size, start, end))
        top = max(top, offset + size)
    return top


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--planner")
    ap.add_argument("--capacity", type=int)
    ap.add_argument("paths", nargs="*", type=pathlib.Path, default=[ROOT / "benches" / "packing"])
    a = ap.parse_args()
    planner = a.planner
    if planner is None:
        subprocess.run(["cargo", "build", "--release", "-q", "-p", "planner"], cwd=ROOT, check=True)
        planner = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "planner"
    files = [f for p in a.paths for f in (sorted(p.rglob("*.csv")) if p.is_dir() else [p])]
    print("| problem | buffers | bound | greedy by size | in order of birth | ours | ours ÷ bound | proven | steps | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for path in files:
        items = read(path)
        few = len(items) <= 2000
        by_size = greedy(items, lambda i: (-items[i][2], i)) if few else None
        by_birth = greedy(items, lambda i: (items[i][0], i)) if few else None
        capacity = ["--capacity", str(a.capacity)] if a.capacity else []
        with tempfile.NamedTemporaryFile("w+", suffix=".csv") as solution:
            done = subprocess.run([planner, "pack", path, *capacity], stdout=solution, stderr=subprocess.PIPE, text=True)
            if done.returncode not in (0, 1) or not done.stderr.startswith("bound"):
                sys.exit(f"{path}: {done.stderr}")
            peak = check(read(solution.name))
        low, said, proven, steps, seconds = re.match(
            r"bound (\d+), peak (\d+) \((.*?)\), (\d+) steps, ([\d.]+) s", done.stderr).groups()
        if int(said) != peak or int(low) < bound(items):
            sys.exit(f"{path}: the planner says {done.stderr}, the placement has {peak}, the bound is {bound(items)}")
        text = lambda n: "" if n is None else f"{n:,}"
        print(f"| {path.stem.split('.')[0]} | {len(items):,} | {text(int(low))} | {text(by_size)} | {text(by_birth)} | {text(peak)} "
              f"| {peak / max(int(low), 1):.4f} | {'no' if proven.startswith('not') else 'yes'} | {text(int(steps))} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()

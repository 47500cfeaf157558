#!/usr/bin/env python3
"""Run `planner pack` on packing problems, check every placement, and print a table.

    scripts/pack_bench.py [--planner FILE] [--capacity N] [CSV or FOLDER ...]      (default: benches/packing)

For each problem: buffers, the most bytes that live at once (no placement can be lower), the peak of two greedy packers (by size and in
order of birth, each into the tightest gap), our peak, its ratio to the bound, whether it is proven to be the lowest, search steps and
seconds. With --capacity a placement within that many bytes is enough. Placements are checked here, independently of the planner. Needs
only Python; builds the planner in release unless one is given.
"""
import argparse
import bisect
import csv
import pathlib
import re
import subprocess
import sys
import tempfile

import shared


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


class Greedy:
    """Greedy placements: buffers one by one, each to the tightest gap among those that meet it."""

    def __init__(self, items):
        self.items = items
        self.meet = [[] for _ in items]
        active = []
        for i in sorted(range(len(items)), key=lambda i: items[i][0]):
            active = [j for j in active if items[j][1] > items[i][0]]
            for j in active:
                self.meet[i].append(j)
                self.meet[j].append(i)
            active.append(i)

    def place(self, sequence):
        offsets, peak = [None] * len(self.items), 0
        for i in sequence:
            size, align = self.items[i][2], self.items[i][3]
            low, best = 0, None
            for o, j in sorted((offsets[j], j) for j in self.meet[i] if offsets[j] is not None):
                at = -(-low // align) * align
                if o - at >= size and (best is None or o - at < best[0]):
                    best = (o - at, at)
                low = max(low, o + self.items[j][2])
            offsets[i] = best[1] if best else -(-low // align) * align
            peak = max(peak, offsets[i] + size)
        return peak, offsets

    def by(self, key):
        return sorted(range(len(self.items)), key=key)

    def climb(self, sequence, turns):
        """Swaps a buffer at the top with another one, as often, and keeps what is no worse."""
        sequence, state = list(sequence), 1
        peak, offsets = self.place(sequence)
        for _ in range(turns):
            top = next(k for k, i in enumerate(sequence) if offsets[i] + self.items[i][2] == peak)
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            other = (state >> 33) % len(sequence)
            sequence[top], sequence[other] = sequence[other], sequence[top]
            got, placed = self.place(sequence)
            if got <= peak:
                peak, offsets = got, placed
            else:
                sequence[top], sequence[other] = sequence[other], sequence[top]
        return peak


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--planner")
    ap.add_argument("--capacity", type=int)
    ap.add_argument("--climb", type=int, default=500, help="turns of the hill climb")
    ap.add_argument("--most", type=int, default=2000, help="buffers beyond which the others are not tried")
    ap.add_argument("paths", nargs="*", type=pathlib.Path, default=[shared.ROOT / "benches" / "packing"])
    a = ap.parse_args()
    planner = a.planner or shared.planner()
    files = [f for p in a.paths for f in (sorted(p.rglob("*.csv")) if p.is_dir() else [p])]
    print("| problem | buffers | bound | greedy by size | in order of birth | hill climb | ours | ours ÷ bound | proven | steps | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    worse = []
    for path in files:
        items = read(path)
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
        # Where ours is at the bound, nobody can be lower.
        others = [None, None, None]
        if len(items) <= a.most:
            other = Greedy(items)
            by_size = other.by(lambda i: (-items[i][2], i))
            others = [other.place(by_size)[0], other.place(other.by(lambda i: (items[i][0], i)))[0]]
            others.append(other.climb(by_size, a.climb) if peak > int(low) and a.climb else None)
            if not a.capacity and any(o is not None and o < peak for o in others):
                worse.append(path.stem)
        text = lambda n: "" if n is None else f"{n:,}"
        print(f"| {path.stem.split('.')[0]} | {len(items):,} | {text(int(low))} | {text(others[0])} | {text(others[1])} | {text(others[2])} | {text(peak)} "
              f"| {peak / max(int(low), 1):.4f} | {'no' if proven.startswith('not') else 'yes'} | {text(int(steps))} | {seconds} |", flush=True)
    if worse:
        sys.exit(f"above what others do: {', '.join(worse)}")


if __name__ == "__main__":
    main()

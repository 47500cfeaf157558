#!/usr/bin/env python3
"""Print how much memory each model needs: ours as planned, beside what ONNX Runtime takes for the same run.

    ~/.cache/flightplan/venv/bin/python scripts/memory.py [ID ...]

Needs the data of scripts/setup_data.sh. All figures are bytes, for the inputs of the first data set:

naive        every tensor and workspace in memory of its own
file order   the most that is live at once with the steps in the file's order, sharing allowed
ordered      the same in the order that was chosen: no placement can be smaller (`lower_bound_bytes`)
arena        what the static executor takes, once
eager        the peak of the eager executor
ORT first    what ONNX Runtime's CPU arena takes during the first run (session creation, and with it weights, not counted), where the
             arena grows by no more than each request (`arena_extend_strategy` 1): read from its log
ORT later    what it takes on top in the second run, for the block of its memory pattern
"""

import argparse
import re
import subprocess
import sys

import shared

PEER = r"""
import pathlib, sys
import numpy, onnx, onnxruntime as ort
from onnx import numpy_helper
case = pathlib.Path(sys.argv[1])
ort.set_default_logger_severity(0)
info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
ort.create_and_register_allocator(info, ort.OrtArenaCfg(0, 1, -1, -1))
options = ort.SessionOptions()
options.intra_op_num_threads = 1
options.log_severity_level = 0
options.add_session_config_entry("session.use_env_allocators", "1")
session = ort.InferenceSession(case / "model.onnx", options, providers=["CPUExecutionProvider"])
def load(path):
    return numpy_helper.to_array(onnx.load_tensor(path))
feeds = {i.name: load(case / f"test_data_set_0/input_{j}.pb") for j, i in enumerate(session.get_inputs())}
for run in range(3):
    print(f"\nRUN {run}", file=sys.stderr, flush=True)
    session.run(None, feeds)
print("\nEND", file=sys.stderr, flush=True)
"""


def peer(case):
    """Bytes by which the arena grows in each run."""
    done = subprocess.run([sys.executable, "-c", PEER, case], capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    grown, run = {}, None
    for line in done.stderr.splitlines():
        if line.startswith("RUN "):
            run = int(line[4:])
            grown[run] = 0
        elif line == "END":
            run = None
        elif found := re.search(r"Extended allocation by (\d+) bytes", line):
            if run is not None:
                grown[run] += int(found[1])
    return grown


def report(planner, case, *options):
    return shared.output([planner, "report", case / "model.onnx", "--data", case, "--json", *options])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("ids", nargs="*")
    a = ap.parse_args()
    planner, folder = shared.planner(), shared.data() / "cases"
    cases = sorted(p.parent.name for p in folder.glob("*/model.onnx"))
    names = a.ids or [name for name in cases if "@" not in name]
    print("| model | naive | file order | ordered | arena | arena / ordered | eager | ORT first | ORT later | arena / ORT first |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in names:
        case = folder / name
        ours, file = report(planner, case), report(planner, case, "--order", "file")
        grown = peer(case)
        arena, bound = ours["arena_bytes"], ours["lower_bound_bytes"]
        figures = [ours["naive_bytes"], file["lower_bound_bytes"], bound, arena]
        cells = [f"{n:,}" for n in figures] + [f"{arena / max(bound, 1):.4f}", f"{ours['eager_peak_bytes']:,}"]
        cells += [f"{grown[0]:,}", f"{grown[1]:,}", f"{arena / grown[0]:.2f}" if grown[0] else "-"]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

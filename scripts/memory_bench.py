#!/usr/bin/env python3
"""Print what each model's plan needs beside what ONNX Runtime takes for the same runs, on one machine.

    ~/.cache/flightplan/venv/bin/python scripts/memory_bench.py [--planner FILE] [ID ...]

Needs the data of scripts/setup_data.sh; builds the planner in release unless one is given. Our figures are those of `planner report` at the
shapes of a model's first reference run. ONNX Runtime is measured in a process of its own per model, one thread, with its defaults but that
weights are kept out of its arena: the growth of the process's resident memory from before the first of two runs to its highest point,
inputs and weights being there before, and what loading freed given back. That counts pages that were touched, outputs and scratch
memory included; memory that its arena kept from loading is used again without being counted, so that the figure is a low one.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

PEER = r"""
import ctypes, pathlib, sys
import numpy
import onnxruntime as ort
from onnx import TensorProto, numpy_helper
case = pathlib.Path(sys.argv[1])
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 4
options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
session = ort.InferenceSession(str((case / "model.onnx").resolve()), options, providers=["CPUExecutionProvider"])
feeds = {}
for j, i in enumerate(session.get_inputs()):
    tensor = TensorProto()
    tensor.ParseFromString((case / "test_data_set_0" / f"input_{j}.pb").read_bytes())
    feeds[i.name] = numpy_helper.to_array(tensor).copy()

def resident(key):
    line = next(l for l in open("/proc/self/status") if l.startswith(key))
    return int(line.split()[1]) * 1024

# What loading freed goes back to the system, and the highest point begins anew here.
ctypes.CDLL("libc.so.6").malloc_trim(0)
open("/proc/self/clear_refs", "w").write("5")
before = resident("VmRSS")
session.run(None, feeds)
session.run(None, feeds)
print(max(0, resident("VmHWM") - before))
"""


def dims(case):
    """`--dim` options that give every free dim what the first data set has."""
    import onnx
    model = onnx.load(str((case / "model.onnx").resolve()), load_external_data=False)
    constants = {i.name for i in model.graph.initializer}
    options = []
    for j, value in enumerate(i for i in model.graph.input if i.name not in constants):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((case / "test_data_set_0" / f"input_{j}.pb").read_bytes())
        for axis, (dim, n) in enumerate(zip(value.type.tensor_type.shape.dim, tensor.dims)):
            if dim.dim_value <= 0:
                name = f"{value.name}#{axis}" if dim.dim_param in ("", "?") else dim.dim_param
                options += [] if f"{name}={n}" in options else ["--dim", f"{name}={n}"]
    return options


def output(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")


def main():
    cache = pathlib.Path(os.environ.get("FLIGHTPLAN_DATA") or "~/.cache/flightplan").expanduser()
    root = pathlib.Path(__file__).resolve().parent.parent
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--planner")
    ap.add_argument("ids", nargs="*")
    a = ap.parse_args()
    planner = a.planner
    if planner is None:
        subprocess.run(["cargo", "build", "--release", "-q", "-p", "planner"], cwd=root, check=True)
        planner = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "release" / "planner"
    cases = sorted(c for c in (cache / "cases").iterdir() if (c / "model.onnx").exists() and "@" not in c.name)
    print("| model | each tensor apart | lower bound | arena | arena ÷ bound | eager peak | ONNX Runtime | ÷ arena |")
    print("|---|---|---|---|---|---|---|---|")
    for case in cases:
        if a.ids and case.name not in a.ids:
            continue
        # Models whose branches depend on an input are planned for the value of the run.
        fixed = ["--fix", "sr=16000"] if case.name == "silero-vad" else []
        r = json.loads(output([planner, "report", case / "model.onnx", "--json", *dims(case), *fixed]))
        peer = int(output([sys.executable, "-c", PEER, case]))
        arena, bound = r["arena_bytes"], max(r["lower_bound_bytes"], 1)
        print(f"| {case.name} | {r['naive_bytes']:,} | {r['lower_bound_bytes']:,} | {arena:,} | {arena / bound:.4f} | "
              f"{r['eager_peak_bytes']:,} | {peer:,} | {peer / max(arena, 1):.2f} |", flush=True)


if __name__ == "__main__":
    main()

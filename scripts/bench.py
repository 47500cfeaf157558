#!/usr/bin/env python3
"""Measure generated code beside ONNX Runtime, in one run on one machine, and print the table.

    ~/.cache/flightplan/venv/bin/python scripts/bench.py [--rounds 5] [--runs 20] [ID ...]

Needs the data of scripts/setup_data.sh. Each round runs ours, then theirs, each in a process of its own with one thread; the table has the
median over all runs of all rounds, and the ratio ours/theirs. `start` is from the start of `main` (ours) or of session creation (theirs)
to the first output.
"""
import argparse
import statistics
import sys

import shared

MODELS = ["vad-2k", "silero-vad-16k", "magika", "ppocr-cls", "resnet50-nsfw", "yolox-det", "crnn-lstm", "rxn-transformer"]

PEER = r"""
import json, pathlib, sys, time
import numpy
import onnxruntime as ort
from onnx import TensorProto, numpy_helper
case, runs = pathlib.Path(sys.argv[1]), int(sys.argv[2])
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 4
begin = time.perf_counter()
session = ort.InferenceSession(str((case / "model.onnx").resolve()), options, providers=["CPUExecutionProvider"])
feeds = {}
for j, i in enumerate(session.get_inputs()):
    tensor = TensorProto()
    tensor.ParseFromString((case / "test_data_set_0" / f"input_{j}.pb").read_bytes())
    feeds[i.name] = numpy_helper.to_array(tensor)
session.run(None, feeds)
start = time.perf_counter() - begin
times = []
for _ in range(runs):
    t = time.perf_counter()
    session.run(None, feeds)
    times.append((time.perf_counter() - t) * 1e3)
print(json.dumps({"start_ms": start * 1e3, "runs": times}))
"""


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--runs", type=int, default=20)
    ap.add_argument("ids", nargs="*")
    a = ap.parse_args()
    planner = shared.planner()
    print(f"{'model':18} {'ours ms':>10} {'theirs ms':>10} {'ratio':>6} {'start ms':>9} {'theirs':>9} {'ratio':>6} {'arena':>12}")
    for name in a.ids or MODELS:
        case = shared.data() / "cases" / name
        ours, theirs, starts, peer_starts, arena = [], [], [], [], 0
        for _ in range(a.rounds):
            got = shared.output([planner, "bench", case / "model.onnx", "--data", case, "--runs", str(a.runs), "--json"])
            ours.append(got["median_ms"])
            starts.append(got["load_ms"] + got["first_run_ms"])
            arena = got["arena_bytes"]
            peer = shared.output([sys.executable, "-c", PEER, case, str(a.runs)])
            theirs.append(statistics.median(peer["runs"]))
            peer_starts.append(peer["start_ms"])
        o, t, s, p = map(statistics.median, (ours, theirs, starts, peer_starts))
        print(f"{name:18} {o:10.3f} {t:10.3f} {o / t:6.2f} {s:9.2f} {p:9.2f} {s / p:6.3f} {arena:12,}", flush=True)


if __name__ == "__main__":
    main()

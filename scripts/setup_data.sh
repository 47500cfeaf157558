#!/bin/sh
# Put all test data in place: models, their reference cases, and the ONNX backend cases.
#
#   scripts/setup_data.sh
#
# Everything goes below $FLIGHTPLAN_DATA, else ~/.cache/flightplan. Needs Python 3.11 or newer, npm, and
# access to PyPI and npm. A step whose result is there already, made from the same scripts and package
# versions, is skipped; remove the folder to start over.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
cache=${FLIGHTPLAN_DATA:-$HOME/.cache/flightplan}
export FLIGHTPLAN_DATA="$cache"
venv=$cache/venv
py=$venv/bin/python
mkdir -p "$cache"

# stamp FILE... : one digest for the contents of the files
stamp() {
    cat "$@" | sha256sum | cut -d' ' -f1
}
current() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

want=$(stamp "$here/requirements.txt")
if current "$venv/.stamp" "$want" && "$py" -c 'import onnx, onnxruntime, numpy' 2>/dev/null; then
    echo "venv: already there"
else
    python3 -m venv --clear "$venv"
    "$py" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
    echo "$want" >"$venv/.stamp"
    echo "venv: installed"
fi

"$py" "$here/fetch_models.py"

want=$(stamp "$here/requirements.txt" "$here/models.toml" "$here/reference.py")
if current "$cache/cases/.stamp" "$want"; then
    echo "cases: already there"
else
    "$py" "$here/reference.py" --variants
    echo "$want" >"$cache/cases/.stamp"
fi

want=$(stamp "$here/requirements.txt" "$here/onnx_cases.py")
if current "$cache/onnx-cases/.stamp" "$want"; then
    echo "onnx-cases: already there"
else
    "$py" "$here/onnx_cases.py"
    echo "$want" >"$cache/onnx-cases/.stamp"
fi

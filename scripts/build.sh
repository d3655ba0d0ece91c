#!/usr/bin/env bash
# Configures and builds with every option ON in build/ (or $BUILD), then installs the Python package into .venv from
# that same build. Run again it does only what changed.
#
#   scripts/build.sh [--tests]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
tests=OFF
[ "${1:-}" = --tests ] && tests=ON
say() { echo "build: $*"; }
export CCACHE_NOHASHDIR=1   # build/ and build-minimal/ share results

options=(-DPLAIT_PYTHON=ON -DPython_EXECUTABLE="$PWD/.venv/bin/python" -DCMAKE_BUILD_TYPE=Release)
[ $tests = OFF ] && [ -e "$build/CMakeCache.txt" ] || options+=(-DPLAIT_TESTS=$tests)
say "configuring $build"
cmake -S . -B "$build" -G Ninja "${options[@]}" >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
grep -h '^-- plait:' "$build.log" || true
mv "$build.log" "$build/configure.log"
say "building"
if ! cmake --build "$build" >"$build/build.log" 2>&1; then
    grep -E 'FAILED|error|undefined|No space' "$build/build.log" | head -40 >&2
    say "failed; all of it is in $build/build.log" >&2
    exit 1
fi
tail -1 "$build/build.log"

# pip installs only what changed since the last time: the wheel comes from the same build folder.
stamp=.venv/plait-installed
if [ ! -e "$stamp" ] || [ -n "$(find "$build/python" python/plait schedules pyproject.toml -newer "$stamp" -type f -print -quit 2>/dev/null)" ]; then
    say "installing the package into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall \
        --config-settings=build-dir="$build" .
    touch "$stamp"
fi
say "done"

#!/usr/bin/env bash
# Every test that needs no GPU: sets up (with torch), builds with all options ON in build/ and with all OFF in
# build-minimal/, runs the C++ tests of both and the Python tests. The last line is `N tests, F failed, S skipped`.
set -euo pipefail
cd "$(dirname "$0")/.."
started=$SECONDS
export CCACHE_NOHASHDIR=1
scripts/setup.sh --torch
scripts/build.sh --tests

echo "test: building build-minimal with every option OFF"
cmake -S . -B build-minimal -G Ninja -DCMAKE_BUILD_TYPE=Release -DPLAIT_HOST_JIT=OFF -DPLAIT_CUDA=OFF -DPLAIT_VERBS=OFF \
    -DPLAIT_EFA=OFF -DPLAIT_PYTHON=OFF -DPLAIT_TESTS=ON >/dev/null
if ! cmake --build build-minimal >build-minimal/build.log 2>&1; then
    grep -E 'FAILED|error|undefined|No space' build-minimal/build.log | head -40 >&2
    exit 1
fi
tail -1 build-minimal/build.log

results=build/test-results
rm -rf "$results" && mkdir -p "$results"
broken=0
run_gtest() {   # binary, name of its report
    echo "test: $2"
    local rc=0
    "$1" --gtest_brief=1 --gtest_output="xml:$results/$2.xml" || rc=$?
    # gtest exits 1 for failed tests and counts them; anything else, or no report, is a crash
    if [ $rc -gt 1 ] || [ ! -s "$results/$2.xml" ]; then echo "test: $2 ended with exit code $rc" >&2; broken=$((broken + 1)); fi
}
for folder in build build-minimal; do
    for binary in "$folder"/bin/test_*; do
        [ -x "$binary" ] && run_gtest "$binary" "$folder-$(basename "$binary")"
    done
done
echo "test: programs on real verbs (Soft-RoCE in an emulated machine)"
ctest --test-dir build -L net --output-junit "$PWD/$results/net.xml" --output-on-failure | tail -8 || true
[ -s "$results/net.xml" ] || { echo "test: ctest wrote no report" >&2; broken=$((broken + 1)); }
echo "test: python"
rc=0
.venv/bin/python -m pytest --junitxml="$results/pytest.xml" || rc=$?
[ $rc -le 1 ] || { echo "test: pytest ended with exit code $rc" >&2; broken=$((broken + 1)); }

echo "test: took $((SECONDS - started)) s"
.venv/bin/python scripts/count_tests.py "$results" "$broken"

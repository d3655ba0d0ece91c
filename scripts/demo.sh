#!/usr/bin/env bash
# From a fresh machine to a checked result: sets up, builds, and runs AllGather + GEMM on a simulated cluster of two
# nodes with two GPUs each. Exit 0 only if every output tile is correct. Needs no GPU and no torch.
set -euo pipefail
cd "$(dirname "$0")/.."
started=$SECONDS
scripts/setup.sh
scripts/build.sh
.venv/bin/plait run ag_gemm --target host --topology 2x2 --shape M=2048,N=1024,K=1024 --out build/demo
echo "demo: done after $((SECONDS - started)) s; next: .venv/bin/plait show ag_gemm plan, .venv/bin/plait show ag_gemm source"

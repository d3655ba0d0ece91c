#!/usr/bin/env bash
# Sets a machine up to build plait: system packages (Debian 12; Ubuntu 24.04 has the same names, not run there) and a
# virtual environment in .venv/. Run again it only checks.
#
#   scripts/setup.sh [--torch] [--no-system]
#     --torch      also PyTorch, which the tests use beside numpy (demo and package do without)
#     --no-system  leave the system's packages alone
#   PYTHON=python3.12 chooses the interpreter of a new .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

with_torch=0 with_system=1
for argument in "$@"; do
    case "$argument" in
        --torch) with_torch=1 ;;
        --no-system) with_system=0 ;;
        *) echo "setup: unknown argument $argument (known: --torch, --no-system)" >&2; exit 2 ;;
    esac
done
say() { echo "setup: $*"; }

# Needed to build; without the optional ones a part of plait is switched off with a message.
required=(g++ cmake ninja-build python3 python3-venv python3-dev libfmt-dev nlohmann-json3-dev libcli11-dev)
optional=(ccache libboost-context-dev libclang-19-dev llvm-19-dev libgtest-dev libbenchmark-dev libibverbs-dev)

is_installed() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

install_system_packages() {
    command -v dpkg-query >/dev/null || { say "no dpkg here: install what docs/guide.md lists by hand, or pass --no-system"; return; }
    local missing=() package
    for package in "${required[@]}" "${optional[@]}"; do
        is_installed "$package" || missing+=("$package")
    done
    if [ ${#missing[@]} = 0 ]; then say "system packages: all there"; return; fi
    local root=()
    if [ "$(id -u)" != 0 ]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            root=(sudo -n env DEBIAN_FRONTEND=noninteractive)
        else
            say "not root and no sudo without a password; as root run: apt-get install ${missing[*]}" >&2
            for package in "${required[@]}"; do is_installed "$package" || exit 1; done
            say "going on: what is missing is optional"
            return
        fi
    fi
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    "${root[@]}" apt-get update -qq
    if ! "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; then
        # One name that this release lacks must not stop the others.
        for package in "${missing[@]}"; do
            "${root[@]}" apt-get install -y -qq --no-install-recommends "$package" >/dev/null || say "could not install $package"
        done
    fi
    for package in "${required[@]}"; do
        is_installed "$package" || { say "$package is required and is not installed" >&2; exit 1; }
    done
}

make_venv() {
    local python=${PYTHON:-}
    [ -n "$python" ] || { [ -x /usr/bin/python3 ] && python=/usr/bin/python3 || python=python3; }
    if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
        say "making .venv with $("$python" --version)"
        rm -rf .venv
        "$python" -m venv .venv
    fi
}

# pip runs only where the list differs from the one that was installed last.
install_python_packages() {
    local stamp=$1 wanted
    shift
    wanted=$(printf '%s\n' "$@")
    if [ "$(cat ".venv/$stamp" 2>/dev/null)" = "$wanted" ]; then say "python packages ($stamp): all there"; return; fi
    say "installing into .venv: $*"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
    printf '%s\n' "$wanted" >".venv/$stamp"
}

[ $with_system = 0 ] || install_system_packages
make_venv
build_packages=("scikit-build-core>=0.11,<2" "nanobind>=2.4,<4")
run_packages=("numpy>=1.26" "typer>=0.15" "rich>=13" "matplotlib>=3.8")
nvrtc="nvidia-cuda-nvrtc==13.0.*"     # the newest whose PTX and messages match a 13.0 driver
install_python_packages packages.txt "${build_packages[@]}" "${run_packages[@]}" "$nvrtc"
if [ $with_torch = 1 ]; then
    install_python_packages packages-test.txt "pytest>=8" "hypothesis>=6.100" torch
    # torch brings its own NVRTC of a newer minor version into the same place; the generated code is pinned to one.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "$nvrtc"
fi
say "done"

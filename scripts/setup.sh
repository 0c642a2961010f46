#!/usr/bin/env bash
# Makes a clone ready to use: system packages, .venv with the pinned packages, the C++ build, and the package visible in
# .venv. Can be run again at any time: what is there already is left alone.
#
# The package is not installed into .venv: a .pth file points to build/release/python, where the build puts the extension
# beside links to python/graphtune. So one build serves C++ and Python, and edits of Python files are live.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/system_packages.sh
. scripts/onnxruntime_headers.sh

install_packages \
  "make command:make" \
  "g++ command:g++" \
  "cmake command:cmake" \
  "ninja-build command:ninja" \
  "ccache command:ccache" \
  "python3 python" \
  "nlohmann-json3-dev header:nlohmann/json.hpp" \
  "libfmt-dev header:fmt/format.h" \
  "libcli11-dev header:CLI/CLI.hpp" \
  "libssl-dev header:openssl/evp.h" \
  "libgtest-dev header:gtest/gtest.h" \
  "libgmock-dev header:gmock/gmock.h" \
  "libbenchmark-dev header:benchmark/benchmark.h"

# The core and the tool need none of the Python packages: they are compiled while those are installed. What fails here
# fails again below, where it is shown.
core_build=""
if [ ! -e build/release/build.ninja ]; then
  echo "==> Building the core in the background"
  {
    cmake --preset release -DGRAPHTUNE_PYTHON=OFF -DGRAPHTUNE_ENGINES=OFF &&
      cmake --build build/release -j "$(nproc)" --target graphtune_package
  } >/dev/null 2>&1 &
  core_build=$!
  trap 'kill "$core_build" 2>/dev/null || true' EXIT
fi

if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
  echo "==> Making .venv with $("$PYTHON" --version)"
  "$PYTHON" -m venv --clear .venv
fi

stamp=.venv/requirements.sha256
if ! sha256sum --check --status "$stamp" 2>/dev/null; then
  echo "==> Installing the packages of requirements.txt into .venv"
  # Byte code of all files would take longer than that of the few which are imported, on their first import.
  .venv/bin/python -m pip install --disable-pip-version-check --no-compile -r requirements.txt
  sha256sum requirements.txt >"$stamp"
fi

fetch_onnxruntime_headers .venv/include

# An installed copy would hide the build's.
if [ -d "$(echo .venv/lib/python3*/site-packages)/graphtune" ]; then
  echo "==> Removing the copy of graphtune that is installed in .venv"
  .venv/bin/python -m pip uninstall -q -y graphtune
fi

if [ -n "$core_build" ]; then
  wait "$core_build" || true
  trap - EXIT
fi
# Also where an earlier run was interrupted before it came this far.
if ! grep -qs '^GRAPHTUNE_PYTHON:BOOL=ON' build/release/CMakeCache.txt; then
  echo "==> Configuring build/release"
  cmake --preset release -DGRAPHTUNE_PYTHON=ON -DGRAPHTUNE_ENGINES=ON
fi
echo "==> Building build/release"
cmake --build build/release -j "$(nproc)" --target graphtune_package

site_packages=$(echo .venv/lib/python3*/site-packages)
echo "$PWD/build/release/python" >"$site_packages/graphtune.pth"
ln -sfn "$PWD/build/release/bin/graphtune" .venv/bin/graphtune

#!/usr/bin/env bash
# fuzz.sh SECONDS: builds the fuzz targets and runs each of them that long, from the seeds in tests/fuzz/corpus/TARGET.
# What it finds new is kept in build/fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/system_packages.sh
install_packages "clang-14 command:clang++-14" \
  "libclang-rt-14-dev file:/usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a"

cmake --preset fuzz
cmake --build build/fuzz -j "$(nproc)"
for source in tests/fuzz/fuzz_*.cpp; do
  target=$(basename "$source" .cpp)
  found=build/fuzz/corpus/$target seeds=tests/fuzz/corpus/$target
  mkdir -p "$found"
  echo "==> $target: ${1:-300} seconds"
  build/fuzz/bin/"$target" -max_total_time="${1:-300}" -timeout=10 -print_final_stats=1 \
    -artifact_prefix=build/fuzz/"$target"- "$found" $([ -d "$seeds" ] && echo "$seeds")
done

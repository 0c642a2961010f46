#!/usr/bin/env bash
# All static checks; goes through all of them and fails if any found something.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/system_packages.sh
install_packages "clang-format-14 command:clang-format-14" "clang-tidy-14 command:clang-tidy-14" || exit 1

status=0
check() {
  echo "==> $1"
  shift
  "$@" || status=1
}

mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.h' '*.cpp')
mapfile -t core < <(ls graphtune/*.cpp graphtune/tune/*.cpp graphtune/engines/*.cpp tools/*.cpp 2>/dev/null)
tidy() {
  printf '%s\n' "${core[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy-14 -p build/release --quiet \
    --extra-arg=-Wno-unknown-warning-option 2> >(grep -v 'warnings generated' >&2)
}

check "clang-format" clang-format-14 --dry-run -Werror "${sources[@]}"
check "clang-tidy" tidy
check "ruff check" .venv/bin/ruff check .
check "ruff format" .venv/bin/ruff format --check .
# The build's folder, because the extension's stub lies there beside the links to the sources.
check "mypy" env MYPYPATH=build/release/python .venv/bin/mypy -p graphtune
[ $status = 0 ] && echo "lint: clean"
exit $status

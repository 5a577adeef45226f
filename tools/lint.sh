#!/usr/bin/env bash
# Form and lints: tools/lint.sh [--all | --since COMMIT]. clang-tidy, which takes seconds a source, looks at the C++ sources
# that differ from COMMIT (default: the commit before) if they are no more than 40, with --all at every one, but not at those
# of experiments/peers/libraries/, whose headers are no dependency; what it finds in kernels/ and models/ fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

since=$(git rev-parse --verify --quiet HEAD~1 || true)
while (( $# )); do
  case $1 in
    --all) since="" ;;
    --since) since=${2:?"--since needs a commit"}; shift ;;
    --help|-h) sed -n '2,4s/^# //p' tools/lint.sh; exit 0 ;;
    *) echo "lint.sh: unknown option '$1'; known: --all, --since COMMIT" >&2; exit 2 ;;
  esac
  shift
done

echo "== clang-format"
git ls-files -z -- '*.h' '*.cpp' | xargs -0 -r clang-format --dry-run -Werror

echo "== ruff"
# Debian 12 and Ubuntu 24.04 have none: an environment of its own, with the version that ruff.toml wants.
ruff=build/checks/bin/ruff
wanted=$(sed -n 's/^required-version = "==\([0-9.]*\)".*/\1/p' ruff.toml)
if [[ $("$ruff" --version 2>/dev/null) != "ruff $wanted" ]]; then
  /usr/bin/python3 -m venv build/checks
  build/checks/bin/pip install --quiet "ruff==$wanted"
fi
"$ruff" check --quiet .
"$ruff" format --check --quiet .

echo "== shellcheck"
git ls-files -z -- '*.sh' '*.sbatch' .ci/run | xargs -0 -r shellcheck

looked_at=('*.cpp' ':!experiments/peers/libraries/')
if [[ -n $since ]]; then
  mapfile -t sources < <(git diff --name-only --diff-filter=d "$since" -- "${looked_at[@]}")
else
  mapfile -t sources < <(git ls-files -- "${looked_at[@]}")
fi
echo "== clang-tidy of ${#sources[@]} sources"
(( ${#sources[@]} )) || exit 0
if [[ -n $since ]] && (( ${#sources[@]} > 40 )); then
  echo "left out: more than 40; tools/lint.sh --all takes all of them"
  exit 0
fi
# Configured, not built: clang reads no header that g++ has precompiled.
cmake -S . -B build/lint -G Ninja -DSCALING_PCH=OFF -DCMAKE_BUILD_TYPE=Release >/dev/null
printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/lint --quiet 2>/dev/null

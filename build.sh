#!/usr/bin/env bash
# Configures and builds one preset of CMakePresets.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage="./build.sh [release|debug|sanitize|portable] [TARGET...]    Example: ./build.sh release perplexity"
preset=${1:-release}
shift || true
case $preset in
  release|debug|sanitize|portable) ;;
  --help|-h) echo "$usage"; exit 0 ;;
  *) echo "build.sh: '$preset' is no preset; $usage" >&2; exit 2 ;;
esac

# A compiler process may need 1.5 GiB: no more of them than cores or than available memory holds.
available_mib=$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
jobs=$(( available_mib / 1536 ))
cores=$(nproc)
(( jobs > cores )) && jobs=$cores
(( jobs < 1 )) && jobs=1

# Quiet unless it fails: what a user needs to see is the first error.
log=build/configure-$preset.log
mkdir -p build
if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  echo "error: cmake could not configure; ./install_dependencies.sh lists and installs what it needs" >&2
  exit 1
fi
cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}

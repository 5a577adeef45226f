#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'EOF'
./run_tests.sh [--fast] [--sanitize | --portable | --debug] [-- CTEST_OPTIONS]
  --fast       unit tests alone, in C++: no program is built or run, no figure drawn
  --sanitize   the C++ tests of an x86-64-v2 build under AddressSanitizer and UndefinedBehaviorSanitizer
  --portable   the C++ tests of a build for any x86-64-v2 processor
  --debug      the C++ tests unoptimised
With CTEST_OPTIONS no Python test is run. Example: ./run_tests.sh -- -R kernels
EOF
}

# The Python tests of a folder; what they say is printed whole when they end.
# shellcheck disable=SC2317  # xargs calls it
test_folder() {
  local status=0 said with=$python
  # The scorers' own tests are skipped without their packages.
  [[ $1 == experiments/scoring && -x build/scoring/bin/python ]] && with=build/scoring/bin/python
  said=$("$with" -m unittest discover -s "$1" -t "$1" -p '*test*.py' 2>&1) || status=$?
  printf '%s: %s\n' "$1" "$said"
  return "$status"
}
export -f test_folder

preset=release
fast=no
chosen=no
while (( $# )); do
  case $1 in
    --fast) fast=yes ;;
    --sanitize|--portable|--debug) preset=${1#--} ;;
    --help|-h) usage; exit 0 ;;
    --) shift; chosen=yes; break ;;
    *) echo "run_tests.sh: unknown option '$1'" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

./install_dependencies.sh
echo "== build ($preset)"
if [[ $fast == yes ]]; then
  ./build.sh "$preset" unit_tests
  set -- -L unit "$@"
else
  ./build.sh "$preset"
fi
built=$SECONDS
status=0
log=""
if [[ $preset == release && $fast == no && $chosen == no ]]; then
  echo "== Python tests: beside those in C++, told behind them"
  python=/usr/bin/python3
  [[ -x $python ]] || python=python3
  export python PYTHONDONTWRITEBYTECODE=1
  log=build/python-tests.log
  # The longest first; half of the processors, since ctest takes them all. A group of their own, for who interrupts.
  set -m
  { printf '%s\n' tests/plots tests/tools tests experiments/peers experiments/scoring \
    | xargs -P "$(( ($(nproc) + 1) / 2 ))" -I FOLDER bash -c "test_folder FOLDER"; } >"$log" 2>&1 &
  set +m
  beside=$!
  trap 'kill -- "-$beside" 2>/dev/null; exit 130' INT TERM
fi
echo "== C++ tests ($preset)"
ctest --preset "$preset" --parallel "$(nproc)" --progress "$@" || status=$?
if [[ -n $log ]]; then
  wait "$beside" || status=1
  echo "== Python tests"
  cat "$log"
fi
echo "built in $built s, tested in $(( SECONDS - built )) s"
exit "$status"

#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that are missing; asks for sudo only if some are and it is not root.
#   --checks  also clang-format, clang-tidy, shellcheck and python3-venv (for ruff), which only tools/lint.sh uses,
#             chromium, which a test of report.html runs in, and scikit-learn, which tools/glue_baselines.py needs
#   --peers   also what a Python virtual environment needs
set -euo pipefail

# package, or package:command where the command is what counts, whoever brought it.
required=(g++:g++ cmake:cmake ninja-build:ninja pkg-config:pkg-config git:git
  libeigen3-dev libxtensor-dev libbenchmark-dev libboost-dev libboost-program-options-dev libhwy-dev
  nlohmann-json3-dev librandom123-dev libgtest-dev
  zlib1g-dev libzstd-dev libsentencepiece-dev libxxhash-dev
  python3 python3-numpy python3-pandas python3-matplotlib python3-markdown)
# Peers: kernel sets that exist when their library does. With --checks also the browser and scikit-learn, whose tests are
# skipped without.
optional=(libopenblas-openmp-dev libdnnl-dev)

for argument in "$@"; do
  case $argument in
    --checks)
      required+=(clang-format:clang-format clang-tidy:clang-tidy shellcheck:shellcheck python3-venv)
      optional+=(chromium:chromium python3-sklearn) ;;
    --peers) required+=(python3-venv) ;;
    --help|-h) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
    *) echo "install_dependencies.sh: unknown option '$argument'; known: --checks --peers" >&2; exit 2 ;;
  esac
done

present() {
  local package=${1%%:*} command=""
  [[ $1 == *:* ]] && command=${1#*:}
  [[ -n $command ]] && command -v "$command" >/dev/null && return 0
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]]
}

missing_of() {
  local entry
  for entry in "$@"; do present "$entry" || echo "${entry%%:*}"; done
}

if ! command -v apt-get >/dev/null; then
  echo "note: this is no Debian or Ubuntu; the build needs the equivalents of: ${required[*]%%:*}" >&2
  exit 0
fi

mapfile -t missing < <(missing_of "${required[@]}")
mapfile -t missing_optional < <(missing_of "${optional[@]}")
(( ${#missing[@]} + ${#missing_optional[@]} )) || exit 0

run=()
if (( EUID != 0 )); then
  if ! command -v sudo >/dev/null; then
    if (( ${#missing[@]} == 0 )); then
      echo "note: without ${missing_optional[*]} what needs them is left out (not root, no sudo)" >&2
      exit 0
    fi
    echo "error: these packages are missing, and this is neither root nor is there sudo; as root, run:" >&2
    echo "  apt-get install ${missing[*]} ${missing_optional[*]}" >&2
    exit 1
  fi
  run=(sudo)
fi

# install PACKAGE...: prints apt's own words only when it fails.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >"$log" 2>&1
}

echo "installing ${missing[*]} ${missing_optional[*]}"
"${run[@]}" apt-get update >"$log" 2>&1 || echo "note: apt-get update failed; trying the package lists at hand" >&2
if (( ${#missing[@]} )) && ! install "${missing[@]}"; then
  tail -n 5 "$log" >&2
  echo "error: could not install ${missing[*]} (offline, or not in this release's sources?)" >&2
  echo "  install them by hand (Ubuntu: the universe component must be enabled) and run this again" >&2
  exit 1
fi
for package in "${missing_optional[@]}"; do
  install "$package" || echo "note: $package could not be installed; what needs it is left out" >&2
done

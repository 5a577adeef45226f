#!/usr/bin/env bash
# The whole study in one command: install, build, measure every experiment, draw, report. ./run_all.sh --help lists the
# options; tools/run_plan.py does the work and experiments/plan.toml says what is measured.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# The distribution's own Python, for which install_dependencies.sh brings numpy and matplotlib.
find_python() {
  local candidate
  for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      python=$candidate
      return
    fi
  done
  return 1
}

if ! find_python; then
  case " $* " in
    *" --help "* | *" -h "* | *" --plan "*)
      echo "run_all.sh: needs Python 3.11 or newer, which ./install_dependencies.sh installs" >&2
      exit 1 ;;
  esac
  "$here/install_dependencies.sh"
  find_python || { echo "error: this needs Python 3.11 or newer as python3" >&2; exit 1; }
fi

export PYTHONDONTWRITEBYTECODE=1
exec "$python" "$here/tools/run_plan.py" "$@"

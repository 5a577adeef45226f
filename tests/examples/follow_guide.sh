#!/usr/bin/env bash
# Runs the commands of a section of docs/adding.md as they stand there: follow_guide.sh HEADING.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
commands=$(awk -v heading="## $1" '
  /^## / {here = ($0 == heading)}
  here && /^```/ {inside = ($0 == "```bash"); next}
  inside' docs/adding.md)
[[ -n $commands ]] || { echo "follow_guide.sh: docs/adding.md has no commands below '$1'" >&2; exit 1; }
rm -rf build/my_layer
bash -euxo pipefail -c "$commands"

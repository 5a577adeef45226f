#!/bin/sh
# What programs that write records are compiled from: the names of the checkout's sources, and git's hashes of what they
# hold. `sources.sh FILE` writes it there when a program is linked; a program compares it with what the checkout has when it
# runs (experiments/study/provenance.h). Without git it writes nothing.
cd "$(dirname "$0")/.." || exit 1
files=$(git ls-files --cached --others --exclude-standard -- kernels models 'experiments/*/*.cpp' 'experiments/*/*.h' \
          ':!experiments/peers' 2>/dev/null | LC_ALL=C sort -u | while read -r file; do [ -f "$file" ] && echo "$file"; done)
[ -n "$files" ] || exit 0
told=$(echo "$files"; echo "$files" | git hash-object --stdin-paths) || exit 0
if [ -n "$1" ]; then echo "$told" > "$1"; else echo "$told"; fi

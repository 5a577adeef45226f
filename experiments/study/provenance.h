// Where a number comes from: source, compiler, machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace scaling {

struct Provenance {
  std::string commit;       ///< 12 digits, or "unknown" outside a git checkout
  bool dirty = false;       ///< the tree differs from the commit, results/ and plots/ not counted,
                            ///< or the program was built from other sources than are there now
  std::string program;      ///< fingerprint of the running program's file
  bool is_of_tree = false;  ///< that file is in the tree's build folder, and of the sources there
  bool is_stale = false;    ///< it is there, and of other sources than the tree holds now
  std::string compiler;     ///< "GNU 12.2.0"
  std::string flags;
  bool native = false;  ///< compiled for this machine's instruction set
  std::string cpu;      ///< cpu_name()
  int cores = 0;        ///< processors this process may use
  std::uint64_t memory_bytes = 0;
  std::string machine;  ///< eight digits from cpu, cores and memory in GiB
};

/// Reads it all; git and /proc may be absent ("unknown").
Provenance read_provenance();

/// Whether a program was built from other sources than `source_dir` holds now, by what its link
/// noted (cmake/sources.sh); false where either is not told.
bool is_stale(const std::string& note, const std::string& source_dir);

/// git's ids of files and folders of the project at HEAD; empty if one of them is edited or git
/// does not know them all.
std::string git_ids(const std::vector<std::string>& paths);

/// A short, stable name for a text: 16 hexadecimal digits of its 64-bit FNV-1a hash.
std::string fingerprint(const std::string& text);

/// A processor's model name and family-model-stepping, "AMD EPYC (25-17-1)", from the text of
/// /proc/cpuinfo: virtual machines give processors of several generations one name. "unknown" if it
/// tells none.
std::string cpu_name(const std::string& cpuinfo);

/// The machine's short name from the facts that make timings comparable.
std::string machine_key(const std::string& cpu, int cores, std::uint64_t memory_bytes);

/// Now, UTC, as 2026-01-31T12:00:00Z.
std::string utc_date();

/// The project's folder at build time.
std::string source_dir();

/// Below the project's folder where it is, so that records hold no one's home; else its last part.
std::string portable_path(const std::string& path);

}  // namespace scaling

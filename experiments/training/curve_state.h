// What lies beside a curve's checkpoints: whose they are, and what must stay the same when it goes
// on.
#pragma once

#include <boost/interprocess/sync/file_lock.hpp>
#include <optional>
#include <string>

namespace scaling {

struct CurveState {
  std::string key;     ///< of the curve (Record::key)
  std::string commit;  ///< that began it, "-dirty" behind if the tree was
  std::string gemm;    ///< library of the products: "auto" is another one in another build
};

/// Reads <folder>/state.json; nothing if it is missing or unreadable.
std::optional<CurveState> read_curve_state(const std::string& folder);
/// Makes the folder and writes the file whole. Throws UserError.
void write_curve_state(const std::string& folder, const CurveState& state);

/// Keeps other processes from training into a folder of checkpoints while this exists, by the file
/// <folder>.lock. The system lets go of it however the process ends, and as soon as this process
/// closes that file anywhere else.
class CurveLock {
 public:
  /// Throws UserError if the file cannot be made.
  explicit CurveLock(const std::string& folder);
  CurveLock(const CurveLock&) = delete;
  CurveLock& operator=(const CurveLock&) = delete;

  /// False if another process has it.
  bool held() const { return held_; }

 private:
  boost::interprocess::file_lock lock_;
  bool held_ = false;
};

}  // namespace scaling

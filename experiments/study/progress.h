// What a user sees while waiting: the plan first, then where it stands.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace scaling {

/// "42 s", "3 min 20 s", "1 h 5 min".
std::string readable_seconds(double seconds);
/// "3.1 GB".
std::string readable_bytes(double bytes);

/// One line kept up to date on a terminal, or plain lines (one per finished row) elsewhere.
class Progress {
 public:
  /// The whole run's estimate; time left is what is not done of it, at the pace so far: once a
  /// twentieth is done, and slower than the estimate, never faster.
  explicit Progress(double estimated_seconds);
  ~Progress();

  /// Shown on terminals only, as much as their width takes: it changes many times a second.
  void live(const std::string& text);
  /// A line that stays, on terminals above the live one; `seconds` of the estimate are done with
  /// it.
  void done(const std::string& text, double seconds);
  /// A better estimate of what is left, known meanwhile.
  void expect(double seconds_left);
  bool on_terminal() const { return terminal_; }

 private:
  std::string clock() const;
  void clear();

  const bool terminal_;
  double left_, done_ = 0;  ///< of the estimate, seconds
  double pace_ = 1;         ///< seconds that one of the estimate has taken so far
  std::size_t shown_ = 0;
  std::chrono::steady_clock::time_point start_, last_, estimated_;
};

}  // namespace scaling

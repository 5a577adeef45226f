// Live line and plain lines on standard error; standard output is left to results.
#include "experiments/study/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kernels/clock.h"

namespace scaling {
namespace {

/// Columns that a line may take without wrapping.
std::size_t line_width() {
  constexpr std::size_t kUnknown = 100;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknown;
  return std::size_t(size.ws_col) - 1;
}

}  // namespace

std::string readable_seconds(double seconds) {
  const long s = std::lround(std::max(seconds, 0.0));
  char text[64];
  if (s < 60) {
    std::snprintf(text, sizeof text, "%ld s", s);
  } else if (s < 3600) {
    std::snprintf(text, sizeof text, "%ld min %ld s", s / 60, s % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld h %ld min", s / 3600, s % 3600 / 60);
  }
  return text;
}

std::string readable_bytes(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
  return text;
}

Progress::Progress(double estimated_seconds)
    : terminal_(isatty(STDERR_FILENO) != 0),
      left_(estimated_seconds),
      start_(Clock::now()),
      estimated_(start_) {}

Progress::~Progress() { clear(); }

std::string Progress::clock() const {
  std::string text = "[";
  text += readable_seconds(seconds_since(start_));
  text += ", about ";
  text += readable_seconds(left_ * pace_);
  return text += " left] ";
}

void Progress::clear() {
  if (shown_) std::fprintf(stderr, "\r%*s\r", int(shown_), "");
  shown_ = 0;
}

void Progress::live(const std::string& text) {
  if (!terminal_ || (shown_ && seconds_since(last_) < 0.2)) return;
  clear();
  const std::size_t width = line_width();
  std::string line = clock() + text;
  // If not all fits, the time passed is missed least.
  if (line.size() > width) line = "[" + readable_seconds(left_ * pace_) + " left] " + text;
  if (line.size() > width) line.resize(width);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  shown_ = line.size();
  last_ = Clock::now();
}

void Progress::done(const std::string& text, double seconds) {
  clear();
  left_ = std::max(left_ - seconds, 0.0);
  done_ += seconds;
  constexpr double kEnough = 0.05;
  if (done_ > kEnough * (done_ + left_)) {
    pace_ = std::max(1.0, seconds_since(estimated_) / done_);
  }
  std::fprintf(stderr, "%s%s\n", clock().c_str(), text.c_str());
}

void Progress::expect(double seconds_left) {
  left_ = seconds_left;
  done_ = 0;
  pace_ = 1;
  estimated_ = Clock::now();
}

}  // namespace scaling

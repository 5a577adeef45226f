// Fork, one answer through a pipe, wait.
#include "experiments/instruments/child_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "experiments/study/interrupt.h"
#include "kernels/check.h"

namespace scaling {
namespace {

/// As text; bytes that are no UTF-8, as in a path, are replaced.
std::string answer_of(const std::function<nlohmann::json()>& measure) {
  nlohmann::json answer;
  try {
    answer = {{"result", measure()}};
  } catch (const Interrupted&) {
    answer = {{"interrupted", true}};
  } catch (const std::bad_alloc&) {
    answer = {{"error", "memory ran out; free some or choose a smaller model"}};
  } catch (const std::exception& error) {
    answer = {{"error", error.what()}};
  }
  return answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string end_of(int status) {
  if (!WIFSIGNALED(status)) return "the measuring process ended without an answer";
  return std::string("the measuring process was ended (") + strsignal(WTERMSIG(status)) + ")" +
         (WTERMSIG(status) == SIGKILL
              ? ", as when memory runs out; free some or choose a smaller model"
              : "; what it printed before says why");
}

void send(int pipe_end, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(pipe_end, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) done += std::size_t(n);
  }
}

std::string receive(int pipe_end) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = ::read(pipe_end, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer.data(), std::size_t(n));
  }
}

[[noreturn]] void refuse_process() {
  throw UserError(std::string("no process could be started to measure in (") +
                  std::strerror(errno) + "); end some others and repeat the command");
}

}  // namespace

nlohmann::json json_from_child(const std::function<nlohmann::json()>& measure) {
  int ends[2];
  if (::pipe(ends) != 0) refuse_process();
  std::fflush(nullptr);  // or the child would print it again
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    refuse_process();
  }
  if (child == 0) {
    ::close(ends[0]);
    send(ends[1], answer_of(measure));
    ::_exit(0);
  }
  ::close(ends[1]);
  const std::string text = receive(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const nlohmann::json answer = nlohmann::json::parse(text, nullptr, false);
  if (!answer.is_object() || WIFSIGNALED(status)) throw UserError(end_of(status));
  if (answer.contains("interrupted")) throw Interrupted{};
  if (answer.contains("error")) throw UserError(answer["error"].get<std::string>());
  return answer["result"];
}

}  // namespace scaling

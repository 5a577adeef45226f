// Two files in step, or one file's objects; nothing is passed over in silence.
#include "models/text/pairs.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernels/check.h"
#include "models/text/byte_source.h"
#include "models/text/corpus.h"
#include "models/text/json_lines.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSpace = " \t\r\n\f\v";

bool has_text(std::string_view text) {
  return text.find_first_not_of(kSpace) != std::string_view::npos;
}

enum class Line { text, blank, end };

/// One line without its end into add(char).
template <class Add>
Line read_line(ByteReader& in, const Add& add) {
  if (in.peek() < 0) return Line::end;
  bool is_text = false;
  bool held = false;  // a carriage return: it belongs to the line's end if that comes next
  for (int c = in.peek(); c >= 0; c = in.peek()) {
    in.take();
    if (c == '\n') break;
    if (held) add('\r');
    held = c == '\r';
    if (held) continue;
    add(static_cast<char>(c));
    is_text = is_text || kSpace.find(static_cast<char>(c)) == std::string_view::npos;
  }
  return is_text ? Line::text : Line::blank;
}

/// Lines that follow.
std::uint64_t rest_of(ByteReader& in) {
  std::uint64_t lines = 0;
  while (read_line(in, [](char) {}) != Line::end) ++lines;
  return lines;
}

std::string at_line(const std::string& path, std::uint64_t number) {
  return path + ":" + std::to_string(number);
}

[[noreturn]] void refuse_counts(const std::string& sources, std::uint64_t of_sources,
                                const std::string& targets, std::uint64_t of_targets) {
  throw UserError("'" + sources + "' has " + std::to_string(of_sources) + " lines and '" + targets +
                  "' " + std::to_string(of_targets) + ", so line " +
                  std::to_string(std::min(of_sources, of_targets) + 1) +
                  " has no other side; give two files whose lines belong together (--corpus or "
                  "--validation, and --target_side)");
}

[[noreturn]] void refuse_blank(const std::string& path, std::uint64_t number,
                               const std::string& other) {
  throw UserError(at_line(path, number) + ": no text; take the line out" +
                  (other.empty()
                       ? ""
                       : ", and line " + std::to_string(number) + " of '" + other + "' with it"));
}

/// The texts of each object, as many as there are choices of keys, to take(texts); flags: those
/// that set the choices.
template <class Take>
void for_each_object(const std::string& path, const std::vector<std::vector<std::string>>& choices,
                     const std::vector<std::string>& flags, const Take& take) {
  ByteReader in(path);
  in.skip_byte_order_mark();
  std::vector<std::optional<std::string>> texts;
  for (std::uint64_t number = 1;; ++number) {
    const JsonLine line = read_json_line(in, choices, texts);
    if (line == JsonLine::end) return;
    if (line == JsonLine::blank) continue;
    if (line == JsonLine::malformed) {
      throw UserError(at_line(path, number) +
                      ": no JSON object; this file needs one a line, take the line out or make the "
                      "file anew");
    }
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (texts[i] && has_text(*texts[i])) continue;
      throw UserError(at_line(path, number) + ": no text under " + quoted_keys(choices[i]) +
                      "; take the line out, or name another key with " + flags[i]);
    }
    take(texts);
  }
}

}  // namespace

std::string other_side(const std::string& path, const std::string& ending) {
  fs::path other(path);
  std::string packed;
  if (other.extension() == ".gz" || other.extension() == ".zst") {
    packed = other.extension().string();
    other.replace_extension();
  }
  other.replace_extension(ending);
  other += packed;
  std::error_code ignored;
  const bool is_same = other == fs::path(path);
  if (!is_same && fs::exists(other, ignored)) return other.string();
  throw UserError("'" + path + "' has no targets beside it: '" + other.string() +
                  (is_same ? "' is that file itself" : "' is not there") +
                  "; name the ending of their file with --target_side, such as de for train.de "
                  "beside train.en, or give JSON lines and name the key of the target");
}

std::uint64_t read_line_pairs(const std::string& sources, const std::string& targets,
                              DocumentCutter& document) {
  ByteReader in(sources), other(targets);
  in.skip_byte_order_mark();
  other.skip_byte_order_mark();
  const auto add = [&document](char c) { document.add(c); };
  for (std::uint64_t pairs = 0;; ++pairs) {
    const Line source = read_line(in, add);
    if (source == Line::end) {
      const std::uint64_t more = rest_of(other);
      if (more > 0) refuse_counts(sources, pairs, targets, pairs + more);
      return pairs;
    }
    if (other.peek() < 0) refuse_counts(sources, pairs + 1 + rest_of(in), targets, pairs);
    if (source == Line::blank) refuse_blank(sources, pairs + 1, targets);
    document.finish();
    if (read_line(other, add) == Line::blank) refuse_blank(targets, pairs + 1, sources);
    document.finish();
  }
}

std::uint64_t read_json_pairs(const std::string& path, const std::vector<std::string>& keys,
                              const std::string& target_key, DocumentCutter& document) {
  std::uint64_t pairs = 0;
  for_each_object(path, {keys, {target_key}}, {"--text_key", "--target_side"},
                  [&](const std::vector<std::optional<std::string>>& texts) {
                    for (const std::optional<std::string>& text : texts) {
                      document.add(std::string_view(*text));
                      document.finish();
                    }
                    ++pairs;
                  });
  return pairs;
}

std::vector<std::string> read_sources(const std::string& path,
                                      const std::vector<std::string>& keys) {
  std::vector<std::string> sources;
  if (is_json_lines(path)) {
    for_each_object(path, {keys}, {"--text_key"},
                    [&](const std::vector<std::optional<std::string>>& texts) {
                      sources.push_back(*texts.front());
                    });
    return sources;
  }
  ByteReader in(path);
  in.skip_byte_order_mark();
  for (;;) {
    std::string text;
    const Line line = read_line(in, [&text](char c) { text.push_back(c); });
    if (line == Line::end) return sources;
    if (line == Line::blank) refuse_blank(path, sources.size() + 1, "");
    sources.push_back(std::move(text));
  }
}

}  // namespace scaling

// Commas before plus signs before colons.
#include "models/layers/attention_list.h"

#include <algorithm>

#include "kernels/check.h"

namespace scaling {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] != separator) continue;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  return parts;
}

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UserError("attention '" + text + "': " + why +
                  "; write one, as full, or one a block in turn, as full,banded, or several that "
                  "share heads, as window+full, each with knobs of its own, as "
                  "window:window_width=33");
}

NamedAttention parse_one(const std::string& text, const std::string& all) {
  const std::vector<std::string> parts = split(text, ':');
  NamedAttention one{parts[0]};
  if (one.name.empty()) refuse(all, "'" + text + "' names no attention");
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse(all, "'" + parts[i] + "' is not knob=value");
    }
    const std::string knob = parts[i].substr(0, equals);
    const bool is_there = std::any_of(one.own.begin(), one.own.end(),
                                      [&knob](const auto& other) { return other.first == knob; });
    if (is_there) refuse(all, "'" + text + "' sets " + knob + " twice");
    one.own.emplace_back(knob, parts[i].substr(equals + 1));
  }
  return one;
}

}  // namespace

std::vector<HeadAttentions> parse_attentions(const std::string& text) {
  std::vector<HeadAttentions> all;
  for (const std::string& of_block : split(text, ',')) {
    all.emplace_back();
    for (const std::string& one : split(of_block, '+')) all.back().push_back(parse_one(one, text));
  }
  return all;
}

std::string print_attentions(const std::vector<HeadAttentions>& all) {
  std::string text;
  for (const HeadAttentions& of_block : all) {
    if (!text.empty()) text += ',';
    for (std::size_t i = 0; i < of_block.size(); ++i) {
      if (i > 0) text += '+';
      text += of_block[i].name;
      for (const auto& [knob, value] : of_block[i].own) text.append(":").append(knob + "=" + value);
    }
  }
  return text;
}

}  // namespace scaling

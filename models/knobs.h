// Knobs as text, for every struct that lists its own in fields(self, visitor).
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include "kernels/check.h"
#include "kernels/weight.h"

namespace scaling {

/// Reads a string, bool (true, false, 1, 0), WeightType or number. Throws UserError naming the knob
/// and the text if that is unreadable, out of the type's range or not finite.
template <class T>
void parse_value(const std::string& name, const std::string& text, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
  } else if constexpr (std::is_same_v<T, WeightType>) {
    value = parse_weight_type(text);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false" && text != "1" && text != "0") {
      throw UserError("'" + text + "' for " + name + " is neither true nor false");
    }
    value = text == "true" || text == "1";
  } else {
    T parsed{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, parsed);
    if (error != std::errc() || stop != end) {
      throw UserError("'" + text + "' for " + name + " is not a " +
                      (std::is_integral_v<T> ? "whole " : "") + "number in range");
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(parsed)) {
        throw UserError("'" + text + "' for " + name + " is not finite; give a number");
      }
    }
    value = parsed;
  }
}

/// The shortest text that parse_value reads back as the same value.
template <class T>
std::string print_value(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, WeightType>) {
    return name_of(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return std::string(text.data(), end);
  }
}

template <class Config>
std::vector<std::string> names_of_fields() {
  std::vector<std::string> names;
  Config config;
  Config::fields(config, [&](const char* field, auto&, const char*) { names.emplace_back(field); });
  return names;
}

template <class Config>
[[noreturn]] void refuse_field(const std::string& name) {
  std::string known;
  for (const std::string& n : names_of_fields<Config>()) known += (known.empty() ? "" : ", ") + n;
  throw UserError("unknown knob '" + name + "'; known: " + known);
}

/// Throws UserError for an unknown knob (lists the known) or an unreadable value.
template <class Config>
void set_named_field(Config& config, const std::string& name, const std::string& value) {
  bool found = false;
  Config::fields(config, [&](const char* field, auto& target, const char*) {
    if (name != field) return;
    parse_value(name, value, target);
    found = true;
  });
  if (!found) refuse_field<Config>(name);
}

/// The text that set_named_field would read back.
template <class Config>
std::string get_named_field(const Config& config, const std::string& name) {
  std::string text;
  bool found = false;
  Config::fields(config, [&](const char* field, const auto& value, const char*) {
    if (name != field) return;
    text = print_value(value);
    found = true;
  });
  if (!found) refuse_field<Config>(name);
  return text;
}

}  // namespace scaling

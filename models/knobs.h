// Knobs: named settings as text, declared once in the struct that has them. A struct of knobs has
//
//   template <class Self, class Visitor>
//   static void fields(Self& k, Visitor&& visit) {
//     visit("repeats", k.repeats, "timed steps", Trait{.quick = "3"});   // the Trait may be left
//     out
//   }
//
// and from it come flags, help, what --quick changes, parsing of .cfg files, echoed commands,
// records' configurations, checkpoints' text and the identity of what was measured.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/weight.h"

namespace scaling {

/// (knob, value) pairs in the order they were given.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// How a knob counts in the identity of a result: by its text; by the content of the file that it
/// names, which the study adds as a setting of its own; or not at all, because it changes no number
/// or only a number's precision.
enum class InKey { text, content_hash, no };

struct Trait {
  const char* quick = nullptr;  ///< value under --quick; null: as without
  InKey in_key = InKey::text;
  bool is_size = false;  ///< of a model: setting its shape sets it too, by the shape or by default
};

struct KnobInfo {
  std::string name, help, initial;  ///< initial: the text of its default
  Trait trait = {};
  /// `text` as print_value would have written it; throws as parse_value does. Null: any will do.
  std::string (*normalised)(const std::string& name, const std::string& text) = nullptr;
};

/// An enum whose values, counted from 0, have names: names_of(E) gives them in order, as an array
/// found beside the enum.
template <class T>
concept NamedEnum = std::is_enum_v<T> && requires(T value) {
  names_of(value)[0];
};

/// "a, b, c"
std::string joined(const std::vector<std::string>& names);

/// Throws UserError that lists the known.
[[noreturn]] void refuse_choice(const std::string& knob, const std::string& text,
                                const std::vector<std::string>& known);

/// Reads a string, bool (true, false, 1, 0), WeightType, NamedEnum or number. Throws UserError
/// naming the knob and the text if that is unreadable, unknown (then it lists the known), out of
/// the type's range or not finite.
template <class T>
void parse_value(const std::string& name, const std::string& text, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
  } else if constexpr (std::is_same_v<T, WeightType>) {
    value = parse_weight_type(text);
  } else if constexpr (NamedEnum<T>) {
    const auto& names = names_of(value);
    const auto at = std::find(std::begin(names), std::end(names), text);
    if (at == std::end(names)) refuse_choice(name, text, {std::begin(names), std::end(names)});
    value = T(at - std::begin(names));
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
  } else if constexpr (NamedEnum<T>) {
    return std::string(names_of(value)[std::size_t(value)]);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return std::string(text.data(), end);
  }
}

template <class T>
std::string normalised(const std::string& name, const std::string& text) {
  T value{};
  parse_value(name, text, value);
  return print_value(value);
}

/// The knobs of a struct, in their order.
template <class Config>
std::vector<KnobInfo> knobs_of() {
  std::vector<KnobInfo> all;
  Config config;
  Config::fields(config, [&](const char* name, auto& value, const char* help, Trait trait = {}) {
    using T = std::remove_reference_t<decltype(value)>;
    all.push_back({name, help, print_value(value), trait, normalised<T>});
  });
  return all;
}

template <class Config>
std::vector<std::string> names_of_fields() {
  std::vector<std::string> names;
  for (const KnobInfo& knob : knobs_of<Config>()) names.push_back(knob.name);
  return names;
}

/// Throws UserError for an unknown knob (lists the known) or an unreadable value.
template <class Config>
void set_named_field(Config& config, const std::string& name, const std::string& value) {
  bool found = false;
  Config::fields(config, [&](const char* field, auto& target, const char*, Trait = {}) {
    if (name != field) return;
    parse_value(name, value, target);
    found = true;
  });
  if (!found) refuse_choice("knob", name, names_of_fields<Config>());
}

/// The text that set_named_field would read back.
template <class Config>
std::string get_named_field(const Config& config, const std::string& name) {
  std::string text;
  bool found = false;
  Config::fields(config, [&](const char* field, const auto& value, const char*, Trait = {}) {
    if (name != field) return;
    text = print_value(value);
    found = true;
  });
  if (!found) refuse_choice("knob", name, names_of_fields<Config>());
  return text;
}

/// Knobs of several structs as one list. Borrows them: they outlive this and stay where they are.
class Knobs {
 public:
  template <class Config>
  void add(Config& config) {
    Config initial;
    std::size_t i = all_.size();
    Config::fields(initial, [&](const char* name, auto& value, const char* help, Trait trait = {}) {
      using T = std::remove_reference_t<decltype(value)>;
      all_.push_back({{name, help, print_value(value), trait, normalised<T>}, nullptr, nullptr});
    });
    Config::fields(config, [&](const char* name, auto& value, const char*, Trait = {}) {
      auto* const target = &value;
      all_[i].set = [target, name](const std::string& text) { parse_value(name, text, *target); };
      all_[i].get = [target] { return print_value(*target); };
      ++i;
    });
  }
  /// One that no struct's `fields` can describe.
  void add(KnobInfo info, std::function<void(const std::string&)> set,
           std::function<std::string()> get) {
    all_.push_back({std::move(info), std::move(set), std::move(get)});
  }

  bool has(const std::string& name) const { return find(name) != nullptr; }
  /// Throws UserError for an unknown knob (lists the known) or an unreadable value.
  void set(const std::string& name, const std::string& text) { require(name).set(text); }
  std::string get(const std::string& name) const { return require(name).get(); }
  /// Every knob, or those that differ from their defaults, as text.
  Settings all() const;
  Settings changed() const;
  std::vector<KnobInfo> info() const;

 private:
  struct Knob {
    KnobInfo info;
    std::function<void(const std::string&)> set;
    std::function<std::string()> get;
  };
  const Knob* find(const std::string& name) const;
  const Knob& require(const std::string& name) const;
  std::vector<Knob> all_;
};

}  // namespace scaling

// What a line of the catalog is made of, and how a layer outside the tree gets one
// (examples/my_layer).
#pragma once

#include <memory>
#include <type_traits>
#include <vector>

#include "models/layers/catalog.h"

namespace scaling {

template <class Component>
struct Entry : EntryInfo {
  std::unique_ptr<Component> (*make)(const ModelConfig&);
};

/// The layer of an entry that is the absence of one.
struct NoLayer {};

/// The entry of class L, made from a config and `args`; what L leaves out of Options (its struct of
/// knobs), kTraits, validate, shrink and selects_softly it has not.
template <class Component, class L, auto... args>
Entry<Component> entry(const char* name) {
  Entry<Component> e{};
  e.name = name;
  e.make = [](const ModelConfig& c) -> std::unique_ptr<Component> {
    if constexpr (std::is_same_v<L, NoLayer>) {
      return nullptr;
    } else {
      return std::make_unique<L>(c, args...);
    }
  };
  e.knobs = [] {
    if constexpr (requires { typename L::Options; }) {
      return knobs_of<typename L::Options>();
    } else {
      return std::vector<KnobInfo>();
    }
  };
  e.validate = []([[maybe_unused]] const ModelConfig& c) {
    if constexpr (requires { L::validate(c); }) L::validate(c);
  };
  e.shrink = []([[maybe_unused]] ModelConfig& c) {
    if constexpr (requires { L::shrink(c); }) L::shrink(c);
  };
  e.selects_softly = []([[maybe_unused]] const ModelConfig& c) {
    if constexpr (requires { L::selects_softly(c, args...); }) {
      return L::selects_softly(c, args...);
    } else {
      return false;
    }
  };
  if constexpr (requires { L::kTraits; }) e.traits = L::kTraits;
  return e;
}

/// Adds a layer beside the tree's; true. Called from static initialisers, before anything reads the
/// catalog. Aborts if the name is taken.
template <class Component>
bool add_entry(const Entry<Component>& added);

}  // namespace scaling

// The list of knobs behind Knobs.
#include "models/knobs.h"

#include <algorithm>

namespace scaling {

const Knobs::Knob* Knobs::find(const std::string& name) const {
  const auto at = std::find_if(all_.begin(), all_.end(),
                               [&name](const Knob& knob) { return knob.info.name == name; });
  return at == all_.end() ? nullptr : &*at;
}

const Knobs::Knob& Knobs::require(const std::string& name) const {
  if (const Knob* knob = find(name)) return *knob;
  std::string known;
  for (const Knob& knob : all_) known += (known.empty() ? "" : ", ") + knob.info.name;
  throw UserError("unknown knob '" + name + "'; known: " + known);
}

Settings Knobs::all() const {
  Settings settings;
  for (const Knob& knob : all_) settings.emplace_back(knob.info.name, knob.get());
  return settings;
}

Settings Knobs::changed() const {
  Settings settings;
  for (const Knob& knob : all_) {
    const std::string text = knob.get();
    if (text != knob.info.initial) settings.emplace_back(knob.info.name, text);
  }
  return settings;
}

std::vector<KnobInfo> Knobs::info() const {
  std::vector<KnobInfo> infos;
  for (const Knob& knob : all_) infos.push_back(knob.info);
  return infos;
}

}  // namespace scaling

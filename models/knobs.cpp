// The list of knobs behind Knobs.
#include "models/knobs.h"

#include <algorithm>

namespace scaling {
std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

void refuse_choice(const std::string& knob, const std::string& text,
                   const std::vector<std::string>& known) {
  throw UserError("unknown " + knob + " '" + text + "'; known: " + joined(known));
}

const Knobs::Knob* Knobs::find(const std::string& name) const {
  const auto at = std::find_if(all_.begin(), all_.end(),
                               [&name](const Knob& knob) { return knob.info.name == name; });
  return at == all_.end() ? nullptr : &*at;
}

const Knobs::Knob& Knobs::require(const std::string& name) const {
  if (const Knob* knob = find(name)) return *knob;
  std::vector<std::string> known;
  for (const Knob& knob : all_) known.push_back(knob.info.name);
  refuse_choice("knob", name, known);
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

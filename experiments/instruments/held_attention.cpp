// Memory for whatever parameters an attention declares.
#include "experiments/instruments/held_attention.h"

#include "models/initialize.h"
#include "models/layers/catalog.h"
#include "models/training/checkpoint.h"
#include "models/transformer/branch.h"

namespace scaling {

HeldAttention::HeldAttention(const ModelConfig& model) : attention_(make_self_attention(model)) {
  attention_->visit_parameters([&](Parameter& p) {
    const auto count = std::size_t(p.count());
    p.layout = Layout::rows;
    p.type = WeightType::f32;
    p.data = memory_.emplace_back(count).data();
    draw_values(model.seed, p.name, p.init, 0, p.count(), p.values());
    p.gradient = memory_.emplace_back(count).data();
  });
}

HeldAttention::HeldAttention(const ModelConfig& model, const std::string& weights,
                             const std::string& prefix)
    : HeldAttention(model) {
  prefix_names(*attention_, prefix);
  std::vector<Parameter*> own;
  attention_->visit_parameters([&own](Parameter& p) { own.push_back(&p); });
  load_weights(weights, own);
}

Settings attention_settings(const ModelConfig& model, bool causal) {
  std::vector<std::string> knobs = {"d_model", "n_heads", "attention", "seed"};
  const std::vector<std::string> own = knobs_of_component("attention");
  knobs.insert(knobs.end(), own.begin(), own.end());
  Settings settings;
  for (const std::string& knob : knobs) settings.emplace_back(knob, get_field(model, knob));
  settings.emplace_back("causal", print_value(causal));
  return settings;
}

}  // namespace scaling

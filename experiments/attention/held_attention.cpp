// Memory for whatever parameters an attention declares.
#include "experiments/attention/held_attention.h"

#include "models/initialize.h"
#include "models/layers/catalog.h"

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

}  // namespace scaling

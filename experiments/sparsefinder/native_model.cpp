// The teacher's parameters by name, the learnt ones head by head.
#include "experiments/sparsefinder/native_model.h"

#include <filesystem>
#include <map>
#include <span>

#include "kernels/check.h"
#include "kernels/team.h"
#include "models/training/checkpoint.h"

namespace scaling {
namespace {

const char* attention_of(Predictor predictor) {
  switch (predictor) {
    case Predictor::distance:
      return "sparsefinder_distance";
    case Predictor::quantization:
      return "sparsefinder_quantization";
    case Predictor::kmeans:
      return "sparsefinder_kmeans";
    default:
      return nullptr;
  }
}

bool ends_with(const std::string& text, const std::string& ending) {
  return text.size() >= ending.size() &&
         text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

/// What a head learnt under the ending of a parameter's name, row-major.
Mat learnt(const std::string& ending, const HeadModel& head, const Configuration& configuration) {
  if (ending == ".map") return head.map.cast<float>();
  if (ending == ".centroids") return head.centroids.at(configuration.value);
  const bool is_density = configuration.parameter == "density";
  return Mat::Constant(
      1, 1, is_density ? head.thresholds.at(configuration.value) : float(configuration.value));
}

/// heads: those of the layer.
void set_parameter(Parameter& p, const std::string& ending, std::span<const HeadModel> heads,
                   const Configuration& configuration) {
  std::int64_t at = 0;
  for (const HeadModel& head : heads) {
    const Mat values = learnt(ending, head, configuration);
    SCALING_CHECK(values.size() * std::int64_t(heads.size()) == p.count());
    for (std::int64_t i = 0; i < values.size(); ++i) p.set(0, at++, values.data()[i]);
  }
}

ModelConfig config_of(const TeacherPlan& plan, const Method& method, std::int64_t rank,
                      const Configuration& configuration, std::int64_t width,
                      GlobalTokens globals) {
  ModelConfig config = plan.model();
  if (plan.has_source()) config.encoder_attention = config.attention_of(/*in_encoder=*/true);
  config.attention = attention_of(method.predictor);
  set_field(config, "sparsefinder_rank", rank);
  set_field(config, "sparsefinder_window", width);
  set_field(config, "sparsefinder_global", globals == GlobalTokens::first ? 1 : 0);
  const auto value = std::int64_t(configuration.value);
  if (method.predictor == Predictor::quantization) set_field(config, "sparsefinder_bins", value);
  if (method.predictor == Predictor::kmeans) {
    set_field(config, "sparsefinder_clusters", value);
    set_field(config, "sparsefinder_nearest", configuration.nearest);
  }
  return config;
}

}  // namespace

bool is_native(const TeacherPlan& plan, const Method& method, GlobalTokens globals) {
  if (attention_of(method.predictor) == nullptr) return false;
  if (method.predictor == Predictor::quantization && plan.causal()) return false;
  return globals == GlobalTokens::none || globals == GlobalTokens::first;
}

std::unique_ptr<Transformer> make_native_model(const TeacherPlan& plan, const Method& method,
                                               const std::vector<HeadModel>& heads,
                                               const Configuration& configuration,
                                               std::int64_t width, GlobalTokens globals) {
  SCALING_CHECK(is_native(plan, method, globals));
  SCALING_CHECK(std::int64_t(heads.size()) == plan.heads());
  auto model = std::make_unique<Transformer>(
      config_of(plan, method, heads.front().map.cols(), configuration, width, globals));
  Team team(1);
  model->allocate_for_training(team);
  std::vector<Parameter*> of_teacher;
  const auto of_layer = std::size_t(plan.model().n_heads);
  std::map<std::string, std::size_t> layers;  // how many have had theirs, by ending
  for (Parameter* p : model->parameters()) {
    const std::string* own = nullptr;
    static const std::string endings[] = {".map", ".thresholds", ".centroids"};
    for (const std::string& ending : endings) {
      if (ends_with(p->name, ending)) own = &ending;
    }
    if (own == nullptr) {
      of_teacher.push_back(p);
      continue;
    }
    const std::size_t first = layers[*own]++ * of_layer;
    SCALING_CHECK(first + of_layer <= heads.size());
    set_parameter(*p, *own, std::span(heads).subspan(first, of_layer), configuration);
  }
  load_weights(plan.checkpoint(), of_teacher);
  return model;
}

void write_native_model(const TeacherPlan& plan, Transformer& model, const std::string& path) {
  std::error_code ignored;  // save_checkpoint says what is wrong
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  CheckpointInfo info = read_checkpoint_info(plan.checkpoint());
  info.model = model.config();
  save_checkpoint(path, info, weight_arrays(model.parameters()));
}

}  // namespace scaling

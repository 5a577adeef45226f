// Layers of the catalog to benchmarks, and what a benchmark runs.
#include "experiments/machine/layers_study.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "experiments/instruments/like_ref.h"
#include "kernels/ceilings.h"
#include "kernels/check.h"
#include "kernels/clock.h"
#include "models/initialize.h"
#include "models/layers/catalog.h"
#include "models/layers/parts/partial_sums.h"

namespace scaling {
namespace {

constexpr std::uint64_t kColdBytes = 256ull << 20;
constexpr std::int64_t kCached = 16;  // positions attention looks at, as in the paper's timing

struct LayerKnobs {
  std::string shape = "800m", kernels = "simd";

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("shape", k.shape, "named sizes of the layers");
    visit("kernels", k.kernels, "kernel set");
  }
};

/// Shared buffers of one step of one sequence: wide enough for the loss.
struct Buffers {
  explicit Buffers(std::int64_t width)
      : in(one(width)), q(one(width)), k(one(width)), v(one(width)) {}
  static std::vector<float> one(std::int64_t width) {
    std::vector<float> values(std::size_t(width), 0.0f);
    draw_values(1, "input", {Initializer::Kind::normal, 1}, 0, width, values.data());
    return values;
  }
  std::vector<float> in, q, k, v;
  std::unique_ptr<AttentionCache> cache;  ///< of attentions
};

// One step of a layer, what it costs, and what its buffers need before.
template <class L>
void step(const L& layer, const StepContext& ctx, LayerState* state, Buffers& b) {
  layer.step(ctx, state, b.in.data(), b.q.data());
}
void step(const Projection& layer, const StepContext& ctx, LayerState* state, Buffers& b) {
  layer.step(ctx, state, b.in.data(), b.q.data(), b.k.data(), b.v.data());
  if (layer.has_output()) layer.step_output(ctx, state, b.in.data(), b.q.data());
}
void step(const CrossProjection& layer, const StepContext& ctx, LayerState* state, Buffers& b) {
  layer.step_query(ctx, state, b.in.data(), b.q.data());
  if (layer.has_output()) layer.step_output(ctx, state, b.in.data(), b.k.data());
}
void step(const SelfAttention& layer, const StepContext& ctx, LayerState*, Buffers& b) {
  StepContext last = ctx;
  last.position = kCached - 1;
  layer.step(last, *b.cache, b.in.data(), b.in.data(), b.v.data(), b.q.data());
}
void step(const CrossAttention& layer, const StepContext& ctx, LayerState*, Buffers& b) {
  layer.step(ctx, *b.cache, kCached, b.in.data(), b.q.data());
}

template <class L>
Cost cost(const L& layer, WeightType type) {
  return layer.step_cost(1, type);
}
Cost cost(const SelfAttention& layer, WeightType) { return layer.step_cost(1, kCached); }
Cost cost(const CrossAttention& layer, WeightType) { return layer.step_cost(1, kCached); }

template <class L>
void prepare(const L&, Buffers&) {}
void prepare(const SelfAttention& layer, Buffers& b) { b.cache = layer.make_cache(1, kCached); }
void prepare(const CrossAttention& layer, Buffers& b) { b.cache = layer.make_cache(1, kCached); }

/// How all layers of a component are made, stepped, counted and prepared for.
struct Component {
  std::string name;
  std::function<std::unique_ptr<Layer>(const std::string& layer, const ModelConfig&)> make;
  std::function<void(const Layer&, const StepContext&, LayerState*, Buffers&)> step;
  std::function<Cost(const Layer&, WeightType)> cost;
  std::function<void(const Layer&, Buffers&)> prepare;
};

template <class L>
Component component(const char* name,
                    std::unique_ptr<L> (*make)(const std::string&, const ModelConfig&)) {
  return {
      name, make,
      [](const Layer& layer, const StepContext& ctx, LayerState* state, Buffers& b) {
        step(static_cast<const L&>(layer), ctx, state, b);
      },
      [](const Layer& layer, WeightType type) { return cost(static_cast<const L&>(layer), type); },
      [](const Layer& layer, Buffers& b) { prepare(static_cast<const L&>(layer), b); }};
}

const std::vector<Component>& components() {
  static const std::vector<Component> all = {
      component<FeedForward>("feed_forward", make_feed_forward),
      component<Projection>("projection", make_projection),
      component<CrossProjection>("cross_projection", make_cross_projection),
      component<SelfAttention>("attention", make_attention),
      component<CrossAttention>("cross_attention", make_cross_attention),
      component<Recurrence>("recurrence", make_recurrence),
      component<Loss>("loss", make_loss)};
  return all;
}

/// As many copies of a layer as make its weights cold, in one arena.
struct Copies {
  Copies(const std::function<std::unique_ptr<Layer>()>& make, const Component& component,
         const ModelConfig& config, Team& team, Layout dense) {
    std::vector<Parameter*> parameters;
    const auto add = [&] {
      const std::string prefix = std::to_string(layers.size()) + ".";
      layers.push_back(make());
      layers.back()->visit_parameters([&](Parameter& p) {
        p.name = prefix + p.name;
        parameters.push_back(&p);
      });
      states.push_back(layers.back()->make_state(1));
    };
    add();
    const std::uint64_t bytes_of_one = arena_bytes(parameters, config.weight_type);
    const std::uint64_t read =
        std::uint64_t(std::max(1.0, total(component.cost(*layers[0], config.weight_type)).bytes));
    const std::uint64_t most =
        std::max<std::uint64_t>(1, (4ull << 30) / std::max<std::uint64_t>(bytes_of_one, 1));
    // A step that reads no weights is not made colder by more of them.
    const bool reads = total(component.cost(*layers[0], config.weight_type)).weights > 0;
    const std::uint64_t copies = reads ? std::min(most, kColdBytes / read + 1) : 1;
    while (layers.size() < copies) add();
    const std::uint64_t bytes = arena_bytes(parameters, config.weight_type);
    require_memory(bytes, "the layer's copies",
                   "choose a smaller --shape or bf16 (filter by name)");
    arena = Arena(bytes);
    lay_out(parameters, dense);
    initialize(parameters, config.weight_type, 1, arena, team);
  }
  Arena arena;
  std::vector<std::unique_ptr<Layer>> layers;
  std::vector<std::unique_ptr<LayerState>> states;
};

/// Read rate and multiply-add rate over this layer's own arena, of a large one a part: it is read
/// at both ends of every call of a benchmark.
Ceilings measure_ceilings(Team& team, const Arena& arena, const KernelSet& kernels,
                          WeightType type) {
  Ceilings ceilings;
  if (arena.used() > 0) {
    constexpr std::uint64_t kMost = 1ull << 30;
    const std::uint64_t bytes = std::min<std::uint64_t>(arena.used(), kMost);
    ceilings.read_bytes_per_second = measure_read_rate(team, arena.data(), bytes);
  }
  ceilings.fma_flops_per_second = measure_product_rate(team, kernels, type);
  return ceilings;
}

class LayerStudy : public StopwatchStudy {
 public:
  StudyInfo info() const override {
    return {.name = "layers",
            .program = "bench_layers",
            .about = "times a decode step of every layer",
            .folder = "machine",
            .threads = "1,all",
            .one_thread_count = false};
  }
  void flags(Knobs& knobs) override { knobs.add(knobs_); }

 protected:
  void add_all(const RunOptions& options) override {
    const ModelConfig config = config_of_shape(knobs_.shape);
    validate(config);
    const KernelSet& kernels = find_kernel_set(knobs_.kernels);
    for (const Component& component : components()) {
      for (const std::string& layer : causal_implementations_of(component.name)) {
        for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
          ModelConfig own = config;
          own.weight_type = type;
          set_field(own, component.name, layer);
          set_field(own, "linformer_rank", kCached);  // as much as the others read
          if (!component.make(layer, own)) continue;  // its name is for none
          add_layer(component, layer, own, kernels, options.threads);
        }
      }
    }
  }

  Settings settings() const override {
    return {{"shape", knobs_.shape}, {"kernels", knobs_.kernels}};
  }

 private:
  /// Compares a small model with this layer with ref before it is timed the first time.
  void add_layer(const Component& component, const std::string& layer, const ModelConfig& config,
                 const KernelSet& kernels, const std::vector<int>& thread_counts) {
    const std::string name = component.name + ":" + layer + "/" + name_of(config.weight_type);
    const auto compared = std::make_shared<bool>(false);
    const int most = *std::max_element(thread_counts.begin(), thread_counts.end());
    for (const int threads : thread_counts) {
      const std::string title = name + "/t" + std::to_string(threads);
      add(title, threads, [=, this, &kernels](benchmark::State& bench) {
        Team team(threads);
        if (!*compared) {
          require_like_ref(name, config, kernels, 1, team);
          *compared = true;
        }
        if (held_ != name) {
          copies_.reset();
          const auto make = [&] { return component.make(layer, config); };
          Team all(most);  // draws weights for every number of threads
          copies_ = std::make_unique<Copies>(make, component, config, all,
                                             kernels.dense_layout(config.weight_type));
          held_ = name;
        }
        run(bench, component, config, team, kernels);
      });
    }
  }

  void run(benchmark::State& bench, const Component& component, const ModelConfig& config,
           Team& team, const KernelSet& kernels) {
    const Layer& first = *copies_->layers[0];
    Buffers buffers(std::max(config.vocab_size, config.d_model));
    component.prepare(first, buffers);
    std::vector<float> workspace(std::size_t(first.workspace_floats(1, team.threads())) + 16);
    auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
    float* aligned = workspace.data() + (64 - address % 64) % 64 / sizeof(float);
    const Ceilings before = measure_ceilings(team, copies_->arena, kernels, config.weight_type);
    std::size_t at = 0;
    std::int64_t position = 0;
    const std::function<void(int)> job = [&](int thread) {
      const StepContext ctx{kernels, team.barrier(), thread, team.threads(), 1, position, aligned};
      component.step(*copies_->layers[at], ctx, copies_->states[at].get(), buffers);
    };
    const Clock::time_point start = Clock::now();
    for (auto _ : bench) {
      team.run(job);
      if (++at == copies_->layers.size()) at = 0, ++position;
    }
    const double seconds = seconds_since(start);
    const Ceilings after = measure_ceilings(team, copies_->arena, kernels, config.weight_type);
    const Cost cost = component.cost(first, config.weight_type);
    const Phase sum = total(cost);
    const double read = std::max({before.read_bytes_per_second, after.read_bytes_per_second, 1.0});
    const double fma = std::max(before.fma_flops_per_second, after.fma_flops_per_second);
    bench.counters["bytes"] = sum.bytes;
    bench.counters["FLOPs"] = sum.flops;
    bench.counters["weights"] = sum.weights;
    if (sum.weights > 0 && before.read_bytes_per_second > 0) {
      bench.counters["GB/s_ceiling"] = read / 1e9;
      bench.counters["percent_of_ceiling"] =
          100 * floor_seconds(cost, read, fma) * double(bench.iterations()) / seconds;
    }
  }

  LayerKnobs knobs_;
  /// Copies of one layer, kept while the library calls a benchmark again to find its number of
  /// iterations, and for other numbers of threads; given back when the next layer makes its own.
  std::unique_ptr<Copies> copies_;
  std::string held_;  ///< the layer's name and weight type
};

}  // namespace

std::unique_ptr<StopwatchStudy> make_layer_study() { return std::make_unique<LayerStudy>(); }

}  // namespace scaling

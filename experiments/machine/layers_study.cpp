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
constexpr std::int64_t kCached = 16;  // positions attention looks back on, as in the paper's timing

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
};

/// What differs between components: how a layer is made, stepped and counted.
template <class L>
struct LayerDriver {
  std::function<std::unique_ptr<L>(const ModelConfig&)> make;
  std::function<void(const L&, const StepContext&, LayerState*, Buffers&)> step;
  std::function<Cost(const L&, WeightType)> cost;
};

/// As many copies of a layer as make its weights cold, in one arena.
template <class L>
struct Copies {
  Copies(const LayerDriver<L>& driver, const ModelConfig& config, Team& team) {
    const auto bytes_of_one = [&] {
      std::vector<Parameter*> parameters;
      layers.push_back(driver.make(config));
      layers.back()->visit_parameters([&](Parameter& p) { parameters.push_back(&p); });
      return arena_bytes(parameters, config.weight_type);
    }();
    const std::uint64_t read =
        std::uint64_t(std::max(1.0, total(driver.cost(*layers[0], config.weight_type)).bytes));
    const std::uint64_t most =
        std::max<std::uint64_t>(1, (4ull << 30) / std::max<std::uint64_t>(bytes_of_one, 1));
    const std::uint64_t copies = bytes_of_one == 0 ? 1 : std::min(most, kColdBytes / read + 1);
    while (layers.size() < copies) layers.push_back(driver.make(config));
    std::vector<Parameter*> parameters;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layers[i]->visit_parameters([&](Parameter& p) {
        p.name = std::to_string(i) + "." + p.name;
        parameters.push_back(&p);
      });
      states.push_back(layers[i]->make_state(1));
    }
    const std::uint64_t bytes = arena_bytes(parameters, config.weight_type);
    require_memory(bytes, "the layer's copies",
                   "choose a smaller --shape or bf16 (filter by name)");
    arena = Arena(bytes);
    initialize(parameters, config.weight_type, 1, arena, team);
  }
  Arena arena;
  std::vector<std::unique_ptr<L>> layers;
  std::vector<std::unique_ptr<LayerState>> states;
};

/// Read rate and multiply-add rate over this layer's own arena.
Ceilings measure(Team& team, const Arena& arena, const KernelSet& kernels, WeightType type) {
  Ceilings ceilings;
  if (arena.used() > 0) {
    ceilings.read_bytes_per_second = measure_read_rate(team, arena.data(), arena.used());
  }
  ceilings.fma_flops_per_second = measure_product_rate(team, kernels, type);
  return ceilings;
}

/// Keeps one benchmark's copies while the library calls it again to find its number of iterations;
/// they are given back when the next benchmark, known by its title, makes its own.
struct Holder {
  std::string title;
  std::shared_ptr<void> copies;
};

Holder& shared_holder() {
  static Holder holder;
  return holder;
}

template <class L>
Copies<L>& copies_of(Holder& holder, const std::string& title, const LayerDriver<L>& driver,
                     const ModelConfig& config, Team& team) {
  if (holder.title != title) {
    holder = {};
    holder.copies = std::make_shared<Copies<L>>(driver, config, team);
    holder.title = title;
  }
  return *static_cast<Copies<L>*>(holder.copies.get());
}

template <class L>
void run(benchmark::State& bench, const std::string& title, const LayerDriver<L>& driver,
         const ModelConfig& config, int threads, const KernelSet& kernels) {
  Team team(threads);
  Copies<L>& copies = copies_of(shared_holder(), title, driver, config, team);
  Buffers buffers(std::max(config.vocab_size, config.d_model));
  std::vector<float> workspace(std::size_t(copies.layers[0]->workspace_floats(1, threads)) + 16);
  auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  float* aligned = workspace.data() + (64 - address % 64) % 64 / sizeof(float);
  const Ceilings before = measure(team, copies.arena, kernels, config.weight_type);
  std::size_t at = 0;
  std::int64_t position = 0;
  const std::function<void(int)> job = [&](int thread) {
    const StepContext ctx{kernels, team.barrier(), thread, threads, 1, position, aligned};
    driver.step(*copies.layers[at], ctx, copies.states[at].get(), buffers);
  };
  const Clock::time_point start = Clock::now();
  for (auto _ : bench) {
    team.run(job);
    if (++at == copies.layers.size()) at = 0, ++position;
  }
  const double seconds = seconds_since(start);
  const Ceilings after = measure(team, copies.arena, kernels, config.weight_type);
  const Cost cost = driver.cost(*copies.layers[0], config.weight_type);
  const Phase sum = total(cost);
  const double read = std::max({before.read_bytes_per_second, after.read_bytes_per_second, 1.0});
  const double fma = std::max(before.fma_flops_per_second, after.fma_flops_per_second);
  bench.counters["bytes"] = sum.bytes;
  bench.counters["FLOPs"] = sum.flops;
  bench.counters["weights"] = sum.weights;
  if (before.read_bytes_per_second > 0) {
    bench.counters["GB/s_ceiling"] = read / 1e9;
    bench.counters["percent_of_ceiling"] =
        100 * floor_seconds(cost, read, fma) * double(bench.iterations()) / seconds;
  }
}

/// Adds a benchmark: its name, threads, what it runs.
using Add = std::function<void(const std::string&, int, std::function<void(benchmark::State&)>)>;

/// What the benchmarks are of.
struct Setting {
  Add add;
  ModelConfig config;
  const KernelSet& kernels;
  const std::vector<int>& threads;
};

/// Compares a small model with this layer with ref before it is timed the first time.
template <class L>
void add(const std::string& component, const std::string& name, const LayerDriver<L>& driver,
         const Setting& setting) {
  for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
    ModelConfig config = setting.config;
    config.weight_type = type;
    set_field(config, component, name);
    const std::string layer = component + ":" + name + "/" + name_of(type);
    const auto compared = std::make_shared<bool>(false);
    for (const int threads : setting.threads) {
      const std::string title = layer + "/t" + std::to_string(threads);
      setting.add(title, threads, [=, &kernels = setting.kernels](benchmark::State& bench) {
        if (!*compared) {
          Team team(threads);
          require_like_ref(layer, config, kernels, 1, team);
          *compared = true;
        }
        run(bench, title, driver, config, threads, kernels);
      });
    }
  }
}

void add_feed_forwards(const Setting& setting) {
  for (const std::string& name : implementations_of("feed_forward")) {
    const LayerDriver<FeedForward> driver{
        [name](const ModelConfig& c) { return make_feed_forward(name, c); },
        [](const FeedForward& layer, const StepContext& ctx, LayerState* state, Buffers& b) {
          layer.step(ctx, state, b.in.data(), b.q.data());
        },
        [](const FeedForward& layer, WeightType type) { return layer.step_cost(1, type); }};
    add("feed_forward", name, driver, setting);
  }
}

void add_projections(const Setting& setting) {
  for (const std::string& name : implementations_of("projection")) {
    const LayerDriver<Projection> driver{
        [name](const ModelConfig& c) { return make_projection(name, c); },
        [](const Projection& layer, const StepContext& ctx, LayerState* state, Buffers& b) {
          layer.step(ctx, state, b.in.data(), b.q.data(), b.k.data(), b.v.data());
          if (layer.has_output()) layer.step_output(ctx, state, b.in.data(), b.q.data());
        },
        [](const Projection& layer, WeightType type) { return layer.step_cost(1, type); }};
    add("projection", name, driver, setting);
  }
  for (const std::string& name : implementations_of("cross_projection")) {
    const LayerDriver<CrossProjection> driver{
        [name](const ModelConfig& c) { return make_cross_projection(name, c); },
        [](const CrossProjection& layer, const StepContext& ctx, LayerState* state, Buffers& b) {
          layer.step_query(ctx, state, b.in.data(), b.q.data());
          if (layer.has_output()) layer.step_output(ctx, state, b.in.data(), b.k.data());
        },
        [](const CrossProjection& layer, WeightType type) { return layer.step_cost(1, type); }};
    add("cross_projection", name, driver, setting);
  }
}

void add_losses(const Setting& setting) {
  for (const std::string& name : implementations_of("loss")) {
    const LayerDriver<Loss> driver{
        [name](const ModelConfig& c) { return make_loss(name, c); },
        [](const Loss& layer, const StepContext& ctx, LayerState* state, Buffers& b) {
          layer.step(ctx, state, b.in.data(), b.q.data());
        },
        [](const Loss& layer, WeightType type) { return layer.step_cost(1, type); }};
    add("loss", name, driver, setting);
  }
}

void add_attentions(const Setting& setting) {
  for (const std::string& name : implementations_of("attention")) {
    const std::shared_ptr<AttentionCache> cache =
        make_attention(name, setting.config)->make_cache(1, kCached);
    const LayerDriver<SelfAttention> driver{
        [name](const ModelConfig& c) { return make_attention(name, c); },
        [cache](const SelfAttention& layer, const StepContext& ctx, LayerState*, Buffers& b) {
          StepContext last = ctx;
          last.position = kCached - 1;
          layer.step(last, *cache, b.in.data(), b.in.data(), b.v.data(), b.q.data());
        },
        [](const SelfAttention& layer, WeightType) { return layer.step_cost(1, kCached); }};
    add("attention", name, driver, setting);
  }
}

}  // namespace

StudyInfo LayerStudy::info() const {
  return {.name = "layers",
          .program = "bench_layers",
          .about = "times a decode step of every layer",
          .folder = "machine",
          .threads = "1,all",
          .one_thread_count = false};
}

void LayerStudy::add_all(const RunOptions& options) {
  const ModelConfig config = config_of_shape(knobs_.shape);
  validate(config);
  const Setting setting{
      [this](const std::string& name, int threads, std::function<void(benchmark::State&)> run) {
        add(name, threads, std::move(run));
      },
      config, find_kernel_set(knobs_.kernels), options.threads};
  add_feed_forwards(setting);
  add_projections(setting);
  add_attentions(setting);
  add_losses(setting);
}

}  // namespace scaling

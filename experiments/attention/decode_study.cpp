// Rows and contexts to points, trials to times beside their floors.
#include "experiments/attention/decode_study.h"

#include <algorithm>
#include <cstdio>
#include <list>
#include <map>

#include "experiments/attention/decode_measure.h"
#include "experiments/instruments/held_attention.h"
#include "experiments/instruments/interleave.h"
#include "experiments/instruments/model_row.h"
#include "experiments/study/counts.h"
#include "kernels/check.h"
#include "models/layers/catalog.h"

namespace scaling {
namespace {

// For the plan only: bytes a second between steps and when caches are drawn.
constexpr double kSweepRate = 15e9, kDrawRate = 1e9;

struct StepKnobs {
  std::string contexts = "256,1024,4096,8192,16384,65536";
  std::string kernels = "simd";
  int repeats = 40;
  double time_budget = 4;
  int sweep = 0;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("contexts", k.contexts, "cached positions", Trait{.quick = "256,4096"});
    visit("kernels", k.kernels, "kernel set");
    visit("repeats", k.repeats, "decodes of a row, at most", Trait{.quick = "6"});
    visit("time-budget", k.time_budget, "seconds of measuring a row",
          Trait{.quick = "1", .in_key = InKey::no});
    visit("sweep", k.sweep,
          "MiB that are read before each step, so that caches are empty of the row; 0: four times "
          "the last-level cache");
  }
};

class AttentionDecodeStudy : public ModelStudy {
 public:
  StudyInfo info() const override {
    return {.name = "attention_decode",
            .program = "attention_decode",
            .about = "measures a decode step of attentions against cached positions",
            .folder = "attention",
            .example = "attention/attention_decode.cfg",
            .quick = "fewer contexts and repeats"};
  }
  void flags(Knobs& knobs) override { knobs.add(knobs_); }

  std::vector<Point> points(const RowFile& file, const RunOptions& options) override {
    if (knobs_.repeats < 1 || !(knobs_.time_budget > 0) || knobs_.sweep < 0) {
      throw UserError("--repeats " + print_value(knobs_.repeats) + ", --time-budget " +
                      print_value(knobs_.time_budget) + ", --sweep " + print_value(knobs_.sweep) +
                      ": give at least one repeat, a positive number of seconds and no negative "
                      "memory");
    }
    find_kernel_set(knobs_.kernels);
    const std::vector<ModelRow> rows = model_rows(file);
    require_known_rows(options.rows, names_of(rows), file.experiment);
    std::vector<Point> points;
    for (const std::int64_t context : parse_counts("contexts", knobs_.contexts)) {
      for (const ModelRow& row : rows) {
        if (!is_wanted(options.rows, row.name)) continue;
        try {
          require_causal(row.model);
        } catch (const UserError& error) {
          file.refuse(row.name, error.what());
        }
        const std::string text = std::to_string(context);
        Point point = point_of(row, options.threads.front(), attention_settings(row.model),
                               {{"quick", print_value(options.quick)},
                                {"context", text},
                                {"kernels", knobs_.kernels},
                                {"sweep", print_value(knobs_.sweep)},
                                {"repeats", print_value(knobs_.repeats)},
                                {"time_budget", print_value(knobs_.time_budget)}});
        point.row += "_c" + text;
        point.against += "_c" + text;
        point.flags = {{"rows", row.name}, {"contexts", text}};
        const auto cache = double(DecodeCore::bytes_of(*make_self_attention(row.model), context));
        point.seconds = planned_seconds(cache, point.threads);
        point.plan = readable_bytes(cache);
        subjects_[point.row] = {row.model, context};
        points.push_back(std::move(point));
      }
    }
    return points;
  }

  /// All rows of a context, whose caches are held together.
  std::vector<std::vector<std::size_t>> groups(Points points) const override {
    return groups_by(points, [this](const Point& point) { return subject_of(point).context; });
  }

  void measure(Points group, Sink& sink) override {
    if (!team_) {
      team_ = std::make_unique<Team>(group.front()->threads);
      elsewhere_ = std::make_unique<ColdMemory>(*team_, sweep_bytes(team_->threads()));
    }
    const KernelSet& kernels = find_kernel_set(knobs_.kernels);
    std::list<DecodeCore> cores;  // whose members stay where they are
    std::vector<Candidate> candidates;
    std::vector<const Point*> measured;
    for (const Point* point : group) {
      const Subject& subject = subject_of(*point);
      sink.live(point->row + ": drawing its cache");
      try {
        cores.emplace_back(subject.model, subject.context, kernels, *team_, *elsewhere_);
      } catch (const UserError& error) {
        sink.fail(*point, error.what());
        continue;
      }
      candidates.push_back(cores.back().candidate(point->row));
      measured.push_back(point);
    }
    std::vector<const DecodeCore*> decoded;
    for (const DecodeCore& core : cores) decoded.push_back(&core);
    const Protocol protocol{.least = std::min(kFewestTrials, knobs_.repeats),
                            .most = knobs_.repeats,
                            .budget_seconds = knobs_.time_budget};
    interleave(
        candidates, protocol,
        [&](std::size_t i, const Trials& trials) {
          close(*measured[i], *decoded[i], trials, sink);
        },
        [&sink](const std::string& text) { sink.live(text); });
  }

  Metric closing(const Point&) const override { return {.name = "decode_us", .unit = "us"}; }

 private:
  struct Subject {
    ModelConfig model;
    std::int64_t context = 0;
  };

  const Subject& subject_of(const Point& point) const { return subjects_.at(point.row); }

  std::uint64_t sweep_bytes(int threads) const {
    return knobs_.sweep > 0 ? std::uint64_t(knobs_.sweep) << 20 : more_than_caches_hold(threads);
  }

  double planned_seconds(double cache, int threads) const {
    // A trial, and a reading of the ceilings on either side.
    const double trial =
        (kUntimedSteps + kTimedSteps + 2) * (double(sweep_bytes(threads)) + cache) / kSweepRate;
    const double least = std::min(kFewestTrials, knobs_.repeats) * trial;
    return cache / kDrawRate +
           std::max(least, std::min(knobs_.time_budget + trial, knobs_.repeats * trial));
  }

  static void close(const Point& point, const DecodeCore& core, const Trials& trials, Sink& sink) {
    const Cost cost = core.cost();
    const auto floor_us = [&cost](const Part& p) {
      return 1e6 * floor_seconds(cost, p.values[kReadRate], p.values[kProductRate]);
    };
    const auto decode_us = [](const Part& p) { return 1e6 * p.values[kStepSeconds]; };
    const auto each = [&trials](const char* name, const char* unit, const auto& value) {
      Metric metric{name, unit};
      for (const Sample& sample : trials.kept) metric.values.push_back(sample.median(value));
      return metric;
    };
    std::vector<Metric> metrics = {
        {"cache_bytes", "B", {double(core.cache_bytes())}},
        {"decode_bytes", "B", {total(cost).bytes}},
        {"decode_flops", "FLOP", {total(cost).flops}},
        each("read_gbps", "GB/s", [](const Part& p) { return p.values[kReadRate] / 1e9; }),
        each("fma_gflops", "GFLOP/s", [](const Part& p) { return p.values[kProductRate] / 1e9; }),
        each("decode_floor_us", "us", floor_us),
        each("decode_efficiency", "1", [&](const Part& p) { return floor_us(p) / decode_us(p); }),
        each("decode_us", "us", decode_us)};
    const double efficiency = summarize(metrics[metrics.size() - 2].values).median;
    Extra extra{.ceilings = {summarize(metrics[3].values).median * 1e9,
                             summarize(metrics[4].values).median * 1e9},
                .note = "keys and values of the context drawn at random"};
    if (trials.unstable)
      add_note(extra.note, "unstable machine: the ceilings differed by over 5 %");
    if (efficiency > kMaxEfficiency) {
      for (Metric& metric : metrics) metric.status = Status::untrusted;
      add_note(extra.note, "faster than its floor");
    }
    char text[96];
    std::snprintf(text, sizeof text, ": %.4g us a token, %.0f %% of its floor",
                  summarize(metrics.back().values).median, 100 * efficiency);
    extra.line = point.row + text;
    sink.close(point, metrics, extra);
  }

  StepKnobs knobs_;
  std::map<std::string, Subject> subjects_;  ///< by the point's name
  std::unique_ptr<Team> team_;
  std::unique_ptr<ColdMemory> elsewhere_;  ///< read by the team
};

}  // namespace

std::unique_ptr<Study> make_attention_decode_study() {
  return std::make_unique<AttentionDecodeStudy>();
}

}  // namespace scaling

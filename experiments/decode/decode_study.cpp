// Group after group: compare with ref, allocate, measure at every thread count, free.
#include "experiments/decode/decode_study.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <map>

#include "experiments/decode/decode_metrics.h"
#include "experiments/decode/grouping.h"
#include "experiments/instruments/like_ref.h"
#include "experiments/study/interrupt.h"
#include "kernels/check.h"
#include "kernels/libraries.h"

namespace scaling {
namespace {

// For estimates only: bytes a second when weights are drawn, and when a token reads them.
constexpr double kDrawRate = 1.0e9, kReadRate = 30e9;
// The rest is for the system and for what encoders and libraries take on their way.
constexpr double kMemoryShare = 0.85;
// Of a median's interval: above it a row's note says so.
constexpr double kNotedUncertainty = 0.02;

struct DecodeFlags {
  DecodeProtocol protocol = DecodeProtocol::steady;
  double time_budget = 20, precision = 0.02;
  bool pin = false;

  template <class Self, class Visitor>
  static void fields(Self& f, Visitor&& visit) {
    visit("protocol", f.protocol,
          "steady: until the median is known to 2 %; paper: 4 + 12 tokens, six times, with --quick "
          "three");
    visit("time-budget", f.time_budget, "seconds of measuring per row and thread count",
          Trait{.quick = "4", .in_key = InKey::no});
    visit("precision", f.precision,
          "half of the median's 95 % interval, as a share, that ends measuring early; 0: never",
          Trait{.in_key = InKey::no});
    visit("pin", f.pin, "bind each thread to a processor");
  }
};

std::string reason_unavailable(const std::string& kernels) {
  try {
    find_kernel_set(kernels);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

/// Weights and caches.
std::uint64_t bytes_of(const DecodeModel& model) {
  return model.model->held_bytes() + model.cache_bytes();
}

/// Points of one row follow each other.
std::vector<Study::Points> by_row(Study::Points points) {
  std::vector<Study::Points> rows;
  while (!points.empty()) {
    std::size_t n = 1;
    while (n < points.size() && points[n]->row == points.front()->row) ++n;
    rows.push_back(points.first(n));
    points = points.subspan(n);
  }
  return rows;
}

/// "gelu,post_norm" -> "gelu, post norm".
std::string in_words(const std::string& differs) {
  std::string words;
  for (const char c : differs) words += c == '_' ? " " : c == ',' ? ", " : std::string(1, c);
  return words;
}

std::string blocks_text(const Transformer& model) {
  return std::to_string(model.blocks()) + " of " + std::to_string(model.config().decoder_layers) +
         " blocks";
}

std::string phase_text(const char* name, const Phase& phase) {
  char text[128];
  std::snprintf(text, sizeof text, "  %s: %.0f weights read, %s, %.3f GFLOP\n", name, phase.weights,
                readable_bytes(phase.bytes).c_str(), phase.flops / 1e9);
  return text;
}

class DecodeStudy : public ModelStudy {
 public:
  StudyInfo info() const override {
    return {.name = "decode",
            .program = "decode_time",
            .about = "measures one experiment, row by row",
            .folder = "decode",
            .example = "decode/table1_800m.cfg",
            .threads = "1,all",
            .one_thread_count = false,
            .quick = "fewer decodes, smaller budget"};
  }
  void flags(Knobs& knobs) override { knobs.add(flags_); }
  std::vector<KnobInfo> row_knobs() const override { return decode_row_knobs(); }

  std::vector<Point> points(const RowFile& file, const RunOptions& options) override {
    if (!(flags_.time_budget > 0)) {
      throw UserError("--time-budget is " + print_value(flags_.time_budget) +
                      " but must be a positive number of seconds");
    }
    if (!(flags_.precision >= 0 && flags_.precision < 1)) {
      throw UserError("--precision is " + print_value(flags_.precision) +
                      " but must be a share from 0 up to 1, e.g. 0.02");
    }
    set_protocol(options.quick);
    most_threads_ = options.threads.back();
    std::vector<DecodeRow> rows = decode_rows(file);
    require_known_rows(options.rows, names_of(rows), file.experiment);
    std::vector<Point> points;
    for (DecodeRow& row : rows) {
      if (!is_wanted(options.rows, row.name)) continue;
      DecodeModel& model = models_[row.name];
      model.row = std::move(row);
      try {
        model.model = std::make_unique<Transformer>(model.row.model);
      } catch (const UserError& error) {
        file.refuse(model.row.name, error.what());
      }
      for (const int threads : options.threads) {
        points.push_back(point_at(model, threads, options.quick));
        // Weights are drawn once for all thread counts.
        if (threads == options.threads.front()) {
          points.back().seconds += double(bytes_of(model)) / kDrawRate;
        }
      }
    }
    return points;
  }

  /// Every row's knobs, parameter counts, bytes and costs.
  std::string details(std::span<const Point> points) const override {
    std::string text, last;
    for (const Point& point : points) {
      if (point.row == last) continue;
      last = point.row;
      const DecodeModel& one = models_.at(point.row);
      text += point.row + " (against " + point.against + ")\n ";
      for (const auto& [name, value] : settings_of(one.row)) text += " " + name + "=" + value;
      text += "\n  parameters " + std::to_string(one.model->parameter_count()) + ", held " +
              readable_bytes(double(one.model->held_bytes())) + " in " + blocks_text(*one.model) +
              ", caches " + readable_bytes(double(one.cache_bytes())) + "\n" +
              phase_text("token", total(one.count(&Transformer::token_cost))) +
              phase_text("block", total(one.count(&Transformer::block_cost)));
    }
    return text;
  }

  /// Rows that memory holds together, each at all its thread counts.
  std::vector<std::vector<std::size_t>> groups(Points points) const override {
    const std::vector<Points> rows = by_row(points);
    std::vector<Load> loads;
    for (const Points row : rows) {
      loads.push_back({bytes_of(models_.at(row.front()->row)), row.front()->against});
    }
    const auto limit = std::uint64_t(kMemoryShare * double(available_memory()));
    std::vector<std::vector<std::size_t>> groups;
    for (const std::vector<std::size_t>& together : group_rows(loads, limit)) {
      groups.emplace_back();
      for (const std::size_t row : together) {
        const auto first = std::size_t(rows[row].data() - points.data());
        for (std::size_t i = 0; i < rows[row].size(); ++i) groups.back().push_back(first + i);
      }
    }
    return groups;
  }

  /// Nothing is timed that does not decode like ref.
  void measure(Points group, Sink& sink) override {
    std::map<int, std::vector<const Point*>> open;
    for (const Points row : by_row(group)) {
      try {
        compare_with_ref(row, sink);
        load(models_.at(row.front()->row), sink);
      } catch (const UserError& error) {
        for (const Point* point : row) sink.fail(*point, error.what());
        models_.erase(row.front()->row);
        continue;
      }
      for (const Point* point : row) open[point->threads].push_back(point);
    }
    if (!is_quick_ && !meter_) watch_conditions(sink);
    for (const auto& [threads, points] : open) measure(points, threads, sink);
    for (const Point* point : group) models_.erase(point->row);
  }

  Metric closing(const Point&) const override { return {kTokenMs, "ms"}; }

 private:
  void set_protocol(bool quick) {
    is_quick_ = quick;
    protocol_.budget_seconds = flags_.time_budget;
    protocol_.precision = flags_.precision;
    protocol_.decisive = kDecisiveColumns;
    if (quick) protocol_.least = 3;
    if (flags_.protocol == DecodeProtocol::paper) {
      protocol_.most = protocol_.least;
      protocol_.warm_up_each = true;
    }
  }

  Point point_at(const DecodeModel& model, int threads, bool quick) const {
    Point point = point_of(model.row, threads, settings_of(model.row),
                           {{"protocol", print_value(flags_.protocol)},
                            {"quick", print_value(quick)},
                            {"pin", print_value(flags_.pin)}});
    point.flags = {{"rows", point.row}};
    point.seconds = measure_seconds(model);
    point.plan = readable_bytes(double(bytes_of(model))) + ", " + blocks_text(*model.model);
    point.unavailable = reason_unavailable(model.row.decode.kernels);
    const std::string& differs = model.row.decode.differs;
    if (!differs.empty()) point.note = "differs from the published model: " + in_words(differs);
    return point;
  }

  double measure_seconds(const DecodeModel& model) const {
    const double bytes = model.held_token().bytes, token_seconds = bytes / kReadRate;
    if (flags_.protocol == DecodeProtocol::paper) {
      return protocol_.least * (kWarmUpTokens + kDecodeTokens) * token_seconds;
    }
    double decode_seconds = kDecodeTokens * token_seconds;
    if (token_seconds > kLongToken) {  // a reading of the ceilings takes seven passes
      decode_seconds += (kDecodeTokens - kUntimedTokens + 1) * 7 *
                        std::min(bytes, double(kMaxCeilingBytes)) / kReadRate;
    }
    return std::max(protocol_.least * decode_seconds, protocol_.budget_seconds);
  }

  /// Throws UserError if the kernels that these points of one row would run do not agree.
  void compare_with_ref(Points points, Sink& sink) {
    const DecodeRow& row = models_.at(points.front()->row).row;
    DecodeRow small = row;
    small.model = shrunk(row.model);
    small.decode.context = small.decode.source_length = 0;  // of no weight here
    small.decode.differs.clear();
    const bool own = row.decode.own_threads;
    for (const Point* point : points) {
      check_interrupt();
      Settings settings = settings_of(small);
      settings.emplace_back("threads", std::to_string(point->threads));
      const auto [at, is_new] = compared_.try_emplace(settings);
      if (is_new) {
        sink.live(row.name + ": comparing with ref");
        set_library_threads(row.decode.kernels, own ? point->threads : 1);
        try {
          require_like_ref("row '" + row.name + "'", row.model, find_kernel_set(row.decode.kernels),
                           row.tokens(), team(own ? 1 : point->threads));
        } catch (const UserError& error) {
          at->second = error.what();
        }
      }
      if (!at->second.empty()) throw UserError(at->second);
    }
  }

  /// Allocates a row's model; throws UserError if it does not fit.
  void load(DecodeModel& model, Sink& sink) {
    check_interrupt();
    sink.live(model.row.name + ": drawing " + readable_bytes(double(bytes_of(model))) +
              " of weights");
    const KernelSet& kernels = find_kernel_set(model.row.decode.kernels);
    model.model->allocate(team(most_threads_), kernels.dense_layout(model.row.model.weight_type));
    model.model->arena().gather_pages();
    std::vector<int> source;
    for (std::int64_t i = 0; i < model.row.decode.source_length; ++i) {
      source.push_back(int(1 + i % (model.row.model.vocab_size - 1)));
    }
    model.encoded = model.model->encode(source);
  }

  /// Where memory is short rows are measured all the same.
  void watch_conditions(Sink& sink) {
    try {
      meter_ = std::make_unique<ConditionsMeter>(team(most_threads_));
    } catch (const UserError& error) {
      sink.say(std::string("the machine's state is not noted: ") + error.what());
    }
  }

  /// Points of loaded models, which take turns.
  void measure(Points points, int threads, Sink& sink) {
    std::list<DecodeCandidate> decoders;
    std::vector<Candidate> candidates;
    std::vector<const Point*> measured;
    for (const Point* point : points) {
      const DecodeModel& model = models_.at(point->row);
      const DecodeKnobs& knobs = model.row.decode;
      try {
        decoders.emplace_back(model, find_kernel_set(knobs.kernels),
                              team(knobs.own_threads ? 1 : threads), team(threads), meter_.get(),
                              flags_.protocol);
      } catch (const UserError& error) {
        sink.fail(*point, error.what());
        continue;
      }
      candidates.push_back(decoders.back().candidate());
      measured.push_back(point);
    }
    const std::string group =
        utc_date() + "." + std::to_string(::getpid()) + "." + std::to_string(turns_++);
    interleave(
        candidates, protocol_,
        [&](std::size_t i, const Trials& trials) {
          const Point& point = *measured[i];
          DecodeNumbers numbers = decode_numbers(models_.at(point.row), trials, kNotedUncertainty);
          numbers.extra.line = name_of(*this, point) + numbers.extra.line;
          numbers.extra.samples["group"] = group;
          sink.close(point, numbers.metrics, numbers.extra);
        },
        [&](const std::string& text) {
          sink.live(text + ", " + std::to_string(threads) + " threads");
        });
  }

  Team& team(int threads) {
    std::unique_ptr<Team>& team = teams_[threads];
    if (!team) team = std::make_unique<Team>(threads, flags_.pin);
    return *team;
  }

  DecodeFlags flags_;
  Protocol protocol_;
  int most_threads_ = 1;
  int turns_ = 0;                              ///< times that rows have begun to take turns
  bool is_quick_ = false;                      ///< conditions are not noted then
  std::map<std::string, DecodeModel> models_;  ///< by row, until it has been measured
  std::map<Settings, std::string> compared_;   ///< with ref: what was wrong
  std::map<int, std::unique_ptr<Team>> teams_;
  std::unique_ptr<ConditionsMeter> meter_;
};

}  // namespace

std::unique_ptr<Study> make_decode_study() { return std::make_unique<DecodeStudy>(); }

}  // namespace scaling

// A teacher's heads to points, sweeps to records.
#include "experiments/sparsefinder/sparsefinder_study.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "experiments/instruments/teacher_knobs.h"
#include "experiments/sparsefinder/native_model.h"
#include "experiments/sparsefinder/online.h"
#include "experiments/sparsefinder/sweep_records.h"
#include "experiments/study/counts.h"
#include "kernels/arena.h"
#include "kernels/check.h"
#include "kernels/clock.h"
#include "models/sparsefinder/attention_tensor.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGold = "gold";  // in place of a method's name
constexpr const char* kClosingGoldMetric = "gold_sparsity";
/// Of scoring a method's configurations offline; of `gold`, of all that comes before: queries and
/// keys of all sequences, and learning from them.
constexpr const char* kSweepSeconds = "sweep_s";
constexpr const char* kOnlineMetric = "online_log_perplexity";
/// Sequences whose tensors of probabilities are looked at.
constexpr std::int64_t kTensors = 16;
/// Positions before or after a query that count as local, as a window of the paper's grid has them.
constexpr std::int64_t kLocalReach = 5;
/// Adam's steps are as long as its rate, and a projection's entries begin within 1.
constexpr double kMostProjectionRate = 10;
/// For the plan: of a configuration, a head and a pair of positions of one sequence, one thread.
constexpr double kPairSeconds = 1.5e-9;

struct SparsefinderKnobs {
  std::string dump, models;
  std::string methods = "all";
  std::int64_t training_sequences = 200, sequences = 200;
  std::int64_t rank = 4, projection_batch = 16, projection_epochs = 10;
  double margin = 1, projection_rate = 0.01, projection_clip = 1;
  std::int64_t cluster_points = 8192, cluster_rounds = 25, routing_rounds = 25;
  double routing_decay = 0.999;
  GlobalTokens globals = GlobalTokens::first;
  std::int64_t online = 0;
  std::int64_t draws = 1000;
  std::uint64_t seed = 1;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait place{.in_key = InKey::no};
    visit("dump", k.dump,
          "folder for queries, keys and one sequence's probabilities as .npy; empty: none", place);
    visit("models", k.models,
          "folder for the models of what runs online, to decode and evaluate; empty: none", place);
    visit("methods", k.methods, "a,b,c, or all; an unknown name lists the known", place);
    visit("training_sequences", k.training_sequences, "that projections and clusters learn from",
          Trait{.quick = "16"});
    visit("sequences", k.sequences, "held-out ones", Trait{.quick = "16"});
    visit("rank", k.rank, "dimensions of projected queries and keys");
    visit("margin", k.margin, "of the hinge that projections are learnt with");
    visit("projection_batch", k.projection_batch, "sequences of a step of learning a projection");
    visit("projection_epochs", k.projection_epochs, "passes over the training sequences");
    visit("projection_rate", k.projection_rate, "learning rate of projections (Adam)");
    visit("projection_clip", k.projection_clip, "longest gradient of a projection");
    visit("cluster_points", k.cluster_points,
          "projected queries and keys that a head's k-means sees");
    visit("cluster_rounds", k.cluster_rounds, "rounds of k-means at most");
    visit("routing_rounds", k.routing_rounds,
          "passes of sim_routing's centroids over the sequences");
    visit("routing_decay", k.routing_decay, "of the running means of sim_routing's centroids");
    visit("globals", k.globals, "who meets everyone, in every method: none, first, first_and_last");
    visit("online", k.online,
          "held-out sequences that the model also runs with predicted graphs alone; 0: none");
    visit("draws", k.draws, "resamples of the held-out sequences, for intervals",
          Trait{.quick = "200"});
    visit("seed", k.seed, "of all that is drawn");
  }
};

SweepSettings settings_of(const SparsefinderKnobs& k) {
  SweepSettings settings;
  settings.projection = {.rank = k.rank,
                         .margin = k.margin,
                         .learning_rate = k.projection_rate,
                         .clip = k.projection_clip,
                         .batch = k.projection_batch,
                         .epochs = k.projection_epochs,
                         .seed = k.seed};
  settings.cluster_points = k.cluster_points;
  settings.cluster_rounds = k.cluster_rounds;
  settings.routing_decay = k.routing_decay;
  settings.routing_rounds = k.routing_rounds;
  settings.globals = k.globals;
  settings.seed = k.seed;
  return settings;
}

class SparsefinderStudy : public Study {
 public:
  StudyInfo info() const override {
    return {
        .name = "sparsefinder",
        .program = "sparsefinder",
        .about = "predicts a trained model's sparse attention graphs and counts what they cover",
        .folder = "sparsefinder",
        .timed = false,
        .quick = "few sequences and draws"};
  }
  void flags(Knobs& knobs) override {
    knobs.add(teacher_);
    knobs.add(knobs_);
  }

  std::vector<Point> points(const RowFile& file, const RunOptions& options) override {
    require_at_least("training_sequences", knobs_.training_sequences, 1);
    require_at_least("sequences", knobs_.sequences, 1);
    require_at_least("draws", knobs_.draws, 1);
    require_at_least("cluster_rounds", knobs_.cluster_rounds, 1);
    require_at_least("routing_rounds", knobs_.routing_rounds, 1);
    require_within("routing_decay", knobs_.routing_decay, 0, 1);
    require_within("projection_rate", knobs_.projection_rate, 0, kMostProjectionRate);
    require_at_least("online", knobs_.online, 0);
    plan_.emplace(teacher_.source());
    require_sound(settings_of(knobs_).projection, plan_->d_head());
    if (!options.dry_run) {
      results_ = prepare_results_dir(options.results, read_provenance().machine);
    }
    const std::string name = teacher_.called();
    std::vector<std::string> wanted = {kGold};
    if (knobs_.methods == "all") {
      for (const Method& method : all_methods()) wanted.push_back(method.name);
    } else {
      for (const std::string& method : split_at_commas(knobs_.methods)) {
        wanted.push_back(find_method(method).name);
      }
    }
    std::vector<std::string> known;
    for (const std::string& method : wanted) known.push_back(name + "." + shown_name(method));
    require_known_rows(options.rows, known, file.experiment);
    const Settings shared = shared_settings(options);
    std::vector<Point> points;
    for (const std::string& method : wanted) {
      Point point;
      point.row = name + "." + shown_name(method);
      point.against = name + "." + kGold;
      if (!is_wanted(options.rows, point.row)) continue;
      point.threads = options.threads.front();
      point.seed = knobs_.seed;
      point.settings = shared;
      point.settings.emplace_back("method", method);
      point.flags = {{"rows", point.row}};
      point.seconds = seconds_of(method) / double(point.threads);
      methods_[point.row] = method;
      points.push_back(std::move(point));
    }
    return points;
  }

  /// All of a teacher, whose heads they share.
  std::vector<std::vector<std::size_t>> groups(Points points) const override {
    return groups_by(points, [](const Point&) { return 0; });
  }

  void measure(Points group, Sink& sink) override {
    const SweepSettings settings = settings_of(knobs_);
    const int threads = group.front()->threads;
    require_memory(plan_->bytes(std::max(knobs_.sequences, knobs_.training_sequences)),
                   "queries and keys of all sequences",
                   "give fewer --sequences and --training_sequences, or a smaller --length");
    const SweepWatch watch = [&sink](const std::string& what, std::int64_t done, std::int64_t of) {
      sink.live(what + ": " + std::to_string(done) + " of " + std::to_string(of));
    };
    const auto start = Clock::now();
    const Teacher teacher(*plan_, teacher_.cache_folder(results_), threads);
    const auto heads = [&](Teacher::Part part, std::int64_t sequences, const std::string& what) {
      return teacher.heads(part, sequences,
                           [&](std::int64_t done) { watch(what, done, sequences); });
    };
    std::map<Source, std::vector<HeadModel>> models;
    const std::vector<Method> learning = methods_of(group);
    if (std::any_of(learning.begin(), learning.end(),
                    [](const Method& method) { return method.source != Source::none; })) {
      const auto training =
          heads(Teacher::Part::training, knobs_.training_sequences, "training sequences");
      models = learn_heads(*plan_, training, learning, settings, watch);
    }
    const auto held_out = heads(Teacher::Part::held_out, knobs_.sequences, "held-out sequences");
    if (!knobs_.dump.empty()) dump(held_out);
    const Sweep sweep(*plan_, held_out, models, settings, watch);
    const double prepared = seconds_since(start);
    const double gold_sparsity = sweep.gold_sparsity();
    const Mat shares = resampled_shares(knobs_.draws, knobs_.sequences, knobs_.seed);
    for (const Point* point : group) {
      const std::string& method = methods_.at(point->row);
      if (method == kGold) {
        if (knobs_.online > 0) record_gold_online(*point, teacher, watch, sink);
        record_gold(*point, sweep, prepared, sink);
      } else {
        record_method(*point, find_method(method), sweep, gold_sparsity, shares, models, teacher,
                      watch, sink);
      }
    }
  }

  Metric closing(const Point& point) const override {
    return {methods_.at(point.row) == kGold ? kClosingGoldMetric : kClosingSweepMetric, "1"};
  }
  Settings added_settings() const override { return added_content_settings(); }
  std::string portable(const std::string& knob, const std::string& value) const override {
    return portable_place(knob, value);
  }

 private:
  /// A method's, with another number of dimensions than is usual behind it: a row of its own.
  std::string shown_name(const std::string& method) const {
    const bool is_usual = knobs_.rank == SparsefinderKnobs{}.rank;
    if (is_usual || method == kGold || find_method(method).source == Source::none) return method;
    return method + "_rank" + std::to_string(knobs_.rank);
  }

  /// Every knob, and what checkpoint and texts hold.
  Settings shared_settings(const RunOptions& options) {
    Knobs knobs;
    flags(knobs);
    Settings all = teacher_settings(knobs, teacher_, *plan_, results_, options);
    // Which methods are measured beside one does not matter to it.
    std::erase_if(all, [](const auto& setting) { return setting.first == "methods"; });
    return all;
  }

  double seconds_of(const std::string& method) const {
    const double pairs = double(plan_->length()) * double(plan_->length());
    const double heads = double(plan_->heads()) * double(knobs_.sequences);
    const std::size_t configured =
        method == kGold
            ? 1
            : configurations(find_method(method), plan_->length(), knobs_.cluster_points).size();
    return kPairSeconds * pairs * heads * double(configured);
  }

  std::vector<Method> methods_of(Points group) const {
    std::vector<Method> methods;
    for (const Point* point : group) {
      const std::string& method = methods_.at(point->row);
      if (method != kGold) methods.push_back(find_method(method));
    }
    return methods;
  }

  std::int64_t layers() const { return plan_->heads() / plan_->model().n_heads; }

  std::vector<GoldGraph> heads_of(const Sweep& sweep, std::int64_t sequence) const {
    std::vector<GoldGraph> heads;
    for (std::int64_t head = 0; head < plan_->heads(); ++head) {
      heads.push_back(sweep.gold(sequence, head));
    }
    return heads;
  }

  /// Sparsity of each head, where its probabilities go and how far its pairs reach: a value a head.
  void record_gold(const Point& point, const Sweep& sweep, double prepared, Sink& sink) const {
    const std::int64_t looked_at = std::min(kTensors, knobs_.sequences);
    const auto heads = std::size_t(plan_->heads());
    std::vector<HeadStatistics> sums(heads);
    std::vector<std::vector<double>> distances(heads);  // distance_shares, summed
    for (std::int64_t i = 0; i < looked_at; ++i) {
      const std::vector<HeadStatistics> own =
          head_statistics(heads_of(sweep, i), layers(), kLocalReach);
      for (std::size_t head = 0; head < heads; ++head) {
        sums[head].support += own[head].support / double(looked_at);
        sums[head].diagonal += own[head].diagonal / double(looked_at);
        sums[head].local += own[head].local / double(looked_at);
        sums[head].first += own[head].first / double(looked_at);
        const std::vector<double> shares = distance_shares(sweep.gold(i, std::int64_t(head)));
        distances[head].resize(shares.size());
        for (std::size_t bin = 0; bin < shares.size(); ++bin) {
          distances[head][bin] += shares[bin] / double(looked_at);
        }
      }
    }
    Metric sparsity = closing(point), support{"support", "keys"}, diagonal{"diagonal", "1"},
           local{"local", "1"}, first{"first", "1"};
    for (std::size_t head = 0; head < heads; ++head) {
      sparsity.values.push_back(sweep.gold_sparsity(std::int64_t(head)));
      support.values.push_back(sums[head].support);
      diagonal.values.push_back(sums[head].diagonal);
      local.values.push_back(sums[head].local);
      first.values.push_back(sums[head].first);
    }
    Extra extra;
    extra.config["mean_gold_sparsity"] = sweep.gold_sparsity();
    extra.config["layers"] = layers();
    extra.config["looked_at"] = looked_at;
    extra.samples["columns"] = {"gold_sparsity", "support", "diagonal", "local", "first"};
    for (std::size_t bin = 0; bin < distances.front().size(); ++bin) {
      const std::int64_t from = bin == 0 ? 0 : std::int64_t(1) << (bin - 1);
      extra.samples["columns"].push_back("pairs_from_" + std::to_string(from));
    }
    extra.samples["rows"] = nlohmann::ordered_json::array();
    for (std::size_t head = 0; head < heads; ++head) {
      nlohmann::ordered_json row = {sparsity.values[head], support.values[head],
                                    diagonal.values[head], local.values[head], first.values[head]};
      for (const double share : distances[head]) row.push_back(share);
      extra.samples["rows"].push_back(std::move(row));
    }
    const Metric seconds{kSweepSeconds, "s", {prepared}};
    sink.close(point, {seconds, support, diagonal, local, first, sparsity}, extra);
  }

  void record_method(const Point& point, const Method& method, const Sweep& sweep,
                     double gold_sparsity, const Mat& shares,
                     const std::map<Source, std::vector<HeadModel>>& models, const Teacher& teacher,
                     const SweepWatch& watch, Sink& sink) const {
    const auto start = Clock::now();
    const std::vector<SweepPoint> points = sweep.run(method, watch);
    const Metric seconds{kSweepSeconds, "s", {seconds_since(start)}};
    if (knobs_.online > 0) {
      double last = 0;
      for (const SweepPoint* one : online_points(points, gold_sparsity)) {
        // Strata rise; behind them comes the one at the gold sparsity.
        const double stratum = stratum_of(one->mean.sparsity);
        const std::string place = stratum <= last ? kGold : print_value(stratum);
        last = stratum;
        record_online(point, method, *one, place, sweep, models, teacher, watch, sink);
      }
    }
    const std::size_t windows = window_widths(method, plan_->length()).size();
    for (std::size_t first = 0; first < points.size(); first += windows) {
      const auto begin = points.begin() + std::ptrdiff_t(first);
      const ConfigurationRecord record =
          configuration_record({begin, begin + std::ptrdiff_t(windows)}, shares);
      Extra extra;
      extra.config = record.config;
      extra.config["method"] = method.name;
      extra.config["source"] = names_of(method.source)[std::size_t(method.source)];
      extra.config_alone = true;
      extra.samples = record.samples;
      sink.add(point, {record.recall}, extra);
    }
    const fs::path folder = fs::path(sink.file().path()).parent_path() / "sparsefinder";
    std::error_code ignored;  // write_npy says what is wrong
    fs::create_directories(folder, ignored);
    write_npy((folder / (point.row + ".npy")).string(),
              {points.size(), points.front().sequences.size(), kScoreFields}, score_tensor(points));
    FrontierRecord frontier = frontier_record(points, gold_sparsity, shares);
    Extra extra;
    extra.config = frontier.config;
    extra.config["mean_gold_sparsity"] = gold_sparsity;
    extra.config["points"] = points.size();
    add_learning(method, models, extra);
    frontier.metrics.insert(frontier.metrics.begin(), seconds);
    sink.close(point, frontier.metrics, extra);
  }

  /// The model with the graphs of one configuration and window. place: a name for it.
  void record_online(const Point& point, const Method& method, const SweepPoint& of,
                     const std::string& place, const Sweep& sweep,
                     const std::map<Source, std::vector<HeadModel>>& models, const Teacher& teacher,
                     const SweepWatch& watch, Sink& sink) const {
    const HeadPredictor predict = [&](std::int64_t sequence, std::int64_t head, const HeadSlice& q,
                                      const HeadSlice& k) {
      return std::move(sweep.predict(method, {of.configuration}, q, k, sequence, head).front());
    };
    const std::vector<OnlineSequence> sequences =
        run_online(*plan_, teacher, knobs_.online, of.width, knobs_.globals, predict,
                   [&](std::int64_t done) { watch(method.name + " online", done, knobs_.online); });
    Extra extra = online_extra(sequences);
    extra.config["grid"] = names_of(of.configuration.grid)[std::size_t(of.configuration.grid)];
    extra.config["parameter"] = of.configuration.parameter;
    extra.config["value"] = of.configuration.value;
    extra.config["nearest"] = of.configuration.nearest;
    extra.config["width"] = of.width;
    extra.config["stratum"] = stratum_of(of.mean.sparsity);
    extra.config["offline_recall"] = of.mean.recall;
    extra.config["offline_sparsity"] = of.mean.sparsity;
    std::vector<Metric> metrics;
    if (is_native(*plan_, method, knobs_.globals)) {
      const double apart = native_difference(point, method, of, place, models, teacher, sequences);
      metrics.push_back({"native_difference", "nats/token", {apart}});
    }
    metrics.push_back({kOnlineMetric, "nats/token", {log_perplexity(sequences)}});
    sink.add(point, metrics, extra);
  }

  /// How far a sequence's loss moves at most where the model's attention predicts by itself, with
  /// projections in single precision; writes that model where it was asked for.
  double native_difference(const Point& point, const Method& method, const SweepPoint& of,
                           const std::string& place,
                           const std::map<Source, std::vector<HeadModel>>& models,
                           const Teacher& teacher,
                           const std::vector<OnlineSequence>& sequences) const {
    const std::unique_ptr<Transformer> native = make_native_model(
        *plan_, method, models.at(method.source), of.configuration, of.width, knobs_.globals);
    if (!knobs_.models.empty()) {
      const std::string name = point.row + "." + place + ".safetensors";
      write_native_model(*plan_, *native, (fs::path(knobs_.models) / name).string());
    }
    const std::vector<CrossEntropy> losses = teacher.losses_of(*native, knobs_.online);
    double farthest = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const CrossEntropy& masked = sequences[i].loss;
      farthest = std::max(farthest, std::abs(losses[i].loss - masked.loss) / masked.weight);
    }
    return farthest;
  }

  /// The same with all pairs, and with the gold graphs, which must change nothing.
  void record_gold_online(const Point& point, const Teacher& teacher, const SweepWatch& watch,
                          Sink& sink) const {
    std::vector<OnlineSequence> full;
    teacher.losses(
        knobs_.online, nullptr, [](std::int64_t) {},
        [&](std::int64_t, const CrossEntropy& loss) {
          full.push_back({loss, {}});
        });
    const HeadPredictor predict = [&](std::int64_t, std::int64_t, const HeadSlice& q,
                                      const HeadSlice& k) {
      return Prediction{gold_graph(q, k, plan_->causal(), *plan_->normaliser()).graph(), 0};
    };
    const std::vector<OnlineSequence> gold =
        run_online(*plan_, teacher, knobs_.online, 0, GlobalTokens::none, predict,
                   [&](std::int64_t done) { watch("gold online", done, knobs_.online); });
    double farthest = 0;
    for (std::size_t i = 0; i < gold.size(); ++i) {
      const double apart = std::abs(gold[i].loss.loss - full[i].loss.loss) / full[i].loss.weight;
      farthest = std::max(farthest, apart);
    }
    const double moved = gold_logits_moved(*plan_, teacher, knobs_.online, [&](std::int64_t done) {
      watch("gold logits", done, knobs_.online);
    });
    sink.add(point,
             {{"online_gold_difference", "nats/token", {farthest}},
              {"online_gold_logits", "1", {moved}},
              {kOnlineMetric, "nats/token", {log_perplexity(full)}}},
             online_extra(gold));
  }

  /// A row a sequence.
  static Extra online_extra(const std::vector<OnlineSequence>& sequences) {
    Extra extra;
    extra.config_alone = true;
    nlohmann::ordered_json columns = {"loss", "weight"};
    GraphScores any;
    GraphScores::fields(any, [&columns](const char* name, double) { columns.push_back(name); });
    extra.samples["columns"] = columns;
    extra.samples["rows"] = nlohmann::ordered_json::array();
    for (const OnlineSequence& one : sequences) {
      nlohmann::ordered_json row = {one.loss.loss, one.loss.weight};
      GraphScores::fields(one.scores, [&row](const char*, double value) { row.push_back(value); });
      extra.samples["rows"].push_back(row);
    }
    return extra;
  }

  /// Of learnt projections, how far their losses fell: means over heads.
  static void add_learning(const Method& method,
                           const std::map<Source, std::vector<HeadModel>>& models, Extra& extra) {
    if (method.source != Source::pairwise && method.source != Source::per_query) return;
    double first = 0, last = 0;
    const std::vector<HeadModel>& heads = models.at(method.source);
    for (const HeadModel& model : heads) {
      first += model.first_loss / double(heads.size());
      last += model.last_loss / double(heads.size());
    }
    extra.config["first_loss"] = first;
    extra.config["last_loss"] = last;
  }

  /// (sequences, layers, positions, d_model) of queries and keys; (layers, heads, queries, keys) of
  /// the first sequence's probabilities.
  void dump(const std::vector<SequenceHeads>& sequences) const {
    std::error_code ignored;  // write_npy says what is wrong
    fs::create_directories(knobs_.dump, ignored);
    const auto n = std::size_t(plan_->length());
    const auto write = [&](const char* name, std::vector<Mat> SequenceHeads::*of) {
      std::vector<float> values;
      for (const SequenceHeads& sequence : sequences) {
        for (const Mat& layer : sequence.*of) {
          values.insert(values.end(), layer.data(), layer.data() + layer.size());
        }
      }
      write_npy((fs::path(knobs_.dump) / name).string(),
                {sequences.size(), std::size_t(layers()), n, std::size_t(plan_->model().d_model)},
                values);
    };
    write("queries.npy", &SequenceHeads::q);
    write("keys.npy", &SequenceHeads::k);
    std::vector<GoldGraph> gold;
    for (std::int64_t head = 0; head < plan_->heads(); ++head) {
      gold.push_back(gold_graph(plan_->queries(sequences.front(), head),
                                plan_->keys(sequences.front(), head), plan_->causal(),
                                *plan_->normaliser()));
    }
    write_npy((fs::path(knobs_.dump) / "probabilities.npy").string(),
              {std::size_t(layers()), std::size_t(plan_->model().n_heads), n, n},
              attention_tensor(gold));
  }

  TeacherKnobs teacher_;
  SparsefinderKnobs knobs_;
  std::optional<TeacherPlan> plan_;
  std::string results_;
  std::map<std::string, std::string> methods_;  ///< by the point's row
};

}  // namespace

std::unique_ptr<Study> make_sparsefinder_study() { return std::make_unique<SparsefinderStudy>(); }

}  // namespace scaling

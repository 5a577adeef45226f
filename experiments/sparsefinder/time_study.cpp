// Models of one teacher to rows, trials to times beside the faster full attention's.
#include "experiments/sparsefinder/time_study.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "experiments/instruments/held_attention.h"
#include "experiments/instruments/interleave.h"
#include "experiments/instruments/teacher_knobs.h"
#include "experiments/sparsefinder/teacher_cores.h"
#include "experiments/study/provenance.h"
#include "kernels/arena.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "models/training/checkpoint.h"
#include "models/training/initial_weights.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".safetensors";
constexpr const char* kSoftmax = "softmax";
/// For the plan: FLOP/s of attention.
constexpr double kRate = 20e9;

struct TimeKnobs {
  std::string models;
  std::int64_t sequences = 8;
  int repeats = 40;
  double time_budget = 6;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("models", k.models,
          "folder of its models whose attention predicts, which sparsefinder wrote; empty: none",
          Trait{.in_key = InKey::no});
    visit("sequences", k.sequences, "held-out ones, whose queries and keys are taken",
          Trait{.quick = "2"});
    visit("repeats", k.repeats, "of each model, at most", Trait{.quick = "6"});
    visit("time_budget", k.time_budget, "seconds of measuring a model",
          Trait{.quick = "1", .in_key = InKey::no});
  }
};

/// One of the models that take turns.
struct Subject {
  std::string name;
  ModelConfig model;
  std::string weights;  ///< file of its attentions' parameters; empty: they have none
  bool is_full = false;
};

bool is_between(const std::string& text, const std::string& begins, const std::string& ends) {
  return text.size() > begins.size() + ends.size() && text.rfind(begins, 0) == 0 &&
         text.compare(text.size() - ends.size(), ends.size(), ends) == 0;
}

/// Throws UserError for a model that was not made of this very checkpoint.
void require_made_of(const CheckpointInfo& teacher, const CheckpointInfo& model,
                     const std::string& path) {
  if (teacher.step == model.step && teacher.training == model.training &&
      teacher.fingerprint == model.fingerprint) {
    return;
  }
  throw UserError("'" + path + "' was made of another checkpoint (step " +
                  std::to_string(model.step) + ", the teacher's is " +
                  std::to_string(teacher.step) +
                  ", or of another training); write it anew by "
                  "sparsefinder --online N --models of this checkpoint, or remove it");
}

/// Throws UserError if queries and keys of the teacher are none for this model.
void require_same_heads(const ModelConfig& teacher, const ModelConfig& model,
                        const std::string& path) {
  for (const char* knob : {"d_model", "n_heads", "decoder_layers", "attention_layers"}) {
    const std::string wanted = get_field(teacher, knob), found = get_field(model, knob);
    if (wanted == found) continue;
    throw UserError("'" + path + "' is no model of this teacher: its " + knob + " is " + found +
                    ", the teacher's is " + wanted +
                    "; give the folder that sparsefinder --models "
                    "wrote for this checkpoint, or another --name");
  }
}

class SparsefinderTimeStudy : public Study {
 public:
  StudyInfo info() const override {
    return {.name = "sparsefinder_time",
            .program = "sparsefinder_time",
            .about =
                "times attentions that predict their pairs, on a teacher's own "
                "queries and keys",
            .folder = "sparsefinder",
            .threads = "1",
            .quick = "few sequences and repeats"};
  }
  void flags(Knobs& knobs) override {
    knobs.add(teacher_);
    knobs.add(knobs_);
  }

  std::vector<Point> points(const RowFile& file, const RunOptions& options) override {
    if (knobs_.sequences < 1 || knobs_.repeats < 1 || !(knobs_.time_budget > 0)) {
      throw UserError("--sequences " + print_value(knobs_.sequences) + ", --repeats " +
                      print_value(knobs_.repeats) + ", --time-budget " +
                      print_value(knobs_.time_budget) +
                      ": give at least one sequence and one repeat, and a positive number of "
                      "seconds");
    }
    plan_.emplace(teacher_.source());
    if (!options.dry_run) {
      results_ = prepare_results_dir(options.results, read_provenance().machine);
    }
    find_subjects();
    std::vector<std::string> known;
    for (const Subject& subject : subjects_) known.push_back(subject.name);
    require_known_rows(options.rows, known, file.experiment);
    Knobs knobs;
    flags(knobs);
    const Settings shared = teacher_settings(knobs, teacher_, *plan_, results_, options);
    std::vector<Point> points;
    for (const Subject& subject : subjects_) {
      if (!is_wanted(options.rows, subject.name)) continue;
      Point point;
      point.row = subject.name;
      point.against = own_full();
      point.threads = options.threads.front();
      point.settings = shared;
      for (const auto& setting : attention_settings(subject.model, plan_->causal())) {
        point.settings.push_back(setting);
      }
      point.settings.emplace_back(
          "weights", subject.weights.empty() || options.dry_run ? "" : content_of(subject.weights));
      point.flags = {{"rows", point.row}};
      point.seconds = planned_seconds();
      points.push_back(std::move(point));
    }
    return points;
  }

  /// All models of the teacher, which take turns.
  std::vector<std::vector<std::size_t>> groups(Points points) const override {
    return groups_by(points, [](const Point&) { return 0; });
  }

  void measure(Points group, Sink& sink) override {
    const int threads = group.front()->threads;
    Team team(threads);
    const CoreInputs inputs(
        *plan_, held_out_heads(teacher_, *plan_, results_, knobs_.sequences, threads, sink));
    set_gemm_threads(threads);
    // The full ones divide every speed-up, so that they take their turns whatever is asked for.
    std::vector<const Subject*> timed;
    for (const Subject& subject : subjects_) {
      if (subject.is_full || find(group, subject.name)) timed.push_back(&subject);
    }
    std::list<TeacherCores> cores;  // whose members stay where they are
    std::vector<Candidate> candidates;
    for (const Subject* subject : timed) {
      cores.emplace_back(subject->model, subject->weights, inputs, team);
      candidates.push_back(cores.back().candidate(subject->name));
    }
    const Protocol protocol{.least = std::min(kFewestTrials, knobs_.repeats),
                            .most = knobs_.repeats,
                            .budget_seconds = knobs_.time_budget,
                            .precision = 0,
                            .seed = plan_->model().seed};
    const std::vector<Trials> trials =
        interleave(candidates, protocol, {}, [&sink](const std::string& text) { sink.live(text); });
    const Rounds full = fastest_full(timed, trials);
    auto core = cores.begin();
    for (std::size_t i = 0; i < timed.size(); ++i, ++core) {
      if (const Point* point = find(group, timed[i]->name)) {
        close(*point, *timed[i], *core, trials[i], full, sink);
      }
    }
  }

  Metric closing(const Point&) const override { return {.name = "train_us_token", .unit = "us"}; }
  Settings added_settings() const override {
    Settings all = added_content_settings();
    all.emplace_back("weights", "");
    return all;
  }
  std::string portable(const std::string& knob, const std::string& value) const override {
    return portable_place(knob, value);
  }

 private:
  using Rounds = std::map<int, Columns>;  ///< columns by round

  std::string own_full() const {
    return teacher_.called() + ".full_" + get_field(plan_->model(), "normaliser");
  }

  void find_subjects() {
    ModelConfig softmax = plan_->model();
    set_field(softmax, "normaliser", kSoftmax);
    subjects_ = {{teacher_.called() + ".full_" + kSoftmax, softmax, "", true},
                 {own_full(), plan_->model(), "", true}};
    if (knobs_.models.empty()) return;
    std::vector<std::string> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(knobs_.models, error)) {
      files.push_back(entry.path().filename().string());
    }
    if (error) {
      throw UserError("--models '" + knobs_.models + "' is no folder that can be read (" +
                      error.message() + "); name the one that sparsefinder --models wrote");
    }
    std::sort(files.begin(), files.end());
    const CheckpointInfo teacher = read_checkpoint_info(teacher_.checkpoint);
    for (const std::string& name : files) {
      if (!is_between(name, teacher_.called() + ".", kEnding)) continue;
      const std::string path = (fs::path(knobs_.models) / name).string();
      const CheckpointInfo info = read_checkpoint_info(path);
      ModelConfig model = info.model;
      require_same_heads(plan_->model(), model, path);
      require_made_of(teacher, info, path);
      model.blocks = model.decoder_layers;
      subjects_.push_back(
          {name.substr(0, name.size() - std::string(kEnding).size()), model, path, false});
    }
    if (subjects_.size() == 2) {
      throw UserError("--models '" + knobs_.models + "' has no file " + teacher_.called() + ".*" +
                      kEnding +
                      "; write them by sparsefinder --online N --models of this "
                      "checkpoint, or give the --name that they begin with");
    }
  }

  static const Point* find(Points group, const std::string& row) {
    for (const Point* point : group) {
      if (point->row == row) return point;
    }
    return nullptr;
  }

  double planned_seconds() const {
    const double pairs = double(plan_->length()) * double(plan_->length());
    const double flops = 20 * pairs * double(plan_->d_head() * plan_->heads());
    const double trial = double(knobs_.sequences) * flops / kRate;
    return std::clamp(knobs_.time_budget, std::min(kFewestTrials, knobs_.repeats) * trial,
                      std::max(knobs_.time_budget, knobs_.repeats * trial));
  }

  static Rounds rounds_of(const Trials& trials) {
    Rounds all;
    for (const Sample& sample : trials.kept) {
      Columns columns(kCoreColumns);
      for (std::size_t c = 0; c < kCoreColumns; ++c) columns[c] = sample.column(c);
      all[sample.round] = columns;
    }
    return all;
  }

  /// Of each round that all full attentions were in the least of their times, column by column.
  static Rounds fastest_full(const std::vector<const Subject*>& timed,
                             const std::vector<Trials>& trials) {
    Rounds best;
    std::map<int, int> seen;
    int full = 0;
    for (std::size_t i = 0; i < timed.size(); ++i) {
      if (!timed[i]->is_full) continue;
      ++full;
      for (const auto& [round, columns] : rounds_of(trials[i])) {
        ++seen[round];
        const auto [at, is_new] = best.emplace(round, columns);
        if (is_new) continue;
        for (std::size_t c = 0; c < kCoreColumns; ++c) {
          at->second[c] = std::min(at->second[c], columns[c]);
        }
      }
    }
    std::erase_if(best, [&](const auto& round) { return seen.at(round.first) < full; });
    return best;
  }

  void close(const Point& point, const Subject& subject, TeacherCores& core, const Trials& trials,
             const Rounds& full, Sink& sink) const {
    std::vector<Metric> metrics = {{"sparsity", "1", {core.sparsity()}}};
    const Rounds own = rounds_of(trials);
    const auto add = [&](const std::string& name, CoreColumn column) {
      Metric speedup{name + "_speedup", "1"}, time{name + "_us_token", "us"};
      for (const auto& [round, columns] : own) {
        time.values.push_back(columns[column]);
        const auto beside = full.find(round);
        if (beside != full.end())
          speedup.values.push_back(beside->second[column] / columns[column]);
      }
      if (!subject.is_full && !speedup.values.empty()) metrics.push_back(std::move(speedup));
      metrics.push_back(std::move(time));
    };
    if (core.decodes()) add("decode", kDecodeTime);
    add("forward", kForwardTime);
    add("train", kTrainTime);
    char text[96];
    std::snprintf(text, sizeof text, ": %.1f %% of pairs left out, training %.4g us a token",
                  100 * metrics.front().values.front(), summarize(metrics.back().values).median);
    Extra extra{.config = {{"positions", plan_->length()},
                           {"speedups_over", "the faster full attention of each round"}},
                .note = "values and gradients drawn; caches may hold what all sequences read",
                .line = point.row + text};
    sink.close(point, metrics, extra);
  }

  TeacherKnobs teacher_;
  TimeKnobs knobs_;
  std::optional<TeacherPlan> plan_;
  std::string results_;
  std::vector<Subject> subjects_;
};

}  // namespace

std::unique_ptr<Study> make_sparsefinder_time_study() {
  return std::make_unique<SparsefinderTimeStudy>();
}

}  // namespace scaling

// Queries and keys of held-out sequences to weights, weights to the spectrum of every head.
#include "experiments/attention/spectrum_study.h"

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>
#include <xtensor/xnpy.hpp>
#include <xtensor/xtensor.hpp>

#include "experiments/instruments/held_attention.h"
#include "experiments/instruments/teacher_knobs.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/provenance.h"
#include "kernels/parallel.h"
#include "models/sparsefinder/spectrum.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

constexpr double kShare = 0.9;  // of rank_90
/// For the plan: an eigenvalue takes about this many FLOP of each pair of positions, at this rate.
constexpr double kFlopsOfPair = 4, kRate = 3e9;

struct SpectrumKnobs {
  std::int64_t sequences = 8;
  bool untrained = false;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("sequences", k.sequences, "held-out ones, whose matrices are taken", Trait{.quick = "2"});
    visit("untrained", k.untrained,
          "the weights that the checkpoint's training began with: what is there without it");
  }
};

/// (attentions of all layers, their heads, positions).
using Spectra = xt::xtensor<double, 3>;

class SpectrumStudy : public Study {
 public:
  StudyInfo info() const override {
    return {.name = "attention_spectrum",
            .program = "attention_spectrum",
            .about = "takes the singular values of a trained model's attention matrices",
            .folder = "attention",
            .timed = false,
            .quick = "few sequences"};
  }
  void flags(Knobs& knobs) override {
    knobs.add(teacher_);
    knobs.add(knobs_);
  }

  std::vector<Point> points(const RowFile& file, const RunOptions& options) override {
    require_at_least("sequences", knobs_.sequences, 1);
    TeacherSource source = teacher_.source();
    source.must_be_sparse = false;
    source.is_untrained = knobs_.untrained;
    plan_.emplace(source);
    if (!options.dry_run) {
      results_ = prepare_results_dir(options.results, read_provenance().machine);
    }
    std::vector<std::string> known;
    for (std::int64_t i = 0; i < attentions(); ++i) known.push_back(name_of(i));
    require_known_rows(options.rows, known, file.experiment);
    Knobs knobs;
    flags(knobs);
    Settings shared = teacher_settings(knobs, teacher_, *plan_, results_, options);
    const Settings own = attention_settings(plan_->model(), plan_->causal());
    shared.insert(shared.end(), own.begin(), own.end());
    std::vector<Point> points;
    for (std::int64_t i = 0; i < attentions(); ++i) {
      if (!is_wanted(options.rows, name_of(i))) continue;
      Point point;
      point.row = name_of(i);
      point.against = known.front();
      point.threads = options.threads.front();
      point.settings = shared;
      point.settings.emplace_back("layer", std::to_string(i + 1));
      point.flags = {{"rows", point.row}};
      const double n = double(plan_->length());
      point.seconds = double(knobs_.sequences * plan_->layer_heads()) * n * n * n * kFlopsOfPair /
                      kRate / point.threads;
      points.push_back(std::move(point));
    }
    return points;
  }

  /// All attentions of the model, which is read once.
  std::vector<std::vector<std::size_t>> groups(Points points) const override {
    return groups_by(points, [](const Point&) { return 0; });
  }

  void measure(Points group, Sink& sink) override {
    const std::vector<SequenceHeads> heads =
        held_out_heads(teacher_, *plan_, results_, knobs_.sequences, group.front()->threads, sink);
    const Spectra spectra = spectra_of(heads, sink);
    write(spectra);
    for (const Point* point : group) close(*point, spectra, sink);
  }

  Metric closing(const Point&) const override { return {.name = "rank_90", .unit = "1"}; }
  Settings added_settings() const override { return added_content_settings(); }
  std::string portable(const std::string& knob, const std::string& value) const override {
    return portable_place(knob, value);
  }

 private:
  std::int64_t attentions() const {
    return plan_->model().decoder_layers * plan_->model().attention_layers;
  }
  /// Of rows and files. An untrained model is another one.
  std::string called() const {
    return teacher_.called() + (knobs_.untrained && teacher_.name.empty() ? ".untrained" : "");
  }
  std::string name_of(std::int64_t attention) const {
    return called() + ".layer" + std::to_string(attention + 1);
  }

  Spectra spectra_of(const std::vector<SequenceHeads>& sequences, Sink& sink) const {
    const std::int64_t n_heads = plan_->model().n_heads, n = plan_->length();
    Spectra sums =
        xt::zeros<double>({std::size_t(attentions()), std::size_t(n_heads), std::size_t(n)});
    std::int64_t done = 0;
    for (const SequenceHeads& one : sequences) {
      check_interrupt();
      parallel_for(plan_->heads(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t head = begin; head < end; ++head) {
          const std::vector<double> shares =
              singular_shares(head_weights(plan_->queries(one, head), plan_->keys(one, head),
                                           plan_->causal(), plan_->normaliser()));
          for (std::size_t i = 0; i < shares.size(); ++i) {
            sums(std::size_t(head / n_heads), std::size_t(head % n_heads), i) += shares[i];
          }
        }
      });
      sink.live("spectra: " + std::to_string(++done) + " of " + std::to_string(sequences.size()) +
                " sequences");
    }
    sums /= double(sequences.size());
    return sums;
  }

  void write(const Spectra& spectra) const {
    const fs::path folder = fs::path(results_) / "spectrum";
    try {
      fs::create_directories(folder);
      xt::dump_npy((folder / (called() + ".npy")).string(),
                   xt::xtensor<float, 3>(xt::cast<float>(spectra)));
    } catch (const std::runtime_error& error) {
      throw UserError("'" + folder.string() + "' cannot be written (" + error.what() +
                      "); give another folder by --results");
    }
  }

  void close(const Point& point, const Spectra& spectra, Sink& sink) const {
    const auto layer = std::size_t(std::stoll(*find_setting(point.settings, "layer")) - 1);
    const auto n = std::size_t(plan_->length());
    std::vector<std::vector<double>> of_heads;
    for (std::size_t head = 0; head < spectra.shape(1); ++head) {
      of_heads.emplace_back();
      for (std::size_t i = 0; i < n; ++i) of_heads.back().push_back(spectra(layer, head, i));
    }
    std::vector<Metric> metrics;
    for (std::size_t rank = 1; rank <= n; rank *= 2) {
      metrics.push_back({"singular_share_" + std::to_string(rank), "1"});
      for (const auto& shares : of_heads) metrics.back().values.push_back(shares[rank - 1]);
    }
    metrics.push_back({"rank_90", "1"});
    for (const auto& shares : of_heads) {
      metrics.back().values.push_back(double(rank_of_share(shares, kShare)));
    }
    sink.close(point, metrics,
               {.config = {{"positions", plan_->length()}}, .note = "samples are heads"});
  }

  TeacherKnobs teacher_;
  SpectrumKnobs knobs_;
  std::optional<TeacherPlan> plan_;
  std::string results_;
};

}  // namespace

std::unique_ptr<Study> make_spectrum_study() { return std::make_unique<SpectrumStudy>(); }

}  // namespace scaling

// What reversible stacks save in memory and cost in time against depth and batch, and what becomes
// of gradients if their backward pass decides anew.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/instruments/model_row.h"
#include "experiments/study/study.h"

namespace scaling {

struct StackKnobs {
  std::string depths = "2,4,8,12,16,24", batches = "1,2,4,8,16";
  int repeats = 7;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("depths", k.depths, "decoder blocks", Trait{.quick = "2,4,8"});
    visit("batches", k.batches, "sequences", Trait{.quick = "1,2,4"});
    visit("repeats", k.repeats, "timed steps", Trait{.quick = "3"});
  }
};

/// Rows that are measured together at one depth and batch, their names ending in
/// _d<depth>_b<batch>.
struct StackGroup {
  /// steps: memory and time of a training step. gradients: distance from those of the reference.
  enum class Kind { steps, gradients };
  Kind kind = Kind::steps;
  ModelRow reference;          ///< what all rows are `against`
  std::vector<ModelRow> rows;  ///< for steps the reference too, unless it was not selected
};

class StackStudy : public Study {
 public:
  StudyInfo info() const override;
  void flags(Knobs& knobs) override { knobs.add(knobs_); }
  std::vector<KnobInfo> row_knobs() const override { return model_row_knobs(); }
  /// Rows against a plain stack get steps, at every depth with their own batch and at every batch
  /// with their own decoder_layers; rows against a stored one get gradients at every depth. Refuses
  /// rows against a stack that is neither, with an encoder, or with an impossible depth or batch.
  std::vector<Point> points(const RowFile& file, const RunOptions& options) override;
  std::vector<std::vector<std::size_t>> groups(std::span<const Point* const> points) const override;
  /// In processes of their own, so that nothing stays behind.
  void measure(std::span<const Point* const> group, Sink& sink) override;
  Metric closing(const Point& point) const override;

 private:
  /// The fastest linked library for products, and its rate on a large one: the ceiling of mfu.
  struct Library {
    std::string name;
    double gflops = 0;
  };
  struct Place {
    std::size_t group, row;
  };

  const ModelRow& row_of(const Point& point) const;
  const StackGroup& group_of(const Point& point) const {
    return groups_[places_.at(point.row).group];
  }
  /// Libraries are compared only if there is something to measure.
  const Library& library(int threads);
  void measure_steps(std::span<const Point* const> group, Sink& sink);
  void measure_gradients(std::span<const Point* const> group, Sink& sink);

  StackKnobs knobs_;
  bool quick_ = false;
  std::vector<StackGroup> groups_;
  std::map<std::string, Place> places_;  ///< by the point's name
  std::optional<Library> library_;
};

}  // namespace scaling

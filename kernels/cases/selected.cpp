// Cases of the sparse feed-forward's kernels: the controller and the gathered rows it chooses.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "kernels/cases/makers.h"

namespace scaling {
namespace {

class ControllerProblem : public ProblemBase {
 public:
  ControllerProblem(const ProblemOptions& options, const Setting& g, const ControllerSizes& s)
      : ProblemBase(options, g.values),
        sizes_(s),
        tokens_(g.tokens),
        block_count_(s.d_ff / s.block),
        blocks_(whole_if_open(s.blocks, s.d_ff / s.block)),
        hidden_(g.tokens * s.rank, g.misalign),
        bias_(s.d_ff, g.misalign),
        selected_(g.tokens * block_count_, g.misalign) {
    weights_ = std::make_unique<RotatedWeights>(
        options, options.type, std::vector<RotatedWeights::Shape>{{Layout::panels, s.rank, s.d_ff}},
        source_, g.misalign);
    source_.fill(hidden_);
    source_.fill(bias_);
    for (int t = 0; t < options.threads; ++t) logits_.emplace_back(s.d_ff, g.misalign);
  }

  void reset() override {
    std::fill_n(selected_.data(), selected_.size(), -1);
    for (auto& logits : logits_) std::fill_n(logits.data(), logits.size(), -1.0f);
  }

  void run(const KernelSet& set, std::int64_t call, int thread) override {
    set.controller(weights_->view(0, call), bias_.data(), hidden_.data(), tokens_, sizes_.block,
                   logits_[std::size_t(thread)].data(), selected_.data(), part(blocks_, thread));
  }

  Outputs outputs() const override {
    return {{}, {selected_.data(), selected_.data() + selected_.size()}};
  }

  bool guards_intact() const override {
    bool intact = selected_.intact();
    for (const auto& logits : logits_) {
      intact = intact && logits.intact();
      for (std::int64_t j = 0; j < logits.size(); ++j) {
        const std::int64_t block = j / sizes_.block;
        const bool own = block >= blocks_.begin && block < blocks_.end;
        intact = intact && (own || logits[j] == -1.0f);
      }
    }
    return intact;
  }

  /// Another choice is right only if rounding could have swapped the two; never between exact ties.
  std::string compare(const Outputs& actual, const Outputs& expected, const Outputs&,
                      double input_rounding) const override {
    for (std::size_t i = 0; i < expected.indices.size(); ++i) {
      const std::int32_t e = expected.indices[i], a = actual.indices[i];
      if (e == a) continue;
      std::string where = "selection " + std::to_string(i) + " is " + std::to_string(a) +
                          ", ref has " + std::to_string(e);
      if (e < 0 || a < 0 || a >= sizes_.block) return where;
      const auto [best, allowed_best] = logit(i, e, input_rounding);
      const auto [other, allowed_other] = logit(i, a, input_rounding);
      if (best == other || best - other > allowed_best + allowed_other) return where;
    }
    return "";
  }

  Phase cost() const override {
    const double columns = double(blocks_.size() * sizes_.block);
    const double matrix = columns * double(sizes_.rank);
    return {"controller", matrix + columns, matrix * double(bytes_of(options_.type)) + columns * 4,
            2 * matrix * tokens_};
  }

 private:
  /// The logit behind entry `at` of selected if it were `choice`, and its allowed error.
  std::pair<double, double> logit(std::size_t at, std::int32_t choice,
                                  double input_rounding) const {
    const std::int64_t token = std::int64_t(at) / block_count_;
    const std::int64_t j = std::int64_t(at) % block_count_ * sizes_.block + choice;
    const WeightView w = weights_->view(0, 0);
    double sum = double(bias_[j]), magnitude = std::fabs(sum);
    for (std::int64_t l = 0; l < sizes_.rank; ++l) {
      const double term = double(hidden_[token * sizes_.rank + l]) * double(element(w, l, j));
      sum += term;
      magnitude += std::fabs(term);
    }
    const double relative = FLT_EPSILON * (4 + std::sqrt(double(sizes_.rank))) + input_rounding;
    // Integers are summed exactly.
    return {sum, values_ == Values::integers ? 0 : relative * magnitude + double(FLT_MIN)};
  }

  const ControllerSizes sizes_;
  const int tokens_;
  const std::int64_t block_count_;
  const Range blocks_;
  Guarded<float> hidden_, bias_;
  Guarded<std::int32_t> selected_;
  std::vector<Guarded<float>> logits_;
};

/// One row a block and token, ordered by row; as many such lists as a block has rows, all
/// different.
class Selections {
 public:
  Selections(Source& source, const GatherSizes& s, int tokens) {
    std::vector<std::int32_t> start(std::size_t(s.blocks * tokens));
    for (auto& v : start) v = std::int32_t(source.below(std::uint32_t(s.block)));
    for (std::int64_t k = 0; k < s.block; ++k) {
      std::vector<Selection> list;
      for (std::int64_t b = 0; b < s.blocks; ++b) {
        for (std::int32_t t = 0; t < tokens; ++t) {
          const std::int64_t y = (start[std::size_t(b * tokens + t)] + k) % s.block;
          list.push_back({std::int32_t(b * s.block + y), t});
        }
      }
      std::stable_sort(list.begin(), list.end(),
                       [](const Selection& a, const Selection& b) { return a.row < b.row; });
      if (s.selections >= 0) list.resize(std::min(list.size(), std::size_t(s.selections)));
      lists_.push_back(std::move(list));
    }
  }
  const std::vector<Selection>& list(std::int64_t number) const {
    return lists_[std::size_t(number) % lists_.size()];
  }
  double mean_rows() const {
    double rows = 0;
    for (const auto& list : lists_) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (i == 0 || list[i].row != list[i - 1].row) rows += 1;
      }
    }
    return rows / double(lists_.size());
  }
  std::int64_t size() const { return std::int64_t(lists_[0].size()); }

 private:
  std::vector<std::vector<Selection>> lists_;
};

/// Both gathers: they differ in which side of the gathered rows is input and which is output.
class GatherProblem : public ProblemBase {
 public:
  GatherProblem(const ProblemOptions& options, const Setting& g, const GatherSizes& s, bool dot)
      : ProblemBase(options, g.values),
        sizes_(s),
        dot_(dot),
        selections_(source_, s, g.tokens),
        input_(dot ? g.tokens * s.d : selections_.size(), g.misalign),
        bias_(s.blocks * s.block, g.misalign) {
    weights_ = std::make_unique<RotatedWeights>(
        options, options.type,
        std::vector<RotatedWeights::Shape>{{Layout::rows, s.blocks * s.block, s.d}}, source_,
        g.misalign);
    source_.fill(input_);
    source_.fill(bias_);
    if (dot) {
      overwrite_outputs(selections_.size(), g.misalign);
      length_ = double(s.d);
    } else {
      add_outputs(g.tokens * s.d, g.misalign, 2);
      length_ = double(s.blocks);
      touched_ = selections_.size() > 0 ? 1.0 / (selections_.size() < g.tokens ? g.tokens : 1) : 0;
    }
  }

  void run(const KernelSet& set, std::int64_t call, int thread) override {
    const std::vector<Selection>& list = selections_.list(call / copies());
    const Range mine = part({0, std::int64_t(list.size())}, thread);
    const Selection* own = list.data() + mine.begin;
    const WeightView w = weights_->view(0, call);
    if (dot_) {
      set.gather_dot(w, sizes_.bias ? bias_.data() : nullptr, own, mine.size(), input_.data(),
                     output(0) + mine.begin);
    } else {
      set.gather_accumulate(w, own, mine.size(), input_.data() + mine.begin, output(thread));
    }
  }

  Phase cost() const override {
    const double rows = selections_.mean_rows(), d = double(sizes_.d);
    const double bias = dot_ && sizes_.bias ? rows : 0;
    return {dot_ ? "gather_dot" : "gather_accumulate", rows * d + bias,
            rows * d * double(bytes_of(options_.type)) + bias * 4,
            2 * d * double(selections_.size())};
  }

 private:
  const GatherSizes sizes_;
  const bool dot_;
  const Selections selections_;
  Guarded<float> input_, bias_;
};

}  // namespace

Case controller_case(const Setting& g, const ControllerSizes& s) {
  return {"controller", g.shape, g.tokens, true, [=](const ProblemOptions& options) {
            return std::make_unique<ControllerProblem>(options, g, s);
          }};
}

Case gather_dot_case(const Setting& g, const GatherSizes& s) {
  return {"gather_dot", g.shape, g.tokens, true, [=](const ProblemOptions& options) {
            return std::make_unique<GatherProblem>(options, g, s, true);
          }};
}

Case gather_accumulate_case(const Setting& g, const GatherSizes& s) {
  return {"gather_accumulate", g.shape, g.tokens, true, [=](const ProblemOptions& options) {
            return std::make_unique<GatherProblem>(options, g, s, false);
          }};
}

}  // namespace scaling

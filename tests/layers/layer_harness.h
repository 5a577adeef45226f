// Standalone layers with memory and random values, for tests of single components.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/random.h"
#include "models/initialize.h"
#include "models/layers/catalog.h"
#include "models/row_moves.h"

namespace scaling {

/// A layer (or a building block with visit_parameters) that owns its weights. Biases are drawn from
/// (-0.5, 0.5) instead of the initialiser's 1e-6, so that a forgotten one shows.
template <class L>
class Held {
 public:
  Held(std::unique_ptr<L> made, WeightType type, std::uint64_t seed = 1) : layer(std::move(made)) {
    std::vector<Parameter*> parameters;
    layer->visit_parameters([&](Parameter& p) { parameters.push_back(&p); });
    arena_ = Arena(arena_bytes(parameters, type));
    Team team(2);
    initialize(parameters, type, seed, arena_, team);
    Rng rng(seed, 77);
    for (Parameter* p : parameters) {
      for (std::int64_t i = 0; p->is_vector && i < p->cols; ++i)
        p->set(0, i, rng.uniform(-0.5f, 0.5f));
    }
  }
  Parameter& parameter(const std::string& name) {
    Parameter* found = nullptr;
    layer->visit_parameters([&](Parameter& p) {
      if (p.name == name) found = &p;
    });
    if (found == nullptr) ADD_FAILURE() << "no parameter " << name;
    return *found;
  }

  std::unique_ptr<L> layer;

 private:
  Arena arena_;
};

/// Small and awkward: widths of modules are no multiple of a vector, modules are no heads.
ModelConfig small_config();

std::int64_t sparsity_of(const ModelConfig& c);
std::int64_t experts_of(const ModelConfig& c);
std::int64_t modules_of(const ModelConfig& c);

Mat random_mat(std::int64_t rows, std::int64_t cols, std::uint64_t stream);

/// Runs fn(ctx) on every thread at every position. `before` puts the position's inputs where fn
/// reads them, `after` takes its outputs away.
struct Stepper {
  const KernelSet& kernels;
  int threads, tokens;
  std::int64_t workspace_floats;

  void run(std::int64_t positions, const std::function<void(std::int64_t)>& before,
           const std::function<void(const StepContext&)>& fn,
           const std::function<void(std::int64_t)>& after) const;
};

/// Rows of the sequences at one position, as step sees them: (tokens, d).
Mat rows_at(const std::vector<Mat>& sequences, std::int64_t position);

/// For each position, of which row every row goes on there; before position 0 there is nothing.
using Sources = std::vector<std::vector<int>>;

/// At random, in the middle a circle of all rows.
Sources draw_sources(std::int64_t positions, int rows, std::uint64_t seed);

/// In which row the sequence that ends in each row was, by position.
std::vector<std::vector<std::size_t>> paths_of(const Sources& sources);

/// rows: of each row, (positions, features). The same of the sequences that end in the rows.
std::vector<Mat> pasts_of(const std::vector<Mat>& rows, const Sources& sources);

/// In front of a step, by every thread: rows of a state (null: there is none) go on as `sources`
/// says (null: each by itself).
template <class State>
void go_on(const StepContext& ctx, State* state, const Sources* sources) {
  if (state == nullptr || sources == nullptr || ctx.position == 0) return;
  state->reorder(ctx, RowMoves((*sources)[std::size_t(ctx.position)]));
  ctx.sync();
}

/// Within 2e-5 of the largest magnitude; all-zero expectations count as a broken test.
void expect_close(const Mat& ours, const Mat& expected, const std::string& what);

}  // namespace scaling

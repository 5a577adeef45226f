// Configurations, inputs, orders of rows and comparisons that tests of components share.
#include "tests/layers/layer_harness.h"

#include <cstdint>

#include "models/layers/feed_forward/moe.h"
#include "models/layers/feed_forward/sparse.h"
#include "models/layers/parts/module_knobs.h"

namespace scaling {

ModelConfig small_config() {
  ModelConfig c = config_of_shape("tiny");
  c.d_model = 48;
  c.d_ff = 96;
  c.n_heads = 6;
  c.vocab_size = 60;
  set_field(c, "modules", 4);
  set_field(c, "sparsity", 8);
  set_field(c, "d_lowrank", 5);
  set_field(c, "experts", 4);
  set_field(c, "projection_rank", 7);
  set_field(c, "loss_rank", 5);
  set_field(c, "loss_modules", 4);
  // Six positions must be several blocks.
  set_field(c, "band_width", 3);
  set_field(c, "attention_stride", 2);
  set_field(c, "fixed_summary", 1);
  set_field(c, "fixed_subblocks", 2);
  set_field(c, "bigbird_block", 1);
  set_field(c, "bigbird_random", 1);
  set_field(c, "window_width", 3);
  set_field(c, "longformer_dilation", 2);
  set_field(c, "paragraph_length", 4);
  set_field(c, "routing_clusters", 2);
  set_field(c, "sparsefinder_rank", 2);
  set_field(c, "sparsefinder_density", 0.4);
  set_field(c, "sparsefinder_clusters", 2);
  set_field(c, "sparsefinder_bins", 2);
  return c;
}

std::int64_t sparsity_of(const ModelConfig& c) { return c.options<SparseKnobs>().sparsity; }

std::int64_t experts_of(const ModelConfig& c) { return c.options<MoeKnobs>().experts; }

std::int64_t modules_of(const ModelConfig& c) { return c.options<ModuleKnobs>().modules; }

Mat random_mat(std::int64_t rows, std::int64_t cols, std::uint64_t stream) {
  Rng rng(5, stream);
  Mat m(rows, cols);
  for (std::int64_t i = 0; i < m.size(); ++i) m.data()[i] = rng.uniform(-1.7f, 1.7f);
  return m;
}

void Stepper::run(std::int64_t positions, const std::function<void(std::int64_t)>& before,
                  const std::function<void(const StepContext&)>& fn,
                  const std::function<void(std::int64_t)>& after) const {
  Team team(threads);
  // Rubbish in the workspace: no layer may count on zeros there.
  std::vector<float> workspace(std::size_t(workspace_floats) + 32, 1e30f);
  auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  float* aligned = workspace.data() + (64 - address % 64) % 64 / sizeof(float);
  aligned[workspace_floats] = 12345.0f;
  for (std::int64_t position = 0; position < positions; ++position) {
    before(position);
    team.run([&](int thread) {
      fn({kernels, team.barrier(), thread, threads, tokens, position, aligned});
    });
    after(position);
  }
  EXPECT_EQ(aligned[workspace_floats], 12345.0f) << "workspace_floats is too small";
}

Mat rows_at(const std::vector<Mat>& sequences, std::int64_t position) {
  Mat rows(std::int64_t(sequences.size()), sequences[0].cols());
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    rows.row(std::int64_t(s)) = sequences[s].row(position);
  }
  return rows;
}

Sources draw_sources(std::int64_t positions, int rows, std::uint64_t seed) {
  Rng rng(seed, 91);
  Sources all(std::size_t(positions), std::vector<int>(std::size_t(rows), 0));
  for (std::vector<int>& of_rows : all) {
    for (int& row : of_rows) row = int(rng.below(std::uint32_t(rows)));
  }
  std::vector<int>& circle = all[all.size() / 2];
  for (int row = 0; row < rows; ++row) circle[std::size_t(row)] = (row + 1) % rows;
  return all;
}

std::vector<std::vector<std::size_t>> paths_of(const Sources& sources) {
  const std::size_t rows = sources[0].size();
  std::vector<std::vector<std::size_t>> paths(rows, std::vector<std::size_t>(sources.size()));
  for (std::size_t last = 0; last < rows; ++last) {
    std::size_t row = last;
    for (std::size_t position = sources.size(); position-- > 0;) {
      paths[last][position] = row;
      row = std::size_t(sources[position][row]);
    }
  }
  return paths;
}

std::vector<Mat> pasts_of(const std::vector<Mat>& rows, const Sources& sources) {
  const auto paths = paths_of(sources);
  std::vector<Mat> pasts = rows;
  for (std::size_t last = 0; last < rows.size(); ++last) {
    for (std::size_t position = 0; position < sources.size(); ++position) {
      const auto at = std::int64_t(position);
      pasts[last].row(at) = rows[paths[last][position]].row(at);
    }
  }
  return pasts;
}

void expect_close(const Mat& ours, const Mat& expected, const std::string& what) {
  ASSERT_EQ(ours.rows(), expected.rows()) << what;
  ASSERT_EQ(ours.cols(), expected.cols()) << what;
  const float scale = expected.cwiseAbs().maxCoeff();
  ASSERT_GT(scale, 1e-3f) << what << ": nothing to compare";
  ASSERT_TRUE(ours.allFinite()) << what;
  EXPECT_LE((ours - expected).cwiseAbs().maxCoeff(), 2e-5f * scale) << what;
}

}  // namespace scaling

// Operands lie in cache, as a tile's do.
#include "experiments/machine/tile_products.h"

#include <cmath>
#include <cstdint>

#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/random.h"
#include "kernels/tile_product.h"
#include "models/matrix.h"

namespace scaling {
namespace {

struct TileShape {
  std::int64_t queries, keys, width;
};

/// Of a window, of full attention, of the small trained models.
constexpr TileShape kShapes[] = {{64, 192, 64}, {64, 512, 64}, {64, 96, 16}};

enum class TileKind { scores, values, keys };
constexpr const char* kKinds[] = {"tile_scores", "tile_values", "tile_keys"};

Mat draw(std::int64_t rows, std::int64_t columns, std::uint64_t stream) {
  Mat x(rows, columns);
  Rng rng(1, stream);
  for (std::int64_t i = 0; i < x.size(); ++i) x.data()[i] = rng.uniform(-1, 1);
  return x;
}

/// One product and its operands.
class TileProblem {
 public:
  TileProblem(TileKind kind, const TileShape& shape)
      : kind_(kind),
        shape_(shape),
        queries_(draw(shape.queries, shape.width, 1)),
        keys_(draw(shape.keys, shape.width, 2)),
        scores_(draw(shape.queries, shape.keys, 3)),
        panels_(std::size_t(tile_panel_floats(shape.keys, shape.width))) {
    clear();
  }

  void clear() {
    switch (kind_) {
      case TileKind::scores:
        result_.setZero(shape_.queries, shape_.keys);
        return;
      case TileKind::values:
        result_.setZero(shape_.queries, shape_.width);
        return;
      case TileKind::keys:
        result_.setZero(shape_.keys, shape_.width);
        return;
    }
  }

  void by_tiles() {
    const auto [q, n, d] = shape_;
    switch (kind_) {
      case TileKind::scores:
        transpose_to_tile_panels(n, d, keys_.data(), d, panels_.data());
        tile_product_of_panels(q, n, d, {queries_.data(), d, 1}, panels_.data(), nullptr,
                               result_.data(), n);
        return;
      case TileKind::values:
        add_tile_product(q, d, n, {scores_.data(), n, 1}, nullptr, keys_.data(), d, result_.data(),
                         d);
        return;
      case TileKind::keys:
        add_tile_product(n, d, q, {scores_.data(), 1, n}, nullptr, queries_.data(), d,
                         result_.data(), d);
        return;
    }
  }

  void by_library(const Gemm& gemm) {
    const auto [q, n, d] = shape_;
    switch (kind_) {
      case TileKind::scores:
        gemm.product(false, true, q, n, d, queries_.data(), d, keys_.data(), d, 0, result_.data(),
                     n);
        return;
      case TileKind::values:
        gemm.product(false, false, q, d, n, scores_.data(), n, keys_.data(), d, 1, result_.data(),
                     d);
        return;
      case TileKind::keys:
        gemm.product(true, false, n, d, q, scores_.data(), n, queries_.data(), d, 1, result_.data(),
                     d);
        return;
    }
  }

  const Mat& result() const { return result_; }
  double flops() const { return 2.0 * double(shape_.queries * shape_.keys * shape_.width); }

 private:
  TileKind kind_;
  TileShape shape_;
  Mat queries_, keys_, scores_, result_;
  Floats panels_;
};

template <class Run>
void time_product(benchmark::State& state, TileKind kind, const TileShape& shape, Run&& run) {
  set_gemm_threads(1);
  TileProblem problem(kind, shape);
  problem.by_library(find_gemm("eigen"));
  const Mat expected = problem.result();
  problem.clear();
  run(problem);
  const float off = (problem.result() - expected).cwiseAbs().maxCoeff();
  if (!(off < 1e-3f)) throw UserError("it differs from eigen by " + std::to_string(off));
  for (auto _ : state) {
    run(problem);
    benchmark::ClobberMemory();
  }
  state.counters["FLOP/s"] =
      benchmark::Counter(problem.flops(), benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace

std::vector<TileBenchmark> tile_benchmarks() {
  std::vector<TileBenchmark> all;
  for (const TileKind kind : {TileKind::scores, TileKind::values, TileKind::keys}) {
    for (const TileShape& shape : kShapes) {
      const std::string queries = std::to_string(shape.queries);
      const auto name = [&](const std::string& by) {
        return std::string(kKinds[int(kind)]) + "/" + queries + "x" + std::to_string(shape.keys) +
               "x" + std::to_string(shape.width) + "/" + by + "/f32/" + queries + "/warm";
      };
      all.push_back({name("simd"), [=](benchmark::State& state) {
                       time_product(state, kind, shape,
                                    [](TileProblem& problem) { problem.by_tiles(); });
                     }});
      for (const Gemm& gemm : gemms()) {
        all.push_back({name(gemm.name), [=, &gemm](benchmark::State& state) {
                         time_product(state, kind, shape,
                                      [&](TileProblem& problem) { problem.by_library(gemm); });
                       }});
      }
    }
  }
  return all;
}

}  // namespace scaling

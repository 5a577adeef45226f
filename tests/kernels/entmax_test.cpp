// Rows of alpha-entmax against their definition, on every instruction set: thresholds by sorting,
// probabilities by halving in double precision, gradients by differences.
#include "kernels/entmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/random.h"
#include "tests/kernels/every_target.h"

namespace scaling {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

constexpr double kAlphas[] = {1.001, 1.05, 1.25, 1.5, 1.75, 2, 3, 8};
constexpr float kSpreads[] = {0.01f, 0.3f, 1, 3, 30};
constexpr std::int64_t kLengths[] = {1, 2, 3, 15, 16, 17, 31, 33, 64, 100, 300, 4097};

std::int64_t size_of(const Floats& z) { return std::int64_t(z.size()); }

/// Logits less the largest, roughly normal.
Floats draw(std::int64_t n, float spread, std::uint64_t stream = 0) {
  Rng rng(7, stream);
  Floats z(static_cast<std::size_t>(n));
  for (float& v : z) {
    v = spread * (rng.uniform(-1, 1) + rng.uniform(-1, 1) + rng.uniform(-1, 1));
  }
  const float largest = *std::max_element(z.begin(), z.end());
  for (float& v : z) v -= largest;
  return z;
}

Floats entmax(double alpha, Floats z) {
  Floats scratch = z;
  const float threshold = entmax_threshold(alpha, scratch.data(), size_of(z));
  entmax_probabilities(alpha, threshold, z.data(), size_of(z));
  return z;
}

double sum_of(const Floats& p) {
  double sum = 0;
  for (const float v : p) sum += double(v);
  return sum;
}

/// p of all x for a tau.
Doubles powers(double alpha, const Doubles& z, double tau) {
  Doubles p;
  for (const double v : z)
    p.push_back(std::pow(std::max((alpha - 1) * v - tau, 0.0), 1 / (alpha - 1)));
  return p;
}

/// By halving the interval of the largest p until doubles end; tau is less its power.
Doubles defined(double alpha, Doubles z) {
  const double largest = *std::max_element(z.begin(), z.end());
  for (double& v : z) v -= largest;
  double low = 0, high = 1;
  for (int halving = 0; halving < 200; ++halving) {
    const double middle = (low + high) / 2;
    double sum = 0;
    for (const double p : powers(alpha, z, -std::pow(middle, alpha - 1))) sum += p;
    (sum < 1 ? low : high) = middle;
  }
  return powers(alpha, z, -std::pow(high, alpha - 1));
}

/// tau of sparsemax and 1.5-entmax: of the sorted x, the largest number of first ones that exceed
/// the tau for which their p alone would sum to 1.
double sorted_threshold(bool squares, const Floats& z) {
  Doubles x;
  for (const float v : z) x.push_back(squares ? double(v) / 2 : double(v));
  std::sort(x.begin(), x.end(), std::greater<>());
  double sum = 0, sum_of_squares = 0, tau = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double k = double(i + 1);
    sum += x[i];
    sum_of_squares += x[i] * x[i];
    const double mean = sum / k, rest = (1 - (sum_of_squares - sum * mean)) / k;
    const double root = squares ? mean - std::sqrt(std::max(rest, 0.0)) : (sum - 1) / k;
    if (root > x[i]) break;
    tau = root;
  }
  return tau;
}

void for_rows(const std::function<void(const Floats&)>& test) {
  for (const std::int64_t n : kLengths) {
    for (const float spread : kSpreads) {
      SCOPED_TRACE(std::to_string(n) + " of spread " + std::to_string(spread));
      test(draw(n, spread));
    }
  }
}

TEST(Entmax, ThresholdsAreThoseOfSorting) {
  on_every_target([] {
    const auto expect_sorted = [](const Floats& z) {
      Floats scratch = z;
      const float sparsemax = entmax_threshold(2, scratch.data(), size_of(z));
      EXPECT_EQ(sparsemax, float(sorted_threshold(false, z)));
      scratch = z;
      const float entmax15 = entmax_threshold(1.5, scratch.data(), size_of(z));
      // Sorting subtracts sums, so that its own last digit may be another.
      EXPECT_NEAR(entmax15, sorted_threshold(true, z), 1e-7);
    };
    for_rows(expect_sorted);
    for (std::uint64_t row = 0; row < 300; ++row) {
      expect_sorted(draw(1 + std::int64_t(row), kSpreads[row % 5], row));
    }
    expect_sorted(Floats(1000, 0.0f));
    expect_sorted({0, 0, -1, -1, -2, -2, -3});
    expect_sorted({-0.5f, -0.5f, 0});
  });
}

/// u^(1 / (alpha - 1)) is as much in error as u if alpha is 2 at most; beyond, the same power of
/// u's error.
double tolerance(double alpha) { return alpha <= 2 ? 1e-6 : std::pow(4e-7, 1 / (alpha - 1)); }

TEST(Entmax, RowsAreTheDefinition) {
  on_every_target([] {
    for (const double alpha : kAlphas) {
      SCOPED_TRACE(alpha);
      for_rows([alpha](const Floats& z) {
        if (z.size() > 1000 && alpha > 2) return;  // halving takes its time
        const Floats p = entmax(alpha, z);
        const Doubles expected = defined(alpha, {z.begin(), z.end()});
        for (std::size_t j = 0; j < z.size(); ++j) ASSERT_NEAR(p[j], expected[j], tolerance(alpha));
      });
    }
  });
}

TEST(Entmax, HalvingFindsWhatSortingDoes) {
  for (const double alpha : {1.5, 2.0}) {
    for_rows([alpha](const Floats& z) {
      const Floats exact = entmax(alpha, z), halved = entmax(std::nextafter(alpha, 3), z);
      for (std::size_t j = 0; j < z.size(); ++j) ASSERT_NEAR(halved[j], exact[j], 1e-6);
    });
  }
}

TEST(Entmax, NearOneItIsSoftmax) {
  for (const double alpha : {1 + 1e-4, 1 + 1e-7, 1 + 1e-10}) {
    for_rows([alpha](const Floats& z) {
      const Floats p = entmax(alpha, z);
      double sum = 0;
      for (const float v : z) sum += std::exp(double(v));
      // Of a distance z from the largest, p differs by a share of about (alpha - 1) z^2 / 2.
      const double allowed = 5 * (alpha - 1) + 2e-6;
      for (std::size_t j = 0; j < z.size(); ++j) {
        ASSERT_NEAR(p[j], std::exp(double(z[j])) / sum, allowed);
      }
    });
  }
}

TEST(Entmax, ALargeAlphaSharesAmongTheLargest) {
  for (const double alpha : {50.0, 1e5, 1e300}) {
    const Floats p = entmax(alpha, {0, -1, 0, -0.5f, -3, 0});
    for (const std::size_t j : {0, 2, 5}) EXPECT_NEAR(p[j], 1 / 3.0f, 1e-6) << alpha;
    for (const std::size_t j : {1, 3, 4}) EXPECT_EQ(p[j], 0) << alpha;
  }
}

TEST(Entmax, OneKeyGetsAll) {
  for (const double alpha : kAlphas) EXPECT_EQ(entmax(alpha, {0})[0], 1) << alpha;
}

TEST(Entmax, OfNoKeysThereIsNoThreshold) {
  for (const double alpha : kAlphas) EXPECT_EQ(entmax_threshold(alpha, nullptr, 0), 0) << alpha;
}

TEST(Entmax, LongRowsThatAreNearlyUniformSumToOne) {
  for (const double alpha : kAlphas) {
    for (const float spread : {0.0f, 1e-4f, 0.01f}) {
      const Floats p = entmax(alpha, draw(65536, spread));
      EXPECT_NEAR(sum_of(p), 1, alpha <= 2 ? 1.3e-5 : tolerance(alpha)) << alpha << " " << spread;
      EXPECT_TRUE(std::all_of(p.begin(), p.end(), [](float v) { return v >= 0 && v <= 1; }));
    }
  }
}

/// Sums that are exact in float, so that nothing is rounded on the way.
TEST(Entmax, AShiftChangesNothing) {
  for (const double alpha : kAlphas) {
    Floats z = draw(100, 1);
    for (float& v : z) v = std::round(v * 1024) / 1024;
    Floats shifted = z;
    for (float& v : shifted) v += 64;
    const float largest = *std::max_element(shifted.begin(), shifted.end());
    for (float& v : shifted) v -= largest;
    EXPECT_EQ(entmax(alpha, shifted), entmax(alpha, z)) << alpha;
  }
}

TEST(Entmax, WhatGetsZeroMayBeLeftOut) {
  for (const double alpha : {1.05, 1.25, 1.5, 1.75, 2.0}) {
    for (const float spread : {1.0f, 3.0f, 30.0f}) {
      const Floats z = draw(300, spread), p = entmax(alpha, z);
      Floats fewer, left;
      int zeros = 0;
      for (std::size_t j = 0; j < z.size(); ++j) {
        if (p[j] > 0 || ++zeros % 3 == 0) {
          fewer.push_back(z[j]);
          left.push_back(p[j]);
        }
      }
      const Floats again = entmax(alpha, fewer);
      for (std::size_t j = 0; j < left.size(); ++j) EXPECT_NEAR(again[j], left[j], 3e-7);
      // What is below this need not be looked at.
      for (std::size_t j = 0; j < z.size(); ++j) {
        EXPECT_TRUE(z[j] >= entmax_lowest(alpha) || p[j] == 0);
      }
    }
  }
}

/// Whatever is left out, what is kept grows by as much as was lost.
TEST(Entmax, WhatIsKeptTakesWhatWasLost) {
  for (const double alpha : {1.25, 1.5, 2.0}) {
    const Floats z = draw(200, 0.3f), p = entmax(alpha, z);
    Floats kept(z.begin() + 50, z.end());
    const float largest = *std::max_element(kept.begin(), kept.end());
    for (float& v : kept) v -= largest;
    const Floats again = entmax(alpha, kept);
    double lost = 0, gained = 0;
    for (std::size_t j = 0; j < 50; ++j) lost += double(p[j]);
    for (std::size_t j = 50; j < z.size(); ++j) {
      EXPECT_GE(again[j - 50], p[j] - 1e-6f);
      gained += double(again[j - 50]) - double(p[j]);
    }
    EXPECT_GT(lost, 0.1);
    EXPECT_NEAR(gained, lost, 1e-5);
  }
}

/// s g - s (sum of s g) / (sum of s), one column of the Jacobian after another, against central
/// differences of the definition.
TEST(Entmax, SlopesMakeTheJacobian) {
  on_every_target([] {
    for (const double alpha : kAlphas) {
      for (const float spread : {0.1f, 1.0f, 3.0f}) {
        SCOPED_TRACE(std::to_string(alpha) + " of spread " + std::to_string(spread));
        const Floats z = draw(37, spread, 3), p = entmax(alpha, z);
        Floats s(z.size());
        entmax_slopes(alpha, p.data(), s.data(), size_of(z));
        const double sum = sum_of(s);
        for (std::size_t j = 0; j < z.size(); ++j) EXPECT_EQ(s[j] > 0, p[j] > 0);
        for (std::size_t k = 0; k < z.size(); k += 3) {
          Doubles up(z.begin(), z.end()), down = up;
          constexpr double kStep = 1e-6;
          up[k] += kStep;
          down[k] -= kStep;
          const Doubles above = defined(alpha, up), below = defined(alpha, down);
          for (std::size_t j = 0; j < z.size(); ++j) {
            const double expected = (above[j] - below[j]) / (2 * kStep);
            const double ours = double(s[j]) * ((j == k) - double(s[k]) / sum);
            // A slope is a power of p, which may be small; beyond 2 a negative one.
            const double allowed = alpha > 2 ? 0.01 * (double(s[j]) + 1) : 2e-4;
            EXPECT_NEAR(ours, expected, allowed) << j << " by " << k;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace scaling

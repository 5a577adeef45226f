// One token through blocks whose products are a library's, as block.py's reference_step defines it.
#include "experiments/peers/libraries/dense_block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <new>
#include <utility>

namespace peers {
namespace {

constexpr float kEpsilon = 1e-6f;
constexpr std::size_t kHugePage = std::size_t(2) << 20;

struct Block {
  std::map<std::string, std::unique_ptr<Product>> products;
  std::map<std::string, std::vector<float>> vectors;  // of weights and caches
};

/// y = (x - mean) / deviation * scale + bias.
void layer_norm(const std::vector<float>& x, const std::vector<float>& scale,
                const std::vector<float>& bias, std::vector<float>& y) {
  const std::size_t n = x.size();
  float mean = 0, variance = 0;
#pragma omp simd reduction(+ : mean)
  for (std::size_t i = 0; i < n; ++i) mean += x[i];
  mean /= float(n);
#pragma omp simd reduction(+ : variance)
  for (std::size_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const float inverse = 1 / std::sqrt(variance / float(n) + kEpsilon);
  for (std::size_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
}

/// q, out (heads, d_head); keys, values (heads, length, d_head).
void attend(const Sizes& s, const float* q, const std::vector<float>& keys,
            const std::vector<float>& values, std::vector<float>& scores, float* out) {
  const int d = s.d_head();
  const float scale = 1 / std::sqrt(float(d));
  for (int head = 0; head < s.n_heads; ++head) {
    const float* query = q + head * d;
    const std::size_t cache = std::size_t(head) * s.length * d;
    float highest = -INFINITY, sum = 0;
    for (int l = 0; l < s.length; ++l) {
      const float* key = keys.data() + cache + std::size_t(l) * d;
      float score = 0;
#pragma omp simd reduction(+ : score)
      for (int i = 0; i < d; ++i) score += query[i] * key[i];
      scores[l] = score * scale;
      highest = std::max(highest, scores[l]);
    }
    for (int l = 0; l < s.length; ++l) sum += scores[l] = std::exp(scores[l] - highest);
    std::fill_n(out + head * d, d, 0.0f);
    for (int l = 0; l < s.length; ++l) {
      const float share = scores[l] / sum;
      const float* value = values.data() + cache + std::size_t(l) * d;
      for (int i = 0; i < d; ++i) out[head * d + i] += share * value[i];
    }
  }
}

class DensePeer : public Peer {
 public:
  DensePeer(const Sizes& sizes, MakeProduct make)
      : sizes_(sizes),
        make_(std::move(make)),
        x_(sizes.d_model),
        normed_(sizes.d_model),
        qkv_(3 * std::size_t(sizes.d_model)),
        attended_(sizes.d_model),
        hidden_(sizes.d_ff),
        scores_(sizes.length) {}

  void set(std::size_t block, const std::string& name, const Array& array) override {
    if (block == blocks_.size()) blocks_.emplace_back();
    static const char* const caches[] = {"k", "v", "cross_k", "cross_v"};
    const bool is_cache = std::find(std::begin(caches), std::end(caches), name) != std::end(caches);
    if (array.cols == 1 || is_cache) {
      blocks_[block].vectors[name].assign(array.values, array.values + array.rows * array.cols);
    } else {
      blocks_[block].products[name] = make_(array);
    }
  }

  void step(const float* x, std::int64_t t, float* y) override {
    std::copy_n(x, sizes_.d_model, x_.data());
    for (Block& block : blocks_) run(block, int(t % sizes_.length));
    std::copy_n(x_.data(), sizes_.d_model, y);
  }

 private:
  static void multiply(Block& block, const std::string& name, const std::vector<float>& x,
                       bool relu, bool add, std::vector<float>& y) {
    block.products.at(name)->run(x.data(), {block.vectors.at(name + "_bias").data(), relu, add},
                                 y.data());
  }

  void norm(Block& block, const std::string& name) {
    layer_norm(x_, block.vectors.at(name + "_scale"), block.vectors.at(name + "_bias"), normed_);
  }

  /// Writes the token's keys or values, (heads, d_head), into their slot.
  void remember(const float* token, int slot, std::vector<float>& cache) const {
    const int d = sizes_.d_head();
    for (int head = 0; head < sizes_.n_heads; ++head) {
      std::copy_n(token + head * d, d,
                  cache.data() + (std::size_t(head) * sizes_.length + slot) * d);
    }
  }

  void run(Block& block, int slot) {
    auto& caches = block.vectors;
    const std::size_t d = x_.size();
    norm(block, "norm1");
    multiply(block, "qkv", normed_, false, false, qkv_);
    remember(qkv_.data() + d, slot, caches.at("k"));
    remember(qkv_.data() + 2 * d, slot, caches.at("v"));
    attend(sizes_, qkv_.data(), caches.at("k"), caches.at("v"), scores_, attended_.data());
    multiply(block, "out", attended_, false, true, x_);

    norm(block, "norm2");
    multiply(block, "cross_q", normed_, false, false, qkv_);
    attend(sizes_, qkv_.data(), caches.at("cross_k"), caches.at("cross_v"), scores_,
           attended_.data());
    multiply(block, "cross_out", attended_, false, true, x_);

    norm(block, "norm3");
    multiply(block, "w1", normed_, true, false, hidden_);
    multiply(block, "w2", hidden_, false, true, x_);
  }

  Sizes sizes_;
  MakeProduct make_;
  std::vector<Block> blocks_;
  std::vector<float> x_, normed_, qkv_, attended_, hidden_, scores_;
};

}  // namespace

std::unique_ptr<Peer> dense_peer(const Sizes& sizes, MakeProduct make) {
  return std::make_unique<DensePeer>(sizes, std::move(make));
}

void finish(const After& after, std::int64_t rows, float* y) {
  for (std::int64_t i = 0; i < rows; ++i) y[i] += after.bias[i];
  if (!after.relu) return;
  for (std::int64_t i = 0; i < rows; ++i) y[i] = std::max(y[i], 0.0f);
}

Memory::Memory(std::size_t bytes) {
  const std::size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  data_.reset(std::aligned_alloc(kHugePage, whole));
  if (!data_) throw std::bad_alloc();
  madvise(data_.get(), whole, MADV_HUGEPAGE);  // advice only
}

void Memory::Free::operator()(void* data) const { std::free(data); }

}  // namespace peers

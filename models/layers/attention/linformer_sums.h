// What Linformer puts between queries and positions: a few weighted sums of keys and of values.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "models/attention.h"
#include "models/layers/attention/tiles.h"

namespace scaling {

/// What shares a matrix: the heads of a layer (one for keys and one for values), or keys and values
/// too.
enum class LinformerSharing { headwise, key_value };
constexpr std::array<const char*, 2> names_of(LinformerSharing) {
  return {"headwise", "key_value"};
}

struct LinformerKnobs {
  std::int64_t linformer_rank = 128;
  std::int64_t linformer_length = 0;
  LinformerSharing linformer_sharing = LinformerSharing::headwise;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("linformer_rank", k.linformer_rank,
          "sums over positions that the linformer attention looks at", size);
    visit("linformer_length", k.linformer_length,
          "positions that the linformer attention has weights for; 0: max_length", size);
    visit("linformer_sharing", k.linformer_sharing,
          "matrices of the linformer attention: headwise, one for keys and one for values, or "
          "key_value, one for both");
  }
};

/// Queries attend to E K and F V, where E and F (rank, length) are parameters; fewer keys than
/// length take their first columns, as if padding were not there, wherever it stands.
/// Probabilities, of sums, are dropped in training.
class LinformerSums {
 public:
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  /// Parameters: e, and f unless keys and values share.
  explicit LinformerSums(const ModelConfig& config);

  void visit_parameters(const ParameterVisitor& visit);
  std::unique_ptr<Activations> make_activations() const;
  /// As CrossAttention's. Throws UserError if an example has more keys than E has columns.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const;
  void require_length(std::int64_t keys) const;
  /// No pairs: sums over keys, and queries with the sums.
  AttentionWork work(std::int64_t queries, std::int64_t keys) const;
  /// Of an example: those of attention to the sums, the sums and their gradients. With padding that
  /// does not stand behind, one example's keys or values are held once more for all.
  double activation_floats(std::int64_t queries) const {
    return double(queries) * tiles_.activation_floats() +
           4.0 * double(rank_ * tiles_.heads * tiles_.d_head);
  }
  double thread_floats(std::int64_t queries) const { return tiles_.thread_floats(queries, rank_); }

  std::int64_t rank() const { return rank_; }
  std::int64_t length() const { return length_; }
  std::int64_t heads() const { return tiles_.heads; }
  std::int64_t d_head() const { return tiles_.d_head; }
  const Parameter& of_keys() const { return e_; }
  const Parameter& of_values() const { return shares_ ? e_ : f_; }

 private:
  struct Kept;

  std::int64_t rank_, length_;
  bool shares_;
  TiledAttention tiles_;
  Parameter e_, f_;
};

}  // namespace scaling

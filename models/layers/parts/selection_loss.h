// What a layer with a trained selection adds to the loss, so that choices spread or harden.
#pragma once

#include <cstdint>
#include <vector>

#include "models/layers/parts/selection.h"
#include "models/matrix.h"
#include "models/pass.h"

namespace scaling {

/// Of positions' softmax p over each block of N entries, in nats a position, the mean over blocks
/// of balance * N * sum over j of f(j) P(j), where f is the share of positions that choose j,
/// through which nothing is learned, and P the mean of p: 1 if both are even ("Switch
/// Transformers", 2.2; there 0.01 times), and entropy * the entropy of p: a positive weight makes
/// soft calls like hard ones.
struct SelectionLoss {
  double balance = 0, entropy = 0;  ///< weights

  bool is_none() const { return balance == 0 && entropy == 0; }
  /// shares (entries of all blocks) becomes f; padding counts as other positions do. Adds the loss
  /// of all positions to pass.extra_loss, unless the pass is computed again.
  void forward(Pass& pass, Blocks shape, const std::vector<std::int32_t>& chosen, const Mat& p,
               Floats& shares) const;
  /// Adds pass.loss_scale times its gradient to that of the logits, dz (positions, entries).
  void backward(const Pass& pass, Blocks shape, const Mat& p, const Floats& shares, Mat& dz) const;

 private:
  /// Gradient with respect to p of the entry with this share.
  float slope(Blocks shape, float p, float share) const;
};

}  // namespace scaling

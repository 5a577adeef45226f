// Denoising (BART, Lewis et al. 2020): an encoder reads a corrupted text, a decoder tells the text
// as it was.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/random.h"
#include "models/tasks/task.h"
#include "models/text/boundaries.h"

namespace scaling {

/// The five noising functions; a share of 0 leaves one out. Those given are the large model's.
struct Noise {
  double sentence_permutation = 1;  ///< share of the sentences that change places
  double text_infilling = 0.3;      ///< share of the words that spans are made of
  double infilling_mean = 3;        ///< words of a span, Poisson distributed
  double token_masking = 0;         ///< share of the tokens
  double token_deletion = 0;        ///< likewise
  double document_rotation = 0;     ///< share of the texts
};

/// What is read in place of a text. Tokens count in the permuted text.
struct NoisedText {
  /// One token that is read, and the tokens [first, first + count) that it stands for: itself, or
  /// of a mask one token, a span or, inserted, none. Those that no token stands for are deleted.
  struct Read {
    int id, first, count;
  };
  std::vector<Read> read;
  std::vector<int> order;  ///< of each token of the permuted text, its place in the text
};

/// ceil(share * units), but for the rounding of the product.
std::int64_t noise_budget(double share, std::int64_t units);

/// Poisson distributed; the same on every machine whose exp is the same.
std::int64_t random_poisson(double mean, Rng& rng);

/// ids: a text of one token at least. In this order, as in the released code:
/// 1. so many sentences, chosen at random, change places among themselves, each order equally
///    likely;
/// 2. spans of text_infilling: lengths are drawn until they add up to the budget of words, the last
///    is cut to it; spans begin and end where words do, overlap nowhere, and every arrangement of
///    them is equally likely, so that words at the text's ends go less often than those inside.
///    Each becomes one mask. Then masking and deletion choose among the tokens that are still
///    themselves, as many of all tokens as their shares say or as are left;
/// 3. each span of length 0 is a mask inserted anywhere, unless that would make more than `most`
///    tokens (most >= the text's own);
/// 4. the text is turned so that any of its tokens, each equally likely, comes first.
NoisedText add_noise(std::span<const int> ids, const Boundaries::Starts& starts, const Noise& noise,
                     std::size_t most, Rng& rng);

/// Each document is cut into texts of at most `length` tokens, each corrupted anew in every epoch.
/// Source and target are the text and its end, so `length` + 1 positions, and nothing of either is
/// cut. The mask is kMaskId. Bytes are those of the whole text.
Needs needs_of_denoising(const TrainConfig& config);
std::unique_ptr<Task> make_denoising(const TrainConfig& config, std::int64_t vocab_size,
                                     std::unique_ptr<TextStore> text);

}  // namespace scaling

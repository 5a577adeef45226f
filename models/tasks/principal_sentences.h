// Which sentences of a text say most of it (PEGASUS, Zhang et al. 2020).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/random.h"
#include "models/train_config.h"

namespace scaling {

/// The words that ROUGE counts: runs of letters and digits, in lower case. Bytes beyond ASCII count
/// as letters and stay as they are.
std::vector<std::string> rouge_words(std::string_view text);

/// F1 of overlap / candidate and overlap / reference, all in words; 0 without any overlap.
double rouge_f1(std::int64_t overlap, std::int64_t candidate, std::int64_t reference);

/// A text's sentences, each the numbers of its words, from 0: equal words, equal numbers.
using SentenceWords = std::vector<std::vector<int>>;

/// Words numbered in the order in which they appear.
SentenceWords numbered_words(const std::vector<std::string>& sentences);

/// `count` of the sentences, ascending:
///   random                 every choice equally likely
///   lead                   the first ones
///   ind_orig, ind_uniq     those of the highest ROUGE-1 F1 against all the others
///   seq_orig, seq_uniq     one after another that with which those chosen so far have the highest
///                          ROUGE-1 F1 against those that are left
/// orig counts a word as often as it appears, the overlap as often as it appears on both sides;
/// uniq once. Of equal scores the earlier sentence's wins. noise: each sentence has a factor of its
/// scores, uniform from 1 - noise to 1 + noise; none is drawn for 0. 1 <= count <= sentences.
std::vector<int> principal_sentences(const SentenceWords& sentences, std::int64_t count,
                                     GapStrategy strategy, double noise, Rng& rng);

}  // namespace scaling

// A teacher that runs with predicted graphs alone: what each head sees has met the graphs of the
// layers before, and its loss says what they cost.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "experiments/sparsefinder/sweep.h"
#include "models/attention_graphs.h"

namespace scaling {

/// Graphs of one head's present queries and keys.
using HeadPredictor = std::function<Prediction(std::int64_t sequence, std::int64_t head,
                                               const HeadSlice& q, const HeadSlice& k)>;

/// One sequence with predicted graphs.
struct OnlineSequence {
  CrossEntropy loss;
  /// Means over heads, each against the gold graph of what that head was given.
  GraphScores scores;
};

/// Every held-out sequence, as Teacher::heads spreads them, with `predict`'s graphs, to which
/// window and globals are added. Throws UserError as Teacher::losses does.
std::vector<OnlineSequence> run_online(const TeacherPlan& plan, const Teacher& teacher,
                                       std::int64_t sequences, std::int64_t width,
                                       GlobalTokens globals, const HeadPredictor& predict,
                                       const std::function<void(std::int64_t)>& done);

/// How far the farthest logit of those sequences moves when each head sees its gold graph alone,
/// over the largest of its sequence. done: after each, of so many.
double gold_logits_moved(const TeacherPlan& plan, const Teacher& teacher, std::int64_t sequences,
                         const std::function<void(std::int64_t)>& done);

/// The lower end of the stratum of sparsity that a point is in; 0: of none.
double stratum_of(double sparsity);
/// Of a method's points the one of the best recall in each stratum of sparsity, by what is known
/// offline, the least sparse first. Behind them the one of the best recall among those as sparse as
/// the gold graphs, unless it is there already. At most as many in all as kStrata has.
std::vector<const SweepPoint*> online_points(const std::vector<SweepPoint>& points,
                                             double gold_sparsity);
inline constexpr double kStrata[] = {0.5,   0.6,  0.7,  0.8,  0.85, 0.9,
                                     0.925, 0.95, 0.96, 0.97, 0.98, 0.99};

/// nats a token of all sequences together.
double log_perplexity(const std::vector<OnlineSequence>& sequences);

}  // namespace scaling

// Which teacher and which text: what every study of a teacher is told alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/instruments/teacher.h"
#include "experiments/study/run_options.h"
#include "experiments/study/sink.h"
#include "models/knobs.h"

namespace scaling {

struct TeacherKnobs {
  std::string checkpoint, name, corpus, validation, cache;
  std::int64_t length = 0;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait content{.in_key = InKey::content_hash}, place{.in_key = InKey::no};
    visit("checkpoint", k.checkpoint, "the teacher, a file that perplexity wrote", content);
    visit("name", k.name, "what the teacher is called; empty: as the checkpoint's folder");
    visit("corpus", k.corpus, "text of the training sequences; empty: what the teacher learnt from",
          content);
    visit("validation", k.validation, "held-out text; empty: as the teacher had it", content);
    visit("cache", k.cache, "folder of tokenised texts; empty: cache/ beside the results", place);
    visit("length", k.length, "tokens of a sequence; 0: as in training");
  }

  TeacherSource source() const {
    return {.checkpoint = checkpoint, .corpus = corpus, .validation = validation, .length = length};
  }
  /// The teacher's name in rows.
  std::string called() const;
  /// results: the folder of records.
  std::string cache_folder(const std::string& results) const;
};

/// Of every point of a study of a teacher: the study's own flags, `quick`, and what `checkpoint`
/// and the texts hold, which their knobs do not say, as `teacher` and `data`; these are empty in a
/// dry run, which reads neither.
Settings teacher_settings(const Knobs& flags, const TeacherKnobs& knobs, const TeacherPlan& plan,
                          const std::string& results, const RunOptions& options);
/// Study::added_settings for the last two.
Settings added_content_settings();
/// Queries and keys of so many held-out sequences, of which the sink shows how many are done.
/// Throws UserError if they do not fit into memory, or as Teacher does.
std::vector<SequenceHeads> held_out_heads(const TeacherKnobs& knobs, const TeacherPlan& plan,
                                          const std::string& results, std::int64_t sequences,
                                          int threads, Sink& sink);
/// Study::portable for knobs that name a place.
std::string portable_place(const std::string& knob, const std::string& value);

}  // namespace scaling

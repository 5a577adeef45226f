// Which teacher and which text: what every study of a teacher is told alike.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/instruments/teacher.h"
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

/// What `checkpoint` and the texts hold, which their knobs do not say: the settings `teacher` and
/// `data`. Empty texts in a dry run, which reads neither.
Settings content_settings(const TeacherKnobs& knobs, const TeacherPlan& plan,
                          const std::string& results, bool dry_run);
/// Study::added_settings for these two.
Settings added_content_settings();
/// Study::portable for knobs that name a place.
std::string portable_place(const std::string& knob, const std::string& value);

}  // namespace scaling

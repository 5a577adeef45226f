// From settings as text to solved and checked curves.
#include "experiments/training/curves.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "experiments/study/counts.h"
#include "kernels/check.h"
#include "models/layers/catalog.h"
#include "models/tasks/catalog.h"
#include "models/training/agreement.h"

namespace scaling {
namespace {

const std::set<std::string> kNoKnobs = {"weight_type", "blocks", "seed", "data_seed"};

/// Knobs of model and training; borrows the curve.
Knobs knobs_of(Curve& curve) {
  Knobs knobs;
  add_knobs(knobs, curve.model);
  knobs.add(curve.train);
  return knobs;
}

std::vector<std::uint64_t> parse_seeds(const std::string& text) {
  std::vector<std::uint64_t> seeds;
  for (const std::string& part : split_at_commas(text)) {
    if (part.find_first_not_of("0123456789") != std::string::npos || part.size() > 9) {
      throw UserError("'" + part + "' is no seed; give whole numbers, e.g. 1,2,3");
    }
    const auto seed = std::uint64_t(std::stoul(part));
    if (std::find(seeds.begin(), seeds.end(), seed) == seeds.end()) seeds.push_back(seed);
  }
  if (seeds.empty()) throw UserError("no seeds were given; give whole numbers, e.g. 1,2,3");
  return seeds;
}

/// A row before anything is solved. first_row: empty if this is it.
Curve parse_curve(const FileRow& row, const std::string& first_row) {
  Curve curve;
  curve.name = row.name;
  curve.solve = first_row.empty() ? Solve::none : Solve::match_parameters;
  Knobs knobs = knobs_of(curve);
  for (const auto& [name, value] : row.settings) {
    if (name == "solve") {
      // A control that reads as much as another row would be no control without its solving, so a
      // flag for all rows leaves it alone.
      Solve solve{};
      parse_value(name, value, solve);
      if (!first_row.empty() && !is_control(curve.solve)) curve.solve = solve;
    } else if (name == "reference_row") {
      curve.reference_row = value;
    } else if (name == "twin") {
      curve.twin = value;
    } else if (name == "equal_reads") {
      curve.equal_reads = value;
    } else if (name == "seeds") {
      curve.seeds = parse_seeds(value);
    } else {
      knobs.set(name, value);
      // Shapes, which come first, leave encoders out to save memory; here encoder_layers alone
      // decides.
      if (name == "shape") curve.model.encoder = true;
    }
  }
  curve.model.blocks = curve.model.decoder_layers;
  if (curve.reference_row.empty()) {
    if (is_control(curve.solve)) {
      throw UserError("solve=" + print_value(curve.solve) +
                      " needs reference_row=<the sparse row whose reads it is to match>");
    }
    curve.reference_row = first_row.empty() ? row.name : first_row;
  }
  return curve;
}

/// A block that is longer than what is trained, or more clusters than that has positions, would
/// make another attention of it: max_length, which layers look at, may be far more.
void require_room_to_attend(const Curve& curve) {
  const Lengths longest = needs_of(curve.train).longest();
  const std::int64_t length = std::max(longest.source, longest.input);
  if (length >= curve.model.max_length) return;
  ModelConfig as_trained = curve.model;
  as_trained.max_length = length;
  try {
    validate(as_trained);
  } catch (const UserError& error) {
    throw UserError("with the task's " + std::to_string(length) + " positions for max_length, " +
                    error.what());
  }
}

/// Solves a row after the one that it is matched with. begun: rows that wait for this one, and
/// those that are solved (true).
const Curve& solve_row(const std::string& name, std::vector<Curve>& curves,
                       std::map<std::string, bool>& begun) {
  const auto at = std::find_if(curves.begin(), curves.end(),
                               [&name](const Curve& curve) { return curve.name == name; });
  if (at == curves.end()) {
    throw UserError("its reference_row '" + name + "' is no row of this experiment");
  }
  Curve& curve = *at;
  const auto [solved, is_new] = begun.try_emplace(name, false);
  if (solved->second) return curve;
  if (!is_new) {
    throw UserError("it is matched with row '" + name +
                    "', which waits for it in turn; choose another reference_row");
  }
  try {
    if (curve.solve != Solve::none) {
      const ModelConfig& reference = solve_row(curve.reference_row, curves, begun).model;
      curve.solved = solve_sizes(curve.solve, curve.model, reference);
    }
    validate(curve.model);
    require_room_to_attend(curve);
    if (needs_of(curve.train).causal) require_causal(curve.model);
  } catch (const UserError& error) {
    const std::string row = "row '" + name + "': ", what = error.what();
    throw UserError(what.rfind("row '", 0) == 0 ? what : row + what);
  }
  solved->second = true;
  return curve;
}

void check_length(const Curve& curve) {
  const Needs needs = needs_of(curve.train);
  try {
    require_room(curve.train, needs, curve.model);
  } catch (const UserError& error) {
    throw UserError("row '" + curve.name + "': " + error.what());
  }
  const bool has_source = needs.has_source();
  if (has_source != (curve.model.encoder_layers > 0)) {
    throw UserError("row '" + curve.name + "': task " + curve.train.task + " wants " +
                    (has_source ? "an encoder; set encoder_layers"
                                : "a decoder-only model; set encoder_layers = 0"));
  }
}

/// A row is judged by its loss above its twin, as a share of what equal reads lose above that.
void check_contrast(const Curve& curve, const std::vector<Curve>& curves) {
  if (curve.twin.empty() != curve.equal_reads.empty()) {
    throw UserError("row '" + curve.name + "': twin and equal_reads make one contrast; name both");
  }
  for (const auto& [knob, row] :
       {std::pair("twin", curve.twin), std::pair("equal_reads", curve.equal_reads)}) {
    const bool is_known = std::any_of(curves.begin(), curves.end(),
                                      [&row = row](const Curve& one) { return one.name == row; });
    if (!row.empty() && (!is_known || row == curve.name)) {
      throw UserError("row '" + curve.name + "': its " + knob + " '" + row +
                      "' is no other row of this experiment");
    }
  }
}

}  // namespace

std::vector<KnobInfo> curve_knobs() {
  Curve curve;
  std::vector<KnobInfo> knobs = knobs_of(curve).info();
  std::erase_if(knobs, [](const KnobInfo& knob) { return kNoKnobs.count(knob.name) > 0; });
  knobs.push_back({"seeds", "seeds, 1,2,3: each makes a curve of every row", "1"});
  // Sizes that were solved for count as what they are.
  const Trait no_key{.in_key = InKey::no};
  knobs.push_back({"solve",
                   "none or match_parameters, in place of every row's own; rows of equal reads "
                   "keep theirs",
                   "", no_key});
  knobs.push_back(
      {"reference_row", "row that a row is matched with; default: the first", "", no_key});
  knobs.push_back({"twin", "row that a sparse row is judged against", "", no_key});
  knobs.push_back({"equal_reads", "its twin with as few weights read", "", no_key});
  return knobs;
}

std::vector<Curve> curves_of(const RowFile& file) {
  std::vector<Curve> curves;
  for (const FileRow& row : file.rows) {
    try {
      curves.push_back(parse_curve(row, curves.empty() ? "" : curves.front().name));
    } catch (const UserError& error) {
      file.refuse(row.name, error.what());
    }
  }
  try {
    std::map<std::string, bool> begun;
    for (const Curve& curve : curves) solve_row(curve.name, curves, begun);
    for (const Curve& curve : curves) {
      check_length(curve);
      check_contrast(curve, curves);
    }
  } catch (const UserError& error) {
    throw UserError(file.path + ": " + error.what());
  }
  return curves;
}

const Curve& curve_of_row(const std::vector<Curve>& curves, const std::string& row,
                          const std::string& experiment) {
  std::vector<std::string> known;
  for (const Curve& curve : curves) {
    if (curve.name == row) return curve;
    known.push_back(curve.name);
  }
  require_known_rows({row}, known, experiment);
  return curves.front();
}

Curve with_seed(Curve curve, std::uint64_t seed) {
  curve.model.seed = seed;
  curve.train.data_seed = seed;
  return curve;
}

Settings settings_of(Curve curve) {
  Settings settings = knobs_of(curve).all();
  settings.emplace_back("solve", print_value(curve.solve));
  settings.emplace_back("reference_row", curve.reference_row);
  settings.emplace_back("twin", curve.twin);
  settings.emplace_back("equal_reads", curve.equal_reads);
  return settings;
}

std::string planned(const std::vector<Curve>& curves) {
  std::string text;
  for (const Curve& curve : curves) {
    text += (text.empty() ? "" : ",") + curve.name;
    if (!curve.twin.empty()) text += ":" + curve.twin + ":" + curve.equal_reads;
  }
  return text;
}

double tokens_per_step(const TrainConfig& train) {
  return double(train.batch) * double(needs_of(train).trained.input);
}

}  // namespace scaling

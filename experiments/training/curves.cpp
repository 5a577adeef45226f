// From settings as text to solved and checked curves.
#include "experiments/training/curves.h"

#include <algorithm>
#include <set>

#include "experiments/study/row_text.h"
#include "kernels/check.h"
#include "models/tasks/catalog.h"

namespace scaling {
namespace {

const std::set<std::string> kNoKnobs = {"weight_type", "blocks", "seed", "data_seed"};

bool has(const Settings& settings, const std::string& name) {
  return std::any_of(settings.begin(), settings.end(),
                     [&name](const auto& setting) { return setting.first == name; });
}

bool is_model_knob(const std::string& name) {
  const std::vector<std::string> names = field_names();
  return std::find(names.begin(), names.end(), name) != names.end();
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

void set_knob(Curve& curve, bool is_first, const std::string& name, const std::string& value) {
  if (name == "solve") {
    // A control that reads as much as another row would be no control without its solving, so a
    // flag for all rows leaves it alone.
    const Solve solve = parse_solve(value);
    const bool is_control =
        curve.solve == Solve::iso_read_ff || curve.solve == Solve::iso_read_model;
    if (!is_first && !is_control) curve.solve = solve;
  } else if (name == "reference_row") {
    curve.reference_row = value;
  } else if (name == "seeds") {
    curve.seeds = parse_seeds(value);
  } else if (is_model_knob(name)) {
    set_field(curve.model, name, value);
  } else {
    set_field(curve.train, name, value);
  }
}

/// A row before anything is solved. An empty reference_row means the first row.
Curve parse_curve(const FileRow& row, bool is_first) {
  Curve curve;
  curve.name = row.name;
  curve.solve = is_first ? Solve::none : Solve::match_parameters;
  for (const auto& [name, value] : row.settings) set_knob(curve, is_first, name, value);
  // Shapes leave encoders out to save memory; here encoder_layers alone decides.
  if (!has(row.settings, "encoder")) curve.model.encoder = true;
  curve.model.blocks = curve.model.decoder_layers;
  return curve;
}

/// Solves rows in the order in which they need each other.
class Solver {
 public:
  explicit Solver(std::vector<Curve>& curves) : curves_(curves), states_(curves.size()) {}

  void run() {
    for (std::size_t i = 0; i < curves_.size(); ++i) solve(i);
  }

 private:
  enum class State { waiting, running, done };

  const ModelConfig& reference_of(const Curve& curve) {
    for (std::size_t i = 0; i < curves_.size(); ++i) {
      if (curves_[i].name != curve.reference_row) continue;
      if (states_[i] == State::running) {
        throw UserError("it is matched with row '" + curve.reference_row +
                        "', which waits for it in turn; choose another reference_row");
      }
      solve(i);
      return curves_[i].model;
    }
    throw UserError("its reference_row '" + curve.reference_row + "' is no row of this experiment");
  }

  void solve(std::size_t i) {
    if (states_[i] == State::done) return;
    states_[i] = State::running;
    Curve& curve = curves_[i];
    try {
      if (curve.solve != Solve::none) {
        const Solved solved = solved_for(curve);
        curve.model = solved.model;
        curve.solved = solved.what;
      }
      validate(curve.model);
      needs_of(curve.train);
    } catch (const UserError& error) {
      const std::string row = "row '" + curve.name + "': ", what = error.what();
      throw UserError(what.rfind("row '", 0) == 0 ? what : row + what);
    }
    states_[i] = State::done;
  }

  Solved solved_for(const Curve& curve) {
    const ModelConfig& reference = reference_of(curve);
    if (curve.solve == Solve::iso_read_ff) return match_feed_forward_reads(curve.model, reference);
    if (curve.solve == Solve::iso_read_model) return match_model_reads(curve.model, reference);
    return match_parameters(curve.model, reference);
  }

  std::vector<Curve>& curves_;
  std::vector<State> states_;
};

/// Positions that the tables must have room for.
void check_length(const Curve& curve) {
  const Needs needs = needs_of(curve.train);
  const bool has_source = needs.has_source();
  const std::int64_t positions = needs.positions(curve.train);
  if (positions > curve.model.max_length) {
    throw UserError("row '" + curve.name + "': max_length is " +
                    std::to_string(curve.model.max_length) + " but examples take " +
                    std::to_string(positions) + " positions; raise max_length");
  }
  if (has_source != (curve.model.encoder_layers > 0)) {
    throw UserError("row '" + curve.name + "': task " + curve.train.task + " wants " +
                    (has_source ? "an encoder; set encoder_layers"
                                : "a decoder-only model; set encoder_layers = 0"));
  }
}

void settle_reference(Curve& curve, const std::string& first_row) {
  if (!curve.reference_row.empty()) return;
  if (curve.solve == Solve::iso_read_ff || curve.solve == Solve::iso_read_model) {
    throw UserError(std::string("solve=") + name_of(curve.solve) +
                    " needs reference_row=<the sparse row whose reads it is to match>");
  }
  curve.reference_row = first_row;
}

}  // namespace

std::vector<KnobInfo> curve_knobs() {
  std::vector<KnobInfo> knobs = all_knobs();
  const std::vector<KnobInfo> of_training = knobs_of<TrainConfig>();
  knobs.insert(knobs.end(), of_training.begin(), of_training.end());
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
  return knobs;
}

std::vector<Curve> curves_of(const RowFile& file) {
  std::vector<Curve> curves;
  for (const FileRow& row : file.rows) {
    try {
      curves.push_back(parse_curve(row, curves.empty()));
      settle_reference(curves.back(), curves.front().name);
    } catch (const UserError& error) {
      file.refuse(row.name, error.what());
    }
  }
  try {
    Solver(curves).run();
    for (const Curve& curve : curves) check_length(curve);
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

Settings settings_of(const Curve& curve) {
  Settings settings;
  for (const std::string& name : field_names()) {
    settings.emplace_back(name, get_field(curve.model, name));
  }
  for (const std::string& name : train_field_names()) {
    settings.emplace_back(name, get_field(curve.train, name));
  }
  settings.emplace_back("solve", name_of(curve.solve));
  settings.emplace_back("reference_row", curve.reference_row);
  return settings;
}

bool is_path(const std::string& knob) {
  return knob == "corpus" || knob == "validation" || knob == "cache";
}

std::string portable_value(const std::string& knob, const std::string& value) {
  return is_path(knob) && !value.empty() ? portable_path(value) : value;
}

double tokens_per_step(const TrainConfig& train) {
  return double(train.batch) * double(needs_of(train).trained.input);
}

}  // namespace scaling

// From the text of a .cfg file to checked curves.
#include "experiments/training/curves.h"

#include <algorithm>
#include <set>

#include "experiments/study/cfg_file.h"
#include "kernels/check.h"
#include "models/tasks/catalog.h"

namespace scaling {
namespace {

// Training needs f32 and every block; curves get their seeds from `seeds`.
const std::set<std::string> kNoKnobs = {"weight_type", "blocks", "seed", "data_seed"};

// A row's own; in the file or on the command line they are for all rows but the first.
const std::vector<std::string> kRowKnobs = {"solve", "reference_row"};

bool has(const Settings& settings, const std::string& name) {
  return std::any_of(settings.begin(), settings.end(),
                     [&name](const auto& setting) { return setting.first == name; });
}

std::vector<std::string> names_of(const Settings& settings) {
  std::vector<std::string> names;
  for (const auto& setting : settings) names.push_back(setting.first);
  return names;
}

bool is_model_knob(const std::string& name) {
  const std::vector<std::string> names = field_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

void set_knob(Curve& curve, const std::string& name, const std::string& value) {
  if (!has(curve_knobs(), name)) {
    throw UserError("there is no knob '" + name +
                    "'; known are: " + joined(names_of(curve_knobs())) + ", " + joined(kRowKnobs));
  }
  if (is_model_knob(name)) {
    set_field(curve.model, name, value);
  } else {
    set_field(curve.train, name, value);
  }
}

/// A row before anything is solved. An empty reference_row means the first row.
Curve parse_curve(const std::string& text, const Settings& file_settings, const Settings& overrides,
                  bool first) {
  const RowText parts = parse_row_text(text);
  Curve curve;
  curve.name = parts.name;
  curve.solve = first ? Solve::none : Solve::match_parameters;
  Settings all = file_settings;
  all.insert(all.end(), parts.settings.begin(), parts.settings.end());
  all.insert(all.end(), overrides.begin(), overrides.end());
  try {
    // The shape first: a size that was given anywhere beats the shape's.
    for (const bool shape : {true, false}) {
      for (const auto& [name, value] : all) {
        if ((name == "shape") != shape) continue;
        if (name == "solve") {
          // A control that reads as much as another row would be no control without its solving, so
          // a flag for all rows leaves it alone.
          const Solve solve = parse_solve(value);
          const bool is_control =
              curve.solve == Solve::iso_read_ff || curve.solve == Solve::iso_read_model;
          if (!first && !is_control) curve.solve = solve;
        } else if (name == "reference_row") {
          curve.reference_row = value;
        } else {
          set_knob(curve, name, value);
        }
      }
    }
  } catch (const UserError& error) {
    throw UserError("row '" + curve.name + "': " + error.what());
  }
  // Shapes leave encoders out to save memory; here encoder_layers alone decides.
  if (!has(all, "encoder")) curve.model.encoder = true;
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

CurveExperiment build(const CfgFile& cfg, const Settings& overrides) {
  CurveExperiment experiment;
  experiment.name = cfg.experiment;
  experiment.title = cfg.title;
  experiment.seeds = parse_seeds(cfg.setting("seeds", "1"));
  Settings settings;
  for (const auto& setting : cfg.settings) {
    if (setting.first != "seeds") settings.push_back(setting);
  }
  std::vector<Curve>& curves = experiment.curves;
  for (const std::string& text : cfg.rows) {
    Curve curve = parse_curve(text, settings, overrides, curves.empty());
    for (const Curve& other : curves) {
      if (other.name == curve.name) {
        throw UserError("two rows have the name '" + curve.name + "'");
      }
    }
    if (curve.reference_row.empty()) {
      if (curve.solve == Solve::iso_read_ff || curve.solve == Solve::iso_read_model) {
        throw UserError("row '" + curve.name + "': solve=" + name_of(curve.solve) +
                        " needs reference_row=<the sparse row whose reads it is to match>");
      }
      curve.reference_row = curves.empty() ? curve.name : curves.front().name;
    }
    curves.push_back(std::move(curve));
  }
  Solver(curves).run();
  for (const Curve& curve : curves) check_length(curve);
  return experiment;
}

/// What a file may set: seeds, then knobs for all rows.
std::vector<std::string> file_knobs() {
  std::vector<std::string> knobs = {"seeds"};
  for (const auto& knob : curve_knobs()) knobs.push_back(knob.first);
  knobs.insert(knobs.end(), kRowKnobs.begin(), kRowKnobs.end());
  return knobs;
}

}  // namespace

Settings curve_knobs() {
  Settings knobs;
  const auto add = [&knobs](const std::vector<KnobInfo>& all) {
    for (const KnobInfo& knob : all) {
      if (!kNoKnobs.count(knob.name)) knobs.emplace_back(knob.name, knob.help);
    }
  };
  add(all_knobs());
  add(knobs_of<TrainConfig>());
  return knobs;
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

Curve with_seed(Curve curve, std::uint64_t seed) {
  curve.model.seed = seed;
  curve.train.data_seed = seed;
  return curve;
}

CurveExperiment parse_curves(std::istream& in, const std::string& file, const Settings& overrides) {
  try {
    return build(parse_cfg(in, file, file_knobs()), overrides);
  } catch (const UserError& error) {
    throw UserError(file + ": " + error.what());
  }
}

CurveExperiment read_curves(const std::string& file, const Settings& overrides) {
  std::ifstream in = open_cfg(file, "experiments/configs/training");
  return parse_curves(in, file, overrides);
}

std::vector<Curve> select_curves(const CurveExperiment& experiment,
                                 const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const Curve& curve : experiment.curves) known.push_back(curve.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw UserError("experiment '" + experiment.name + "' has no row '" + name +
                      "'; known are: " + joined(known));
    }
  }
  std::vector<Curve> curves;
  for (const Curve& curve : experiment.curves) {
    if (names.empty() || std::find(names.begin(), names.end(), curve.name) != names.end()) {
      curves.push_back(curve);
    }
  }
  return curves;
}

}  // namespace scaling

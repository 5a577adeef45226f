// JSON as far as a flat object of strings needs it.
#include "models/training/run_state.h"

#include <cstddef>
#include <cstdio>

#include "kernels/check.h"
#include "models/fields.h"

namespace scaling {
namespace {

constexpr const char* kTokenizerModel = "tokenizer_model";
constexpr const char* kSeconds = "seconds";
constexpr const char* kBest = "best";

std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      all += '\\';
      all += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", unsigned(static_cast<unsigned char>(c)));
      all += escape;
    } else {
      all += c;
    }
  }
  return all + '"';
}

class FlatReader {
 public:
  explicit FlatReader(const std::string& text) : text_(text) {}

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) malformed();
  }
  std::string string() {
    expect('"');
    std::string value;
    for (char c = next(); c != '"'; c = next()) value += c == '\\' ? escaped() : c;
    return value;
  }
  void end() {
    skip_space();
    if (at_ != text_.size()) malformed();
  }

 private:
  [[noreturn]] void malformed() const {
    throw UserError("the training state '" + text_ +
                    "' is no flat JSON object of strings; use the program that wrote it");
  }
  char next() {
    if (at_ == text_.size()) malformed();
    return text_[at_++];
  }
  char escaped() {
    const char c = next();
    if (c == 'n') return '\n';
    if (c == 't') return '\t';
    if (c != 'u') return c;
    int code = 0;
    for (int digit = 0; digit < 4; ++digit) {
      const char hex = next();
      const bool is_digit = hex >= '0' && hex <= '9';
      if (!is_digit && !(hex >= 'a' && hex <= 'f')) malformed();
      code = 16 * code + (is_digit ? hex - '0' : hex - 'a' + 10);
    }
    if (code >= 0x20) malformed();  // only control characters are written like this
    return char(code);
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string to_json(const RunState& state) {
  std::string json = "{";
  const auto add = [&json](const std::string& name, const std::string& value) {
    if (json.size() > 1) json += ", ";
    json += quoted(name);
    json += ": ";
    json += quoted(value);
  };
  for (const std::string& name : train_field_names()) add(name, get_field(state.config, name));
  if (!state.tokenizer_model.empty()) add(kTokenizerModel, state.tokenizer_model);
  add(kSeconds, print_value(state.seconds));
  if (state.best) add(kBest, print_value(*state.best));
  return json + "}";
}

RunState parse_run_state(const std::string& json) {
  RunState state;
  FlatReader in(json);
  in.expect('{');
  if (!in.take('}')) {
    do {
      const std::string name = in.string();
      in.expect(':');
      const std::string value = in.string();
      if (name == kTokenizerModel) {
        state.tokenizer_model = value;
      } else if (name == kSeconds) {
        parse_value(name, value, state.seconds);
      } else if (name == kBest) {
        parse_value(name, value, state.best.emplace());
      } else {
        set_field(state.config, name, value);
      }
    } while (in.take(','));
    in.expect('}');
  }
  in.end();
  return state;
}

}  // namespace scaling

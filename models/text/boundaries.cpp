// The pieces' text, read character by character.
#include "models/text/boundaries.h"

#include <string_view>

#include "kernels/check.h"

namespace scaling {
namespace {

bool is_space(char c) { return std::string_view(" \t\n\r\f\v").find(c) != std::string_view::npos; }

/// Whether a sentence ends with this text, white space behind it left out.
bool ends_sentence(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  while (!text.empty() && std::string_view("\"')]}").find(text.back()) != std::string_view::npos) {
    text.remove_suffix(1);
  }
  return !text.empty() && std::string_view(".!?").find(text.back()) != std::string_view::npos;
}

}  // namespace

Boundaries::Boundaries(const Tokenizer& tokenizer) {
  for (int id = 0; id < int(tokenizer.vocab_size()); ++id) {
    pieces_.push_back(tokenizer.bytes_of(id) > 0 ? tokenizer.decode({id}) : "");
  }
}

Boundaries::Starts Boundaries::of(std::span<const int> ids) const {
  SCALING_CHECK(!ids.empty());
  std::string text;
  std::vector<std::size_t> begins;  // of the tokens, in the text
  for (const int id : ids) {
    begins.push_back(text.size());
    text += pieces_[std::size_t(id)];
  }
  std::size_t end = text.size();  // without white space
  while (end > 0 && is_space(text[end - 1])) --end;
  const std::string_view all = text;
  Starts starts{{0}, {0}};
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const std::size_t at = begins[i];
    if (at == 0 || at >= end || !is_space(text[at]) || is_space(text[at - 1])) continue;
    starts.words.push_back(int(i));
    const std::size_t word = all.find_first_not_of(" \t\n\r\f\v", at);
    const bool is_line_end = all.substr(at, word - at).find('\n') != std::string_view::npos;
    if (is_line_end || ends_sentence(all.substr(0, at))) starts.sentences.push_back(int(i));
  }
  return starts;
}

void keep_sentences(const Boundaries& boundaries, std::int64_t most, std::vector<int>& ids) {
  if (most == 0 || ids.empty()) return;
  const std::vector<int> starts = boundaries.of(ids).sentences;
  if (std::int64_t(starts.size()) > most) ids.resize(std::size_t(starts[std::size_t(most)]));
}

}  // namespace scaling

// A parser by recursive descent that keeps nothing of what it passes.
#include "models/text/json_lines.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace scaling {
namespace {

constexpr int kMaxDepth = 256;

bool is_one_of(const std::string& key, const std::vector<std::string>& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::size_t longest_of(const std::vector<std::string>& keys) {
  std::size_t longest = 0;
  for (const std::string& key : keys) longest = std::max(longest, key.size());
  return longest;
}

/// The first string under one of the keys, into a document.
class OneText {
 public:
  OneText(DocumentCutter& document, const std::vector<std::string>& keys)
      : document_(document), keys_(keys) {}
  std::size_t longest_key() const { return longest_of(keys_); }
  /// Of a string: whether it is wanted. Then it is had, and its characters follow.
  bool takes(const std::string& key) {
    if (found_ || !is_one_of(key, keys_)) return false;
    found_ = true;
    return true;
  }
  void add(char c) { document_.add(c); }
  bool has_all() const { return found_; }

 private:
  DocumentCutter& document_;
  const std::vector<std::string>& keys_;
  bool found_ = false;
};

/// Several, each the first under one of its own keys, into strings. The same functions.
class SeveralTexts {
 public:
  SeveralTexts(const std::vector<std::vector<std::string>>& choices,
               std::vector<std::optional<std::string>>& texts)
      : choices_(choices), texts_(texts) {
    texts_.assign(choices.size(), std::nullopt);
  }
  std::size_t longest_key() const {
    std::size_t longest = 0;
    for (const auto& keys : choices_) longest = std::max(longest, longest_of(keys));
    return longest;
  }
  bool takes(const std::string& key) {
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (texts_[i] || !is_one_of(key, choices_[i])) continue;
      current_ = &texts_[i].emplace();
      return true;
    }
    return false;
  }
  void add(char c) { current_->push_back(c); }
  bool has_all() const {
    return std::all_of(texts_.begin(), texts_.end(),
                       [](const auto& text) { return text.has_value(); });
  }

 private:
  const std::vector<std::vector<std::string>>& choices_;
  std::vector<std::optional<std::string>>& texts_;
  std::string* current_ = nullptr;
};

template <class Texts>
class LineParser {
 public:
  LineParser(ByteReader& in, Texts& texts)
      : in_(in), texts_(texts), longest_(texts.longest_key()) {}

  JsonLine line() {
    if (in_.peek() < 0) return JsonLine::end;
    skip_space();
    JsonLine result = JsonLine::blank;
    if (look() >= 0) {
      const bool whole = accept('{') && object(1);
      skip_space();
      result = !whole || look() >= 0 ? JsonLine::malformed
               : texts_.has_all()    ? JsonLine::text
                                     : JsonLine::no_text;
    }
    while (look() >= 0) in_.take();
    if (in_.peek() == '\n') in_.take();
    return result;
  }

 private:
  // The line's end is the end of everything: a JSON line holds no raw line end.
  int look() {
    const int c = in_.peek();
    return c == '\n' ? -1 : c;
  }
  int next() {
    const int c = look();
    if (c >= 0) in_.take();
    return c;
  }
  bool accept(char c) {
    if (look() != c) return false;
    in_.take();
    return true;
  }
  void skip_space() {
    for (int c = look(); c == ' ' || c == '\t' || c == '\r'; c = look()) in_.take();
  }

  // Each of these starts behind the opening character.
  bool object(int depth) {
    skip_space();
    if (accept('}')) return true;
    do {
      skip_space();
      std::string key;
      const auto collect = [&](char c) {
        if (key.size() <= longest_) key.push_back(c);
      };
      if (!accept('"') || !string(collect)) return false;
      skip_space();
      if (!accept(':')) return false;
      skip_space();
      if (depth == 1 && look() == '"' && texts_.takes(key)) {
        in_.take();
        if (!string([&](char c) { texts_.add(c); })) return false;
      } else if (!value(depth)) {
        return false;
      }
      skip_space();
    } while (accept(','));
    return accept('}');
  }

  bool array(int depth) {
    skip_space();
    if (accept(']')) return true;
    do {
      if (!value(depth)) return false;
      skip_space();
    } while (accept(','));
    return accept(']');
  }

  bool value(int depth) {
    if (depth >= kMaxDepth) return false;
    skip_space();
    if (accept('{')) return object(depth + 1);
    if (accept('[')) return array(depth + 1);
    if (accept('"')) return string([](char) {});
    if (look() == 't') return word("true");
    if (look() == 'f') return word("false");
    if (look() == 'n') return word("null");
    return number();
  }

  bool word(const char* expected) {
    for (; *expected != 0; ++expected) {
      if (!accept(*expected)) return false;
    }
    return true;
  }

  bool number() {
    int characters = 0;
    for (int c = look(); c > 0 && std::strchr("+-.eE0123456789", c) != nullptr; c = look()) {
      in_.take();
      ++characters;
    }
    return characters > 0;
  }

  template <class Emit>
  bool string(Emit&& emit) {
    unsigned high = 0;  // first half of a surrogate pair, waiting for the second
    const auto flush = [&] {
      if (high != 0) emit_utf8(0xfffd, emit);
      high = 0;
    };
    for (;;) {
      int c = next();
      if (c < 0) return false;
      if (c != '\\') {
        flush();
        if (c == '"') return true;
        emit(static_cast<char>(c));
        continue;
      }
      c = next();
      if (c == 'u') {
        unsigned code = 0;
        if (!hex4(code)) return false;
        const bool low = code >= 0xdc00 && code <= 0xdfff;
        if (low && high != 0) {
          emit_utf8(0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00), emit);
          high = 0;
          continue;
        }
        flush();
        if (code >= 0xd800 && code <= 0xdbff) {
          high = code;
        } else {
          emit_utf8(low ? 0xfffd : code, emit);
        }
        continue;
      }
      flush();
      switch (c) {
        case '"':
        case '\\':
        case '/':
          emit(static_cast<char>(c));
          break;
        case 'b':
          emit('\b');
          break;
        case 'f':
          emit('\f');
          break;
        case 'n':
          emit('\n');
          break;
        case 'r':
          emit('\r');
          break;
        case 't':
          emit('\t');
          break;
        default:
          return false;
      }
    }
  }

  bool hex4(unsigned& code) {
    for (int i = 0; i < 4; ++i) {
      const int c = next();
      unsigned digit = 0;
      if (c >= '0' && c <= '9') {
        digit = unsigned(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = unsigned(c - 'a') + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = unsigned(c - 'A') + 10;
      } else {
        return false;
      }
      code = 16 * code + digit;
    }
    return true;
  }

  template <class Emit>
  static void emit_utf8(unsigned code, Emit&& emit) {
    const auto rest = [&](int shift) { emit(static_cast<char>(0x80 | ((code >> shift) & 0x3f))); };
    if (code < 0x80) {
      emit(static_cast<char>(code));
    } else if (code < 0x800) {
      emit(static_cast<char>(0xc0 | (code >> 6)));
      rest(0);
    } else if (code < 0x10000) {
      emit(static_cast<char>(0xe0 | (code >> 12)));
      rest(6);
      rest(0);
    } else {
      emit(static_cast<char>(0xf0 | (code >> 18)));
      rest(12);
      rest(6);
      rest(0);
    }
  }

  ByteReader& in_;
  Texts& texts_;
  std::size_t longest_;
};

}  // namespace

JsonLine read_json_line(ByteReader& in, DocumentCutter& document,
                        const std::vector<std::string>& keys) {
  OneText text(document, keys);
  return LineParser(in, text).line();
}

JsonLine read_json_line(ByteReader& in, const std::vector<std::vector<std::string>>& choices,
                        std::vector<std::optional<std::string>>& texts) {
  SeveralTexts several(choices, texts);
  return LineParser(in, several).line();
}

std::string quoted_keys(const std::vector<std::string>& keys) {
  std::string all;
  for (const std::string& key : keys) all += (all.empty() ? "'" : ", '") + key + "'";
  return all;
}

}  // namespace scaling

// A parser by recursive descent that keeps nothing of what it passes.
#include "models/text/json_lines.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace scaling {
namespace {

constexpr int kMaxDepth = 256;

class LineParser {
 public:
  LineParser(ByteReader& in, DocumentCutter& document, const std::vector<std::string>& keys)
      : in_(in), document_(document), keys_(keys) {
    for (const std::string& key : keys) longest_ = std::max(longest_, key.size());
  }

  JsonLine line() {
    if (in_.peek() < 0) return JsonLine::end;
    skip_space();
    JsonLine result = JsonLine::blank;
    if (look() >= 0) {
      const bool whole = accept('{') && object(1);
      skip_space();
      result = !whole || look() >= 0 ? JsonLine::malformed
               : found_              ? JsonLine::text
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

  bool is_wanted(const std::string& key) const {
    return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
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
      if (depth == 1 && is_wanted(key) && !found_ && look() == '"') {
        in_.take();
        found_ = true;
        if (!string([&](char c) { document_.add(c); })) return false;
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
  DocumentCutter& document_;
  const std::vector<std::string>& keys_;
  std::size_t longest_ = 0;
  bool found_ = false;
};

}  // namespace

JsonLine read_json_line(ByteReader& in, DocumentCutter& document,
                        const std::vector<std::string>& keys) {
  return LineParser(in, document, keys).line();
}

}  // namespace scaling

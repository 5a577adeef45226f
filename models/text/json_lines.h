// JSON lines read as a stream: a line may be larger than memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/text/byte_source.h"
#include "models/text/document_cutter.h"

namespace scaling {

enum class JsonLine {
  text,       ///< an object with a string under one of the keys, which the document received
  blank,      ///< nothing but white space
  no_text,    ///< an object without such a string
  malformed,  ///< no JSON object; the document may have received some text nevertheless
  end         ///< of the file
};

/// Reads one line: of its object the first string under one of the keys. Escapes are decoded, half
/// a surrogate pair becomes U+FFFD, raw bytes stay as they are, be they valid UTF-8 or not. Numbers
/// are only looked at as far as needed to pass over them.
JsonLine read_json_line(ByteReader& in, DocumentCutter& document,
                        const std::vector<std::string>& keys);

/// The same of several texts of one object, each held whole: texts[i] is the first string under one
/// of choices[i], none without one. JsonLine::text says that each is there.
JsonLine read_json_line(ByteReader& in, const std::vector<std::vector<std::string>>& choices,
                        std::vector<std::optional<std::string>>& texts);

/// "'text', 'body'", for messages.
std::string quoted_keys(const std::vector<std::string>& keys);

}  // namespace scaling

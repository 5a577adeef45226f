// JSON lines read as a stream: a line may be larger than memory.
#pragma once

#include "models/training/byte_source.h"
#include "models/training/document_cutter.h"

namespace scaling {

enum class JsonLine {
  text,       ///< an object with a string under the key "text", which the document received
  blank,      ///< nothing but white space
  no_text,    ///< an object without such a string
  malformed,  ///< no JSON object; the document may have received some text nevertheless
  end         ///< of the file
};

/// Reads one line. Escapes are decoded, half a surrogate pair becomes U+FFFD, raw bytes stay as
/// they are, be they valid UTF-8 or not. Numbers are only looked at as far as needed to pass over
/// them.
JsonLine read_json_line(ByteReader& in, DocumentCutter& document);

}  // namespace scaling

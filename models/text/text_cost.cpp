// One object, written whole each time.
#include "models/text/text_cost.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/text/atomic_file.h"

namespace scaling {
namespace {

std::string beside(const std::string& path) { return path + ".cost.json"; }

}  // namespace

void add_text_cost(const std::string& path, const TextCost& cost, int threads) {
  std::ifstream before(beside(path));
  nlohmann::ordered_json sum = nlohmann::ordered_json::parse(before, nullptr, false);
  if (!sum.is_object() || sum.value("threads", 0) != threads) sum = {{"threads", threads}};
  sum["texts"] = sum.value("texts", std::uint64_t(0)) + cost.texts;
  sum["tokens"] = sum.value("tokens", std::int64_t(0)) + cost.tokens;
  sum["seconds"] = sum.value("seconds", 0.0) + cost.seconds;
  const std::string text = sum.dump() + "\n";
  AtomicFile file(beside(path));
  file.write(text.data(), text.size());
  file.commit();
}

void forget_text_cost(const std::string& path) { std::remove(beside(path).c_str()); }

}  // namespace scaling

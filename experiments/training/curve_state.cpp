// A few words of JSON in the folder of checkpoints, and a lock beside it.
#include "experiments/training/curve_state.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/check.h"

namespace scaling {
namespace {

std::string path_in(const std::string& folder) {
  return (std::filesystem::path(folder) / "state.json").string();
}

[[noreturn]] void refuse_to_write(const std::string& path, const std::string& reason) {
  throw UserError("'" + path + "' cannot be written (" + reason +
                  "); free space or choose another folder with --scratch DIR");
}

}  // namespace

std::optional<CurveState> read_curve_state(const std::string& folder) {
  std::ifstream in(path_in(folder));
  if (!in) return std::nullopt;
  try {
    const nlohmann::json json = nlohmann::json::parse(in);
    return CurveState{json.at("key"), json.at("commit"), json.at("gemm")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void write_curve_state(const std::string& folder, const CurveState& state) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const nlohmann::ordered_json json = {
      {"key", state.key}, {"commit", state.commit}, {"gemm", state.gemm}};
  const std::string path = path_in(folder), partial = path + ".partial";
  {
    std::ofstream out(partial);
    out << json.dump() << "\n";
    out.flush();
    if (out && std::rename(partial.c_str(), path.c_str()) == 0) return;
  }
  refuse_to_write(path, std::strerror(errno));
}

CurveLock::CurveLock(const std::string& folder) {
  const std::filesystem::path path = folder + ".lock";
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (!std::ofstream(path, std::ios::app)) refuse_to_write(path.string(), std::strerror(errno));
  try {
    lock_ = boost::interprocess::file_lock(path.c_str());
    held_ = lock_.try_lock();
  } catch (const boost::interprocess::interprocess_exception& failure) {
    refuse_to_write(path.string(), failure.what());
  }
}

}  // namespace scaling

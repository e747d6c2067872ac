// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/error_file.hpp"

#include <cxxabi.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <typeinfo>

namespace muster::train {

std::string describe(const std::exception& error) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), &std::free);
  return std::string(name ? name.get() : "std::exception") + ": " + error.what();
}

std::string error_file_text(const std::string& message, std::int64_t seconds) {
  const nlohmann::json content = {
      {"message",
       {{"message", message},
        {"extraInfo", {{"py_callstack", message}, {"timestamp", std::to_string(seconds)}}}}}};
  return content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool write_error_file(const std::string& path, const std::string& message, std::int64_t seconds) {
  if (path.empty()) return true;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << error_file_text(message, seconds);
  file.close();
  return !file.fail();
}

}  // namespace muster::train

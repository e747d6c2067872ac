// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/watch/json_line.hpp"

#include "rendezvous/base/text.hpp"
#include "worker_sdk/nn/learner/text.hpp"

#include <cmath>

namespace muster::train {

JsonLine& JsonLine::add(std::string_view name, std::string_view value) {
  key(name);
  text_ += json_text(value);
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, double value) {
  key(name);
  text_ += std::isfinite(value) ? format("%.9g", value) : "null";
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, std::int64_t value) {
  key(name);
  text_ += std::to_string(value);
  return *this;
}

void JsonLine::key(std::string_view name) {
  if (text_.size() > 1) text_ += ", ";
  text_ += json_text(name) + ": ";
}

}  // namespace muster::train

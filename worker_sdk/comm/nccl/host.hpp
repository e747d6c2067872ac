// SPDX-License-Identifier: Apache-2.0
// The SDK's side of the plug-in table, with C++ types and errors.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/plugin/plugin.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace muster::nccl {

/// A view of the table; as thread-safe as it says.
class Host {
 public:
  explicit Host(const muster_plugin_host& table) : table_(&table) {}

  void set(const std::string& key, const std::string& value) const {
    const auto error = std::make_unique<muster_plugin_error>();
    check(table_->store_set(table_->context, key.c_str(), value.data(), value.size(), error.get()), *error);
  }

  std::string get(const std::string& key, std::chrono::milliseconds limit) const {
    const auto error = std::make_unique<muster_plugin_error>();
    void* value = nullptr;
    std::size_t bytes = 0;
    check(table_->store_get(table_->context, key.c_str(), limit.count(), &value, &bytes, error.get()),
          *error);
    return take(value, bytes);
  }

  void post(const std::string& key, const std::string& value) const {
    const auto error = std::make_unique<muster_plugin_error>();
    check(table_->post(table_->context, key.c_str(), value.data(), value.size(), error.get()), *error);
  }

  std::optional<std::string> peek(const std::string& key) const {
    const auto error = std::make_unique<muster_plugin_error>();
    void* value = nullptr;
    std::size_t bytes = 0;
    check(table_->peek(table_->context, key.c_str(), &value, &bytes, error.get()), *error);
    if (value == nullptr) return std::nullopt;
    return take(value, bytes);
  }

  /// Why the group was aborted, by whichever rank.
  std::optional<Error> aborted() const {
    const auto error = std::make_unique<muster_plugin_error>();
    if (table_->aborted(table_->context, error.get()) == 0) return std::nullopt;
    return to_error(*error);
  }

  void fail_group(const Error& error) const {
    table_->fail_group(table_->context, static_cast<std::int32_t>(error.code()), error.what());
  }

  void log(int level, const std::string& text) const { table_->log(table_->context, level, text.c_str()); }

 private:
  static Error to_error(const muster_plugin_error& error) {
    const auto code = error.code == 0 ? ErrorCode::aborted : static_cast<ErrorCode>(error.code);
    return Error(code, error.text);
  }

  static void check(std::int32_t code, muster_plugin_error& error) {
    if (code == 0) return;
    error.code = code;
    throw to_error(error);
  }

  std::string take(void* value, std::size_t bytes) const {
    std::string text(static_cast<const char*>(value), bytes);
    table_->release(value);
    return text;
  }

  const muster_plugin_host* table_;
};

}  // namespace muster::nccl

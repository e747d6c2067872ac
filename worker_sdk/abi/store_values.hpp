// SPDX-License-Identifier: Apache-2.0
// Keys and values between muster.h and the store client.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/abi/failure.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace muster::abi {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

using Value = std::unique_ptr<void, Free>;

/// A copy of `text`, ended by a 0, in memory that muster_free() frees.
inline Value copy_of(std::string_view text) {
  Value copy(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy.get(), text.data(), text.size());
  static_cast<char*>(copy.get())[text.size()] = '\0';
  return copy;
}

inline void give_out(std::string_view text, void** value, std::uint64_t* bytes) {
  *value = copy_of(text).release();
  if (bytes != nullptr) *bytes = text.size();
}

inline std::string_view value_of(const void* value, std::uint64_t bytes) {
  // More than any store takes; a length that was never set is told as that.
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40;
  if (bytes > kMaxBytes)
    throw Error(ErrorCode::invalid_argument,
                "a value of " + std::to_string(bytes) + " bytes is more than a store takes");
  if (bytes > 0) require(value, "the value");
  return {static_cast<const char*>(value), bytes};
}

inline std::vector<std::string> keys_of(const char* const* keys, std::uint32_t count) {
  if (count == 0) throw Error(ErrorCode::invalid_argument, "the list of keys is empty; give one at least");
  require(keys, "the list of keys");
  std::vector<std::string> names;
  names.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    require(keys[i], "a key");
    names.emplace_back(keys[i]);
  }
  return names;
}

}  // namespace muster::abi

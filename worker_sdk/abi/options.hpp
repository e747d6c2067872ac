// SPDX-License-Identifier: Apache-2.0
// Reads and writes the size-stamped structures of muster.h.
#pragma once

#include "muster/abi/reducer.h"
#include "muster/abi/types.h"
#include "muster/error.hpp"
#include "worker_sdk/parallel/compression.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

namespace muster::abi {

/// A size that no structure will ever reach; a larger `size` was not set.
inline constexpr std::uint32_t kMaxStructBytes = 4096;

inline void check_size(std::uint32_t size, const char* what) {
  if (size < sizeof size || size > kMaxStructBytes)
    throw Error(ErrorCode::invalid_argument, std::string(what) + ".size is " + std::to_string(size) +
                                                 "; set it to sizeof(" + what + ") and the rest to zero");
}

/// The options that the caller gave, written for an older or newer header; all defaults for null.
template <class Options>
Options read_options(const Options* given, const char* what) {
  Options options = {};
  if (given == nullptr) return options;
  check_size(given->size, what);
  std::memcpy(&options, given, std::min<std::size_t>(given->size, sizeof options));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof options; i < given->size; ++i)
    if (bytes[i] != 0)
      throw Error(ErrorCode::unsupported, std::string(what) + " sets a member that this library, " +
                                              "version " + muster_version() +
                                              ", does not know; install a newer one");
  return options;
}

/// Gives `result` to the caller, as far as the caller's header knows its members.
template <class Result>
void write_result(Result* out, Result result, const char* what) {
  check_size(out->size, what);
  result.size = out->size;
  std::memcpy(out, &result, std::min<std::size_t>(out->size, sizeof result));
}

/// Reads a deadline in milliseconds; 0 means `fallback`.
inline std::chrono::milliseconds read_deadline(std::int64_t ms, std::chrono::milliseconds fallback) {
  // A limit of 100 years, because longer times overflow clocks.
  constexpr std::int64_t kLongest = std::int64_t{100} * 366 * 24 * 3600 * 1000;
  if (ms < 0)
    throw Error(ErrorCode::invalid_argument,
                "a deadline of " + std::to_string(ms) +
                    " ms is negative; give milliseconds from now, or 0 for the default");
  return ms == 0 ? fallback : std::chrono::milliseconds(std::min(ms, kLongest));
}

/// The hook of a compression to 16 bits; null for MUSTER_COMPRESS_NONE.
inline std::shared_ptr<BucketHook> half_hook_of(muster_compression compression) {
  if (compression == MUSTER_COMPRESS_NONE) return nullptr;
  return make_half_hook(compression == MUSTER_COMPRESS_BF16 ? DataType::bf16 : DataType::f16);
}

inline std::string text_or(const char* text, const char* fallback) {
  return text == nullptr ? fallback : text;
}

}  // namespace muster::abi

// SPDX-License-Identifier: Apache-2.0
// Carries errors between the SDK and a plug-in (table.hpp), in both directions: an exception becomes a code
// and a text in the called function, and an Error again in the calling one.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/plugin/table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>

namespace muster::plugin {

/// Copies `text` to `place`, cut to `capacity` bytes with the 0 at its end.
inline void copy_text(std::string_view text, char* place, std::size_t capacity) noexcept {
  const std::size_t length = std::min(text.size(), capacity - 1);
  std::memcpy(place, text.data(), length);
  place[length] = '\0';
}

/// Fills in `error` and returns its code.
inline std::int32_t report(muster_plugin_error* error, ErrorCode code, std::string_view text) noexcept {
  error->code = static_cast<std::int32_t>(code);
  copy_text(text, error->text, sizeof(error->text));
  return error->code;
}

/// The texts about an exception that is no Error.
struct Words {
  const char* no_memory;
  const char* failed;  ///< stands before the exception's own text
};

/// Runs `body` for the other side and reports its exceptions.
template <typename Body>
std::int32_t guarded(muster_plugin_error* error, const Words& words, const Body& body) noexcept {
  try {
    body();
    return 0;
  } catch (const Error& failure) {
    return report(error, failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return report(error, ErrorCode::out_of_memory, words.no_memory);
  } catch (const std::exception& failure) {
    return report(error, ErrorCode::backend, std::string(words.failed) + failure.what());
  }
}

/// Calls a function of the other side; returns the error that it reports, empty when it succeeded.
template <typename Function, typename... Arguments>
std::optional<Error> try_call(Function function, Arguments... arguments) {
  muster_plugin_error error;
  error.code = 0;
  error.text[0] = '\0';
  const std::int32_t code = function(arguments..., &error);
  if (code == 0) return std::nullopt;
  return Error(static_cast<ErrorCode>(code), error.text);
}

/// Calls a function of the other side and throws the error that it reports.
template <typename Function, typename... Arguments>
void call_or_throw(Function function, Arguments... arguments) {
  if (const auto error = try_call(function, arguments...)) throw Error(*error);
}

}  // namespace muster::plugin

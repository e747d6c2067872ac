// SPDX-License-Identifier: Apache-2.0
// The one door to the logging library. Diagnostics of our own go to stderr as "muster: <level>: <text>";
// what a job's workers print never passes through here.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace muster {

enum class LogLevel { debug, info, warning, error, off };

/// Lowest level that is printed. Default: warning. Call before threads are started.
void set_log_level(LogLevel level);

/// Words accepted by --log-level and the LOGLEVEL variable (any case): DEBUG INFO WARNING ERROR CRITICAL.
/// Returns false and changes nothing for any other word.
bool set_log_level(std::string_view word);

/// Prefix after "muster: ", for example "agent" or "rendezvous". Default: none.
void set_log_role(std::string_view role);

/// From now on lines go to `handler` instead of stderr: without role, and not escaped. It is called from any
/// thread, by one at a time, and must not log. Empty: back to stderr.
void set_log_handler(std::function<void(LogLevel, std::string_view text)> handler);

/// One line; control characters in `text` are escaped, because it may quote a peer. Any thread.
void log(LogLevel level, std::string_view text);

inline void log_info(std::string_view text) {
  log(LogLevel::info, text);
}

inline void log_warning(std::string_view text) {
  log(LogLevel::warning, text);
}

inline void log_error(std::string_view text) {
  log(LogLevel::error, text);
}

}  // namespace muster

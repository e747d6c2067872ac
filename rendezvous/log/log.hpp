// SPDX-License-Identifier: Apache-2.0
// The only access to the logging library. Muster's own diagnostics go to stderr as "muster: <level>: <text>";
// the output of a job's workers never passes through here.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace muster {

enum class LogLevel { debug, info, warning, error, off };

/// Sets the lowest level that is printed. Default: warning. Call before threads are started.
void set_log_level(LogLevel level);

/// Sets the level by a word of --log-level or the LOGLEVEL variable (any case): DEBUG INFO WARNING ERROR
/// CRITICAL. Returns false and changes nothing for any other word.
bool set_log_level(std::string_view word);

/// Sets the prefix after "muster: ", for example "agent" or "rendezvous". Default: none.
void set_log_role(std::string_view role);

/// Sends lines to `handler` instead of stderr from now on, without role and not escaped. The handler is
/// called from any thread, by one at a time, and must not log. Empty: lines go to stderr again.
void set_log_handler(std::function<void(LogLevel, std::string_view text)> handler);

/// Logs one line; control characters in `text` are escaped, because it may quote a peer. Any thread.
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

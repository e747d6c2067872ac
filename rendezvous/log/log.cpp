// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/log/log.hpp"

#include "rendezvous/log/colours.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <mutex>
#include <utility>

namespace muster {
namespace {

struct LogState {
  std::mutex mutex;
  spdlog::level::level_enum level = spdlog::level::warn;
  std::string role;
  std::function<void(LogLevel, std::string_view)> handler;
  std::shared_ptr<spdlog::logger> logger;  // made at the first printed line, to keep start-up cheap
};

LogState& state() {
  static LogState instance;
  return instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

void set_log_level(LogLevel level) {
  state().level = to_spdlog(level);
}

bool set_log_level(std::string_view word) {
  struct Entry {
    std::string_view word;
    LogLevel level;
  };

  static constexpr std::array<Entry, 6> entries{{{"DEBUG", LogLevel::debug},
                                                 {"INFO", LogLevel::info},
                                                 {"WARNING", LogLevel::warning},
                                                 {"WARN", LogLevel::warning},
                                                 {"ERROR", LogLevel::error},
                                                 {"CRITICAL", LogLevel::error}}};
  std::string upper(word);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const Entry& entry : entries) {
    if (entry.word == upper) {
      set_log_level(entry.level);
      return true;
    }
  }
  return false;
}

void set_log_role(std::string_view role) {
  state().role = role.empty() ? "" : std::string(role) + ": ";
}

void set_log_handler(std::function<void(LogLevel, std::string_view)> handler) {
  const std::lock_guard lock(state().mutex);
  state().handler = std::move(handler);
}

void log(LogLevel level, std::string_view text) {
  LogState& log_state = state();
  const auto spd_level = to_spdlog(level);
  if (spd_level < log_state.level) return;
  const std::lock_guard lock(log_state.mutex);
  if (log_state.handler) return log_state.handler(level, text);
  if (!log_state.logger) {
    log_state.logger =
        std::make_shared<spdlog::logger>("muster", std::make_shared<spdlog::sinks::stderr_sink_st>());
    log_state.logger->set_pattern("%v");
    log_state.logger->set_level(spdlog::level::trace);
    log_state.logger->flush_on(spdlog::level::trace);
  }
  const std::string_view word(spdlog::level::to_string_view(spd_level).data());
  const std::string line = "muster: " + std::string(word) + ": " + log_state.role + for_terminal(text);
  log_state.logger->log(spd_level, "{}", for_screen(STDERR_FILENO, line));
}

}  // namespace muster

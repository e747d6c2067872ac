// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher_watch.hpp"

#include "agent/core/launcher_search.hpp"
#include "agent/core/link_message.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>
#include <optional>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;
using asio::awaitable;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kAnswerWithin{2};
constexpr std::chrono::seconds kLookForSilence{2};

/// Searches and looks end with a finding, or with the session: how they ended is no news to anybody.
void forget(const std::exception_ptr&) {}

}  // namespace

LauncherWatch::LauncherWatch(const asio::any_io_executor& executor, std::string host, Needs needs)
    : executor_(executor),
      host_(std::move(host)),
      needs_(std::move(needs)),
      ask_timer_(executor),
      silence_timer_(executor) {}

void LauncherWatch::cancel() {
  over_ = true;
  ask_timer_.cancel();
  silence_timer_.cancel();
}

void LauncherWatch::lose(const std::string& why) {
  is_gone_ = true;
  needs_.gone(why);
}

void LauncherWatch::search() {
  if (is_sought_ || is_gone_) return;
  is_sought_ = true;
  asio::co_spawn(executor_, ask(), forget);
}

/// The link is cut: by a launcher that ended, or by a network that did. The coordinator knows.
awaitable<void> LauncherWatch::ask() {
  LauncherSearch search(Clock::now());
  while (!needs_.link_works() && !over_) {
    rendezvous::CoordinatorClient* const coordinator = needs_.coordinator();
    if (coordinator == nullptr) break;
    std::optional<rendezvous::LauncherState> answer;
    try {
      answer = co_await coordinator->launcher_state(Clock::now() + kAnswerWithin);
    } catch (
        const std::exception&) {  // NOLINT(bugprone-empty-catch) a coordinator that is lost says so itself
    }
    const LauncherSearch::Finding finding = search.judge(answer, Clock::now());
    if (finding == LauncherSearch::Finding::gone) break;
    if (finding == LauncherSearch::Finding::lives) needs_.lives();
    ask_timer_.expires_after(search.pause());
    boost::system::error_code ignored;
    co_await ask_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  is_sought_ = false;
  if (!needs_.link_works() && !over_ && !is_gone_)
    lose("the launcher is gone: its connection to " + host_ +
         " ended, and the coordinator does not know it any more");
}

void LauncherWatch::watch_for_silence() {
  asio::co_spawn(executor_, look_for_silence(), forget);
}

/// While the link looks as if it was there, in every phase to the report.
awaitable<void> LauncherWatch::look_for_silence() {
  while (!over_ && !is_gone_) {
    silence_timer_.expires_after(kLookForSilence);
    boost::system::error_code error;
    co_await silence_timer_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (error || over_) co_return;
    if (is_sought_ || Clock::now() - heard_at_ < kLauncherSilentAtMost) continue;
    const bool alive = co_await coordinator_hears_it();
    if (over_ || alive || is_gone_) continue;
    lose("the launcher is gone: " + host_ + " has heard nothing of it for " +
         std::to_string(kLauncherSilentAtMost.count()) + " s, and neither has the coordinator");
  }
}

/// Without a coordinator, the silence of the link counts.
awaitable<bool> LauncherWatch::coordinator_hears_it() {
  rendezvous::CoordinatorClient* const coordinator = needs_.coordinator();
  if (coordinator == nullptr || !needs_.coordinator_works()) co_return false;
  try {
    co_return is_heard(co_await coordinator->launcher_state(Clock::now() + kAnswerWithin));
  } catch (const std::exception&) {
    // Whether it is lost or only busy, its own silence tells.
    co_return needs_.coordinator_works();
  }
}

}  // namespace muster::agent

// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/kill_order.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/core/link_text.hpp"
#include "agent/core/node_status.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/log/terminal_text.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace muster::launcher {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr const char* kKillSchema = "muster.kill";
constexpr int kKillVersion = 1;
constexpr std::size_t kRangesMax = 16;
constexpr std::size_t kNamesMax = 8;

std::string as_line(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// Reads an object of the schema by `read`.
template <typename Read>
auto read_answer(const std::string& text, const Read& read) {
  try {
    const Json json = Json::parse(text);
    if (json.at("schema") != kKillSchema || json.at("version") != kKillVersion)
      throw std::invalid_argument("an answer of another schema");
    return read(json);
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("an answer about a signal: ") + error.what());
  }
}

KillOrder order_of(const Json& json) {
  KillOrder order;
  const Json& grace = json.at("grace_ms");
  if (!json.at("signal").is_number_integer() || (!grace.is_null() && !grace.is_number_integer()))
    throw std::invalid_argument("an order without whole numbers");
  json.at("signal").get_to(order.signal);
  json.at("now").get_to(order.now);
  if (json.at("ranks").size() > static_cast<std::size_t>(rendezvous::kMaxWorkersPerNode))
    throw std::invalid_argument("an order with too many ranks");
  json.at("ranks").get_to(order.ranks);
  if (!grace.is_null()) order.grace = milliseconds(grace.get<std::int64_t>());
  const bool bad_rank =
      std::any_of(order.ranks.begin(), order.ranks.end(), [](int rank) { return rank < 0; });
  const bool bad_grace = order.grace && (order.grace->count() < 0 || *order.grace > agent::kGraceMost);
  if (order.signal < 1 || order.signal > agent::kSignalMost || bad_rank || bad_grace)
    throw std::invalid_argument("an order with a signal, a rank or a time that there is not");
  return order;
}

bool holds(const std::vector<int>& list, int number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

std::string signal_names(const std::vector<int>& signals) {
  return joined_by(signals, [](int number) { return agent::signal_name(number); });
}

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks, kRangesMax);
}

std::string seconds_text(milliseconds time) {
  return std::to_string(time / std::chrono::seconds(1)) + " s";
}

KillPlan refused(const std::string& why) {
  KillPlan plan;
  plan.refusal = why;
  return plan;
}

}  // namespace

std::string to_json(const KillOrder& order) {
  Json grace = nullptr;
  if (order.grace) grace = order.grace->count();
  Json question;
  question["kill"] = {
      {"signal", order.signal}, {"now", order.now}, {"ranks", order.ranks}, {"grace_ms", grace}};
  return as_line(question);
}

std::optional<KillOrder> kill_order_in(const std::string& question) {
  try {
    const Json json = Json::parse(question);
    if (!json.is_object()) return std::nullopt;
    const auto kill = json.find("kill");
    if (kill == json.end()) return std::nullopt;
    return order_of(*kill);
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("a question to a job: ") + error.what());
  }
}

std::string to_json(const KillAnswer& answer) {
  return as_line({{"schema", kKillSchema},
                  {"version", kKillVersion},
                  {"job", answer.job},
                  {"refusal", answer.refusal},
                  {"ends_within_ms", answer.ends_within.count()},
                  {"got", answer.got},
                  {"without", answer.without},
                  {"no_answer_from", answer.silent}});
}

KillAnswer kill_answer_from_json(const std::string& text) {
  return read_answer(text, [](const Json& json) {
    KillAnswer answer;
    json.at("job").get_to(answer.job);
    json.at("refusal").get_to(answer.refusal);
    answer.ends_within = milliseconds(std::clamp<std::int64_t>(json.at("ends_within_ms").get<std::int64_t>(),
                                                               0, 2 * agent::kGraceMost.count()));
    json.at("got").get_to(answer.got);
    json.at("without").get_to(answer.without);
    json.at("no_answer_from").get_to(answer.silent);
    return answer;
  });
}

std::string to_json(const KillEnd& end) {
  return as_line({{"schema", kKillSchema},
                  {"version", kKillVersion},
                  {"job", end.job},
                  {"exit_code", end.exit_code},
                  {"cause", end.cause}});
}

KillEnd kill_end_from_json(const std::string& text) {
  return read_answer(text, [](const Json& json) {
    KillEnd end;
    json.at("job").get_to(end.job);
    json.at("exit_code").get_to(end.exit_code);
    json.at("cause").get_to(end.cause);
    return end;
  });
}

KillPlan plan_kill(const KillOrder& order, const std::vector<int>& ends, const std::vector<int>& notices,
                   std::chrono::milliseconds own_grace, const std::string& by) {
  KillPlan plan;
  if (order.grace && *order.grace > own_grace + kGraceMore)
    return refused("a grace period of " + seconds_text(*order.grace) + " is too long for it: at most " +
                   seconds_text(own_grace + kGraceMore) + ", " + seconds_text(kGraceMore) +
                   " more than its --shutdown-timeout");
  if (!order.ranks.empty()) {
    if (order.now || order.grace) return refused("an order for ranks has no grace period of the job");
    plan.kind = KillPlan::Kind::ranks;
  } else if (order.now || order.signal == SIGKILL) {
    plan.kind = KillPlan::Kind::end;
    plan.end = {order.signal == SIGKILL ? SIGTERM : order.signal, true, {}, by};
  } else if (order.signal == SIGTERM || holds(ends, order.signal)) {
    plan.kind = KillPlan::Kind::end;
    plan.end = {order.signal, false, order.grace, by};
  } else if (!holds(notices, order.signal)) {
    return refused(agent::signal_name(order.signal) + " says nothing to it: it ends at " +
                   signal_names(ends) + (notices.empty() ? "" : ", and passes on " + signal_names(notices)) +
                   "; with --rank LIST any signal is sent to ranks");
  } else if (order.grace) {
    return refused(agent::signal_name(order.signal) + " does not end it, so that --grace has no meaning");
  } else {
    plan.kind = KillPlan::Kind::notice;
  }
  return plan;
}

std::string kill_author(const KillOrder& order, unsigned uid, int pid) {
  const bool now = order.ranks.empty() && (order.now || order.signal == SIGKILL);
  return std::string("'muster kill") + (now ? " --now" : "") + "' (uid " + std::to_string(uid) +
         ", process " + std::to_string(pid) + ")";
}

std::string plan_text(const KillOrder& order, const KillPlan& plan, const std::string& by) {
  const std::string signal = agent::signal_name(order.signal);
  switch (plan.kind) {
    case KillPlan::Kind::refuse:
      return by + " asks what is not done: " + plan.refusal;
    case KillPlan::Kind::end:
      if (plan.end.now) return by + " ends the job: killing all workers";
      return by + " ends the job with " + signal;
    case KillPlan::Kind::notice:
      return by + ": " + signal + " is passed on to the workers that handle it; the job goes on";
    case KillPlan::Kind::ranks:
      break;
  }
  return by + " sends " + signal + " to " + ranks_text(order.ranks);
}

std::string delivery_text(const KillOrder& order, const KillAnswer& answer) {
  const bool notice = order.ranks.empty();
  const std::string signal = agent::signal_name(order.signal);
  std::string text = signal + (notice ? " was passed on to " : " was sent to ") +
                     (answer.got.empty() ? "no rank" : ranks_text(answer.got)) + " of job " +
                     for_terminal(answer.job);
  if (!answer.without.empty()) {
    const bool one = answer.without.size() == 1;
    text += "; " + ranks_text(answer.without) +
            (notice ? (one ? " does not handle it" : " do not handle it")
                    : (one ? " does not run" : " do not run"));
  }
  if (!answer.silent.empty())
    text += "; no answer for " + std::to_string(agent::kNodeAnswersWithin.count()) + " s from " +
            for_terminal(joined(answer.silent, ", ", kNamesMax)) + ", where it may come later";
  return text;
}

bool delivered(const KillOrder& order, const KillAnswer& answer) {
  if (!answer.silent.empty() || answer.got.empty()) return false;
  return order.ranks.empty() || answer.got.size() >= order.ranks.size();
}

std::string end_text(const KillEnd& end) {
  return "job " + for_terminal(end.job) + " ended: exit code " + std::to_string(end.exit_code) +
         (end.cause.empty() ? "" : ", " + for_terminal(end.cause.substr(0, end.cause.find('\n'))));
}

}  // namespace muster::launcher

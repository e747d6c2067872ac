// SPDX-License-Identifier: Apache-2.0
// What `muster kill` asks of a running job, what the job does about it, and what it answers. Pure.
//
// Over the job's Unix socket goes one line of JSON, {"kill": {...}}, and back a KillAnswer. A job that was
// told to end sends a KillEnd as a second line, as its last word.
#pragma once

#include "launcher/core/job_orders.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

struct KillOrder {
  int signal = SIGTERM;
  /// The ranks whose processes get the signal; none: it is for the job.
  std::vector<int> ranks{};
  /// In place of --shutdown-timeout, where the job ends.
  std::optional<std::chrono::milliseconds> grace{};
  /// End the job without grace.
  bool now = false;
};

/// What comes of an order.
struct KillAnswer {
  /// The id of the job.
  std::string job{};
  /// Why nothing was done; empty: it was.
  std::string refusal{};
  /// The time within which a job that was told to end has ended; 0: it was not told so.
  std::chrono::milliseconds ends_within{0};
  /// The ranks that got the signal, and those that did not, in ascending order.
  std::vector<int> got{};
  std::vector<int> without{};
  /// Names of nodes that did not answer in time.
  std::vector<std::string> silent{};
};

/// How a job has ended.
struct KillEnd {
  std::string job;
  int exit_code = 0;
  /// As in the report; empty after a success.
  std::string cause;
};

/// Write as JSON text, and read it. Reading throws std::invalid_argument for anything else.
std::string to_json(const KillOrder& order);
std::string to_json(const KillAnswer& answer);
KillAnswer kill_answer_from_json(const std::string& text);
std::string to_json(const KillEnd& end);
KillEnd kill_end_from_json(const std::string& text);

/// Reads the order in a question to a job; nullopt if it is a question of another kind. Throws
/// std::invalid_argument for an order with ranks, signals or times that there are not.
std::optional<KillOrder> kill_order_in(const std::string& question);

/// What a job does about an order.
struct KillPlan {
  enum class Kind {
    refuse,  ///< `refusal` says why
    end,     ///< as `end` says
    notice,  ///< pass the signal on to what handles it
    ranks,   ///< send it to ranks
  };
  Kind kind = Kind::refuse;
  std::string refusal;
  EndRequest end;
};

/// Decides it. `ends` are the signals that end the job when its launcher gets them, `notices` those that are
/// passed on. SIGTERM always ends it, and SIGKILL does so without grace. `own_grace` is the job's
/// --shutdown-timeout: an order may have kGraceMore more, since the guardians keep to it with some seconds to
/// spare. `by` is as in EndRequest.
KillPlan plan_kill(const KillOrder& order, const std::vector<int>& ends, const std::vector<int>& notices,
                   std::chrono::milliseconds own_grace, const std::string& by);

inline constexpr std::chrono::seconds kGraceMore{30};

/// Returns who gives an order, as the kernel knows them: "'muster kill' (uid 0, process 7)".
std::string kill_author(const KillOrder& order, unsigned uid, int pid);

/// Returns one line for people about an order that a job carries out: "... sends SIGKILL to ranks 1, 3".
std::string plan_text(const KillOrder& order, const KillPlan& plan, const std::string& by);

/// Returns what an order came to that ended nothing, one line for people, safe for a terminal: "SIGUSR1 was
/// passed on to ranks 0-2 of job train-7f3a9c; rank 3 does not handle it".
std::string delivery_text(const KillOrder& order, const KillAnswer& answer);

/// Whether all got the signal that were to get it. A notice is for those that handle it, but for one at
/// least.
bool delivered(const KillOrder& order, const KillAnswer& answer);

/// Returns how a job ended, one line for people, safe for a terminal.
std::string end_text(const KillEnd& end);

}  // namespace muster::launcher

// SPDX-License-Identifier: Apache-2.0
// Makes the environment and the command line of one worker.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "rendezvous/protocol/message.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::agent {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Returns the whole environment of one worker: `inherited` without what the spec unsets, then the spec's
/// variables, then the contract (worker_sdk/env/worker_env.hpp), later ones replacing earlier ones.
/// `restarts` counts the restarts of the job so far; `status_file` says where the worker's status file is
/// (MUSTER_STATUS; empty: there is none), `timer_file` where the watchdog's pipe is (TORCHELASTIC_TIMER_FILE;
/// empty: as inherited), `stop_file` what appears when they are to end (MUSTER_STOP_FILE; empty: nothing
/// can). Workers that are bound to processors get CUDA_DEVICE_ORDER=PCI_BUS_ID unless it is set. Throws
/// std::invalid_argument if --virtual-local-rank finds fewer devices in CUDA_VISIBLE_DEVICES than workers.
Environment worker_environment(const AgentSpec& spec, const rendezvous::RoundResult& place, int local_rank,
                               int restarts, const std::string& error_file, const Environment& inherited,
                               const std::string& status_file = {}, const std::string& timer_file = {},
                               const std::string& stop_file = {});

/// Returns the path that the user wishes for the pipe of PyTorch's watchdog (TORCHELASTIC_TIMER_FILE), empty
/// if any will do; nothing unless workers want that watchdog (TORCHELASTIC_ENABLE_FILE_TIMER=1).
std::optional<std::string> watchdog_pipe(const AgentSpec& spec, const Environment& inherited);

/// Returns the command of one worker: script arguments with ${local_rank} replaced.
std::vector<std::string> worker_arguments(const AgentSpec& spec, int local_rank);

/// Returns the value of `name`, or nullptr if it is not set.
const std::string* find_variable(const Environment& environment, const std::string& name);

/// The same; `otherwise` if it is not set.
std::string variable_or(const Environment& environment, const std::string& name, const char* otherwise);

/// Replaces `${local_rank}` and `$local_rank` (with no letter, digit or underscore after it) by `local_rank`.
/// A second dollar sign directly before one of them makes it literal: `$$local_rank` becomes `$local_rank`.
/// Every other dollar sign stays, `$$` too, which shells read as their process number. Pure; never fails.
/// Example: substitute_local_rank("$$ a$b-${local_rank}", "3") is "$$ a$b-3".
std::string substitute_local_rank(std::string_view text, std::string_view local_rank);

}  // namespace muster::agent

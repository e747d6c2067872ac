// SPDX-License-Identifier: Apache-2.0
// The words by which messages, files and people name what a rank does, and the verdict on a job: one table
// for each enum, for every writer and reader.
#pragma once

#include "rendezvous/protocol/rank_health.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace muster::rendezvous {

/// The words of an enum's values.
template <typename Value, std::size_t size>
using Words = std::array<std::pair<Value, const char*>, size>;

inline constexpr Words<Activity, 4> kActivityWords{{{Activity::moves, "moves"},
                                                    {Activity::busy, "busy"},
                                                    {Activity::waits, "waits"},
                                                    {Activity::ended, "ended"}}};

inline constexpr Words<WaitKind, 10> kWaitWords{{{WaitKind::unknown, "unknown"},
                                                 {WaitKind::communication, "communication"},
                                                 {WaitKind::store_key, "store_key"},
                                                 {WaitKind::lock, "lock"},
                                                 {WaitKind::sleep, "sleep"},
                                                 {WaitKind::terminal, "terminal"},
                                                 {WaitKind::events, "events"},
                                                 {WaitKind::file, "file"},
                                                 {WaitKind::helpers, "helpers"},
                                                 {WaitKind::stopped, "stopped"}}};

inline constexpr Words<HangLevel, 3> kHangLevelWords{
    {{HangLevel::none, "none"}, {HangLevel::may_be, "may_be"}, {HangLevel::is_hung, "is_hung"}}};

}  // namespace muster::rendezvous

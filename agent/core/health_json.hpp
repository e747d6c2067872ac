// SPDX-License-Identifier: Apache-2.0
// What ranks do, and the verdict on them, as words of JSON. For sources that write or read JSON.
#pragma once

#include "rendezvous/protocol/rank_health.hpp"

#include <nlohmann/json.hpp>

namespace muster::rendezvous {

NLOHMANN_JSON_SERIALIZE_ENUM(Activity, {{Activity::moves, "moves"},
                                        {Activity::busy, "busy"},
                                        {Activity::waits, "waits"},
                                        {Activity::ended, "ended"}})
NLOHMANN_JSON_SERIALIZE_ENUM(WaitKind, {{WaitKind::unknown, "unknown"},
                                        {WaitKind::communication, "communication"},
                                        {WaitKind::store_key, "store_key"},
                                        {WaitKind::lock, "lock"},
                                        {WaitKind::sleep, "sleep"},
                                        {WaitKind::terminal, "terminal"},
                                        {WaitKind::events, "events"},
                                        {WaitKind::file, "file"},
                                        {WaitKind::helpers, "helpers"},
                                        {WaitKind::stopped, "stopped"}})
NLOHMANN_JSON_SERIALIZE_ENUM(HangLevel, {{HangLevel::none, "none"},
                                         {HangLevel::may_be, "may_be"},
                                         {HangLevel::is_hung, "is_hung"}})

}  // namespace muster::rendezvous

// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol/errc.hpp"

#include <array>
#include <utility>

namespace muster::rendezvous {
namespace {

constexpr std::array<std::pair<Errc, std::string_view>, 8> kNames{{{Errc::again, "again"},
                                                                   {Errc::rejoin, "rejoin"},
                                                                   {Errc::mend, "mend"},
                                                                   {Errc::upgrade, "upgrade"},
                                                                   {Errc::job_over, "job_over"},
                                                                   {Errc::lost, "lost"},
                                                                   {Errc::deadline, "deadline"},
                                                                   {Errc::environment, "environment"}}};

}  // namespace

std::string_view to_string(Errc code) {
  for (const auto& [value, name] : kNames)
    if (value == code) return name;
  return "mend";
}

std::optional<Errc> errc_from(std::string_view name) {
  for (const auto& [value, text] : kNames)
    if (text == name) return value;
  return std::nullopt;
}

}  // namespace muster::rendezvous

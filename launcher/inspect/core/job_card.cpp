// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/job_card.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <stdexcept>

namespace muster::launcher {

// A field that is missing has its default, so that a muster can read the card of a job of another version.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(JobCard, id, name, run_id, program, arguments, version, host,
                                                pid, start_time, boot, pid_namespace, started_at_ms, nodes,
                                                workers, console, logs)

std::string to_json(const JobCard& card) {
  const auto text_of = [](const JobCard& one) {
    return nlohmann::json(one).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  };
  std::string text = text_of(card);
  JobCard shorter = card;
  while (text.size() > kCardBytesMax && !shorter.arguments.empty()) {
    shorter.arguments.resize(shorter.arguments.size() / 2);
    text = text_of(shorter);
  }
  return text;
}

JobCard job_card_from_json(const std::string& text) {
  try {
    auto card = nlohmann::json::parse(text).get<JobCard>();
    if (card.id.empty() || card.pid <= 0)
      throw std::invalid_argument("the card of a job: it lacks id or pid");
    return card;
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(std::string("the card of a job: ") + error.what());
  }
}

std::string job_id(const std::string& program, std::uint64_t random) {
  constexpr std::size_t kStemMax = 24;
  constexpr std::size_t kDigits = 6;
  std::string stem = program.substr(program.rfind('/') + 1);  // npos + 1 is 0
  if (const std::size_t dot = stem.rfind('.'); dot != std::string::npos && dot > 0) stem.resize(dot);
  std::string id;
  for (const char c : stem.substr(0, kStemMax)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool plain = letter || c == '_' || (!id.empty() && (c == '-' || c == '.'));
    id += plain ? c : '_';
  }
  if (id.empty()) id = "job";
  id += '-';
  for (std::size_t i = 0; i < kDigits; ++i, random >>= 4U) id += "0123456789abcdef"[random & 0xFU];
  return id;
}

NamedBy named_by(const JobCard& card, const std::string& text) {
  if (text.empty()) return NamedBy::nothing;
  if (card.id == text) return NamedBy::id;
  if (card.name == text) return NamedBy::name;
  if (card.run_id == text) return NamedBy::run_id;
  const bool begins = card.id.starts_with(text) || card.name.starts_with(text);
  return begins ? NamedBy::beginning : NamedBy::nothing;
}

LauncherLife launcher_life(const JobCard& card, const LauncherLook& look) {
  // Without it, nothing tells whether the number is still that of the launcher.
  if (card.boot.empty() || look.boot.empty()) return LauncherLife::unknown;
  if (card.boot != look.boot) return LauncherLife::gone;
  if (card.pid_namespace != look.pid_namespace) return LauncherLife::unknown;
  const bool same = look.start_time != 0 && look.start_time == card.start_time;
  return same ? LauncherLife::there : LauncherLife::gone;
}

}  // namespace muster::launcher

// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/core/doctor_text.hpp"

#include "rendezvous/log/terminal_text.hpp"

#include <algorithm>

namespace muster::launcher {
namespace {

constexpr std::size_t kVerdictWidth = 7;
constexpr std::size_t kWhatWidth = 12;

const char* word_for(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::note:
      return "note";
    case Verdict::problem:
      return "problem";
  }
  return "";
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text + "  ";
}

std::string lines_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += "  " + padded(word_for(finding.verdict), kVerdictWidth) +
            padded(for_terminal(finding.what), kWhatWidth) + for_terminal(finding.found) + "\n";
    if (!finding.advice.empty())
      text += std::string(4 + kVerdictWidth, ' ') + "-> " + for_terminal(finding.advice) + "\n";
  }
  return text;
}

std::string counted(int number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

}  // namespace

std::string doctor_text(const DoctorReport& report) {
  std::string text;
  for (const HostReport& host : report.hosts)
    text += for_terminal(host.name) + "\n" + lines_of(host.findings);
  if (const std::string between = lines_of(report.differences) + lines_of(report.tried); !between.empty())
    text += "between the hosts\n" + between;
  return text + counted(static_cast<int>(report.hosts.size()), "host") + ": " +
         counted(report.count(Verdict::problem), "problem") + ", " +
         counted(report.count(Verdict::note), "note") + "\n";
}

}  // namespace muster::launcher

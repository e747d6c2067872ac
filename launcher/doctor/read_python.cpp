// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/read_python.hpp"

#include "agent/process/child_process.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/doctor/core/python_answer.hpp"
#include "launcher/start/program_run.hpp"
#include "launcher/start/started_process.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

namespace muster::launcher {
namespace {

/// Far longer than it takes on a slow file server.
constexpr std::chrono::seconds kPythonAtMost{10};

}  // namespace

PythonFacts read_python(const std::string& program, bool named, const agent::SignalState& signals) {
  PythonFacts facts;
  facts.program = program;
  facts.named = named;
  const char* const path = std::getenv("PATH");
  const std::string place =
      agent::find_program(program, path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  facts.found = !place.empty() && ::access(place.c_str(), F_OK) == 0;
  if (!facts.found) return facts;
  try {
    std::vector<StartedProcess> started;
    started.push_back(spawn_client({program, "-c", kPythonQuestion}, signals));
    const ProgramEnd end = run_to_ends(std::move(started), kPythonAtMost).front();
    if (end.timed_out)
      facts.error = "no answer within " + std::to_string(kPythonAtMost.count()) + " s";
    else
      take_python_answer(end.out, end.errors, facts);
  } catch (const LaunchError& error) {
    facts.error = error.what();
  }
  return facts;
}

}  // namespace muster::launcher

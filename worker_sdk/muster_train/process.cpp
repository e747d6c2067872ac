// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/process.hpp"

#include "muster/error.hpp"
#include "worker_sdk/muster_train/error_file.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace muster::examples {
namespace {

/// For GCC's OpenMP, of about 25 ns each on Zen 4, and for LLVM's, which is in the wheel. Most gaps between
/// two parallel loops of a step are shorter.
constexpr std::pair<const char*, const char*> kShortWaits[] = {{"GOMP_SPINCOUNT", "2000"},
                                                               {"KMP_BLOCKTIME", "50us"}};

std::atomic<bool> told_to_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only use atomics without locks");

extern "C" void on_stop_signal(int) {
  told_to_stop = true;
}

/// Far longer than a line takes. Whoever should have spoken was killed, then.
constexpr std::chrono::seconds kPatience{5};

/// Longest wait for one answer of the store. A dead store must not hold back the reason, nor the end of the
/// other ranks.
constexpr std::chrono::seconds kAnswer{2};

constexpr const char* kClaim = "muster-train/error/claim";
constexpr const char* kTold = "muster-train/error/told";

void hurry(World& world) {
  try {
    world.store().set_timeout(kAnswer);
  } catch (const std::exception&) {
  }
}

/// Whether it is this rank's part to speak.
bool claim(World& world) {
  try {
    return world.store().add(kClaim, 1) == 1;
  } catch (const std::exception&) {
    return true;  // rather twice than not at all
  }
}

bool wait_until_told(World& world) {
  try {
    world.store().wait({kTold}, kPatience);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Whether another rank gave up: it has more to say about it.
bool is_consequence(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr && ours->code() == ErrorCode::aborted;
}

/// The rank that spoke ends first, so that a launcher names it as the cause, and then ends this one.
void wait_to_be_ended() {
  (void)signal(SIGTERM, SIG_DFL);
  if (!told_to_stop) std::this_thread::sleep_for(kPatience);
}

void tell_the_others(World& world) {
  try {
    world.store().set(kTold, "1");
  } catch (const std::exception&) {
  }
}

const char* rank_in_environment() {
  const char* const rank = std::getenv("RANK");
  return rank == nullptr ? "0" : rank;
}

}  // namespace

void wait_shortly(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  for (const auto& [name, value] : kShortWaits)
    if (std::getenv(name) != nullptr) return;
  // The file itself, not the link to it, lest the process be called by the link's name.
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  for (const auto& [name, value] : kShortWaits)
    if (setenv(name, value, 0) != 0) return;
  execv(program.c_str(), argv);
  // Without /proc, or when the file has gone, training is slower beside others, and right all the same.
}

const std::atomic<bool>& catch_stop_signal() {
  struct sigaction action {};

  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  return told_to_stop;
}

void end_by_signal() {
  signal(SIGTERM, SIG_DFL);
  raise(SIGTERM);
  std::abort();  // SIGTERM was blocked
}

void report(const std::exception& error, const std::string& error_file, World* world) {
  const bool several = world != nullptr && world->info().size > 1;
  if (several) hurry(*world);
  const bool told = several && is_consequence(error) && wait_until_told(*world);
  const bool speaks = !told && (!several || claim(*world));
  const std::string rank = world == nullptr ? rank_in_environment() : std::to_string(world->info().rank);
  if (speaks) std::fprintf(stderr, "muster-train: rank %s: %s\n", rank.c_str(), error.what());
  if (!train::write_error_file(error_file, train::describe(error), std::time(nullptr)))
    std::fprintf(stderr, "muster-train: cannot write the error file %s\n", error_file.c_str());
  if (told && !error_file.empty()) wait_to_be_ended();
  if (!several || told) return;
  if (speaks)
    tell_the_others(*world);
  else if (wait_until_told(*world) && !error_file.empty())
    wait_to_be_ended();
}

int report_usage(const std::string& text) {
  const char* const local_rank = std::getenv("LOCAL_RANK");
  if (local_rank != nullptr && std::string_view(local_rank) != "0") std::this_thread::sleep_for(kAnswer);
  std::fputs(text.c_str(), stderr);
  return 2;
}

}  // namespace muster::examples

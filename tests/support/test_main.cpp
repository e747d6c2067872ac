// SPDX-License-Identifier: Apache-2.0
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using Listener = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
using Listener = Catch::TestEventListenerBase;
#endif

#include "skip.hpp"

namespace {

int cases = 0;
int skipped_cases = 0;

/// Counts the cases that ran, and those of them that skipped something.
struct Counter : Listener {
  using Listener::Listener;

  void testCaseEnded(const Catch::TestCaseStats&) override {
    ++cases;
    if (muster::test::take_skipped()) ++skipped_cases;
  }
};

CATCH_REGISTER_LISTENER(Counter)

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  // Catch2 returns the number of failures, which might be 77 by chance.
  if (session.run(argc, argv) != 0) return 1;
  // A test is a choice of cases by their files: one that chooses none has lost them.
  if (cases == 0) return session.configData().showHelp ? 0 : 1;
  // One case that skips does not hide what the others have shown; scripts/test_summary.py names it all the
  // same.
  return cases > 0 && skipped_cases == cases ? 77 : 0;
}

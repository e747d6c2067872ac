// SPDX-License-Identifier: Apache-2.0
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include "skip.hpp"

int main(int argc, char** argv) {
  // Catch2 returns the number of failures, which might be 77 by chance.
  if (Catch::Session().run(argc, argv) != 0) return 1;
  return muster::test::skipped() ? 77 : 0;
}

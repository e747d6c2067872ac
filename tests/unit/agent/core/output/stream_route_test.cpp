// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/stream_route.hpp"

#include "catch.hpp"

using namespace muster::agent;

namespace {

OutputSpec with_files() {
  OutputSpec spec;
  spec.log_dir = "/logs/job_1";
  return spec;
}

/// The route of stdout of local rank 1 on a terminal of this host.
StreamRoute out(const OutputSpec& spec, bool only_worker = false, bool console_here = true,
                bool terminal = true) {
  return route_of(spec, kStreamOut, 1, only_worker, console_here, terminal);
}

}  // namespace

TEST_CASE(
    "a stream of which nothing is asked goes to the console as it is, over a pty where that is a terminal") {
  for (const OutputSpec& spec : {OutputSpec(), with_files()}) {
    const StreamRoute route = out(spec);
    CHECK((route.plain && route.to_console && route.pty));
    CHECK_FALSE((route.inherit || route.to_file || route.prefixed));
    CHECK_FALSE(out(spec, false, true, false).pty);
  }
}

TEST_CASE("an only worker inherits a plain stream, unless the console is elsewhere or lines have prefixes") {
  OutputSpec spec;
  CHECK(out(spec, true).inherit);
  CHECK_FALSE(out(spec, true).pty);
  CHECK_FALSE(out(spec, true, false).inherit);
  CHECK_FALSE(out(spec, true, false).pty);
  spec.rank_prefix = true;
  CHECK_FALSE(out(spec, true).inherit);
  CHECK(out(spec, true).prefixed);
}

TEST_CASE("nobody has our own streams where each line is to say its rank") {
  OutputSpec spec;
  spec.framed = true;
  for (const bool only_worker : {true, false}) {
    const StreamRoute route = out(spec, only_worker);
    CHECK((route.to_console && route.plain && route.prefixed));
    CHECK_FALSE((route.inherit || route.pty));
  }
}

TEST_CASE("a redirected stream goes to a file only, a teed one to both, with a prefix") {
  OutputSpec spec = with_files();
  spec.redirects.by_rank[1] = kStreamOut;
  CHECK(out(spec).to_file);
  CHECK_FALSE((out(spec).to_console || out(spec).plain || out(spec).pty));
  CHECK(route_of(spec, kStreamErr, 1, false, true, true).plain);
  CHECK(route_of(spec, kStreamOut, 0, false, true, true).plain);
  spec.tee.fallback = kStreamBoth;
  CHECK((out(spec).to_file && out(spec).to_console && out(spec).teed && out(spec).prefixed));
  CHECK_FALSE((out(spec).plain || out(spec).pty));
}

TEST_CASE("without a log directory there are no files, and a teed stream keeps its prefix") {
  OutputSpec spec;
  spec.redirects.fallback = kStreamBoth;
  CHECK(out(spec).plain);
  spec.tee.fallback = kStreamOut;
  CHECK((out(spec).to_console && out(spec).prefixed));
  CHECK_FALSE((out(spec).to_file || out(spec).plain));
}

TEST_CASE("a rank that the filter leaves out does not reach the console") {
  OutputSpec spec = with_files();
  spec.console_ranks = std::set<int>{0};
  spec.tee.fallback = kStreamOut;
  CHECK(out(spec).to_file);
  CHECK_FALSE((out(spec).to_console || out(spec).prefixed));
  CHECK(route_of(spec, kStreamOut, 0, false, true, true).to_console);
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/core/proc_text.hpp"

#include "catch.hpp"

namespace proc_text_test {

using namespace muster::agent;

TEST_CASE("CPU time and start come from the stat of a process whatever it is called") {
  const std::string text =
      "4711 (a) R 1 (b)) S 12 4711 4711 0 -1 4194560 151 7 0 0 250 31 1100 21 20 0 9 0 887 12345 66 184 1 1 "
      "0\n";
  const auto counters = parse_stat_counters(text);
  REQUIRE(counters);
  CHECK(counters->state == 'S');
  CHECK(counters->parent == 12);
  CHECK(counters->own_ticks == 281);
  CHECK(counters->reaped_ticks == 1121);
  CHECK(counters->start_time == 887);
  for (const char* bad : {"", "4711", "4711 (x)", "4711 (x) ", "4711 (x) SS 1"})
    CHECK_FALSE(parse_stat_counters(bad));
  const auto cut = parse_stat_counters("1 (x) R 1 2 3");
  REQUIRE(cut);
  CHECK(cut->own_ticks == 0);
}

TEST_CASE("Memory and switches come from the status of a process") {
  const StatusCounters counters = parse_status_counters(
      "Name:\tVmRSS: 9 kB\nTracerPid:\t17\nVmHWM:\t  204800 kB\nVmRSS:\t  102400 kB\n"
      "voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n");
  CHECK(counters.memory == 100U << 20);
  CHECK(counters.memory_peak == 200U << 20);
  CHECK(counters.voluntary_switches == 150);
  CHECK(counters.involuntary_switches == 7);
  CHECK(counters.tracer == 17);
  CHECK(parse_status_counters("").memory == 0);
  CHECK(parse_status_counters("VmRSS: many kB").memory == 0);
  CHECK(parse_status_counters("VmRSS:").memory == 0);
}

TEST_CASE("Bytes that were read and written come from the io of a process") {
  const IoCounters counters = parse_io_counters(
      "rchar: 3000\nwchar: 200\nsyscr: 1\nsyscw: 2\nread_bytes: 4096\nwrite_bytes: 8192\n"
      "cancelled_write_bytes: 5\n");
  CHECK(counters.read == 3000);
  CHECK(counters.written == 200);
  CHECK(counters.disk_read == 4096);
  CHECK(counters.disk_written == 8192);
}

TEST_CASE("The system call of a process that waits comes with its first arguments") {
  const auto call = parse_waiting_call("202 0x7f12ab 0x189 0x2 0x0 0x0 0xffffffff 0x7ffd 0x7f00\n");
  REQUIRE(call);
  CHECK(call->number == 202);
  CHECK(call->arguments[0] == 0x7f12ab);
  CHECK(call->arguments[2] == 2);
  for (const char* none : {"running\n", "-1 0x7ffd 0x7f00\n", "", "x y z"})
    CHECK_FALSE(parse_waiting_call(none));
  CHECK(parse_waiting_call("0 nonsense")->arguments[0] == 0);
}

TEST_CASE("Children are listed up to a bound") {
  CHECK(parse_children("12 34 56 ", 8) == std::vector<int>{12, 34, 56});
  CHECK(parse_children("12 34 56 ", 2) == std::vector<int>{12, 34});
  CHECK(parse_children("", 8).empty());
  CHECK(parse_children("12 x 56", 8) == std::vector<int>{12});
  CHECK(parse_children("-4", 8).empty());
}

TEST_CASE("The kernel function is that of the wait channel, or the innermost of the stack") {
  CHECK(kernel_function("nfs_wait_bit_killable", "") == "nfs_wait_bit_killable");
  const std::string stack = "[<0>] folio_wait_bit_common+0x12/0x30\n[<0>] nfs_file_read+0x1/0x2\n";
  CHECK(kernel_function("0", stack) == "folio_wait_bit_common");
  CHECK(kernel_function("", stack) == "folio_wait_bit_common");
  CHECK(kernel_function("0\n", "").empty());
  CHECK(kernel_function("", "[<0>]").empty());
}

}  // namespace proc_text_test

// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/value_syntax.hpp"

#include "catch.hpp"
#include "launcher/core/launch_error.hpp"

#include <signal.h>

using namespace muster::launcher;

namespace {

GivenText given(const std::string& text) {
  return {text, "--flag"};
}

/// The message with which `parse` refuses `text`; "" where it does not.
template <typename Parse>
std::string message_of(Parse parse, const std::string& text) {
  try {
    parse(given(text));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

/// Whether `parse` refuses `text` with a message that quotes it.
template <typename Parse>
bool refuses(Parse parse, const std::string& text) {
  return message_of(parse, text).starts_with("--flag");
}

}  // namespace

TEST_CASE("Whole numbers have a range") {
  const auto parse = [](const GivenText& text) { return parse_whole_number(text, 0, 100); };
  CHECK(parse(given("7")) == 7);
  CHECK(parse(given("+7")) == 7);
  CHECK(parse(given(" 7 ")) == 7);
  CHECK(parse(given("0")) == 0);
  for (const char* bad : {"", "x", "7x", "7.0", "101", "-1", "++7", "99999999999999999999", "0x1", "+"}) {
    CAPTURE(bad);
    CHECK(refuses(parse, bad));
  }
}

TEST_CASE("Sizes have units of powers of 1024") {
  CHECK(parse_size(given("4096")) == 4096);
  CHECK(parse_size(given(" 4K ")) == 4096);
  CHECK(parse_size(given("10M")) == 10U << 20U);
  CHECK(parse_size(given("3G")) == std::uint64_t{3} << 30U);
  CHECK(parse_size(given("1T")) == std::uint64_t{1} << 40U);
  for (const char* bad :
       {"", "K", "x", "4k", "4KB", "-4K", "1.5M", "0", "4095", "3K", "8388608T", "18014398509481985K"}) {
    CAPTURE(bad);
    CHECK(refuses(parse_size, bad));
  }
  CHECK(message_of(parse_size, "1") ==
        "--flag=1 is out of range; give bytes, or a number with K, M, G or T, at least 4K, for example 10M");
}

TEST_CASE("Seconds may have fractions") {
  const auto parse = [](const GivenText& text) { return parse_seconds(text, true); };
  CHECK(parse(given("2")).count() == 2000);
  CHECK(parse(given("0.25")).count() == 250);
  CHECK(parse(given("1e2")).count() == 100000);
  CHECK(parse(given("0.0001")).count() == 1);  // above zero stays above zero
  CHECK(parse_seconds(given("0"), false).count() == 0);
  for (const char* bad : {"", "x", "0", "-1", "inf", "nan", "1e9", "1e", "0x1"}) {
    CAPTURE(bad);
    CHECK(refuses(parse, bad));
  }
}

TEST_CASE("Times may have a unit, and are seconds without one") {
  const auto parse = [](const GivenText& text) { return parse_seconds(text, true); };
  CHECK(parse(given("500ms")).count() == 500);
  CHECK(parse(given("90s")).count() == 90'000);
  CHECK(parse(given("5m")).count() == 300'000);
  CHECK(parse(given("1.5h")).count() == 5'400'000);
  CHECK(parse(given("2d")).count() == 172'800'000);
  CHECK(parse(given(" 5m ")).count() == 300'000);
  CHECK(parse(given("0.2ms")).count() == 1);
  CHECK(parse_seconds(given("0m"), false).count() == 0);
  for (const char* bad : {"m", "5 m", "5M", "5mm", "1m30s", "0h", "-1m", "nans", "infs", "2000d", "5min"}) {
    CAPTURE(bad);
    CHECK(refuses(parse, bad));
  }
  CHECK(message_of(parse, "soon") ==
        "--flag=soon is not a time; give seconds above 0 to 100000000, or with a unit (ms, s, m, h, d), for "
        "example 2.5 or 5m");
  CHECK(message_of(parse, "2000d").find("--flag=2000d is out of range") == 0);
}

TEST_CASE("Node ranges") {
  CHECK(parse_node_range(given("1")) == NodeRange{1, 1});
  CHECK(parse_node_range(given("2:8")) == NodeRange{2, 8});
  for (const char* bad : {"", "0", "0:1", "2:1", "1:2:3", "a", "1:", ":1", "-1:2"}) {
    CAPTURE(bad);
    CHECK(refuses(parse_node_range, bad));
  }
}

TEST_CASE("Streams for all ranks or for some") {
  CHECK(parse_streams(given("3")).of(7) == 3);
  CHECK_FALSE(parse_streams(given("0")).any());
  const auto some = parse_streams(given("0:3,1:1,12:2"));
  CHECK(some.of(0) == 3);
  CHECK(some.of(1) == 1);
  CHECK(some.of(12) == 2);
  CHECK(some.of(2) == 0);
  for (const char* bad :
       {"", "4", "-1", "out", "0:4", "0:", ":1", "0:1,", "0:1,2", "0:1:2", "-1:1", "99999999:1"}) {
    CAPTURE(bad);
    CHECK(refuses(parse_streams, bad));
  }
}

TEST_CASE("Rendezvous configuration takes the keys that torchrun reads") {
  const RdzvConf conf = parse_rdzv_conf(given("join_timeout=5, last_call_timeout=1,is_host=0"));
  CHECK(conf.join_timeout->count() == 5000);
  CHECK(conf.last_call_timeout->count() == 1000);
  CHECK_FALSE(parse_rdzv_conf(given("")).join_timeout);
  CHECK_FALSE(parse_rdzv_conf(given("  ")).join_timeout);
  // PyTorch's own tests pass the text in literal quotes and expect success.
  const RdzvConf quoted = parse_rdzv_conf(given("'join_timeout=5,last_call_timeout=1,timeout=5'"));
  CHECK(quoted.join_timeout->count() == 5000);
  CHECK(quoted.last_call_timeout->count() == 1000);
  CHECK(quoted.timeout->text == "5");
  CHECK(parse_rdzv_conf(given("\"join_timeout=7\"")).join_timeout->count() == 7000);
  CHECK(parse_rdzv_conf(given("etcd_prefix=b=c,join_timeout=3")).join_timeout->count() == 3000);
  for (const char* bad :
       {"join_timeout", "join_timeout=", "=value", "rank=1,", "join_timeout=x", "join_timeout=0",
        "last_call_timeout=-1", "'join_timeout=5", "'", "join_timeout='5'"}) {
    CAPTURE(bad);
    CHECK(refuses(parse_rdzv_conf, bad));
  }
}

TEST_CASE("Keys of torchrun's that have nothing to say here are kept, for a message") {
  const RdzvConf conf = parse_rdzv_conf(given(
      "close_timeout=1,heartbeat_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=1,read_timeout=1,"
      "cas_backoff_max_seconds=0.5,use_libuv=1,rank=0,store_type= TCP "
      ",protocol=https,ssl_cert=a,ssl_cert_key=b,"
      "ca_cert=c,etcd_prefix=d,cert=e,key=f,cacert=g,join_timeout=4"));
  CHECK(conf.without_effect.size() == 17);
  CHECK(conf.without_effect.front() == "close_timeout");
  CHECK(conf.join_timeout->count() == 4000);
  CHECK(parse_rdzv_conf(given("join_timeout=5")).without_effect.empty());
}

TEST_CASE("An unknown key is refused with the nearest one") {
  const auto error_of = [](const std::string& text) { return message_of(parse_rdzv_conf, text); };
  CHECK(error_of("join_timeut=5") ==
        "--flag=join_timeut=5: 'join_timeut' is no key of a rendezvous; did you mean 'join_timeout'?");
  CHECK(contains(error_of("read_timeout=1,close_timout=5"), "did you mean 'close_timeout'?"));
  CHECK(contains(error_of("colour=red"),
                 "'colour' is no key of a rendezvous; those that are used are join_timeout"));
  CHECK(contains(error_of("store_type=file"), "--flag store_type=file: nodes meet over the network here"));
  CHECK(contains(error_of("store_type=hash"), "--flag store_type=hash"));
}

TEST_CASE("Signals by name") {
  CHECK(parse_signals(given("SIGTERM,SIGINT")) == std::vector<int>{SIGINT, SIGTERM});
  CHECK(parse_signals(given("usr1, SIGUSR1")) == std::vector<int>{SIGUSR1});
  for (const char* bad : {"", "SIGNOTHING", "15", "SIGTERM,", "SIGKILL", "STOP", "SIGCHLD", "SIGSEGV"}) {
    CAPTURE(bad);
    CHECK(refuses(parse_signals, bad));
  }
}

TEST_CASE("Names of jobs are what a shell and a table take as they are") {
  CHECK(parse_job_name(given("llama-7b_2.A")) == "llama-7b_2.A");
  CHECK(parse_job_name(given(std::string(64, '0'))).size() == 64);
  for (const std::string& bad : {std::string(), std::string(65, 'a'), std::string("a b"), std::string("-a"),
                                 std::string("a/b"), std::string("a\n"), std::string("\xc3\xa4")}) {
    CAPTURE(bad);
    CHECK(refuses(parse_job_name, bad));
  }
}

TEST_CASE("Metrics are served where only this host reaches them") {
  CHECK(parse_listen_place(given("127.0.0.1:0")) == ListenPlace{"127.0.0.1", 0, ""});
  CHECK(parse_listen_place(given("[::1]:9100")) == ListenPlace{"::1", 9100, ""});
  CHECK(parse_listen_place(given("unix:/run/m.sock")) == ListenPlace{"", 0, "/run/m.sock"});
  for (const std::string& bad :
       {std::string("0.0.0.0:9100"), std::string("[::]:9100"), std::string("localhost:9100"),
        std::string("10.0.0.1:1"), std::string("127.0.0.2:1"), std::string(":9100"), std::string("9100"),
        std::string("127.0.0.1"), std::string("127.0.0.1:65536"), std::string("::1:9100"),
        std::string("unix:"), "unix:" + std::string(108, 'a')}) {
    CAPTURE(bad);
    CHECK(refuses(parse_listen_place, bad));
  }
}

TEST_CASE("Rank filters") {
  CHECK(*parse_rank_filter(given("0, 2,11")) == std::set<int>{0, 2, 11});
  CHECK_FALSE(parse_rank_filter(given("")));
  for (const char* bad : {"a", "0,", "-1", "0-2"}) {
    CAPTURE(bad);
    CHECK(refuses(parse_rank_filter, bad));
  }
}

TEST_CASE("Filters take a doubled comma for one") {
  using Filters = std::vector<std::string>;
  CHECK(parse_filters(given("apple,orange")) == Filters{"apple", "orange"});
  CHECK(parse_filters(given("a,,b,c")) == Filters{"a,b", "c"});
  CHECK(parse_filters(given(" a ,")) == Filters{" a "});
  CHECK(parse_filters(given("")).empty());
}

TEST_CASE("Endpoints") {
  CHECK(parse_endpoint(given("host")).host == "host");
  CHECK_FALSE(parse_endpoint(given("host")).port);
  CHECK(parse_endpoint(given("node-1.example:29400")).port == 29400);
  CHECK(parse_endpoint(given("[::1]:5")).host == "::1");
  CHECK(parse_endpoint(given("[::1]:5")).port == 5);
  CHECK(parse_endpoint(given("[::1]")).host == "::1");
  CHECK(parse_endpoint(given("localhost:0")).port == 0);
  for (const char* bad : {"", ":1", "h:", "h:x", "h:65536", "h:-1", "::1", "::1:5", "[::1]x",
                          "[::1]:", "a b:1", "-x:1", "h\n:1", "[]:1"}) {
    CAPTURE(bad);
    CHECK(refuses(parse_endpoint, bad));
  }
}

TEST_CASE("Exported variables") {
  using Items = std::vector<ExportItem>;
  CHECK(
      parse_exports(given("A,B=1,C=x,,y,WANDB_*,D=")) ==
      Items{
          {"A", {}, false}, {"B", "1", false}, {"C", "x,y", false}, {"WANDB_", {}, true}, {"D", "", false}});
  CHECK(parse_exports(given("A=*")) == Items{{"A", "*", false}});
  CHECK(parse_exports(given("")).empty());
  for (const char* bad : {"1A", "A-B", "=1", "*", "A B=1"}) {
    CAPTURE(bad);
    CHECK(refuses(parse_exports, bad));
  }
}

TEST_CASE("A command is split at blanks, and quotes keep them") {
  using Words = std::vector<std::string>;
  CHECK(parse_words(given("ssh")) == Words{"ssh"});
  CHECK(parse_words(given("  ssh  -o 'A B' \"c d\"e f\\ g")) == Words{"ssh", "-o", "A B", "c de", "f g"});
  CHECK(parse_words(given("x ''")) == Words{"x", ""});
  for (const char* bad : {"", "   ", "ssh 'x", "ssh \"x", "'' x"}) {
    CAPTURE(bad);
    CHECK(refuses(parse_words, bad));
  }
}

TEST_CASE("is_host takes torchrun's words") {
  CHECK(parse_rdzv_conf(given("is_host=True")).is_host == true);
  CHECK(parse_rdzv_conf(given("is_host=n")).is_host == false);
  CHECK_FALSE(parse_rdzv_conf(given("")).is_host);
  CHECK(refuses(parse_rdzv_conf, "is_host=maybe"));
}

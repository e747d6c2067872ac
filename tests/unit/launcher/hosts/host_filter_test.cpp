// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "launcher/hosts/host_list.hpp"
#include "tests/unit/launcher/hosts/refusal.hpp"

using namespace muster::launcher;

namespace {

const std::vector<Host>& four() {
  static const std::vector<Host> hosts = parse_host_list({"n0:4,n1:4,n2:2,n3", "--host"});
  return hosts;
}

/// "n1/2(0,2)" of each host: slots, then the GPUs it is confined to.
std::string shown(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) {
    text += (text.empty() ? "" : " ") + host.name + "/" + std::to_string(host.slots);
    std::string gpus;
    for (const int gpu : host.gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(gpu);
    if (!gpus.empty()) text += "(" + gpus + ")";
  }
  return text;
}

std::string included(const std::string& filter) {
  return shown(include_hosts(four(), {filter, "--include"}));
}

std::string excluded(const std::string& filter) {
  return shown(exclude_hosts(four(), {filter, "--exclude"}));
}

}  // namespace

TEST_CASE("Include keeps what it names, in the order of the host list") {
  CHECK(included("n0") == "n0/4");
  CHECK(included("n1:0,2@n0") == "n0/4 n1/2(0,2)");
  CHECK(included("n1:3,0") == "n1/2(0,3)");
  CHECK(included("N2") == "n2/2");
  CHECK(included("n[0-1]:1-3") == "n0/3(1,2,3) n1/3(1,2,3)");
  CHECK(included("n3:5") == "n3/1(5)");  // its slots are not known, so any GPU may be there
}

TEST_CASE("Exclude drops what it names") {
  CHECK(excluded("n0") == "n1/4 n2/2 n3/0");
  CHECK(excluded("n0:1@n2@n3") == "n0/3(0,2,3) n1/4");
  CHECK(excluded("n2:0,1") == "n0/4 n1/4 n3/0");
  CHECK(excluded("n[1-3]") == "n0/4");
}

TEST_CASE("Wrong filters are refused with their position and a caret") {
  struct Row {
    const char* text;
    int position;
    const char* says;
  };

  const Row rows[] = {
      {"", 1, "a host is missing"},
      {"n0@", 4, "a host is missing"},
      {"n0@@n1", 4, "a host is missing"},
      {"n9", 1, "host 'n9' is not among the hosts"},
      {"n0@n9:0", 4, "host 'n9' is not among the hosts"},
      {"n0:", 4, "the number of a GPU is missing"},
      {"n0:a", 4, "'a' is not the number of a GPU"},
      {"n0:0,x", 6, "'x' is not the number of a GPU"},
      {"n0:4", 4, "host 'n0' has no GPU 4, only 0 to 3"},
      {"n0:0,1,0", 8, "GPU 0 is named twice"},
      {"n0:2-1", 6, "the range ends before it begins"},
      {"n0:1:2", 5, "a second colon"},
      {"n0@n1@n0:1", 7, "host 'n0' is named twice"},
      {"n0,n1", 3, "',' cannot be part of a host name"},
      {"-n", 1, "cannot begin with '-'"},
      {"n[0-1", 2, "not closed"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    for (const bool include : {true, false}) {
      const Refusal refusal = refusal_of([&] {
        if (include)
          include_hosts(four(), {row.text, "--filter"});
        else
          exclude_hosts(four(), {row.text, "--filter"});
      });
      CAPTURE(refusal.text);
      CHECK(refusal.text.starts_with("--filter, position " + std::to_string(row.position) + ": "));
      CHECK(refusal.says(row.says));
      CHECK(refusal.caret == row.position - 1);
    }
  }
  CHECK(refusal_of([] { excluded("n[0-3]"); }).says("no host is left"));
  CHECK(refusal_of([] { excluded("n3:0"); }).says("can be excluded only if its slots are given, as in n3:8"));
}

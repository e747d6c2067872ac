// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_list.hpp"

#include "catch.hpp"
#include "launcher/hosts/host_pattern.hpp"
#include "tests/unit/launcher/hosts/refusal.hpp"

namespace host_list_test {

using namespace muster::launcher;

namespace {

std::vector<Host> parse(const std::string& text) {
  return parse_host_list({text, "--host"});
}

/// "user@name:port/slots" of each, absent parts left out.
std::string shown(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) {
    text += (text.empty() ? "" : " ") + (host.user.empty() ? "" : host.user + "@") + host.name;
    if (host.port != 0) text += ":" + std::to_string(host.port);
    if (host.slots != 0) text += "/" + std::to_string(host.slots);
    if (host.max_slots != 0) text += "<" + std::to_string(host.max_slots);
  }
  return text;
}

Refusal refused(const std::string& text) {
  return refusal_of([&] { parse(text); });
}

Refusal refused_file(const std::string& text) {
  return refusal_of([&] { parse_hostfile(text, "hosts"); });
}

}  // namespace

TEST_CASE("Host lists in their spellings") {
  const std::pair<const char*, const char*> rows[] = {
      {"n0", "n0"},
      {"n0:8", "n0/8"},
      {"n0:8,n1:4,n2", "n0/8 n1/4 n2"},
      {" n0:8 , n1 ", "n0/8 n1"},
      {"ann@n0", "ann@n0"},
      {"ann@n0:2222", "ann@n0:2222"},
      {"ann@n0:22", "ann@n0:22"},
      {"ann@n0:2222:4", "ann@n0:2222/4"},
      {"n0:2222:4", "n0:2222/4"},
      {"n0:2222:", "n0:2222"},
      {"n0::2222", "n0/2222"},
      {"ann@n0::8", "ann@n0/8"},
      {"ann@n0:8:", "ann@n0:8"},
      {"n0:1024", "n0/1024"},
      {"10.0.0.1:2", "10.0.0.1/2"},
      {"[::1]", "::1"},
      {"[fe80::1%eth0]:8", "fe80::1%eth0/8"},
      {"ann@[::1]:2222:4", "ann@::1:2222/4"},
      {"n[0-2]:4", "n0/4 n1/4 n2/4"},
      {"n[00-02,10]", "n00 n01 n02 n10"},
      {"n[8-11]", "n8 n9 n10 n11"},
      {"n[098-101]", "n098 n099 n100 n101"},
      {"r[1-2]n[0-1]:2,gpu-1.example.org", "r1n0/2 r1n1/2 r2n0/2 r2n1/2 gpu-1.example.org"},
      {"[0-1]x", "0x 1x"},
      {"localhost:2222:1,localhost:2223:1", "localhost:2222/1 localhost:2223/1"},
      {"DOM\\ann@n0", "DOM\\ann@n0"},
  };
  for (const auto& [text, expected] : rows) {
    CAPTURE(text);
    CHECK(shown(parse(text)) == expected);
  }
}

TEST_CASE("A wrong host list is refused with its position and a caret under it") {
  struct Row {
    const char* text;
    int position;  // from 1
    const char* says;
  };

  const Row rows[] = {
      {"", 1, "a host is missing"},
      {"n0,", 4, "a host is missing"},
      {"n0,,n1", 4, "a host is missing"},
      {"n0: 8", 4, "' 8' is not a number of slots"},
      {"n0 n1", 3, "a blank cannot be part of a host name"},
      {"n0;n1", 3, "';' cannot be part"},
      {"n0/8", 3, "'/' cannot be part"},
      {"n$0", 2, "'$' cannot be part"},
      {"n0:", 4, "a number of slots is missing"},
      {"n0:x", 4, "'x' is not a number of slots"},
      {"n0:8x", 5, "'8x' is not a number of slots"},
      {"n0:-1", 4, "'-1' is not a number of slots"},
      {"n0:0", 4, "give one from 1 to 65536"},
      {"n0::70000", 5, "give one from 1 to 65536"},
      {"n0:99999999999999999999", 4, "is not a number of slots"},
      {"n1,n0:2222", 7, "Write n0::2222 for so many slots, n0:2222: for the port"},
      {"ann@n0:8", 8, "Write ann@n0::8 for the slots, ann@n0:8: for the port"},
      {"ann@n0:70000", 8, "'70000' is not a port"},
      {"n0:0:8", 4, "'0' is not a port"},
      {"n0::", 4, "port and slots are missing"},
      {"n0:1:2:3", 7, "too many colons"},
      {"::1", 1, "write it in brackets"},
      {"fe80::1:8", 1, "write it in brackets"},
      {"[::1", 1, "this bracket is not closed"},
      {"[::x]", 1, "'::x' is not an IPv6 address"},
      {"[::1%]", 1, "is not an IPv6 address"},
      {"[::1]8", 1, "is not an IPv6 address"},
      {"-oProxyCommand=x", 1, "a host cannot begin with '-'"},
      {"n0,-l", 4, "a host cannot begin with '-'"},
      {".n0", 1, "cannot begin with '.'"},
      {"-l@n0", 1, "a user cannot begin with '-'"},
      {"@n0", 1, "the user is missing"},
      {"a b@n0", 2, "cannot be part of a user name"},
      {"a@b@n0", 4, "a second '@'"},
      {"a@", 3, "a host is missing"},
      {"n[0-", 2, "this bracket is not closed"},
      {"n0]", 3, "this bracket was not opened"},
      {"n[[0]]", 3, "a bracket inside brackets"},
      {"n[]", 3, "is missing"},
      {"n[0,]", 5, "is missing"},
      {"n[-3]", 3, "is missing"},
      {"n[3-]", 5, "is missing"},
      {"n[a-b]", 3, "'a' is not a number of a range"},
      {"n[3-1]", 5, "the range ends before it begins"},
      {"n[1-003]", 5, "padded differently"},
      {"n[0-99999]", 3, "more than 65536 hosts"},
      {"n[0-9999999999]", 5, "is not a number of a range"},
      {"n[0-999]r[0-999]", 10, "more than 65536 hosts"},
      {"n[0-39999],m[0-39999]", 12, "more than 65536 hosts"},
      {"n0:2,n1,n0", 9, "host 'n0' is listed twice, first at --host, position 1; list it once, with all its"},
      {"n0,N0:2", 4, "slots, or each time without a number"},
      {"n0:1,n0:1", 6, "listed twice"},
      {"ann@n0,bob@n0", 8, "first at --host, position 1, with another user"},
      {"n0,ann@n0", 4, "with another user"},
      {"n[0-3],n2:4", 8, "first at --host, position 1"},
      {"n[0-32767],n[0-32767]:2", 12, "host 'n0' is listed twice"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const Refusal refusal = refused(row.text);
    CAPTURE(refusal.text);
    CHECK(refusal.text.starts_with("--host, position " + std::to_string(row.position) + ": "));
    CHECK(refusal.says(row.says));
    CHECK(refusal.caret == row.position - 1);
    CHECK(refusal.line == row.text);
  }
}

TEST_CASE("The caret points at the place in a long list and under bytes of any kind") {
  std::string list;
  for (int i = 0; i < 100; ++i) list += "host" + std::to_string(i) + ":8,";
  const Refusal far = refused(list + "bad!name,after");
  CHECK(far.says("position " + std::to_string(list.size() + 4)));
  CHECK(far.marked() == '!');
  CHECK(far.line.size() < 110);
  CHECK(far.line.starts_with("..."));
  CHECK(refused("bad!" + std::string(200, 'x')).line.ends_with("..."));
  const Refusal control = refused("n\x1b*0;");
  CHECK(control.caret == 1);
  CHECK(control.line == "n?*0;");
  CHECK(refused("n\xc3\xa4").line == "n??");
  CHECK(refused(std::string("n\0x", 3)).caret == 1);
  CHECK(refused(std::string(254, 'n')).says("at most 253"));
  CHECK(refused(std::string(5U << 20, 'n')).says("give at most"));
}

TEST_CASE("Hostfiles of Open MPI and DeepSpeed") {
  CHECK(shown(parse_hostfile("n0 slots=8\nn1 slots=4\n", "f")) == "n0/8 n1/4");
  CHECK(shown(parse_hostfile(
            "\xef\xbb\xbf# head\r\n\r\n  n0\tslots = 8  max-slots=16 # fast\r\nann@n1 max_slots=4 slots=2\n"
            "// old\nn2 // none\nn[3-4] slots=1",
            "f")) == "n0/8<16 ann@n1/2<4 n2 n3/1 n4/1");
  CHECK(shown(parse_hostfile("n0:8\nn1:2222:4\n", "f")) == "n0/8 n1:2222/4");
  CHECK(parse_hostfile("#\nn0\n", "f")[0].place == "f:2:1");
}

TEST_CASE("A host that is listed again without a number has a slot more") {
  CHECK(shown(parse("n0,n0")) == "n0/2");
  CHECK(shown(parse("n0,N0,n1")) == "n0/2 n1/1");
  CHECK(shown(parse("n[0-1],n[0-1],n0")) == "n0/3 n1/2");
  CHECK(shown(parse("n0:8,n1,n1,n2")) == "n0/8 n1/2 n2/1");
  CHECK(shown(parse("n0:2222:,n0,n0,n0:2222:")) == "n0:2222/2 n0/2");
  CHECK(shown(parse("ann@n0,ann@n0")) == "ann@n0/2");
  CHECK(shown(parse("n0,n1")) == "n0 n1");
  CHECK(parse("n1,n0,n1")[0].place == "--host, position 1");
}

TEST_CASE("Hostfiles with a line for each slot, as PBS, LSF and Open MPI have them") {
  CHECK(shown(parse_hostfile("n0\nn0\nn1\nn1\n", "f")) == "n0/2 n1/2");
  CHECK(shown(parse_hostfile("n0.example.org\r\nn1.example.org\r\nn0.example.org\r\n", "f")) ==
        "n0.example.org/2 n1.example.org/1");
  CHECK(shown(parse_hostfile("n0 slots=4\nn1 # first\nn1 # second\n", "f")) == "n0/4 n1/2");
  std::string large;
  for (int i = 0; i < 5; ++i) large += "n[0-9999]\n";
  CHECK(parse_hostfile(large, "f").at(9999).slots == 5);
  for (int i = 0; i < 100; ++i) large += "n[0-9999]\n";
  CHECK(refused_file(large).says("more than 1048576 entries; list each host once, with all its slots"));
}

TEST_CASE("A wrong hostfile is refused with file, line, column and a caret") {
  struct Row {
    const char* text;
    const char* place;
    const char* says;
  };

  const Row rows[] = {
      {"n0 slots=x", "hosts:1:10: ", "'x' is not a number of slots"},
      {"n0 slots=4\nn1 slots=0\n", "hosts:2:10: ", "give one from 1"},
      {"n0 slots=", "hosts:1:10: ", "a number of slots is missing"},
      {"n0 slots", "hosts:1:4: ", "'slots' is no setting"},
      {"n0 8", "hosts:1:4: ", "after the host comes slots=N"},
      {"n0 slot=8", "hosts:1:4: ", "'slot' is not known"},
      {"n0 slots=8 extra", "hosts:1:12: ", "'extra' is no setting"},
      {"n0 slots=8 slots=9", "hosts:1:12: ", "'slots' is given twice"},
      {"n0:8 slots=8", "hosts:1:6: ", "'slots' is given twice"},
      {"n0 slots=8 max-slots=4", "hosts:1:22: ", "slots=8 is above max-slots=4"},
      {"n0 max-slots=4 slots=8", "hosts:1:22: ", "slots=8 is above max-slots=4"},
      {"n0\n\nn1\n n0 slots=2\n", "hosts:4:2: ", "host 'n0' is listed twice, first at hosts:1:1"},
      {"n0 slots=2\nn0\n", "hosts:2:1: ", "list it once, with all its slots, or each time without a number"},
      {"n0\nn0 max-slots=2\n", "hosts:2:1: ", "host 'n0' is listed twice, first at hosts:1:1"},
      {"-x slots=1", "hosts:1:1: ", "cannot begin with '-'"},
      {"=8", "hosts:1:1: ", "'=' cannot be part"},
      {"n0,n1", "hosts:1:3: ", "',' cannot be part"},
      {"n[0-1 slots=3", "hosts:1:2: ", "not closed"},
      {"^n0", "hosts:1:1: ", "'^' cannot be part"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const Refusal refusal = refused_file(row.text);
    CAPTURE(refusal.text);
    CHECK(refusal.text.starts_with(row.place));
    CHECK(refusal.says(row.says));
    CHECK(refusal.caret >= 0);
  }
  CHECK(refused_file("").text == "hosts lists no host; write one a line, as in 'n0 slots=8'");
  CHECK(refused_file("# only\n").says("lists no host"));
  CHECK(refused_file(std::string(70'000, 'n')).says("the line is too long"));
  CHECK(refused_file(std::string(5U << 20, '\n')).says("bytes; a hostfile has at most"));
}

TEST_CASE("Slurm's node lists") {
  using Names = std::vector<std::string>;
  const auto expand = [](const std::string& text) { return expand_node_list({text, "SLURM_JOB_NODELIST"}); };
  CHECK(expand("n1") == Names{"n1"});
  CHECK(expand("n[1-3]") == Names{"n1", "n2", "n3"});
  CHECK(expand("n[08-10,20],login1") == Names{"n08", "n09", "n10", "n20", "login1"});
  CHECK(expand("r[1-2]n[3-4],x") == Names{"r1n3", "r1n4", "r2n3", "r2n4", "x"});
  CHECK(expand("a[1,3]-ib") == Names{"a1-ib", "a3-ib"});
  for (const char* bad : {"", "n[1", "n1,", "n[1-]", "n1,n1", "-n", "n1:2"}) {
    CAPTURE(bad);
    const Refusal refusal = refusal_of([&] { expand(bad); });
    CHECK(refusal.text.starts_with("SLURM_JOB_NODELIST, position "));
    CHECK(refusal.caret >= 0);
  }
}

}  // namespace host_list_test

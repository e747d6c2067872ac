// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/needed_libraries.hpp"

#include "agent/stacks/process_memory.hpp"
#include "catch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <random>

namespace needed_libraries_test {

using namespace muster::agent;

namespace {

/// Bytes of a file, by places in it.
class MadeFile final : public MemoryReader {
 public:
  bool read_parts(std::span<const MemoryPart> parts) override {
    for (const MemoryPart& part : parts) {
      if (part.address > bytes.size() || part.bytes > bytes.size() - part.address) return false;
      std::memcpy(part.into, bytes.data() + part.address, part.bytes);
      read += part.bytes;
    }
    return true;
  }

  bool expired() override { return false; }

  template <typename Value>
  void put(std::size_t at, Value value) {
    if (bytes.size() < at + sizeof value) bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }

  std::vector<char> bytes;
  std::size_t read = 0;
};

constexpr std::size_t kSectionAt = 0x200;
constexpr std::size_t kNamesAt = 0x400;
constexpr std::uint64_t kAddress = 0x400000;

/// An executable whose dynamic section has these tags and values, its names from kNamesAt on.
MadeFile executable(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& section,
                    const std::string& names) {
  MadeFile file;
  file.put(0, std::array<unsigned char, 7>{0x7f, 'E', 'L', 'F', 2, 1, 1});
  file.put(16, std::uint16_t{2});
  file.put(32, std::uint64_t{64});  // program headers
  file.put(54, std::uint16_t{56});
  file.put(56, std::uint16_t{2});
  file.put(64, std::uint32_t{1});  // all of it is loaded
  file.put(64 + 16, kAddress);
  file.put(64 + 32, std::uint64_t{0x1000});
  file.put(120, std::uint32_t{2});  // the dynamic section
  file.put(120 + 8, std::uint64_t{kSectionAt});
  file.put(120 + 32, std::uint64_t{16 * section.size()});
  for (std::size_t i = 0; i < section.size(); ++i) {
    file.put(kSectionAt + 16 * i, section[i].first);
    file.put(kSectionAt + 16 * i + 8, section[i].second);
  }
  for (std::size_t i = 0; i < names.size(); ++i) file.put(kNamesAt + i, names[i]);
  return file;
}

using Names = std::vector<std::string>;

const std::string kNames("\0libmpi.so.40\0libc.so.6\0", 24);

}  // namespace

TEST_CASE("The libraries that a program names are read in its order") {
  MadeFile file = executable({{1, 1}, {1, 14}, {5, kAddress + kNamesAt}, {0, 0}, {1, 1}}, kNames);
  CHECK(needed_libraries(file) == Names{"libmpi.so.40", "libc.so.6"});
}

TEST_CASE("This program needs the C library") {
  const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  FileBytes file(fd, std::chrono::steady_clock::now() + std::chrono::seconds(30));
  const Names names = needed_libraries(file);
  ::close(fd);
  CHECK(std::find(names.begin(), names.end(), "libc.so.6") != names.end());
}

TEST_CASE("What is no dynamic program of 64 bits needs nothing") {
  MadeFile empty;
  CHECK(needed_libraries(empty).empty());
  MadeFile script;
  for (const char c : std::string("#!/bin/sh\nexec mpirun\n")) script.bytes.push_back(c);
  CHECK(needed_libraries(script).empty());
  MadeFile narrow = executable({{1, 1}, {5, kAddress + kNamesAt}}, kNames);
  narrow.put(4, static_cast<unsigned char>(1));
  CHECK(needed_libraries(narrow).empty());
  MadeFile fixed = executable({{1, 1}, {5, kAddress + kNamesAt}}, kNames);
  fixed.put(120, std::uint32_t{6});  // no dynamic section
  CHECK(needed_libraries(fixed).empty());
  MadeFile nameless = executable({{1, 1}, {0, 0}}, kNames);
  CHECK(needed_libraries(nameless).empty());
}

TEST_CASE("What a file says of places and sizes beyond it is not believed") {
  MadeFile far =
      executable({{1, std::uint64_t(-1)}, {1, 1 << 20}, {1, 14}, {5, kAddress + kNamesAt}}, kNames);
  CHECK(needed_libraries(far) == Names{"libc.so.6"});
  MadeFile elsewhere = executable({{1, 1}, {5, 0x1000}}, kNames);
  CHECK(needed_libraries(elsewhere).empty());
  MadeFile endless = executable({{1, 1}, {5, kAddress + kNamesAt}}, kNames);
  endless.put(120 + 32, std::uint64_t(-1));
  CHECK(needed_libraries(endless).empty());
  CHECK(endless.read < 100'000);
  MadeFile long_name = executable({{1, 0}, {5, kAddress + kNamesAt}}, std::string(kNeededNameMax + 1, 'x'));
  CHECK(needed_libraries(long_name).empty());
  std::vector<std::pair<std::uint64_t, std::uint64_t>> many(4 * kNeededMax, {1, 1});
  many[0] = {5, kAddress + 0x20000};
  MadeFile crowd = executable(many, "");
  crowd.put(64 + 32, std::uint64_t{0x30000});
  for (std::size_t i = 0; i < kNames.size(); ++i) crowd.put(0x20000 + i, kNames[i]);
  CHECK(needed_libraries(crowd).size() == kNeededMax);
}

TEST_CASE("Damaged programs are read safely") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    MadeFile file = executable({{1, 1}, {1, 14}, {5, kAddress + kNamesAt}, {0, 0}}, kNames);
    for (int i = 0; i < 8; ++i) file.bytes[random() % file.bytes.size()] = static_cast<char>(random());
    file.bytes.resize(random() % (file.bytes.size() + 1));
    CHECK(needed_libraries(file).size() <= 4);
  }
}

}  // namespace needed_libraries_test

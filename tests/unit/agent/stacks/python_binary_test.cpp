// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/python_binary.hpp"

#include "catch.hpp"
#include "tests/unit/agent/stacks/fake_python.hpp"

#include <array>
#include <random>

using namespace muster::agent;

namespace {

/// Bytes of a file, by places in it.
class Bytes final : public MemoryReader {
 public:
  bool read_parts(std::span<const MemoryPart> parts) override {
    ++reads;
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
  int reads = 0;
  std::size_t read = 0;
};

constexpr std::uint16_t kExecutable = 2;
constexpr std::uint16_t kPositionFree = 3;
constexpr std::size_t kSymbolsAt = 0x300;
constexpr std::size_t kNamesAt = 0x400;
constexpr std::size_t kSectionsAt = 0x500;
constexpr std::size_t kVersionAt = 0x600;

/// An ELF file with a dynamic symbol table, loaded at `address`. elf(5) has the places.
Bytes elf(std::uint16_t type, std::uint64_t address, const std::vector<std::string>& names) {
  Bytes file;
  file.put(0, std::array<unsigned char, 7>{0x7f, 'E', 'L', 'F', 2, 1, 1});
  file.put(16, type);
  file.put(32, std::uint64_t{64});           // program headers
  file.put(40, std::uint64_t{kSectionsAt});  // section headers
  file.put(54, std::uint16_t{56});
  file.put(56, std::uint16_t{2});
  file.put(58, std::uint16_t{64});
  file.put(60, std::uint16_t{3});
  file.put(64, std::uint32_t{6});  // PT_PHDR, which is not loaded
  file.put(120, std::uint32_t{1});
  file.put(120 + 16, address);
  file.put(120 + 32, std::uint64_t{0x700});
  std::string text(1, '\0');
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t at = kSymbolsAt + 24 * i;
    file.put(at, static_cast<std::uint32_t>(text.size()));
    file.put(at + 6, std::uint16_t{7});
    file.put(at + 8, address + (names[i] == "Py_Version" ? kVersionAt : 0x1000 * (i + 1)));
    text += names[i] + '\0';
  }
  for (std::size_t i = 0; i < text.size(); ++i) file.put(kNamesAt + i, text[i]);
  const auto section = [&file](std::size_t i, std::uint32_t kind, std::uint64_t at, std::uint64_t size) {
    file.put(kSectionsAt + 64 * i + 4, kind);
    file.put(kSectionsAt + 64 * i + 24, at);
    file.put(kSectionsAt + 64 * i + 32, size);
    file.put(kSectionsAt + 64 * i + 40, std::uint32_t{2});
  };
  section(1, 11, kSymbolsAt, 24 * names.size());
  section(2, 3, kNamesAt, text.size());
  file.put(kVersionAt, std::uint64_t{0x030b02f0});
  file.put(0x6ff, '\0');
  return file;
}

}  // namespace

TEST_CASE("An interpreter is found by its symbols, wherever the binary is loaded") {
  Bytes library = elf(kPositionFree, 0, {"PyCode_Type", "Py_Version", "_PyRuntime", "_PyRuntime_Finalize"});
  const auto found = find_python(library);
  REQUIRE(found);
  CHECK(found->code_type == 0x1000);
  CHECK(found->runtime == 0x3000);
  CHECK(found->version_hex == 0x030b02f0);
  CHECK(found->load_bias(0x7f0000000000, 0) == 0x7f0000000000);
  CHECK(found->load_bias(0x7f0000001000, 0x1000) == 0x7f0000000000);

  Bytes executable = elf(kExecutable, 0x400000, {"_PyRuntime"});
  const auto fixed = find_python(executable);
  REQUIRE(fixed);
  CHECK(fixed->runtime == 0x401000);
  CHECK(fixed->load_bias(0x400000, 0) == 0);
  CHECK(fixed->version_hex == 0);
  CHECK(fixed->code_type == 0);
}

TEST_CASE("Files without an interpreter have none") {
  Bytes other = elf(kPositionFree, 0, {"main", "_PyRuntimeX", "_PyRuntim"});
  CHECK_FALSE(find_python(other));
  Bytes script;
  for (const char c : std::string("#!/bin/sh\nexec python3\n")) script.bytes.push_back(c);
  CHECK_FALSE(find_python(script));
  CHECK(head_of(script).empty());
  Bytes empty;
  CHECK_FALSE(find_python(empty));
  Bytes narrow = elf(kPositionFree, 0, {"_PyRuntime"});
  narrow.put(4, static_cast<unsigned char>(1));  // 32 bits
  CHECK_FALSE(find_python(narrow));
}

TEST_CASE("The head of a file ends behind its table of loaded parts") {
  Bytes library = elf(kPositionFree, 0, {"_PyRuntime"});
  CHECK(head_of(library).size() == 64 + 2 * 56);
}

TEST_CASE("Whatever a file says of itself, little of it is read") {
  const Bytes good = elf(kPositionFree, 0, {"PyCode_Type", "Py_Version", "_PyRuntime"});
  for (std::size_t size = 0; size < good.bytes.size(); size += 7) {
    Bytes cut = good;
    cut.bytes.resize(size);
    find_python(cut);
    head_of(cut);
  }
  std::mt19937_64 random(28);
  for (int i = 0; i < 3000; ++i) {
    Bytes wild = good;
    for (std::uint64_t changes = 1 + random() % 8; changes > 0; --changes) {
      const std::uint64_t values[] = {random(), 0, ~std::uint64_t{0}, random() % 0x700,
                                      std::uint64_t{1} << 62};
      wild.put(8 * (random() % (good.bytes.size() / 8)), values[random() % std::size(values)]);
    }
    find_python(wild);
    head_of(wild);
    CHECK(wild.reads < 1000);
    CHECK(wild.read < 1 << 20);
  }
}

TEST_CASE("A binary's name tells version and kind of build") {
  CHECK(version_of_name("/usr/lib/libpython3.9.so.1.0").version_hex == 0x03090000);
  CHECK(version_of_name("/opt/bin/python3.10").version_hex == 0x030a0000);
  CHECK(version_of_name("/opt/bin/python3.10").flags.empty());
  CHECK(version_of_name("libpython3.13t.so").flags == "t");
  CHECK(version_of_name("/x/libpython3.11d.so.1.0").flags == "d");
  for (const char* const name : {"/usr/bin/python", "python3", "python2.7", "/python3.9/sh", "python3.",
                                 "python3.x", "python3.999", ""})
    CHECK(version_of_name(name).version_hex == 0);
}

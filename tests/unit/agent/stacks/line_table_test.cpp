// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/line_table.hpp"

#include "catch.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

using namespace muster::agent;

namespace {

/// Instructions from `begin` to `end`, in bytes of code, and their line as the interpreter itself gives it
/// (co_lines(), in 3.9 dis.findlinestarts()); 0: none.
struct Lines {
  long begin;
  long end;
  int line;
};

struct Table {
  unsigned version;
  std::vector<unsigned> bytes;
  std::vector<Lines> lines;
};

std::vector<std::byte> bytes_of(const std::vector<unsigned>& values) {
  std::vector<std::byte> bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

/// The function begins in line 1; a loop, a call over two lines and an `except` make lines go up and down.
const Table kTables[] = {
    {0x0309,
     {0x00, 0x01, 0x04, 0x02, 0x0c, 0x01, 0x04, 0x01, 0x02, 0xff, 0x06, 0x02,
      0x02, 0x01, 0x02, 0x01, 0x02, 0xff, 0x08, 0x02, 0x0c, 0x01, 0x08, 0x07},
     {{0, 4, 2},
      {4, 16, 4},
      {16, 20, 5},
      {20, 22, 6},
      {22, 28, 5},
      {28, 30, 7},
      {30, 32, 8},
      {32, 34, 9},
      {34, 42, 8},
      {42, 54, 10},
      {54, 62, 11},
      {62, 66, 18}}},
    {0x030a,
     {0x04, 0x01, 0x0c, 0x02, 0x04, 0x01, 0x02, 0x01, 0x06, 0xff, 0x02, 0x02, 0x02,
      0x01, 0x02, 0x01, 0x08, 0xff, 0x0c, 0x02, 0x04, 0x01, 0x02, 0xff, 0x04, 0x08},
     {{0, 4, 2},
      {4, 16, 4},
      {16, 20, 5},
      {20, 22, 6},
      {22, 28, 5},
      {28, 30, 7},
      {30, 32, 8},
      {32, 34, 9},
      {34, 42, 8},
      {42, 54, 10},
      {54, 58, 11},
      {58, 60, 10},
      {60, 64, 18}}},
    {0x030b,
     {0x80, 0x00, 0xd8, 0x08, 0x09, 0x80, 0x41, 0xe5, 0x0d, 0x12, 0x90, 0x31, 0x89, 0x58, 0x8c, 0x58,
      0xf0, 0x00, 0x07, 0x05, 0x11, 0xf0, 0x00, 0x07, 0x05, 0x11, 0x88, 0x01, 0xd8, 0x08, 0x09, 0x88,
      0x61, 0xd8, 0x0e, 0x0f, 0xf1, 0x03, 0x01, 0x0f, 0x10, 0xf1, 0x00, 0x01, 0x09, 0x11, 0x88, 0x01,
      0xf0, 0x04, 0x04, 0x09, 0x11, 0xdd, 0x10, 0x11, 0xd8, 0x10, 0x11, 0xf1, 0x03, 0x01, 0x11, 0x13,
      0xf4, 0x00, 0x01, 0x11, 0x13, 0x88, 0x41, 0x88, 0x41, 0xf8, 0xe5, 0x0f, 0x19, 0xf0, 0x00, 0x01,
      0x09, 0x11, 0xf0, 0x00, 0x01, 0x09, 0x11, 0xf0, 0x00, 0x01, 0x09, 0x11, 0xd8, 0x0c, 0x10, 0x88,
      0x44, 0xf0, 0x03, 0x01, 0x09, 0x11, 0xf8, 0xf8, 0xf8, 0xf0, 0x10, 0x00, 0x0c, 0x0d, 0x80, 0x48},
     {{0, 2, 1},      {2, 4, 2},      {4, 6, 2},      {6, 18, 4},     {18, 20, 4},    {20, 24, 4},
      {24, 34, 4},    {34, 36, 4},    {36, 38, 4},    {38, 40, 4},    {40, 42, 5},    {42, 44, 5},
      {44, 46, 6},    {46, 50, 5},    {50, 54, 5},    {54, 56, 5},    {56, 58, 7},    {58, 70, 8},
      {70, 72, 9},    {72, 76, 8},    {76, 86, 8},    {86, 88, 8},    {88, 90, 8},    {90, 92, 0},
      {92, 104, 10},  {104, 106, 10}, {106, 108, 10}, {108, 110, 10}, {110, 112, 11}, {112, 114, 11},
      {114, 116, 10}, {116, 118, 0},  {118, 120, 0},  {120, 122, 0},  {122, 124, 18}, {124, 126, 18}}},
    {0x030d,
     {0x80, 0x00, 0xd8, 0x08, 0x09, 0x80, 0x41, 0xe4, 0x0d, 0x12, 0x90, 0x31, 0x8e, 0x58, 0x88, 0x01, 0xd8,
      0x08, 0x09, 0xd8, 0x0e, 0x0f, 0xf1, 0x03, 0x01, 0x0f, 0x10, 0xf1, 0x00, 0x01, 0x09, 0x11, 0x88, 0x01,
      0xf0, 0x04, 0x04, 0x09, 0x11, 0xdc, 0x10, 0x11, 0xd8, 0x10, 0x11, 0xf3, 0x03, 0x01, 0x11, 0x13, 0x8a,
      0x41, 0xf1, 0x09, 0x00, 0x0e, 0x16, 0xf0, 0x1c, 0x00, 0x0c, 0x0d, 0x80, 0x48, 0xf8, 0xf4, 0x11, 0x00,
      0x10, 0x1a, 0xf3, 0x00, 0x01, 0x09, 0x11, 0xda, 0x0c, 0x10, 0xf0, 0x03, 0x01, 0x09, 0x11, 0xfa},
     {{0, 2, 1},
      {2, 6, 2},
      {6, 34, 4},
      {34, 36, 5},
      {36, 38, 6},
      {38, 48, 5},
      {48, 50, 7},
      {50, 60, 8},
      {60, 62, 9},
      {62, 76, 8},
      {76, 80, 4},
      {80, 84, 18},
      {84, 86, 0},
      {86, 104, 10},
      {104, 110, 11},
      {110, 112, 10},
      {112, 118, 0}}},
};

}  // namespace

TEST_CASE("Each instruction has the line that its interpreter says") {
  for (const Table& table : kTables) {
    INFO("version " << std::hex << table.version);
    const std::vector<std::byte> bytes = bytes_of(table.bytes);
    for (const Lines& lines : table.lines)
      for (long at = lines.begin; at < lines.end; at += 2) {
        INFO(std::dec << "byte " << at);
        CHECK(line_of(table.version, bytes, 1, table.version == 0x0309 ? at : at / 2) == lines.line);
      }
    CHECK(line_of(table.version, bytes, 1, -1) == 1);
  }
}

TEST_CASE("A step of more than 127 lines is told in pieces, or in one number") {
  CHECK(line_of(0x0309, bytes_of({0, 127, 0, 73}), 1, 0) == 201);
  CHECK(line_of(0x0309, bytes_of({0, 127, 0, 73, 4, 1}), 1, 4) == 202);
  CHECK(line_of(0x030a, bytes_of({0, 127, 4, 73}), 1, 1) == 201);
  // Kind 13: one unit, a signed number in groups of six bits: 200 is 0b110010000 with its sign bit.
  CHECK(line_of(0x030b, bytes_of({0xe8, 0x50, 0x06}), 1, 0) == 201);
  CHECK(line_of(0x030b, bytes_of({0xe8, 0x51, 0x06}), 301, 0) == 101);
}

TEST_CASE("Instructions without a line, and beyond the table, have none") {
  CHECK(line_of(0x030a, bytes_of({4, 0x80, 4, 1}), 1, 0) == 0);
  CHECK(line_of(0x030a, bytes_of({4, 0x80, 4, 1}), 1, 2) == 2);
  CHECK(line_of(0x030b, bytes_of({0xf8, 0xd8, 0, 0}), 1, 0) == 0);
  for (const unsigned version : {0x030aU, 0x030bU, 0x030eU}) CHECK(line_of(version, {}, 7, 3) == 0);
  CHECK(line_of(0x0309, {}, 7, 3) == 7);
  for (const unsigned version : {0x0309U, 0x030aU, 0x030bU}) CHECK(line_of(version, {}, -5, -1) == 0);
}

TEST_CASE("Whatever a line table holds, a line is positive or not known") {
  std::mt19937 random(28);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes(random() % 200);
    std::generate(bytes.begin(), bytes.end(), [&random] { return static_cast<std::byte>(random()); });
    for (const unsigned version : {0x0309U, 0x030aU, 0x030bU})
      for (const long at : {0L, 7L, 100L, 1L << 40})
        CHECK(line_of(version, bytes, static_cast<int>(random()), at) >= 0);
  }
}

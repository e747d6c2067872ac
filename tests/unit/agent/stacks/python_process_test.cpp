// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/python_process.hpp"

#include "agent/stacks/core/python_objects.hpp"
#include "agent/stacks/core/thread_walk.hpp"
#include "catch.hpp"
#include "tests/unit/agent/stacks/fake_python.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <random>

using namespace muster::agent;
using muster::agent::test::FakeMemory;
using muster::agent::test::FakePython;
using muster::agent::test::kReleases;

namespace {

std::string frames_of(const ThreadStack& thread) {
  std::string text;
  for (const Frame& frame : thread.frames)
    text += frame.file + ":" + std::to_string(frame.line) + " " + frame.function + "; ";
  return text;
}

constexpr const char* kStep = "train.py:43 step; train.py:80 main; ";

/// The main thread 100 in step, called by main, and thread 101 in a method. Returns the threads, main first.
std::vector<std::uint64_t> add_two_threads(FakePython& python) {
  const std::uint64_t main = python.thread(100);
  python.call(main, python.code("train.py", "main", 80), 0);
  python.call(main, python.code("train.py", "step", 41), 2);
  const std::uint64_t other = python.thread(101);
  python.call(other, python.code("/lib/loader.py", "Loader.refill", 7), 5);
  return {main, other};
}

/// What this thread has used, which does not grow while others on the machine have its processor.
std::chrono::nanoseconds cpu_time() {
  timespec used{};
  REQUIRE(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// What must hold of any result, whatever was read.
void check_bounds(const ProcessStacks& stacks) {
  CHECK(stacks.threads.size() <= kThreadsMax);
  std::size_t frames = 0;
  for (const ThreadStack& thread : stacks.threads) {
    CHECK(thread.frames.size() <= kThreadFramesMax);
    frames += thread.frames.size();
    for (const Frame& frame : thread.frames) {
      CHECK(frame.file.size() <= 6 * kFileCharactersMax);
      CHECK(frame.function.size() <= 6 * kFunctionCharactersMax);
      CHECK(frame.line >= 0);
      const std::string names = frame.file + frame.function;
      CHECK(std::all_of(names.begin(), names.end(),
                        [](char c) { return static_cast<unsigned char>(c) >= 0x20 || c == '\t'; }));
    }
  }
  CHECK(frames <= kProcessFramesMax);
}

}  // namespace

TEST_CASE("Every version's threads, frames and lines are read, and its GIL's holder where it tells") {
  for (const unsigned release : kReleases) {
    FakePython python(release);
    INFO(version_text(release));
    const std::vector<std::uint64_t> threads = add_two_threads(python);
    if (python.layout.gil_locked != 0) python.give_gil(threads[1]);
    const ProcessStacks stacks = python.read(100, {100, 101});
    CHECK(stacks.error.empty());
    CHECK(stacks.python == version_text(release));
    REQUIRE(stacks.threads.size() == 2);
    CHECK(frames_of(stacks.threads[1]) == kStep);
    CHECK(stacks.threads[1].tid == 100);
    CHECK(stacks.threads[1].is_main);
    CHECK_FALSE(stacks.threads[1].holds_gil);
    CHECK(frames_of(stacks.threads[0]) == "/lib/loader.py:12 Loader.refill; ");
    CHECK(stacks.threads[0].tid == 101);
    CHECK_FALSE(stacks.threads[0].is_main);
    CHECK(stacks.threads[0].holds_gil == (python.layout.gil_locked != 0));
    for (const ThreadStack& thread : stacks.threads) CHECK_FALSE((thread.approximate || thread.truncated));
  }
}

TEST_CASE("A GIL that nobody holds has no holder, although the last one is still named") {
  FakePython python(0x030b02f0);
  python.give_gil(add_two_threads(python)[0]);
  python.memory.write(python.gil + python.layout.gil_locked, std::int32_t{0});
  for (const ThreadStack& thread : python.read(100, {100}).threads) CHECK_FALSE(thread.holds_gil);
}

TEST_CASE("Frames that mark a call from C are no calls") {
  for (const unsigned release : {0x030c01f0U, 0x030d00f0U, 0x030e00f0U}) {
    FakePython python(release);
    INFO(version_text(release));
    const std::uint64_t main = python.thread(100);
    python.call(main, 0, 0, 3);
    python.call(main, python.code("train.py", "main", 80), 0);
    python.call(main, 0x1234, 0, 3);
    if (release >= 0x030e0000) python.call(main, 0x1234, 0, 4);
    python.call(main, python.code("train.py", "step", 41), 2, 1);  // a generator's own frame is one
    const ProcessStacks stacks = python.read(100, {100});
    REQUIRE(stacks.threads.size() == 1);
    CHECK(frames_of(stacks.threads[0]) == kStep);
    CHECK_FALSE(stacks.threads[0].approximate);
  }
}

TEST_CASE("The oldest thread is the main one where the kernel's numbers do not tell") {
  FakePython python(0x030b02f0);
  add_two_threads(python);
  const ProcessStacks stacks = python.read(4711, {4711, 4712});  // a forked child that kept the old numbers
  REQUIRE(stacks.threads.size() == 2);
  CHECK(stacks.threads[0].tid == 0);
  CHECK_FALSE(stacks.threads[0].is_main);
  CHECK(stacks.threads[1].is_main);
}

TEST_CASE("A frame that has not begun is at its first line") {
  FakePython python(0x030c01f0);
  const std::uint64_t main = python.thread(100);
  python.call(main, python.code("train.py", "step", 41), -1);
  CHECK(frames_of(python.read(100, {100}).threads.at(0)) == "train.py:41 step; ");
}

TEST_CASE("A thread that runs within one call stands still enough") {
  for (const unsigned release : kReleases) {
    FakePython python(release);
    INFO(version_text(release));
    const std::uint64_t main = python.thread(100);
    python.call(main, python.code("train.py", "main", 80), 0);
    const std::uint64_t step = python.code("train.py", "step", 41);
    const std::uint64_t frame = python.call(main, step, 2);
    python.memory.before_read = [&](int count) { python.write_place(frame, step, count % 8); };
    const ProcessStacks looping = python.read(100, {100});
    REQUIRE(looping.threads.size() == 1);
    CHECK(looping.threads[0].frames.size() == 2);
    CHECK_FALSE(looping.threads[0].approximate);
  }
}

TEST_CASE("A thread that goes from call to call is moving, and its last copy stands") {
  for (const unsigned release : kReleases) {
    FakePython python(release);
    INFO(version_text(release));
    const std::uint64_t main = python.thread(100);
    const std::uint64_t step = python.code("train.py", "step", 41);
    const std::uint64_t frame = python.call(main, step, 2);
    const std::uint64_t other = python.code("train.py", "check", 60);
    // Each copy takes three reads, so two of them never see the same.
    python.memory.before_read = [&](int count) {
      python.memory.write(frame + python.layout.frame_code, count / 3 % 2 == 0 ? step : other);
    };
    const ProcessStacks stacks = python.read(100, {100});
    REQUIRE(stacks.threads.size() == 1);
    CHECK(stacks.threads[0].approximate);
    CHECK(stacks.threads[0].frames.size() == 1);
  }
}

TEST_CASE("Deep recursion is cut at the outer end") {
  for (const unsigned release : {0x030a0000U, 0x030c01f0U}) {
    FakePython python(release);
    const std::uint64_t main = python.thread(100);
    const std::uint64_t code = python.code("train.py", "again", 1);
    std::uint64_t last = 0;
    for (int i = 0; i < 20; ++i) last = python.call(main, code, i == 19 ? 5 : 0);
    // The rest of the stack is outside of the newest chunk.
    std::uint64_t outer = python.memory.take(1000UL * 400);
    const std::uint64_t first = outer;
    for (int i = 0; i < 1000; ++i, outer += 400) {
      python.memory.write(outer + python.layout.frame_previous, i < 999 ? outer + 400 : 0);
      python.memory.write(outer + python.layout.frame_code, code);
      python.write_place(outer, code, 0);
    }
    std::uint64_t oldest = last;
    while (python.word(oldest + python.layout.frame_previous) != 0)
      oldest = python.word(oldest + python.layout.frame_previous);
    python.memory.write(oldest + python.layout.frame_previous, first);
    const ProcessStacks stacks = python.read(100, {100});
    REQUIRE(stacks.threads.size() == 1);
    CHECK(stacks.threads[0].frames.size() == kThreadFramesMax);
    CHECK(stacks.threads[0].truncated);
    CHECK(stacks.threads[0].frames[0].line == 6);
    check_bounds(stacks);
  }
}

TEST_CASE("Cycles among frames, threads and interpreters end") {
  for (const unsigned release : kReleases) {
    FakePython python(release);
    INFO(version_text(release));
    const std::vector<std::uint64_t> threads = add_two_threads(python);
    const std::uint64_t top = python.word(python.top_of(threads[0]));
    python.memory.write(python.word(top + python.layout.frame_previous) + python.layout.frame_previous, top);
    ProcessStacks stacks = python.read(100, {100});
    REQUIRE(stacks.threads.size() == 2);
    CHECK(stacks.threads[1].approximate);
    CHECK(stacks.threads[1].frames.size() == 2);
    python.memory.write(threads[0] + python.layout.thread_next, threads[1]);
    stacks = python.read(100, {100});
    CHECK(stacks.error == "the list of its threads makes no sense");
    CHECK(stacks.threads.size() == 2);
    python.memory.write(threads[0] + python.layout.thread_next, std::uint64_t{0});
    python.memory.write(python.interpreter + python.layout.interpreter_next, python.interpreter);
    CHECK(python.read(100, {100}).error == "the list of its threads makes no sense");
  }
}

TEST_CASE("Code objects that are none, and texts that are none, are left out") {
  FakePython python(0x030b02f0);
  const std::uint64_t main = python.thread(100);
  python.call(main, python.code("train.py", "main", 80), 0);
  const std::uint64_t code = python.code("train.py", "step", 41);
  python.call(main, code, 0);
  python.memory.write(code + 8, std::uint64_t{0});  // of another type
  CHECK(frames_of(python.read(100, {100}).threads.at(0)) == "train.py:80 main; ");
  python.memory.write(code + 8, python.type);
  const std::uint64_t name = python.word(code + python.layout.code_name);
  python.memory.write(name + python.layout.text_length, ~std::uint64_t{0});
  const ProcessStacks stacks = python.read(100, {100});
  CHECK(frames_of(stacks.threads.at(0)) == "train.py:80 main; ");
  CHECK(stacks.threads.at(0).approximate);
}

TEST_CASE("Long names are cut, a file's at its front, and control characters are written out") {
  FakePython python(0x030c01f0);
  const std::uint64_t main = python.thread(100);
  python.call(main,
              python.code("/" + std::string(5000, 'd') + "/tr\x1b[31main.py", std::string(5000, 'f'), 1), 0);
  const ProcessStacks stacks = python.read(100, {100});
  const Frame& frame = stacks.threads.at(0).frames.at(0);
  CHECK(frame.file.starts_with("...ddd"));
  CHECK(frame.file.ends_with("/tr\\x1b[31main.py"));
  CHECK(frame.function == std::string(kFunctionCharactersMax, 'f') + "...");
  check_bounds(stacks);
}

TEST_CASE("Texts of wider characters become UTF-8") {
  for (const unsigned release : {0x030b02f0U, 0x030c01f0U}) {
    FakePython python(release);
    const std::uint32_t head = release < 0x030c0000 ? 72 : 56;  // sizeof(PyCompactUnicodeObject)
    const auto text = [&](unsigned kind, std::vector<std::uint32_t> characters) {
      const std::uint64_t at = python.memory.take(head + characters.size() * kind);
      python.memory.write(at + python.layout.text_length, std::uint64_t{characters.size()});
      python.memory.write(at + python.layout.text_state, (kind | 1U << 3) << 2);
      for (std::size_t i = 0; i < characters.size(); ++i)
        for (unsigned byte = 0; byte < kind; ++byte)
          python.memory.write(at + head + i * kind + byte,
                              static_cast<std::uint8_t>(characters[i] >> 8 * byte));
      return read_python_text(python.memory, python.layout, at, 100, KeptEnd::first);
    };
    CHECK(text(1, {'a', 0xe4}) == "a\u00e4");
    CHECK(text(2, {'a', 0x8a9e, 0xd800}) == "a\u8a9e\ufffd");
    CHECK(text(4, {'a', 0x1f600, 0x7fffffff}) == "a\U0001f600\ufffd");
    CHECK(text(2, {0x85}) == "\\x85");
    CHECK_FALSE(text(3, {'a'}));
  }
}

TEST_CASE("What cannot be read is named") {
  const auto error_of = [](FakePython& python) { return python.read(100, {100}).error; };
  FakePython old(0x030800f0);
  CHECK(error_of(old) == "Python 3.8 is not known (3.9 to 3.14 are)");
  FakePython newer(0x030f00a1);
  CHECK(error_of(newer) == "Python 3.15 is not known (3.9 to 3.14 are)");
  FakePython free_threaded(0x030d00f0);
  free_threaded.memory.write(free_threaded.runtime + 16, std::uint64_t{1});
  CHECK(error_of(free_threaded) == "a free-threaded build of Python is not supported");
  FakePython other_cookie(0x030e00f0);
  other_cookie.memory.write(other_cookie.runtime, std::uint64_t{0});
  CHECK(error_of(other_cookie) == "its interpreter does not say where it keeps its threads");
  FakePython other_version(0x030e00f0);
  other_version.memory.write(other_version.runtime + 8, std::uint64_t{0x030d00f0});
  CHECK(error_of(other_version) == "its interpreter does not say where it keeps its threads");
  for (std::size_t word = 3; word < kDebugOffsetsBytes / 8; ++word) {
    FakePython wild(0x030d00f0);
    wild.memory.write(wild.runtime + 8 * word, ~std::uint64_t{0});
    INFO("word " << word);
    check_bounds(wild.read(100, {100}));
  }
  FakePython not_begun(0x030b02f0);
  not_begun.memory.write(not_begun.runtime + not_begun.layout.interpreters_head, std::uint64_t{0});
  CHECK(error_of(not_begun) == "its interpreter does not run yet, or no longer");
  FakePython gone(0x030b02f0);
  gone.memory.bytes.clear();
  CHECK(error_of(gone) == "its memory cannot be read");
  FakePython late(0x030b02f0);
  add_two_threads(late);
  late.memory.reads_max = 5;
  CHECK(error_of(late) == "the time for reading it was over");
}

TEST_CASE("Memory with random words in it is read within its time, and the result is bounded") {
  using Clock = std::chrono::steady_clock;
  constexpr auto kTime = std::chrono::milliseconds(20);
  constexpr auto kAtMost = std::chrono::milliseconds(1000);  // of CPU time, under a sanitizer
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    FakePython python(kReleases[seed % std::size(kReleases)]);
    add_two_threads(python);
    INFO("seed " << seed);
    const std::size_t words = python.memory.bytes.size() / 8;
    const std::size_t changes = 1 + random() % 300;
    // Those of the interpreter's own words are tried one by one above.
    const std::size_t first = python.version_hex >= 0x030d0000 ? kDebugOffsetsBytes / 8 : 0;
    for (std::size_t i = 0; i < changes; ++i) {
      const std::uint64_t at = FakeMemory::kBase + 8 * (first + random() % (words - first));
      const std::uint64_t pointer = FakeMemory::kBase + 8 * (random() % words);
      const std::uint64_t values[] = {pointer, pointer, random(), random() % 64, 0, ~std::uint64_t{0}};
      python.memory.write(at, values[random() % std::size(values)]);
    }
    // A program that goes on: each read finds another word changed.
    if (seed % 3 == 0)
      python.memory.before_read = [&](int) {
        python.memory.write(FakeMemory::kBase + 8 * (first + random() % (words - first)),
                            FakeMemory::kBase + 8 * (random() % words));
      };
    const auto begin = cpu_time();
    python.memory.deadline = Clock::now() + kTime;
    check_bounds(python.read(100, {100, 101}));
    CHECK(cpu_time() - begin < kAtMost);
  }
}

TEST_CASE("Lists without end take no longer than their time") {
  // Every word is the address of another one, and every thread has the right owner.
  class Endless final : public MemoryReader {
   public:
    bool read_parts(std::span<const MemoryPart> parts) override {
      if (expired()) return false;
      for (const MemoryPart& part : parts)
        for (std::size_t i = 0; i + 8 <= part.bytes; i += 8) {
          const bool is_owner = i == owner_at && part.bytes > 64;
          const std::uint64_t next = is_owner ? interpreter : part.address + i + 4096;
          std::memcpy(static_cast<char*>(part.into) + i, &next, sizeof next);
        }
      return true;
    }

    bool expired() override { return std::chrono::steady_clock::now() >= deadline; }

    std::uint64_t owner_at = 0;
    std::uint64_t interpreter = 0;
    std::chrono::steady_clock::time_point deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  };

  for (const unsigned version : {0x0309U, 0x030bU, 0x030cU}) {
    const PythonLayout layout = *layout_from_table(version);
    Endless memory;
    memory.owner_at = layout.thread_interpreter;
    memory.interpreter = 4096 + layout.interpreters_head + 4096;
    const auto begin = cpu_time();
    check_bounds(read_python_stacks(memory, layout, {4096, 0, version << 16}, 1, {1}));
    CHECK(cpu_time() - begin < std::chrono::seconds(1));
  }
}

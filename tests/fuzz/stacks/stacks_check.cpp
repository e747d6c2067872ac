// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/line_table.hpp"
#include "agent/stacks/core/memory_map.hpp"
#include "agent/stacks/core/memory_reader.hpp"
#include "agent/stacks/core/needed_libraries.hpp"
#include "agent/stacks/core/python_binary.hpp"
#include "agent/stacks/core/python_objects.hpp"
#include "agent/stacks/core/python_process.hpp"
#include "agent/stacks/core/thread_walk.hpp"
#include "agent/stacks/process_words.hpp"
#include "rendezvous/log/terminal_text.hpp"
#include "tests/fuzz/checks.hpp"

#include <algorithm>
#include <string>

using namespace muster::agent;
using muster::fuzz::require;

namespace {

/// The input as memory, or as a file, from an address on.
class InputBytes final : public MemoryReader {
 public:
  InputBytes(std::string_view bytes, std::uint64_t base) : bytes_(bytes), base_(base) {}

  bool read_parts(std::span<const MemoryPart> parts) override {
    if (expired()) return false;
    for (const MemoryPart& part : parts) {
      ++reads_;
      const std::uint64_t at = part.address - base_;
      if (part.address < base_ || at > bytes_.size() || part.bytes > bytes_.size() - at) return false;
      std::memcpy(part.into, bytes_.data() + at, part.bytes);
    }
    return true;
  }

  // The clock of a fuzzer: so many reads take longer than a process is given.
  bool expired() override { return reads_ >= 100'000; }

 private:
  std::string_view bytes_;
  std::uint64_t base_;
  int reads_ = 0;
};

constexpr unsigned kReleases[] = {0x03090000, 0x030a0000, 0x030b02f0, 0x030c01f0, 0x030d00f0, 0x030e00f0};

unsigned release_of(char byte) {
  return kReleases[static_cast<unsigned char>(byte) % std::size(kReleases)];
}

bool is_safe(const std::string& text) {
  return muster::for_terminal(text) == text;
}

/// An image of memory as tests/unit/agent/stacks/fake_python.hpp makes it, which begins with _PyRuntime.
bool check_process(std::string_view input) {
  if (input.empty()) return false;
  constexpr std::uint64_t kBase = 0x10000;
  const PythonRuntime runtime{kBase, 0, release_of(input[0])};
  InputBytes memory(input.substr(1), kBase);
  std::string error;
  const PythonLayout layout = find_layout(memory, runtime, error);
  require((layout.version == 0) == !error.empty(), "there is a layout, or a reason");
  if (layout.version == 0) return false;
  const ProcessStacks stacks = read_python_stacks(memory, layout, runtime, 100, {100, 101});
  require(stacks.threads.size() <= kThreadsMax, "threads are bounded");
  std::size_t frames = 0;
  for (const ThreadStack& thread : stacks.threads) {
    require(thread.tid == 0 || thread.tid == 100 || thread.tid == 101,
            "a thread is one that the kernel knows");
    require(thread.frames.size() <= kThreadFramesMax, "the frames of a thread are bounded");
    frames += thread.frames.size();
    for (const Frame& frame : thread.frames) {
      require(frame.line >= 0, "a line is a line");
      require(is_safe(frame.file) && is_safe(frame.function), "names are safe on a terminal");
    }
  }
  require(frames <= kProcessFramesMax, "the frames of a process are bounded");
  return frames > 0;
}

bool check_file(std::string_view input) {
  InputBytes file(input, 0);
  const auto found = find_python(file);
  require(head_of(file).size() <= input.size(), "a file has no more than its bytes");
  require(!found || found->runtime != 0, "what was found is somewhere");
  const auto needed = needed_libraries(file);
  require(needed.size() <= kNeededMax, "the libraries of a program are bounded");
  for (const std::string& name : needed)
    require(name.size() <= std::min(kNeededNameMax, input.size()),
            "a name comes from the file, and is bounded");
  return found.has_value() || !needed.empty();
}

bool check_maps(std::string_view input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string executable(input.substr(0, end));
  const auto files = python_candidates(std::string(input.substr(end)), executable);
  require(files.size() <= kCandidatesMax, "files are bounded");
  for (const MappedFile& file : files) require(file.path.starts_with('/'), "a file has a path");
  return !files.empty();
}

bool check_words(std::string_view input) {
  if (input.empty()) return false;
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string words =
      describe_state(input[0], std::string(input.substr(1, end)), std::string(input.substr(end)));
  require(is_safe(words) && words.size() < 256, "what the kernel says is one short safe line");
  return true;
}

bool check_lines(std::string_view input) {
  if (input.empty()) return false;
  const auto table = std::as_bytes(std::span(input.substr(1)));
  int last = 0;
  for (long at = -1; at < 64; ++at) {
    last = line_of(release_of(input[0]) >> 16, table, 7, at);
    require(last >= 0, "a line is a line");
  }
  return true;
}

}  // namespace

bool muster::fuzz::check_stacks_input(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view rest = input.substr(1);
  switch (input[0]) {
    case 'P':
      return check_process(rest);
    case 'E':
      return check_file(rest);
    case 'M':
      return check_maps(rest);
    case 'W':
      return check_words(rest);
    default:
      return check_lines(rest);
  }
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/python_stack.hpp"

#include "agent/stacks/core/memory_map.hpp"
#include "agent/stacks/core/native_stack.hpp"
#include "agent/stacks/core/python_process.hpp"
#include "agent/stacks/refusal.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/text.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>

namespace muster::agent {
namespace {

constexpr std::size_t kMapsBytesMax = std::size_t{16} << 20;
constexpr std::size_t kBinariesKept = 256;

std::string proc_file(pid_t pid, const std::string& name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

/// Returns the path of the program that the process runs, as it sees it; empty if that cannot be read.
std::string executable_of(pid_t pid) {
  char target[4096];
  const ssize_t size = ::readlink(proc_file(pid, "exe").c_str(), target, sizeof target);
  std::string path(target, size > 0 ? static_cast<std::size_t>(size) : 0);
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.resize(path.size() - kDeleted.size());
  return path;
}

/// Returns the text of the process's map; nullopt, with errno, if it cannot be read. What comes after the
/// deadline is left out: a program may have made very many mappings.
std::optional<std::string> read_maps(pid_t pid, ProcessMemory& memory) {
  const UniqueFd file(::open(proc_file(pid, "maps").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  constexpr std::size_t kPieceBytes = std::size_t{1} << 16;
  std::string text;
  while (text.size() < kMapsBytesMax && !memory.expired()) {
    const auto piece = read_to_end(file.get(), kPieceBytes);
    if (!piece) return std::nullopt;
    if (piece->empty()) break;
    text += *piece;
  }
  return text;
}

/// Tells whether a page of a process is in memory: whoever reads one that is not waits for a disk or a file
/// server, which may not answer. See pagemap in the kernel's documentation; where there is none, every page
/// counts as one that is.
class ResidentPages {
 public:
  explicit ResidentPages(pid_t pid)
      : file_(::open(proc_file(pid, "pagemap").c_str(), O_RDONLY | O_CLOEXEC)) {}

  bool contain(std::uint64_t address) const {
    if (!file_) return true;
    static const auto kPageBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    constexpr unsigned kPresentBit = 63;
    std::uint64_t entry = 0;
    const auto place = static_cast<off_t>(address / kPageBytes * sizeof entry);
    return ::pread(file_.get(), &entry, sizeof entry, place) == sizeof entry &&
           (entry >> kPresentBit & 1) != 0;
  }

 private:
  const UniqueFd file_;
};

/// Returns the library in which the main thread sleeps; see ProcessStacks.
std::string sleeps_in(pid_t pid, const std::string& maps, ProcessMemory& memory) {
  constexpr std::size_t kTextBytesMax = 256;
  const auto pointer = stack_pointer(read_file(proc_file(pid, "syscall"), kTextBytesMax).value_or(""));
  // The calls from a library to the kernel take a few hundred bytes; the end of the stack may be near.
  std::array<std::uint64_t, 256> words{};
  std::size_t count = words.size();
  while (pointer && count >= 16 && !memory.read(*pointer, words.data(), count * sizeof words[0])) count /= 2;
  if (!pointer || count < 16) return {};
  // The code of a call that has not returned was run, so its page is there.
  const ResidentPages resident(pid);
  return innermost_library(
      std::span(words.data(), count), maps, [&](std::uint64_t address, std::span<std::byte> bytes) {
        return resident.contain(address) && resident.contain(address + bytes.size() - 1) &&
               memory.read(address, bytes.data(), bytes.size());
      });
}

/// Returns the kernel's numbers of the process's threads, as many as are read.
std::vector<int> tasks_of(pid_t pid) {
  std::vector<int> tasks;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(proc_file(pid, "task").c_str()), ::closedir);
  constexpr std::size_t kTasksMax = std::size_t{1} << 15;
  while (folder && tasks.size() < kTasksMax) {
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    if (const auto task = parse_number<int>(entry->d_name)) tasks.push_back(*task);
  }
  return tasks;
}

/// Opens a mapped file, also one in another mount namespace, or one that was removed. Nothing but a plain
/// file is read; a symbolic link in its place would lead into our own namespace, and is not followed.
UniqueFd open_mapped(pid_t pid, const MappedFile& mapped, bool is_executable) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  UniqueFd file;
  if (is_executable)
    file.reset(::open(proc_file(pid, "exe").c_str(), kFlags));
  else if (mapped.deleted)
    file.reset(::open(proc_file(pid, "map_files/" + mapped.range).c_str(), kFlags));
  else
    file.reset(::open(proc_file(pid, "root" + mapped.path).c_str(), kFlags | O_NOFOLLOW));

  struct stat status {};

  if (file && (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))) file.reset();
  return file;
}

/// Whether the process has mapped this very file, and not one that has since taken its path.
bool is_mapped(ProcessMemory& memory, const MappedFile& mapped, FileBytes& file) {
  const std::vector<std::byte> of_file = head_of(file);
  if (of_file.empty() || mapped.offset != 0) return false;
  std::vector<std::byte> of_process(of_file.size());
  return memory.read(mapped.start, of_process.data(), of_process.size()) && of_process == of_file;
}

/// Takes over what the file's name says of its version, where the file itself does not. Returns what makes
/// this build unreadable; empty: nothing.
std::string name_version(const std::string& path, unsigned& version_hex) {
  const NamedVersion named = version_of_name(path);
  if (version_hex == 0) version_hex = named.version_hex;
  if (version_hex == 0) return "its interpreter does not tell its version";
  if (named.flags == "t") return "a free-threaded build of Python is not supported";
  if (named.flags == "d") return "a debug build of Python is not supported";
  return {};
}

}  // namespace

ProcessStacks PythonStackReader::read(pid_t pid, StackDeadline deadline) {
  ProcessStacks stacks;
  const std::uint64_t started = start_time_of(pid);
  if (started != 0)
    stacks = read_python(pid, std::min(deadline, StackDeadline::clock::now() + kProcessAtMost));
  // The same start at both ends: it was one process all the while.
  if (started == 0 || start_time_of(pid) != started) {
    stacks = {};
    stacks.error = "it has ended";
  }
  stacks.pid = pid;
  return stacks;
}

ProcessStacks PythonStackReader::read_python(pid_t pid, StackDeadline deadline) {
  ProcessStacks none;
  ProcessMemory memory(pid, deadline);
  const auto maps = read_maps(pid, memory);
  if (!maps) {
    none.error = read_refusal(pid, errno == EACCES ? EPERM : errno);
    return none;
  }
  if (maps->empty() && !memory.expired()) {
    none.error = "it is about to end";
    return none;
  }
  none.library = sleeps_in(pid, *maps, memory);
  PythonRuntime runtime;
  if (!find_runtime(pid, python_candidates(*maps, executable_of(pid)), memory, runtime, none.error)) {
    if (runtime.version_hex != 0) none.python = version_text(runtime.version_hex);
    return none;
  }
  none.python = version_text(runtime.version_hex);
  const PythonLayout layout = find_layout(memory, runtime, none.error);
  if (layout.version == 0) return none;
  ProcessStacks stacks = read_python_stacks(memory, layout, runtime, pid, tasks_of(pid));
  if (memory.refusal() != 0) stacks.error = read_refusal(pid, memory.refusal());
  stacks.library = none.library;
  return stacks;
}

/// Looks through the files for an interpreter, and where it is in the process.
bool PythonStackReader::find_runtime(pid_t pid, const std::vector<MappedFile>& files, ProcessMemory& memory,
                                     PythonRuntime& runtime, std::string& error) {
  const std::string executable = executable_of(pid);
  for (const MappedFile& mapped : files) {
    const UniqueFd fd = open_mapped(pid, mapped, mapped.path == executable);
    if (!fd) {
      error = "its interpreter's file cannot be opened";
      continue;
    }
    FileBytes file(fd.get(), memory.deadline());
    const std::optional<PythonBinary> binary = binary_of(fd.get(), file);
    if (!binary) continue;
    runtime.version_hex = binary->version_hex;
    error = name_version(mapped.path, runtime.version_hex);
    if (!error.empty()) return false;
    if (!is_mapped(memory, mapped, file)) {
      error = memory.refusal() != 0 ? read_refusal(pid, memory.refusal())
              : memory.expired()    ? "the time for reading it was over"
                                    : "its interpreter's file was replaced since it started";
      return false;
    }
    const std::uint64_t bias = binary->load_bias(mapped.start, mapped.offset);
    runtime.runtime = binary->runtime + bias;
    runtime.code_type = binary->code_type != 0 ? binary->code_type + bias : 0;
    return true;
  }
  if (memory.expired())
    error = "the time for reading it was over";
  else if (error.empty())
    error = kNoPython;
  return false;
}

std::optional<PythonBinary> PythonStackReader::binary_of(int fd, FileBytes& file) {
  struct stat status {};

  if (::fstat(fd, &status) != 0) return std::nullopt;
  const FileId id{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                  status.st_mtim.tv_nsec};
  if (const auto known = known_.find(id); known != known_.end()) return known->second;
  const std::optional<PythonBinary> found = find_python(file);
  if (found || !file.expired()) {
    if (known_.size() >= kBinariesKept) known_.clear();
    known_[id] = found;
  }
  return found;
}

}  // namespace muster::agent

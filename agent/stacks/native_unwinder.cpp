// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/native_unwinder.hpp"

#include "agent/stacks/libdw.hpp"
#include "agent/stacks/mapped_file.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace muster::agent {
namespace {

constexpr std::size_t kNameBytesMax = 256;

/// Cuts a name of another program, and makes it safe to print.
std::string safe_name(std::string_view name) {
  if (name.size() <= kNameBytesMax) return for_terminal(name);
  return for_terminal(name.substr(0, kNameBytesMax)) + "...";
}

std::string_view base_name(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path.substr(path.rfind('/') + 1);
}

/// A long name may become a thousand times as long when it is demangled, so such a one stays as it is.
std::string demangled(const char* name) {
  constexpr std::size_t kMangledMax = 1024;
  if (std::strncmp(name, "_Z", 2) != 0 || ::strnlen(name, kMangledMax + 1) > kMangledMax) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                    std::free);
  return text ? text.get() : name;
}

}  // namespace

/// What libdw's callbacks are called with. None of them throws, as C code is below them.
struct NativeUnwinder::Session {
  struct Call {
    std::uint64_t address = 0;
    /// Whether the address is what the thread executes next, and not where a call returns to.
    bool innermost = false;
  };

  const Libdw& libdw;
  pid_t pid;
  std::string maps;
  Reads reads;
  Dwfl* dwfl = nullptr;
  DwflCallbacks callbacks{};
  DwflThreadCallbacks thread_callbacks{};

  const ThreadCopy* copy = nullptr;
  std::array<Call, kNativeFramesMax> calls{};
  std::size_t count = 0;
  bool more = false;
  /// Where the calls of each thread are, for add_lines().
  std::map<int, std::vector<std::uint64_t>> addresses;

  Session(const Libdw& functions, pid_t process, std::string map, Reads told)
      : libdw(functions), pid(process), maps(std::move(map)), reads(std::move(told)) {}

  /// libdw hands nothing of ours to the callback that opens files.
  static thread_local const Session* present;

  DwflModule* module_at(std::uint64_t address) const;
  NativeFrame frame_of(std::uint64_t address) const;
  void begin();

  static int find_elf(DwflModule*, void**, const char* name, std::uint64_t, char** file_name, Elf** elf);
  static bool get_thread(Dwfl*, pid_t tid, void* argument, void** thread_argument);
  static bool read_memory(Dwfl*, std::uint64_t address, std::uint64_t* result, void* argument);
  static bool set_registers(DwflThread* thread, void* argument);
  static int take_frame(DwflFrame* frame, void* argument);
};

thread_local const NativeUnwinder::Session* NativeUnwinder::Session::present = nullptr;

int NativeUnwinder::Session::find_elf(DwflModule*, void**, const char* name, std::uint64_t, char** file_name,
                                      Elf** elf) {
  try {
    if (present == nullptr || name == nullptr || name[0] != '/') return -1;
    present->reads(name);
    UniqueFd file = open_mapped_file(present->pid, present->maps, name);
    if (!file) return -1;
    // Not mapped into memory: somebody may shorten the file, and a look at what is gone would end us.
    constexpr int kReadWithoutMap = 1;  // ELF_C_READ
    *elf = present->libdw.elf_begin(file.get(), kReadWithoutMap, nullptr);
    if (*elf == nullptr) return -1;
    *file_name = ::strdup(name);
    return file.release();
  } catch (const std::exception&) {
    return -1;
  }
}

bool NativeUnwinder::Session::get_thread(Dwfl*, pid_t, void* argument, void** thread_argument) {
  *thread_argument = argument;
  return true;
}

bool NativeUnwinder::Session::read_memory(Dwfl*, std::uint64_t address, std::uint64_t* result,
                                          void* argument) {
  const ThreadCopy& thread = *static_cast<Session*>(argument)->copy;
  const std::uint64_t begin = thread.stack_begin;
  if (thread.stack.size() < sizeof *result || address < begin ||
      address - begin > thread.stack.size() - sizeof *result)
    return false;
  std::memcpy(result, thread.stack.data() + (address - begin), sizeof *result);
  return true;
}

bool NativeUnwinder::Session::set_registers(DwflThread* thread, void* argument) {
  const Session& session = *static_cast<Session*>(argument);
  const ThreadRegisters& registers = session.copy->registers;
  const bool taken = session.libdw.dwfl_thread_state_registers(
      thread, 0, static_cast<unsigned>(registers.count), registers.values.data());
#if defined(__aarch64__)
  if (taken) session.libdw.dwfl_thread_state_register_pc(thread, registers.program_counter);
#endif
  return taken;
}

int NativeUnwinder::Session::take_frame(DwflFrame* frame, void* argument) {
  constexpr int kGoOn = 0;    // DWARF_CB_OK
  constexpr int kEnough = 1;  // DWARF_CB_ABORT
  Session& session = *static_cast<Session*>(argument);
  Call call;
  if (!session.libdw.dwfl_frame_pc(frame, &call.address, &call.innermost)) return kEnough;
  session.more = session.count == session.calls.size();
  if (session.more) return kEnough;
  session.calls[session.count++] = call;
  // By its tables libdw goes on to the caller.
  (void)session.module_at(call.address);
  return kGoOn;
}

void NativeUnwinder::Session::begin() {
  callbacks.find_elf = find_elf;
  // None: it would look for files of debuggers, even over the network.
  callbacks.find_debuginfo = [](DwflModule*, void**, const char*, std::uint64_t, const char*, const char*,
                                std::uint32_t, char**) { return -1; };
  thread_callbacks.next_thread = [](Dwfl*, void*, void**) -> pid_t { return 0; };
  thread_callbacks.get_thread = get_thread;
  thread_callbacks.memory_read = read_memory;
  thread_callbacks.set_initial_registers = set_registers;
  const auto fail = [this](const char* what) {
    const char* const reason = libdw.dwfl_errmsg(-1);
    throw std::runtime_error(std::string(what) + ": " + (reason != nullptr ? reason : "no reason given"));
  };
  dwfl = libdw.dwfl_begin(&callbacks);
  if (dwfl == nullptr) fail("libdw cannot be started");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> text(::fmemopen(maps.data(), maps.size(), "r"),
                                                             std::fclose);
  if (!text || libdw.dwfl_linux_proc_maps_report(dwfl, text.get()) != 0 ||
      libdw.dwfl_report_end(dwfl, nullptr, nullptr) != 0)
    fail("libdw cannot read the map of its memory");
  if (!libdw.dwfl_attach_state(dwfl, nullptr, pid, &thread_callbacks, this))
    fail("libdw can read none of its files");
}

/// Returns the module, nullptr if there is none, and tells that its file is read next.
DwflModule* NativeUnwinder::Session::module_at(std::uint64_t address) const {
  DwflModule* const module = libdw.dwfl_addrmodule(dwfl, address);
  const char* const path = module == nullptr ? nullptr
                                             : libdw.dwfl_module_info(module, nullptr, nullptr, nullptr,
                                                                      nullptr, nullptr, nullptr, nullptr);
  if (path != nullptr) reads(path);
  return module;
}

NativeFrame NativeUnwinder::Session::frame_of(std::uint64_t address) const {
  NativeFrame frame;
  frame.offset = address;
  DwflModule* const module = module_at(address);
  if (module == nullptr) return frame;
  std::uint64_t start = 0;
  const char* const path =
      libdw.dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (path != nullptr) frame.module = safe_name(base_name(path));
  frame.offset = address - start;
  if (const char* const name = libdw.dwfl_module_addrname(module, address))
    frame.function = safe_name(demangled(name));
  return frame;
}

NativeUnwinder::NativeUnwinder(const Libdw& libdw, pid_t pid, std::string maps, Reads reads)
    : session_(std::make_unique<Session>(libdw, pid, std::move(maps), std::move(reads))) {
  Session::present = session_.get();
  try {
    session_->begin();
  } catch (...) {
    if (session_->dwfl != nullptr) libdw.dwfl_end(session_->dwfl);
    Session::present = nullptr;
    throw;
  }
  Session::present = nullptr;
}

NativeUnwinder::~NativeUnwinder() {
  session_->libdw.dwfl_end(session_->dwfl);
}

NativeThread NativeUnwinder::unwind(const ThreadCopy& copy) {
  NativeThread thread;
  thread.tid = copy.tid;
  thread.name = safe_name(copy.name);
  thread.error = copy.error;
  if (!copy.error.empty()) return thread;
  Session& session = *session_;
  session.copy = &copy;
  session.count = 0;
  session.more = false;
  Session::present = &session;
  // Its end is an error, as the outermost call has no caller.
  session.libdw.dwfl_getthread_frames(session.dwfl, copy.tid, Session::take_frame, &session);
  std::vector<std::uint64_t>& addresses = session.addresses[copy.tid];
  for (std::size_t i = 0; i < session.count; ++i) {
    // A call may be the last thing that a function does, so that it returns to behind the function.
    const Session::Call& call = session.calls[i];
    const std::uint64_t address = call.innermost || call.address == 0 ? call.address : call.address - 1;
    addresses.push_back(address);
    thread.frames.push_back(session.frame_of(address));
  }
  Session::present = nullptr;
  session.copy = nullptr;
  thread.truncated = session.more;
  if (thread.frames.empty()) thread.error = "its stack cannot be unwound";
  return thread;
}

void NativeUnwinder::add_lines(NativeThread& thread) {
  Session& session = *session_;
  Session::present = &session;
  const std::vector<std::uint64_t>& addresses = session.addresses[thread.tid];
  for (std::size_t i = 0; i < std::min(addresses.size(), thread.frames.size()); ++i) {
    DwflModule* const module = session.module_at(addresses[i]);
    DwflLine* const source =
        module != nullptr ? session.libdw.dwfl_module_getsrc(module, addresses[i]) : nullptr;
    if (source == nullptr) continue;
    int line = 0;
    const char* const file = session.libdw.dwfl_lineinfo(source, nullptr, &line, nullptr, nullptr, nullptr);
    if (file == nullptr) continue;
    thread.frames[i].file = safe_name(file);
    thread.frames[i].line = line;
  }
  Session::present = nullptr;
}

}  // namespace muster::agent

// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/libdw.hpp"

#include <dlfcn.h>

#include <mutex>

namespace muster::agent {
namespace {

constexpr const char* kLibrary = "libdw.so.1";

/// Finds a function in the library, or in libelf, which it brings along.
template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Libdw& libdw) {
  return find(library, "dwfl_begin", libdw.dwfl_begin) && find(library, "dwfl_end", libdw.dwfl_end) &&
         find(library, "dwfl_errmsg", libdw.dwfl_errmsg) &&
         find(library, "dwfl_linux_proc_maps_report", libdw.dwfl_linux_proc_maps_report) &&
         find(library, "dwfl_report_end", libdw.dwfl_report_end) &&
         find(library, "dwfl_attach_state", libdw.dwfl_attach_state) &&
         find(library, "dwfl_getthread_frames", libdw.dwfl_getthread_frames) &&
         find(library, "dwfl_thread_state_registers", libdw.dwfl_thread_state_registers) &&
         find(library, "dwfl_thread_state_register_pc", libdw.dwfl_thread_state_register_pc) &&
         find(library, "dwfl_frame_pc", libdw.dwfl_frame_pc) &&
         find(library, "dwfl_addrmodule", libdw.dwfl_addrmodule) &&
         find(library, "dwfl_module_info", libdw.dwfl_module_info) &&
         find(library, "dwfl_module_addrname", libdw.dwfl_module_addrname) &&
         find(library, "dwfl_module_getsrc", libdw.dwfl_module_getsrc) &&
         find(library, "dwfl_lineinfo", libdw.dwfl_lineinfo) &&
         find(library, "elf_version", libdw.elf_version) && find(library, "elf_begin", libdw.elf_begin);
}

/// Returns why it cannot be used; empty: it can.
std::string load(Libdw& libdw) {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    return std::string("elfutils' libdw cannot be loaded (") + (reason != nullptr ? reason : kLibrary) +
           "); install the package libdw1 (Fedora: elfutils-libs) on this host";
  }
  if (!find_all(library, libdw))
    return std::string(kLibrary) + " lacks a function of elfutils 0.158 or newer; install a newer libdw1";
  constexpr unsigned kPresentElf = 1;  // EV_CURRENT
  if (libdw.elf_version(kPresentElf) == 0)
    return std::string(kLibrary) + " does not know this version of ELF; install a newer libdw1";
  return {};
}

}  // namespace

const Libdw* load_libdw(std::string& error) {
  static std::mutex mutex;
  static Libdw libdw;
  static bool loaded = false;
  const std::lock_guard lock(mutex);
  if (!loaded) error = load(libdw);
  loaded = loaded || error.empty();
  return loaded ? &libdw : nullptr;
}

}  // namespace muster::agent

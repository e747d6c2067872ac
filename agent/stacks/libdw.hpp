// SPDX-License-Identifier: Apache-2.0
// elfutils' libdw, loaded when somebody asks for stacks of machine code. Nothing of ours is linked with it,
// and everything else works without it.
//
// Types and functions as in elfutils/libdwfl.h and libelf.h, whose binary interface has not changed since
// 0.158; they are declared here, so that the package with the headers is not needed to build muster.
#pragma once

#include <elf.h>
#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <string>

namespace muster::agent {

struct Dwfl;
struct DwflModule;
struct DwflThread;
struct DwflFrame;
struct DwflLine;
struct Elf;

/// Dwfl_Callbacks.
struct DwflCallbacks {
  int (*find_elf)(DwflModule* module, void** userdata, const char* name, std::uint64_t base, char** file_name,
                  Elf** elf);
  int (*find_debuginfo)(DwflModule* module, void** userdata, const char* name, std::uint64_t base,
                        const char* file_name, const char* debug_link, std::uint32_t crc,
                        char** debuginfo_file_name);
  int (*section_address)(DwflModule* module, void** userdata, const char* name, std::uint64_t base,
                         const char* section, std::uint32_t index, const Elf64_Shdr* header,
                         std::uint64_t* address);
  char** debuginfo_path;
};

/// Dwfl_Thread_Callbacks.
struct DwflThreadCallbacks {
  pid_t (*next_thread)(Dwfl* dwfl, void* argument, void** thread_argument);
  bool (*get_thread)(Dwfl* dwfl, pid_t tid, void* argument, void** thread_argument);
  bool (*memory_read)(Dwfl* dwfl, std::uint64_t address, std::uint64_t* result, void* argument);
  bool (*set_initial_registers)(DwflThread* thread, void* thread_argument);
  void (*detach)(Dwfl* dwfl, void* argument);
  void (*thread_detach)(DwflThread* thread, void* thread_argument);
};

/// The functions that are used; see libdwfl.h and libelf.h.
struct Libdw {
  Dwfl* (*dwfl_begin)(const DwflCallbacks*) = nullptr;
  void (*dwfl_end)(Dwfl*) = nullptr;
  const char* (*dwfl_errmsg)(int) = nullptr;
  int (*dwfl_linux_proc_maps_report)(Dwfl*, std::FILE*) = nullptr;
  int (*dwfl_report_end)(Dwfl*, int (*)(DwflModule*, void*, const char*, std::uint64_t, void*),
                         void*) = nullptr;
  bool (*dwfl_attach_state)(Dwfl*, Elf*, pid_t, const DwflThreadCallbacks*, void*) = nullptr;
  int (*dwfl_getthread_frames)(Dwfl*, pid_t, int (*)(DwflFrame*, void*), void*) = nullptr;
  bool (*dwfl_thread_state_registers)(DwflThread*, int, unsigned, const std::uint64_t*) = nullptr;
  void (*dwfl_thread_state_register_pc)(DwflThread*, std::uint64_t) = nullptr;
  bool (*dwfl_frame_pc)(DwflFrame*, std::uint64_t*, bool*) = nullptr;
  DwflModule* (*dwfl_addrmodule)(Dwfl*, std::uint64_t) = nullptr;
  const char* (*dwfl_module_info)(DwflModule*, void***, std::uint64_t*, std::uint64_t*, std::uint64_t*,
                                  std::uint64_t*, const char**, const char**) = nullptr;
  const char* (*dwfl_module_addrname)(DwflModule*, std::uint64_t) = nullptr;
  DwflLine* (*dwfl_module_getsrc)(DwflModule*, std::uint64_t) = nullptr;
  const char* (*dwfl_lineinfo)(DwflLine*, std::uint64_t*, int*, int*, std::uint64_t*,
                               std::uint64_t*) = nullptr;
  unsigned (*elf_version)(unsigned) = nullptr;
  Elf* (*elf_begin)(int, int, Elf*) = nullptr;
};

/// Loads libdw.so.1 unless an earlier call has; it stays loaded. nullptr if that is not possible: `error`
/// says why, and which package is missing. Any thread; waits for the disk.
const Libdw* load_libdw(std::string& error);

}  // namespace muster::agent

// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/resident_memory.hpp"

#include <link.h>
#include <sys/mman.h>

#include <bit>
#include <cstddef>
#include <functional>

namespace muster {
namespace {

/// Gives back those read-only parts of our executable that `wanted` chooses.
void give_back(const std::function<bool(const ElfW(Phdr) & part)>& wanted) {
  const auto of_executable = [](dl_phdr_info* info, std::size_t, void* choice) {
    const auto& chosen = *static_cast<const std::function<bool(const ElfW(Phdr) & part)>*>(choice);
    const std::size_t page = 4096;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr) part = info->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0 || !chosen(part)) continue;
      const std::size_t begin = (info->dlpi_addr + part.p_vaddr) / page * page;
      const std::size_t end = info->dlpi_addr + part.p_vaddr + part.p_memsz;
      (void)::madvise(std::bit_cast<void*>(begin), end - begin, MADV_DONTNEED);
    }
    return 1;  // the executable comes first; the libraries are shared with other programs
  };
  ::dl_iterate_phdr(of_executable, const_cast<void*>(static_cast<const void*>(&wanted)));
}

}  // namespace

void give_back_relocations() {
  give_back([](const ElfW(Phdr) & part) { return part.p_flags == PF_R && part.p_offset == 0; });
}

void give_back_code() {
  give_back([](const ElfW(Phdr) & part) { return part.p_offset != 0; });
}

}  // namespace muster

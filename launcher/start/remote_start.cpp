// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/remote_start.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/start/core/ssh_command.hpp"
#include "launcher/start/own_program.hpp"
#include "rendezvous/base/fnv1a.hpp"
#include "rendezvous/base/posix.hpp"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace muster::launcher {
namespace {

/// Cuts off what no segment of an executable holds, and the header's mention of it. Other formats than 64-bit
/// ELF are left as they are.
void trim(std::string& image) {
  Elf64_Ehdr header{};
  if (image.size() < sizeof header) throw std::runtime_error("it is no executable");
  std::memcpy(&header, image.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) throw std::runtime_error("it is no executable");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return;
  std::uint64_t end = header.e_phoff + std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (end > image.size()) return;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    std::memcpy(&segment, image.data() + header.e_phoff + static_cast<std::size_t>(i) * sizeof segment,
                sizeof segment);
    end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  if (end > image.size()) return;
  image.resize(end);
  header.e_shoff = 0;
  header.e_shnum = 0;
  header.e_shstrndx = SHN_UNDEF;
  std::memcpy(image.data(), &header, sizeof header);
}

/// Returns a mark that tells one build from another; nobody has to be kept from making a second one of the
/// same mark.
std::string mark_of(const std::string& image) {
  const std::uint64_t hash = fnv1a(image);
  std::string mark;
  for (int shift = 60; shift >= 0; shift -= 4) mark += "0123456789abcdef"[(hash >> shift) & 15];
  return mark;
}

/// Makes the copy of our executable that hosts get. Throws std::runtime_error if it cannot be read or is none
/// of this machine.
void make_image(RemoteStart& start, RemoteProgram& program, const std::string& version) {
  std::string image = read_file(program.own_path).value_or("");
  if (image.empty()) throw std::runtime_error("it cannot be read");
  trim(image);
  start.image.reset(::memfd_create("muster-push", MFD_CLOEXEC));
  if (!start.image || !write_all(start.image.get(), image)) throw_errno("no memory for a copy of it");
  start.push_file = "/proc/self/fd/" + std::to_string(start.image.get());
  program.push_bytes = image.size();
  program.push_name = "muster-" + version + "-" + mark_of(image);
}

}  // namespace

RemoteStart remote_start(const RemoteOptions& options, const std::string& version, bool shell_stays) {
  RemoteStart start;
  RemoteProgram program;
  program.path = options.remote_muster;
  program.own_path = own_executable();
  program.words = options.remote_words;
  if (options.push) {
    try {
      make_image(start, program, version);
    } catch (const std::runtime_error& error) {
      throw UsageError("--push: our own executable '" + program.own_path + "': " + error.what() +
                       "; install muster on the hosts instead");
    }
  }
  try {
    program.shell_stays = shell_stays;
    start.command = remote_command(program);
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--remote-muster: ") + error.what());
  }
  return start;
}

}  // namespace muster::launcher

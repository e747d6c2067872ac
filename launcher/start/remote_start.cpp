// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/remote_start.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/start/core/ssh_command.hpp"
#include "rendezvous/base/fnv1a.hpp"
#include "rendezvous/base/posix.hpp"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <stdexcept>

namespace muster::launcher {
namespace {

/// Cuts what no segment holds, and the header's mention of it. Other formats than 64-bit ELF are left as they
/// are.
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

std::string mark_of(const std::string& image) {
  const std::uint64_t hash = fnv1a(image);
  std::string mark;
  for (int shift = 60; shift >= 0; shift -= 4) mark += "0123456789abcdef"[(hash >> shift) & 15];
  return mark;
}

}  // namespace

PushImage make_push_image(const std::string& path) {
  std::string image = read_file(path).value_or("");
  if (image.empty()) throw std::runtime_error("it cannot be read");
  trim(image);
  PushImage made;
  made.bytes = image.size();
  made.mark = mark_of(image);
  made.fd.reset(::memfd_create("muster-push", MFD_CLOEXEC));
  std::size_t done = 0;
  while (made.fd && done < image.size()) {
    const ssize_t written = ::write(made.fd.get(), image.data() + done, image.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) made.fd.reset();
    done += static_cast<std::size_t>(std::max<ssize_t>(written, 0));
  }
  if (!made.fd) throw_errno("no memory for a copy of it");
  return made;
}

std::string own_executable() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  return size > 0 && size < static_cast<ssize_t>(sizeof path)
             ? std::string(path, static_cast<std::size_t>(size))
             : std::string();
}

RemoteStart remote_start(const RemoteOptions& options, const std::string& version, bool shell_stays) {
  RemoteStart start;
  RemoteProgram program;
  program.path = options.remote_muster;
  program.own_path = own_executable();
  if (options.push) {
    try {
      start.image = make_push_image(program.own_path);
    } catch (const std::runtime_error& error) {
      throw UsageError("--push: our own executable '" + program.own_path + "': " + error.what() +
                       "; install muster on the hosts instead");
    }
    start.push_file = "/proc/self/fd/" + std::to_string(start.image.fd.get());
    program.push_bytes = start.image.bytes;
    program.push_name = "muster-" + version + "-" + start.image.mark;
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

// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/memory_map.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

namespace muster::agent {
namespace {

/// Takes the next word of a line; spaces before it are skipped.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

/// Reads a line such as "7f00-7f01 r-xp 00000000 08:01 1234   /usr/lib/libpython3.11.so.1.0 (deleted)".
std::optional<MappedFile> parse_line(std::string_view line) {
  MappedFile file;
  file.range = take_word(line);
  const auto start = parse_number<std::uint64_t>(file.range.substr(0, file.range.find('-')), 16);
  take_word(line);  // permissions
  const auto offset = parse_number<std::uint64_t>(take_word(line), 16);
  take_word(line);  // device
  const auto inode = parse_number<std::uint64_t>(take_word(line));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (!start || !offset || !inode || !line.starts_with('/')) return std::nullopt;
  constexpr std::string_view kDeleted = " (deleted)";
  file.deleted = line.ends_with(kDeleted);
  if (file.deleted) line.remove_suffix(kDeleted.size());
  file.start = *start;
  file.offset = *offset;
  file.inode = *inode;
  file.path = line;
  return file;
}

bool is_library(std::string_view path) {
  return path.substr(path.rfind('/') + 1).starts_with("libpython");
}

}  // namespace

std::vector<MappedFile> python_candidates(const std::string& maps, const std::string& executable) {
  std::vector<MappedFile> found;
  std::string_view text = maps;
  while (!text.empty() && found.size() < kCandidatesMax) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    // Most lines name neither, and a large program has thousands.
    const std::size_t path_at = line.find('/');
    if (path_at == std::string_view::npos) continue;
    const std::string_view path = line.substr(path_at);
    if (!is_library(path) && !path.starts_with(executable)) continue;
    const auto file = parse_line(line);
    if (!file || (!is_library(file->path) && file->path != executable)) continue;
    const auto same = [&file](const MappedFile& one) { return one.path == file->path; };
    if (std::none_of(found.begin(), found.end(), same)) found.push_back(*file);
  }
  std::stable_partition(found.begin(), found.end(),
                        [](const MappedFile& file) { return is_library(file.path); });
  return found;
}

}  // namespace muster::agent

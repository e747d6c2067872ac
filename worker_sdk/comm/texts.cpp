// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/texts.hpp"

#include <cstdint>

namespace muster {
namespace {

/// What is larger comes from a broken peer.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 32;

void require_size(std::int64_t size, int rank, std::int64_t most = kMaxBytes) {
  if (size < 0 || size > most)
    throw Error(ErrorCode::mismatch, "rank " + std::to_string(rank) + " announces a text of " +
                                         std::to_string(size) + " bytes; run the same program on every rank");
}

void send(ProcessGroup& group, const std::string& text, int to) {
  if (text.empty()) return;
  Operation operation = operation_of(Collective::send, text.size(), DataType::u8, text.data(), nullptr);
  operation.call.root = to;
  group.run(operation);
}

std::string receive(ProcessGroup& group, std::int64_t size, int from) {
  require_size(size, from);
  std::string text(static_cast<std::size_t>(size), '\0');
  if (size == 0) return text;
  Operation operation = operation_of(Collective::recv, text.size(), DataType::u8, nullptr, text.data());
  operation.call.root = from;
  group.run(operation);
  return text;
}

}  // namespace

std::string text_of(ProcessGroup& group, const std::string& mine, int root, std::int64_t most) {
  auto size = static_cast<std::int64_t>(mine.size());
  group.broadcast(&size, sizeof size, root);
  require_size(size, root, most);
  if (size == 0) return "";
  std::string text = mine;
  text.resize(static_cast<std::size_t>(size));
  group.broadcast(text.data(), text.size(), root);
  return text;
}

std::vector<std::string> all_texts(ProcessGroup* group, const std::string& mine) {
  if (group == nullptr || group->size() == 1) return {mine};
  std::vector<std::string> texts;
  for (int rank = 0; rank < group->size(); ++rank) texts.push_back(text_of(*group, mine, rank));
  return texts;
}

std::vector<std::string> texts_at_first(ProcessGroup* group, const std::string& mine) {
  if (group == nullptr || group->size() == 1) return {mine};
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(group->size()));
  sizes[static_cast<std::size_t>(group->rank())] = static_cast<std::int64_t>(mine.size());
  group->all_reduce(sizes.data(), sizes.size(), DataType::i64, ReduceOp::max);
  if (group->rank() != 0) {
    send(*group, mine, 0);
    return {};
  }
  std::vector<std::string> texts = {mine};
  for (int rank = 1; rank < group->size(); ++rank)
    texts.push_back(receive(*group, sizes[static_cast<std::size_t>(rank)], rank));
  return texts;
}

}  // namespace muster

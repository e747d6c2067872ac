// SPDX-License-Identifier: Apache-2.0
#include "agent/process/link_frames.hpp"

#include "rendezvous/base/posix.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace muster::agent {
namespace {

constexpr std::size_t kPieceBytes = 16384;

/// Waits until `fd` can be read or written; false at the deadline.
bool wait_for(int fd, short events, FrameDeadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd watched{fd, events, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_errno("poll");
  }
}

LinkMessage message_in(std::string_view body, std::string_view waiting_for) {
  const rendezvous::Frame frame = rendezvous::decode_body(body);
  if (frame.kind != rendezvous::FrameKind::aside)
    throw std::runtime_error("the other end sent what is for the agent where the " +
                             std::string(waiting_for) + " was expected");
  return decode_link_message(frame.payload);
}

/// Reads exactly `size` bytes. Keys come this way: up to kPieceBytes, no copy of a byte is left behind.
std::string read_exactly(int fd, std::size_t size, FrameDeadline deadline, std::string_view waiting_for) {
  std::string bytes;
  bytes.reserve(std::min(size, kPieceBytes));
  while (bytes.size() < size) {
    if (!wait_for(fd, POLLIN, deadline))
      throw std::runtime_error("no " + std::string(waiting_for) + " came from the launcher in time");
    const std::size_t had = bytes.size();
    bytes.resize(had + std::min(size - had, kPieceBytes));
    const ssize_t got = ::read(fd, bytes.data() + had, bytes.size() - had);
    bytes.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) throw_errno("cannot read the launcher's orders");
    if (got == 0)
      throw std::runtime_error("the launcher went away before it sent the " + std::string(waiting_for));
  }
  return bytes;
}

}  // namespace

LinkMessage read_link_message(int fd, FrameDeadline deadline, std::string_view waiting_for) {
  rendezvous::FrameDecoder decoder(rendezvous::kMaxControlFrameBytes);
  const std::string header = read_exactly(fd, rendezvous::kFrameHeaderBytes, deadline, waiting_for);
  decoder.feed(header);  // the decoder judges the length
  std::size_t length = 0;
  for (const char byte : header) length = length << 8U | static_cast<unsigned char>(byte);
  std::string payload = read_exactly(fd, length, deadline, waiting_for);
  LinkMessage message = message_in(payload, waiting_for);
  if (message.kind == LinkMessage::Kind::key) ::explicit_bzero(payload.data(), payload.size());
  return message;
}

void write_bytes(int fd, std::string_view bytes, FrameDeadline deadline) {
  while (!bytes.empty()) {
    if (!wait_for(fd, POLLOUT, deadline))
      throw std::runtime_error("the launcher takes no bytes from its link");
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR && errno != EAGAIN) throw_errno("cannot write to the launcher");
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void write_link_message(int fd, const LinkMessage& message, FrameDeadline deadline) {
  const std::string payload = encode(message);
  rendezvous::Frame aside;
  aside.kind = rendezvous::FrameKind::aside;
  aside.payload = payload;
  write_bytes(fd, rendezvous::encode_frame(aside), deadline);
}

bool LinkMessageReader::read(int fd, const std::function<void(const LinkMessage&)>& take) {
  char buffer[512];
  ssize_t size = 0;
  while ((size = ::read(fd, buffer, sizeof buffer)) > 0) {
    std::string_view bytes(buffer, static_cast<std::size_t>(size));
    while (!bytes.empty()) {
      bytes.remove_prefix(decoder_.feed(bytes));
      if (decoder_.ready()) take(message_in(decoder_.take(), "guardian's notice"));
    }
  }
  return size < 0 && (errno == EAGAIN || errno == EINTR);
}

}  // namespace muster::agent

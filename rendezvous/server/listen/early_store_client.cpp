// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listen/early_store_client.hpp"

#include "rendezvous/c10d/wire.hpp"
#include "rendezvous/tls/tls_stream.hpp"
#include "rendezvous/wire/byte_stream.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <utility>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

/// The beginning of every key of torchrun's rendezvous, after the '/' that PyTorch's client puts before all
/// keys.
constexpr std::string_view kTorchrunKey = "torch.rendezvous.";

/// Bytes of VALIDATE and of PING: an operation and a number.
constexpr std::size_t kShortRequest = 1 + sizeof(std::uint32_t);
/// Bytes before a request's key: an operation and the key's length.
constexpr std::size_t kBeforeKey = 1 + sizeof(std::uint64_t);
/// The most bytes that are read of a client.
constexpr std::size_t kMaxBytes = 2 * kShortRequest + kBeforeKey + 1 + kTorchrunKey.size();

/// The most bytes that are read of a first TLS message at a port that does not speak TLS.
constexpr std::size_t kFirstTlsBytes = 4096;

bool begins_with(std::string_view said, c10d::Op op) {
  return !said.empty() && static_cast<std::uint8_t>(said.front()) == static_cast<std::uint8_t>(op);
}

/// Reads what a client says, and returns whether it asks for a key of torchrun.
asio::awaitable<bool> listen_to(std::shared_ptr<ByteStream> stream) {
  std::array<char, kMaxBytes> bytes{};
  std::size_t size = 0;
  bool answered = false;
  while (size < bytes.size()) {
    const asio::mutable_buffer target = asio::buffer(bytes) + size;
    size += co_await stream->read_some(target);
    const EarlyWords words = read_early_words({bytes.data(), size});
    if (words.kind == EarlyWords::Kind::torchrun) co_return true;
    if (words.kind == EarlyWords::Kind::other) co_return false;
    if (words.pong.empty() || std::exchange(answered, true)) continue;
    const asio::const_buffer source = asio::buffer(words.pong);
    co_await stream->write_all(source);
  }
  co_return false;
}

}  // namespace

EarlyWords read_early_words(std::string_view said) {
  using Kind = EarlyWords::Kind;
  EarlyWords words;
  if (begins_with(said, c10d::Op::validate) && said.size() >= kShortRequest &&
      c10d::load<std::uint32_t>(said.data() + 1) == c10d::kValidateMagic) {
    said.remove_prefix(kShortRequest);
    if (begins_with(said, c10d::Op::ping)) {
      if (said.size() < kShortRequest) return words;
      words.pong = said.substr(1, kShortRequest - 1);
      said.remove_prefix(kShortRequest);
    }
  }
  if (said.size() < kBeforeKey) return words;
  if (c10d::load<std::uint64_t>(said.data() + 1) < kTorchrunKey.size()) {
    words.kind = Kind::other;
    return words;
  }
  said.remove_prefix(kBeforeKey);
  if (said.starts_with('/')) said.remove_prefix(1);
  const std::string_view key = said.substr(0, kTorchrunKey.size());
  if (key != kTorchrunKey.substr(0, key.size()))
    words.kind = Kind::other;
  else if (key.size() == kTorchrunKey.size())
    words.kind = Kind::torchrun;
  return words;
}

asio::awaitable<std::string> describe_early_client(asio::any_io_executor executor, UniqueFd fd,
                                                   TimePoint deadline) {
  const std::shared_ptr<ByteStream> stream = adopt_socket(executor, fd.release());
  asio::steady_timer timer(executor, deadline);
  timer.async_wait([stream](boost::system::error_code error) {
    if (!error) stream->close();
  });
  bool torchrun = false;
  try {
    torchrun = co_await listen_to(stream);
  } catch (const boost::system::system_error&) {
    // The client has gone, or its time is over; it is refused all the same.
  }
  stream->close();
  if (torchrun)
    co_return "it is an agent of torchrun, but this port belongs to a job of muster: start `muster run` with the "
              "same flags on that host instead";
  co_return "it speaks the store's protocol before the job's first round is complete; only the job's workers, "
            "which start then, are served";
}

void answer_plainly(UniqueFd fd, const std::string& words) {
  const std::string line = std::string(kPlainWordsStart) + words + "\n";
  // A socket that is closed with unread data is reset, and the reset might destroy the words; so the data is
  // read first. Errors are ignored, since the connection ends in any case.
  std::array<char, kFirstTlsBytes> unread{};
  (void)::recv(fd.get(), unread.data(), unread.size(), MSG_DONTWAIT);
  (void)::send(fd.get(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace muster::rendezvous

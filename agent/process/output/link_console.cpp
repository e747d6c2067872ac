// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/link_console.hpp"

#include "agent/core/link_message.hpp"

#include <utility>

namespace muster::agent {

/// A channel, and the bytes that wait for room in it.
struct LinkConsole::Stream {
  std::string what;
  std::shared_ptr<rendezvous::Channel> channel;
  std::function<void()> emptied;
  std::string pending;
  /// Bytes of `pending` that have been sent.
  std::size_t begin = 0;
  bool stopped = false;
  /// Whether nobody takes anything any more: the other side has closed the channel, or the link is over.
  bool closed = false;
  /// Bytes that nobody will take any more.
  std::size_t dropped = 0;

  std::string_view rest() const { return std::string_view(pending).substr(begin); }
};

class LinkConsole::Sink final : public ConsoleSink {
 public:
  Sink(std::shared_ptr<LinkConsole> console, std::shared_ptr<Stream> stream)
      : console_(std::move(console)), stream_(std::move(stream)) {}

  void append(std::string_view bytes) override {
    if (bytes.empty() || stream_->stopped) return;
    stream_->pending.append(bytes);
    console_->pump(*stream_);
  }

  bool full() const override { return !stream_->rest().empty(); }

  void stop() override {
    if (std::exchange(stream_->stopped, true) || full() || console_->given_up_) return;
    stream_->channel->close(std::string(kAllWasSent));
  }

  bool ended() const override { return stream_->stopped && !full(); }

  std::size_t unwritten() const override { return stream_->rest().size(); }

  std::vector<std::string> notes() const override {
    if (stream_->dropped == 0) return {};
    return {std::to_string(stream_->dropped) + " bytes that workers printed on " + stream_->what +
            " were dropped: the launcher did not take them"};
  }

 private:
  std::shared_ptr<LinkConsole> console_;
  std::shared_ptr<Stream> stream_;
};

namespace {

/// Returns what to send next, up to the end of a line where that is possible: the channel may have no more
/// room for as long as nobody reads, and what other nodes print would come in between.
std::string_view next_piece(std::string_view rest) {
  if (rest.size() <= kLinkPieceBytes) return rest;
  const std::size_t line_end = rest.substr(0, kLinkPieceBytes).rfind('\n');
  return rest.substr(0, line_end == std::string_view::npos ? kLinkPieceBytes : line_end + 1);
}

}  // namespace

std::unique_ptr<ConsoleSink> LinkConsole::make_sink(std::string what, std::function<void()> emptied) {
  const auto stream = std::make_shared<Stream>();
  stream->channel = open_(what);
  stream->what = std::move(what);
  stream->emptied = std::move(emptied);
  rendezvous::Channel::Handlers handlers;
  handlers.writable = [weak = weak_from_this(), weak_stream = std::weak_ptr<Stream>(stream)] {
    const auto self = weak.lock();
    const auto its = weak_stream.lock();
    if (self && its) self->pump(*its);
  };
  handlers.closed = [weak = weak_from_this(), weak_stream = std::weak_ptr<Stream>(stream)](const auto&) {
    const auto self = weak.lock();
    const auto its = weak_stream.lock();
    if (!self || !its) return;
    its->closed = true;
    self->pump(*its);
  };
  stream->channel->handle(std::move(handlers));
  std::erase_if(streams_, [](const auto& weak) { return weak.expired(); });
  streams_.push_back(stream);
  return std::make_unique<Sink>(shared_from_this(), stream);
}

void LinkConsole::give_up() {
  given_up_ = true;
  for (const auto& weak : streams_)
    if (const auto stream = weak.lock()) pump(*stream);
}

std::size_t LinkConsole::waiting() const {
  std::size_t bytes = 0;
  for (const auto& weak : streams_)
    if (const auto stream = weak.lock()) bytes += stream->rest().size();
  return bytes;
}

void LinkConsole::pump(Stream& stream) {
  if (stream.rest().empty()) return;
  const bool gone = given_up_ || stream.closed;
  while (!gone && !stream.rest().empty()) {
    const std::string_view piece = next_piece(stream.rest());
    if (piece.size() > stream.channel->writable()) return;
    stream.channel->send(piece);
    stream.begin += piece.size();
    sent_ += piece.size();
  }
  stream.dropped += stream.rest().size();
  stream.pending.clear();
  stream.begin = 0;
  if (stream.stopped && !gone) stream.channel->close(std::string(kAllWasSent));
  stream.emptied();
}

}  // namespace muster::agent

// SPDX-License-Identifier: Apache-2.0
#include "agent/nccl_ras_client.hpp"

#include "rendezvous/base/host_port.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/net/interface_choice.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace muster::agent {
namespace {

using boost::asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr const char* kAddressVariable = "NCCL_RAS_ADDR";
constexpr const char* kEnableVariable = "NCCL_RAS_ENABLE";
/// The time in seconds that NCCL takes for ranks that do not answer, within our own.
constexpr std::string_view kQuestion = "timeout 2\nset format json\nverbose status\n";
constexpr std::chrono::seconds kNcclAnswersWithin{3};
/// Some 12,000 ranks; of an answer that is longer nothing is read.
constexpr std::size_t kAnswerBytesMax = 8 << 20;

/// A socket that is bound and does not listen: it keeps the port from being given to somebody else, while
/// sockets of the same user that set SO_REUSEPORT, as NCCL's do, can still be bound to it. With SO_REUSEADDR
/// anybody's could, who sets that, too.
UniqueFd reserve_port() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return UniqueFd();
  return fd;
}

/// The endpoint of a numeric address or of "localhost"; nullopt for other names, which are not looked up.
std::optional<tcp::endpoint> endpoint_of(const std::string& text) {
  const auto parts = parse_host_port(text);
  if (!parts || parts->port == 0) return std::nullopt;
  boost::system::error_code error;
  const auto address =
      boost::asio::ip::make_address(parts->host == "localhost" ? "127.0.0.1" : parts->host, error);
  if (error) return std::nullopt;
  return tcp::endpoint(address, static_cast<unsigned short>(parts->port));
}

/// Loopback alone where the others cannot be listed.
std::vector<std::string> addresses_of_this_host() {
  try {
    return rendezvous::local_addresses();
  } catch (const std::runtime_error&) {
    return {"127.0.0.1", "::1"};
  }
}

bool is_of_this_host(const tcp::endpoint& endpoint, const std::vector<std::string>& hosts) {
  return endpoint.address().is_loopback() ||
         std::find(hosts.begin(), hosts.end(), endpoint.address().to_string()) != hosts.end();
}

}  // namespace

/// A question on its way. Its handlers keep it alive, and do nothing once `client` is gone.
struct NcclRasClient::Question : std::enable_shared_from_this<Question> {
  Question(NcclRasClient& asking, Clock::time_point now)
      : client(&asking), asked_at(now), socket(asking.executor_), timer(asking.executor_) {}

  void start(const tcp::endpoint& endpoint) {
    timer.expires_after(kNcclAnswersWithin);
    timer.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->close();
    });
    socket.async_connect(endpoint, [self = shared_from_this()](const boost::system::error_code& error) {
      if (error) return self->end();
      boost::asio::async_write(self->socket, boost::asio::buffer(kQuestion),
                               [self](const boost::system::error_code& failed, std::size_t) {
                                 if (failed) return self->end();
                                 self->read();
                               });
    });
  }

  void read() {
    boost::asio::async_read(socket, boost::asio::dynamic_buffer(answer, kAnswerBytesMax),
                            [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                              // NCCL closes the connection behind its answer; what is cut off for its length
                              // or the time is none.
                              if (error == boost::asio::error::eof && self->client != nullptr)
                                self->client->answered(*self);
                              self->end();
                            });
  }

  void close() {
    boost::system::error_code ignored;
    socket.close(ignored);
  }

  void end() {
    timer.cancel();
    close();
    if (client != nullptr) client->question_.reset();
  }

  NcclRasClient* client;
  Clock::time_point asked_at;
  tcp::socket socket;
  boost::asio::steady_timer timer;
  std::string answer;
};

NcclRasClient::NcclRasClient(const boost::asio::any_io_executor& executor, std::chrono::milliseconds ask_each,
                             bool has_gpus)
    : executor_(executor), ask_each_(ask_each), has_gpus_(has_gpus) {}

NcclRasClient::~NcclRasClient() {
  if (!question_) return;
  question_->client = nullptr;
  question_->timer.cancel();
  question_->close();
}

bool NcclRasClient::has_nvidia_driver() {
  return ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/proc/driver/nvidia/version", F_OK) == 0;
}

void NcclRasClient::prepare(Environment& environment) {
  if (const std::string* enabled = find_variable(environment, kEnableVariable);
      enabled != nullptr && *enabled == "0")
    return;
  if (const std::string* chosen = find_variable(environment, kAddressVariable)) {
    address_ = *chosen;
    return;
  }
  if (!reserved_ && has_gpus_) {
    reserved_ = reserve_port();
    if (reserved_) reserved_address_ = rendezvous::local_end(reserved_.get()).text();
  }
  if (!reserved_) return;
  address_ = reserved_address_;
  environment.emplace_back(kAddressVariable, address_);
}

void NcclRasClient::ask() {
  const auto now = Clock::now();
  if (address_.empty() || question_ || (asked_at_ && now - *asked_at_ < ask_each_)) return;
  asked_at_ = now;
  if (hosts_.empty()) hosts_ = addresses_of_this_host();
  const auto endpoint = endpoint_of(address_);
  if (!endpoint || !is_of_this_host(*endpoint, hosts_)) return;
  question_ = std::make_shared<Question>(*this, now);
  question_->start(*endpoint);
}

void NcclRasClient::answered(const Question& question) {
  before_ = std::exchange(last_, {nccl_ranks(question.answer), question.asked_at});
}

std::optional<std::uint64_t> NcclRasClient::launched_by(int pid) const {
  const NcclRank* const rank = find_nccl_rank(last_.ranks, pid, hosts_);
  return rank != nullptr ? std::optional(rank->launched) : std::nullopt;
}

std::optional<NcclWait> NcclRasClient::wait_of(int pid, Clock::time_point since) const {
  if (before_.asked_at < since) return std::nullopt;
  const NcclRank* const now = find_nccl_rank(last_.ranks, pid, hosts_);
  const NcclRank* const before = find_nccl_rank(before_.ranks, pid, hosts_);
  const bool lasts = now != nullptr && before != nullptr && now->wait == before->wait;
  return lasts ? now->wait : std::nullopt;
}

}  // namespace muster::agent

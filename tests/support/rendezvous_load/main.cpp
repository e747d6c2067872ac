// SPDX-License-Identifier: Apache-2.0
// A rendezvous daemon of many machines under load, with the machines simulated by addresses of 127.0.0.0/8,
// or real ones in namespaces (HOST):
//   rendezvous_load serve NODES [HOST]              the daemon and its own host's agent; prints {"port":N},
//   ends
//                                                   at the end of stdin
//   rendezvous_load agents PORT COUNT IDLE_SECONDS
//   rendezvous_load probe PORT SECONDS HOST
//   rendezvous_load attack KIND RATE BURST HOST PORT SECONDS [SOURCE_PREFIX]
// The first line of stdin is the job's key in hexadecimal digits (of an attack: any).
#include "rendezvous/server/daemon/embedded_daemon.hpp"
#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/server/listen_socket.hpp"
#include "tests/support/rendezvous_load/load.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <thread>

namespace muster::load {
namespace {

using namespace rendezvous;

/// In every round, until the program ends.
boost::asio::awaitable<void> take_part(CoordinatorClient& client, boost::asio::steady_timer& round_ended) {
  const TimePoint deadline = Clock::now() + std::chrono::hours(1);
  for (;;) {
    round_ended.expires_at(deadline);
    Join request = join_request("n0");
    const RoundResult place = co_await client.join(std::move(request), deadline);
    co_await wait(round_ended);
    LeaveRound leave = leaving(place.round, RoundOutcome::stopped);
    co_await client.leave_round(std::move(leave), deadline);
  }
}

/// The agent on the daemon's host.
void run_local_agent(int control_fd) {
  boost::asio::io_context context(1);
  ClientOptions options = client_options("n0");
  options.lost_after = Milliseconds(0);
  CoordinatorClient* answering = nullptr;
  boost::asio::steady_timer round_ended(context);
  ClientEvents events;
  events.round_ended = [&round_ended](const RoundEnd& end) {
    if (end.again) round_ended.expires_at(Clock::now());
  };
  events.vouch = [&answering](const Vouch& question) {
    Vouched answer;
    answer.id = question.id;
    answer.allowed = true;
    answering->tell(answer);
  };
  CoordinatorClient client(context.get_executor(), control_fd, options, std::move(events));
  answering = &client;
  boost::asio::co_spawn(context, take_part(client, round_ended), [](const std::exception_ptr&) {});
  context.run();
}

int serve(const Secret& secret, int nodes, const std::string& host) {
  ListenSocket listener = open_listen_socket(host, 0, true, false);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 1;
  EmbeddedOptions options;
  options.control_fd = ends[0];
  options.run_id = "load";
  options.limits.min_nodes = options.limits.max_nodes = nodes;
  EmbeddedOptions::Network network;
  network.listen_fd = listener.fd.release();
  network.job_secret = std::make_shared<const Secret>(secret.copy());
  options.limits.max_restarts = 1;
  options.network = std::move(network);
  std::printf("{\"port\":%d}\n", static_cast<int>(listener.address.port()));
  std::fflush(stdout);
  std::thread(run_local_agent, ends[1]).detach();
  std::thread([] {
    std::string ignored;
    while (std::getline(std::cin, ignored)) {
    }
    std::_Exit(0);
  }).detach();
  return run_embedded_daemon(std::move(options));
}

int run(int count, char** arguments) {
  std::string line;
  std::getline(std::cin, line);
  const Secret secret = Secret::from_hex(line);
  cleanse(line.data(), line.size());
  raise_descriptor_limit();
  const std::string mode = arguments[1];
  const auto number = [&](int index) { return std::atoi(arguments[index]); };
  if (mode == "serve" && (count == 3 || count == 4))
    return serve(secret, number(2), count == 4 ? arguments[3] : "127.0.0.1");
  if (mode == "agents" && count == 5) return run_agents(secret, number(2), number(3), number(4));
  if (mode == "probe" && count == 5) return run_probe(secret, {arguments[4], number(2)}, number(3));
  if (mode == "attack" && (count == 8 || count == 9))
    return run_attack({arguments[2],
                       number(3),
                       number(4),
                       {arguments[5], number(6)},
                       count == 9 ? arguments[8] : "",
                       number(7)});
  return 2;
}

}  // namespace
}  // namespace muster::load

int main(int count, char** arguments) {
  try {
    return count < 3 ? 2 : muster::load::run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rendezvous_load: %s\n", error.what());
    return 1;
  }
}

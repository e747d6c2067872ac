// SPDX-License-Identifier: Apache-2.0
// JSON values to messages.
#include "rendezvous/protocol/message_fields.hpp"

#include <algorithm>

namespace muster::rendezvous {
namespace {

int exit_code(const Fields& f, int absent) {
  return f.integer_or("exit_code", 0, kMaxExitCode, absent);
}

int rank(const Fields& f) {
  return f.integer_or("rank", -1, kMaxWorldSize, -1);
}

Milliseconds delay(const Fields& f) {
  return Milliseconds(f.integer_or("delay_ms", 0, kMaxInt, 0));
}

Message hello(const Fields& f) {
  Hello m;
  m.version_min = f.integer("version_min", 1, kMaxInt);
  m.version_max = f.integer("version_max", m.version_min, kMaxInt);
  m.run_id = f.name("run_id");
  m.node = f.filled_name("node");
  m.incarnation = f.counter("incarnation");
  m.role = f.word_or("role", kRoles);
  m.software = f.name_or_empty("software");
  m.host = f.name_or_empty("host");
  m.nonce = f.name_or_empty("nonce");
  m.session = f.counter_or_0("session");
  m.received = f.counter_or_0("received");
  return m;
}

Message hello_ok(const Fields& f) {
  HelloOk m;
  m.version = f.integer("version", 1, kMaxInt);
  m.run_id = f.name("run_id");
  m.nonce = f.name_or_empty("nonce");
  m.session = f.counter_or_0("session");
  m.received = f.counter_or_0("received");
  m.software = f.name_or_empty("software");
  return m;
}

Message join(const Fields& f) {
  Join m;
  m.host = f.name("host");
  m.address = f.name("address");
  m.workers = f.integer("workers", 1, kMaxWorkersPerNode);
  m.round = f.integer("round", 0, kMaxInt);
  m.node_rank = f.integer_or("node_rank", -1, kMaxWorldSize, -1);
  if (f.has("settings")) m.settings = f.named_values("settings", kMaxSettings);
  if (f.has("addresses")) m.addresses = f.names("addresses", kMaxAddresses);
  return m;
}

Message status(const Fields& f) {
  Status m;
  m.round = f.integer("round", 0, kMaxInt);
  m.joined = f.integer("joined", 0, kMaxInt);
  m.wanted = f.integer("wanted", 0, kMaxInt);
  m.missing = f.names("missing", kMaxNamesInText);
  m.text = f.text("text");
  return m;
}

Message round_result(const Fields& f) {
  RoundResult m;
  m.round = f.integer("round", 0, kMaxInt);
  m.nodes = f.integer("nodes", 1, kMaxWorldSize);
  m.node_rank = f.integer("node_rank", 0, m.nodes - 1);
  m.world_size = f.integer("world_size", m.nodes, kMaxWorldSize);
  m.first_rank = f.integer("first_rank", m.node_rank, m.world_size - 1);
  m.store_host = f.name("store_host");
  m.store_port = f.integer("store_port", 1, 65535);
  m.restarts = f.integer_or("restarts", 0, kMaxInt, 0);
  return m;
}

Message fail_round(const Fields& f) {
  FailRound m;
  m.round = f.integer("round", 0, kMaxInt);
  m.text = f.text("text");
  m.exit_code = exit_code(f, 1);
  m.host = f.name_or_empty("host");
  m.rank = rank(f);
  m.signal = f.integer_or("signal", 0, kMaxSignal, 0);
  m.error_line = f.error_line_or_empty("error_line");
  m.stepped = f.flag_or("stepped", false);
  return m;
}

Message leave_round(const Fields& f) {
  return LeaveRound{f.integer("round", 0, kMaxInt), f.word("outcome", kOutcomes), exit_code(f, 1),
                    f.text_or_empty("text")};
}

Message left(const Fields& f) {
  return Left{f.integer("round", 0, kMaxInt), f.word_or("next", kNextSteps),
              f.integer_or("restarts", 0, kMaxInt, 0), delay(f), f.text_or_empty("decision")};
}

Message round_end(const Fields& f) {
  RoundEnd m;
  m.round = f.integer("round", 0, kMaxInt);
  m.cause = f.word("cause", kCauses);
  m.node = f.name("node");
  m.text = f.text("text");
  m.exit_code = exit_code(f, 0);
  m.host = f.name_or_empty("host");
  m.rank = rank(f);
  m.again = f.flag_or("again", false);
  m.restarts = f.integer_or("restarts", 0, kMaxInt, 0);
  m.delay = delay(f);
  m.decision = f.text_or_empty("decision");
  return m;
}

Message heartbeat(const Fields& f) {
  return Heartbeat{f.counter("sequence"), f.counter_or_0("received")};
}

Message job_closed(const Fields& f) {
  JobClosed m;
  m.reason = f.text("reason");
  m.succeeded = f.flag_or("succeeded", false);
  m.exit_code = exit_code(f, 0);
  m.node = f.name_or_empty("node");
  m.host = f.name_or_empty("host");
  m.rank = rank(f);
  return m;
}

Message error_reply(const Fields& f) {
  const std::optional<Errc> code = errc_from(f.name("code"));
  if (!code) f.complain("code", "has an unknown value");
  return ErrorReply{*code, f.name("about"), f.text("text")};
}

Message ack(const Fields& f) {
  return Ack{f.counter("received")};
}

Message node_state(const Fields& f) {
  return NodeState{f.filled_name("node"), f.text_or_empty("text"), f.flag_or("ago", false),
                   f.flag_or("ended", false)};
}

Message vouch(const Fields& f) {
  Vouch m;
  m.id = f.counter("id");
  m.peer_host = f.filled_name("peer_host");
  m.peer_port = f.integer("peer_port", 1, 65535);
  m.local_host = f.filled_name("local_host");
  m.local_port = f.integer("local_port", 1, 65535);
  return m;
}

Message vouched(const Fields& f) {
  if (!f.has("allowed")) f.complain("allowed", "is missing");
  return Vouched{f.counter("id"), f.flag_or("allowed", false), f.text_or_empty("reason")};
}

Message launcher_state(const Fields& f) {
  return LauncherState{f.flag_or("known", false), f.flag_or("connected", false),
                       Milliseconds(f.integer_or("gone_ms", 0, kMaxInt, 0)), f.flag_or("ended", false)};
}

Message channel_open(const Fields& f) {
  return ChannelOpen{f.word32("channel"), f.word("kind", kChannelKinds), f.name_or_empty("node")};
}

Message channel_credit(const Fields& f) {
  return ChannelCredit{f.word32("channel"), f.word32("bytes")};
}

Message channel_close(const Fields& f) {
  return ChannelClose{f.word32("channel"), f.text_or_empty("reason")};
}

struct Kind {
  std::string_view name;
  Message (*read)(const Fields&);
};

/// In the order of the variant's alternatives.
constexpr std::array<Kind, std::variant_size_v<Message>> kKinds{{{"hello", hello},
                                                                 {"hello_ok", hello_ok},
                                                                 {"join", join},
                                                                 {"status", status},
                                                                 {"round_result", round_result},
                                                                 {"fail_round", fail_round},
                                                                 {"leave_round", leave_round},
                                                                 {"left", left},
                                                                 {"round_end", round_end},
                                                                 {"heartbeat", heartbeat},
                                                                 {"job_closed", job_closed},
                                                                 {"error", error_reply},
                                                                 {"ack", ack},
                                                                 {"node_state", node_state},
                                                                 {"vouch", vouch},
                                                                 {"vouched", vouched},
                                                                 {"launcher_state", launcher_state},
                                                                 {"channel_open", channel_open},
                                                                 {"channel_credit", channel_credit},
                                                                 {"channel_close", channel_close}}};

}  // namespace

std::string_view type_name(const Message& message) {
  return kKinds[message.index()].name;
}

Message (*reader_of(std::string_view type))(const Fields&) {
  const auto* const found =
      std::find_if(kKinds.begin(), kKinds.end(), [type](const Kind& kind) { return kind.name == type; });
  return found == kKinds.end() ? nullptr : found->read;
}

}  // namespace muster::rendezvous

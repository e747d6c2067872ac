// SPDX-License-Identifier: Apache-2.0
// Lists the fields of every message, each once, for both the reader and the writer.
#include "rendezvous/protocol/message_fields.hpp"

#include <algorithm>

namespace muster::rendezvous {
namespace {

constexpr Words<Role, 3> kRoles{
    {{Role::node, "node"}, {Role::launcher, "launcher"}, {Role::observer, "observer"}}};

constexpr Words<RestartRule, 3> kRestartRules{{{RestartRule::backoff, kRestartRuleNames[0]},
                                               {RestartRule::progress, kRestartRuleNames[1]},
                                               {RestartRule::torchrun, kRestartRuleNames[2]}}};

constexpr Words<RoundOutcome, 3> kOutcomes{{{RoundOutcome::succeeded, "succeeded"},
                                            {RoundOutcome::failed, "failed"},
                                            {RoundOutcome::stopped, "stopped"}}};

constexpr Words<NextStep, 3> kNextSteps{
    {{NextStep::join, "join"}, {NextStep::wait, "wait"}, {NextStep::end, "end"}}};

constexpr Words<ChannelKind, 2> kChannelKinds{{{ChannelKind::store, "store"}, {ChannelKind::link, "link"}}};

constexpr Words<HangAction, 3> kHangActions{{{HangAction::report, kHangActionNames[0]},
                                             {HangAction::restart, kHangActionNames[1]},
                                             {HangAction::abort, kHangActionNames[2]}}};

/// The type of a message to which FieldReader writes, or which FieldWriter reads.
template <typename F, typename Type>
using M = typename std::remove_const_t<F>::template Of<Type>;

template <typename F>
void list(F& f, M<F, JobLimits>& m) {
  f.integer("min_nodes", m.min_nodes, 1, kMaxWorldSize);
  f.integer("max_nodes", m.max_nodes, m.min_nodes, kMaxWorldSize);
  f.integer("max_restarts", m.max_restarts, 0, kMaxInt);
  f.word("restart_policy", m.restart_rule, kRestartRules);
  f.duration("join_timeout_ms", m.join_timeout);
  f.duration("last_call_timeout_ms", m.last_call_timeout);
  f.flag("store_proxy", m.store_proxy);
  f.duration("hang_timeout_ms", m.hang_timeout);
  f.word("on_hang", m.on_hang, kHangActions, Need::optional);
}

template <typename F>
void list(F& f, M<F, Hello>& m) {
  f.integer("version_min", m.version_min, 1, kMaxInt);
  f.integer("version_max", m.version_max, m.version_min, kMaxInt);
  f.name("run_id", m.run_id);
  f.filled_name("node", m.node);
  f.counter("incarnation", m.incarnation);
  f.word("role", m.role, kRoles, Need::optional);
  f.name("software", m.software, Need::optional);
  f.name("host", m.host, Need::optional);
  f.name("nonce", m.nonce, Need::optional);
  f.counter("session", m.session, Need::optional);
  f.counter("received", m.received, Need::optional);
  f.object("limits", m.limits, [](auto& fields, auto& limits) {
    list<std::remove_reference_t<decltype(fields)>>(fields, limits);
  });
}

template <typename F>
void list(F& f, M<F, HelloOk>& m) {
  f.integer("version", m.version, 1, kMaxInt);
  f.name("run_id", m.run_id);
  f.name("nonce", m.nonce, Need::optional);
  f.counter("session", m.session, Need::optional);
  f.counter("received", m.received, Need::optional);
  f.name("software", m.software, Need::optional);
}

template <typename F>
void list(F& f, M<F, Join>& m) {
  f.name("host", m.host);
  f.name("address", m.address);
  f.integer("workers", m.workers, 1, kMaxWorkersPerNode);
  f.integer("round", m.round, 0, kMaxInt);
  f.integer("node_rank", m.node_rank, -1, kMaxWorldSize, Need::optional);
  f.named_values("settings", m.settings, kMaxSettings);
  f.names("addresses", m.addresses, kMaxAddresses, Need::optional);
}

template <typename F>
void list(F& f, M<F, Status>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.integer("joined", m.joined, 0, kMaxInt);
  f.integer("wanted", m.wanted, 0, kMaxInt);
  f.names("missing", m.missing, kMaxNamesInText);
  f.text("text", m.text);
}

template <typename F>
void list(F& f, M<F, RoundResult>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.integer("nodes", m.nodes, 1, kMaxWorldSize);
  f.integer("node_rank", m.node_rank, 0, m.nodes - 1);
  f.integer("world_size", m.world_size, m.nodes, kMaxWorldSize);
  f.integer("first_rank", m.first_rank, m.node_rank, m.world_size - 1);
  f.name("store_host", m.store_host);
  f.integer("store_port", m.store_port, 1, 65535);
  f.integer("restarts", m.restarts, 0, kMaxInt, Need::optional);
}

template <typename F>
void list(F& f, M<F, FailRound>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.text("text", m.text);
  f.integer("exit_code", m.exit_code, 0, kMaxExitCode, Need::optional);
  f.name("host", m.host, Need::optional);
  f.integer("rank", m.rank, -1, kMaxWorldSize, Need::optional);
  f.integer("signal", m.signal, 0, kMaxSignal, Need::optional);
  f.text("error_line", m.error_line, Need::optional, kMaxErrorLineBytes);
  f.flag("stepped", m.stepped);
}

template <typename F>
void list(F& f, M<F, LeaveRound>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.word("outcome", m.outcome, kOutcomes);
  f.integer("exit_code", m.exit_code, 0, kMaxExitCode, Need::optional);
  f.text("text", m.text, Need::optional);
}

template <typename F>
void list(F& f, M<F, Left>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.word("next", m.next, kNextSteps, Need::optional);
  f.integer("restarts", m.restarts, 0, kMaxInt, Need::optional);
  f.duration("delay_ms", m.delay);
  f.text("decision", m.decision, Need::optional);
}

template <typename F>
void list(F& f, M<F, RoundEnd>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.word("cause", m.cause, kCauses);
  f.name("node", m.node);
  f.text("text", m.text);
  f.integer("exit_code", m.exit_code, 0, kMaxExitCode, Need::optional);
  f.name("host", m.host, Need::optional);
  f.integer("rank", m.rank, -1, kMaxWorldSize, Need::optional);
  f.flag("again", m.again);
  f.integer("restarts", m.restarts, 0, kMaxInt, Need::optional);
  f.duration("delay_ms", m.delay);
  f.text("decision", m.decision, Need::optional);
  f.flag("decision_is_cause", m.decision_is_cause);
}

template <typename F>
void list(F& f, M<F, Heartbeat>& m) {
  f.counter("sequence", m.sequence);
}

template <typename F>
void list(F& f, M<F, JobClosed>& m) {
  f.text("reason", m.reason);
  f.flag("succeeded", m.succeeded);
  f.integer("exit_code", m.exit_code, 0, kMaxExitCode, Need::optional);
  f.name("node", m.node, Need::optional);
  f.name("host", m.host, Need::optional);
  f.integer("rank", m.rank, -1, kMaxWorldSize, Need::optional);
}

template <typename F>
void list(F& f, M<F, ErrorReply>& m) {
  f.code("code", m.code);
  f.name("about", m.about);
  f.text("text", m.text);
}

template <typename F>
void list(F& f, M<F, NodeState>& m) {
  f.filled_name("node", m.node);
  f.text("text", m.text, Need::optional);
  f.flag("ago", m.ago);
  f.flag("ended", m.ended);
  f.flag("given_up", m.given_up);
}

template <typename F>
void list(F& f, M<F, Vouch>& m) {
  f.counter("id", m.id);
  f.filled_name("peer_host", m.peer_host);
  f.integer("peer_port", m.peer_port, 1, 65535);
  f.filled_name("local_host", m.local_host);
  f.integer("local_port", m.local_port, 1, 65535);
}

template <typename F>
void list(F& f, M<F, Vouched>& m) {
  f.counter("id", m.id);
  f.flag("allowed", m.allowed, Need::required);
  f.text("reason", m.reason, Need::optional);
}

template <typename F>
void list(F& f, M<F, LauncherState>& m) {
  f.flag("known", m.known);
  f.flag("connected", m.connected);
  f.duration("gone_ms", m.gone);
  f.flag("ended", m.ended);
}

template <typename F>
void list(F& f, M<F, ChannelOpen>& m) {
  f.word("kind", m.kind, kChannelKinds);
  f.name("node", m.node, Need::optional);
  f.integer("worker_port", m.worker_port, 0, 65535, Need::optional);
  f.integer("proxy_port", m.proxy_port, 0, 65535, Need::optional);
}

template <typename F>
void list(F& f, M<F, DaemonStatus>& m) {
  f.name("software", m.software);
  f.counter("uptime_s", m.uptime_s);
  f.integer("jobs", m.jobs, 0, kMaxInt);
  f.integer("store_clients", m.store_clients, 0, kMaxInt);
}

template <typename F>
void list(F& f, M<F, JobStatus>& m) {
  f.name("run_id", m.run_id);
  f.counter("uptime_s", m.uptime_s);
  f.flag("over", m.over, Need::required);
  f.integer("round", m.round, 0, kMaxInt);
  f.integer("nodes", m.nodes, 0, kMaxInt);
  f.integer("restarts", m.restarts, 0, kMaxInt);
  f.text("text", m.text);
}

template <typename F>
void list(F& f, M<F, RankHealth>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.integer("rank", m.rank, 0, kMaxWorldSize);
  f.word("activity", m.activity, kActivityWords);
  f.word("wait", m.wait, kWaitWords, Need::optional);
  f.flag("stirs", m.stirs);
  f.text("file", m.place.file, Need::optional, kMaxHealthTextBytes);
  f.integer("line", m.place.line, 0, kMaxLine, Need::optional);
  f.text("function", m.place.function, Need::optional, kMaxHealthTextBytes);
  f.text("operation", m.operation, Need::optional, kMaxHealthTextBytes);
  f.text("group", m.group, Need::optional, kMaxHealthTextBytes);
  f.counter("sequence", m.sequence, Need::optional);
  f.text("key", m.key, Need::optional, kMaxHealthTextBytes);
  f.text("nearest", m.nearest, Need::optional, kMaxHealthTextBytes);
  f.text("held_in", m.held_in, Need::optional, kMaxHealthTextBytes);
  f.duration("still_ms", m.still);
  f.duration("lasted_ms", m.lasted);
}

template <typename F>
void list(F& f, M<F, KeyWait>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.filled_name("peer_host", m.peer_host);
  f.integer("peer_port", m.peer_port, 1, 65535);
  f.filled_name("local_host", m.local_host);
  f.integer("local_port", m.local_port, 1, 65535);
  f.text("key", m.key, Need::required, kMaxHealthTextBytes);
  f.text("nearest", m.nearest, Need::optional, kMaxHealthTextBytes);
}

template <typename F>
void list(F& f, M<F, JobNotice>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.text("text", m.text);
  f.word("hang", m.hang, kHangLevelWords, Need::optional);
  f.integers("culprits", m.culprits, 0, kMaxWorldSize, kMaxCulprits);
  f.duration("still_ms", m.still);
}

template <typename F>
void list(F& f, M<F, RankPace>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.integer("rank", m.rank, 0, kMaxWorldSize);
  f.integer("steps", m.steps, 1, kMaxInt);
  f.counter("step_us", m.step_us);
  f.counter("own_us", m.own_us);
  f.flag("by_calls", m.by_calls);
}

template <typename F>
void list(F& f, M<F, HostNews>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.text("text", m.text, Need::required, kMaxHostNewsBytes);
}

template <typename F>
void list(F& f, M<F, SlowRanks>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.text("text", m.text);
  f.flag("slow", m.slow);
}

template <typename F>
void list(F& f, M<F, RankFlight>& m) {
  f.integer("round", m.round, 0, kMaxInt);
  f.integer("rank", m.record.rank, 0, kMaxWorldSize);
  f.objects("groups", m.record.groups, kFlightGroupsMax, [](auto& g, auto& group) {
    g.text("name", group.name, Need::required, kMaxHealthTextBytes);
    g.text("id", group.id, Need::required, kMaxHealthTextBytes);
    g.integers("ranks", group.ranks, 0, kMaxWorldSize, kFlightMembersMax);
    g.counter("last", group.last);
    g.flag("whole", group.whole);
    g.objects("calls", group.calls, kFlightCallsMax, [](auto& c, auto& call) {
      c.counter("sequence", call.sequence);
      c.text("name", call.name, Need::required, kMaxHealthTextBytes);
      c.text("inputs", call.inputs, Need::required, kMaxHealthTextBytes);
      c.text("outputs", call.outputs, Need::required, kMaxHealthTextBytes);
      c.text("types", call.types, Need::required, kMaxHealthTextBytes);
      c.text("state", call.state, Need::required, kMaxHealthTextBytes);
    });
  });
}

template <typename Type>
Message read(const FieldReader& f) {
  Type m;
  list<const FieldReader>(f, m);
  return m;
}

struct Kind {
  std::string_view name;
  Message (*read)(const FieldReader&);
};

/// The types and their readers, in the order of the variant's alternatives.
constexpr std::array<Kind, std::variant_size_v<Message>> kKinds{{{"hello", read<Hello>},
                                                                 {"hello_ok", read<HelloOk>},
                                                                 {"join", read<Join>},
                                                                 {"status", read<Status>},
                                                                 {"round_result", read<RoundResult>},
                                                                 {"fail_round", read<FailRound>},
                                                                 {"leave_round", read<LeaveRound>},
                                                                 {"left", read<Left>},
                                                                 {"round_end", read<RoundEnd>},
                                                                 {"heartbeat", read<Heartbeat>},
                                                                 {"job_closed", read<JobClosed>},
                                                                 {"error", read<ErrorReply>},
                                                                 {"node_state", read<NodeState>},
                                                                 {"vouch", read<Vouch>},
                                                                 {"vouched", read<Vouched>},
                                                                 {"launcher_state", read<LauncherState>},
                                                                 {"channel_open", read<ChannelOpen>},
                                                                 {"daemon_status", read<DaemonStatus>},
                                                                 {"job_status", read<JobStatus>},
                                                                 {"rank_health", read<RankHealth>},
                                                                 {"key_wait", read<KeyWait>},
                                                                 {"job_notice", read<JobNotice>},
                                                                 {"rank_pace", read<RankPace>},
                                                                 {"host_news", read<HostNews>},
                                                                 {"slow_ranks", read<SlowRanks>},
                                                                 {"rank_flight", read<RankFlight>}}};

}  // namespace

std::string_view kind_name(std::size_t index) {
  return kKinds[index].name;
}

Json json_of(const Message& message) {
  FieldWriter writer;
  std::visit([&writer](const auto& m) { list<FieldWriter>(writer, m); }, message);
  return writer.take();
}

Message (*reader_of(std::string_view type))(const FieldReader&) {
  const auto* const found =
      std::find_if(kKinds.begin(), kKinds.end(), [type](const Kind& kind) { return kind.name == type; });
  return found == kKinds.end() ? nullptr : found->read;
}

}  // namespace muster::rendezvous

// SPDX-License-Identifier: Apache-2.0
// Messages to JSON values.
#include "rendezvous/protocol/message_fields.hpp"

namespace muster::rendezvous {
namespace {

template <typename Table, typename Value>
const char* word_for(const Table& table, Value value) {
  for (const auto& [candidate, word] : table)
    if (candidate == value) return word;
  return table.front().second;
}

/// Cut at a character, not inside one: half a UTF-8 sequence would be replaced by a longer mark.
std::string cut(const std::string& text, std::size_t most = kMaxTextBytes) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return text.substr(0, end);
}

Json fields_of(const Hello& m) {
  return {{"version_min", m.version_min},
          {"version_max", m.version_max},
          {"run_id", m.run_id},
          {"node", m.node},
          {"incarnation", m.incarnation},
          {"role", word_for(kRoles, m.role)},
          {"software", m.software},
          {"host", m.host},
          {"nonce", m.nonce},
          {"session", m.session},
          {"received", m.received}};
}

Json fields_of(const HelloOk& m) {
  return {{"version", m.version}, {"run_id", m.run_id},     {"nonce", m.nonce},
          {"session", m.session}, {"received", m.received}, {"software", m.software}};
}

Json fields_of(const Join& m) {
  return {{"host", m.host},           {"address", m.address},   {"workers", m.workers},    {"round", m.round},
          {"node_rank", m.node_rank}, {"settings", m.settings}, {"addresses", m.addresses}};
}

Json fields_of(const Status& m) {
  return {{"round", m.round},
          {"joined", m.joined},
          {"wanted", m.wanted},
          {"missing", m.missing},
          {"text", cut(m.text)}};
}

Json fields_of(const RoundResult& m) {
  return {{"round", m.round},           {"node_rank", m.node_rank},   {"nodes", m.nodes},
          {"world_size", m.world_size}, {"first_rank", m.first_rank}, {"store_host", m.store_host},
          {"store_port", m.store_port}, {"restarts", m.restarts}};
}

Json fields_of(const FailRound& m) {
  return {{"round", m.round},
          {"text", cut(m.text)},
          {"exit_code", m.exit_code},
          {"host", m.host},
          {"rank", m.rank},
          {"signal", m.signal},
          {"error_line", cut(m.error_line, kMaxErrorLineBytes)},
          {"stepped", m.stepped}};
}

Json fields_of(const LeaveRound& m) {
  return {{"round", m.round},
          {"outcome", word_for(kOutcomes, m.outcome)},
          {"exit_code", m.exit_code},
          {"text", cut(m.text)}};
}

Json fields_of(const Left& m) {
  return {{"round", m.round},
          {"next", word_for(kNextSteps, m.next)},
          {"restarts", m.restarts},
          {"delay_ms", m.delay.count()},
          {"decision", cut(m.decision)}};
}

Json fields_of(const RoundEnd& m) {
  return {{"round", m.round},
          {"cause", word_for(kCauses, m.cause)},
          {"node", m.node},
          {"text", cut(m.text)},
          {"exit_code", m.exit_code},
          {"host", m.host},
          {"rank", m.rank},
          {"again", m.again},
          {"restarts", m.restarts},
          {"delay_ms", m.delay.count()},
          {"decision", cut(m.decision)}};
}

Json fields_of(const Heartbeat& m) {
  Json fields{{"sequence", m.sequence}};
  // Most heartbeats have no news, and idle traffic is what they are.
  if (m.received > 0) fields["received"] = m.received;
  return fields;
}

Json fields_of(const JobClosed& m) {
  return {{"reason", cut(m.reason)}, {"succeeded", m.succeeded}, {"exit_code", m.exit_code},
          {"node", m.node},          {"host", m.host},           {"rank", m.rank}};
}

Json fields_of(const ErrorReply& m) {
  return {{"code", to_string(m.code)}, {"about", m.about}, {"text", cut(m.text)}};
}

Json fields_of(const Ack& m) {
  return {{"received", m.received}};
}

Json fields_of(const NodeState& m) {
  return {{"node", m.node}, {"text", cut(m.text)}, {"ago", m.ago}, {"ended", m.ended}};
}

Json fields_of(const Vouch& m) {
  return {{"id", m.id},
          {"peer_host", m.peer_host},
          {"peer_port", m.peer_port},
          {"local_host", m.local_host},
          {"local_port", m.local_port}};
}

Json fields_of(const Vouched& m) {
  return {{"id", m.id}, {"allowed", m.allowed}, {"reason", cut(m.reason)}};
}

Json fields_of(const LauncherState& m) {
  return {{"known", m.known}, {"connected", m.connected}, {"gone_ms", m.gone.count()}, {"ended", m.ended}};
}

Json fields_of(const ChannelOpen& m) {
  return {{"channel", m.channel}, {"kind", word_for(kChannelKinds, m.kind)}, {"node", m.node}};
}

Json fields_of(const ChannelCredit& m) {
  return {{"channel", m.channel}, {"bytes", m.bytes}};
}

Json fields_of(const ChannelClose& m) {
  return {{"channel", m.channel}, {"reason", cut(m.reason)}};
}

}  // namespace

Json json_of(const Message& message) {
  return std::visit([](const auto& alternative) { return fields_of(alternative); }, message);
}

}  // namespace muster::rendezvous

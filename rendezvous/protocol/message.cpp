// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol/message.hpp"

#include "rendezvous/protocol/message_fields.hpp"

namespace muster::rendezvous {
namespace {

/// Parses JSON with a bound on values and depth, since a small text can become a large tree.
Json parse_bounded(std::string_view text) {
  std::size_t values = 0;
  const Json::parser_callback_t count = [&values](int depth, Json::parse_event_t, Json&) {
    if (++values > kMaxJsonValues || depth > kMaxJsonDepth)
      throw CoordinatorError(Errc::mend, "a control message holds too many or too deeply nested values");
    return true;
  };
  try {
    return Json::parse(text, count);
  } catch (const Json::exception& error) {
    throw CoordinatorError(Errc::mend, std::string("a control message is not JSON: ") + error.what());
  }
}

std::string our_versions() {
  return std::to_string(kProtocolVersionMin) + ".." + std::to_string(kProtocolVersionMax);
}

}  // namespace

std::string name_of(RoundEndCause cause) {
  for (const auto& [value, word] : kCauses)
    if (value == cause) return word;
  return "";
}

bool is_numbered(const Message& message) {
  return !std::holds_alternative<Hello>(message) && !std::holds_alternative<HelloOk>(message) &&
         !std::holds_alternative<Heartbeat>(message);
}

std::string_view type_name(const Message& message) {
  return kind_name(message.index());
}

std::string to_json(const Message& message) {
  Json object = json_of(message);
  object["type"] = type_name(message);
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Message message_from_json(std::string_view text, int peer_version) {
  const Json object = parse_bounded(text);
  if (!object.is_object()) throw CoordinatorError(Errc::mend, "a control message is not a JSON object");
  std::string type;
  FieldReader(object, "?").name("type", type);
  if (const auto read = reader_of(type)) return read(FieldReader(object, type));
  const std::string peer = peer_version == 0 ? "not said yet" : std::to_string(peer_version);
  throw CoordinatorError(Errc::upgrade, "unknown control message '" + type + "': this side speaks protocol " +
                                            our_versions() + ", the peer's version is " + peer +
                                            "; install the same muster on both");
}

}  // namespace muster::rendezvous

// SPDX-License-Identifier: Apache-2.0
#include "agent/core/agent_spec.hpp"
#include "agent/core/error_file.hpp"
#include "agent/core/link_message.hpp"
#include "agent/core/link_text.hpp"
#include "agent/core/node_event.hpp"
#include "agent/core/node_report.hpp"
#include "agent/core/node_status.hpp"
#include "tests/fuzz/checks.hpp"

#include <exception>
#include <stdexcept>

using namespace muster::agent;
using muster::fuzz::require;

namespace {

void require_report_survives(const NodeReport& report) {
  const std::string text = to_json(report);
  try {
    require(to_json(node_report_from_json(text)) == text, "a report survives the way through JSON");
  } catch (const std::exception&) {
    require(false, "our own report is one");
  }
}

void check_spec(const std::string& text) {
  const std::string once = to_json(agent_spec_from_json(text));
  try {
    require(to_json(agent_spec_from_json(once)) == once, "a spec survives the way through JSON");
  } catch (const std::exception&) {
    require(false, "our own spec is one");
  }
}

void check_error_file(const std::string& text) {
  WorkerReport worker;
  try {
    worker.error = parse_error_file(text);
  } catch (const std::exception&) {
    require(false, "any text is an error file");
  }
  // A byte that is no UTF-8 becomes the three of U+FFFD.
  require(worker.error.message.size() + worker.error.traceback.size() <= 3 * text.size(),
          "an error file holds what it says");
  // A worker writes any bytes: the report that carries them must still arrive.
  NodeReport report;
  report.workers.push_back(worker);
  require_report_survives(report);
}

void check_query(const std::string& text) {
  const std::string once = to_json(node_query_from_json(text));
  try {
    require(to_json(node_query_from_json(once)) == once, "a question survives the way through JSON");
  } catch (const std::exception&) {
    require(false, "our own question is one");
  }
}

void check_status(const std::string& text) {
  const NodeStatus status = node_status_from_json(text);
  const std::string once = to_json(status);
  try {
    require(to_json(node_status_from_json(once)) == once, "a status survives the way through JSON");
  } catch (const std::exception&) {
    require(false, "our own status is one");
  }
  require(to_json_within(status, 0).size() <= once.size() + 100,
          "a status that is too long loses what is long");
}

void check_event(const std::string& text) {
  const std::string once = to_json(node_event_from_json(text));
  try {
    require(to_json(node_event_from_json(once)) == once, "an event survives the way through JSON");
  } catch (const std::exception&) {
    require(false, "our own event is one");
  }
}

void check_hang(const std::string& text) {
  const std::string once = to_json(hang_report_from_json(text));
  try {
    require(to_json(hang_report_from_json(once)) == once, "a verdict survives the way through JSON");
  } catch (const std::exception&) {
    require(false, "our own verdict is one");
  }
}

void check_link_message(const std::string& payload) {
  const LinkMessage message = decode_link_message(payload);
  require(encode(message) == payload, "a message is taken only as encode() writes it");
  if (message.kind == LinkMessage::Kind::stop)
    require(stop_order_from_json(to_json(stop_order_from_json(message.body))).grace ==
                stop_order_from_json(message.body).grace,
            "an order to stop survives the way through JSON");
  if (message.kind == LinkMessage::Kind::spec) check_spec(message.body);
  if (message.kind == LinkMessage::Kind::query) check_query(message.body);
  if (message.kind == LinkMessage::Kind::answer) check_status(message.body);
  if (message.kind == LinkMessage::Kind::event) check_event(message.body);
  if (message.kind == LinkMessage::Kind::hang) check_hang(message.body);
  if (message.kind == LinkMessage::Kind::report) require_report_survives(node_report_from_json(message.body));
}

}  // namespace

bool muster::fuzz::check_error_file_input(std::string_view input) {
  if (input.empty()) return false;
  const std::string text(input.substr(1));
  try {
    switch (input[0]) {
      case 'E':
        check_error_file(text);
        return true;
      case 'L':
        check_link_message(text);
        return true;
      case 'S':
        check_spec(text);
        return true;
      case 'R':
        require_report_survives(node_report_from_json(text));
        return true;
      case 'Q':
        check_query(text);
        return true;
      case 'N':
        check_status(text);
        return true;
      default:
        return false;
    }
  } catch (const std::invalid_argument&) {
    return false;
  }
}

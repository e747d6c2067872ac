// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/greeting.hpp"
#include "rendezvous/munge/munge.hpp"
#include "rendezvous/tls/hello_memory.hpp"
#include "rendezvous/tls/peer_identity.hpp"
#include "tests/fuzz/checks.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <deque>
#include <map>
#include <string>

namespace {

using namespace muster::rendezvous;
using muster::fuzz::require;
using muster::launcher::GreetingReader;

/// All that a reader of greetings has to say of one stream.
struct Heard {
  GreetingReader::State state = GreetingReader::State::waiting;
  int protocol = 0;
  std::string version;
  std::string junk;
  std::string rest;
  std::string pushes;
  bool operator==(const Heard&) const = default;
};

Heard hear(std::string_view bytes, std::size_t piece) {
  Heard heard;
  GreetingReader reader;
  std::size_t begin = 0;
  while (begin < bytes.size()) {
    const std::string_view part = bytes.substr(begin, piece);
    const std::size_t used = reader.feed(part);
    require(used <= part.size(), "more bytes are taken than there are");
    begin += used;
    if (reader.state() == GreetingReader::State::push_wanted) {
      heard.pushes += std::to_string(reader.push_bytes()) + " ";
      reader.pushed();
    } else if (reader.state() != GreetingReader::State::waiting) {
      break;
    } else {
      require(used == part.size(), "bytes are left over though nothing was found");
    }
  }
  heard.state = reader.state();
  heard.junk = reader.junk();
  heard.rest = bytes.substr(begin);
  if (heard.state == GreetingReader::State::greeted) {
    heard.protocol = reader.protocol();
    heard.version = reader.version();
  }
  return heard;
}

bool check_greeting(std::string_view bytes) {
  const Heard whole = hear(bytes, std::max<std::size_t>(bytes.size(), 1));
  require(whole == hear(bytes, 1), "byte by byte the greeting is another");
  require(whole == hear(bytes, 7), "in sevens the greeting is another");
  require(whole.junk.size() <= GreetingReader::kJunkBytesMax, "more junk is kept than is allowed");
  require(whole.version.size() < GreetingReader::kLineBytesMax, "a version is longer than a line");
  require(whole.version.find('\n') == std::string::npos, "a version has several lines");
  if (whole.state != GreetingReader::State::greeted) return false;
  // The same greeting behind other junk.
  const std::string again =
      "Welcome to this host\nmuster-agent " + std::to_string(whole.protocol) + " " + whole.version + "\nrest";
  const Heard second = hear(again, again.size());
  require(second.state == whole.state && second.protocol == whole.protocol, "a greeting is not found again");
  require(second.rest == "rest", "what follows a greeting belongs to it");
  return true;
}

bool check_identity(std::string_view text) {
  // Any names, whatever is in them, survive; and only what text() writes is read.
  const std::size_t half = text.size() / 2;
  const PeerIdentity named{PeerIdentity::Role::launcher, std::string(text.substr(0, half)),
                           std::string(text.substr(half)), text.size()};
  const std::string written = named.text();
  require((PeerIdentity::parse(written) == named) == (written.size() <= kMaxIdentityBytes),
          "an identity does not survive the way through its text");
  const auto identity = PeerIdentity::parse(text);
  require(!identity || identity->text() == text, "two texts mean the same client");
  return identity.has_value();
}

bool check_credential(std::string_view text) {
  const auto client = client_in_credential(text);
  require(!is_munge_identity(text) || !PeerIdentity::parse(text), "an identity is a credential as well");
  if (!client) return false;
  std::string lower(text);
  std::transform(lower.begin(), lower.begin() + 2 * Secret::kBytes, lower.begin(),
                 [](unsigned char character) { return static_cast<char>(std::tolower(character)); });
  require(
      client->key.hex() + client->peer.text() == lower.substr(0, 2 * Secret::kBytes) + client->peer.text(),
      "a key is not the one that was written");
  require(client->peer.text() == text.substr(2 * Secret::kBytes), "a client is not the one that was written");
  return true;
}

/// Each byte is the hello of that number, held against a list of all that came.
bool check_hellos(std::string_view bytes) {
  constexpr std::size_t kKept = 4;
  HelloMemory memory(kKept);
  std::deque<char> added;
  for (const char byte : bytes) {
    const std::string random(32, byte);
    const bool known = memory.has(random);
    const auto last = std::find(added.rbegin(), added.rend(), byte);
    const auto age = static_cast<std::size_t>(last - added.rbegin());
    require(known || last == added.rend() || age >= kKept, "one of the last hellos is forgotten");
    require(!known || (last != added.rend() && age < 2 * kKept),
            "a hello is known that has not come for long");
    require(memory.add(random) == !known, "a hello is taken twice, or not at all");
    if (!known) added.push_back(byte);
  }
  return !bytes.empty();
}

/// Each byte shows one credential: whether it is good, from which address, after how long.
bool check_reader(std::string_view bytes) {
  const CredentialReader::Limits limits{std::chrono::seconds(10), 2, 3};
  CredentialReader reader(
      [](const std::string& identity, std::string& reason) {
        auto client = client_in_credential(identity);
        if (!client) reason = "bad";
        return client;
      },
      limits);
  const std::string good = std::string(64, 'a') + PeerIdentity{PeerIdentity::Role::agent, "j", "n", 1}.text();
  CredentialReader::TimePoint now{std::chrono::hours(1)};
  CredentialReader::TimePoint second{};
  std::map<std::string, std::size_t> bad_of;
  std::size_t bad = 0;
  for (const char character : bytes.substr(0, 24)) {
    const auto byte = static_cast<unsigned char>(character);
    now += std::chrono::milliseconds((byte >> 4U) * 40);
    if (now - second >= std::chrono::seconds(1)) {
      second = now;
      bad_of.clear();
      bad = 0;
    }
    const std::string address = "10.0.0." + std::to_string((byte >> 1U) & 3U);
    const bool is_good = (byte & 1U) != 0;
    const bool open = bad < limits.of_all && bad_of[address] < limits.of_address;
    std::string reason;
    const auto client = reader.read(is_good ? good : "m1/no", address, now, reason);
    require(client.has_value() == (open && is_good), "a credential is read that should not be, or is not");
    require(client.has_value() == reason.empty(), "who is refused is told why, and nobody else");
    if (open && !is_good) {
      ++bad;
      ++bad_of[address];
    }
  }
  return !bytes.empty();
}

}  // namespace

bool muster::fuzz::check_login_input(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view rest = input.substr(1);
  switch (input[0]) {
    case 'G':
      return check_greeting(rest);
    case 'I':
      return check_identity(rest);
    case 'C':
      return check_credential(rest);
    case 'H':
      return check_hellos(rest);
    case 'R':
      return check_reader(rest);
    default:
      return false;
  }
}

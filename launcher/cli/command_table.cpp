// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/command_table.hpp"

#include "launcher/cli/flag_table.hpp"
#include "launcher/hosts/exported_environment.hpp"
#include "rendezvous/base/nearest_name.hpp"
#include "rendezvous/base/text.hpp"

#include <array>
#include <cstddef>

namespace muster::launcher {
namespace {

constexpr auto kCommands = std::to_array<Command>({
    {"run", "start the workers of a job, on this machine or many, watch them, end them"},
    {"ps", "list the running jobs of this user, on this host or others", true, false,
     "--all --help --host --json --login-timeout --remote-muster --ssh-accept-new --ssh-command --ssh-config "
     "--ssh-port"},
    {"status", "say what a running job and each of its ranks do, once or (--watch) again and again", true,
     true, "--help --json --rank --watch"},
    {"stacks", "print where each rank of a running job is in its Python code", true, true,
     "--help --helpers --json --native --rank"},
    {"logs", "show what a job has printed; with -f on and on", true, true,
     "--follow --help --json --rank --round --since --timestamps"},
    {"attach", "follow a detached job, and end it by Ctrl-C", true, true, "--help --lines --rank"},
    {"kill", "end a running job, or send its ranks a signal", true, true,
     "--grace --help --json --now --rank --signal"},
    {"show", "print a report of 'muster run --report' for people"},
    {"clean", "remove what jobs of this user that have ended have left on this host"},
    {"doctor", "say whether this host, or others, are fit for jobs, and what to do", true, false,
     "--help --host --json --login-timeout --no-all-reduce --python --remote-muster --ssh-accept-new "
     "--ssh-command --ssh-config --ssh-port --towards"},
    {"rendezvous", "run the place where nodes of jobs meet; also a store for torchrun's agents"},
    {"install-shim", "make a torchrun that is 'muster run', for scripts that call it by that name"},
    {"agent", "what 'muster run' starts on other hosts; of no use by hand", false},
    {"help", "print this text, or with a command its own: muster help run"},
    {"version", "print the version; with --json also what this muster was built from, and with", true, false,
     "--json"},
});

constexpr auto kGlobalFlags = std::to_array<std::string_view>({"help", "version"});

/// Returns a word as a shell reads it back.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "\"";
  for (const char c : word) {
    if (std::string_view("\"\\$`").find(c) != std::string_view::npos) quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

/// Returns 'muster run' with the arguments, without secrets and of many only the first.
std::string as_run(const std::vector<std::string>& arguments) {
  constexpr std::size_t kWordsMost = 12;
  std::string text = "'muster run";
  for (std::size_t i = 0; i < arguments.size() && i < kWordsMost; ++i)
    text += " " + shell_word(without_secrets(arguments[i]));
  return text + (arguments.size() > kWordsMost ? " ...'" : "'");
}

/// Says what was probably meant by a flag where a command is to stand.
std::string meant_by_flag(const std::vector<std::string>& arguments) {
  std::vector<std::string_view> names(kGlobalFlags.begin(), kGlobalFlags.end());
  for (const Flag& flag : flag_table()) names.push_back(flag.name);
  const std::string meant = did_you_mean_flag(arguments.front(), names);
  for (const std::string_view global : kGlobalFlags)
    if (meant == did_you_mean(global, kGlobalFlags, "--")) return meant;
  return "flags go after one: " + as_run(arguments);
}

std::string meant_by(const std::vector<std::string>& arguments) {
  const std::string& word = arguments.front();
  if (word.starts_with('-')) return meant_by_flag(arguments);
  if (word.find_first_of("./") != std::string::npos) return "to run a program, write " + as_run(arguments);
  std::vector<std::string_view> names;
  for (const Command& command : kCommands)
    if (command.for_people) names.push_back(command.name);
  if (const std::string meant = did_you_mean(word, names); !meant.empty()) return meant;
  return "the commands are " + joined(names) + "; to run a program, write " + as_run(arguments);
}

}  // namespace

std::span<const Command> command_table() {
  return kCommands;
}

std::string usage_text() {
  constexpr std::size_t kHelpColumn = 13;
  std::string text = "Usage: muster COMMAND [flags]\n\n";
  for (const Command& command : kCommands) {
    std::string name(command.name);
    name.resize(kHelpColumn, ' ');
    text += "  " + name + std::string(command.help) + "\n";
  }
  return text +
         "\n"
         "Each has its own --help.\n"
         "\n"
         "Example: muster run --nproc-per-node 2 train.py\n";
}

UsageError unknown_command(const std::vector<std::string>& arguments) {
  return UsageError("'" + arguments.front() + "' is not a command; " + meant_by(arguments));
}

}  // namespace muster::launcher

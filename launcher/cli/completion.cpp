// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/completion.hpp"

#include "launcher/cli/command_table.hpp"
#include "launcher/cli/flag_table.hpp"
#include "launcher/cli/value_syntax.hpp"
#include "rendezvous/base/text.hpp"

namespace muster::launcher {
namespace {

/// Prints ids and names of running jobs, one a line, for a script of any shell.
constexpr std::string_view kJobs =
    "muster ps 2>/dev/null | awk 'NR == 1 {named = $2 == \"NAME\"} "
    "NR > 1 {print $1; if (named && $2 != \"-\") print $2}'";

std::string names_of_commands() {
  std::string names;
  for (const Command& command : command_table())
    if (command.for_people) names += (names.empty() ? "" : " ") + std::string(command.name);
  return names;
}

/// Returns the flags of a command with their dashes.
std::string flags_of(const Command& command) {
  if (command.name != "run") return std::string(command.flags);
  std::string flags = "--help";
  for (const Flag& flag : flag_table()) flags += " " + flag.spelled();
  return flags;
}

/// Calls `tell` with each command that people type.
template <typename Tell>
void for_each_command(const Tell& tell) {
  for (const Command& command : command_table())
    if (command.for_people) tell(command);
}

std::string bash_script() {
  const std::string names = names_of_commands();
  std::string cases;
  std::string jobs;
  for_each_command([&](const Command& command) {
    cases += "    " + std::string(command.name) + ") flags='" + flags_of(command) + "' ;;\n";
    if (command.takes_job) jobs += (jobs.empty() ? "" : "|") + std::string(command.name);
  });
  return "# bash completion for muster; load it with: source <(muster run --print-completion bash)\n"
         "_muster() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} flags=\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    COMPREPLY=($(compgen -W '" +
         names +
         " --help --version' -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "  if [[ $command == help ]]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         names +
         "' -- \"$word\"))\n"
         "  elif [[ $word == -* && -n $flags ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"))\n"
         "  elif [[ $command == @(" +
         jobs +
         ") ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$(" +
         std::string(kJobs) +
         ")\" -- \"$word\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _muster muster\n";
}

std::string zsh_script() {
  std::string cases;
  std::string jobs;
  for_each_command([&](const Command& command) {
    cases += "    " + std::string(command.name) + ") flags=(" + flags_of(command) + ") ;;\n";
    if (command.takes_job) jobs += (jobs.empty() ? "" : "|") + std::string(command.name);
  });
  return "#compdef muster\n"
         "# zsh completion for muster; load it with: source <(muster run --print-completion zsh)\n"
         "_muster() {\n"
         "  local -a commands=(" +
         names_of_commands() +
         ") flags jobs\n"
         "  if ((CURRENT == 2)); then\n"
         "    compadd -- $commands --help --version\n"
         "    return\n"
         "  fi\n"
         "  case $words[2] in\n" +
         cases +
         "  esac\n"
         "  if [[ $words[2] == help ]]; then\n"
         "    compadd -- $commands\n"
         "  elif [[ $words[CURRENT] == -* && -n $flags ]]; then\n"
         "    compadd -- $flags\n"
         "  elif [[ $words[2] == (" +
         jobs +
         ") ]]; then\n"
         "    jobs=(${(f)\"$(" +
         std::string(kJobs) +
         ")\"})\n"
         "    compadd -- $jobs\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "compdef _muster muster\n";
}

/// Returns a text between single quotes, as fish reads it.
std::string fish_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

/// Returns the flags of `muster run`, each with what the help says of it.
std::string fish_run_flags() {
  std::string lines;
  for (const Flag& flag : flag_table()) {
    lines += "complete -c muster -n '__fish_seen_subcommand_from run' -l " + std::string(flag.name);
    if (flag.short_name != 0) lines += std::string(" -s ") + flag.short_name;
    if (flag.takes_value()) lines += " -r";
    lines += " -d " + fish_quoted(flag.help) + "\n";
  }
  return lines;
}

std::string fish_script() {
  std::string lines =
      "# fish completion for muster; load it with: muster run --print-completion fish | source\n"
      "complete -c muster -n __fish_use_subcommand -l help\n"
      "complete -c muster -n __fish_use_subcommand -l version\n";
  for_each_command([&lines](const Command& command) {
    const std::string name(command.name);
    const std::string seen = "complete -c muster -n '__fish_seen_subcommand_from " + name + "' ";
    lines += "complete -c muster -f -n __fish_use_subcommand -a " + name + " -d " +
             fish_quoted(command.help) + "\n";
    if (name == "run") lines += fish_run_flags();
    for (const std::string& flag : split(std::string(command.flags), ' '))
      if (flag.size() > 2) lines += seen + "-l " + flag.substr(2) + "\n";
    if (command.takes_job) lines += seen + "-f -a " + fish_quoted("(" + std::string(kJobs) + ")") + "\n";
  });
  return lines + "complete -c muster -f -n '__fish_seen_subcommand_from help' -a '" + names_of_commands() +
         "'\n";
}

}  // namespace

std::string completion_script(const GivenText& shell) {
  if (shell.text == "bash") return bash_script();
  if (shell.text == "zsh") return zsh_script();
  if (shell.text == "fish") return fish_script();
  throw UsageError(shell.quoted() + " is not available; give bash, zsh or fish");
}

}  // namespace muster::launcher

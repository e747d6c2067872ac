// SPDX-License-Identifier: Apache-2.0

#include "launcher/cli/flag_table.hpp"
#include "launcher/core/launch_error.hpp"

namespace muster::launcher {

std::string completion_script(const GivenText& shell) {
  if (shell.text != "bash") throw UsageError(shell.quoted() + " is not available; give bash");
  std::string flags = "--help";
  for (const Flag& flag : flag_table()) flags += " " + flag.spelled();
  return "# bash completion for muster; load it with: source <(muster run --print-completion bash)\n"
         "_muster() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]}\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    COMPREPLY=($(compgen -W 'run rendezvous --help --version' -- \"$word\"))\n"
         "  elif [[ ${COMP_WORDS[1]} == run && $word == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         flags +
         "' -- \"$word\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _muster muster\n";
}

}  // namespace muster::launcher

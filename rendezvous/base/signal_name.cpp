// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/signal_name.hpp"

#include <signal.h>

namespace muster {

const char* signal_abbreviation(int signal) {
  struct Name {
    int number;
    const char* text;
  };

  static constexpr Name kNames[] = {
      {SIGHUP, "HUP"},       {SIGINT, "INT"},   {SIGQUIT, "QUIT"},   {SIGILL, "ILL"},   {SIGTRAP, "TRAP"},
      {SIGABRT, "ABRT"},     {SIGBUS, "BUS"},   {SIGFPE, "FPE"},     {SIGKILL, "KILL"}, {SIGUSR1, "USR1"},
      {SIGSEGV, "SEGV"},     {SIGUSR2, "USR2"}, {SIGPIPE, "PIPE"},   {SIGALRM, "ALRM"}, {SIGTERM, "TERM"},
      {SIGSTKFLT, "STKFLT"}, {SIGCHLD, "CHLD"}, {SIGCONT, "CONT"},   {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"},
      {SIGTTIN, "TTIN"},     {SIGTTOU, "TTOU"}, {SIGURG, "URG"},     {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"},
      {SIGVTALRM, "VTALRM"}, {SIGPROF, "PROF"}, {SIGWINCH, "WINCH"}, {SIGPOLL, "POLL"}, {SIGPWR, "PWR"},
      {SIGSYS, "SYS"}};
  for (const Name& name : kNames)
    if (name.number == signal) return name.text;
  return nullptr;
}

}  // namespace muster

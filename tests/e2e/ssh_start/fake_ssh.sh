#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: fake_ssh.sh HOST COMMAND    an "ssh" that runs the command on this machine, or fails as its host's name says
host=$1
shift
say() { printf '%s\r\n' "$1" >&2; }
case $host in
  refused*) say "ssh: connect to host $host port 22: Connection refused"; exit 255 ;;
  noname*) say "ssh: Could not resolve hostname $host: Name or service not known"; exit 255 ;;
  newkey*) say "No ED25519 host key is known for $host and you have requested strict checking."
           say "Host key verification failed."; exit 255 ;;
  busy*) # turned away twice, as by a server with MaxStartups
    echo x >>"$FAKE_SSH_STATE/$host"
    if [ "$(wc -l <"$FAKE_SSH_STATE/$host")" -le 2 ]; then
      say "kex_exchange_identification: Connection closed by remote host"; say "Connection closed by 10.0.0.1 port 22"; exit 255
    fi ;;
  closed*) say "kex_exchange_identification: Connection closed by remote host"; exit 255 ;;
  hang*) exec sleep 1000 ;;
  noisy*) printf 'Welcome to %s\nyour quota is fine' "$host"; say "a banner" ;;
  flood*) exec yes "message of the day" ;;
  early*) exit 0 ;;
  wrong*) say "sh: 1: /opt/muster: Exec format error"; exit 126 ;;
  full*) say "head: error writing 'standard output': No space left on device"; exit 1 ;;
  holds*) sh -c "$*" | python3 "$(dirname "$0")/holding_link.py"; exit ;;
  slow*) sleep 0.7 ;;
esac
exec sh -c "$*"

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
  noisy*) printf 'Welcome to %s\nyour quota is fine' "$host"; say "a banner" ;;
  flood*) exec yes "message of the day" ;;
  early*) exit 0 ;;
  wrong*) say "sh: 1: /opt/muster: Exec format error"; exit 126 ;;
  full*) say "head: error writing 'standard output': No space left on device"; exit 1 ;;
  holds*) sh -c "$*" | python3 "$(dirname "$0")/holding_link.py"; exit ;;
esac
exec sh -c "$*"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: bare_ssh.sh HOST COMMAND    an "ssh" to this machine that passes nothing of its own environment on, as a login does
shift
cd /
exec env -i PATH=/usr/bin:/bin HOME="$HOME" sh -c "$*"

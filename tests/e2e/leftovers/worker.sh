#!/bin/sh
# A worker that leaves everything behind that a worker can: worker.sh [-t] <exit code | stay>
# A wrapper's child, a setsid grandchild, a double-forked daemon and a background child; -t: all of them ignore TERM,
# INT and HUP.
[ "$1" = -t ] && { shift; trap '' TERM INT HUP; }
sh -c 'sleep 987; true' >/dev/null 2>&1 &
setsid sh -c 'sleep 987; true' >/dev/null 2>&1 &
(setsid sh -c 'sleep 987; true' >/dev/null 2>&1 &)
echo "ready $RANK"
[ "$1" = stay ] || exit "$1"
sleep 987 &
wait

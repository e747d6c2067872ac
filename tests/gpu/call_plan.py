# SPDX-License-Identifier: Apache-2.0
"""What one call runs of the checks, in which order, and why it leaves the others. Functions of their arguments: they read no clock and no file.

`checks` have a name and a limit_s; `results` are those of the report by name. `left_s` is what is left of a call's seconds, `room_s` what was
left of them when the first check could begin: a later call of as many seconds has about as much."""
import math

from commands import END_SECONDS

# What a check may take beyond its limit: to end, to be killed and end then, and to be written into the report; with what a call takes to start.
ENDING_SECONDS = 2 * END_SECONDS + 2
# A check that no call of so few seconds has the time for is tried with what there is, if that is this share of its limit: most checks need
# far less than their limits. One that was cut so is tried again with so many times what it had.
LEAST_SHARE, MORE = 1 / 3, 1.1
DONE, FAILED, LEFT = "done", "failed", "left"


def state_of(result):
    """Of a result in the report. What was skipped for a standing reason, which is looked for in every call, is left where there is none now."""
    if result["status"] == "failed":
        return FAILED
    return DONE if result["status"] == "passed" or (result["status"] == "skipped" and not result.get("standing")) else LEFT


def tried_s(result):
    """The seconds after which the check was cut, 0 if it was not."""
    return result.get("tried_s", 0)


def in_order(checks, results):
    """Those that are to be run, shortest first: those that were not run yet, then those that were cut, then those that failed."""
    waiting = [check for check in checks if state_of(results[check.name]) != DONE]
    return sorted(waiting, key=lambda check: (state_of(results[check.name]) == FAILED, tried_s(results[check.name]) > 0, check.limit_s))


def allowed_s(check, tried, left_s, room_s):
    """The seconds that a check gets if it begins now: its limit, or fewer where no call has as many; 0 where it is not begun."""
    if check.limit_s + ENDING_SECONDS <= left_s:
        return check.limit_s
    if check.limit_s + ENDING_SECONDS <= room_s:
        return 0  # the next call has the time
    cut = left_s - ENDING_SECONDS
    return cut if cut >= max(LEAST_SHARE * check.limit_s, MORE * tried) else 0


def next_check(waiting, results, left_s, room_s):
    """The first for which there is time, and the seconds that it gets; None, 0 where there is none."""
    for check in waiting:
        seconds = allowed_s(check, tried_s(results[check.name]), left_s, room_s)
        if seconds > 0:
            return check, seconds
    return None, 0


def can_continue(check, result, room_s):
    """Whether a later call of as many seconds would begin it."""
    return allowed_s(check, tried_s(result), room_s, room_s) > 0


def enough_seconds(checks, spent_s):
    """What a call needs to have the time for each of them, where `spent_s` go by before the first: full tens."""
    longest = max(check.limit_s for check in checks)
    return max(60, math.ceil((longest + ENDING_SECONDS + spent_s + 1) / 10) * 10)


def reason(check, result, left_s, room_s, spent_s):
    """Why a check was not begun, and what to do."""
    more = "" if can_continue(check, result, room_s) else f" with --seconds {enough_seconds([check], spent_s)} or more"
    cut = f"it was not done after {tried_s(result):.0f} s; " if tried_s(result) else ""
    return f"{cut}it needs up to {check.limit_s} s, and {max(left_s, 0):.0f} s are left: call it again{more}"


def exit_code(states, can_go_on):
    """0: all are done; 1: one failed, or is left that calling again as before does not run; 3: calling again as before runs more."""
    if FAILED in states:
        return 1
    if LEFT in states:
        return 3 if can_go_on else 1
    return 0

// SPDX-License-Identifier: Apache-2.0
// Times that docs/ and README promise, held to in tests: promise.py says by which rule, and what the figures
// mean.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace muster::test {

/// What is wrong with these seconds, of at least one try, where `clock` + `seconds` are promised and `usual`,
/// unless it is 0, are what it takes; empty if the middle one is in its bound and each in that of one try,
/// else "too late: ...". Written down for the table of all promises in either case.
std::string late(const std::string& name, double seconds, const std::vector<double>& took, double clock = 0,
                 double usual = 0);

/// The same in a test that runs beside others (one without the label timed, which would be run once more).
/// `measure` returns the seconds of one or more tries. If they are late, it measures twice more, and all but
/// the longest try are judged: what the others do holds up one try, a defect more.
std::string late_beside_others(const std::string& name, double seconds,
                               const std::function<std::vector<double>()>& measure, double clock = 0,
                               double usual = 0);

}  // namespace muster::test

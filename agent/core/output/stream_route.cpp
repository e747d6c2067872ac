// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/stream_route.hpp"

namespace muster::agent {

StreamRoute route_of(const OutputSpec& spec, StreamBits stream, int local_rank, bool only_worker,
                     bool console_here, bool terminal) {
  const bool files = !spec.log_dir.empty();
  const bool redirected = files && (spec.redirects.of(local_rank) & stream) != 0;
  const bool shown = !spec.console_ranks || spec.console_ranks->contains(local_rank);
  StreamRoute route;
  route.teed = (spec.tee.of(local_rank) & stream) != 0;
  route.to_file = redirected || (files && route.teed);
  route.to_console = shown && (!redirected || route.teed);
  route.plain = route.to_console && !route.to_file && !route.teed;
  route.prefixed = route.to_console && (route.teed || spec.rank_prefix || spec.framed);
  route.inherit = route.plain && only_worker && !spec.rank_prefix && !spec.framed && console_here;
  route.pty = route.plain && !route.inherit && console_here && terminal && !spec.framed;
  return route;
}

}  // namespace muster::agent

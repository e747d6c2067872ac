// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/tree/tree_check.hpp"

#include "launcher/tree/core/tree_frame.hpp"
#include "launcher/tree/core/tree_json.hpp"
#include "rendezvous/protocol/frame.hpp"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace muster::launcher {
namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "tree_check: %s\n", what);
  std::abort();
}

void check_plan(const std::string& body) {
  const BranchPlan plan = branch_plan_from_json(body);
  const std::string text = to_json(plan);
  require(to_json(branch_plan_from_json(text)) == text, "a plan does not survive the way through JSON");
  for (const BranchPlan::Node& node : plan.nodes) {
    const BranchPlan below = plan.below(node.index);
    require(!below.nodes.empty() && below.nodes.front().index == node.index,
            "the plan of a node is another's");
    (void)branch_plan_from_json(to_json(below));
  }
}

}  // namespace

bool check_tree_frame(std::string_view bytes) {
  try {
    const TreeFrame frame = decode_tree_frame(bytes);
    const std::string again = encode(frame);
    require(std::string_view(again).substr(rendezvous::kFrameHeaderBytes) == bytes,
            "a frame does not survive the way back");
    if (frame.kind == TreeFrame::Kind::plan) check_plan(frame.body);
    if (frame.kind == TreeFrame::Kind::ended) {
      const std::string text = to_json(start_end_from_json(frame.body));
      require(to_json(start_end_from_json(text)) == text, "an end does not survive the way through JSON");
    }
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

}  // namespace muster::launcher

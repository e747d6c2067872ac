// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/job_text.hpp"

#include "catch.hpp"

#include <stdexcept>

using namespace muster;
using namespace muster::launcher;

namespace {

agent::ProcessPicture picture_at(int line) {
  agent::ProcessPicture picture;
  picture.name = "python3";
  picture.stacks.threads.push_back({1, true, false, false, false, {{"train.py", line, "step"}}});
  return picture;
}

JobAnswer answer_of_two_nodes() {
  JobAnswer answer;
  answer.card.id = "train-0123ab";
  answer.card.pid = 31415;
  answer.card.program = "train.py\x1b[2J";
  answer.age_ms = 65'000;
  for (int node = 0; node < 2; ++node) {
    agent::NodeStatus status;
    status.host = node == 0 ? "n00" : "n01";
    status.node = status.host;
    status.node_rank = node;
    status.round = 1;
    status.doing = "works";
    agent::WorkerStatus worker;
    worker.rank = node;
    worker.pid = 100 + node;
    worker.state = "running";
    worker.cpu_ms = 61'000;
    worker.memory = 3 << 20;
    worker.now = node == 0 ? "in all_reduce #12\n" : "";
    worker.processes = {picture_at(41)};
    status.workers.push_back(worker);
    answer.nodes.push_back(status);
  }
  return answer;
}

}  // namespace

TEST_CASE("A status names the job, its nodes and a line for each rank, safe for a terminal") {
  JobAnswer answer = answer_of_two_nodes();
  answer.nodes[1].restarts = 1;
  CHECK(status_text(answer) ==
        "train-0123ab: train.py\\x1b[2J, for 1 min 5 s, 2 nodes, 2 ranks\n"
        "node n00: works; round 1\n"
        "node n01: works; round 1, 1 restart\n"
        "RANK  HOST  PID  CPU   MEMORY   STEP  STATE    NOW\n"
        "0     n00   100  1:01  3.0 MiB  -     running  in all_reduce #12\\x0a\n"
        "1     n01   101  1:01  3.0 MiB  -     running  -\n");
}

TEST_CASE("Nodes that gave no answer are named, and counted") {
  JobAnswer answer = answer_of_two_nodes();
  answer.silent = {"n02\x1b", "n03"};
  const std::string text = status_text(answer);
  CHECK(text.find(", 4 nodes, 2 ranks\n") != std::string::npos);
  CHECK(text.find("no answer for 3 s from n02\\x1b, n03: partial, 2 of 4 nodes\n") != std::string::npos);
  CHECK(stacks_text(answer).starts_with("no answer for 3 s from"));
}

TEST_CASE("Equal stacks of ranks are one entry") {
  JobAnswer answer = answer_of_two_nodes();
  CHECK(stacks_text(answer) == "ranks 0, 1: train.py:41 step\n");
  answer.nodes[1].workers[0].processes = {picture_at(80)};
  CHECK(stacks_text(answer) == "rank 0: train.py:41 step\nrank 1: train.py:80 step\n");
  answer.nodes[1].workers[0].processes[0].stacks.threads[0].frames[0].file = "\x1b]0;x";
  CHECK(stacks_text(answer).find('\x1b') == std::string::npos);
  CHECK(stacks_text(JobAnswer{}) == "no worker runs that could be looked at\n");
}

TEST_CASE("Jobs are a table") {
  JobCard card;
  card.id = "train-0123ab";
  card.pid = 7;
  card.started_at_ms = 1000;
  card.arguments = {"train.py", "\t\x1b"};
  CHECK(jobs_table({}, 0) == "JOB  AGE  NODES  WORKERS  PID  COMMAND\n");
  CHECK(jobs_table({card}, 5500) ==
        "JOB           AGE  NODES  WORKERS  PID  COMMAND\n"
        "train-0123ab  4 s  1      -        7    muster run train.py \t\\x1b\n");
}

TEST_CASE("Lengths of time are short texts") {
  CHECK(duration_text(-5) == "0 s");
  CHECK(duration_text(59'999) == "59 s");
  CHECK(duration_text(725'000) == "12 min 5 s");
  CHECK(duration_text(11'400'000) == "3 h 10 min");
  CHECK(duration_text(187'200'000) == "2 d 4 h");
}

TEST_CASE("An answer survives the way through JSON; what is none is refused") {
  JobAnswer answer = answer_of_two_nodes();
  answer.silent = {"n02"};
  const std::string text = to_json(answer);
  const JobAnswer read = job_answer_from_json(text);
  CHECK(to_json(read) == text);
  CHECK(read.nodes.at(1).workers.at(0).processes.size() == 1);
  CHECK(read.silent == answer.silent);
  std::string later = text;
  later.replace(later.find("\"version\":1}"), 11, "\"version\":2");
  CHECK_THROWS_AS(job_answer_from_json(later), std::invalid_argument);
  for (const char* wrong : {"", "{}", "[]", "{\"version\":1}", "{"})
    CHECK_THROWS_AS(job_answer_from_json(wrong), std::invalid_argument);
}

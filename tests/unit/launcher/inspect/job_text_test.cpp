// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/job_text.hpp"

#include "catch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

using namespace muster;
using namespace muster::launcher;
using rendezvous::HangLevel;
using rendezvous::WaitKind;

namespace {

void waits(agent::WorkerStatus& worker, WaitKind wait, const std::string& does) {
  worker.does = does;
  worker.activity = rendezvous::Activity::waits;
  worker.wait = wait;
  worker.still_ms = 61'000;
  worker.place = "train.py:41 in main";
}

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
        "RANK  HOST  PID  CPU   MEMORY   NOW\n"
        "0     n00   100  1:01  3.0 MiB  in all_reduce #12\\x0a\n"
        "1     n01   101  1:01  3.0 MiB  running\n");
}

TEST_CASE("A rank is shown as its agent sees it from outside, with what is known of it") {
  JobAnswer answer = answer_of_two_nodes();
  answer.nodes[1].host = "n00";
  waits(answer.nodes[0].workers[0], WaitKind::communication, "waits for all_reduce\x1b since 61 s");
  agent::WorkerStatus& worker = answer.nodes[1].workers[0];
  worker.does = "moves";
  worker.output_ms = 0;
  worker.gpu = "GPU-8932f937-d72c-4106";
  worker.step = 40;
  const std::string text = status_text(answer);
  CHECK(text.find("RANK  PID  CPU   MEMORY   GPU              STEP  OUTPUT  NOW\n") != std::string::npos);
  CHECK(text.find("\n0     100  1:01  3.0 MiB  -                -     -       "
                  "waits for all_reduce\\x1b since 61 s (train.py:41 in main)\n") != std::string::npos);
  CHECK(text.find("\n1     101  1:01  3.0 MiB  GPU-8932f937...  40    0 s     moves\n") != std::string::npos);
  worker.now = "in no call; the last was barrier #3";
  CHECK(status_text(answer).find("0 s     in no call; the last") != std::string::npos);
}

TEST_CASE("A rank that is stopped just now is said to be, whatever was seen of it before") {
  JobAnswer answer = answer_of_two_nodes();
  agent::WorkerStatus& worker = answer.nodes[1].workers[0];
  worker.does = "moves";
  worker.state = "stopped by a signal or a debugger";
  CHECK(status_text(answer).find("MiB  stopped by a signal or a debugger\n") != std::string::npos);
  waits(worker, WaitKind::stopped, "is stopped by a signal since 12 s");
  worker.place.clear();
  CHECK(status_text(answer).find("MiB  is stopped by a signal since 12 s\n") != std::string::npos);
  const Picture picture = status_picture(answer, {});
  CHECK(picture.back().tone == Tone::alarm);
  CHECK(picture[picture.size() - 2].tone == Tone::plain);
}

TEST_CASE("The verdict that was said last stands at the top, and why there were restarts below it") {
  JobAnswer answer = answer_of_two_nodes();
  answer.nodes[0].hang = {HangLevel::may_be, "rank 0 may be hung", 95'000};
  answer.nodes[1].hang = {HangLevel::is_hung, "rank 1 on n01\x1b is hung: it sleeps since 5 s", 65'000};
  for (int round = 0; round < 5; ++round)
    answer.nodes[1].ended_rounds.push_back({round, "rank 3\x1b failed", "restarting all workers"});
  const std::string text = status_text(answer);
  CHECK(text.find(" 2 ranks\nrank 1 on n01\\x1b is hung: it sleeps since 5 s (said 1 min 5 s ago)\n"
                  "... 2 earlier restarts\n"
                  "round 2 ended: rank 3\\x1b failed; restarting all workers\n") != std::string::npos);
  CHECK(text.find("\nround 4 ended: ") != std::string::npos);
  CHECK(to_json(answer).find("\"hang\":{\"culprits\":[],\"level\":\"is_hung\"") != std::string::npos);
  CHECK(status_picture(answer, {})[1].tone == Tone::alarm);
}

TEST_CASE("The useful share of a job's time is told with what the rest went into") {
  using std::chrono::milliseconds;
  JobAnswer answer = answer_of_two_nodes();
  answer.shares = TimeShares{milliseconds(518'999),
                             milliseconds(999),
                             milliseconds(62'000),
                             milliseconds(0),
                             milliseconds(128'000),
                             milliseconds(0),
                             true};
  const std::string line =
      "useful: at least 73 % of 11 min 49 s; detection 1 min 2 s, recomputed at most 2 min 8 s";
  CHECK(status_text(answer).find(" 2 ranks\n" + line + "\nnode n00") != std::string::npos);
  CHECK(status_picture(answer, {})[1].text.starts_with("useful: at least 73 %"));
  CHECK(job_answer_from_json(to_json(answer)).shares == answer.shares);
  answer.shares = TimeShares{};
  CHECK(status_text(answer).find("useful") == std::string::npos);
  answer.shares->useful = milliseconds(7000);
  CHECK(status_text(answer).find("\nuseful: 100 % of 7 s\n") != std::string::npos);
}

TEST_CASE("A job is idle if all its ranks wait, and none for another") {
  JobAnswer answer = answer_of_two_nodes();
  CHECK_FALSE(idle_since(answer));  // nothing is known of them
  for (agent::NodeStatus& node : answer.nodes)
    waits(node.workers[0], WaitKind::events, "waits for something");
  answer.nodes[1].workers[0].still_ms = 95'000;
  CHECK(idle_since(answer) == std::chrono::seconds(61));
  CHECK(status_text(answer).find("\nidle since 1 min 1 s: no rank moves, and none waits for others\n") !=
        std::string::npos);
  for (const WaitKind wait : {WaitKind::store_key, WaitKind::communication, WaitKind::stopped}) {
    answer.nodes[1].workers[0].wait = wait;
    CHECK_FALSE(idle_since(answer));
  }
  answer.nodes[1].workers[0].wait = WaitKind::lock;
  answer.nodes[1].workers[0].activity = rendezvous::Activity::busy;
  CHECK_FALSE(idle_since(answer));
  waits(answer.nodes[1].workers[0], WaitKind::lock, "waits for a lock");
  CHECK(idle_since(answer));
  answer.silent = {"n02"};
  CHECK_FALSE(idle_since(answer));
  answer.silent.clear();
  answer.nodes[1].workers[0].still_ms = 9'999;
  CHECK_FALSE(idle_since(answer));
  CHECK_FALSE(idle_since(JobAnswer{}));
}

TEST_CASE("A picture fits the terminal, and counts what does not") {
  JobAnswer answer = answer_of_two_nodes();
  answer.nodes[0].hang = {HangLevel::is_hung, "rank 1 is hung: it waits for " + std::string(300, 'k'), 0};
  const agent::WorkerStatus worker = answer.nodes[0].workers[0];
  for (int rank = 0; rank < 100; ++rank) answer.nodes[1].workers.push_back(worker);
  for (int node = 0; node < 20; ++node) answer.nodes.push_back(agent::NodeStatus{});
  for (const ScreenSize size :
       {ScreenSize{80, 24}, ScreenSize{40, 12}, ScreenSize{20, 4}, ScreenSize{0, 0}}) {
    const Picture picture = status_picture(answer, size);
    CHECK(picture.size() <= static_cast<std::size_t>(std::max(size.rows, 4)));
    for (const ScreenLine& line : picture)
      CHECK(line.text.size() < static_cast<std::size_t>(std::max(size.columns, 20)));
  }
  const Picture picture = status_picture(answer, {80, 24});
  REQUIRE(picture.size() == 24);
  CHECK(picture[1].tone == Tone::alarm);
  CHECK(picture[2].text.starts_with("    kkk"));
  // 1 line for the job, 4 for the verdict, 6 for nodes; then the names of columns and 11 of 102 ranks.
  CHECK(picture[10].text == "... 17 more nodes");
  CHECK(picture[11].text.starts_with("RANK"));
  CHECK(picture[23].text == "... 91 more ranks");
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
  JobCard named = card;
  named.name = "llama";
  CHECK(jobs_table({card, named}, 5500) ==
        "JOB           NAME   AGE  NODES  WORKERS  PID  COMMAND\n"
        "train-0123ab  -      4 s  1      -        7    muster run train.py \t\\x1b\n"
        "train-0123ab  llama  4 s  1      -        7    muster run train.py \t\\x1b\n");
}

TEST_CASE("Jobs that have ended are told by their state") {
  EndedJob job;
  job.card.id = "train-0123ab";
  job.card.name = "llama";
  job.card.program = "train.py\x1b";
  job.card.pid = 7;
  job.card.started_at_ms = 1000;
  job.card.arguments = {"train.py"};
  job.ended_at_ms = 66'000;
  job.exit_code = 137;
  JobCard runs = job.card;
  runs.id = "a-1";
  runs.name = "";
  CHECK(all_jobs_table({runs}, {job}, 71'000) ==
        "JOB           NAME   STATE                AGE         NODES  WORKERS  PID  COMMAND\n"
        "a-1           -      running              1 min 10 s  1      -        7    muster run train.py\n"
        "train-0123ab  llama  ended (137) 5 s ago  1 min 5 s   1      -        7    muster run train.py\n");
  CHECK(ended_text(job, 71'000) ==
        "train-0123ab (llama): train.py\\x1b, ended 5 s ago, after 1 min 5 s, with exit code 137\n");
  job.cause = "rank 1 on n0: killed by SIGKILL\x1b";
  job.report = "/tmp/report.json";
  job.cpu_ms = 61'000;
  job.memory_peak = std::uint64_t{3} << 30;
  CHECK(ended_text(job, 71'000)
            .ends_with("137\n"
                       "cause   rank 1 on n0: killed by SIGKILL\\x1b\n"
                       "report  /tmp/report.json\n"
                       "CPU     1:01\n"
                       "memory  3.0 GiB at most, of its largest process\n"));
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

TEST_CASE("What is wrong on a host, and which ranks are slow, stand below the verdict") {
  JobAnswer answer = answer_of_two_nodes();
  answer.nodes[0].hang = {HangLevel::may_be, "rank 1 may be hung", 5000};
  answer.nodes[1].host_causes = {
      {agent::HostCauseKind::full_disk, "the file system /scratch\x1b is full", "0 B of 10 GiB are free"}};
  for (agent::NodeStatus& node : answer.nodes) node.slow = "rank 1 on n01 is slow";
  CHECK(status_text(answer).find("rank 1 may be hung (said 5 s ago)\n"
                                 "on n01 the file system /scratch\\x1b is full (0 B of 10 GiB are free)\n"
                                 "rank 1 on n01 is slow\n"
                                 "node n00: ") != std::string::npos);
  const std::string json = to_json(answer);
  CHECK(json.find("\"slow\":\"rank 1 on n01 is slow\"") != std::string::npos);
  CHECK(json.find("\"kind\":\"full_disk\"") != std::string::npos);
  CHECK(job_answer_from_json(json).nodes[1].host_causes == answer.nodes[1].host_causes);
  const Picture picture = status_picture(answer, {});
  CHECK(picture[1].tone == Tone::warning);
  CHECK(picture[2].text == "on n01 the file system /scratch\\x1b is full (0 B of 10 GiB are free)");
}

TEST_CASE("A rank that is held by the kernel is shown with the function that holds it") {
  JobAnswer answer = answer_of_two_nodes();
  agent::WorkerStatus& worker = answer.nodes[1].workers[0];
  worker.state = "in the kernel, where no signal reaches it";
  waits(worker, WaitKind::file, "is held by the kernel in nfs_wait_bit_killable since 61 s");
  CHECK(status_text(answer).find("MiB  in the kernel, where no signal reaches it\n") != std::string::npos);
  worker.held_in = "nfs_wait_bit_killable";
  CHECK(status_text(answer).find(
            "MiB  is held by the kernel in nfs_wait_bit_killable since 61 s (train.py:41 in main)\n") !=
        std::string::npos);
  CHECK(status_picture(answer, {}).back().tone == Tone::alarm);
}

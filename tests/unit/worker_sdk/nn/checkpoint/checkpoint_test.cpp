// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/checkpoint.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/checkpoint/folder.hpp"

#include <algorithm>
#include <future>

using namespace muster::checkpoint;
using namespace muster::test;

namespace {

std::string write(CheckpointStore& store, std::int64_t step) {
  const SampleState sample(step);
  return store.write(sample.state);
}

/// Names in the folder, but for the lock, sorted.
std::vector<std::string> names(const Folder& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().filename() != ".lock") found.push_back(entry.path().filename().string());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

TEST_CASE("A checkpoint reads back as it was written") {
  const Folder folder;
  CheckpointStore store({folder.path(), 3, {}});
  CHECK(write(store, 12) == folder / "000001-step-12");
  std::vector<Skipped> skipped;
  const auto found = newest_complete(folder.path(), skipped);
  REQUIRE(found);
  CHECK(skipped.empty());
  CHECK(found->path == folder / "000001-step-12");
  CHECK(found->manifest.model == "small-cnn");
  CHECK(found->manifest.tensors == std::vector<ParameterEntry>{{"conv1.weight", {4, 2}}});
  CHECK(found->manifest.scalars == SampleState(12).state.scalars);
  CHECK(is_whole(*found));
}

TEST_CASE("The last few stay, by the order in which they were written") {
  const Folder folder;
  CheckpointStore store({folder.path(), 2, {}});
  write(store, 500);
  write(store, 10);  // a run that began anew
  write(store, 20);
  CHECK(names(folder) == std::vector<std::string>{"000002-step-10", "000003-step-20"});
  write(store, 20);
  CHECK(names(folder) == std::vector<std::string>{"000003-step-20", "000004-step-20"});
  CHECK_THAT(error_of([&] { const CheckpointStore none({folder / "x", 0, {}}); }), Contains("at least 1"));
}

TEST_CASE("Checkpoints of another run in the folder stay") {
  const Folder folder;
  for (const std::int64_t step : {10, 20}) {
    CheckpointStore store({folder.path(), 3, {}});
    write(store, step);
  }
  std::vector<Skipped> skipped;
  {
    CheckpointStore other({folder.path(), 1, {}});
    write(other, 5);
    write(other, 6);
  }
  CHECK(names(folder) == std::vector<std::string>{"000001-step-10", "000002-step-20", "000004-step-6"});
  CheckpointStore again({folder.path(), 1, {}});
  again.continue_from(*newest_complete(folder.path(), skipped));
  write(again, 7);
  CHECK(names(folder) == std::vector<std::string>{"000001-step-10", "000002-step-20", "000005-step-7"});
}

TEST_CASE("Damaged checkpoints do not count as kept ones, and are removed with the older ones") {
  const Folder folder;
  {
    CheckpointStore store({folder.path(), 9, {}});
    for (int step = 1; step <= 5; ++step) write(store, step);
  }
  for (const char* name : {"000002-step-2", "000004-step-4", "000005-step-5"})
    std::filesystem::resize_file(folder / name + "/model.safetensors", 20);
  CheckpointStore store({folder.path(), 2, {}});
  std::vector<Skipped> skipped;
  store.continue_from(*newest_complete(folder.path(), skipped));
  write(store, 6);
  CHECK(names(folder) ==
        std::vector<std::string>{"000003-step-3", "000004-step-4", "000005-step-5", "000006-step-6"});
  write(store, 7);
  CHECK(names(folder) == std::vector<std::string>{"000006-step-6", "000007-step-7"});
}

TEST_CASE("A folder that only looks like a checkpoint neither counts nor is harmed") {
  const Folder folder;
  const std::vector<std::string> strange = {"000007-step--5", "18446744073709551615-step-1", "9-step-1"};
  for (const std::string& name : {strange[0], strange[1]}) std::filesystem::create_directories(folder / name);
  write_file(folder / strange[2], "a file");
  CheckpointStore store({folder.path(), 1, {}});
  write(store, 1);
  CHECK(write(store, 2) == folder / "000011-step-2");
  CHECK(list_checkpoints(folder.path()) == std::vector<std::string>{"000011-step-2"});
  for (const std::string& name : strange) CHECK(std::filesystem::exists(folder / name));
}

TEST_CASE("A damaged checkpoint is passed over, and the reason is told") {
  const Folder folder;
  CheckpointStore store({folder.path(), 9, {}});
  for (int step = 1; step <= 10; ++step) write(store, step);
  const auto file = [&](int step, const std::string& name) {
    return folder / ((step < 10 ? "00000" : "0000") + std::to_string(step) + "-step-" + std::to_string(step) +
                     "/" + name);
  };
  // Neither has an end; a hash of it would have none.
  for (const std::string& place : {file(10, "model.safetensors"), file(9, "manifest.json")}) {
    std::filesystem::remove(place);
    std::filesystem::create_symlink("/dev/zero", place);
  }
  std::string bytes = bytes_of_file(file(8, "state.safetensors"));
  bytes.back() ^= 1;
  write_file(file(8, "state.safetensors"), bytes);
  std::filesystem::resize_file(file(7, "model.safetensors"), 20);
  std::filesystem::remove(file(6, "model.safetensors"));
  std::filesystem::remove(file(5, "manifest.json"));
  std::filesystem::resize_file(file(4, "manifest.json"), 50);
  write_file(file(3, "manifest.json"), bytes_of_file(file(2, "manifest.json")));
  std::vector<Skipped> skipped;
  const auto found = newest_complete(folder.path(), skipped);
  REQUIRE(found);
  CHECK(found->path == folder / "000002-step-2");
  CHECK(is_whole(*found));
  REQUIRE(skipped.size() == 8);
  CHECK_THAT(skipped[0].why, Contains("model.safetensors is no file"));
  CHECK_THAT(skipped[1].why, Contains("manifest.json is no file"));
  CHECK_THAT(skipped[2].why, Contains("state.safetensors is damaged"));
  CHECK_THAT(skipped[3].why, Contains("model.safetensors has 20 bytes, its manifest says"));
  CHECK_THAT(skipped[4].why, Contains("model.safetensors: No such file"));
  CHECK_THAT(skipped[5].why, Contains("manifest.json: No such file"));
  CHECK_THAT(skipped[6].why, Contains("manifest.json: it is no manifest"));
  CHECK_THAT(skipped[7].why, Contains("is damaged"));
}

TEST_CASE("An empty folder has no checkpoint, one that is missing is an error") {
  const Folder folder;
  std::vector<Skipped> skipped;
  CHECK_FALSE(newest_complete(folder.path(), skipped));
  CHECK_THAT(error_of([&] { newest_complete(folder / "absent", skipped); }), Contains("absent"));
}

TEST_CASE("The next start removes what killed writes have left, and no other file") {
  const Folder folder;
  std::filesystem::create_directories(folder / ".writing-000001-step-1/deep");
  std::filesystem::create_directories(folder / ".removing-000002-step-1");
  std::filesystem::create_directories(folder / "notes-step-1");
  const CheckpointStore store({folder.path(), 3, {}});
  CHECK(names(folder) == std::vector<std::string>{"notes-step-1"});
}

TEST_CASE("A write that fails leaves nothing, and says what is there") {
  const Folder folder;
  std::string at;
  CheckpointStore store({folder.path(), 3, [&](std::string_view point) {
                           if (point == at) throw muster::Error(muster::ErrorCode::io, "no disk");
                         }});
  at = "piece";
  CHECK_THAT(error_of([&] { write(store, 1); }), Contains("there is no earlier one"));
  at.clear();
  write(store, 2);
  for (const char* point : {"folder", "piece", "before sync", "manifest", "before rename", "after rename"}) {
    INFO(point);
    at = point;
    CHECK_THAT(error_of([&] { write(store, 3); }),
               Contains("the checkpoint of step 3 was not written: no disk; the last one is " +
                        (folder / "000001-step-2")));
    CHECK(names(folder) == std::vector<std::string>{"000001-step-2"});
  }
}

TEST_CASE("A folder has one writer") {
  const Folder folder;
  auto first = std::make_unique<CheckpointStore>(muster::checkpoint::StoreOptions{folder.path(), 3, {}});
  auto second = std::async(std::launch::async, [&] {
    return std::make_unique<CheckpointStore>(muster::checkpoint::StoreOptions{folder.path(), 3, {}});
  });
  CHECK_THAT(error_of([&] {
               const CheckpointStore third({folder.path(), 3, {}, std::chrono::milliseconds(1)});
             }),
             Contains("another process writes checkpoints into " + folder.path()));
  first.reset();
  CHECK_NOTHROW(second.get());
}

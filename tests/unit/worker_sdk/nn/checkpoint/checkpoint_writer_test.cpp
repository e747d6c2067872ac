// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/checkpoint_writer.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/checkpoint/folder.hpp"

#include <algorithm>
#include <barrier>
#include <future>
#include <thread>

using namespace muster::checkpoint;
using namespace muster::test;

namespace {

/// Processes of a test, as threads.
class Meeting {
 public:
  explicit Meeting(int count) : texts_(static_cast<std::size_t>(count)), barrier_(count) {}

  Together member(int index) {
    const auto exchange = [this, index](const std::string& mine) {
      texts_[static_cast<std::size_t>(index)] = mine;
      barrier_.arrive_and_wait();
      std::vector<std::string> all = texts_;
      barrier_.arrive_and_wait();
      return all;
    };
    const auto largest = [exchange](int mine) {
      int largest_one = mine;
      for (const std::string& text : exchange(std::to_string(mine)))
        largest_one = std::max(largest_one, std::stoi(text));
      return largest_one;
    };
    return {{index, static_cast<int>(texts_.size())}, largest, exchange};
  }

 private:
  std::vector<std::string> texts_;
  std::barrier<> barrier_;
};

/// The part of a state that process `index` of `count` has: every number follows from step and place. The
/// last process has nothing of the first tensor.
class SlicedState {
 public:
  static constexpr std::int64_t kElements = 1000;

  SlicedState(std::int64_t step, int index, int count) {
    state.model = "small-cnn";
    state.scalars.set("step", step);
    add(state.tensors, "conv1.weight", step, index, std::max(1, count - 1));
    add(state.state, "momentum/conv1.weight", -step, index, count);
    state.tensors.push_back({"bn1.running_mean", Type::f32, {1}, &mean_, Slice{0, index == 0 ? 1U : 0U}});
  }

  SlicedState(const SlicedState&) = delete;
  SlicedState& operator=(const SlicedState&) = delete;

  static float value(std::int64_t step, std::uint64_t place) {
    return static_cast<float>(step) + static_cast<float>(place) / 1024;
  }

  TrainingState state;

 private:
  void add(std::vector<TensorView>& tensors, const std::string& name, std::int64_t step, int index,
           int parts) {
    const auto all = static_cast<std::uint64_t>(kElements);
    const auto begin =
        std::min(all, all * static_cast<std::uint64_t>(index) / static_cast<std::uint64_t>(parts));
    const auto end =
        std::min(all, all * static_cast<std::uint64_t>(index + 1) / static_cast<std::uint64_t>(parts));
    auto& values = values_.emplace_back();
    for (std::uint64_t i = begin; i < end; ++i) values.push_back(value(step, i));
    tensors.push_back({name, Type::f32, {kElements / 10, 10}, values.data(), Slice{begin, end - begin}});
  }

  std::vector<std::vector<float>> values_{};
  const float mean_ = 0.5F;
};

/// Whether a tensor of a checkpoint has the numbers of a step, read in pieces that begin anywhere.
bool has_step(const TensorFiles& files, const std::string& name, std::int64_t step) {
  const TensorFiles::Tensor* const tensor = files.find(name);
  if (tensor == nullptr || tensor->shape != Shape{SlicedState::kElements / 10, 10}) return false;
  for (std::uint64_t first = 0; first < SlicedState::kElements; first += 77) {
    std::vector<float> values(std::min<std::uint64_t>(200, SlicedState::kElements - first));
    files.read_floats(*tensor, values, first);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != SlicedState::value(step, first + i)) return false;
  }
  return true;
}

bool is_of_step(const Checkpoint& found, std::int64_t step) {
  return found.manifest.scalars.integer("step") == step && has_step(found.model, "conv1.weight", step) &&
         has_step(found.state, "momentum/conv1.weight", -step);
}

using OnPoint = std::function<void(std::string_view)>;

/// Writes steps 1, 2, ... by so many processes together; what each of them was told at its end. `on_point`:
/// of the first one. `before`: called by each before it writes a step.
std::vector<std::string> write_together(const std::string& folder, int count, std::int64_t steps,
                                        const OnPoint& on_point = {},
                                        const std::function<void(int)>& before = {}) {
  Meeting meeting(count);
  std::vector<std::future<std::string>> told;
  for (int index = 0; index < count; ++index)
    told.push_back(std::async(std::launch::async, [&, index] {
      const auto store =
          index == 0 ? std::make_shared<CheckpointStore>(StoreOptions{folder, 9, on_point}) : nullptr;
      CheckpointWriter writer(folder, store, meeting.member(index), std::chrono::seconds(50));
      std::string last;
      try {
        for (std::int64_t step = 1; step <= steps; ++step) {
          const SlicedState own(step, index, count);
          writer.hold(own.state);
          if (before) before(index);
          writer.start_held();
          do last = writer.poll();
          while (last.empty() && step % 2 == 0);
          if (last.empty()) last = writer.wait();
        }
      } catch (const muster::Error& error) {
        return std::string(error.what());
      }
      return last;
    }));
  std::vector<std::string> texts;
  for (auto& one : told) texts.push_back(one.get());
  return texts;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string refusal(const std::string& path) {
  return error_of([&] { open_checkpoint(path); });
}

}  // namespace

TEST_CASE("Several processes write one checkpoint together, and any number of them reads it") {
  for (const int count : {2, 3, 5}) {
    const Folder folder;
    const auto told = write_together(folder / "run", count, 2);
    const std::string path = folder / "run/000002-step-2";
    CHECK(told == std::vector<std::string>(static_cast<std::size_t>(count), path));
    for (const int readers : {1, 2, 4})
      for (int index = 0; index < readers; ++index)
        CHECK(is_of_step(open_checkpoint(path, {index, readers}), 2));
    CHECK(is_of_step(open_checkpoint(folder / "run/000001-step-1"), 1));
    const std::string of = "-of-" + std::to_string(count) + ".safetensors";
    for (int i = 0; i < count; ++i)
      for (const char* const kind : {"/model-", "/state-"})
        CHECK(std::filesystem::exists(path + kind + std::to_string(i) + of));
  }
}

TEST_CASE("Each reader looks at its share of the files, and all of them at all") {
  const Folder folder;
  write_together(folder / "run", 4, 1);
  const std::string path = folder / "run/000001-step-1";
  for (const char* const kind : {"/model-", "/state-"})
    for (int i = 0; i < 4; ++i) {
      const std::string file = path + kind + std::to_string(i) + "-of-4.safetensors";
      const std::string good = bytes_of_file(file);
      std::string bytes = good;
      bytes[bytes.size() - 20] ^= 1;  // in the header of a file without tensors, which is damaged, too
      write_file(file, bytes);
      int found = 0;
      for (int reader = 0; reader < 3; ++reader)
        found += error_of([&] { open_checkpoint(path, {reader, 3}); }).empty() ? 0 : 1;
      INFO(file);
      CHECK(found >= 1);
      CHECK_THAT(refusal(path), Contains(file + " is damaged"));
      write_file(file, good);
    }
  CHECK(refusal(path).empty());
}

TEST_CASE(
    "A checkpoint in slices with a part that is missing, cut or of another one is refused, and the part "
    "named") {
  const Folder folder;
  write_together(folder / "run", 3, 2);
  write_together(folder / "other", 2, 2);
  const std::string path = folder / "run/000002-step-2";
  const std::string file = path + "/model-1-of-3.safetensors";
  const std::string good = bytes_of_file(file);
  std::filesystem::resize_file(file, good.size() - 4);
  CHECK_THAT(refusal(path), Contains(file + " has ") && Contains("its manifest says"));
  write_file(file, bytes_of_file(folder / "run/000001-step-1/model-1-of-3.safetensors"));
  CHECK_THAT(refusal(path), Contains(file + " is damaged"));
  write_file(file, bytes_of_file(folder / "other/000002-step-2/model-1-of-2.safetensors"));
  CHECK_THAT(refusal(path), Contains(file + " has ") && Contains("its manifest says"));
  std::filesystem::remove(file);
  CHECK_THAT(refusal(path), Contains(file + ": No such file"));
  std::filesystem::create_symlink("/dev/zero", file);
  CHECK_THAT(refusal(path), Contains(file + " is no file"));
  std::filesystem::remove(file);
  write_file(file, good);
  CHECK(refusal(path).empty());
}

TEST_CASE("Slices that overlap, leave a gap or belong to no tensor are refused") {
  const Folder folder;
  const std::vector<float> values(8, 1.0F);
  const std::vector<ParameterEntry> known = {{"a", {4, 2}}};
  const auto refused = [&](const std::vector<std::vector<TensorView>>& files) {
    return error_of([&] {
      std::vector<SafetensorsFile> opened;
      for (const auto& tensors : files) {
        const std::string path = folder / ("file" + std::to_string(opened.size()));
        write_safetensors(path, tensors, {});
        opened.emplace_back(path);
      }
      const TensorFiles all(std::move(opened), known);
    });
  };
  const auto slice = [&](const std::string& name, std::int64_t count) {
    return TensorView{name, Type::f32, {count}, values.data()};
  };
  CHECK(refused({{slice("a[0:3]", 3)}, {slice("a[3:8]", 5)}}).empty());
  CHECK_THAT(refused({{slice("a[0:3]", 3)}, {slice("a[2:8]", 6)}}), Contains("a[2:8] is there twice"));
  CHECK_THAT(refused({{slice("a[0:3]", 3)}, {slice("a[4:8]", 4)}}),
             Contains("the elements of a from 3 on are missing"));
  CHECK_THAT(refused({{slice("a[0:3]", 3)}, {}}), Contains("the elements of a from 3 on are missing"));
  CHECK_THAT(refused({{slice("a[0:9]", 8)}}),
             Contains("file0 has a[0:9] [8], which is no part of a tensor of shape [4, 2]"));
  CHECK_THAT(refused({{slice("a[0:18446744073709551615]", 8)}}), Contains("no part of a tensor"));
  CHECK_THAT(refused({{slice("b[0:4]", 4)}}), Contains("has b[0:4], which its manifest does not name"));
  CHECK_THAT(refused({{{"a", Type::f32, {4, 2}, values.data()}}, {slice("a[0:3]", 3)}}),
             Contains("is there twice"));
}

TEST_CASE("Where the disk of one process fails all are told which, and the checkpoint before stays") {
  const Folder folder;
  const std::string run = folder / "run";
  write_together(run, 3, 1);
  // The place of a file of the second process is taken.
  const std::string taken = run + "/.writing-000002-step-1/state-1-of-3.safetensors";
  const auto failed = write_together(run, 3, 1, {}, [&](int index) {
    if (index != 1) return;
    std::filesystem::create_directories(std::filesystem::path(taken).parent_path());
    write_file(taken, "");
  });
  const std::string why = "the checkpoint of step 1 was not written: cannot make " + taken + ": File exists";
  CHECK_THAT(failed[1], Contains(why) && Contains("; the last one is " + run + "/000001-step-1"));
  CHECK_THAT(failed[0], Contains("rank 1: " + why));
  CHECK_THAT(failed[2], Contains("rank 1: " + why));
  CHECK(names_in(run) == std::vector<std::string>{".lock", "000001-step-1"});
}

TEST_CASE("Where the first process fails at any point nothing of the checkpoint is left") {
  for (const char* const at :
       {"folder", "piece", "before sync", "manifest", "before rename", "after rename"}) {
    const Folder folder;
    const std::string run = folder / "run";
    write_together(run, 2, 1);
    const auto told = write_together(run, 2, 1, [&](std::string_view point) {
      if (point == at) throw muster::Error(muster::ErrorCode::io, "no disk");
    });
    INFO(at);
    const std::string why =
        "the checkpoint of step 1 was not written: no disk; the last one is " + run + "/000001-step-1";
    CHECK(told == std::vector<std::string>{why, "rank 0: " + why});
    CHECK(names_in(run) == std::vector<std::string>{".lock", "000001-step-1"});
  }
}

TEST_CASE("A write in the background saves the state of its start") {
  const Folder folder;
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  const auto store =
      std::make_shared<CheckpointStore>(StoreOptions{folder.path(), 3, [gone](std::string_view point) {
                                                       if (point == "folder") gone.wait();
                                                     }});
  CheckpointWriter writer(folder.path(), store, {}, std::chrono::seconds(50));
  SampleState sample(5);
  CHECK(writer.start(sample.state).empty());
  CHECK(writer.poll().empty());
  std::fill(sample.weights.begin(), sample.weights.end(), 99.0F);
  go.set_value();
  CHECK(writer.wait() == folder / "000001-step-5");
  CHECK(writer.wait().empty());
  CHECK(is_whole(open_checkpoint(folder / "000001-step-5")));
}

TEST_CASE("A write in the background reports its failure once, at the next call") {
  const Folder folder;
  const auto store = std::make_shared<CheckpointStore>(StoreOptions{
      folder.path(), 3, [](std::string_view) { throw muster::Error(muster::ErrorCode::io, "no disk"); }});
  CheckpointWriter writer(folder.path(), store, {}, std::chrono::seconds(50));
  const SampleState sample(5);
  writer.start(sample.state);
  CHECK_THAT(error_of([&] { writer.start(sample.state); }), Contains("no disk"));
  CHECK_NOTHROW(writer.start(sample.state));
  CHECK_THAT(error_of([&] { writer.wait(); }), Contains("no disk"));
  CHECK_NOTHROW(writer.wait());
}

TEST_CASE("A held state is written when its write is started, and dropped for a newer one") {
  const Folder folder;
  {
    CheckpointWriter writer(folder.path(), std::make_shared<CheckpointStore>(StoreOptions{folder.path()}), {},
                            std::chrono::seconds(50));
    writer.start_held();
    writer.hold(SampleState(5).state);
    CHECK(list_checkpoints(folder.path()).empty());
    writer.start_held();
    CHECK(writer.wait() == folder / "000001-step-5");
    writer.hold(SampleState(6).state);
    writer.start(SampleState(7).state);
    CHECK(writer.wait() == folder / "000002-step-7");
    writer.hold(SampleState(8).state);
    CHECK(writer.wait() == folder / "000003-step-8");
    writer.hold(SampleState(9).state);
  }
  CHECK(list_checkpoints(folder.path()).size() == 3);
}

TEST_CASE("A write in the background has a deadline") {
  const Folder folder;
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  const auto store = std::make_shared<CheckpointStore>(
      StoreOptions{folder.path(), 3, [gone](std::string_view) { gone.wait(); }});
  CheckpointWriter writer(folder.path(), store, {}, std::chrono::milliseconds(1));
  const SampleState sample(5);
  writer.start(sample.state);
  CHECK_THAT(error_of([&] { writer.wait(); }), Contains("was not written within 1 ms; check that disk"));
  go.set_value();
  while (writer.poll().empty()) std::this_thread::yield();
}

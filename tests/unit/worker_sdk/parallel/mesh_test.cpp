// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/mesh.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/shm_ranks.hpp"
#include "worker_sdk/parallel/reducer.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace muster::parallel {

TEST_CASE("Ranks are numbered through a mesh along its last axis first") {
  const std::vector<MeshAxis> axes = {{"a", 2}, {"b", 3}, {"c", 4}};
  int rank = 0;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < 4; ++c) CHECK(places_in(axes, rank++) == std::vector<int>{a, b, c});
}

TEST_CASE("Copies of a model take ranks that divide the world") {
  const std::vector<MeshAxis> axes = axes_of_shards(6, 3);
  CHECK(axes[0].name == kReplicaAxis);
  CHECK(axes[0].size == 2);
  CHECK(axes[1].name == kShardAxis);
  CHECK(axes[1].size == 3);
  for (const int sharing : {4, 7, 0, -2})
    CHECK_THROWS_WITH(axes_of_shards(6, sharing),
                      Contains(std::to_string(sharing) + " ranks") && Contains("do not go into 6 ranks"));
}

TEST_CASE("A call along an axis is one of the ranks that differ along it only") {
  const std::vector<MeshAxis> axes = {{"a", 2}, {"b", 1}, {"c", 3}};
  const auto errors = test::run_shm_ranks(6, [&](ProcessGroup& world) {
    const Mesh mesh(axes, world);
    const auto sum = [&](const char* axis) {
      std::int32_t value = 1 << (4 * mesh.world().rank());
      mesh.along(axis)->all_reduce(&value, 1, DataType::i32, ReduceOp::sum);
      return value;
    };
    const int rank = world.rank();
    const bool fits = mesh.along("b") == nullptr && mesh.size("c") == 3 && mesh.place("a") == rank / 3 &&
                      mesh.along("c")->rank() == rank % 3 && mesh.along("a")->rank() == rank / 3 &&
                      sum("a") == (1 << 4 * (rank % 3)) + (1 << 4 * (rank % 3 + 3)) &&
                      sum("c") == (rank < 3 ? 0x111 : 0x111000);
    if (!fits) throw std::runtime_error("rank " + std::to_string(rank) + " called others");
    // Of four bytes, along "a" and along "c".
    if (mesh.payload() == 0) throw std::runtime_error("nothing was counted");
  });
  CHECK(errors == std::vector<std::string>(6));
}

TEST_CASE("An axis that has all ranks is the world") {
  const auto errors = test::run_shm_ranks(2, [&](ProcessGroup& world) {
    const Mesh mesh(axes_of_shards(2, 2), world);
    if (mesh.along(kShardAxis) != &world || mesh.along(kReplicaAxis) != nullptr || mesh.payload() != 0)
      throw std::runtime_error("there are other groups");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("Every copy of a model has the sums of all ranks, each rank its part of them") {
  const std::vector<ParameterSpec> model = {{"a", {5000}}, {"b", {64}}, {"c", {901}}};
  // Whole numbers, so that sums are exact in any order.
  const auto gradient = [](int rank, std::size_t i, std::size_t k) {
    return static_cast<float>((static_cast<std::size_t>(rank) + 1) * (k % 61 + i));
  };
  for (const Form form : {Form::zero1, Form::zero2, Form::fsdp}) {
    INFO(name_of(form));
    const auto errors = test::run_shm_ranks(6, [&](ProcessGroup& group) {
      ReducerOptions options;
      options.sharding.form = form;
      options.sharding.unit_begins = {0, 1, 2};
      options.sharding.ranks = 2;
      options.max_norm = 1e9;
      Reducer reducer(model, &group, options);
      reducer.begin_step(1);
      for (std::size_t i = model.size(); i-- > 0;) {
        reducer.enter(reducer.layout().bucket_of[i]);
        for (std::size_t k = 0; k < model[i].elements(); ++k)
          reducer.gradient(i)[k] = gradient(group.rank(), i, k);
        reducer.gradient_ready(i);
      }
      if (reducer.finish_step() != 6) throw std::runtime_error("samples of all ranks are missing");
      const ShardedBuckets& shards = *reducer.shards();
      double squares = 0;
      for (std::size_t i = 0; i < model.size(); ++i) {
        const std::size_t bucket = reducer.layout().bucket_of[i];
        const OwnPart part = own_part(reducer.layout(), shards.own(), i, model[i].elements());
        for (std::size_t k = 0; k < part.elements; ++k) {
          const float found = shards.sums(bucket)[part.in_whole + k - shards.own().whole[bucket].begin];
          if (found != 21 * gradient(0, i, part.first + k)) throw std::runtime_error("wrong sum");
        }
        for (std::size_t k = 0; k < model[i].elements(); ++k) {
          const double sum = 21.0 * static_cast<double>(gradient(0, i, k)) / 6;
          squares += sum * sum;
        }
      }
      if (std::abs(reducer.gradient_norm() - std::sqrt(squares)) > 1e-6 * std::sqrt(squares))
        throw std::runtime_error("wrong norm");
    });
    CHECK(errors == std::vector<std::string>(6));
  }
}

TEST_CASE("A rank that fails in a step ends that of its copy's other ranks, and of the other copies'") {
  const std::vector<ParameterSpec> model = {{"a", {5000}}, {"b", {64}}, {"c", {900}}};
  for (const int failing : {0, 3}) {
    const auto errors = test::run_shm_ranks(4, [&](ProcessGroup& group) {
      ReducerOptions options;
      options.first_bucket_bytes = options.bucket_bytes = options.last_bucket_bytes = 64;
      options.sharding.form = Form::zero1;
      options.sharding.ranks = 2;
      options.own_step = [&](std::size_t bucket, float) {
        if (bucket == 1 && group.rank() == failing) throw std::runtime_error("the disk is full");
      };
      Reducer reducer(model, &group, options);
      reducer.begin_step(1);
      for (std::size_t i = model.size(); i-- > 0;) reducer.gradient_ready(i);
      reducer.finish_step();
    });
    for (std::size_t rank = 0; rank < errors.size(); ++rank) {
      INFO("rank " << rank);
      CHECK_THAT(errors[rank], Contains("the disk is full"));
    }
  }
}

}  // namespace muster::parallel

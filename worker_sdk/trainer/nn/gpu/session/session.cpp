// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/gpu/session/session.hpp"

#include "muster/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace muster::nn::gpu {
namespace {

template <typename T>
T* allocate(Ops& ops, std::size_t count, const char* what) {
  return static_cast<T*>(ops.allocate((count > 0 ? count : 1) * sizeof(T), what));
}

PixelScaling scaling_of(const data::Normalization& normalization) {
  PixelScaling scaling{};
  for (int c = 0; c < kColours; ++c) {
    scaling.scale[c] = 1.0F / (255.0F * normalization.deviation[c]);
    scaling.shift[c] = -normalization.mean[c] / normalization.deviation[c];
  }
  return scaling;
}

std::vector<std::string> names_of_state(const SessionOptions& options) {
  std::vector<std::string> names;
  if (options.optimizer.kind != "sgd")
    names = {"exp_avg", "exp_avg_sq"};
  else if (options.optimizer.momentum > 0)
    names = {"momentum"};
  if (options.average_decay > 0) names.emplace_back("ema");
  return names;
}

/// Says what is wrong with the options, as the CPU does.
const SessionOptions& checked(const SessionOptions& options) {
  (void)optim::make_optimizer(options.optimizer, {});
  if (options.batch < 1)
    throw Error(ErrorCode::invalid_argument,
                "a batch of " + std::to_string(options.batch) + " images; a step needs at least 1");
  if (options.micro_batches < 1)
    throw Error(ErrorCode::invalid_argument,
                "a step of " + std::to_string(options.micro_batches) + " micro-batches; give 1 or more");
  return options;
}

std::size_t floats_of(const std::vector<ParameterSpec>& tensors) {
  std::size_t floats = 0;
  for (const ParameterSpec& tensor : tensors) floats += tensor.elements();
  return floats;
}

/// Whether weight decay applies, one flag for each kArenaStep floats of an arena.
std::vector<std::uint8_t> decay_flags(const ModelSpec& spec, const parallel::BucketLayout& layout) {
  constexpr auto kStep = static_cast<std::size_t>(kArenaStep);
  static_assert(kStep == parallel::kAlignElements);
  std::vector<std::uint8_t> flags(layout.elements / kStep, 0);
  for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
    const auto first = flags.begin() + static_cast<std::ptrdiff_t>(layout.offsets[i] / kStep);
    if (spec.parameters[i].decay)
      std::fill_n(first, (spec.parameters[i].elements() + kStep - 1) / kStep, std::uint8_t{1});
  }
  return flags;
}

/// An order of images of a set of `size`, each at most once.
void require_images(std::span<const std::uint32_t> indices, std::size_t size) {
  for (const std::uint32_t index : indices)
    if (index >= size || indices.size() > size)
      throw Error(ErrorCode::invalid_argument, "image " + std::to_string(index) + " of " +
                                                   std::to_string(size) + " does not exist, or " +
                                                   std::to_string(indices.size()) + " images are asked for");
}

}  // namespace

Session::Session(const SessionOptions& options, Ops& ops, const data::Images& train, const data::Images& test,
                 DeviceAllReduce all_reduce)
    : options_(checked(options)),
      ops_(ops),
      all_reduce_(std::move(all_reduce)),
      deterministic_(options.reducer.deterministic_micro_batches > 0),
      network_(make_device_network(options.model, options.precision, options.classes, options.batch, ops,
                                   options.sum_statistics)),
      layout_(parallel::plan_buckets(network_->spec().parameters, options.reducer)),
      complete_(layout_),
      values_(allocate<float>(ops, layout_.elements, "parameters")),
      header_(allocate<float>(ops, parallel::kHeaderFloats + layout_.elements, "gradients")),
      gradients_(header_ + parallel::kHeaderFloats),
      waiting_(ops, layout_.elements, parallel::sum_order(options.reducer), options.micro_batches,
               "gradients of micro-batches"),
      squares_(options.reducer.max_norm > 0
                   ? allocate<double>(ops, SquareSums::kMostBlocks, "partial sums of the gradient's norm")
                   : nullptr),
      clip_(options.reducer.max_norm > 0 ? allocate<float>(ops, 1, "the gradient's norm") : nullptr),
      state_names_(names_of_state(options)),
      running_floats_(floats_of(spec().buffers)),
      running_(allocate<float>(ops, running_floats_, "running statistics")),
      running_before_(deterministic_ ? allocate<float>(ops, running_floats_, "running statistics") : nullptr),
      running_waiting_(ops, running_floats_, parallel::sum_order(options.reducer),
                       deterministic_ ? options.micro_batches : 1, "running statistics"),
      decays_(allocate<std::uint8_t>(ops, layout_.elements / kArenaStep, "flags of weight decay")),
      step_values_(allocate<StepValues>(ops, 1, "numbers of a step")),
      train_(upload(train, "training images")),
      test_(upload(test, "test images")),
      indices_(allocate<std::uint32_t>(ops, train.size(), "the order of images")),
      test_indices_(allocate<std::uint32_t>(ops, test.size(), "the order of images")),
      images_(
          ops.allocate(static_cast<std::size_t>(options.batch) * network_->image_format().bytes(), "images")),
      labels_(allocate<std::uint8_t>(ops, static_cast<std::size_t>(options.batch), "labels")),
      losses_(allocate<float>(ops, static_cast<std::size_t>(options.batch), "losses")),
      hits_(allocate<float>(ops, static_cast<std::size_t>(options.batch), "hits")),
      logits_gradient_(
          allocate<float>(ops, static_cast<std::size_t>(options.batch * options.classes), "logits")),
      train_score_(allocate<double>(ops, 2 * kTallyNumbers, "a score")),
      test_score_(allocate<double>(ops, 3, "a score")) {
  for (std::size_t i = 0; i < state_names_.size(); ++i)
    states_.push_back(allocate<float>(ops, layout_.elements, "optimizer state"));
  if (options.average_decay > 0) average_ = states_.back();
  test_size_ = test.size();
  const std::vector<std::uint8_t> flags = decay_flags(spec(), layout_);
  ops.to_device(decays_, flags.data(), flags.size());
  std::vector<std::uint32_t> order(test.size());
  std::iota(order.begin(), order.end(), 0U);
  if (!order.empty()) ops.to_device(test_indices_, order.data(), order.size() * sizeof(std::uint32_t));
  bind();
}

Session::Set Session::upload(const data::Images& images, const char* what) {
  Set set = {allocate<std::uint8_t>(ops_, images.pixels.size(), what),
             allocate<std::uint8_t>(ops_, images.size(), "labels"), images.size()};
  if (images.size() == 0) return set;
  ops_.to_device(set.pixels, images.pixels.data(), images.pixels.size());
  ops_.to_device(set.labels, images.labels.data(), images.labels.size());
  return set;
}

void Session::bind() {
  std::vector<ParameterSlot> slots;
  for (std::size_t i = 0; i < spec().parameters.size(); ++i)
    slots.push_back({values_ + layout_.offsets[i], gradients_ + layout_.offsets[i]});
  float* next = running_;
  for (const ParameterSpec& buffer : spec().buffers) {
    buffers_.push_back(next);
    next += buffer.elements();
  }
  network_->bind(slots, buffers_);
}

void Session::write_parameter(std::size_t i, const float* values) {
  packed_ = false;
  ops_.to_device(values_ + layout_.offsets[i], values, spec().parameters.at(i).elements() * sizeof(float));
}

void Session::read_parameter(std::size_t i, float* values) {
  ops_.from_device(values, values_ + layout_.offsets[i], spec().parameters.at(i).elements() * sizeof(float));
}

void Session::write_buffer(std::size_t i, const float* values) {
  ops_.to_device(buffers_.at(i), values, spec().buffers[i].elements() * sizeof(float));
}

void Session::write_running(const float* values) {
  if (running_floats_ > 0) ops_.to_device(running_, values, running_floats_ * sizeof(float));
}

void Session::read_running(float* values) {
  if (running_floats_ > 0) ops_.from_device(values, running_, running_floats_ * sizeof(float));
}

void Session::read_gradient(std::size_t i, float* values) {
  ops_.from_device(values, gradients_ + layout_.offsets[i],
                   spec().parameters.at(i).elements() * sizeof(float));
}

void Session::read(const float* arena, float* to) {
  ops_.from_device(to, arena, layout_.elements * sizeof(float));
}

void Session::write(float* arena, const float* from) {
  ops_.to_device(arena, from, layout_.elements * sizeof(float));
}

void Session::begin_epoch(std::span<const std::uint32_t> indices, int epoch) {
  if (indices.size() > train_.size)
    throw Error(ErrorCode::invalid_argument, "an epoch of " + std::to_string(indices.size()) + " images of " +
                                                 std::to_string(train_.size) + "; each comes once at most");
  require_images(indices, train_.size);
  if (!indices.empty()) ops_.to_device(indices_, indices.data(), indices.size_bytes());
  epoch_size_ = indices.size();
  epoch_ = epoch;
}

void Session::set_values(std::size_t position, int epoch, bool augment, float learning_rate) {
  StepValues values;
  values.position = static_cast<std::int64_t>(position);
  values.epoch = epoch;
  values.augment = augment ? 1 : 0;
  values.rate = learning_rate;
  if (options_.optimizer.kind != "sgd") {
    const auto t = static_cast<double>(steps_);
    values.adam_step =
        static_cast<float>(static_cast<double>(learning_rate) / (1 - std::pow(options_.optimizer.beta1, t)));
    values.adam_root = static_cast<float>(std::sqrt(1 - std::pow(options_.optimizer.beta2, t)));
  }
  values.average_share = steps_ <= 1 ? 1.0F : static_cast<float>(1 - options_.average_decay);
  // A kernel's arguments are copied at its launch, so no memory of ours has to outlive the copy.
  ops_.run(SetValues{values, step_values_});
}

void Session::gather(const Set& set, const std::uint32_t* indices, std::int64_t images) {
  const auto run = [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    ops_.run(Gather<T>{images, set.pixels, set.labels, indices, step_values_,
                       scaling_of(options_.normalization), options_.augmentation, out, labels_});
  };
  if (options_.precision == Precision::bf16)
    run(static_cast<Bf16*>(images_));
  else
    run(static_cast<float*>(images_));
}

void Session::score(std::int64_t images, double* sums, float* gradient) {
  ops_.run(CrossEntropy{images, static_cast<int>(options_.classes), options_.label_smoothing, logits_,
                        labels_, losses_, hits_, gradient});
  ops_.run(AddScore{images, losses_, hits_, sums, gradient == nullptr ? nullptr : header_});
}

void Session::step_range(std::size_t begin, std::size_t end) {
  const optim::OptimizerOptions& o = options_.optimizer;
  const ArenaPart part = {static_cast<std::int64_t>(begin),
                          static_cast<std::int64_t>(end),
                          values_,
                          gradients_,
                          header_,
                          clip_,
                          decays_,
                          step_values_};
  const auto decay = static_cast<float>(o.weight_decay);
  if (o.kind == "sgd") {
    // Without momentum the first state, where there is one, is the average of weights.
    float* const velocity = o.momentum > 0 ? states_[0] : nullptr;
    ops_.run(SgdStep{part, velocity, static_cast<float>(o.momentum), decay, o.nesterov});
  } else {
    ops_.run(AdamStep{part, states_[0], states_[1], static_cast<float>(o.beta1),
                      static_cast<float>(1 - o.beta1), static_cast<float>(o.beta2),
                      static_cast<float>(1 - o.beta2), static_cast<float>(o.epsilon), decay,
                      o.kind == "adamw"});
  }
  if (average_ != nullptr) ops_.run(MoveAverage{{part.begin, part.end}, values_, step_values_, average_});
}

/// Values change while backward still runs: it reads packed copies of the weights, and of batch norms only
/// what it has read before their gradients are ready.
void Session::finish_bucket(std::size_t index, const Part& part) {
  const parallel::Bucket& bucket = layout_.buckets[index];
  const std::size_t end = bucket.offset + bucket.elements;
  const std::size_t header = index == 0 ? parallel::kHeaderFloats : 0;
  ops_.on_side([&](void* stream) {
    waiting_.fold_into(part.place, bucket.offset, end, gradients_);
    if (all_reduce_)
      all_reduce_(index, gradients_ + bucket.offset - header, bucket.elements + header, stream);
    if (clip_ == nullptr) step_range(bucket.offset, end);
  });
}

void Session::clip_and_step() {
  ops_.on_side([&](void*) {
    const SquareSums sums = {{0, static_cast<std::int64_t>(layout_.elements)}, gradients_, squares_};
    ops_.run(sums);
    ops_.run(ClipFactor{sums.blocks(), squares_, header_, options_.reducer.max_norm, clip_});
    step_range(0, layout_.elements);
  });
}

/// In a deterministic world running statistics do not depend on which rank computed which micro-batch: each
/// begins with those before the step, and the caller makes the mean of what they leave.
void Session::begin_statistics(const Part& part) {
  if (running_before_ == nullptr || running_floats_ == 0) return;
  const ArenaRange all = {0, static_cast<std::int64_t>(running_floats_)};
  if (part.place == 0)
    ops_.run(AddGradients{all, running_, false, running_before_});
  else
    ops_.run(AddGradients{all, running_before_, false, running_});
}

void Session::end_statistics(const Part& part) {
  if (running_before_ == nullptr || running_floats_ == 0) return;
  if (part.last)
    running_waiting_.fold_into(part.place, 0, running_floats_, running_);
  else
    running_waiting_.add(part.place, running_);
}

void Session::put_part(const Part& part) {
  const auto images = static_cast<std::int64_t>(part.images);
  ops_.run(SetSamples{static_cast<float>(images), part.place > 0, header_});
  if (part.place == 0) network_->parameters_changed();
  if (images > 0) gather(train_, indices_, images);
  begin_statistics(part);
  logits_ = network_->forward(images_, images, Mode::train);
  end_statistics(part);
  if (images > 0) score(images, train_score_, logits_gradient_);
  complete_.begin();
  network_->backward(logits_gradient_, [&](std::size_t parameter) {
    const std::size_t before = complete_.count();
    const std::size_t after = complete_.add(parameter);
    for (std::size_t next = before; part.last && next < after; ++next) finish_bucket(next, part);
  });
  if (part.last && clip_ != nullptr) clip_and_step();
  if (part.last) return ops_.join_side();
  waiting_.add(part.place, gradients_);
}

void Session::step(std::size_t position, std::span<const std::size_t> counts, float learning_rate,
                   std::size_t shape) {
  std::size_t end = position;
  for (const std::size_t count : counts) {
    if (count > static_cast<std::size_t>(options_.batch) || end > epoch_size_ || count > epoch_size_ - end)
      throw Error(ErrorCode::invalid_argument,
                  "a step of " + std::to_string(count) + " images from " + std::to_string(end) + " of " +
                      std::to_string(epoch_size_) + ", with batches of at most " +
                      std::to_string(options_.batch));
    end += count;
  }
  if (counts.empty() || counts.size() > static_cast<std::size_t>(options_.micro_batches))
    throw Error(ErrorCode::invalid_argument, "a step of " + std::to_string(counts.size()) +
                                                 " micro-batches in a session that was made for " +
                                                 std::to_string(options_.micro_batches));
  ++steps_;
  packed_ = false;
  for (std::size_t k = 0; k < counts.size(); position += counts[k++]) {
    set_values(position, epoch_, true, learning_rate);
    const bool last = k + 1 == counts.size();
    const bool calls = last || options_.sum_statistics != nullptr;
    // Where every part has calls, parts behind the first may be alike on one rank and differ on another.
    const bool by_number = deterministic_ || options_.sum_statistics != nullptr;
    const auto place = static_cast<unsigned>(by_number ? k : std::min<std::size_t>(k, 1));
    const Part part = {counts[k], place, last, calls ? shape : 0};
    Steps& steps = steps_of_[part];
    if (steps.made++ == 0 || !options_.graphs) {
      put_part(part);
      continue;
    }
    if (!steps.graph) steps.graph = ops_.capture([&] { put_part(part); });
    const auto launch = [&steps] { steps.graph->launch(); };
    if (options_.launch)
      options_.launch(launch);
    else
      launch();
  }
}

std::string Session::first_not_finite(std::size_t position, std::span<const std::size_t> counts) {
  network_->parameters_changed();
  std::string name;
  for (const std::size_t count : counts) {
    const auto images = static_cast<std::int64_t>(count);
    set_values(position, epoch_, true, 0);
    if (images > 0) gather(train_, indices_, images);
    (void)network_->forward(images_, images, Mode::train);
    if (images > 0 && name.empty()) name = network_->first_not_finite();
    // Statistics of all ranks are summed in every micro-batch of each: no rank may leave before the others.
    if (!name.empty() && !options_.sum_statistics) break;
    position += count;
  }
  return name;
}

bool Session::is_recorded(std::size_t count) const {
  const auto found = steps_of_.find({count, 0, true, 0});
  return found != steps_of_.end() && found->second.graph != nullptr;
}

SessionScore Session::take_score() {
  std::array<double, 3> sums{};
  ops_.from_device(sums.data(), train_score_, sizeof(sums));
  ops_.clear(train_score_, sizeof(sums));
  return {sums[0], sums[1], sums[2]};
}

void Session::begin_tally(double first, double second) {
  ops_.run(SetTally{first, second, train_score_});
}

void Session::swap_average() {
  if (average_ == nullptr || steps_ == 0) return;
  packed_ = false;
  ops_.run(SwapArenas{{0, static_cast<std::int64_t>(layout_.elements)}, values_, average_});
}

void Session::set_test_order(std::span<const std::uint32_t> indices) {
  require_images(indices, test_.size);
  if (!indices.empty()) ops_.to_device(test_indices_, indices.data(), indices.size_bytes());
  test_size_ = indices.size();
}

SessionScore Session::evaluate(std::size_t begin, std::size_t end) {
  if (begin > end || end > test_size_)
    throw Error(ErrorCode::invalid_argument, "test images " + std::to_string(begin) + " to " +
                                                 std::to_string(end) + " of " + std::to_string(test_size_));
  if (!std::exchange(packed_, true)) network_->parameters_changed();
  ops_.clear(test_score_, 3 * sizeof(double));
  for (std::size_t at = begin; at < end;) {
    const auto images = std::min(options_.batch, static_cast<std::int64_t>(end - at));
    set_values(at, 0, false, 0);
    gather(test_, test_indices_, images);
    logits_ = network_->forward(images_, images, Mode::evaluate);
    score(images, test_score_, nullptr);
    at += static_cast<std::size_t>(images);
  }
  std::array<double, 3> sums{};
  ops_.from_device(sums.data(), test_score_, sizeof(sums));
  return {sums[0], sums[1], sums[2]};
}

}  // namespace muster::nn::gpu

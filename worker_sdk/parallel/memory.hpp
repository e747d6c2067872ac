// SPDX-License-Identifier: Apache-2.0
// The memory in which arenas of floats lie: that of this process, or of a device.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace muster::parallel {

/// Memory of one kind, and the operations on whole ranges of it. On a device copy() and add() go onto the
/// stream that is in use and return at once, so that they can be recorded; on a host they are done when they
/// return. One thread at a time.
class Memory {
 public:
  virtual ~Memory() = default;

  /// Whether this process can read and write the memory.
  virtual bool is_on_host() const = 0;

  /// Allocates zeroed floats, aligned to 64 bytes, which are freed with this object. `what` names them in an
  /// error.
  virtual float* allocate(std::size_t count, const char* what) = 0;
  virtual void copy(float* to, const float* from, std::size_t count) = 0;
  /// Computes result[i] = a[i] + b[i]; the result may be either input.
  virtual void add(const float* a, const float* b, float* result, std::size_t count) = 0;
  /// write() copies from memory of the host, and read() to it. Both are done when they return.
  virtual void write(float* to, const float* from, std::size_t count) = 0;
  virtual void read(float* to, const float* from, std::size_t count) = 0;
};

class HostMemory final : public Memory {
 public:
  bool is_on_host() const override { return true; }

  float* allocate(std::size_t count, const char* what) override;
  void copy(float* to, const float* from, std::size_t count) override;
  void add(const float* a, const float* b, float* result, std::size_t count) override;

  void write(float* to, const float* from, std::size_t count) override { copy(to, from, count); }

  void read(float* to, const float* from, std::size_t count) override { copy(to, from, count); }

 private:
  struct Delete {
    void operator()(float* memory) const;
  };

  std::vector<std::unique_ptr<float[], Delete>> pieces_;
};

/// Computes result[i] = a[i] + b[i] in memory of the host; the result may be either input.
void add_floats(const float* a, const float* b, float* result, std::size_t count);

}  // namespace muster::parallel

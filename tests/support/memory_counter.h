/// Counts the bytes that torch's CPU allocator gives out.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

namespace palmist::test {

/// Counts allocations from its construction to its end, on this thread and those torch starts.
class MemoryCounter {
 public:
  MemoryCounter()
      : info_(std::make_shared<Info>()), guard_(c10::DebugInfoKind::PROFILER_STATE, info_) {}

  /// Bytes allocated less bytes freed since the start.
  std::int64_t current_bytes() const { return info_->current; }
  /// The most that `current_bytes` was.
  std::int64_t peak_bytes() const { return info_->peak; }

 private:
  struct Info final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
      const std::int64_t now = current += bytes;
      std::int64_t before = peak;
      while (now > before && !peak.compare_exchange_weak(before, now)) {
      }
    }
    bool memoryProfilingEnabled() const override { return true; }
    std::atomic<std::int64_t> current = 0;
    std::atomic<std::int64_t> peak = 0;
  };

  std::shared_ptr<Info> info_;
  c10::DebugInfoGuard guard_;
};

}  // namespace palmist::test

/// The one seam through which kernels run loops on threads.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "palmist/base/thread_pool.h"

namespace palmist::kernels {

/// A reference to a loop body; lives no longer than the body it was made from.
class LoopBody {
 public:
  template <typename Body>
  requires(!std::is_same_v<std::remove_cvref_t<Body>, LoopBody>)
      LoopBody(Body&& body)  // NOLINT(google-explicit-constructor): lambdas become bodies
      : object_(const_cast<void*>(static_cast<const void*>(&body))),
        call_([](void* object, std::int64_t begin, std::int64_t end) {
          (*static_cast<std::remove_reference_t<Body>*>(object))(begin, end);
        }) {}

  void operator()(std::int64_t begin, std::int64_t end) const { call_(object_, begin, end); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t, std::int64_t);
};

/// Runs the loops of kernels. Results never depend on it: kernels cut their reductions by shape.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Calls `body` on ranges that cover [0, n) once and returns when all are done.
  ///
  /// Ranges hold at least `grain` iterations each, except where n is less, and may run at the same
  /// time on any thread. `body` does not throw and starts no loop of its own. Calls nothing where
  /// n is 0. @pre grain >= 1
  virtual void ParallelFor(std::int64_t n, std::int64_t grain, LoopBody body) noexcept = 0;
};

/// Returns an executor that runs every loop on the calling thread.
Executor& SerialExecutor();

/// Runs loops on a pool, which outlives it. One caller at a time, as of the pool.
class PoolExecutor final : public Executor {
 public:
  explicit PoolExecutor(ThreadPool& pool) : pool_(pool) {}
  void ParallelFor(std::int64_t n, std::int64_t grain, LoopBody body) noexcept override;

 private:
  ThreadPool& pool_;
};

}  // namespace palmist::kernels

#include "palmist/base/thread_pool.h"

#include <algorithm>
#include <system_error>

#include "palmist/base/error.h"

namespace palmist {
namespace {

/// Returns the first iteration of `worker`: the first n mod size workers do one more.
std::int64_t RangeBegin(std::int64_t n, int size, int worker) {
  return n / size * worker + std::min<std::int64_t>(n % size, worker);
}

}  // namespace

int HardwareThreads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// NOLINTNEXTLINE(bugprone-throw-keyword-missing): a vector of exceptions is no exception.
ThreadPool::ThreadPool(int threads) : failures_(static_cast<std::size_t>(std::max(threads, 0))) {
  PALMIST_ASSERT(threads >= 1);
  // Reserved, as a failure to start a thread must find the earlier ones in a vector it can join.
  threads_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int worker = 1; worker < threads; ++worker) {
      threads_.emplace_back([this, worker] { WorkerLoop(worker); });
    }
  } catch (const std::system_error&) {
    // The machine gives no more threads: the loops run on those there are.
    failures_.resize(threads_.size() + 1);
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::ParallelFor(std::int64_t n, const Body& body) {
  PALMIST_ASSERT(n >= 0);
  {
    const std::lock_guard lock(mutex_);
    PALMIST_ASSERT(running_ == 0);
    n_ = n;
    body_ = &body;
    running_ = size() - 1;
    ++round_;
  }
  start_.notify_all();
  RunRange(0);
  {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
    body_ = nullptr;
  }
  std::exception_ptr first;
  for (std::exception_ptr& failure : failures_) {
    if (failure && !first) first = failure;
    failure = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

void ThreadPool::WorkerLoop(int worker) {
  std::int64_t last_round = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || round_ != last_round; });
      if (stopping_) return;
      last_round = round_;
    }
    RunRange(worker);
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    done_.notify_one();
  }
}

void ThreadPool::RunRange(int worker) {
  const std::int64_t begin = RangeBegin(n_, size(), worker);
  const std::int64_t end = RangeBegin(n_, size(), worker + 1);
  if (begin == end) return;
  try {
    (*body_)(begin, end, worker);
  } catch (...) {
    failures_[static_cast<std::size_t>(worker)] = std::current_exception();
  }
}

void ParallelFor(std::int64_t n, int threads, const ThreadPool::Body& body) {
  if (n <= 0) return;
  ThreadPool(static_cast<int>(std::clamp<std::int64_t>(threads, 1, n))).ParallelFor(n, body);
}

}  // namespace palmist

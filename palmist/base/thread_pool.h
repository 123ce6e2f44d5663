/// Loops on several threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace palmist {

/// Returns how many threads this machine runs at once, at least 1.
int HardwareThreads();

/// Threads that wait for loops. One caller at a time; a loop's body starts no loop on its own pool.
class ThreadPool {
 public:
  /// Does the iterations [begin, end); `worker` is in [0, size()), for scratch space of its own.
  using Body = std::function<void(std::int64_t begin, std::int64_t end, int worker)>;

  /// Starts threads - 1 threads: the caller is worker 0. @pre threads >= 1
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  /// Splits [0, n) into one range a worker, in order and of sizes that differ by one at most, and
  /// returns when all are done. The split depends on n and size() alone.
  ///
  /// Workers without an iteration are not called. What a body throws is rethrown here, that of the
  /// lowest worker where there are several, after all have ended.
  void ParallelFor(std::int64_t n, const Body& body);

 private:
  void WorkerLoop(int worker);
  void RunRange(int worker);

  std::vector<std::thread> threads_;
  std::vector<std::exception_ptr> failures_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  // Guarded by mutex_, except that workers read n_ and body_ while a loop runs.
  std::int64_t round_ = 0;
  int running_ = 0;
  bool stopping_ = false;
  std::int64_t n_ = 0;
  const Body* body_ = nullptr;
};

/// Runs one loop on a pool of its own; see ThreadPool::ParallelFor. Needs no more threads than n.
void ParallelFor(std::int64_t n, int threads, const ThreadPool::Body& body);

}  // namespace palmist

#include "palmist/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace palmist {
namespace {

TEST(ThreadPool, DoesEveryIterationOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const std::int64_t n : {0, 1, 2, 7, 8, 1000}) {
      std::vector<int> counts(static_cast<std::size_t>(n), 0);
      pool.ParallelFor(n, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) ++counts[static_cast<std::size_t>(i)];
      });
      EXPECT_EQ(counts, std::vector<int>(static_cast<std::size_t>(n), 1)) << threads << " " << n;
    }
  }
}

TEST(ThreadPool, SplitsInOrderAndEvenly) {
  ThreadPool pool(4);
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges(4);
  pool.ParallelFor(10, [&](std::int64_t begin, std::int64_t end, int worker) {
    ranges.at(static_cast<std::size_t>(worker)) = {begin, end};
  });
  using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(ranges, (Ranges{{0, 3}, {3, 6}, {6, 8}, {8, 10}}));
}

TEST(ThreadPool, RunsManyLoops) {
  ThreadPool pool(3);
  std::atomic<std::int64_t> sum = 0;
  for (int round = 0; round < 1000; ++round) {
    pool.ParallelFor(5, [&](std::int64_t begin, std::int64_t end, int) { sum += end - begin; });
  }
  EXPECT_EQ(sum, 5000);
}

TEST(ThreadPool, RethrowsTheLowestWorkersException) {
  ThreadPool pool(4);
  std::atomic<int> finished = 0;
  const auto body = [&](std::int64_t begin, std::int64_t, int) {
    ++finished;
    if (begin > 0) throw std::runtime_error(std::to_string(begin));
  };
  for (int round = 0; round < 20; ++round) {
    finished = 0;
    try {
      pool.ParallelFor(4, body);
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "1");
      EXPECT_EQ(finished, 4);
    }
  }
  EXPECT_NO_THROW(pool.ParallelFor(1, body));
}

TEST(ThreadPool, RethrowsTheCallersOwnException) {
  ThreadPool pool(2);
  EXPECT_THROW(
      pool.ParallelFor(2, [](std::int64_t, std::int64_t, int) { throw std::runtime_error("x"); }),
      std::runtime_error);
}

TEST(ParallelFor, UsesNoMoreThreadsThanIterations) {
  std::atomic<int> calls = 0;
  ParallelFor(3, 16, [&](std::int64_t begin, std::int64_t end, int worker) {
    ++calls;
    EXPECT_EQ(end - begin, 1);
    EXPECT_LT(worker, 3);
  });
  EXPECT_EQ(calls, 3);
  ParallelFor(0, 4, [&](std::int64_t, std::int64_t, int) { ++calls; });
  EXPECT_EQ(calls, 3);
}

TEST(HardwareThreads, AtLeastOne) { EXPECT_GE(HardwareThreads(), 1); }

}  // namespace
}  // namespace palmist

#include "palmist/kernels/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "palmist/base/thread_pool.h"

namespace palmist::kernels {
namespace {

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

Ranges RangesOf(Executor& executor, std::int64_t n, std::int64_t grain) {
  std::mutex mutex;
  Ranges ranges;
  executor.ParallelFor(n, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST(SerialExecutorTest, RunsOneRange) {
  EXPECT_EQ(RangesOf(SerialExecutor(), 10, 3), (Ranges{{0, 10}}));
  EXPECT_EQ(RangesOf(SerialExecutor(), 0, 1), Ranges{});
}

TEST(PoolExecutorTest, CoversEachIterationOnceInRangesOfTheGrain) {
  for (const int threads : {1, 2, 7}) {
    ThreadPool pool(threads);
    PoolExecutor executor(pool);
    for (const std::int64_t n : {0, 1, 2, 6, 7, 64, 1001}) {
      for (const std::int64_t grain : {1, 3, 64, 5000}) {
        const Ranges ranges = RangesOf(executor, n, grain);
        ASSERT_LE(std::ssize(ranges), threads);
        std::int64_t next = 0;
        for (const auto& [begin, end] : ranges) {
          ASSERT_EQ(begin, next);
          ASSERT_GE(end - begin, std::min(n, grain));
          next = end;
        }
        ASSERT_EQ(next, n);
      }
    }
  }
}

TEST(PoolExecutorTest, UsesAllThreadsWhereTheGrainAllows) {
  ThreadPool pool(3);
  PoolExecutor executor(pool);
  EXPECT_EQ(RangesOf(executor, 9, 3).size(), 3U);
  EXPECT_EQ(RangesOf(executor, 8, 3).size(), 2U);
}

}  // namespace
}  // namespace palmist::kernels

#include "palmist/kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/base/thread_pool.h"
#include "palmist/kernels/test/kernel_testing.h"

namespace palmist::kernels {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLargestInput = 3;

/// What the reference may be missed by, relative to the largest magnitude of a tensor or, where
/// that is small for cancellation, of the inputs.
template <typename T>
constexpr double kTolerance = std::is_same_v<T, double>     ? 1e-13
                              : std::is_same_v<T, float>    ? 3e-6
                              : std::is_same_v<T, BFloat16> ? 0x1p-6
                                                            : 0x1p-9;

/// A tensor of batch x heads x length x dimension, laid out with gaps and with heads inside rows.
template <typename T>
struct Tensor {
  Tensor(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t dim)
      : shape{batch, heads, length, dim},
        head_stride(dim + 3),
        row_stride(heads * head_stride + 5),
        batch_stride(length * row_stride + 7),
        values(static_cast<std::size_t>(batch * batch_stride), As<T>(kGap)) {}

  T& At(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) {
    return values[static_cast<std::size_t>(b * batch_stride + h * head_stride + s * row_stride +
                                           d)];
  }

  template <typename Body>
  void ForEach(const Body& body) {
    for (std::int64_t b = 0; b < shape[0]; ++b) {
      for (std::int64_t h = 0; h < shape[1]; ++h) {
        for (std::int64_t s = 0; s < shape[2]; ++s) {
          for (std::int64_t d = 0; d < shape[3]; ++d) body(At(b, h, s, d));
        }
      }
    }
  }

  void Randomise(Rng& rng) {
    ForEach([&](T& x) { x = As<T>(kLargestInput * (2 * rng.Uniform() - 1)); });
  }

  /// Returns the elements in order.
  std::vector<double> Elements() {
    std::vector<double> elements;
    ForEach([&](T& x) { elements.push_back(Value(x)); });
    return elements;
  }

  /// Returns how many values beside the elements were written over.
  std::int64_t GapsWritten() {
    std::int64_t kept = 0, elements = 0;
    for (const T& x : values) kept += Value(x) == Value(As<T>(kGap));
    ForEach([&](T&) { ++elements; });
    return static_cast<std::int64_t>(values.size()) - elements - kept;
  }

  HeadsView<T> View() { return {values.data(), batch_stride, head_stride, row_stride}; }
  HeadsView<const T> Input() { return {values.data(), batch_stride, head_stride, row_stride}; }

  static constexpr double kGap = -768;  // exact in every format and no result's value

  std::array<std::int64_t, 4> shape;
  std::int64_t head_stride, row_stride, batch_stride;
  std::vector<T> values;
};

enum class Mask { kNone, kAdded, kAddedStrided, kAddedPerKey, kKeep, kKeepPerKey };
constexpr Mask kMasks[] = {Mask::kNone,
                           Mask::kAdded,
                           Mask::kAddedStrided,
                           Mask::kAddedPerKey,
                           Mask::kKeep,
                           Mask::kKeepPerKey};

/// All tensors of one problem.
template <typename T>
struct Problem {
  explicit Problem(const AttentionShape& of, Mask kind = Mask::kNone, std::uint64_t seed = 1)
      : shape(of),
        q(of.batch, of.heads, of.queries, of.head_dim),
        k(of.batch, of.kv_heads, of.keys, of.head_dim),
        v(k),
        d_o(q),
        o(q),
        d_q(q),
        d_k(k),
        d_v(k),
        log_sum_exp(static_cast<std::size_t>(of.batch * of.heads * of.queries), -9) {
    Rng rng(seed);
    for (Tensor<T>* x : {&q, &k, &v, &d_o}) x->Randomise(rng);
    MakeMask(kind, rng);
  }

  void MakeMask(Mask kind, Rng& rng) {
    if (kind == Mask::kNone) return;
    const bool per_key = kind == Mask::kAddedPerKey || kind == Mask::kKeepPerKey;
    const bool added = kind != Mask::kKeep && kind != Mask::kKeepPerKey;
    const std::int64_t step = kind == Mask::kAddedStrided ? 2 : 1;
    const std::int64_t rows = per_key ? 1 : shape.queries;
    // One for all heads, as models have it, but for the strided kind.
    const std::int64_t heads = kind == Mask::kAddedStrided ? shape.heads : 1;
    mask.strides = {heads * rows * shape.keys * step,
                    heads == 1 ? 0 : rows * shape.keys * step,
                    per_key ? 0 : shape.keys * step,
                    step};
    const auto size = static_cast<std::size_t>(shape.batch * mask.strides[0]);
    mask_added.resize(size);
    mask_keep.resize(size);
    for (std::size_t i = 0; i < size; ++i) {
      const auto row = static_cast<std::int64_t>(i) / step / std::max<std::int64_t>(shape.keys, 1);
      // Every fifth row of the full masks hides all keys, whole tiles of them at the start.
      const bool hidden = rng.Uniform() < 0.3 || (!per_key && row % 5 == 3);
      mask_added[i] = As<T>(hidden ? -kInf : rng.Uniform());
      mask_keep[i] = hidden ? 0 : 1;
    }
    if (added) {
      mask.added = mask_added.data();
    } else {
      mask.keep = mask_keep.data();
    }
  }

  void Run(Executor& executor) {
    Attention<T>(
        shape, q.Input(), k.Input(), v.Input(), mask, o.View(), log_sum_exp.data(), executor);
    AttentionBackward<T>(shape,
                         d_o.Input(),
                         q.Input(),
                         k.Input(),
                         v.Input(),
                         mask,
                         o.Input(),
                         log_sum_exp.data(),
                         d_q.View(),
                         d_k.View(),
                         d_v.View(),
                         executor);
  }

  AttentionShape shape;
  Tensor<T> q, k, v, d_o, o, d_q, d_k, d_v;
  std::vector<ComputeType<T>> log_sum_exp;
  AttentionMask<T> mask;
  std::vector<T> mask_added;
  std::vector<std::uint8_t> mask_keep;
};

/// Results in double, from the definition: the whole matrix of probabilities.
struct Reference {
  template <typename T>
  explicit Reference(Problem<T>& x)
      : o(x.o.shape[0], x.o.shape[1], x.o.shape[2], x.o.shape[3]),
        d_q(o),
        d_k(x.k.shape[0], x.k.shape[1], x.k.shape[2], x.k.shape[3]),
        d_v(d_k) {
    const AttentionShape& s = x.shape;
    for (Tensor<double>* t : {&o, &d_q, &d_k, &d_v}) t->ForEach([](double& y) { y = 0; });
    std::vector<double> p(static_cast<std::size_t>(s.keys));
    std::vector<double> d_p(p), kept(p);
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t a = 0; a < s.heads; ++a) {
        const std::int64_t g = a / (s.heads / s.kv_heads);
        for (std::int64_t i = 0; i < s.queries; ++i) {
          double top = -kInf, sum = 0, mean = 0;
          const auto each = [&](const auto& body) {
            for (std::int64_t j = 0; j < s.keys; ++j) body(j, static_cast<std::size_t>(j));
          };
          each([&](std::int64_t j, std::size_t at) {
            double score = 0;
            for (std::int64_t d = 0; d < s.head_dim; ++d) {
              score += Value(x.q.At(b, a, i, d)) * Value(x.k.At(b, g, j, d));
            }
            const std::int64_t offset = b * x.mask.strides[0] + a * x.mask.strides[1] +
                                        i * x.mask.strides[2] + j * x.mask.strides[3];
            score = s.scale * score + (x.mask.added != nullptr ? Value(x.mask.added[offset]) : 0);
            if (x.mask.keep != nullptr && x.mask.keep[offset] == 0) score = -kInf;
            if (s.causal && j > i) score = -kInf;
            p[at] = score;
            top = std::max(top, score);
            const auto index = static_cast<std::uint64_t>(
                ((b * s.heads + a) * s.queries + i) * PaddedRow(s.keys) + j);
            kept[at] = IsKept(s.dropout, index) ? 1 / (1 - s.dropout.p) : 0;
          });
          for (double& y : p) sum += y = top == -kInf ? 0 : std::exp(y - top);
          log_sum_exp.push_back(top == -kInf ? top : top + std::log(sum));
          each([&](std::int64_t j, std::size_t at) {
            if (top != -kInf) p[at] /= sum;
            d_p[at] = 0;
            for (std::int64_t d = 0; d < s.head_dim; ++d) {
              const double out_gradient = Value(x.d_o.At(b, a, i, d));
              const double value = Value(x.v.At(b, g, j, d));
              o.At(b, a, i, d) += p[at] * kept[at] * value;
              d_v.At(b, g, j, d) += p[at] * kept[at] * out_gradient;
              d_p[at] += kept[at] * out_gradient * value;
            }
            mean += p[at] * d_p[at];
          });
          each([&](std::int64_t j, std::size_t at) {
            const double d_s = s.scale * p[at] * (d_p[at] - mean);
            for (std::int64_t d = 0; d < s.head_dim; ++d) {
              d_q.At(b, a, i, d) += d_s * Value(x.k.At(b, g, j, d));
              d_k.At(b, g, j, d) += d_s * Value(x.q.At(b, a, i, d));
            }
          });
        }
      }
    }
  }

  Tensor<double> o, d_q, d_k, d_v;
  std::vector<double> log_sum_exp;
};

void ExpectNear(const std::vector<double>& got,
                const std::vector<double>& expected,
                double tolerance,
                const char* name) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (expected[i] == -kInf) {
      EXPECT_EQ(got[i], -kInf) << name;
      continue;
    }
    ASSERT_FALSE(std::isnan(got[i])) << name << " element " << i;
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(got[i] - expected[i]));
  }
  EXPECT_LE(error, tolerance * std::max(largest, kLargestInput)) << name;
}

template <typename T>
void ExpectMatchesReference(Problem<T>& problem) {
  problem.Run(SerialExecutor());
  Reference reference(problem);
  const double tolerance = kTolerance<T>;
  ExpectNear({problem.log_sum_exp.begin(), problem.log_sum_exp.end()},
             reference.log_sum_exp,
             std::is_same_v<T, double> ? 1e-14 : 1e-6,
             "log_sum_exp");
  ExpectNear(problem.o.Elements(), reference.o.Elements(), tolerance, "o");
  ExpectNear(problem.d_q.Elements(), reference.d_q.Elements(), tolerance, "d_q");
  ExpectNear(problem.d_k.Elements(), reference.d_k.Elements(), tolerance, "d_k");
  ExpectNear(problem.d_v.Elements(), reference.d_v.Elements(), tolerance, "d_v");
  for (Tensor<T>* x : {&problem.o, &problem.d_q, &problem.d_k, &problem.d_v}) {
    EXPECT_EQ(x->GapsWritten(), 0);
  }
}

/// Runs body with each instruction set, once for double, which depends on none.
template <typename T, typename Body>
void ForEachTargetOf(const Body& body) {
  if constexpr (std::is_same_v<T, double>) {
    body();
  } else {
    ForEachTarget(body);
  }
}

AttentionShape Shape(std::int64_t batch,
                     std::int64_t heads,
                     std::int64_t kv_heads,
                     std::int64_t queries,
                     std::int64_t keys,
                     std::int64_t head_dim,
                     bool causal = false,
                     double dropout = 0) {
  return {.batch = batch,
          .heads = heads,
          .kv_heads = kv_heads,
          .queries = queries,
          .keys = keys,
          .head_dim = head_dim,
          .scale = 1 / std::sqrt(static_cast<double>(head_dim)),
          .causal = causal,
          .dropout = {.p = dropout, .seed = 0x123456789abcdefu}};
}

template <typename T>
class AttentionTest : public testing::Test {};
using Types = testing::Types<float, double, BFloat16, Float16>;
TYPED_TEST_SUITE(AttentionTest, Types);

TYPED_TEST(AttentionTest, MatchesReferenceForEveryMask) {
  ForEachTargetOf<TypeParam>([] {
    for (const Mask mask : kMasks) {
      for (const bool causal : {false, true}) {
        for (const double dropout : {0.0, 0.3}) {
          SCOPED_TRACE(testing::Message() << "mask " << static_cast<int>(mask) << " causal "
                                          << causal << " dropout " << dropout);
          Problem<TypeParam> problem(Shape(1, 2, 1, 37, 147, 5, causal, dropout), mask);
          ExpectMatchesReference(problem);
        }
      }
    }
  });
}

TYPED_TEST(AttentionTest, MatchesReferenceForEveryShape) {
  const AttentionShape shapes[] = {Shape(1, 1, 1, 1, 1, 1),
                                   Shape(1, 1, 1, 1, 200, 64),
                                   Shape(1, 1, 1, 70, 1, 16),
                                   Shape(1, 4, 2, 33, 65, 33),
                                   Shape(3, 3, 3, 17, 19, 7),
                                   Shape(1, 1, 1, 16, 20, 256),
                                   Shape(1, 1, 1, 150, 270, 32),
                                   Shape(1, 2, 1, 40, 70, 80),
                                   Shape(1, 1, 1, 129, 129, 48),
                                   Shape(1, 1, 1, 270, 150, 16, true),
                                   Shape(1, 1, 1, 150, 270, 16, true, 0.5),
                                   Shape(1, 2, 2, 260, 260, 4, true),
                                   Shape(1, 4, 1, 140, 130, 8, true, 0.1)};
  ForEachTargetOf<TypeParam>([&] {
    for (const AttentionShape& shape : shapes) {
      SCOPED_TRACE(testing::Message()
                   << shape.heads << "/" << shape.kv_heads << " x " << shape.queries << " x "
                   << shape.keys << " x " << shape.head_dim);
      Problem<TypeParam> problem(shape);
      ExpectMatchesReference(problem);
    }
  });
}

TYPED_TEST(AttentionTest, ResultsDoNotDependOnThreads) {
  for (const AttentionShape& shape :
       {Shape(1, 4, 2, 300, 200, 20, true, 0.2), Shape(3, 3, 3, 70, 70, 16)}) {
    Problem<TypeParam> serial(shape, Mask::kAdded);
    serial.Run(SerialExecutor());
    for (const int threads : {1, 2, 7}) {
      ThreadPool pool(threads);
      PoolExecutor executor(pool);
      Problem<TypeParam> parallel(shape, Mask::kAdded);
      parallel.Run(executor);
      EXPECT_EQ(parallel.log_sum_exp, serial.log_sum_exp);
      EXPECT_EQ(parallel.o.Elements(), serial.o.Elements());
      EXPECT_EQ(parallel.d_q.Elements(), serial.d_q.Elements());
      EXPECT_EQ(parallel.d_k.Elements(), serial.d_k.Elements());
      EXPECT_EQ(parallel.d_v.Elements(), serial.d_v.Elements());
    }
  }
}

TYPED_TEST(AttentionTest, EmptyShapes) {
  Problem<TypeParam> no_queries(Shape(1, 2, 2, 0, 20, 8));
  no_queries.Run(SerialExecutor());
  EXPECT_EQ(no_queries.d_k.Elements(), std::vector<double>(2 * 20 * 8, 0));
  EXPECT_EQ(no_queries.d_v.Elements(), std::vector<double>(2 * 20 * 8, 0));

  Problem<TypeParam> no_keys(Shape(1, 2, 2, 20, 0, 8));
  no_keys.Run(SerialExecutor());
  EXPECT_EQ(no_keys.o.Elements(), std::vector<double>(2 * 20 * 8, 0));
  EXPECT_EQ(no_keys.d_q.Elements(), std::vector<double>(2 * 20 * 8, 0));
  for (const auto lse : no_keys.log_sum_exp) EXPECT_EQ(lse, kNoKeys);

  Problem<TypeParam>(Shape(0, 2, 2, 20, 20, 8)).Run(SerialExecutor());
}

TYPED_TEST(AttentionTest, DropsAllAtOne) {
  Problem<TypeParam> problem(Shape(1, 2, 1, 40, 70, 8, false, 1));
  problem.Run(SerialExecutor());
  for (Tensor<TypeParam>* x : {&problem.o, &problem.d_q, &problem.d_k, &problem.d_v}) {
    x->ForEach([](const TypeParam& y) { EXPECT_EQ(Value(y), 0); });
  }
}

// Models fill masks with the lowest number: where a row has nothing else, all keys weigh the same.
TEST(Attention, LowestNumberAsMask) {
  ForEachTargetOf<float>([] {
    Problem<float> problem(Shape(1, 1, 1, 3, 200, 8));
    const std::vector<float> lowest(200, std::numeric_limits<float>::lowest());
    problem.mask.added = lowest.data();
    problem.mask.strides = {0, 0, 0, 1};
    problem.Run(SerialExecutor());
    for (std::int64_t d = 0; d < 8; ++d) {
      double mean = 0;
      for (std::int64_t j = 0; j < 200; ++j) mean += problem.v.At(0, 0, j, d) / 200.0;
      EXPECT_NEAR(problem.o.At(0, 0, 1, d), mean, 1e-6);
    }
  });
}

TEST(Attention, LargeScores) {
  ForEachTargetOf<float>([] {
    Problem<float> problem(Shape(1, 1, 1, 40, 200, 8));
    problem.shape.scale = 1e30;
    problem.Run(SerialExecutor());
    // Probabilities are 0 and 1: each output is a row of V.
    for (std::int64_t i = 0; i < 40; ++i) {
      bool found = false;
      for (std::int64_t j = 0; j < 200; ++j) {
        found |= problem.o.At(0, 0, i, 0) == problem.v.At(0, 0, j, 0) &&
                 problem.o.At(0, 0, i, 7) == problem.v.At(0, 0, j, 7);
      }
      EXPECT_TRUE(found) << i;
    }
  });
}

TEST(Attention, NanStaysWithWhatItTouches) {
  ForEachTargetOf<float>([] {
    for (const std::uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0xffc00001u}) {
      const auto nan = std::bit_cast<float>(bits);
      Problem<float> clean(Shape(1, 1, 1, 40, 150, 8, true));
      clean.Run(SerialExecutor());

      Problem<float> query(clean.shape);
      query.q.At(0, 0, 11, 3) = nan;
      query.Run(SerialExecutor());
      Problem<float> key(clean.shape);
      key.k.At(0, 0, 11, 3) = nan;
      key.Run(SerialExecutor());
      for (std::int64_t i = 0; i < 40; ++i) {
        for (std::int64_t d = 0; d < 8; ++d) {
          if (i == 11) {
            EXPECT_TRUE(std::isnan(query.o.At(0, 0, i, d)));
            EXPECT_TRUE(std::isnan(query.d_q.At(0, 0, i, d)));
          } else {
            EXPECT_EQ(query.o.At(0, 0, i, d), clean.o.At(0, 0, i, d));
            EXPECT_EQ(query.d_q.At(0, 0, i, d), clean.d_q.At(0, 0, i, d));
          }
          if (i <= 11) {
            EXPECT_TRUE(std::isnan(query.d_v.At(0, 0, i, d)));
          }
          // A key is hidden from the queries before it.
          if (i < 11) {
            EXPECT_EQ(key.o.At(0, 0, i, d), clean.o.At(0, 0, i, d));
          } else {
            EXPECT_TRUE(std::isnan(key.o.At(0, 0, i, d)));
          }
        }
      }
      EXPECT_TRUE(std::isnan(query.log_sum_exp[11]));
      EXPECT_FALSE(std::isnan(query.log_sum_exp[10]));
    }
  });
}

TEST(Attention, GradientsAreSlopes) {
  Problem<double> problem(Shape(1, 4, 2, 6, 9, 5, true, 0.25), Mask::kAdded, 3);
  problem.Run(SerialExecutor());
  const auto loss = [&] {
    std::vector<double> lse(problem.log_sum_exp.size());
    Tensor<double> o(problem.o);
    Attention<double>(problem.shape,
                      problem.q.Input(),
                      problem.k.Input(),
                      problem.v.Input(),
                      problem.mask,
                      o.View(),
                      lse.data(),
                      SerialExecutor());
    const std::vector<double> y = o.Elements(), d_y = problem.d_o.Elements();
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * d_y[i];
    return sum;
  };
  const auto check = [&](Tensor<double>& x, Tensor<double>& gradient) {
    std::vector<double> slopes;
    x.ForEach([&](double& value) {
      constexpr double kStep = 1e-5;
      const double middle = value;
      value = middle + kStep;
      const double above = loss();
      value = middle - kStep;
      slopes.push_back((above - loss()) / (2 * kStep));
      value = middle;
    });
    ExpectNear(gradient.Elements(), slopes, 1e-8, "slope");
  };
  check(problem.q, problem.d_q);
  check(problem.k, problem.d_k);
  check(problem.v, problem.d_v);
}

}  // namespace
}  // namespace palmist::kernels

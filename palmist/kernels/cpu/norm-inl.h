// The gradients of layer and root-mean-square normalisation, for code that foreach_target.h
// compiles once per instruction set. Included inside no namespace, after "hwy/highway.h"; use it
// within palmist::kernels::HWY_NAMESPACE.
#if defined(PALMIST_KERNELS_NORM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PALMIST_KERNELS_NORM_INL_H
#undef PALMIST_KERNELS_NORM_INL_H
#else
#define PALMIST_KERNELS_NORM_INL_H
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "hwy/highway.h"
#include "palmist/kernels/cpu/rows-inl.h"
#include "palmist/kernels/executor.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Loads parameters from an array that may be empty, which stands for `value` everywhere.
template <class D>
HWY_INLINE hn::Vec<D> LoadParameters(
    D d, std::span<const hn::TFromD<D>> parameters, std::size_t i, std::size_t count, int value) {
  return parameters.empty() ? hn::Set(d, static_cast<hn::TFromD<D>>(value))
                            : LoadCount(d, parameters.data() + i, count);
}

/// From what xhat, the normalised row, is taken.
enum class XhatSource {
  kInput,    ///< (x - mean) rstd
  kOutput,   ///< (x - beta) / gamma, x being the output
  kRmsInput  ///< x rstd
};

/// The arguments of a normalisation's backward. Empty gradients are not computed.
template <typename T>
struct NormBackwardArguments {
  std::span<const T> dy;
  std::span<const T> x;
  std::int64_t n_columns;
  std::span<const ComputeType<T>> gamma;
  std::span<const ComputeType<T>> beta;
  std::span<const ComputeType<T>> mean;
  std::span<const ComputeType<T>> rstd;
  std::span<T> dx;
  std::span<ComputeType<T>> dgamma;
  std::span<ComputeType<T>> dbeta;
};

/// Writes dx of kRows rows from `row` on and adds their part of dgamma and dbeta, where not null.
///
/// Several rows at once, so that gamma and the sums over rows are loaded once for all of them.
template <XhatSource kSource, std::size_t kRows, typename T>
HWY_FLATTEN void NormBackwardRows(const NormBackwardArguments<T>& a,
                                  std::int64_t row,
                                  ComputeType<T>* dgamma,
                                  ComputeType<T>* dbeta) {
  using C = ComputeType<T>;
  const ComputeTag<T> d;
  const auto n = static_cast<std::size_t>(a.n_columns);
  const auto first = static_cast<std::size_t>(row);
  const T* dy = a.dy.data() + first * n;
  const T* x = a.x.data() + first * n;

  C rstd[kRows];
  C mean[kRows] = {};
  C mean_gdy[kRows] = {};       // mean(gamma dy)
  C mean_gdy_xhat[kRows] = {};  // mean(gamma dy xhat)
  for (std::size_t r = 0; r < kRows; ++r) {
    rstd[r] = a.rstd[first + r];
    if constexpr (kSource == XhatSource::kInput) mean[r] = a.mean[first + r];
    if (a.dx.empty()) continue;
    const auto centre = hn::Set(d, mean[r]);
    const auto sums = SumRow<2>(d, n, [&](std::size_t i, std::size_t count) {
      const auto gradient = LoadCount(d, dy + r * n + i, count);
      const auto value = LoadCount(d, x + r * n + i, count);
      const auto scaled = hn::Mul(gradient, LoadParameters(d, a.gamma, i, count, 1));
      if constexpr (kSource == XhatSource::kInput) {
        return std::array{scaled, hn::Mul(scaled, hn::Sub(value, centre))};
      } else if constexpr (kSource == XhatSource::kOutput) {
        // gamma xhat = x - beta: no division by gamma.
        const auto offset = LoadParameters(d, a.beta, i, count, 0);
        return std::array{scaled, hn::Mul(gradient, hn::Sub(value, offset))};
      } else {
        return std::array{scaled, hn::Mul(scaled, value)};
      }
    });
    const auto size = static_cast<double>(n);
    const double unit = kSource == XhatSource::kOutput ? 1 : static_cast<double>(rstd[r]);
    if constexpr (kSource != XhatSource::kRmsInput) mean_gdy[r] = static_cast<C>(sums[0] / size);
    mean_gdy_xhat[r] = static_cast<C>(sums[1] / size * unit);
  }

  ForEachVector(d, n, [&](std::size_t i, std::size_t count) {
    const auto gamma = LoadParameters(d, a.gamma, i, count, 1);
    hn::Vec<decltype(d)> beta;
    hn::Vec<decltype(d)> reciprocal;
    if constexpr (kSource == XhatSource::kOutput) {
      beta = LoadParameters(d, a.beta, i, count, 0);
      reciprocal = hn::Div(hn::Set(d, C{1}), gamma);
    }
    auto gamma_sum = hn::Zero(d);
    auto beta_sum = hn::Zero(d);
    HWY_UNROLL(4)
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto gradient = LoadCount(d, dy + r * n + i, count);
      auto xhat = LoadCount(d, x + r * n + i, count);
      if constexpr (kSource == XhatSource::kInput) {
        xhat = hn::Mul(hn::Sub(xhat, hn::Set(d, mean[r])), hn::Set(d, rstd[r]));
      } else if constexpr (kSource == XhatSource::kOutput) {
        xhat = hn::Mul(hn::Sub(xhat, beta), reciprocal);
      } else {
        xhat = hn::Mul(xhat, hn::Set(d, rstd[r]));
      }
      gamma_sum = hn::MulAdd(gradient, xhat, gamma_sum);
      beta_sum = hn::Add(gradient, beta_sum);
      if (!a.dx.empty()) {
        const auto centred = hn::MulSub(gradient, gamma, hn::Set(d, mean_gdy[r]));
        const auto dx = hn::Mul(hn::NegMulAdd(xhat, hn::Set(d, mean_gdy_xhat[r]), centred),
                                hn::Set(d, rstd[r]));
        StoreCount(dx, d, a.dx.data() + (first + r) * n + i, count);
      }
    }
    const auto add = [&](hn::Vec<decltype(d)> part, C* sums) {
      if (sums == nullptr) return;
      StoreCount(hn::Add(LoadCount(d, sums + i, count), part), d, sums + i, count);
    };
    add(gamma_sum, dgamma);
    add(beta_sum, dbeta);
  });
}

/// Writes the gradients that the arguments ask for.
///
/// Sums over rows are made in at most 64 blocks of rows, and those added up in order.
template <XhatSource kSource, typename T>
void NormBackward(const NormBackwardArguments<T>& a, Executor& executor) {
  using C = ComputeType<T>;
  constexpr std::int64_t kRowsAtOnce = 4;
  const std::int64_t n = a.n_columns;
  const std::int64_t n_rows = CountRows(a.dy.size(), n);
  const std::int64_t block_rows = std::max<std::int64_t>(16, (n_rows + 63) / 64);
  const std::int64_t n_blocks = (n_rows + block_rows - 1) / block_rows;
  std::vector<C> dgamma(a.dgamma.empty() ? 0 : static_cast<std::size_t>(n_blocks * n));
  std::vector<C> dbeta(a.dbeta.empty() ? 0 : static_cast<std::size_t>(n_blocks * n));

  executor.ParallelFor(
      n_blocks, GrainOf(block_rows * n), [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t block = first; block < last; ++block) {
          C* dgamma_part = dgamma.empty() ? nullptr : dgamma.data() + block * n;
          C* dbeta_part = dbeta.empty() ? nullptr : dbeta.data() + block * n;
          const std::int64_t end = std::min(n_rows, (block + 1) * block_rows);
          std::int64_t row = block * block_rows;
          for (; row + kRowsAtOnce <= end; row += kRowsAtOnce) {
            NormBackwardRows<kSource, kRowsAtOnce>(a, row, dgamma_part, dbeta_part);
          }
          for (; row < end; ++row) {
            NormBackwardRows<kSource, 1>(a, row, dgamma_part, dbeta_part);
          }
        }
      });

  const ComputeTag<T> d;
  const auto add_blocks = [&](const std::vector<C>& parts, std::span<C> sums) {
    if (sums.empty()) return;
    executor.ParallelFor(n, GrainOf(n_blocks), [&](std::int64_t first, std::int64_t last) {
      const auto columns = static_cast<std::size_t>(last - first);
      ForEachVector(d, columns, [&](std::size_t i, std::size_t count) {
        auto sum = hn::Zero(d);
        for (std::int64_t block = 0; block < n_blocks; ++block) {
          sum = hn::Add(sum, LoadCount(d, parts.data() + block * n + first + i, count));
        }
        StoreCount(sum, d, sums.data() + first + i, count);
      });
    });
  };
  add_blocks(dgamma, a.dgamma);
  add_blocks(dbeta, a.dbeta);
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard

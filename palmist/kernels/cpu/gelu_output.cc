#include <cstring>
#include <tuple>

#include "palmist/kernels/gelu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "palmist/kernels/cpu/gelu_output.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h
#include "hwy/highway.h"
#include "palmist/kernels/cpu/gelu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

template <template <class> class Form>
inline constexpr const GeluInverse& kInverse = kIsErf<Form> ? kErfInverse : kTanhInverse;

/// Writes the bits of `count` lanes to where bit i of `bits` is. @pre the lower bits of i's byte
/// are written
template <class D>
HWY_INLINE void StoreBits(
    D d, hn::Mask<D> mask, std::uint8_t* bits, std::size_t i, std::size_t count) {
  std::uint64_t word = 0;
  hn::StoreMaskBits(d, hn::And(mask, hn::FirstN(d, count)), reinterpret_cast<std::uint8_t*>(&word));
  if (i % 8 != 0) word = word << i % 8 | bits[i / 8];
  std::memcpy(bits + i / 8, &word, (count + 7) / 8);
}

template <class D>
HWY_INLINE hn::Mask<D> LoadBits(D d, const std::uint8_t* bits, std::size_t i, std::size_t count) {
  std::uint64_t word = 0;
  std::memcpy(&word, bits + i / 8, (count + 7) / 8);
  word >>= i % 8;
  return hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&word));
}

/// Returns ln(1 + u) for u >= 0.
template <class D>
HWY_INLINE hn::Vec<D> Log1p(D d, hn::Vec<D> u) {
  const hn::RebindToSigned<D> di;
  // 1 + u = 2^k (1 + f), 1 + f from sqrt(1/2) to sqrt(2). Where k = 0, f is u itself, with the
  // digits that 1 + u has lost.
  const auto root = hn::BitCast(di, hn::Set(d, std::numbers::sqrt2_v<float> / 2));
  const auto z = hn::Add(u, hn::Set(d, 1.0f));
  const auto k = hn::ShiftRight<23>(hn::Sub(hn::BitCast(di, z), root));
  const auto scaled = hn::BitCast(d, hn::Sub(hn::BitCast(di, z), hn::ShiftLeft<23>(k)));
  const auto f = hn::IfThenElse(
      hn::Ge(z, hn::Set(d, std::numbers::sqrt2_v<float>)), hn::Sub(scaled, hn::Set(d, 1.0f)), u);
  const auto log = hn::MulAdd(hn::Mul(f, f), Polynomial(d, f, kLog1pCoefficients), f);
  return hn::MulAdd(hn::ConvertTo(d, k), hn::Set(d, std::numbers::ln2_v<float>), log);
}

/// Returns g'(x) for y = g(x); `right` where x >= x*.
template <template <class> class Form, class D>
HWY_INLINE hn::Vec<D> SlopeOfOutput(D d, hn::Vec<D> y, hn::Mask<D> right) {
  constexpr const GeluInverse& kFit = kInverse<Form>;
  const hn::RebindToSigned<D> di;
  const auto one = hn::Set(d, 1.0f);

  // y - min_y, without rounding near the minimum; outputs rounded to below it count as it. On the
  // left min_y / y = 1 + rise / |y|.
  auto rise = hn::Sub(hn::Sub(y, hn::Set(d, kFit.min_y)), hn::Set(d, kFit.min_y_low));
  rise = hn::IfThenZeroElse(hn::Lt(rise, hn::Zero(d)), rise);
  const auto log = Log1p(d, hn::Div(rise, hn::Abs(y)));
  const auto root = hn::Sqrt(hn::IfThenElse(right, rise, log));

  const auto in_r2 = hn::Gt(y, hn::Set(d, kInverseR2Begin));
  const auto in_r3 = hn::Gt(y, hn::Set(d, kInverseR3Begin));
  const auto variable = hn::IfThenElse(in_r2, y, root);
  auto piece = hn::IfThenElseZero(right, one);
  piece = hn::IfThenElse(in_r2, hn::Set(d, 2.0f), piece);
  piece = hn::IfThenElse(in_r3, hn::Set(d, 3.0f), piece);
  // Each lane takes the coefficients of its piece, so that one polynomial serves all four.
  const auto indices = hn::ConvertTo(di, piece);
  const auto of_piece = [&](const float(&row)[4]) HWY_ATTR __attribute__((always_inline)) {
    if constexpr (hn::MaxLanes(D()) >= 4) {
      return hn::TableLookupLanes(hn::LoadDup128(d, row), hn::IndicesFromVec(d, indices));
    } else {
      return hn::Set(d, row[hn::GetLane(indices)]);
    }
  };
  const auto t = hn::MulAdd(variable, of_piece(kFit.scale), of_piece(kFit.offset));
  auto sum = of_piece(kFit.coefficients[13]);
#pragma GCC unroll 16
  for (int k = 12; k >= 0; --k) sum = hn::MulAdd(sum, t, of_piece(kFit.coefficients[k]));
  const auto slope = hn::Mul(sum, hn::IfThenElse(right, one, y));

  // Comparisons are false for NaN, which so keeps what the polynomial made of it.
  const auto end = hn::IfThenElse(right, hn::Set(d, kInverseR3End), hn::Set(d, kFit.left_end));
  return hn::IfThenElse(hn::Gt(y, end), hn::IfThenElseZero(right, one), slope);
}

/// The same in double: finds x by halving.
template <template <class> class Form>
double SlopeOfOutput(double y, bool right) {
  if (!(std::abs(y) < kFar)) return std::isnan(y) ? y : right;
  // The interval in which g is monotonic and passes y. min_x is rounded up or down by less than
  // what the root makes of the rounding of y.
  double low = right ? static_cast<double>(kInverse<Form>.min_x) : -kFar;
  double high = right ? std::max(y, 0.0) + 0.2 : static_cast<double>(kInverse<Form>.min_x);
  while (true) {
    const double middle = low + 0.5 * (high - low);
    if (middle <= low || middle >= high) return GeluSlope<Form>(middle);
    ((GeluValue<Form>(middle) < y) == right ? low : high) = middle;
  }
}

template <template <class> class Form, typename T>
void ForwardLoop(const T* x, T* y, std::uint8_t* bits, std::size_t n) {
  if constexpr (std::is_same_v<T, double>) {
    for (std::size_t i = 0; i < n; ++i) {
      if (i % 8 == 0) bits[i / 8] = 0;
      bits[i / 8] |= static_cast<std::uint8_t>((x[i] >= kInverse<Form>.min_x) << i % 8);
      y[i] = GeluValue<Form>(x[i]);
    }
  } else {
    const ComputeTag<T> d;
    ForEachVector(
        d, n, [&](std::size_t i, std::size_t count) HWY_ATTR __attribute__((always_inline)) {
          PrefetchAhead(x + i, y + i);
          const auto v = LoadCount(d, x + i, count);
          StoreBits(d, hn::Ge(v, hn::Set(d, kInverse<Form>.min_x)), bits, i, count);
          StoreCount(GeluValue<Form>(d, v), d, y + i, count);
        });
  }
}

template <template <class> class Form, typename T>
void BackwardLoop(const T* dy, const T* y, const std::uint8_t* bits, T* dx, std::size_t n) {
  if constexpr (std::is_same_v<T, double>) {
    for (std::size_t i = 0; i < n; ++i) {
      dx[i] = dy[i] * SlopeOfOutput<Form>(y[i], (bits[i / 8] >> i % 8 & 1) != 0);
    }
  } else {
    const ComputeTag<T> d;
    ForEachVector(
        d, n, [&](std::size_t i, std::size_t count) HWY_ATTR __attribute__((always_inline)) {
          PrefetchAhead(dy + i, y + i, dx + i);
          const auto right = LoadBits(d, bits, i, count);
          const auto slope = SlopeOfOutput<Form>(d, LoadCount(d, y + i, count), right);
          StoreCount(hn::Mul(LoadCount(d, dy + i, count), slope), d, dx + i, count);
        });
  }
}

template <typename T>
void WithBitsImpl(std::span<const T> x,
                  std::span<T> y,
                  std::span<std::uint8_t> bits,
                  GeluKind kind,
                  Executor& executor) {
  const auto loop = kind == GeluKind::kErf ? ForwardLoop<ErfGelu, T> : ForwardLoop<TanhGelu, T>;
  ForEachRange(x.size(), executor, [&](std::size_t begin, std::size_t end) {
    loop(x.data() + begin, y.data() + begin, bits.data() + begin / 8, end - begin);
  });
}

template <typename T>
void OutputBackwardImpl(std::span<const T> dy,
                        std::span<const T> y,
                        std::span<const std::uint8_t> bits,
                        std::span<T> dx,
                        GeluKind kind,
                        Executor& executor) {
  const auto loop = kind == GeluKind::kErf ? BackwardLoop<ErfGelu, T> : BackwardLoop<TanhGelu, T>;
  ForEachRange(y.size(), executor, [&](std::size_t begin, std::size_t end) {
    loop(dy.data() + begin,
         y.data() + begin,
         bits.data() + begin / 8,
         dx.data() + begin,
         end - begin);
  });
}

auto WithBitsOfTypes() {
  return std::tuple(
      &WithBitsImpl<float>, &WithBitsImpl<double>, &WithBitsImpl<BFloat16>, &WithBitsImpl<Float16>);
}
auto OutputBackwardOfTypes() {
  return std::tuple(&OutputBackwardImpl<float>,
                    &OutputBackwardImpl<double>,
                    &OutputBackwardImpl<BFloat16>,
                    &OutputBackwardImpl<Float16>);
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace palmist::kernels {

HWY_EXPORT(WithBitsOfTypes);
HWY_EXPORT(OutputBackwardOfTypes);

template <typename T>
void GeluWithBits(std::span<const T> x,
                  std::span<T> y,
                  std::span<std::uint8_t> bits,
                  GeluKind kind,
                  Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(WithBitsImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(WithBitsOfTypes)())(x, y, bits, kind, executor);
}

template <typename T>
void GeluOutputBackward(std::span<const T> dy,
                        std::span<const T> y,
                        std::span<const std::uint8_t> bits,
                        std::span<T> dx,
                        GeluKind kind,
                        Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(OutputBackwardImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(OutputBackwardOfTypes)())(dy, y, bits, dx, kind, executor);
}

template void GeluWithBits(std::span<const float>,
                           std::span<float>,
                           std::span<std::uint8_t>,
                           GeluKind,
                           Executor&) noexcept;
template void GeluWithBits(std::span<const double>,
                           std::span<double>,
                           std::span<std::uint8_t>,
                           GeluKind,
                           Executor&) noexcept;
template void GeluWithBits(std::span<const BFloat16>,
                           std::span<BFloat16>,
                           std::span<std::uint8_t>,
                           GeluKind,
                           Executor&) noexcept;
template void GeluWithBits(std::span<const Float16>,
                           std::span<Float16>,
                           std::span<std::uint8_t>,
                           GeluKind,
                           Executor&) noexcept;
template void GeluOutputBackward(std::span<const float>,
                                 std::span<const float>,
                                 std::span<const std::uint8_t>,
                                 std::span<float>,
                                 GeluKind,
                                 Executor&) noexcept;
template void GeluOutputBackward(std::span<const double>,
                                 std::span<const double>,
                                 std::span<const std::uint8_t>,
                                 std::span<double>,
                                 GeluKind,
                                 Executor&) noexcept;
template void GeluOutputBackward(std::span<const BFloat16>,
                                 std::span<const BFloat16>,
                                 std::span<const std::uint8_t>,
                                 std::span<BFloat16>,
                                 GeluKind,
                                 Executor&) noexcept;
template void GeluOutputBackward(std::span<const Float16>,
                                 std::span<const Float16>,
                                 std::span<const std::uint8_t>,
                                 std::span<Float16>,
                                 GeluKind,
                                 Executor&) noexcept;

}  // namespace palmist::kernels
#endif  // HWY_ONCE

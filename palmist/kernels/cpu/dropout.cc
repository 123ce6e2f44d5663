#include "palmist/kernels/dropout.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "palmist/kernels/cpu/dropout.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h
#include "hwy/highway.h"
#include "palmist/kernels/cpu/philox-inl.h"
#include "palmist/kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

template <typename T>
void DropoutImpl(std::span<const T> x,
                 const DropoutSpec& dropout,
                 std::span<T> y,
                 Executor& executor) {
  const DropoutRule rule(dropout);
  const std::size_t blocks = (x.size() + kDropoutBlock - 1) / kDropoutBlock;
  executor.ParallelFor(static_cast<std::int64_t>(blocks),
                       GrainOf(kDropoutBlock),
                       [&](std::int64_t first, std::int64_t last) {
                         const std::size_t begin = static_cast<std::size_t>(first) * kDropoutBlock;
                         const std::size_t end =
                             std::min(x.size(), static_cast<std::size_t>(last) * kDropoutBlock);
                         DropoutElements(rule,
                                         static_cast<std::uint64_t>(first),
                                         x.data() + begin,
                                         end - begin,
                                         y.data() + begin);
                       });
}

auto DropoutOfTypes() {
  return std::tuple(
      &DropoutImpl<float>, &DropoutImpl<double>, &DropoutImpl<BFloat16>, &DropoutImpl<Float16>);
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace palmist::kernels {

HWY_EXPORT(DropoutOfTypes);

template <typename T>
void Dropout(std::span<const T> x,
             const DropoutSpec& dropout,
             std::span<T> y,
             Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(DropoutImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(DropoutOfTypes)())(x, dropout, y, executor);
}

#define PALMIST_INSTANTIATE(T) \
  template void Dropout(std::span<const T>, const DropoutSpec&, std::span<T>, Executor&) noexcept;
PALMIST_INSTANTIATE(float)
PALMIST_INSTANTIATE(double)
PALMIST_INSTANTIATE(BFloat16)
PALMIST_INSTANTIATE(Float16)
#undef PALMIST_INSTANTIATE

}  // namespace palmist::kernels
#endif  // HWY_ONCE

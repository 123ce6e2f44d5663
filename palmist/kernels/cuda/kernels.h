/// The kernels of this folder's operators for NVIDIA GPUs.
///
/// Formulas, roundings and types are those of the functions of the same name in
/// palmist/kernels/*.h. All pointers are to memory of the current device and begin at a multiple of
/// 16 bytes; null stands for what an empty span stands for there. Work is queued on the stream and
/// may not have begun when a function returns; whether it could be queued is for the caller to ask
/// (cudaGetLastError). Nothing is queued where there are no elements. Sums go by trees whose form
/// depends on shapes alone. T: float, double, BFloat16, Float16.
#pragma once

#include <algorithm>
#include <cstdint>

#include "palmist/kernels/cross_entropy.h"
#include "palmist/kernels/gelu.h"
#include "palmist/kernels/philox.h"
#include "palmist/kernels/scalar.h"

namespace palmist::kernels::cuda {

/// A cudaStream_t, for code that does not see CUDA's headers.
using Stream = void*;

/// Writes y = dropout(x) of n elements, with the mask that the CPU makes of the same seed. y may be
/// the same as x. Moves 2 e bytes an element of e bytes.
template <typename T>
void Dropout(const T* x, std::int64_t n, const DropoutSpec& dropout, T* y, Stream stream) noexcept;

/// Writes y = silu(gate) up. y may be the same as gate or up. Moves 3 e bytes an element.
template <typename T>
void SiluMul(const T* gate, const T* up, std::int64_t n, T* y, Stream stream) noexcept;

/// Writes dgate and dup. Moves 5 e bytes an element.
template <typename T>
void SiluMulBackward(const T* dy,
                     const T* gate,
                     const T* up,
                     std::int64_t n,
                     T* dgate,
                     T* dup,
                     Stream stream) noexcept;

/// Writes y and the rows' rstd, which may be null. Moves 2 e bytes an element: a row is read again
/// from the caches.
template <typename T>
void RmsNorm(const T* x,
             std::int64_t n_rows,
             std::int64_t n_columns,
             const ComputeType<T>* gamma,
             double eps,
             T* y,
             ComputeType<T>* rstd,
             Stream stream) noexcept;

/// Returns how many blocks of rows `RmsNormBackward` sums dgamma in.
constexpr std::int64_t RmsNormBlocks(std::int64_t n_rows) {
  return std::clamp<std::int64_t>((n_rows + 3) / 4, 1, 512);
}

/// Returns how many elements of the compute type `RmsNormBackward` needs for dgamma.
constexpr std::int64_t RmsNormWorkspace(std::int64_t n_rows, std::int64_t n_columns) {
  return RmsNormBlocks(n_rows) * ((n_columns + 7) / 8 * 8);
}

/// Writes dx and dgamma, either of which may be null. Moves 3 e bytes an element, and what the
/// workspace of `RmsNormWorkspace` elements has, twice; it may be null where dgamma is.
template <typename T>
void RmsNormBackward(const T* dy,
                     const T* x,
                     std::int64_t n_rows,
                     std::int64_t n_columns,
                     const ComputeType<T>* gamma,
                     const ComputeType<T>* rstd,
                     T* dx,
                     ComputeType<T>* dgamma,
                     ComputeType<T>* workspace,
                     Stream stream) noexcept;

/// Writes each row's loss and, where asked, its gradient over the logits. Moves 3 e bytes an
/// element, e without gradients. targets and loss need the alignment of their types only.
///
/// A target that is neither ignored nor a class reads nothing out of bounds: its loss and its
/// gradients are NaN.
template <typename T>
void CrossEntropy(T* logits,
                  std::int64_t n_rows,
                  std::int64_t n_classes,
                  const std::int64_t* targets,
                  const CrossEntropyOptions& options,
                  bool write_gradient,
                  ComputeType<T>* loss,
                  Stream stream) noexcept;

/// Writes y = gelu(x) and the bits of [x >= x*]. T: float, BFloat16, Float16. Moves 2 e + 1/8 bytes
/// an element.
template <typename T>
void GeluWithBits(
    const T* x, std::int64_t n, T* y, std::uint8_t* bits, GeluKind kind, Stream stream) noexcept;

/// Writes dx from dy, y and its bits, with the accuracy of the CPU's. T: float, BFloat16, Float16.
/// Moves 3 e + 1/8 bytes an element.
template <typename T>
void GeluOutputBackward(const T* dy,
                        const T* y,
                        const std::uint8_t* bits,
                        std::int64_t n,
                        T* dx,
                        GeluKind kind,
                        Stream stream) noexcept;

}  // namespace palmist::kernels::cuda

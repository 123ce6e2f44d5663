/// The loops over one block of candidates.
///
/// Compiled for several instruction sets, chosen when the program loads. Every loop holds one
/// operation and contraction is off (CMakeLists.txt), so all give the same bits.
#include "palmist/symbolic/lowering.h"
#include "palmist/symbolic/operations.h"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers start too late for the resolver of a cloned function.
#define PALMIST_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PALMIST_VECTOR_CLONES
#endif

#if defined(__clang__)
#define PALMIST_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define PALMIST_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#else
#define PALMIST_INDEPENDENT_ITERATIONS
#endif

namespace palmist::symbolic::internal {
namespace {

/// Element i of a block, and the same constant for every i.
struct Column {
  const double* values;
  PALMIST_ALWAYS_INLINE double operator()(std::size_t i) const { return values[i]; }
};
struct Constant {
  double value;
  PALMIST_ALWAYS_INLINE double operator()(std::size_t) const { return value; }
};

/// Computes target[i] = op(a(i), b(i), c(i)). The target may be one of the operands: each
/// iteration touches element i alone.
template <Op op, typename A, typename B, typename C>
PALMIST_ALWAYS_INLINE void Loop(double* target, std::size_t n, A a, B b, C c) {
  PALMIST_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < n; ++i) target[i] = Apply<op>(a(i), b(i), c(i));
}

constexpr bool IsUnary(Op op) {
  return op == Op::kInput || op == Op::kSquare || op == Op::kCeil || op == Op::kFloor;
}

/// Calls body(Column) or body(Constant), as the operand is.
template <typename Body>
PALMIST_ALWAYS_INLINE void With(const Operand& operand, double* const* slots, Body&& body) {
  if (operand.slot < 0) {
    body(Constant{operand.constant});
  } else {
    body(Column{slots[operand.slot]});
  }
}

}  // namespace

PALMIST_VECTOR_CLONES
void RunBlock(std::span<const Step> steps, double* const* slots, std::size_t n) noexcept {
  for (const Step& step : steps) {
    double* const target = slots[step.target];
    Dispatch(step.op, [&]<Op kOp>() PALMIST_INLINE_LAMBDA {
      With(step.a, slots, [&](auto a) PALMIST_INLINE_LAMBDA {
        if constexpr (IsUnary(kOp)) {
          Loop<kOp>(target, n, a, Constant{0.0}, Constant{0.0});
        } else {
          With(step.b, slots, [&](auto b) PALMIST_INLINE_LAMBDA {
            if constexpr (kOp == Op::kSelect) {
              With(step.c, slots, [&](auto c) PALMIST_INLINE_LAMBDA {
                Loop<kOp>(target, n, a, b, c);
              });
            } else {
              Loop<kOp>(target, n, a, b, Constant{0.0});
            }
          });
        }
      });
    });
  }
}

}  // namespace palmist::symbolic::internal

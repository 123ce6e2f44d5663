// Scores are held with keys as rows and queries as lanes: row maxima, sums and factors of softmax
// are then plain vertical vector operations, and no tile of scores is ever transposed. Only Q (and
// dO) are, once per block of queries.
#include "palmist/kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "palmist/kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"
#include "palmist/kernels/cpu/philox-inl.h"
#include "palmist/kernels/cpu/tile_gemm-inl.h"
#include "palmist/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

// A tile of scores for one panel of queries stays in the first-level cache; the tiles of a block of
// queries with those of its keys and values stay in the second.
constexpr std::int64_t kKeys = 128;
constexpr std::int64_t kForwardQueries = 512;
constexpr std::int64_t kBackwardQueries = 128;
constexpr auto kPanelQueries = static_cast<std::int64_t>(kPanel);

// Row stride of backward's score tiles: an odd number of cache lines spreads them over all sets.
constexpr std::size_t kScoreStride = kBackwardQueries + 16;

using Words = hn::Vec<hn::RebindToUnsigned<FloatTag>>;
using Tile = hwy::AlignedFreeUniquePtr<float[]>;

Tile MakeTile(std::size_t rows, std::size_t columns) {
  return hwy::AllocateAligned<float>(std::max<std::size_t>(rows * columns, 1));
}

/// Returns the row stride of tiles of D columns: whole vectors, an odd number (as above).
std::size_t TileStride(std::int64_t head_dim) {
  return ((static_cast<std::size_t>(head_dim) + kLanes - 1) / kLanes | 1) * kLanes;
}

template <typename T>
T* Row(const HeadsView<T>& view, std::int64_t batch, std::int64_t head, std::int64_t row) {
  return view.data + batch * view.batch_stride + head * view.head_stride + row * view.row_stride;
}

/// Returns exp(x) for x <= 0 within 2 ulp; 0 below -88 instead of subnormal results; NaN for NaN.
///
/// exp(x) = 2^n exp(r), |r| <= ln(2) / 2, with a minimax polynomial (relative error 3e-9). What
/// softmax does not need of exp-inl.h is left out, as this is a tenth of the whole time.
HWY_INLINE FloatVec ExpNegative(FloatVec x) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  // At the lower limit the biased exponent is 0, hence the factor too. Max would lose NaN.
  const auto lowest = hn::Set(d, -88.0f);
  x = hn::IfThenElse(hn::Lt(x, lowest), lowest, x);
  const auto shift = hn::Set(d, 12583039.0f);  // 1.5 * 2^23 + 127: rounds, and biases the exponent
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift);
  const auto n = hn::Sub(shifted, shift);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::Set(d, 1.381454011181001e-3f);
  p = hn::MulAdd(p, r, hn::Set(d, 8.368745143331519e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.166839078757098e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.1666652039876127f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999993432103657f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

/// One panel of queries against one tile of keys.
struct PanelTile {
  std::int64_t batch, head;
  std::int64_t query, queries;  ///< the first, and how many of the panel's lanes are queries
  std::int64_t key, keys;
};

/// Calls step(offset, keep) for each vector of scores, where keep(x) is x or, for what dropout
/// drops, 0. Offsets are in a tile of row stride `stride`.
template <bool kDropout, class Step>
HWY_INLINE void ForEachScore(const AttentionShape& shape,
                             const DropoutRule& rule,
                             const PanelTile& tile,
                             std::size_t stride,
                             const Step& step) {
  const auto keys = static_cast<std::size_t>(tile.keys);
  if constexpr (!kDropout) {
    for (std::size_t j = 0; j < keys; ++j) {
      for (std::size_t v = 0; v < kPanel; v += kLanes) {
        step(j * stride + v, v, [](FloatVec x) { return x; });
      }
    }
  } else {
    const FloatTag d;
    const hn::RebindToUnsigned<FloatTag> d32;
    const auto last_dropped = hn::Set(d32, rule.threshold - 1);
    // A block of 64 elements has 16 counters; counter r makes the words of elements r + 16 w.
    const auto row_counters = static_cast<std::uint64_t>(PaddedRow(shape.keys) / 4);
    const auto row = static_cast<std::uint64_t>(
        (tile.batch * shape.heads + tile.head) * shape.queries + tile.query);
    for (std::size_t v = 0; v < kPanel; v += kLanes) {
      for (std::size_t block = 0; block < keys; block += kDropoutBlock) {
        HWY_ALIGN std::uint32_t low[kLanes];
        HWY_ALIGN std::uint32_t high[kLanes];
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          const std::uint64_t counter =
              (row + v + lane) * row_counters + (static_cast<std::uint64_t>(tile.key) + block) / 4;
          low[lane] = static_cast<std::uint32_t>(counter);
          high[lane] = static_cast<std::uint32_t>(counter >> 32);
        }
        for (std::size_t r = 0; r < 16; ++r) {
          Words words[4];
          // No carry: a block's first counter ends in four zero bits.
          const auto counter =
              hn::Or(hn::Load(d32, low), hn::Set(d32, static_cast<std::uint32_t>(r)));
          DropoutWords(d32, rule.seed, counter, hn::Load(d32, high), words);
          for (std::size_t w = 0; w < 4; ++w) {
            const std::size_t j = block + r + 16 * w;
            if (j >= keys) break;
            const auto kept = hn::RebindMask(d, hn::Gt(words[w], last_dropped));
            step(j * stride + v, v, [&](FloatVec x) { return hn::IfThenElseZero(kept, x); });
          }
        }
      }
    }
  }
}

/// What a thread needs to read masks.
struct MaskTiles {
  Tile rows = MakeTile(kPanel, kKeys);
  Tile columns = MakeTile(kKeys, kPanel);
};

template <typename T>
void ReadMaskRow(const AttentionMask<T>& mask, std::int64_t offset, std::int64_t n, float* out) {
  const std::int64_t step = mask.strides[3];
  if (mask.added == nullptr) {
    for (std::int64_t j = 0; j < n; ++j) out[j] = mask.keep[offset + j * step] ? 0 : kNoKeys;
  } else if (step == 1) {
    const auto count = static_cast<std::size_t>(n);
    ReadRows(mask.added + offset, 0, 1, count, 1, out, (count + kLanes - 1) / kLanes * kLanes);
  } else {
    for (std::int64_t j = 0; j < n; ++j) out[j] = ToFloat(mask.added[offset + j * step]);
  }
}

/// Adds the mask to a tile of scores, and hides keys that come after a query.
template <typename T>
void MaskScores(const AttentionShape& shape,
                const AttentionMask<T>& mask,
                const PanelTile& tile,
                MaskTiles& tiles,
                float* scores,
                std::size_t stride) {
  const FloatTag d;
  const auto keys = static_cast<std::size_t>(tile.keys);
  if (mask.added != nullptr || mask.keep != nullptr) {
    const auto& strides = mask.strides;
    std::int64_t offset = tile.batch * strides[0] + tile.head * strides[1] +
                          tile.query * strides[2] + tile.key * strides[3];
    if (strides[2] == 0) {
      ReadMaskRow(mask, offset, tile.keys, tiles.rows.get());
      for (std::size_t j = 0; j < keys; ++j) {
        for (float* p = scores + j * stride; p < scores + j * stride + kPanel; p += kLanes) {
          hn::StoreU(hn::Add(hn::LoadU(d, p), hn::Set(d, tiles.rows[j])), d, p);
        }
      }
    } else {
      for (std::int64_t i = 0; i < tile.queries; ++i, offset += strides[2]) {
        ReadMaskRow(mask, offset, tile.keys, tiles.rows.get() + i * kKeys);
      }
      TransposePanel(tiles.rows.get(), kKeys, keys, tiles.columns.get());
      for (std::size_t j = 0; j < keys; ++j) {
        for (std::size_t v = 0; v < kPanel; v += kLanes) {
          float* p = scores + j * stride + v;
          hn::StoreU(
              hn::Add(hn::LoadU(d, p), hn::Load(d, tiles.columns.get() + j * kPanel + v)), d, p);
        }
      }
    }
  }
  if (shape.causal) {
    for (std::int64_t j = std::max<std::int64_t>(tile.query + 1 - tile.key, 0); j < tile.keys;
         ++j) {
      for (std::size_t v = 0; v < kPanel; v += kLanes) {
        float* p = scores + static_cast<std::size_t>(j) * stride + v;
        const auto query =
            hn::Iota(d, static_cast<float>(tile.query - tile.key) + static_cast<float>(v));
        const auto sees = hn::Ge(query, hn::Set(d, static_cast<float>(j)));
        hn::StoreU(hn::IfThenElse(sees, hn::LoadU(d, p), hn::Set(d, kNoKeys)), d, p);
      }
    }
  }
}

/// Returns how many of the keys before `limit` some query up to `last` sees.
std::int64_t VisibleKeys(const AttentionShape& shape, std::int64_t last, std::int64_t limit) {
  return shape.causal ? std::min(limit, last + 1) : limit;
}

/// Turns scores into exp(score - running maximum), drops, and adds to the running sums. Writes the
/// factors by which earlier results shrink.
template <bool kDropout>
HWY_NOINLINE void SoftmaxStep(const AttentionShape& shape,
                              const DropoutRule& rule,
                              const PanelTile& tile,
                              float* scores,
                              float* top,
                              float* sum,
                              float* shrink) {
  const FloatTag d;
  const auto keys = static_cast<std::size_t>(tile.keys);
  const auto none = hn::Set(d, kNoKeys);
  for (std::size_t v = 0; v < kPanel; v += kLanes) {
    const auto before = hn::Load(d, top + v);
    // Four chains, as one would wait for each result.
    FloatVec highest[4] = {before, before, before, before};
    const float* p = scores + v;
    std::size_t j = 0;
    for (; j + 4 <= keys; j += 4) {
      for (std::size_t c = 0; c < 4; ++c, p += kPanel) {
        highest[c] = hn::Max(highest[c], hn::Load(d, p));
      }
    }
    for (; j < keys; ++j, p += kPanel) highest[0] = hn::Max(highest[0], hn::Load(d, p));
    const auto after = hn::Max(hn::Max(highest[0], highest[1]), hn::Max(highest[2], highest[3]));
    hn::Store(after, d, top + v);
    // Where no key was seen yet, all scores are -Inf: subtract 0, not -Inf.
    const auto base = hn::IfThenElse(hn::Eq(after, none), hn::Zero(d), after);
    const auto factor = ExpNegative(hn::Sub(before, base));
    hn::Store(factor, d, shrink + v);
    hn::Store(hn::Mul(hn::Load(d, sum + v), factor), d, sum + v);
  }
  FloatVec base[2], total[2];
  for (std::size_t c = 0; c < 2; ++c) {
    const auto after = hn::Load(d, top + c * kLanes);
    base[c] = hn::IfThenElse(hn::Eq(after, none), hn::Zero(d), after);
    total[c] = hn::Load(d, sum + c * kLanes);
  }
  ForEachScore<kDropout>(shape, rule, tile, kPanel, [&](std::size_t at, std::size_t v, auto keep) {
    const std::size_t c = v / kLanes;
    const auto p = ExpNegative(hn::Sub(hn::Load(d, scores + at), base[c]));
    total[c] = hn::Add(total[c], p);
    hn::Store(keep(p), d, scores + at);
  });
  for (std::size_t c = 0; c < 2; ++c) hn::Store(total[c], d, sum + c * kLanes);
}

/// Does the panels [begin, end) of queries, counted over all heads.
template <typename T>
void ForwardPanels(const AttentionShape& shape,
                   const HeadsView<const T>& q,
                   const HeadsView<const T>& k,
                   const HeadsView<const T>& v,
                   const AttentionMask<T>& mask,
                   const HeadsView<T>& o,
                   float* log_sum_exp,
                   std::int64_t begin,
                   std::int64_t end) {
  const FloatTag d;
  const DropoutRule rule(shape.dropout);
  const auto head_dim = static_cast<std::size_t>(shape.head_dim);
  const std::size_t ld = TileStride(shape.head_dim);
  const std::size_t columns = (head_dim + kLanes - 1) / kLanes * kLanes;
  const std::int64_t panels_per_head = (shape.queries + kPanelQueries - 1) / kPanelQueries;
  const auto max_group = static_cast<std::size_t>(
      std::min({kForwardQueries / kPanelQueries, end - begin, panels_per_head}));
  const Tile rows = MakeTile(kPanel, ld);
  const Tile q_panels = MakeTile(max_group, ld * kPanel);
  const Tile results = MakeTile(max_group, ld * kPanel);
  const Tile k_tile = MakeTile(kKeys, ld);
  const Tile v_tile = MakeTile(kKeys, ld);
  const Tile scores = MakeTile(kKeys, kPanel);
  const Tile state = MakeTile(2 * max_group + 1, kPanel);
  MaskTiles mask_tiles;
  float* const top = state.get();
  float* const sum = top + max_group * kPanel;
  float* const shrink = sum + max_group * kPanel;

  while (begin < end) {
    const std::int64_t batch = begin / panels_per_head / shape.heads;
    const std::int64_t head = begin / panels_per_head % shape.heads;
    const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
    const std::int64_t first = begin % panels_per_head;
    const std::int64_t group =
        std::min({static_cast<std::int64_t>(max_group), end - begin, panels_per_head - first});
    begin += group;
    const std::int64_t group_query = first * kPanelQueries;
    const std::int64_t group_end = std::min(shape.queries, group_query + group * kPanelQueries);

    std::fill_n(top, group * kPanelQueries, kNoKeys);
    std::fill_n(sum, group * kPanelQueries, 0.0f);
    const auto each_panel = [&](const auto& body) {
      for (std::int64_t i = group_query; i < group_end; i += kPanelQueries) {
        body(i, std::min(kPanelQueries, group_end - i), static_cast<std::size_t>(i - group_query));
      }
    };
    each_panel([&](std::int64_t i, std::int64_t n, std::size_t at) {
      const auto count = static_cast<std::size_t>(n);
      ReadRows(Row(q, batch, head, i),
               q.row_stride,
               count,
               head_dim,
               static_cast<float>(shape.scale),
               rows.get(),
               ld);
      std::fill(rows.get() + count * ld, rows.get() + kPanel * ld, 0.0f);
      TransposePanel(rows.get(), ld, head_dim, q_panels.get() + at * ld);
    });
    const std::int64_t key_end = VisibleKeys(shape, group_end - 1, shape.keys);
    for (std::int64_t j = 0; j < key_end; j += kKeys) {
      const auto count = static_cast<std::size_t>(std::min(kKeys, key_end - j));
      ReadRows(Row(k, batch, kv_head, j), k.row_stride, count, head_dim, 1, k_tile.get(), ld);
      ReadRows(Row(v, batch, kv_head, j), v.row_stride, count, head_dim, 1, v_tile.get(), ld);
      each_panel([&](std::int64_t i, std::int64_t n, std::size_t at) {
        const PanelTile tile{
            .batch = batch,
            .head = head,
            .query = i,
            .queries = n,
            .key = j,
            .keys = VisibleKeys(shape, i + n - 1, j + static_cast<std::int64_t>(count)) - j};
        if (tile.keys <= 0) return;
        const auto keys = static_cast<std::size_t>(tile.keys);
        Multiply<Left::kRows>(Into::kReplace,
                              keys,
                              kPanel,
                              head_dim,
                              k_tile.get(),
                              ld,
                              q_panels.get() + at * ld,
                              kPanel,
                              scores.get(),
                              kPanel);
        MaskScores(shape, mask, tile, mask_tiles, scores.get(), kPanel);
        const auto step = rule.keeps_all ? SoftmaxStep<false> : SoftmaxStep<true>;
        step(shape, rule, tile, scores.get(), top + at, sum + at, shrink);
        float* const result = results.get() + at * ld;
        for (std::size_t r = 0; j > 0 && r < static_cast<std::size_t>(n); ++r) {
          if (shrink[r] == 1) continue;
          for (float* p = result + r * ld; p < result + r * ld + columns; p += kLanes) {
            hn::StoreU(hn::Mul(hn::LoadU(d, p), hn::Set(d, shrink[r])), d, p);
          }
        }
        Multiply<Left::kColumns>(j == 0 ? Into::kReplace : Into::kAdd,
                                 static_cast<std::size_t>(n),
                                 columns,
                                 keys,
                                 scores.get(),
                                 kPanel,
                                 v_tile.get(),
                                 ld,
                                 result,
                                 ld);
      });
    }
    for (std::int64_t i = group_query; i < group_end; ++i) {
      const auto at = static_cast<std::size_t>(i - group_query);
      const bool saw_none = sum[at] == 0;
      log_sum_exp[(batch * shape.heads + head) * shape.queries + i] =
          saw_none ? kNoKeys : top[at] + std::log(sum[at]);
      float* const result = results.get() + at * ld;
      if (saw_none) std::fill_n(result, ld, 0.0f);
      WriteRows(result,
                ld,
                1,
                head_dim,
                saw_none ? 0.0f : static_cast<float>(rule.scale) / sum[at],
                Row(o, batch, head, i),
                o.row_stride);
    }
  }
}

/// Returns the sum of products of two rows.
template <typename T>
float DotRow(const T* a, const T* b, std::size_t n) {
  const FloatTag d;
  auto sum = hn::Zero(d);
  ForEachVector(d, n, [&](std::size_t i, std::size_t count) {
    sum = hn::MulAdd(LoadCount(d, a + i, count), LoadCount(d, b + i, count), sum);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// Turns scores S into dropped probabilities P~, and gradients dP~ of those into dS.
template <bool kDropout>
HWY_NOINLINE void GradientStep(const AttentionShape& shape,
                               const DropoutRule& rule,
                               const PanelTile& tile,
                               const float* shift,
                               const float* delta,
                               float* scores,
                               float* gradients) {
  const FloatTag d;
  ForEachScore<kDropout>(
      shape, rule, tile, kScoreStride, [&](std::size_t at, std::size_t v, auto keep) {
        const auto p = ExpNegative(hn::Add(hn::Load(d, scores + at), hn::Load(d, shift + v)));
        const auto gradient = hn::Sub(keep(hn::Load(d, gradients + at)), hn::Load(d, delta + v));
        hn::Store(keep(p), d, scores + at);
        hn::Store(hn::Mul(p, gradient), d, gradients + at);
      });
}

/// Adds to dK and dV of a head, and writes dQ, what every `parts`-th block of queries from the
/// `part`-th on gives. Blocks are counted over the query heads that share the head.
template <typename T>
void BackwardPart(const AttentionShape& shape,
                  const HeadsView<const T>& d_o,
                  const HeadsView<const T>& q,
                  const HeadsView<const T>& k,
                  const HeadsView<const T>& v,
                  const AttentionMask<T>& mask,
                  const HeadsView<const T>& o,
                  const float* log_sum_exp,
                  const HeadsView<T>& d_q,
                  std::int64_t batch,
                  std::int64_t kv_head,
                  std::int64_t part,
                  std::int64_t parts,
                  float* d_k_sum,
                  float* d_v_sum) {
  const DropoutRule rule(shape.dropout);
  const auto head_dim = static_cast<std::size_t>(shape.head_dim);
  const std::size_t ld = TileStride(shape.head_dim);
  const std::size_t columns = (head_dim + kLanes - 1) / kLanes * kLanes;
  const Tile q_rows = MakeTile(kBackwardQueries, ld);
  const Tile q_panels = MakeTile(kBackwardQueries, ld);
  const Tile d_o_rows = MakeTile(kBackwardQueries, ld);
  const Tile d_o_panels = MakeTile(kBackwardQueries, ld);
  const Tile d_q_rows = MakeTile(kBackwardQueries, ld);
  const Tile k_tile = MakeTile(kKeys, ld);
  const Tile v_tile = MakeTile(kKeys, ld);
  const Tile scores = MakeTile(kKeys, kScoreStride);
  const Tile gradients = MakeTile(kKeys, kScoreStride);
  HWY_ALIGN float shift[kBackwardQueries];
  HWY_ALIGN float delta[kBackwardQueries];
  MaskTiles mask_tiles;

  const std::int64_t group = shape.heads / shape.kv_heads;
  const std::int64_t blocks = (shape.queries + kBackwardQueries - 1) / kBackwardQueries;
  for (std::int64_t block = part; block < group * blocks; block += parts) {
    const std::int64_t head = kv_head * group + block / blocks;
    const std::int64_t query = block % blocks * kBackwardQueries;
    const std::int64_t block_queries = std::min(kBackwardQueries, shape.queries - query);
    const auto queries = static_cast<std::size_t>(block_queries);
    const std::size_t panel_rows = (queries + kPanel - 1) / kPanel * kPanel;
    const auto read = [&](const HeadsView<const T>& from, double scale, float* to, float* panels) {
      ReadRows(Row(from, batch, head, query),
               from.row_stride,
               queries,
               head_dim,
               static_cast<float>(scale),
               to,
               ld);
      std::fill(to + queries * ld, to + panel_rows * ld, 0.0f);
      for (std::size_t i = 0; i < panel_rows; i += kPanel) {
        TransposePanel(to + i * ld, ld, head_dim, panels + i * ld);
      }
    };
    // The constant factors of scores and of kept probabilities ride on Q and dO.
    read(q, shape.scale, q_rows.get(), q_panels.get());
    read(d_o, rule.scale, d_o_rows.get(), d_o_panels.get());
    std::fill_n(d_q_rows.get(), queries * ld, 0.0f);
    std::fill_n(shift, kBackwardQueries, kNoKeys);
    std::fill_n(delta, kBackwardQueries, 0.0f);
    for (std::int64_t i = 0; i < block_queries; ++i) {
      // A query that sees no key has log-sum-exp -Inf: adding that, not its negative, makes its
      // probabilities exp(-Inf).
      const float lse = log_sum_exp[(batch * shape.heads + head) * shape.queries + query + i];
      shift[i] = lse == kNoKeys ? kNoKeys : -lse;
      delta[i] = DotRow(Row(d_o, batch, head, query + i), Row(o, batch, head, query + i), head_dim);
    }

    const std::int64_t key_end = VisibleKeys(shape, query + block_queries - 1, shape.keys);
    for (std::int64_t key = 0; key < key_end; key += kKeys) {
      const std::int64_t tile_keys = std::min(kKeys, key_end - key);
      const auto keys = static_cast<std::size_t>(tile_keys);
      ReadRows(Row(k, batch, kv_head, key), k.row_stride, keys, head_dim, 1, k_tile.get(), ld);
      ReadRows(Row(v, batch, kv_head, key), v.row_stride, keys, head_dim, 1, v_tile.get(), ld);
      for (std::int64_t i = 0; i < block_queries; i += kPanelQueries) {
        const std::int64_t n = std::min(kPanelQueries, block_queries - i);
        const PanelTile tile{.batch = batch,
                             .head = head,
                             .query = query + i,
                             .queries = n,
                             .key = key,
                             .keys = std::max<std::int64_t>(
                                 VisibleKeys(shape, query + i + n - 1, key + tile_keys) - key, 0)};
        const auto at = static_cast<std::size_t>(i);
        const auto visible = static_cast<std::size_t>(tile.keys);
        float* const s = scores.get() + at;
        float* const ds = gradients.get() + at;
        Multiply<Left::kRows>(Into::kReplace,
                              visible,
                              kPanel,
                              head_dim,
                              k_tile.get(),
                              ld,
                              q_panels.get() + at * ld,
                              kPanel,
                              s,
                              kScoreStride);
        Multiply<Left::kRows>(Into::kReplace,
                              visible,
                              kPanel,
                              head_dim,
                              v_tile.get(),
                              ld,
                              d_o_panels.get() + at * ld,
                              kPanel,
                              ds,
                              kScoreStride);
        MaskScores(shape, mask, tile, mask_tiles, s, kScoreStride);
        const auto step = rule.keeps_all ? GradientStep<false> : GradientStep<true>;
        step(shape, rule, tile, shift + i, delta + i, s, ds);
        for (std::size_t j = visible; j < keys; ++j) {
          std::fill_n(s + j * kScoreStride, kPanel, 0.0f);
          std::fill_n(ds + j * kScoreStride, kPanel, 0.0f);
        }
      }
      // On the diagonal of a causal mask half of a tile is zeros: go by panels, and start or end
      // the sums where they do.
      const bool diagonal = shape.causal && key + tile_keys > query + 1;
      const auto before = static_cast<std::ptrdiff_t>(key - query);
      for (std::size_t j = 0; j < keys; j += diagonal ? kPanel : keys) {
        const std::size_t n = diagonal ? std::min(kPanel, keys - j) : keys;
        const std::size_t from =
            diagonal ? static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(
                           static_cast<std::ptrdiff_t>(j) + before, 0, block_queries))
                     : 0;
        const std::size_t to_sum = (static_cast<std::size_t>(key) + j) * ld;
        Multiply<Left::kRows>(Into::kAdd,
                              n,
                              columns,
                              queries - from,
                              scores.get() + j * kScoreStride + from,
                              kScoreStride,
                              d_o_rows.get() + from * ld,
                              ld,
                              d_v_sum + to_sum,
                              ld);
        Multiply<Left::kRows>(Into::kAdd,
                              n,
                              columns,
                              queries - from,
                              gradients.get() + j * kScoreStride + from,
                              kScoreStride,
                              q_rows.get() + from * ld,
                              ld,
                              d_k_sum + to_sum,
                              ld);
      }
      for (std::size_t i = 0; i < queries; i += diagonal ? kPanel : queries) {
        const std::size_t n = diagonal ? std::min(kPanel, queries - i) : queries;
        const std::size_t depth =
            diagonal ? static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(
                           static_cast<std::ptrdiff_t>(i + n) - before, 0, tile_keys))
                     : keys;
        Multiply<Left::kColumns>(Into::kAdd,
                                 n,
                                 columns,
                                 depth,
                                 gradients.get() + i,
                                 kScoreStride,
                                 k_tile.get(),
                                 ld,
                                 d_q_rows.get() + i * ld,
                                 ld);
      }
    }
    WriteRows(d_q_rows.get(),
              ld,
              queries,
              head_dim,
              static_cast<float>(shape.scale),
              Row(d_q, batch, head, query),
              d_q.row_stride);
  }
}

template <typename T>
void Forward(const AttentionShape& shape,
             HeadsView<const T> q,
             HeadsView<const T> k,
             HeadsView<const T> v,
             const AttentionMask<T>& mask,
             HeadsView<T> o,
             float* log_sum_exp,
             Executor& executor) {
  const std::int64_t panels = (shape.queries + kPanelQueries - 1) / kPanelQueries;
  executor.ParallelFor(
      shape.batch * shape.heads * panels, 1, [&](std::int64_t begin, std::int64_t end) {
        ForwardPanels(shape, q, k, v, mask, o, log_sum_exp, begin, end);
      });
}

template <typename T>
void Backward(const AttentionShape& shape,
              HeadsView<const T> d_o,
              HeadsView<const T> q,
              HeadsView<const T> k,
              HeadsView<const T> v,
              const AttentionMask<T>& mask,
              HeadsView<const T> o,
              const float* log_sum_exp,
              HeadsView<T> d_q,
              HeadsView<T> d_k,
              HeadsView<T> d_v,
              Executor& executor) {
  // Heads of keys are independent. Where they are few, the queries of each are dealt out to parts,
  // by shape alone, whose sums are added in order afterwards.
  constexpr std::int64_t kEnoughHeads = 8;
  const std::int64_t kv_heads = shape.batch * shape.kv_heads;
  if (kv_heads == 0) return;
  const std::int64_t blocks =
      shape.heads / shape.kv_heads * ((shape.queries + kBackwardQueries - 1) / kBackwardQueries);
  const std::int64_t parts =
      std::clamp<std::int64_t>(blocks, 1, (kEnoughHeads + kv_heads - 1) / kv_heads);
  const auto head_dim = static_cast<std::size_t>(shape.head_dim);
  const std::size_t ld = TileStride(shape.head_dim);
  const std::size_t size = static_cast<std::size_t>(shape.keys) * ld;
  const auto run = [&](std::int64_t head, std::int64_t part, float* sums) {
    std::fill_n(sums, 2 * size, 0.0f);
    BackwardPart(shape,
                 d_o,
                 q,
                 k,
                 v,
                 mask,
                 o,
                 log_sum_exp,
                 d_q,
                 head / shape.kv_heads,
                 head % shape.kv_heads,
                 part,
                 parts,
                 sums,
                 sums + size);
  };
  const auto write = [&](std::int64_t head,
                         std::int64_t key,
                         std::size_t count,
                         const float* d_k_sum,
                         const float* d_v_sum) {
    const std::int64_t batch = head / shape.kv_heads;
    const std::int64_t kv_head = head % shape.kv_heads;
    WriteRows(d_k_sum, ld, count, head_dim, 1, Row(d_k, batch, kv_head, key), d_k.row_stride);
    WriteRows(d_v_sum, ld, count, head_dim, 1, Row(d_v, batch, kv_head, key), d_v.row_stride);
  };
  if (parts == 1) {
    executor.ParallelFor(kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
      const Tile sums = MakeTile(2, size);
      for (std::int64_t head = begin; head < end; ++head) {
        run(head, 0, sums.get());
        write(head, 0, static_cast<std::size_t>(shape.keys), sums.get(), sums.get() + size);
      }
    });
    return;
  }
  const Tile sums = MakeTile(static_cast<std::size_t>(kv_heads * parts), 2 * size);
  executor.ParallelFor(kv_heads * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      run(unit / parts, unit % parts, sums.get() + static_cast<std::size_t>(unit) * 2 * size);
    }
  });
  executor.ParallelFor(kv_heads * shape.keys, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t head = row / shape.keys;
      const std::int64_t key = row % shape.keys;
      float* const first = sums.get() + static_cast<std::size_t>(head * parts) * 2 * size +
                           static_cast<std::size_t>(key) * ld;
      for (std::int64_t part = 1; part < parts; ++part) {
        const float* const other = first + static_cast<std::size_t>(part) * 2 * size;
        for (std::size_t c = 0; c < head_dim; ++c) {
          first[c] += other[c];
          first[size + c] += other[size + c];
        }
      }
      write(head, key, 1, first, first + size);
    }
  });
}

#define PALMIST_ATTENTION_FOR(T, Name)                                               \
  void Forward##Name(const AttentionShape& shape,                                    \
                     HeadsView<const T> q,                                           \
                     HeadsView<const T> k,                                           \
                     HeadsView<const T> v,                                           \
                     const AttentionMask<T>& mask,                                   \
                     HeadsView<T> o,                                                 \
                     float* log_sum_exp,                                             \
                     Executor& executor) {                                           \
    Forward<T>(shape, q, k, v, mask, o, log_sum_exp, executor);                      \
  }                                                                                  \
  void Backward##Name(const AttentionShape& shape,                                   \
                      HeadsView<const T> d_o,                                        \
                      HeadsView<const T> q,                                          \
                      HeadsView<const T> k,                                          \
                      HeadsView<const T> v,                                          \
                      const AttentionMask<T>& mask,                                  \
                      HeadsView<const T> o,                                          \
                      const float* log_sum_exp,                                      \
                      HeadsView<T> d_q,                                              \
                      HeadsView<T> d_k,                                              \
                      HeadsView<T> d_v,                                              \
                      Executor& executor) {                                          \
    Backward<T>(shape, d_o, q, k, v, mask, o, log_sum_exp, d_q, d_k, d_v, executor); \
  }
PALMIST_ATTENTION_FOR(float, Float)
PALMIST_ATTENTION_FOR(BFloat16, BFloat16)
PALMIST_ATTENTION_FOR(Float16, Float16)
#undef PALMIST_ATTENTION_FOR

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace palmist::kernels {
namespace {

HWY_EXPORT(ForwardFloat);
HWY_EXPORT(ForwardBFloat16);
HWY_EXPORT(ForwardFloat16);
HWY_EXPORT(BackwardFloat);
HWY_EXPORT(BackwardBFloat16);
HWY_EXPORT(BackwardFloat16);

/// Rows of double attention, one query at a time, for checks of gradients.
class PlainRow {
 public:
  PlainRow(const AttentionShape& shape,
           const HeadsView<const double>& q,
           const HeadsView<const double>& k,
           const AttentionMask<double>& mask)
      : shape_(shape), q_(q), k_(k), mask_(mask) {}

  static double* At(const HeadsView<double>& view,
                    std::int64_t batch,
                    std::int64_t head,
                    std::int64_t row) {
    return view.data + batch * view.batch_stride + head * view.head_stride + row * view.row_stride;
  }
  static const double* At(const HeadsView<const double>& view,
                          std::int64_t batch,
                          std::int64_t head,
                          std::int64_t row) {
    return view.data + batch * view.batch_stride + head * view.head_stride + row * view.row_stride;
  }

  std::int64_t KvHead(std::int64_t head) const { return head / (shape_.heads / shape_.kv_heads); }

  double Dot(const double* a, const double* b) const {
    return std::inner_product(a, a + shape_.head_dim, b, 0.0);
  }

  /// Returns the scores of one query.
  std::vector<double> Scores(std::int64_t batch, std::int64_t head, std::int64_t i) const {
    std::vector<double> scores(static_cast<std::size_t>(shape_.keys));
    const auto& strides = mask_.strides;
    for (std::int64_t j = 0; j < shape_.keys; ++j) {
      const std::int64_t offset =
          batch * strides[0] + head * strides[1] + i * strides[2] + j * strides[3];
      double score = shape_.scale * Dot(At(q_, batch, head, i), At(k_, batch, KvHead(head), j));
      if (mask_.added != nullptr) score += mask_.added[offset];
      const bool hidden =
          (shape_.causal && j > i) || (mask_.keep != nullptr && mask_.keep[offset] == 0);
      scores[static_cast<std::size_t>(j)] = hidden ? double{kNoKeys} : score;
    }
    return scores;
  }

  /// Returns the factor of dropout on a probability.
  double Kept(std::int64_t batch, std::int64_t head, std::int64_t i, std::int64_t j) const {
    if (shape_.dropout.p == 0) return 1;
    const std::int64_t row = (batch * shape_.heads + head) * shape_.queries + i;
    const auto index = static_cast<std::uint64_t>(row * PaddedRow(shape_.keys) + j);
    return IsKept(shape_.dropout, index) ? 1 / (1 - shape_.dropout.p) : 0;
  }

 private:
  const AttentionShape& shape_;
  const HeadsView<const double>& q_;
  const HeadsView<const double>& k_;
  const AttentionMask<double>& mask_;
};

void PlainForward(const AttentionShape& shape,
                  HeadsView<const double> q,
                  HeadsView<const double> k,
                  HeadsView<const double> v,
                  const AttentionMask<double>& mask,
                  HeadsView<double> o,
                  double* log_sum_exp,
                  Executor& executor) {
  const PlainRow plain(shape, q, k, mask);
  const std::int64_t rows = shape.batch * shape.heads * shape.queries;
  executor.ParallelFor(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t batch = row / shape.queries / shape.heads;
      const std::int64_t head = row / shape.queries % shape.heads;
      const std::int64_t i = row % shape.queries;
      const std::vector<double> scores = plain.Scores(batch, head, i);
      double top = kNoKeys;
      for (const double score : scores) top = score <= top ? top : score;
      double* const out = PlainRow::At(o, batch, head, i);
      std::fill_n(out, shape.head_dim, 0.0);
      double sum = 0;
      if (top != kNoKeys) {
        for (const double score : scores) sum += std::exp(score - top);
        for (std::int64_t j = 0; j < shape.keys; ++j) {
          const double p = std::exp(scores[static_cast<std::size_t>(j)] - top) / sum *
                           plain.Kept(batch, head, i, j);
          const double* const value = PlainRow::At(v, batch, plain.KvHead(head), j);
          for (std::int64_t c = 0; c < shape.head_dim; ++c) out[c] += p * value[c];
        }
      }
      log_sum_exp[row] = top == kNoKeys ? top : top + std::log(sum);
    }
  });
}

void PlainBackward(const AttentionShape& shape,
                   HeadsView<const double> d_o,
                   HeadsView<const double> q,
                   HeadsView<const double> k,
                   HeadsView<const double> v,
                   const AttentionMask<double>& mask,
                   HeadsView<const double> o,
                   const double* log_sum_exp,
                   HeadsView<double> d_q,
                   HeadsView<double> d_k,
                   HeadsView<double> d_v,
                   Executor& executor) {
  const PlainRow plain(shape, q, k, mask);
  const std::int64_t group = shape.heads / std::max<std::int64_t>(shape.kv_heads, 1);
  const std::int64_t n = shape.head_dim;
  executor.ParallelFor(shape.batch * shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t batch = unit / shape.kv_heads;
      const std::int64_t kv_head = unit % shape.kv_heads;
      for (std::int64_t j = 0; j < shape.keys; ++j) {
        std::fill_n(PlainRow::At(d_k, batch, kv_head, j), n, 0.0);
        std::fill_n(PlainRow::At(d_v, batch, kv_head, j), n, 0.0);
      }
      for (std::int64_t row = 0; row < group * shape.queries; ++row) {
        const std::int64_t head = kv_head * group + row / shape.queries;
        const std::int64_t i = row % shape.queries;
        const double* const out_gradient = PlainRow::At(d_o, batch, head, i);
        const double* const query = PlainRow::At(q, batch, head, i);
        double* const query_gradient = PlainRow::At(d_q, batch, head, i);
        std::fill_n(query_gradient, n, 0.0);
        const double lse = log_sum_exp[(batch * shape.heads + head) * shape.queries + i];
        if (lse == kNoKeys) continue;
        const std::vector<double> scores = plain.Scores(batch, head, i);
        const double delta = plain.Dot(out_gradient, PlainRow::At(o, batch, head, i));
        for (std::int64_t j = 0; j < shape.keys; ++j) {
          const double p = std::exp(scores[static_cast<std::size_t>(j)] - lse);
          const double kept = plain.Kept(batch, head, i, j);
          const double* const key = PlainRow::At(k, batch, kv_head, j);
          const double d_p = kept * plain.Dot(out_gradient, PlainRow::At(v, batch, kv_head, j));
          const double d_s = shape.scale * p * (d_p - delta);
          double* const key_gradient = PlainRow::At(d_k, batch, kv_head, j);
          double* const value_gradient = PlainRow::At(d_v, batch, kv_head, j);
          for (std::int64_t c = 0; c < n; ++c) {
            value_gradient[c] += p * kept * out_gradient[c];
            key_gradient[c] += d_s * query[c];
            query_gradient[c] += d_s * key[c];
          }
        }
      }
    }
  });
}

}  // namespace

template <typename T>
void Attention(const AttentionShape& shape,
               HeadsView<const T> q,
               HeadsView<const T> k,
               HeadsView<const T> v,
               const AttentionMask<T>& mask,
               HeadsView<T> o,
               ComputeType<T>* log_sum_exp,
               Executor& executor) noexcept {
  const auto run = [&](auto function) { function(shape, q, k, v, mask, o, log_sum_exp, executor); };
  if constexpr (std::is_same_v<T, double>) {
    run(PlainForward);
  } else if constexpr (std::is_same_v<T, float>) {
    run(HWY_DYNAMIC_DISPATCH(ForwardFloat));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    run(HWY_DYNAMIC_DISPATCH(ForwardBFloat16));
  } else {
    run(HWY_DYNAMIC_DISPATCH(ForwardFloat16));
  }
}

template <typename T>
void AttentionBackward(const AttentionShape& shape,
                       HeadsView<const T> d_o,
                       HeadsView<const T> q,
                       HeadsView<const T> k,
                       HeadsView<const T> v,
                       const AttentionMask<T>& mask,
                       HeadsView<const T> o,
                       const ComputeType<T>* log_sum_exp,
                       HeadsView<T> d_q,
                       HeadsView<T> d_k,
                       HeadsView<T> d_v,
                       Executor& executor) noexcept {
  const auto run = [&](auto function) {
    function(shape, d_o, q, k, v, mask, o, log_sum_exp, d_q, d_k, d_v, executor);
  };
  if constexpr (std::is_same_v<T, double>) {
    run(PlainBackward);
  } else if constexpr (std::is_same_v<T, float>) {
    run(HWY_DYNAMIC_DISPATCH(BackwardFloat));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    run(HWY_DYNAMIC_DISPATCH(BackwardBFloat16));
  } else {
    run(HWY_DYNAMIC_DISPATCH(BackwardFloat16));
  }
}

#define PALMIST_INSTANTIATE_ATTENTION(T)                      \
  template void Attention<T>(const AttentionShape&,           \
                             HeadsView<const T>,              \
                             HeadsView<const T>,              \
                             HeadsView<const T>,              \
                             const AttentionMask<T>&,         \
                             HeadsView<T>,                    \
                             ComputeType<T>*,                 \
                             Executor&) noexcept;             \
  template void AttentionBackward<T>(const AttentionShape&,   \
                                     HeadsView<const T>,      \
                                     HeadsView<const T>,      \
                                     HeadsView<const T>,      \
                                     HeadsView<const T>,      \
                                     const AttentionMask<T>&, \
                                     HeadsView<const T>,      \
                                     const ComputeType<T>*,   \
                                     HeadsView<T>,            \
                                     HeadsView<T>,            \
                                     HeadsView<T>,            \
                                     Executor&) noexcept;
PALMIST_INSTANTIATE_ATTENTION(float)
PALMIST_INSTANTIATE_ATTENTION(double)
PALMIST_INSTANTIATE_ATTENTION(BFloat16)
PALMIST_INSTANTIATE_ATTENTION(Float16)
#undef PALMIST_INSTANTIATE_ATTENTION

}  // namespace palmist::kernels
#endif  // HWY_ONCE

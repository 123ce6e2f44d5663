#include <string>
#include <utility>
#include <vector>

#include "palmist/model/transformer_graph.h"

namespace palmist::model::internal {
namespace {

/// Over how many ranks KV heads are spread: fewer than tp where there are fewer heads.
Expr KeyValueDivisor(const Symbols& symbols, const AttentionSpec& spec) {
  if (spec.kv_heads == spec.heads) return symbols.tp;
  if (spec.kv_heads == 1) return 1;
  return symbolic::Min(symbols.tp, spec.kv_heads);
}

/// Keys that a query sees on average. Causal attention over a window of w tokens, m = min(w, s):
/// the first m queries see m/2 on average, the others m.
Expr KeysSeen(const Symbols& symbols, const AttentionSpec& spec) {
  const Expr& s = symbols.s;
  if (!spec.causal) return spec.window > 0 ? symbolic::Min(s, 2 * spec.window) : s;
  if (spec.window == 0) return s / 2;
  const Expr window = symbolic::Min(s, spec.window);
  return window - window * window / (2 * s);
}

class AttentionBuilder {
 public:
  AttentionBuilder(const Context& context,
                   LayerBuilder& builder,
                   const std::string& prefix,
                   const AttentionSpec& spec)
      : context_(context),
        builder_(builder),
        prefix_(prefix),
        spec_(spec),
        kv_divisor_(KeyValueDivisor(context.symbols, spec)),
        query_width_(Product({spec.heads, spec.head_dim})),
        key_width_(Product({spec.kv_heads, spec.head_dim})),
        value_width_(Product({spec.kv_heads, spec.value_dim})) {}

  TensorId Build(TensorId x, TensorId memory) {
    std::vector<TensorId> inputs;
    if (spec_.cross) {
      inputs = Cross(x, memory);
    } else {
      TensorId qkv = spec_.latent ? Latent(x, *spec_.latent) : Fused(x);
      qkv = QkNorm(qkv);
      if (spec_.rotary) qkv = Unary(OpKind::kRotary, "rotary", qkv);
      inputs = {qkv};
    }
    return Output(Core(std::move(inputs)));
  }

 private:
  const Expr& tp() const { return context_.symbols.tp; }
  std::string Name(const char* name) const { return prefix_ + name; }

  TensorId Unary(OpKind kind, const char* name, TensorId x) {
    builder_.AppendLike(kind, Name(name), {x});
    return builder_.last();
  }

  Parameter Query(std::int64_t in) const {
    return Divided("query.weight", Product({in, query_width_}), Sharding::kTensor, tp());
  }

  Parameter KeyValue(const char* name, std::int64_t elements) const {
    return Divided(name, elements, Sharding::kKeyValue, kv_divisor_);
  }

  void AddKeyValues(std::vector<Parameter>& parameters) const {
    parameters.push_back(KeyValue("key.weight", Product({context_.hidden, key_width_})));
    parameters.push_back(KeyValue("value.weight", Product({context_.hidden, value_width_})));
    if (spec_.key_bias) parameters.push_back(KeyValue("key.bias", key_width_));
    if (spec_.value_bias) parameters.push_back(KeyValue("value.bias", value_width_));
  }

  void AddQueryBias(std::vector<Parameter>& parameters) const {
    if (!spec_.query_bias) return;
    parameters.push_back(Divided("query.bias", query_width_, Sharding::kTensor, tp()));
  }

  TensorId Column(const char* name,
                  TensorId x,
                  std::int64_t in,
                  const Expr& out,
                  std::vector<Parameter> parameters) {
    AppendLinear(builder_,
                 Name(name),
                 Parallelism::kColumn,
                 x,
                 context_.tokens,
                 in,
                 out,
                 std::move(parameters));
    return builder_.last();
  }

  TensorId Fused(TensorId x) {
    std::vector<Parameter> parameters = {Query(context_.hidden)};
    AddKeyValues(parameters);
    AddQueryBias(parameters);
    const Expr width = query_width_ / tp() + (key_width_ + value_width_) / kv_divisor_;
    return Column("qkv", x, context_.hidden, width, std::move(parameters));
  }

  std::vector<TensorId> Cross(TensorId x, TensorId memory) {
    std::vector<Parameter> query = {Query(context_.hidden)};
    AddQueryBias(query);
    std::vector<Parameter> key_value;
    AddKeyValues(key_value);
    const TensorId q = Column("query", x, context_.hidden, query_width_ / tp(), std::move(query));
    const TensorId kv = Column("key_value",
                               memory,
                               context_.hidden,
                               (key_width_ + value_width_) / kv_divisor_,
                               std::move(key_value));
    return {q, kv};
  }

  /// Down-projections run whole on every rank; up-projections are split over heads. Keys are put
  /// together from each head's own part and the rotary part that all heads share.
  TensorId Latent(TensorId x, const LatentSpec& latent) {
    const std::int64_t hidden = context_.hidden;
    TensorId query_input = x;
    std::int64_t query_in = hidden;
    if (latent.query_rank > 0) {
      query_in = latent.query_rank;
      const TensorId down = Down("query_down", x, query_in, 0, spec_.query_bias);
      query_input = LatentNorm("query_norm", down, query_in);
    }
    const TensorId q =
        Column("query", query_input, query_in, query_width_ / tp(), {Query(query_in)});

    const TensorId down = Down("kv_down", x, latent.kv_rank, latent.rope_dim, spec_.key_bias);
    const TensorId rope = builder_.last_op().outputs.back();
    const TensorId normed = LatentNorm("kv_norm", down, latent.kv_rank);
    const std::int64_t own_dim = spec_.head_dim - latent.rope_dim;
    const std::int64_t up_width = Product({spec_.heads, own_dim + spec_.value_dim});
    const TensorId up =
        Column("kv",
               normed,
               latent.kv_rank,
               up_width / tp(),
               {Divided("weight", Product({latent.kv_rank, up_width}), Sharding::kTensor, tp())});
    const Expr width = (Expr(query_width_) + key_width_ + value_width_) / tp();
    builder_.Append(OpKind::kReshape, Name("qkv"), {q, up, rope}, context_.tokens * width);
    return builder_.last();
  }

  TensorId LatentNorm(const char* name, TensorId x, std::int64_t width) {
    return builder_.Norm(Name(name), x, {NormKind::kRmsNorm, true, false}, context_.sharded, width);
  }

  /// Returns the first of one or two outputs; `second` is the other's width, 0 for none.
  TensorId Down(const char* name, TensorId x, std::int64_t first, std::int64_t second, bool bias) {
    const std::int64_t out = first + second;
    std::vector<Parameter> parameters = {Replicated("weight", Product({context_.hidden, out}))};
    if (bias) parameters.push_back(Replicated("bias", out));
    Op& op = AppendLinear(builder_,
                          Name(name),
                          Parallelism::kNone,
                          x,
                          context_.sharded,
                          context_.hidden,
                          out,
                          std::move(parameters));
    const TensorId output = op.outputs.front();
    if (second > 0) {
      builder_.SetElements(output, context_.sharded * first);
      op.outputs.push_back(builder_.Tensor(Name("key_rope"), context_.sharded * second));
    }
    return output;
  }

  /// One vector a head, or one over all heads. Values pass through.
  TensorId QkNorm(TensorId qkv) {
    if (spec_.qk_norm == QkNormKind::kNone) return qkv;
    const bool per_head = spec_.qk_norm == QkNormKind::kPerHead;
    Op& op = builder_.AppendLike(OpKind::kNorm, Name("qk_norm"), {qkv});
    op.norm = spec_.qk_norm_spec;
    op.rows =
        context_.tokens * (per_head ? spec_.heads / tp() + spec_.kv_heads / kv_divisor_ : Expr(2));
    op.normalised = context_.tokens * (query_width_ / tp() + key_width_ / kv_divisor_);
    const auto add = [&](const char* name) {
      if (per_head) {
        op.parameters.push_back(Replicated(std::string("query.") + name, spec_.head_dim));
        op.parameters.push_back(Replicated(std::string("key.") + name, spec_.head_dim));
      } else {
        op.parameters.push_back(
            Divided(std::string("query.") + name, query_width_, Sharding::kTensor, tp()));
        op.parameters.push_back(
            Divided(std::string("key.") + name, key_width_, Sharding::kKeyValue, kv_divisor_));
      }
    };
    if (op.norm.scale) add("weight");
    if (op.norm.bias) add("bias");
    return builder_.last();
  }

  TensorId Core(std::vector<TensorId> inputs) {
    const std::int64_t context_width = Product({spec_.heads, spec_.value_dim});
    const Expr rows = context_.tokens * spec_.heads / tp();
    Op& op = builder_.Append(OpKind::kAttention,
                             Name("attention"),
                             std::move(inputs),
                             context_.tokens * context_width / tp());
    op.attention = spec_;
    op.dropout = spec_.dropout;
    op.score_rows = rows;
    op.score_keys = context_.symbols.s;
    op.forward_flops =
        2 * rows * KeysSeen(context_.symbols, spec_) * (spec_.head_dim + spec_.value_dim);
    if (spec_.sinks) {
      op.parameters.push_back(Divided("sinks", spec_.heads, Sharding::kTensor, tp()));
    }
    if (spec_.relative_buckets > 0) {
      op.parameters.push_back(Divided("relative_positions",
                                      Product({spec_.relative_buckets, spec_.heads}),
                                      Sharding::kTensor,
                                      tp()));
    }
    return builder_.last();
  }

  TensorId Output(TensorId attended) {
    const std::int64_t in = Product({spec_.heads, spec_.value_dim});
    std::vector<Parameter> parameters = {
        Divided("weight", Product({in, context_.hidden}), Sharding::kTensor, tp())};
    if (spec_.output_bias) parameters.push_back(Replicated("bias", context_.hidden));
    AppendLinear(builder_,
                 Name("attention_output"),
                 Parallelism::kRow,
                 attended,
                 context_.tokens,
                 in / tp(),
                 context_.hidden,
                 std::move(parameters));
    return builder_.last();
  }

  const Context& context_;
  LayerBuilder& builder_;
  const std::string& prefix_;
  const AttentionSpec& spec_;
  Expr kv_divisor_;
  std::int64_t query_width_, key_width_, value_width_;
};

}  // namespace

TensorId AppendAttention(const Context& context,
                         LayerBuilder& builder,
                         const std::string& prefix,
                         const AttentionSpec& spec,
                         TensorId x,
                         TensorId memory) {
  return AttentionBuilder(context, builder, prefix, spec).Build(x, memory);
}

}  // namespace palmist::model::internal

#include "palmist/model/transformer_graph.h"

#include <fmt/format.h>

#include <utility>

#include "palmist/model/graph_builders.h"

namespace palmist::model::internal {

Context::Context(std::int64_t hidden_size, std::int64_t multiple)
    : hidden(hidden_size),
      vocab_multiple(multiple),
      tokens(symbols.b * symbols.s / symbols.cp),
      sharded(tokens / symbols.sd) {}

Parameter Divided(std::string name, std::int64_t elements, Sharding sharding, const Expr& divisor) {
  Parameter parameter = Replicated(std::move(name), elements);
  parameter.sharding = sharding;
  parameter.elements_per_rank = parameter.elements_per_rank / divisor;
  return parameter;
}

Op& AppendLinear(LayerBuilder& builder,
                 std::string name,
                 Parallelism parallelism,
                 TensorId x,
                 const Expr& rows,
                 const Expr& in,
                 const Expr& out,
                 std::vector<Parameter> parameters) {
  // A row-parallel product's output is reduced, and sharded over the sequence where its input is.
  const bool is_row = parallelism == Parallelism::kRow;
  Op& op = builder.Append(
      OpKind::kLinear, std::move(name), {x}, is_row ? rows * out / Symbols().sd : rows * out);
  op.parallelism = parallelism;
  op.parameters = std::move(parameters);
  op.forward_flops = 2 * rows * in * out;
  return op;
}

namespace {

/// Which layer of which stack: what is not in its `LayerSpec`.
struct Role {
  bool ends_encoder = false;
  bool starts_decoder = false;
  bool operator==(const Role&) const = default;
};

class TransformerBuilder {
 public:
  TransformerBuilder(const TransformerSpec& spec, const GraphOptions& options)
      : spec_(spec), context_(spec.hidden, options.vocab_multiple) {}

  Graph Build() {
    Graph graph;
    graph.vocab = spec_.embedding.vocab;
    graph.max_positions = spec_.max_positions;
    graph.tied_head = spec_.head.present && spec_.head.tied;
    graph.embedding = Embedding();
    graph.head = Head();
    for (std::size_t i = 0; i < spec_.encoder.size(); ++i) {
      const bool is_last = i + 1 == spec_.encoder.size();
      AddLayer(graph, "encoder", spec_.encoder[i], {.ends_encoder = is_last});
    }
    const bool has_encoder = !spec_.encoder.empty();
    for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
      AddLayer(graph,
               has_encoder ? "decoder" : "layer",
               spec_.layers[i],
               {.starts_decoder = has_encoder && i == 0});
    }
    return graph;
  }

 private:
  struct Kind {
    const LayerSpec* spec;
    Role role;
  };

  Expr Width(std::int64_t width) const { return context_.sharded * width; }
  const Symbols& symbols() const { return context_.symbols; }

  TensorId Norm(LayerBuilder& builder, const char* name, const NormSpec& norm, TensorId x) const {
    return builder.Norm(name, x, norm, context_.sharded, spec_.hidden);
  }

  /// Reuses the kind of an equal layer, if there is one.
  void AddLayer(Graph& graph, const std::string& stack, const LayerSpec& spec, const Role& role) {
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i].role == role && *kinds_[i].spec == spec) {
        graph.layers.push_back(static_cast<int>(i));
        return;
      }
    }
    kinds_.push_back({&spec, role});
    graph.layers.push_back(static_cast<int>(kinds_.size()) - 1);
    graph.kinds.push_back(BuildLayer(LayerName(stack, spec, role), spec, role));
  }

  static std::string LayerName(const std::string& stack, const LayerSpec& spec, const Role& role) {
    std::string name = stack;
    if (std::holds_alternative<MoeSpec>(spec.mlp)) name += " with experts";
    if (spec.attention.window > 0) name += fmt::format(" with window {}", spec.attention.window);
    if (role.starts_decoder) name += " with embedding";
    if (spec.attention.relative_buckets > 0) name += " with position table";
    if (role.ends_encoder) name += " with final norm";
    return name;
  }

  TensorId Mlp(LayerBuilder& builder, const LayerSpec& spec, TensorId x) const {
    if (const auto* moe = std::get_if<MoeSpec>(&spec.mlp)) {
      return AppendMoe(context_, builder, *moe, x);
    }
    return AppendMlp(context_, builder, "mlp", std::get<MlpSpec>(spec.mlp), x);
  }

  TensorId SelfAttention(LayerBuilder& builder, const LayerSpec& spec, TensorId x) const {
    return AppendAttention(context_, builder, "", spec.attention, x, kNoTensor);
  }

  Layer BuildLayer(std::string name, const LayerSpec& spec, const Role& role) const {
    LayerBuilder builder(std::move(name));
    TensorId x = kNoTensor;
    TensorId memory = kNoTensor;
    if (spec.cross_attention) {
      memory = builder.Tensor("memory", Width(spec_.hidden));
      builder.SetMemory(memory);
    }
    if (role.starts_decoder) {
      builder.SetInput(memory);
      x = TokenEmbedding(builder, /*tied=*/true);
      x = builder.Dropout("embedding_dropout", x, spec_.embedding.dropout);
    } else {
      x = builder.Input("x", Width(spec_.hidden));
    }
    switch (spec.placement) {
      case NormPlacement::kParallelShared:
      case NormPlacement::kParallelSeparate:
        x = Parallel(builder, spec, x);
        break;
      default:
        x = Sequential(builder, spec, x, memory);
    }
    if (role.ends_encoder && spec_.encoder_norm) {
      x = Norm(builder, "encoder_norm", *spec_.encoder_norm, x);
      x = builder.Dropout("encoder_dropout", x, spec_.stack_dropout);
    }
    return builder.Finish(x);
  }

  /// x + attention(norm(x)) + mlp(norm(x)).
  TensorId Parallel(LayerBuilder& builder, const LayerSpec& spec, TensorId x) const {
    const bool shared = spec.placement == NormPlacement::kParallelShared;
    const TensorId normed = Norm(builder, "norm1", spec.norm, x);
    TensorId attention = SelfAttention(builder, spec, normed);
    attention = builder.Dropout("attention_output_dropout", attention, spec.residual_dropout);
    const TensorId mlp_input = shared ? normed : Norm(builder, "norm2", spec.norm, x);
    TensorId mlp = Mlp(builder, spec, mlp_input);
    mlp = builder.Dropout("mlp_output_dropout", mlp, spec.residual_dropout);
    return builder.Add("residual", x, builder.Add("branches", attention, mlp));
  }

  /// Two or three branches after each other, each with its residual.
  TensorId Sequential(LayerBuilder& builder,
                      const LayerSpec& spec,
                      TensorId x,
                      TensorId memory) const {
    x = Branch(builder, spec, "attention", "1", x, [&](TensorId y) {
      return SelfAttention(builder, spec, y);
    });
    if (spec.cross_attention) {
      x = Branch(builder, spec, "cross_attention", "_cross", x, [&](TensorId y) {
        return AppendAttention(context_, builder, "cross_", *spec.cross_attention, y, memory);
      });
    }
    return Branch(builder, spec, "mlp", "2", x, [&](TensorId y) { return Mlp(builder, spec, y); });
  }

  template <typename Body>
  TensorId Branch(LayerBuilder& builder,
                  const LayerSpec& spec,
                  const std::string& name,
                  const std::string& suffix,
                  TensorId x,
                  const Body& body) const {
    const auto norm = [&](const std::string& norm_name, TensorId y) {
      return Norm(builder, (norm_name + suffix).c_str(), spec.norm, y);
    };
    const NormPlacement placement = spec.placement;
    const bool before = placement == NormPlacement::kPre || placement == NormPlacement::kSandwich;
    const bool after =
        placement == NormPlacement::kSandwich || placement == NormPlacement::kPostOnly;
    TensorId y = body(before ? norm("norm", x) : x);
    y = builder.Dropout(name + "_output_dropout", y, spec.residual_dropout);
    if (after) y = norm("post_norm", y);
    y = builder.Add("residual" + suffix, x, y);
    return placement == NormPlacement::kPost ? norm("norm", y) : y;
  }

  TensorId TokenEmbedding(LayerBuilder& builder, bool tied) const {
    const EmbeddingSpec& embedding = spec_.embedding;
    const TensorId ids = builder.Given("ids", context_.tokens, Storage::kIndex);
    if (!tied) builder.SetInput(ids);
    Op& op = builder.Append(OpKind::kEmbedding, "token_embedding", {ids}, Width(embedding.width));
    op.parallelism = Parallelism::kVocabulary;
    op.parameters = {Vocabulary("weight", embedding.width, tied)};
    return op.outputs.front();
  }

  Parameter Vocabulary(const char* name, std::int64_t width, bool tied) const {
    Parameter parameter = Replicated(name, Product({spec_.embedding.vocab, width}));
    parameter.sharding = Sharding::kVocabulary;
    parameter.elements_per_rank = VocabularyPerRank() * width;
    parameter.tied = tied;
    return parameter;
  }

  Expr VocabularyPerRank() const {
    return PaddedVocabulary(spec_.embedding.vocab, symbols().tp, context_.vocab_multiple) /
           symbols().tp;
  }

  /// Adds rows of a small table, looked up by `elements / width` numbers.
  TensorId AddTable(LayerBuilder& builder,
                    const std::string& name,
                    std::int64_t rows,
                    const Expr& vectors,
                    TensorId x) const {
    const TensorId ids = builder.Given(name + "_ids", vectors, Storage::kIndex);
    Op& op = builder.Append(OpKind::kEmbedding, name + "_embedding", {ids}, vectors * spec_.hidden);
    op.parameters = {Replicated("weight", Product({rows, spec_.hidden}))};
    const TensorId looked_up = op.outputs.front();
    return builder.Add("add_" + name, x, looked_up);
  }

  Op& Dense(LayerBuilder& builder,
            const char* name,
            TensorId x,
            const Expr& rows,
            std::int64_t in,
            std::int64_t out,
            bool bias) const {
    std::vector<Parameter> parameters = {Replicated("weight", Product({in, out}))};
    if (bias) parameters.push_back(Replicated("bias", out));
    return AppendLinear(builder, name, Parallelism::kNone, x, rows, in, out, std::move(parameters));
  }

  Layer Embedding() const {
    const EmbeddingSpec& embedding = spec_.embedding;
    LayerBuilder builder("embedding");
    TensorId x = TokenEmbedding(builder, /*tied=*/false);
    if (embedding.project) {
      Dense(builder, "project_in", x, context_.sharded, embedding.width, spec_.hidden, false);
      x = builder.last();
    }
    // Positions are the same for all sequences of the micro-batch.
    if (embedding.positions > 0) {
      x = AddTable(
          builder, "position", embedding.positions, symbols().s / symbols().cp / symbols().sd, x);
    }
    if (embedding.token_types > 0) {
      x = AddTable(builder, "token_type", embedding.token_types, context_.sharded, x);
    }
    if (embedding.norm) x = Norm(builder, "embedding_norm", *embedding.norm, x);
    x = builder.Dropout("embedding_dropout", x, embedding.dropout);
    return builder.Finish(x);
  }

  Layer Head() const {
    const HeadSpec& head = spec_.head;
    LayerBuilder builder("head");
    TensorId x = builder.Input("x", Width(spec_.hidden));
    if (head.final_norm) x = Norm(builder, "final_norm", *head.final_norm, x);
    x = builder.Dropout("final_dropout", x, spec_.stack_dropout);
    if (head.pooler) {
      // Of the first token of each sequence.
      Dense(builder, "pooler", x, symbols().b, spec_.hidden, spec_.hidden, true);
      x = builder.Activation("pooler_activation", builder.last(), ActivationKind::kTanh);
    }
    if (!head.present) return builder.Finish(x);
    if (head.project) {
      Dense(
          builder, "project_out", x, context_.sharded, spec_.hidden, spec_.embedding.width, false);
      x = builder.last();
    }
    if (head.transform) {
      Dense(builder, "transform", x, context_.sharded, spec_.hidden, spec_.hidden, true);
      x = builder.Activation("transform_activation", builder.last(), *head.transform);
    }
    if (head.transform_norm) x = Norm(builder, "transform_norm", *head.transform_norm, x);
    return Loss(builder, x);
  }

  Layer Loss(LayerBuilder& builder, TensorId x) const {
    const HeadSpec& head = spec_.head;
    std::vector<Parameter> parameters = {Vocabulary("weight", spec_.embedding.width, head.tied)};
    if (head.bias) parameters.push_back(Vocabulary("bias", 1, false));
    AppendLinear(builder,
                 "logits",
                 Parallelism::kVocabulary,
                 x,
                 context_.tokens,
                 spec_.embedding.width,
                 VocabularyPerRank(),
                 std::move(parameters));
    TensorId logits = builder.last();
    if (head.softcap) {
      logits = builder.Activation("softcap", logits, ActivationKind::kTanh);
    }
    const TensorId labels = builder.Given("labels", context_.tokens, Storage::kIndex);
    Op& loss = builder.Append(OpKind::kLoss, "loss", {logits, labels}, 1, Storage::kFloat32);
    loss.parallelism = Parallelism::kVocabulary;
    loss.rows = context_.tokens;
    return builder.Finish(builder.last());
  }

  const TransformerSpec& spec_;
  Context context_;
  std::vector<Kind> kinds_;
};

}  // namespace

Graph BuildTransformerGraph(const TransformerSpec& spec, const GraphOptions& options) {
  return TransformerBuilder(spec, options).Build();
}

}  // namespace palmist::model::internal

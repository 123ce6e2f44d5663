/// BERT and RoBERTa.
///
/// Files whose `architectures` name the bare encoder (`BertModel`, as sentence encoders do) have a
/// pooler and no head; all others have the masked-language-model head and no pooler.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {
namespace {

TransformerSpec Read(const ConfigReader& config) {
  TransformerSpec spec;
  spec.hidden = config.Size({"hidden_size"});
  spec.max_positions = config.Size({"max_position_embeddings"});
  spec.embedding.vocab = config.Size({"vocab_size"});
  spec.embedding.width = spec.hidden;
  spec.embedding.positions = spec.max_positions;
  spec.embedding.token_types = config.Size({"type_vocab_size"}, 2);
  spec.embedding.norm = LayerNorm();
  spec.embedding.dropout = config.Dropout({"hidden_dropout_prob"}, 0.1);

  LayerSpec layer;
  layer.placement = NormPlacement::kPost;
  layer.norm = LayerNorm();
  layer.attention = ReadHeads(config, spec.hidden, {"num_attention_heads"});
  SetQkvBias(layer.attention, true);
  layer.attention.output_bias = true;
  layer.attention.causal = config.Flag({"is_decoder"}, false);
  layer.attention.dropout = config.Dropout({"attention_probs_dropout_prob"}, 0.1);
  layer.residual_dropout = spec.embedding.dropout;
  config.Refuse("add_cross_attention", "cross-attention in BERT");

  MlpSpec mlp;
  mlp.width = config.Size({"intermediate_size"});
  mlp.bias = mlp.output_bias = true;
  mlp.activation = config.Activation({"hidden_act"}, ActivationKind::kGelu);
  layer.mlp = mlp;
  spec.layers.assign(static_cast<std::size_t>(ReadLayerCount(config, {"num_hidden_layers"})),
                     layer);

  const auto architectures = config.Texts("architectures");
  if (!architectures.empty() && architectures.front().ends_with("Model")) {
    spec.head.present = false;
    spec.head.pooler = true;
  } else {
    spec.head.transform = mlp.activation;
    spec.head.transform_norm = LayerNorm();
    spec.head.tied = config.Flag({"tie_word_embeddings"}, true);
    spec.head.bias = true;
  }
  return spec;
}

}  // namespace

ModelBody ReadBert(const ConfigReader& config) { return Read(config); }

ModelBody ReadRoberta(const ConfigReader& config) {
  TransformerSpec spec = Read(config);
  // Positions are counted from behind the padding token's number.
  const std::int64_t unused = config.Count({"pad_token_id"}, 1) + 1;
  if (spec.embedding.positions <= unused) {
    config.Fail("max_position_embeddings", "expected more rows than pad_token_id + 1");
  }
  spec.max_positions = spec.embedding.positions - unused;
  return spec;
}

}  // namespace palmist::model

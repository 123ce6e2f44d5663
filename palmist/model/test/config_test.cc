#include "palmist/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "palmist/base/file.h"
#include "palmist/model/graph.h"
#include "palmist/model/zoo.h"

namespace palmist::model {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// The value that `Changed` takes for "remove this field".
json Absent() { return json(json::value_t::discarded); }

/// Returns the configuration of a built-in model with some fields changed.
json Changed(const std::string& name, const json::object_t& changes) {
  json config = json::parse(ZooConfig(name).value());
  for (const auto& [key, value] : changes) {
    if (value.is_discarded()) {
      config.erase(key);
    } else {
      config[key] = value;
    }
  }
  return config;
}

Result<Model> Parse(const json& config) { return ParseConfig(config.dump(), "test"); }

TransformerSpec SpecOf(const json& config) { return Parse(config).value().spec.transformer(); }

std::int64_t CountOf(const json& config) {
  return CountParameters(BuildGraph(Parse(config).value().spec));
}

void ExpectError(const Result<Model>& model, const std::string& field, const std::string& text) {
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().kind(), ErrorKind::kInput);
  EXPECT_EQ(model.error().field(), field);
  EXPECT_THAT(std::string(model.error().what()), HasSubstr(text));
}

// Fields that are missing, null or called by another name.

TEST(ConfigTest, KeepsNameAndText) {
  const std::string text(ZooConfig("gpt2").value());
  const Model model = ParseConfig(text, "mine").value();
  EXPECT_EQ(model.name, "mine");
  EXPECT_EQ(model.config_json, text);
  EXPECT_EQ(model.spec.family, "gpt2");
}

TEST(ConfigTest, NullInnerWidthIsFourTimesHidden) {
  const TransformerSpec spec = SpecOf(Changed("gpt2", {{"n_inner", nullptr}}));
  EXPECT_EQ(std::get<MlpSpec>(spec.layers[0].mlp).width, 4 * 768);
  const TransformerSpec given = SpecOf(Changed("gpt2", {{"n_inner", 1000}}));
  EXPECT_EQ(std::get<MlpSpec>(given.layers[0].mlp).width, 1000);
}

TEST(ConfigTest, AbsentOrNullKvHeadsMeansMultiHead) {
  for (const json& value : {Absent(), json(nullptr)}) {
    const TransformerSpec spec = SpecOf(Changed("llama-3-8b", {{"num_key_value_heads", value}}));
    EXPECT_EQ(spec.layers[0].attention.kv_heads, 32);
  }
}

TEST(ConfigTest, AbsentOrNullHeadDimIsHiddenOverHeads) {
  for (const json& value : {Absent(), json(nullptr)}) {
    const TransformerSpec spec = SpecOf(Changed("mistral-7b-v0.3", {{"head_dim", value}}));
    EXPECT_EQ(spec.layers[0].attention.head_dim, 128);
  }
  EXPECT_EQ(SpecOf(Changed("gemma-7b", {{"head_dim", Absent()}})).layers[0].attention.head_dim,
            256);
}

TEST(ConfigTest, TiedByDefaultAsTransformersHasIt) {
  const auto tied = [](const std::string& name) {
    return SpecOf(Changed(name, {{"tie_word_embeddings", Absent()}})).head.tied;
  };
  for (const char* name : {"gpt2",
                           "opt-1.3b",
                           "bloom-560m",
                           "falcon-7b",
                           "gemma-2b",
                           "gemma-2-2b",
                           "gemma-3-1b",
                           "starcoder2-3b",
                           "t5-small",
                           "bert-base-uncased"}) {
    EXPECT_TRUE(tied(name)) << name;
  }
  for (const char* name : {"llama-3.2-1b",
                           "mistral-7b-v0.1",
                           "qwen2-0.5b",
                           "qwen3-0.6b",
                           "phi-2",
                           "phi-4",
                           "gpt-j-6b",
                           "gpt-neox-20b",
                           "mixtral-8x7b-v0.1",
                           "deepseek-v3",
                           "gpt-oss-20b",
                           "olmo-2-7b"}) {
    EXPECT_FALSE(tied(name)) << name;
  }
}

TEST(ConfigTest, DropoutsByDefaultAsTransformersHasThem) {
  const TransformerSpec gpt2 = SpecOf(Changed("gpt2", {}));
  EXPECT_EQ(gpt2.embedding.dropout, 0.1);
  EXPECT_EQ(gpt2.layers[0].attention.dropout, 0.1);
  EXPECT_EQ(gpt2.layers[0].residual_dropout, 0.1);
  const TransformerSpec bert = SpecOf(Changed("bert-base-uncased", {}));
  EXPECT_EQ(bert.layers[0].attention.dropout, 0.1);
  EXPECT_EQ(bert.layers[0].residual_dropout, 0.1);
  const TransformerSpec opt = SpecOf(Changed("opt-125m", {}));
  EXPECT_EQ(opt.layers[0].residual_dropout, 0.1);
  EXPECT_EQ(opt.layers[0].attention.dropout, 0.0);
  const TransformerSpec t5 = SpecOf(Changed("t5-small", {}));
  EXPECT_EQ(std::get<MlpSpec>(t5.layers[0].mlp).dropout, 0.1);
  const TransformerSpec llama = SpecOf(Changed("llama-2-7b", {}));
  EXPECT_EQ(llama.layers[0].residual_dropout, 0.0);
  EXPECT_EQ(llama.layers[0].attention.dropout, 0.0);
  EXPECT_EQ(SpecOf(Changed("gpt2", {{"resid_pdrop", 0.0}})).layers[0].residual_dropout, 0.0);
}

TEST(ConfigTest, LinearBiasesByFamily) {
  EXPECT_TRUE(SpecOf(Changed("qwen2-7b", {})).layers[0].attention.key_bias);
  EXPECT_FALSE(SpecOf(Changed("qwen2-7b", {})).layers[0].attention.output_bias);
  EXPECT_FALSE(SpecOf(Changed("llama-2-7b", {})).layers[0].attention.key_bias);
  EXPECT_TRUE(
      SpecOf(Changed("llama-2-7b", {{"attention_bias", true}})).layers[0].attention.output_bias);
  EXPECT_FALSE(SpecOf(Changed("gpt-j-6b", {})).layers[0].attention.query_bias);
  EXPECT_TRUE(SpecOf(Changed("gpt-j-6b", {})).head.bias);
}

TEST(ConfigTest, Gpt2WithoutLinearBiases) {
  const json config = Changed("gpt2", {{"palmist_linear_bias", false}});
  // 12 layers lose 3h + h + 4h + h biases.
  EXPECT_EQ(CountOf(config), 124'439'808 - 12 * 9 * 768);
}

TEST(ConfigTest, FalconAliasesAndFirstNames) {
  const std::int64_t count = CountOf(Changed("falcon-7b", {}));
  const json aliased = Changed("falcon-7b",
                               {{"model_type", "RefinedWebModel"},
                                {"n_layer", 32},
                                {"n_head", 71},
                                {"num_hidden_layers", Absent()},
                                {"num_attention_heads", Absent()},
                                {"num_kv_heads", Absent()}});
  EXPECT_EQ(CountOf(aliased), count);
  const json forty = Changed("falcon-40b",
                             {{"model_type", "RefinedWeb"},
                              {"n_layer", 60},
                              {"n_head", 128},
                              {"n_head_kv", 8},
                              {"num_hidden_layers", Absent()},
                              {"num_attention_heads", Absent()},
                              {"num_kv_heads", Absent()},
                              {"new_decoder_architecture", Absent()}});
  EXPECT_EQ(CountOf(forty), CountOf(Changed("falcon-40b", {})));
  // Falcon 2 has the grouped heads, but one norm.
  EXPECT_EQ(SpecOf(Changed("falcon-40b", {{"num_ln_in_parallel_attn", 1}})).layers[0].placement,
            NormPlacement::kParallelShared);
}

TEST(ConfigTest, FalconInOrderHasTwoNorms) {
  const TransformerSpec spec = SpecOf(
      Changed("falcon-7b", {{"parallel_attn", false}, {"multi_query", false}, {"alibi", true}}));
  EXPECT_EQ(spec.layers[0].placement, NormPlacement::kPre);
  EXPECT_EQ(spec.layers[0].attention.kv_heads, 71);
  EXPECT_FALSE(spec.layers[0].attention.rotary);
}

TEST(ConfigTest, BloomOldNames) {
  EXPECT_EQ(CountOf(Changed("bloom-560m",
                            {{"hidden_size", Absent()},
                             {"n_embed", 1024},
                             {"n_head", Absent()},
                             {"num_attention_heads", 16}})),
            559'214'592);
}

TEST(ConfigTest, Gemma3ReadsTextConfigWithItsDefaults) {
  // What google/gemma-3-4b-it writes of its text part.
  const json config = {{"model_type", "gemma3"},
                       {"architectures", {"Gemma3ForConditionalGeneration"}},
                       {"text_config",
                        {{"hidden_size", 2560},
                         {"intermediate_size", 10240},
                         {"model_type", "gemma3_text"},
                         {"num_hidden_layers", 34},
                         {"sliding_window", 1024}}},
                       {"vision_config", {{"hidden_size", 1152}}}};
  // gemma-3-4b-text has a vocabulary of 262144, the multimodal one 64 rows more.
  EXPECT_EQ(CountOf(config), 3'880'099'328 + 64 * 2560);
  ExpectError(Parse({{"model_type", "gemma3"}}), "text_config", "missing");
}

TEST(ConfigTest, Windows) {
  const auto window = [](const json& config, std::size_t layer) {
    return SpecOf(config).layers[layer].attention.window;
  };
  EXPECT_EQ(window(Changed("mistral-7b-v0.1", {}), 0), 4096);
  EXPECT_EQ(window(Changed("mistral-7b-v0.1", {{"sliding_window", nullptr}}), 0), 0);
  EXPECT_EQ(window(Changed("gemma-2-2b", {}), 0), 4096);
  EXPECT_EQ(window(Changed("gemma-2-2b", {}), 1), 0);
  EXPECT_EQ(window(Changed("gemma-3-1b", {}), 4), 512);
  EXPECT_EQ(window(Changed("gemma-3-1b", {}), 5), 0);
  EXPECT_EQ(window(Changed("qwen2-7b", {{"use_sliding_window", false}}), 27), 0);
  const json used =
      Changed("qwen2-7b",
              {{"use_sliding_window", true}, {"sliding_window", 1000}, {"max_window_layers", 20}});
  EXPECT_EQ(window(used, 19), 0);
  EXPECT_EQ(window(used, 20), 1000);
}

TEST(ConfigTest, LayerTypesOverrideThePattern) {
  json types = json::array();
  for (int i = 0; i < 24; ++i) types.push_back(i == 3 ? "full_attention" : "sliding_attention");
  const TransformerSpec spec = SpecOf(Changed("gpt-oss-20b", {{"layer_types", types}}));
  EXPECT_EQ(spec.layers[3].attention.window, 0);
  EXPECT_EQ(spec.layers[4].attention.window, 128);
  types.push_back("full_attention");
  ExpectError(Parse(Changed("gpt-oss-20b", {{"layer_types", types}})), "layer_types", "24");
  types.erase(0);
  types[7] = "linear_attention";
  ExpectError(Parse(Changed("gpt-oss-20b", {{"layer_types", types}})),
              "layer_types[7]",
              "linear_attention");
}

TEST(ConfigTest, Qwen3MoeDenseLayers) {
  const TransformerSpec spec = SpecOf(
      Changed("qwen3-30b-a3b", {{"mlp_only_layers", {5, 1'000'000}}, {"decoder_sparse_step", 2}}));
  const auto is_moe = [&](std::size_t i) {
    return std::holds_alternative<MoeSpec>(spec.layers[i].mlp);
  };
  EXPECT_FALSE(is_moe(0));
  EXPECT_TRUE(is_moe(1));
  EXPECT_FALSE(is_moe(5));
  EXPECT_TRUE(is_moe(7));
}

TEST(ConfigTest, Qwen2MoeHasAGatedSharedExpert) {
  // Qwen1.5-MoE-A2.7B, 14.3 B parameters as its model card says.
  const json config = {{"model_type", "qwen2_moe"},
                       {"hidden_size", 2048},
                       {"intermediate_size", 5632},
                       {"moe_intermediate_size", 1408},
                       {"num_attention_heads", 16},
                       {"num_key_value_heads", 16},
                       {"num_experts", 60},
                       {"num_experts_per_tok", 4},
                       {"num_hidden_layers", 24},
                       {"shared_expert_intermediate_size", 5632},
                       {"tie_word_embeddings", false},
                       {"vocab_size", 151936}};
  EXPECT_EQ(CountOf(config), 14'315'784'192);
}

TEST(ConfigTest, DeepseekDenseLayersComeFirst) {
  const TransformerSpec spec = SpecOf(Changed("deepseek-v3", {}));
  EXPECT_TRUE(std::holds_alternative<MlpSpec>(spec.layers[2].mlp));
  EXPECT_TRUE(std::holds_alternative<MoeSpec>(spec.layers[3].mlp));
  EXPECT_EQ(SpecOf(Changed("deepseek-v2-lite", {})).layers[0].attention.latent->query_rank, 0);
  EXPECT_EQ(spec.layers[0].attention.latent->query_rank, 1536);
}

TEST(ConfigTest, T5WithGateAndItsOwnHead) {
  // google/t5-v1_1-small: 76,961,152 parameters.
  const json config = {{"model_type", "t5"},
                       {"vocab_size", 32128},
                       {"d_model", 512},
                       {"d_kv", 64},
                       {"d_ff", 1024},
                       {"num_layers", 8},
                       {"num_heads", 6},
                       {"feed_forward_proj", "gated-gelu"},
                       {"tie_word_embeddings", false}};
  EXPECT_EQ(CountOf(config), 76'961'152);
  ExpectError(Parse(Changed("t5-small", {{"feed_forward_proj", "gated-x"}})),
              "feed_forward_proj",
              "gated-x");
}

TEST(ConfigTest, PositionLimits) {
  EXPECT_EQ(SpecOf(Changed("gpt2", {})).max_positions, 1024);
  EXPECT_EQ(SpecOf(Changed("opt-125m", {})).embedding.positions, 2050);
  EXPECT_EQ(SpecOf(Changed("opt-125m", {})).max_positions, 2048);
  EXPECT_EQ(SpecOf(Changed("roberta-base", {})).max_positions, 512);
  EXPECT_EQ(SpecOf(Changed("llama-2-7b", {})).max_positions, 0);
  ExpectError(Parse(Changed("roberta-base", {{"max_position_embeddings", 2}})),
              "max_position_embeddings",
              "pad_token_id");
}

TEST(ConfigTest, HuggingFaceResnet) {
  const json config = {{"model_type", "resnet"},
                       {"depths", {3, 4, 6, 3}},
                       {"layer_type", "bottleneck"},
                       {"embedding_size", 64},
                       {"hidden_sizes", {256, 512, 1024, 2048}}};
  EXPECT_EQ(CountOf(config), 25'557'032);
}

TEST(ConfigTest, ConvolutionalSizesAreChecked) {
  ExpectError(Parse({{"model_type", "resnet"}, {"depths", 19}}), "depths", "18, 34, 50");
  ExpectError(Parse({{"model_type", "resnet"}, {"depths", {1, 0}}}), "depths[1]", "0");
  ExpectError(Parse({{"model_type", "resnet"}, {"depths", {2'000'000'000, 1}}}), "depths", "10000");
  ExpectError(Parse({{"model_type", "resnet"}, {"depths", {1, 1}}, {"hidden_sizes", {64}}}),
              "hidden_sizes",
              "2 entries");
  ExpectError(Parse({{"model_type", "resnet"}, {"depths", {1}}, {"hidden_sizes", {66}}}),
              "hidden_sizes[0]",
              "multiple of 4");
  ExpectError(
      Parse({{"model_type", "avn"}, {"views", 2147483647}, {"angles", 2147483647}}), "", "64 bits");
}

// What cannot be read.

TEST(ConfigErrorTest, NotJson) {
  ExpectError(ParseConfig("hello", "x"), "", "JSON");
  ExpectError(ParseConfig("", "x"), "", "JSON");
}

TEST(ConfigErrorTest, NotAnObject) { ExpectError(ParseConfig("[1, 2]", "x"), "", "array"); }

TEST(ConfigErrorTest, Truncated) {
  const std::string text(ZooConfig("gpt2").value());
  for (std::size_t length = 0; length < text.size() - 2; ++length) {
    ASSERT_FALSE(ParseConfig(text.substr(0, length), "x").ok()) << length;
  }
}

TEST(ConfigErrorTest, HundredMegabytesOfNesting) {
  ExpectError(ParseConfig(std::string(100'000'000, '['), "x"), "", "16 MiB");
  ExpectError(ParseConfig(std::string(1'000'000, '['), "x"), "", "inside each other");
}

TEST(ConfigErrorTest, NotUtf8) {
  ExpectError(ParseConfig("{\"model_type\": \"\xff\xfe\"}", "x"), "", "UTF-8");
}

TEST(ConfigErrorTest, UnknownModelTypeNamesTheNearestAndAll) {
  const auto model = Parse({{"model_type", "lama"}});
  ExpectError(model, "model_type", "lama");
  EXPECT_THAT(model.error().hint(), HasSubstr("did you mean llama?"));
  EXPECT_THAT(model.error().hint(), HasSubstr("mixtral"));
}

TEST(ConfigErrorTest, MissingModelType) {
  ExpectError(Parse(json::object()), "model_type", "missing");
  ExpectError(Parse({{"architectures", {"FooForCausalLM"}}}), "model_type", "missing");
}

TEST(ConfigErrorTest, MissingModelTypeIsFoundByArchitecture) {
  for (const std::string& name : ZooNames()) {
    const Model whole = LoadModel(name).value();
    const json config = Changed(name, {{"model_type", Absent()}});
    if (!config.contains("architectures")) continue;
    const auto model = Parse(config);
    ASSERT_TRUE(model.ok()) << name;
    EXPECT_EQ(model->spec.family, whole.spec.family) << name;
  }
}

TEST(ConfigErrorTest, NegativeSize) {
  ExpectError(Parse(Changed("gpt2", {{"n_embd", -768}})), "n_embd", "-768");
}

TEST(ConfigErrorTest, FractionalSize) {
  ExpectError(Parse(Changed("gpt2", {{"n_embd", 768.5}})), "n_embd", "768.5");
}

TEST(ConfigErrorTest, ZeroSize) {
  for (const char* field : {"n_embd", "n_layer", "n_head", "n_positions", "n_inner"}) {
    ExpectError(Parse(Changed("gpt2", {{field, 0}})), field, "got 0");
  }
}

TEST(ConfigErrorTest, VocabularyOfZero) {
  ExpectError(Parse(Changed("llama-2-7b", {{"vocab_size", 0}})), "vocab_size", "got 0");
}

TEST(ConfigErrorTest, TextForASize) {
  ExpectError(Parse(Changed("gpt2", {{"n_embd", "768"}})), "n_embd", "768");
}

TEST(ConfigErrorTest, MissingSize) {
  ExpectError(Parse(Changed("llama-2-7b", {{"hidden_size", Absent()}})), "hidden_size", "integer");
}

TEST(ConfigErrorTest, HeadsThatDoNotDivideHidden) {
  ExpectError(Parse(Changed("gpt2", {{"n_head", 7}})), "n_head", "768");
  ExpectError(
      Parse(Changed("llama-2-7b", {{"num_attention_heads", 3}, {"num_key_value_heads", 3}})),
      "num_attention_heads",
      "head_dim");
  EXPECT_TRUE(
      Parse(Changed("llama-2-7b",
                    {{"num_attention_heads", 3}, {"num_key_value_heads", 3}, {"head_dim", 128}}))
          .ok());
}

TEST(ConfigErrorTest, KvHeadsThatDoNotDivideHeads) {
  ExpectError(
      Parse(Changed("llama-3-8b", {{"num_key_value_heads", 5}})), "num_key_value_heads", "32");
  ExpectError(
      Parse(Changed("llama-3-8b", {{"num_key_value_heads", 64}})), "num_key_value_heads", "64");
}

TEST(ConfigErrorTest, SizeAbove31Bits) {
  for (const json& size : {json(2147483648), json(18446744073709551615u), json(1e300)}) {
    ExpectError(Parse(Changed("gpt2", {{"vocab_size", size}})), "vocab_size", "2147483647");
  }
}

TEST(ConfigErrorTest, ProductsBeyond64Bits) {
  ExpectError(Parse(Changed("gpt2", {{"n_embd", 2147483647}, {"n_head", 1}})), "", "64 bits");
  ExpectError(
      Parse(Changed("mixtral-8x7b-v0.1",
                    {{"num_local_experts", 2147483647}, {"intermediate_size", 2147483647}})),
      "",
      "64 bits");
  ExpectError(
      Parse(Changed("deepseek-v3",
                    {{"n_shared_experts", 2147483647}, {"moe_intermediate_size", 2147483647}})),
      "",
      "64 bits");
  // Each layer fits; all of them together do not.
  ExpectError(Parse(Changed("llama-2-7b",
                            {{"hidden_size", 1 << 30},
                             {"num_attention_heads", 1},
                             {"num_key_value_heads", 1},
                             {"head_dim", 1},
                             {"intermediate_size", 1 << 20},
                             {"num_hidden_layers", 10'000}})),
              "",
              "64 bits");
}

TEST(ConfigErrorTest, TwoBillionLayersAreRefused) {
  ExpectError(Parse(Changed("llama-2-7b", {{"num_hidden_layers", 2147483647}})),
              "num_hidden_layers",
              "10000");
  ExpectError(Parse(Changed("t5-small", {{"num_decoder_layers", 2147483647}})),
              "num_decoder_layers",
              "10000");
}

TEST(ConfigErrorTest, TenThousandLayersAreRead) {
  const Model model = Parse(Changed("gemma-2-2b", {{"num_hidden_layers", 10'000}})).value();
  const Graph graph = BuildGraph(model.spec);
  EXPECT_EQ(graph.layers.size(), 10'000u);
  EXPECT_EQ(graph.kinds.size(), 2u);
}

TEST(ConfigErrorTest, DropoutOutOfRange) {
  ExpectError(Parse(Changed("gpt2", {{"resid_pdrop", 1.0}})), "resid_pdrop", "1");
  ExpectError(Parse(Changed("gpt2", {{"resid_pdrop", -0.1}})), "resid_pdrop", "-0.1");
}

TEST(ConfigErrorTest, UnknownActivation) {
  ExpectError(
      Parse(Changed("gpt2", {{"activation_function", "step"}})), "activation_function", "gelu_new");
}

TEST(ConfigErrorTest, MoreChosenExpertsThanThereAre) {
  ExpectError(Parse(Changed("mixtral-8x7b-v0.1", {{"num_experts_per_tok", 9}})),
              "num_experts_per_tok",
              "8 experts");
}

TEST(ConfigErrorTest, WhatIsNotModelledIsRefused) {
  ExpectError(Parse(Changed("gpt2", {{"add_cross_attention", true}})),
              "add_cross_attention",
              "not modelled");
  ExpectError(Parse(Changed("bloom-560m", {{"apply_residual_connection_post_layernorm", true}})),
              "apply_residual_connection_post_layernorm",
              "not modelled");
}

// Finding a model.

class LoadModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("palmist_load_model_" +
               std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()));
    std::filesystem::create_directories(folder_ / "my-model");
    ASSERT_TRUE(WriteFileAtomic(File(), ZooConfig("gpt2").value()).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string File() const { return (folder_ / "my-model" / "config.json").string(); }

  std::filesystem::path folder_;
};

TEST_F(LoadModelTest, ByName) {
  const Model model = LoadModel("llama-3-8b").value();
  EXPECT_EQ(model.name, "llama-3-8b");
  EXPECT_EQ(model.config_json, ZooConfig("llama-3-8b").value());
}

TEST_F(LoadModelTest, ByFileAndByFolder) {
  for (const std::string& path :
       {File(), (folder_ / "my-model").string(), (folder_ / "my-model").string() + "/"}) {
    const auto model = LoadModel(path);
    ASSERT_TRUE(model.ok()) << path;
    EXPECT_EQ(model->name, "my-model");
    EXPECT_EQ(model->spec.family, "gpt2");
  }
}

TEST_F(LoadModelTest, AFileWithANameOfItsOwn) {
  const std::string path = (folder_ / "tiny.json").string();
  ASSERT_TRUE(WriteFileAtomic(path, ZooConfig("gpt2").value()).ok());
  EXPECT_EQ(LoadModel(path).value().name, "tiny");
}

TEST_F(LoadModelTest, UnknownNameSuggestsTheNearest) {
  const auto model = LoadModel("lama-3-8b");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(ExitCode(model.error().kind()), 2);
  EXPECT_THAT(model.error().hint(), HasSubstr("llama-3-8b"));
}

TEST_F(LoadModelTest, MissingFile) {
  const auto model = LoadModel((folder_ / "nothing.json").string());
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().kind(), ErrorKind::kInput);
  EXPECT_THAT(std::string(model.error().what()), HasSubstr("nothing.json"));
  EXPECT_FALSE(LoadModel(folder_.string()).ok());
}

TEST_F(LoadModelTest, ABadFileIsNamed) {
  ASSERT_TRUE(WriteFileAtomic(File(), R"({"model_type": "gpt2", "n_embd": -1})").ok());
  const auto model = LoadModel(File());
  ExpectError(model, "n_embd", File());
}

}  // namespace
}  // namespace palmist::model

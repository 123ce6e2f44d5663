#include "palmist/model/families/families.h"

namespace palmist::model {
namespace {

constexpr Family kFamilies[] = {
    {"RefinedWeb", ReadRefinedWeb, "RWFor"},
    {"RefinedWebModel", ReadRefinedWeb, ""},
    {"avn", ReadAvn, ""},
    {"bert", ReadBert, "Bert"},
    {"bloom", ReadBloom, "Bloom"},
    {"deepseek_v2", ReadDeepseekV2, "DeepseekV2"},
    {"deepseek_v3", ReadDeepseekV3, "DeepseekV3"},
    {"falcon", ReadFalcon, "Falcon"},
    {"gemma", ReadGemma, "GemmaFor"},
    {"gemma2", ReadGemma2, "Gemma2"},
    {"gemma3", ReadGemma3, "Gemma3ForConditional"},
    {"gemma3_text", ReadGemma3Text, "Gemma3ForCausal"},
    {"gpt2", ReadGpt2, "GPT2"},
    {"gpt_neox", ReadGptNeox, "GPTNeoX"},
    {"gpt_oss", ReadGptOss, "GptOss"},
    {"gptj", ReadGptJ, "GPTJ"},
    {"llama", ReadLlama, "Llama"},
    {"mistral", ReadMistral, "Mistral"},
    {"mixtral", ReadMixtral, "Mixtral"},
    {"olmo2", ReadOlmo2, "Olmo2"},
    {"opt", ReadOpt, "OPT"},
    {"phi", ReadPhi, "PhiFor"},
    {"phi3", ReadPhi3, "Phi3"},
    {"qwen2", ReadQwen2, "Qwen2For"},
    {"qwen2_moe", ReadQwen2Moe, "Qwen2Moe"},
    {"qwen3", ReadQwen3, "Qwen3For"},
    {"qwen3_moe", ReadQwen3Moe, "Qwen3Moe"},
    {"resnet", ReadResnet, ""},
    {"roberta", ReadRoberta, "Roberta"},
    {"starcoder2", ReadStarcoder2, "Starcoder2"},
    {"t5", ReadT5, "T5"},
};

}  // namespace

std::span<const Family> Families() { return kFamilies; }

}  // namespace palmist::model

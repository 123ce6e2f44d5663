/// The families that can be read: which `model_type` is read by which function.
#pragma once

#include <span>
#include <string_view>

#include "palmist/model/families/reader.h"
#include "palmist/model/spec.h"

namespace palmist::model {

/// Reads a configuration; throws `Error` (kInput) on a bad field.
using FamilyReader = ModelBody (*)(const ConfigReader& config);

ModelBody ReadAvn(const ConfigReader& config);
ModelBody ReadBert(const ConfigReader& config);
ModelBody ReadBloom(const ConfigReader& config);
ModelBody ReadDeepseekV2(const ConfigReader& config);
ModelBody ReadDeepseekV3(const ConfigReader& config);
ModelBody ReadFalcon(const ConfigReader& config);
ModelBody ReadGemma(const ConfigReader& config);
ModelBody ReadGemma2(const ConfigReader& config);
ModelBody ReadGemma3(const ConfigReader& config);
ModelBody ReadGemma3Text(const ConfigReader& config);
ModelBody ReadGpt2(const ConfigReader& config);
ModelBody ReadGptJ(const ConfigReader& config);
ModelBody ReadGptNeox(const ConfigReader& config);
ModelBody ReadGptOss(const ConfigReader& config);
ModelBody ReadLlama(const ConfigReader& config);
ModelBody ReadMistral(const ConfigReader& config);
ModelBody ReadMixtral(const ConfigReader& config);
ModelBody ReadOlmo2(const ConfigReader& config);
ModelBody ReadOpt(const ConfigReader& config);
ModelBody ReadPhi(const ConfigReader& config);
ModelBody ReadPhi3(const ConfigReader& config);
ModelBody ReadQwen2(const ConfigReader& config);
ModelBody ReadQwen2Moe(const ConfigReader& config);
ModelBody ReadQwen3(const ConfigReader& config);
ModelBody ReadQwen3Moe(const ConfigReader& config);
ModelBody ReadRefinedWeb(const ConfigReader& config);
ModelBody ReadResnet(const ConfigReader& config);
ModelBody ReadRoberta(const ConfigReader& config);
ModelBody ReadStarcoder2(const ConfigReader& config);
ModelBody ReadT5(const ConfigReader& config);

struct Family {
  std::string_view model_type;
  FamilyReader read;
  /// How the names in `architectures` begin, for files without a model_type; empty where the file
  /// format is ours.
  std::string_view architecture;
};

/// Returns all families, sorted by model_type.
std::span<const Family> Families();

}  // namespace palmist::model

#include <fmt/format.h>

#include <memory>
#include <ostream>
#include <string>

#include "palmist/base/units.h"
#include "palmist/cli/command.h"
#include "palmist/model/config.h"
#include "palmist/model/graph.h"
#include "palmist/model/zoo.h"

namespace palmist::cli {
namespace {

nlohmann::ordered_json Describe(const model::Model& model) {
  const model::Graph graph = model::BuildGraph(model.spec);
  nlohmann::ordered_json json = {{"name", model.name},
                                 {"family", model.spec.family},
                                 {"params", model::CountParameters(graph)},
                                 {"active_params", model::CountActiveParameters(graph)},
                                 {"layers", graph.layers.size()}};
  if (model.spec.is_transformer()) {
    json["hidden"] = model.spec.transformer().hidden;
    json["vocab"] = graph.vocab;
    json["max_positions"] = model.spec.transformer().max_positions;
    json["tied_embeddings"] = graph.tied_head;
  }
  return json;
}

}  // namespace

void AddModelsCommand(CLI::App& app, Context& context) {
  const auto name = std::make_shared<std::string>();
  CLI::App* command = AddCommand(
      app,
      context,
      "models",
      "list the built-in models, or show one",
      "palmist models llama-2-7b",
      [&context, name] {
        if (!name->empty()) {
          const model::Model model = model::LoadModel(*name).value();
          nlohmann::ordered_json json = Describe(model);
          json["config"] = nlohmann::ordered_json::parse(model.config_json);
          if (context.json) {
            PrintJson(context, {{"models", nlohmann::ordered_json::array({json})}});
            return 0;
          }
          PrintJson(context, json);
          return 0;
        }
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const std::string& known : model::ZooNames()) {
          list.push_back(Describe(model::LoadModel(known).value()));
        }
        if (context.json) {
          PrintJson(context, {{"models", list}});
          return 0;
        }
        *context.out << fmt::format(
            "{:<22}{:<13}{:>10}{:>10}{:>8}\n", "model", "family", "params", "active", "layers");
        for (const auto& model : list) {
          *context.out << fmt::format("{:<22}{:<13}{:>10}{:>10}{:>8}\n",
                                      model["name"].get<std::string>(),
                                      model["family"].get<std::string>(),
                                      FormatCount(model["params"].get<double>()),
                                      FormatCount(model["active_params"].get<double>()),
                                      model["layers"].get<int>());
        }
        *context.out << "\nAny Hugging Face config.json, or a folder that holds one, works too.\n";
        return 0;
      });
  command->add_option("NAME", *name, "a built-in model, a config.json, or a folder that holds one");
}

}  // namespace palmist::cli

#include "palmist/model/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "palmist/model/config.h"
#include "palmist/model/graph.h"

namespace palmist::model {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

using Row = std::map<std::string, std::string>;

/// Returns the rows of a CSV file without quoted cells, by column; nothing where it is absent.
std::vector<Row> ReadCsv(const std::string& path) {
  std::ifstream file(std::string(PALMIST_SOURCE_DIR) + "/" + path);
  const auto cells = [](const std::string& line) {
    std::vector<std::string> result;
    std::istringstream stream(line + ",");
    for (std::string cell; std::getline(stream, cell, ',');) result.push_back(cell);
    return result;
  };
  std::vector<Row> rows;
  std::string line;
  std::getline(file, line);
  const auto header = cells(line);
  while (std::getline(file, line)) {
    const auto values = cells(line);
    Row row;
    for (std::size_t i = 0; i < header.size() && i < values.size(); ++i) {
      row[header[i]] = values[i];
    }
    rows.push_back(row);
  }
  return rows;
}

Graph GraphOf(const std::string& name) { return BuildGraph(LoadModel(name).value().spec); }

TEST(ZooTest, NamesAreSortedAndKnown) {
  const auto names = ZooNames();
  EXPECT_EQ(names.size(), 139u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const char* name : {"gpt2-xl",
                           "gpt-22b",
                           "mist-gpt2-1.3b",
                           "mist-llama-7b",
                           "aceso-gpt-1.3b",
                           "resnet-18",
                           "resnet-50",
                           "avn"}) {
    EXPECT_THAT(names, Contains(name));
  }
}

TEST(ZooTest, UnknownNameSuggestsTheNearest) {
  const auto config = ZooConfig("gpt2-xll");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().hint(), HasSubstr("gpt2-xl"));
}

TEST(ZooTest, EveryModelIsAWellFormedGraph) {
  for (const std::string& name : ZooNames()) {
    const Graph graph = GraphOf(name);
    const auto checked = CheckGraph(graph);
    EXPECT_TRUE(checked.ok()) << name << ": " << (checked.ok() ? "" : checked.error().what());
    EXPECT_FALSE(graph.layers.empty()) << name;
  }
}

// Counts of Hugging Face's own classes; see testdata/counts/README.md.
TEST(ZooTest, ParameterCountsAreExact) {
  const auto rows = ReadCsv("palmist/model/testdata/counts/published_counts.csv");
  ASSERT_EQ(rows.size(), 122u);
  for (const Row& row : rows) {
    const std::string& name = row.at("name");
    const Graph graph = GraphOf(name);
    const std::int64_t counted = std::stoll(row.at("counted_params"));
    const std::string& active = row.at("counted_active_params");
    EXPECT_EQ(CountParameters(graph), counted) << name;
    EXPECT_EQ(CountActiveParameters(graph), active.empty() ? counted : std::stoll(active)) << name;
    EXPECT_EQ(graph.tied_head, row.at("tied_head") == "true") << name;
  }
}

std::int64_t ParametersOf(const Layer& layer) {
  Graph graph;
  graph.kinds = {layer};
  graph.layers = {0};
  return CountParameters(graph);
}

// The shapes that the Mist artifact's runs were measured with.
TEST(ZooTest, MeasuredShapesHaveTheSizesOfTheRuns) {
  const auto rows = ReadCsv("../shared/data/mist/model_configs.csv");
  if (rows.empty()) GTEST_SKIP() << "../shared/data/mist/model_configs.csv is not there";
  ASSERT_EQ(rows.size(), 13u);
  for (const Row& row : rows) {
    std::string name = row.at("model");
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
      return static_cast<char>(std::tolower(c));
    });
    name = (row.at("suite") == "mist" ? "mist-" : "aceso-gpt-") + name;
    const Graph graph = GraphOf(name);
    ASSERT_EQ(graph.kinds.size(), 1u) << name;
    EXPECT_EQ(graph.layers.size(), std::stoull(row.at("layers"))) << name;
    EXPECT_EQ(graph.vocab, std::stoll(row.at("run_vocab_base"))) << name;
    EXPECT_EQ(ParametersOf(graph.kinds[0]), std::stoll(row.at("params_per_layer"))) << name;
    EXPECT_EQ(graph.tied_head, row.at("tied_embeddings") == "1") << name;
    if (!row.at("embedding_params").empty()) {
      EXPECT_EQ(ParametersOf(graph.embedding), std::stoll(row.at("embedding_params"))) << name;
    }
  }
}

// The same counts in closed form: 12h² + 13h with biases, 12h² + 4h without.
TEST(ZooTest, MeasuredGptShapesInClosedForm) {
  const auto check = [](const std::string& name, std::int64_t h, std::int64_t per_h) {
    EXPECT_EQ(ParametersOf(GraphOf(name).kinds.at(0)), 12 * h * h + per_h * h) << name;
  };
  check("aceso-gpt-1.3b", 2048, 13);
  check("aceso-gpt-40b", 8192, 13);
  check("mist-gpt2-1.3b", 2048, 4);
  check("mist-gpt2-7b", 4096, 4);
}

TEST(ZooTest, ConvolutionalCounts) {
  EXPECT_EQ(CountParameters(GraphOf("resnet-18")), 11'689'512);
  EXPECT_EQ(CountParameters(GraphOf("resnet-50")), 25'557'032);
  // 23,508,032 of the backbone, 11,148,800 of the squeezes, 18,882,560 of the upsampling, 1,659,240
  // of the head.
  EXPECT_EQ(CountParameters(GraphOf("avn")), 55'198'632);
}

TEST(ZooTest, Gpt22b) {
  const Model model = LoadModel("gpt-22b").value();
  const Graph graph = BuildGraph(model.spec);
  EXPECT_EQ(graph.layers.size(), 48u);
  EXPECT_EQ(model.spec.transformer().hidden, 6144);
  EXPECT_EQ(model.spec.transformer().layers[0].attention.heads, 64);
  EXPECT_EQ(graph.max_positions, 2048);
}

}  // namespace
}  // namespace palmist::model

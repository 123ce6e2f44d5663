#include <fmt/format.h>

#include <memory>
#include <ostream>
#include <string>

#include "palmist/base/units.h"
#include "palmist/cli/command.h"
#include "palmist/cluster/cluster_file.h"
#include "palmist/cluster/presets.h"

namespace palmist::cli {

void AddClustersCommand(CLI::App& app, Context& context) {
  const auto name = std::make_shared<std::string>();
  CLI::App* command = AddCommand(
      app,
      context,
      "clusters",
      "list the built-in devices, or show a cluster",
      "palmist clusters a100-sxm4-80gb-2x8",
      [&context, name] {
        if (!name->empty()) {
          const cluster::Cluster cluster = cluster::LoadCluster(*name).value();
          if (context.json) {
            PrintJson(context, {{"clusters", nlohmann::ordered_json::array({ToJson(cluster)})}});
          } else {
            *context.out << cluster::ToYaml(cluster);
          }
          return 0;
        }
        const std::vector<cluster::PresetSummary> presets = cluster::ListPresets();
        if (context.json) {
          nlohmann::ordered_json list = nlohmann::ordered_json::array();
          for (const cluster::PresetSummary& preset : presets) list.push_back(ToJson(preset));
          PrintJson(context, {{"clusters", list}});
          return 0;
        }
        *context.out << fmt::format("{:<24}{:>10}{:>13}{:>12}{:>13}{:>13}\n",
                                    "cluster",
                                    "memory",
                                    "bf16 FLOP/s",
                                    "memory/s",
                                    "in a node",
                                    "host memory");
        for (const cluster::PresetSummary& preset : presets) {
          const cluster::NodeGroup& group = preset.cluster.groups.front();
          *context.out << fmt::format(
              "{:<24}{:>10}{:>13}{:>12}{:>13}{:>13}\n",
              preset.name,
              FormatBytes(group.device.memory_bytes),
              FormatCount(group.device.PeakFlopsPerS("bf16")),
              FormatBytesPerSecond(group.device.memory_bytes_per_s),
              FormatBytesPerSecond(group.intra_node.bytes_per_s),
              group.host_memory_bytes > 0 ? FormatBytes(group.host_memory_bytes) : "-");
        }
        *context.out
            << "\nName a cluster GPU-NODESxGPUS, such as h100-4x8, or give a cluster file.\n";
        return 0;
      });
  command->add_option("NAME", *name, "a preset GPU-NODESxGPUS, or a cluster file");
}

}  // namespace palmist::cli

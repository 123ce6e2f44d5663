/// Small runs files of the three schemas.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace palmist::accuracy {

/// Cells by column.
using Row = std::map<std::string, std::string, std::less<>>;

/// Returns the rows as CSV; columns are those of all rows.
inline std::string ToCsv(const std::vector<Row>& rows) {
  std::map<std::string, int, std::less<>> columns;
  for (const Row& row : rows) {
    for (const auto& [column, cell] : row) columns[column] = 0;
  }
  std::string text;
  for (const auto& [column, unused] : columns) text += (text.empty() ? "" : ",") + column;
  for (const Row& row : rows) {
    std::string line;
    for (const auto& [column, unused] : columns) {
      std::string cell;
      const auto found = row.find(column);
      for (const char c : found == row.end() ? std::string() : found->second) {
        cell += c == '"' ? "\"\"" : std::string(1, c);
      }
      line += "\"" + cell + "\",";
    }
    line.pop_back();
    text += "\n" + line;
  }
  return text + "\n";
}

/// A published run of a small GPT on eight GPUs.
inline Row PublicRow() {
  return {{"source_url", "https://example.org/table"},
          {"system", "Megatron-LM"},
          {"gpu", "A100-80GB"},
          {"n_gpu", "8"},
          {"inter_node_link", ""},
          {"model", "GPT"},
          {"layers", "8"},
          {"hidden", "1024"},
          {"heads", "16"},
          {"kv_heads", "16"},
          {"ffn", "4096"},
          {"seq", "2048"},
          {"vocab", "51200"},
          {"global_batch", "64"},
          {"micro_batch", "2"},
          {"dp", "2"},
          {"tp", "2"},
          {"sp", "0"},
          {"cp", "1"},
          {"pp", "2"},
          {"vpp", "1"},
          {"zero", "1"},
          {"recompute", "full"},
          {"offload", "none"},
          {"precision", "bf16"},
          {"flash_attn", "1"},
          {"iter_time_s", "1.5"},
          {"tokens_per_s_per_gpu", ""},
          {"mem_gb", "20.5"},
          {"notes", ""}};
}

/// One stage of a run of Mist.
inline Row MistRow(int stage, int layer_first, int stage_layers) {
  return {{"run_id", "mist-1"},
          {"source", "made up"},
          {"gpu", "L4-24GB"},
          {"gpu_mem_gib", "22.488"},
          {"n_nodes", "1"},
          {"gpus_per_node", "4"},
          {"model_family", "llama"},
          {"model", "llama-small"},
          {"layers", "8"},
          {"hidden", "1024"},
          {"heads", "16"},
          {"ffn", "2816"},
          {"seq", "2048"},
          {"vocab", "50304"},
          {"flash_attn", "0"},
          {"global_batch", "32"},
          {"num_stages", "2"},
          {"grad_accum", "16"},
          {"iter_time_s", "2.5"},
          {"stage", std::to_string(stage)},
          {"stage_nodes", "1"},
          {"stage_gpus_per_node", "2"},
          {"layer_first", std::to_string(layer_first)},
          {"stage_layers", std::to_string(stage_layers)},
          {"ckpt_layers", "2"},
          {"micro_batch", "1"},
          {"dp", "2"},
          {"tp", "1"},
          {"zero_w", "0"},
          {"zero_g", "0"},
          {"zero_o", "1"},
          {"offload_w", "0"},
          {"offload_g", "0"},
          {"offload_o", "0.5"},
          {"offload_a", "0"},
          {"pre_post_strategy", "[1,2,1,0,0,1,0,0,0,0]"},
          {"peak_allocated_mib", "3000"},
          {"peak_reserved_mib", "3500"}};
}

/// One rank of a run of Aceso with two stages of 4 layers each in all, cut inside a layer.
inline Row AcesoRow(int stage, int rank) {
  const std::vector<int> first = {0, 22}, count = {22, 33};
  const auto i = static_cast<std::size_t>(stage);
  std::string recomputed = "[";
  for (int op = 0; op < count[i]; ++op) recomputed += stage == 0 ? "1," : "0,";
  recomputed.back() = ']';
  return {{"run_id", "aceso-1"},
          {"system", "aceso"},
          {"gpu", "A10G-24GB"},
          {"profile_set", "a10g"},
          {"model_size", "small"},
          {"layers", "4"},
          {"hidden", "1024"},
          {"heads", "16"},
          {"ffn", "4096"},
          {"seq", "2048"},
          {"vocab_padded", "50432"},
          {"n_nodes", "1"},
          {"gpus_per_node", "4"},
          {"n_gpus", "4"},
          {"global_batch", "32"},
          {"num_microbatches", "16"},
          {"iter_time_s", "3.25"},
          {"repeat_outlier", "0"},
          {"stage", std::to_string(stage)},
          {"stage_gpus", "2"},
          {"tp", stage == 0 ? "2" : "1"},
          {"dp", stage == 0 ? "1" : "2"},
          {"micro_batch_per_gpu", stage == 0 ? "2" : "1"},
          {"op_first", std::to_string(first[i])},
          {"num_ops", std::to_string(count[i])},
          {"recompute_per_op", recomputed},
          {"num_recompute_ops", stage == 0 ? "22" : "0"},
          {"max_allocated_mib", std::to_string(4000 + 100 * rank)},
          {"max_reserved_mib", ""}};
}

inline std::string MistRun() { return ToCsv({MistRow(0, 0, 5), MistRow(1, 5, 3)}); }

inline std::string AcesoRun() {
  return ToCsv({AcesoRow(0, 0), AcesoRow(0, 1), AcesoRow(1, 2), AcesoRow(1, 3)});
}

}  // namespace palmist::accuracy

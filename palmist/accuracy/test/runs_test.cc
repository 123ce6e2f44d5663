#include "palmist/accuracy/runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "palmist/accuracy/test/sample_runs.h"
#include "palmist/base/units.h"

namespace palmist::accuracy {
namespace {

using model::Variant;

constexpr auto kMib = static_cast<double>(kMiB);
constexpr auto kGib = static_cast<double>(kGiB);

/// Returns the one run of a file.
MeasuredRun ReadOne(const std::string& text) {
  RunsFile file = ReadRuns(text).value();
  EXPECT_EQ(file.runs.size(), 1u);
  EXPECT_TRUE(file.skipped.empty()) << file.skipped.begin()->first;
  const MeasuredRun run = file.runs.at(0);
  const auto valid = plan::Validate(run.plan, run.model->graph, run.model->spec);
  EXPECT_TRUE(valid.ok()) << valid.error().what();
  for (const std::string_view key : kGroupKeys) {
    EXPECT_TRUE(run.keys.contains(std::string(key))) << key;
  }
  return run;
}

/// Returns `row` with some cells changed.
Row With(Row row, const Row& changes) {
  for (const auto& [column, cell] : changes) row[column] = cell;
  return row;
}

MeasuredRun ReadPublic(const Row& changes) { return ReadOne(ToCsv({With(PublicRow(), changes)})); }

/// Returns why a public row with `changes` is skipped.
std::string SkipOf(const Row& changes) {
  const RunsFile file = ReadRuns(ToCsv({With(PublicRow(), changes)})).value();
  return file.skipped.empty() ? "not skipped" : file.skipped.begin()->first;
}

std::string ErrorOf(const std::string& text) {
  const auto file = ReadRuns(text);
  return file.ok() ? "no error" : file.error().what();
}

std::string PublicError(const Row& changes) { return ErrorOf(ToCsv({With(PublicRow(), changes)})); }

bool Assumes(const MeasuredRun& run, std::string_view what) {
  return std::find(run.assumed.begin(), run.assumed.end(), what) != run.assumed.end();
}

TEST(PublicRunsTest, ReadsAPlan) {
  const MeasuredRun run = ReadPublic({});
  const plan::Plan& plan = run.plan;
  EXPECT_EQ(plan.seq_len, 2048);
  EXPECT_EQ(plan.cluster.num_devices(), 8);
  EXPECT_EQ(plan.cluster.groups[0].device.name, "A100-SXM4-80GB");
  EXPECT_EQ(plan.training.global_batch, 64);
  EXPECT_EQ(plan.training.micro_batches, 16);
  EXPECT_EQ(plan.training.dtype, "bf16");
  EXPECT_EQ(plan.training.grad_dtype, "fp32") << "Megatron-LM's main gradients";
  ASSERT_EQ(plan.stages.size(), 2u);
  const plan::Stage& last = plan.stages[1];
  EXPECT_EQ(last.devices, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(last.first_layer, 4);
  EXPECT_EQ(last.last_layer, 7);
  EXPECT_EQ(last.zero, 1);
  EXPECT_EQ(last.zero_shard, 2);
  EXPECT_TRUE(last.recomputes(4) && last.recomputes(7));
  EXPECT_EQ(last.ops.attention, Variant::kFused);
  EXPECT_EQ(run.measured.iteration_s, 1.5);
  EXPECT_EQ(run.measured.fullest_stage[MemoryKind::kReserved], 20.5 * kGib)
      << "one figure for two stages";
  EXPECT_EQ(run.keys.at("gpu"), "A100-SXM4-80GB");
  EXPECT_EQ(run.keys.at("nodes"), "1");
}

TEST(PublicRunsTest, ListsTheDefaultsItTakes) {
  const MeasuredRun run = ReadPublic({{"kv_heads", ""},
                                      {"ffn", ""},
                                      {"vocab", ""},
                                      {"dp", ""},
                                      {"zero", ""},
                                      {"recompute", ""},
                                      {"precision", ""},
                                      {"flash_attn", ""}});
  EXPECT_TRUE(Assumes(run, "kv_heads 16 (as heads)"));
  EXPECT_TRUE(Assumes(run, "ffn 4096 (4 x hidden)"));
  EXPECT_TRUE(Assumes(run, "vocab 51200 (of the family, padded)"));
  EXPECT_TRUE(Assumes(run, "dp 2 (GPUs over the other degrees)"));
  EXPECT_TRUE(Assumes(run, "zero 0"));
  EXPECT_TRUE(Assumes(run, "no recompute"));
  EXPECT_TRUE(Assumes(run, "precision fp16 mixed"));
  EXPECT_EQ(run.plan.training.dtype, "fp16");
  EXPECT_EQ(run.plan.stages[0].zero, 0);
  EXPECT_TRUE(run.plan.stages[0].recompute.empty());
  EXPECT_EQ(run.plan.stages[0].ops.attention, Variant::kFusedSoftmax)
      << "what Megatron-LM runs unless told otherwise";
}

TEST(PublicRunsTest, TimeFollowsFromTokensPerSecond) {
  const MeasuredRun run = ReadPublic({{"iter_time_s", ""}, {"tokens_per_s_per_gpu", "4096"}});
  EXPECT_DOUBLE_EQ(run.measured.iteration_s.value(), 64.0 * 2048 / (4096 * 8));
}

// The worked example of data/README.md.
TEST(PublicRunsTest, ReadsStagesJoinedInOneCell) {
  const MeasuredRun run = ReadPublic(
      {{"system", "Mist (EuroSys25 artifact)"},
       {"gpu", "L4-24GB"},
       {"model", "llama-7b"},
       {"layers", "32"},
       {"hidden", "4096"},
       {"heads", "32"},
       {"kv_heads", "32"},
       {"ffn", "11008"},
       {"vocab", "50304"},
       {"global_batch", "128"},
       {"micro_batch", "1|1|1|1"},
       {"dp", "2|2|2|2"},
       {"tp", "1|1|1|1"},
       {"pp", "4"},
       {"zero", "1|1|1|1"},
       {"recompute", "layers/stage 4|3|0|0"},
       {"offload", "W/G/O/A 0.0/0.0/0.0/0.0|0.0/0.0/0.0/0.0|0.0/0.0/0.375/0.0|0.0/0.0/0.0/0.0"},
       {"precision", "fp16"},
       {"mem_gb", "19.21|19.83|18.25|19.83"},
       {"notes", "PER-STAGE values separated by |; layer partition 7|8|9|8; grad_accum 64"}});
  const plan::Plan& plan = run.plan;
  EXPECT_EQ(plan.training.micro_batches, 64);
  EXPECT_EQ(plan.training.grad_dtype, "fp16");
  EXPECT_EQ(plan.training.grad_clip, 0);
  ASSERT_EQ(plan.stages.size(), 4u);
  EXPECT_EQ(plan.stages[0].last_layer, 6);
  EXPECT_FALSE(plan.stages[0].recomputes(2));
  EXPECT_TRUE(plan.stages[0].recomputes(3) && plan.stages[0].recomputes(6));
  EXPECT_EQ(plan.stages[2].num_layers(), 9);
  EXPECT_EQ(plan.stages[2].offload.optimizer, 0.375);
  EXPECT_EQ(plan.stages[2].devices, (std::vector<int>{4, 5}));
  ASSERT_EQ(run.measured.stages.size(), 4u);
  EXPECT_EQ(run.measured.stages[2][MemoryKind::kAllocated], 18.25 * kGib);
  EXPECT_FALSE(run.measured.stages[2][MemoryKind::kReserved].has_value());
}

TEST(PublicRunsTest, FewerMemoryFiguresThanStagesAreTheFirstOnes) {
  const MeasuredRun run = ReadPublic({{"pp", "4"}, {"dp", "1"}, {"mem_gb", "9|8"}});
  ASSERT_EQ(run.measured.stages.size(), 4u);
  EXPECT_EQ(run.measured.stages[1][MemoryKind::kReserved], 8 * kGib);
  EXPECT_TRUE(run.measured.stages[2].empty());
}

TEST(PublicRunsTest, SystemsDiffer) {
  const MeasuredRun fsdp =
      ReadPublic({{"system", "torchtitan"}, {"pp", "1"}, {"tp", "1"}, {"dp", "8"}, {"zero", "3"}});
  EXPECT_EQ(fsdp.plan.stages[0].ops.activation, Variant::kSdpa);
  EXPECT_EQ(fsdp.plan.training.optimizer.state_bytes_per_param, 10);
  EXPECT_EQ(fsdp.plan.stages[0].zero_shard, 8);
  const MeasuredRun wide = ReadPublic({{"precision", "fp32"}});
  EXPECT_EQ(wide.plan.training.optimizer.state_bytes_per_param, 8);
  const MeasuredRun smi = ReadPublic({{"system", "Megatron-DeepSpeed (BigScience)"},
                                      {"recompute", ""},
                                      {"notes", "recompute on in tr11 scripts"}});
  EXPECT_TRUE(smi.measured.fullest_stage[MemoryKind::kNvidiaSmi].has_value());
  EXPECT_TRUE(smi.plan.stages[0].recomputes(0));
  EXPECT_EQ(smi.plan.training.grad_dtype, "bf16");
  const MeasuredRun other = ReadPublic({{"system", "a trainer"}});
  EXPECT_TRUE(Assumes(other, "mem_gb is reserved memory"));
  EXPECT_TRUE(Assumes(other, "operators and optimizer as Megatron-Core's: system not known"));
}

TEST(PublicRunsTest, ReadsTheNetwork) {
  const auto group = [](const std::string& link) {
    return ReadPublic({{"n_gpu", "16"}, {"dp", "4"}, {"inter_node_link", link}})
        .plan.cluster.groups[0];
  };
  EXPECT_DOUBLE_EQ(group("800 Gbps/node (some config)").node_bytes_per_s, 100e9);
  EXPECT_DOUBLE_EQ(group("400Gb/s RDMA per GPU").node_bytes_per_s, 400e9);
  EXPECT_DOUBLE_EQ(group("400Gb/s RDMA per GPU").inter_node.bytes_per_s, 50e9);
  EXPECT_DOUBLE_EQ(group("4x Omni-Path links per node").node_bytes_per_s, 50e9);
  EXPECT_DOUBLE_EQ(group("4x Omni-Path links per node").inter_node.bytes_per_s, 12.5e9);
  EXPECT_DOUBLE_EQ(group("fast").node_bytes_per_s, group("").node_bytes_per_s);
}

TEST(PublicRunsTest, ReadsOutOfMemory) {
  const MeasuredRun run =
      ReadPublic({{"iter_time_s", ""}, {"mem_gb", ""}, {"notes", "OOM = INFEASIBLE row"}});
  EXPECT_TRUE(run.measured.out_of_memory);
}

TEST(PublicRunsTest, ReadsThePlanAndMemoryOfFurtherColumns) {
  const Row plan = {{"plan_json",
                     R"({"items_per_stage":[4,6],"replicas_per_stage":)"
                     R"([[{"gpu":"A","tp":2}],[{"gpu":"A","tp":2}]]})"},
                    {"mem_kind", "nvidia-smi memory.used, max over ranks, GiB"},
                    {"quality", "ok"}};
  const MeasuredRun run = ReadPublic(plan);
  EXPECT_EQ(run.plan.stages[0].num_layers(), 3) << "the embedding is an item";
  EXPECT_EQ(run.plan.stages[1].num_layers(), 5);
  EXPECT_EQ(run.measured.fullest_stage[MemoryKind::kNvidiaSmi], 20.5 * kGib);

  const MeasuredRun stages =
      ReadPublic({{"system", "Aceso runtime"},
                  {"plan_json", R"({"ops_per_stage":[54,53]})"},
                  {"recompute", "none"},
                  {"stage_mem_json",
                   R"([{"stage":0,"max_allocated_mib":100,"max_reserved_mib":120,)"
                   R"("nvidia_smi_mib":150},{"stage":1,"max_allocated_mib":90}])"}});
  EXPECT_EQ(stages.plan.stages[0].num_layers(), 4);
  EXPECT_EQ(stages.measured.stages[0][MemoryKind::kNvidiaSmi], 150 * kMib);
  EXPECT_EQ(stages.measured.stages[1][MemoryKind::kAllocated], 90 * kMib);
  EXPECT_EQ(stages.plan.stages[0].micro_batch, 2) << "of one rank where the plan is given";

  EXPECT_EQ(SkipOf({{"gpu", "V100-32GB+T4"}}), "mixed GPUs");
  EXPECT_EQ(SkipOf(With(plan,
                        {{"plan_json",
                          R"({"items_per_stage":[4,6],"replicas_per_stage":)"
                          R"([[{"gpu":"A","tp":2},{"gpu":"A","tp":1}],[]]})"}})),
            "unlike replicas");
}

TEST(PublicRunsTest, ReadsExperts) {
  const Row moe = {{"model", "mixtral-small"},
                   {"system", "Megatron-Core"},
                   {"kv_heads", "8"},
                   {"experts", "8"},
                   {"topk", "2"},
                   {"pp", "1"},
                   {"dp", "4"}};
  const MeasuredRun run = ReadPublic(With(moe, {{"ep", "4"}, {"etp", "2"}}));
  EXPECT_EQ(run.plan.stages[0].ep, 4);
  EXPECT_EQ(run.model->spec.family, "mixtral");
  const MeasuredRun unsplit = ReadPublic(With(moe, {{"ep", "8"}, {"etp", "1"}}));
  EXPECT_EQ(unsplit.plan.stages[0].ep, 4) << "as many parts of each expert weight";
  EXPECT_TRUE(
      Assumes(unsplit, "experts in 8 parts of tensor degree 1 are priced as 4 of degree 2"));
  EXPECT_EQ(SkipOf(With(moe, {{"ep", "32"}, {"etp", "1"}})), "expert placement not priced");
}

TEST(PublicRunsTest, ConvolutionalModelsAreThoseBuiltIn) {
  const Row cnn = {{"model", "resnet50 (CNN)"},
                   {"layers", ""},
                   {"hidden", ""},
                   {"heads", ""},
                   {"seq", ""},
                   {"tp", "1"},
                   {"pp", "1"},
                   {"dp", "8"},
                   {"zero", "0"},
                   {"precision", "fp16 mixed (AMP)"},
                   {"recompute", "none"}};
  EXPECT_EQ(ReadPublic(cnn).plan.seq_len, 0);
  EXPECT_EQ(SkipOf(With(cnn, {{"model", "resnext-7 (CNN)"}})), "unknown convolutional model");
}

TEST(PublicRunsTest, SkipsWithAReason) {
  EXPECT_EQ(SkipOf({{"layers", ""}}), "missing shape");
  EXPECT_EQ(SkipOf({{"seq", ""}}), "missing shape");
  EXPECT_EQ(SkipOf({{"global_batch", ""}}), "missing batches");
  EXPECT_EQ(SkipOf({{"micro_batch", ""}}), "missing batches");
  EXPECT_EQ(SkipOf({{"tp", ""}}), "missing degrees");
  EXPECT_EQ(SkipOf({{"n_gpu", ""}}), "missing degrees");
  EXPECT_EQ(SkipOf({{"iter_time_s", ""}, {"mem_gb", ""}}), "missing measurement");
  EXPECT_EQ(SkipOf({{"gpu", "Z9000"}}), "unknown GPU");
  EXPECT_EQ(SkipOf({{"gpu", ""}}), "unknown GPU");
  EXPECT_EQ(SkipOf({{"gpu", "cpu"}}), "unknown GPU");
  EXPECT_EQ(SkipOf({{"heads", "7"}, {"kv_heads", "7"}}), "shape does not fit the model family");
  EXPECT_EQ(SkipOf({{"global_batch", "63"}}), "batches do not divide");
  EXPECT_EQ(SkipOf({{"dp", "3"}}), "degrees do not multiply to the GPUs");
  EXPECT_EQ(SkipOf({{"dp", "1048576"}, {"tp", "1048576"}}), "degrees do not multiply to the GPUs");
  EXPECT_EQ(SkipOf({{"layers", "1"}}), "fewer layers than stages");
  EXPECT_EQ(SkipOf({{"precision", "MXFP8"}}), "precision not priced");
  EXPECT_EQ(SkipOf({{"vpp", "4"}}), "interleaved stages not priced");
  EXPECT_EQ(SkipOf({{"recompute", "selective layer"}}), "selective recompute not priced");
  EXPECT_EQ(SkipOf({{"recompute", "op fraction 0.5|0.25"}}), "selective recompute not priced");
  EXPECT_EQ(SkipOf({{"recompute", "sometimes"}}), "recompute not understood");
  EXPECT_EQ(SkipOf({{"offload", "to disk"}}), "offload not understood");
}

TEST(PublicRunsTest, BadCellsAreErrorsWithTheirPlace) {
  EXPECT_EQ(PublicError({{"layers", "many"}}),
            "line 2, layers: expected a whole number from 1 to 10000, got \"many\"");
  EXPECT_EQ(PublicError({{"iter_time_s", "nan"}}),
            "line 2, iter_time_s: expected a finite number of at least 0, got \"nan\"");
  EXPECT_EQ(PublicError({{"tp", "-2"}}),
            "line 2, tp: expected a whole number from 1 to 1048576, got \"-2\"");
  EXPECT_EQ(PublicError({{"dp", "2|2|2"}}),
            "line 2, dp: expected one number, or one for each of the 2 stages, got \"2|2|2\"");
  EXPECT_EQ(PublicError({{"mem_gb", "1|2|3"}}),
            "line 2, mem_gb: expected at most 2 numbers, one a stage, got \"1|2|3\"");
  EXPECT_NE(PublicError({{"zero", "4"}}).find("line 2, zero:"), std::string::npos);
  EXPECT_NE(PublicError({{"recompute", "layers/stage 1"}}).find("line 2, recompute:"),
            std::string::npos);
  EXPECT_NE(PublicError({{"offload", "W/G/O/A 0/0/2/0|0/0/0/0"}}).find("line 2, offload:"),
            std::string::npos);
  for (const char* bad : {"[",
                          "3",
                          R"({"items_per_stage":[5,6]})",
                          R"({"items_per_stage":"x"})",
                          R"({"ops_per_stage":[107]})"}) {
    EXPECT_NE(PublicError({{"plan_json", bad}}).find("line 2, plan_json:"), std::string::npos)
        << bad;
  }
  for (const char* bad :
       {"[", "{}", R"([{"stage":2}])", R"([{"stage":0,"max_allocated_mib":-1}])"}) {
    EXPECT_NE(PublicError({{"stage_mem_json", bad}}).find("line 2, stage_mem_json:"),
              std::string::npos)
        << bad;
  }
}

TEST(MistRunsTest, ReadsAPlan) {
  const MeasuredRun run = ReadOne(MistRun());
  const plan::Plan& plan = run.plan;
  EXPECT_EQ(run.id, "mist-1");
  EXPECT_EQ(run.model->spec.family, "llama");
  EXPECT_DOUBLE_EQ(plan.cluster.groups[0].device.usable_bytes(), 22.488 * kGib);
  EXPECT_EQ(plan.training.dtype, "fp16");
  EXPECT_EQ(plan.training.grad_dtype, "fp16");
  EXPECT_EQ(plan.training.grad_clip, 0);
  EXPECT_EQ(plan.training.micro_batches, 16);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].last_layer, 4);
  EXPECT_FALSE(plan.stages[0].recomputes(2));
  EXPECT_TRUE(plan.stages[0].recomputes(3) && plan.stages[0].recomputes(4)) << "the last ones";
  EXPECT_EQ(plan.stages[1].devices, (std::vector<int>{2, 3}));
  EXPECT_EQ(plan.stages[1].zero, 1);
  EXPECT_EQ(plan.stages[1].ops.attention, Variant::kFusedSoftmax);
  EXPECT_EQ(plan.stages[1].ops.norm, Variant::kFused);
  EXPECT_FALSE(run.model->graph.tied_head);
  EXPECT_EQ(run.measured.iteration_s, 2.5);
  EXPECT_EQ(run.measured.stages[0][MemoryKind::kAllocated], 3000 * kMib);
  EXPECT_EQ(run.measured.stages[1][MemoryKind::kReserved], 3500 * kMib);
}

TEST(MistRunsTest, BlendsTheRatiosOfEmbeddingAndHead) {
  const MeasuredRun run = ReadOne(MistRun());
  // Half of the optimizer states of the layers are offloaded and none of the ends'.
  const double layer = 4.0 * 1024 * 1024 + 3.0 * 1024 * 2816 + 2 * 1024;
  const double embedding = 50304.0 * 1024;
  EXPECT_NEAR(
      run.plan.stages[0].offload.optimizer, 0.5 * 5 * layer / (5 * layer + embedding), 1e-12);
  const double head = 50304.0 * 1024 + 1024;
  EXPECT_NEAR(run.plan.stages[1].offload.optimizer, 0.5 * 3 * layer / (3 * layer + head), 1e-12);
}

TEST(MistRunsTest, BadRunsAreErrorsWithTheirPlace) {
  const auto error = [](const Row& changes) {
    return ErrorOf(ToCsv({MistRow(0, 0, 5), With(MistRow(1, 5, 3), changes)}));
  };
  EXPECT_NE(error({{"hidden", "2048"}}).find("line 3, hidden: expected \"1024\" as in the other"),
            std::string::npos);
  EXPECT_NE(error({{"layer_first", "6"}}).find("line 3, layer_first: expected 5"),
            std::string::npos);
  EXPECT_NE(error({{"stage_layers", "4"}}).find("expected the stages to hold 8 layers, got 9"),
            std::string::npos);
  EXPECT_NE(error({{"dp", "4"}}).find("line 3, dp:"), std::string::npos);
  EXPECT_NE(error({{"ckpt_layers", "4"}}).find("line 3, ckpt_layers:"), std::string::npos);
  for (const char* bad : {"", "[1,2]", "{}", "[1,2,1,0,0,1,0,0,2,0]", "[1,2,1,0,0,1,0,0,null,0]"}) {
    EXPECT_NE(error({{"pre_post_strategy", bad}}).find("line 3, pre_post_strategy:"),
              std::string::npos)
        << bad;
  }
  EXPECT_NE(
      ErrorOf(
          ToCsv({MistRow(0, 0, 8), With(MistRow(0, 0, 8), {{"run_id", "b"}}), MistRow(0, 0, 8)}))
          .find("line 4, run_id: expected the rows of run \"mist-1\" one after the other"),
      std::string::npos);
}

TEST(AcesoRunsTest, ReadsAPlan) {
  const MeasuredRun run = ReadOne(AcesoRun());
  const plan::Plan& plan = run.plan;
  EXPECT_EQ(plan.training.grad_dtype, "fp32");
  EXPECT_EQ(plan.training.micro_batches, 16);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].num_layers(), 2) << "the cut after 1.6 layers is rounded";
  EXPECT_EQ(plan.stages[0].tp, 2);
  EXPECT_TRUE(plan.stages[0].recomputes(0) && plan.stages[0].recomputes(1));
  EXPECT_EQ(plan.stages[1].dp, 2);
  EXPECT_TRUE(plan.stages[1].recompute.empty());
  EXPECT_EQ(plan.stages[1].ops.attention, Variant::kFusedSoftmax);
  EXPECT_EQ(run.measured.stages[0][MemoryKind::kAllocated], 4100 * kMib) << "the fullest rank";
  EXPECT_EQ(run.measured.stages[1][MemoryKind::kAllocated], 4300 * kMib);
  EXPECT_FALSE(run.measured.stages[1][MemoryKind::kReserved].has_value());
  EXPECT_EQ(run.assumed.size(), 2u);
}

TEST(AcesoRunsTest, SkipsRunsWhoseRepeatsDisagree) {
  std::vector<Row> rows = {AcesoRow(0, 0), AcesoRow(1, 2)};
  for (Row& row : rows) row["repeat_outlier"] = "1";
  EXPECT_EQ(ReadRuns(ToCsv(rows)).value().skipped.at("repeats disagree"), 1);
}

TEST(AcesoRunsTest, BadRunsAreErrorsWithTheirPlace) {
  const auto error = [](const Row& changes) {
    return ErrorOf(ToCsv({AcesoRow(0, 0), With(AcesoRow(1, 2), changes)}));
  };
  EXPECT_NE(error({{"op_first", "23"}}).find("line 3, op_first: expected 22"), std::string::npos);
  EXPECT_NE(error({{"stage", "3"}}).find("line 3, stage: expected 1"), std::string::npos);
  EXPECT_NE(error({{"recompute_per_op", "[0,1]"}}).find("line 3, recompute_per_op:"),
            std::string::npos);
  EXPECT_NE(error({{"tp", "3"}}).find("line 3, dp:"), std::string::npos);
  EXPECT_NE(error({{"stage", "0"}}).find("line 3, "), std::string::npos)
      << "unlike rows of a stage";
}

TEST(RunsTest, RefusesOtherFiles) {
  EXPECT_NE(ErrorOf("").find("expected a line that names the columns"), std::string::npos);
  EXPECT_NE(ErrorOf("a,b\n1,2\n").find("line 1: expected the columns of a runs file"),
            std::string::npos);
  EXPECT_NE(ErrorOf("{\"palmist_plan\": 1}").find("line 1"), std::string::npos);
  EXPECT_NE(ErrorOf("\xFF\xFE").find("UTF-8"), std::string::npos);
  EXPECT_NE(ErrorOf("n_gpu,global_batch\n8,64\n").find("line 1: expected a column gpu"),
            std::string::npos);
  const std::string text = MistRun();
  EXPECT_NE(ErrorOf(text.substr(0, text.size() - 20)).find("line 3"), std::string::npos)
      << "cut off";
}

TEST(RunsTest, AFileCannotAskForMoreThanItIs) {
  std::vector<Row> rows(200, With(PublicRow(), {{"n_gpu", "1048576"}, {"dp", "262144"}}));
  EXPECT_NE(ErrorOf(ToCsv(rows)).find("expected runs that together have"), std::string::npos);
}

}  // namespace
}  // namespace palmist::accuracy

#include "palmist/report/grasp_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace palmist::report {
namespace {

using grasp::Grasp;
using grasp::Vector3d;
using nlohmann::json;

constexpr std::size_t kMaxPoints = 40'000;
constexpr std::size_t kMaxGrasps = 20;
constexpr std::size_t kMaxRows = 100;

// Tenths of a millimetre: finer than any depth camera, and short in JSON.
double Rounded(double metres) { return std::round(metres * 1e4) / 1e4; }

json CloudTrace(const grasp::PointCloud& cloud) {
  const std::size_t step = std::max<std::size_t>(1, (cloud.size() + kMaxPoints - 1) / kMaxPoints);
  json x = json::array(), y = json::array(), z = json::array(), colors = json::array();
  for (std::size_t i = 0; i < cloud.size(); i += step) {
    x.push_back(Rounded(cloud.points[i].x()));
    y.push_back(Rounded(cloud.points[i].y()));
    z.push_back(Rounded(cloud.points[i].z()));
    if (!cloud.colors.empty()) {
      const auto& [red, green, blue] = cloud.colors[i];
      colors.push_back(fmt::format("#{:02x}{:02x}{:02x}", red, green, blue));
    }
  }
  json marker = {{"size", 1.6}};
  if (cloud.colors.empty()) {
    marker["color"] = z;
    marker["colorscale"] = "Greys";
  } else {
    marker["color"] = std::move(colors);
  }
  return {{"type", "scatter3d"},
          {"mode", "markers"},
          {"name", "scene"},
          {"hoverinfo", "skip"},
          {"x", std::move(x)},
          {"y", std::move(y)},
          {"z", std::move(z)},
          {"marker", std::move(marker)}};
}

// The boxes of all grippers as one mesh, coloured by score.
json GripperTrace(std::span<const Grasp> grasps, const grasp::Gripper& gripper) {
  json x = json::array(), y = json::array(), z = json::array(), intensity = json::array(),
       text = json::array(), a = json::array(), b = json::array(), c = json::array();
  for (std::size_t i = 0; i < grasps.size(); ++i) {
    const Grasp& grasp = grasps[i];
    const std::string label = fmt::format(
        "grasp {}: score {:.3f}, opening {:.0f} mm", i + 1, grasp.score, grasp.width_m * 1e3);
    const grasp::TriangleMesh mesh = grasp::GripperMesh(gripper, grasp);
    const std::size_t first = x.size();
    for (const Vector3d& vertex : mesh.vertices) {
      x.push_back(Rounded(vertex.x()));
      y.push_back(Rounded(vertex.y()));
      z.push_back(Rounded(vertex.z()));
      intensity.push_back(grasp.score);
      text.push_back(label);
    }
    for (const auto& [p, q, r] : mesh.triangles) {
      a.push_back(first + p);
      b.push_back(first + q);
      c.push_back(first + r);
    }
  }
  return {{"type", "mesh3d"},
          {"name", "grippers"},
          {"x", std::move(x)},
          {"y", std::move(y)},
          {"z", std::move(z)},
          {"i", std::move(a)},
          {"j", std::move(b)},
          {"k", std::move(c)},
          {"intensity", std::move(intensity)},
          {"text", std::move(text)},
          {"hoverinfo", "text"},
          {"colorscale", {{0, "#d73027"}, {0.5, "#fdae61"}, {1, "#1a9850"}}},
          {"flatshading", true},
          {"opacity", 0.85},
          {"colorbar", {{"title", {{"text", "score"}}}, {"thickness", 12}, {"len", 0.6}}}};
}

// The range of an axis that shows the grasps and what is around them.
json RangeAround(std::span<const Grasp> grasps, int axis) {
  constexpr double kAround_m = 0.3;
  double lowest = grasps.front().p_CG[axis], highest = lowest;
  for (const Grasp& grasp : grasps) {
    lowest = std::min(lowest, grasp.p_CG[axis]);
    highest = std::max(highest, grasp.p_CG[axis]);
  }
  return {Rounded(lowest - kAround_m), Rounded(highest + kAround_m)};
}

/// The best grasps that keep away from better ones.
std::vector<Grasp> Spread(std::span<const Grasp> grasps) {
  constexpr double kApart_m = 0.03;
  std::vector<Grasp> kept;
  for (const Grasp& grasp : grasps) {
    if (kept.size() == kMaxGrasps) break;
    if (std::none_of(kept.begin(), kept.end(), [&](const Grasp& better) {
          return (better.p_CG - grasp.p_CG).norm() < kApart_m;
        })) {
      kept.push_back(grasp);
    }
  }
  return kept;
}

std::string Numbers(const Vector3d& v) {
  return fmt::format("{:.3f} {:.3f} {:.3f}", v.x(), v.y(), v.z());
}

Table GraspTable(std::span<const Grasp> grasps) {
  Table table = {
      {"", "score", "opening, mm", "depth, mm", "position, m", "approach", "closes along"},
      {},
      "rrrrrrr"};
  for (std::size_t i = 0; i < std::min(grasps.size(), kMaxRows); ++i) {
    const Grasp& grasp = grasps[i];
    table.rows.push_back({fmt::to_string(i + 1),
                          fmt::format("{:.3f}", grasp.score),
                          fmt::format("{:.0f}", grasp.width_m * 1e3),
                          fmt::format("{:.0f}", grasp.depth_m * 1e3),
                          Numbers(grasp.p_CG),
                          Numbers(grasp.approach()),
                          Numbers(grasp.opening())});
  }
  return table;
}

}  // namespace

Page GraspPage(const GraspScene& scene) {
  Page page(scene.title);
  double total_s = 0;
  for (const auto& [stage, time_s] : scene.timing_s) total_s += time_s;
  std::vector<KeyFigure> figures = {
      {"grasps", fmt::to_string(scene.grasps.size())},
      {"points", fmt::to_string(scene.cloud.size())},
      {"gripper",
       fmt::format("{}, to {:.0f} mm", scene.gripper.name, scene.gripper.max_opening_m * 1e3)}};
  if (!scene.grasps.empty()) {
    figures.push_back({"best score", fmt::format("{:.3f}", scene.grasps.front().score)});
  }
  if (total_s > 0) figures.push_back({"time", fmt::format("{:.1f} ms", total_s * 1e3)});
  page.AddKeyFigures(figures);
  for (const std::string& note : scene.notes) page.AddCallout(CalloutKind::kNote, note);

  const std::vector<Grasp> shown = Spread(scene.grasps);
  Chart chart;
  chart.id = "scene";
  chart.caption = fmt::format(
      "The scene as the camera sees it, with {} of the {} grasps, the best ones that do not crowd: "
      "both fingers and the palm, red for the lowest score to green for the highest. Drag to turn, "
      "scroll to come nearer.",
      shown.size(),
      scene.grasps.size());
  chart.data = json::array({CloudTrace(scene.cloud)});
  if (!shown.empty()) chart.data.push_back(GripperTrace(shown, scene.gripper));
  // The camera looks along z, with y down: so does the view, from a little above.
  chart.layout = {
      {"height", 640},
      {"showlegend", false},
      {"margin", {{"l", 0}, {"r", 0}, {"t", 0}, {"b", 0}}},
      {"scene",
       {{"aspectmode", "data"},
        {"camera",
         {{"up", {{"x", 0}, {"y", -1}, {"z", 0}}}, {"eye", {{"x", 0}, {"y", -0.6}, {"z", -1.2}}}}},
        {"xaxis", {{"title", {{"text", "x, m"}}}}},
        {"yaxis", {{"title", {{"text", "y, m"}}}}},
        {"zaxis", {{"title", {{"text", "z, m"}}}}}}}};
  for (int axis = 0; axis < 3 && !shown.empty(); ++axis) {
    constexpr const char* kAxes[3] = {"xaxis", "yaxis", "zaxis"};
    chart.layout["scene"][kAxes[axis]]["range"] = RangeAround(shown, axis);
  }
  chart.table = GraspTable(scene.grasps);
  page.AddChart(chart);

  if (scene.table) {
    page.AddParagraph(fmt::format("Table: normal {}, {:.3f} m from the camera.",
                                  Numbers(scene.table->normal),
                                  std::abs(scene.table->offset_m)));
  }
  if (!scene.timing_s.empty()) {
    Table table = {{"stage", "ms"}, {}, "lr"};
    for (const auto& [stage, time_s] : scene.timing_s) {
      table.rows.push_back({stage, fmt::format("{:.2f}", time_s * 1e3)});
    }
    page.AddHeading("Time by stage");
    page.AddTable(table);
  }
  return page;
}

}  // namespace palmist::report

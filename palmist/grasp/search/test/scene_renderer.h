/// Names of analytic_scene.h for tests.
#pragma once

#include "palmist/grasp/core/analytic_scene.h"

namespace palmist::grasp::testing {

using grasp::LookAt;
using grasp::Render;
using grasp::RenderedFrame;
using grasp::ShapeKind;
using grasp::Solid;
using grasp::Standing;
using Scene = AnalyticScene;

inline Plane TableInCamera(const Isometry3d& X_WC) { return TablePlaneInCamera(X_WC); }

/// Returns whether a point of the camera's frame lies in a box, |x_i| <= half_i of its own frame.
inline bool IsInBox(const Vector3d& point_C, const Isometry3d& X_CB, const Vector3d& half_m) {
  const Vector3d local = X_CB.inverse() * point_C;
  return (local.cwiseAbs().array() <= half_m.array()).all();
}

}  // namespace palmist::grasp::testing

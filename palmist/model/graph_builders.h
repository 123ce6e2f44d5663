/// The two builders of graphs behind `BuildGraph` (internal).
#pragma once

#include "palmist/model/graph.h"

namespace palmist::model::internal {

Graph BuildTransformerGraph(const TransformerSpec& spec, const GraphOptions& options);
Graph BuildConvGraph(const ConvNetSpec& spec);

}  // namespace palmist::model::internal

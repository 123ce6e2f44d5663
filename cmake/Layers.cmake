# The layer rule: a library may depend only on libraries of a lower layer. The pairs below are the
# exceptions, each within one layer and without a cycle ("user:used"). Add a pair here, and say why
# in docs/adr/.
set(PALMIST_LAYER_EXCEPTIONS
  "model:symbolic"
  "plan:model"
  "plan:cluster"
)

# Stops the configuration unless the library `name` at `layer` may depend on the library `dep`.
function(palmist_check_layer name layer dep)
  if(NOT TARGET palmist_${dep})
    message(FATAL_ERROR
      "palmist::${name} depends on palmist::${dep}, which does not exist (yet): add its folder "
      "before ${name} in palmist/CMakeLists.txt, or mend DEPS.")
  endif()
  get_target_property(dep_layer palmist_${dep} PALMIST_LAYER)
  if(dep_layer LESS layer OR "${name}:${dep}" IN_LIST PALMIST_LAYER_EXCEPTIONS)
    return()
  endif()
  message(FATAL_ERROR
    "Layer violation: palmist::${name} (layer ${layer}) depends on palmist::${dep} (layer "
    "${dep_layer}). A dependency must be at a lower layer, or be listed in cmake/Layers.cmake.")
endfunction()

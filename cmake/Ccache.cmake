# Compiles through ccache where it is installed; paths below the checkout are hashed relative to it,
# so that another checkout finds the same entries. The sloppiness is what precompiled headers need.
find_program(PALMIST_CCACHE ccache)
mark_as_advanced(PALMIST_CCACHE)
if(PALMIST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${PALMIST_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()

# Runs FUZZER for ten seconds on a fresh copy of CORPUS in WORK_DIR.
file(REMOVE_RECURSE ${WORK_DIR})
file(COPY ${CORPUS}/ DESTINATION ${WORK_DIR}/corpus)
execute_process(
  COMMAND ${FUZZER} -max_total_time=10 -rss_limit_mb=2048 -timeout=10 -artifact_prefix=${WORK_DIR}/
    ${WORK_DIR}/corpus
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${FUZZER} ended with ${status}; the input is in ${WORK_DIR}")
endif()

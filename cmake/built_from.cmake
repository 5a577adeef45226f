# Notes what the programs of a build folder were built from, when all of them are: the SOURCES' names and git's hashes of
# what they hold, or nothing without git. Records name a commit by it (experiments/study/provenance.h).
set(list git -C ${SOURCE} ls-files --cached --others --exclude-standard -- ${SOURCES})
execute_process(COMMAND ${list} OUTPUT_VARIABLE names ERROR_QUIET)
execute_process(COMMAND ${list} COMMAND git -C ${SOURCE} hash-object --stdin-paths OUTPUT_VARIABLE hashes ERROR_QUIET)
file(WRITE ${BINARY}/built_from "${names}${hashes}")

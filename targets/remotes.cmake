# nacre-remote for each family whose cross compiler is there: with it and qemu-user, nacre tries what it makes for machines
# of other families. `lib/nacre/nacre-remote-aarch64`, and so on.
file(GLOB runtime_sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/runtime/*.[ch] ${PROJECT_SOURCE_DIR}/runtime/include/nacre/*.h ${PROJECT_SOURCE_DIR}/formats/*)
foreach(machine aarch64-linux-gnu riscv64-linux-gnu arm-linux-gnueabihf)
  string(REGEX REPLACE "-.*" "" family ${machine})
  find_program(NACRE_CC_${family} ${machine}-gcc)
  find_program(NACRE_CXX_${family} ${machine}-g++)
  if(NOT NACRE_CC_${family} OR NOT NACRE_CXX_${family})
    message(STATUS "no ${machine}-gcc and -g++: what is compiled for ${family} is not run here")
    continue()
  endif()
  set(build ${CMAKE_BINARY_DIR}/${family})
  set(remote ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/nacre/nacre-remote-${family})
  add_custom_command(
    OUTPUT ${remote}
    COMMAND ${CMAKE_COMMAND} -G ${CMAKE_GENERATOR} -S ${PROJECT_SOURCE_DIR} -B ${build} -DNACRE_HOST=OFF -DNACRE_TESTS=OFF
            -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE=${CMAKE_CURRENT_SOURCE_DIR}/cmake/${machine}.cmake
            -DCMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER} -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}
    COMMAND ${CMAKE_COMMAND} --build ${build} --target nacre_remote nacre
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/nacre
    COMMAND ${CMAKE_COMMAND} -E copy ${build}/bin/nacre-remote ${remote}
    DEPENDS ${runtime_sources} cmake/${machine}.cmake
    COMMENT "The runtime for ${family}"
    VERBATIM)
  add_custom_target(nacre_remote_${family} ALL DEPENDS ${remote})
  install(PROGRAMS ${remote} DESTINATION ${CMAKE_INSTALL_LIBDIR}/nacre)
endforeach()

# Every file of templates/ as a string in plait_compiler: emitted source is compiled with no include path.
# compiler/codegen/templates.h declares plait::embedded_templates().
file(GLOB_RECURSE template_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/templates
     ${CMAKE_SOURCE_DIR}/templates/*.h ${CMAKE_SOURCE_DIR}/templates/*.cuh)
list(SORT template_files)
set(PLAIT_EMBEDDED_TEMPLATES ${CMAKE_BINARY_DIR}/embedded_templates.cpp)
set(template_paths "")
foreach(file ${template_files})
  list(APPEND template_paths ${CMAKE_SOURCE_DIR}/templates/${file})
endforeach()
add_custom_command(
  OUTPUT ${PLAIT_EMBEDDED_TEMPLATES}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${PLAIT_EMBEDDED_TEMPLATES} -DROOT=${CMAKE_SOURCE_DIR}/templates "-DFILES=${template_files}" -P ${CMAKE_SOURCE_DIR}/cmake/write_embedded.cmake
  DEPENDS ${template_paths} ${CMAKE_SOURCE_DIR}/cmake/write_embedded.cmake
  VERBATIM)

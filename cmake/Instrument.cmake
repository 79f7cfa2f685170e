# Sanitizers and coverage, for every target of the project.
if(CKPT_SANITIZE)
  add_compile_options(-fsanitize=${CKPT_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CKPT_SANITIZE})
  if(CKPT_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

if(CKPT_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()

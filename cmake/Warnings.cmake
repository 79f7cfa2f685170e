# Warnings for every target of the project.
add_compile_options(
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes
  -Wold-style-definition -Wpointer-arith -Wcast-qual -Wwrite-strings -Wvla -Wundef -Wformat=2 -Wswitch-enum
  -Wdouble-promotion -Wno-missing-field-initializers)
if(CKPT_WERROR)
  add_compile_options(-Werror)
endif()

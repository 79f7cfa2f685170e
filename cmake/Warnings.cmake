# Warnings and protections for every target of the project.
add_compile_options(
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes
  -Wold-style-definition -Wpointer-arith -Wcast-qual -Wwrite-strings -Wvla -Wundef -Wformat=2 -Wswitch-enum
  -Wdouble-promotion -Wno-missing-field-initializers)
# With sanitizers gcc warns of what cannot be.
if(CKPT_WERROR AND NOT CKPT_SANITIZE)
  add_compile_options(-Werror)
endif()

# The parsers read files of strangers: keep what the compiler offers against mistakes in them.
add_compile_options(-fstack-protector-strong)
if(NOT CKPT_SANITIZE)
  add_compile_options("$<$<CONFIG:Release,RelWithDebInfo>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
endif()
add_link_options(-Wl,-z,relro,-z,now)

# The same arithmetic on every processor: no fused multiply-add behind our back.
add_compile_options(-ffp-contract=off)

/* Help: texts made from the rows of commands. */
#ifndef TOOLS_HELP_H
#define TOOLS_HELP_H

#include "command.h"

#include <stdio.h>

#define HELP_COLUMNS 80

void help_overview(FILE *out);
void help_command(FILE *out, const command *c);

/* "-m, --message TEXT"; returns the columns it takes. */
#define HELP_OPTION_SIZE 80
size_t help_option(char out[HELP_OPTION_SIZE], const option *row);

#endif

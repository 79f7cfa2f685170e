/* Text from outside that will be shown on terminals and written into JSON: messages, meta values, names of tags. */
#ifndef CKPT_TEXT_H
#define CKPT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Is this valid UTF-8 without control characters (C0, DEL, C1)? `lines` allows tab and newline. Overlong forms,
 * surrogates and code points above U+10FFFF are not valid (RFC 3629). */
bool text_is_clean(const char *text, bool lines);

#endif

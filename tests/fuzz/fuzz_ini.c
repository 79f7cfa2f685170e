/* INI files: what parses is written back byte for byte, and edits leave a file that parses and holds the value. */
#include "fuzz.h"

#include "ini.h"

#include <stdlib.h>
#include <string.h>

static void check_unchanged(const ini *file, const uint8_t *data, size_t size)
{
    char *text = NULL;
    size_t text_size = 0;
    CHECK(ini_write(&text, &text_size, file, NULL) == 0);
    CHECK(text_size == size && memcmp(text, data, size) == 0);
    free(text);
}

static void check_value_after_reread(const ini *file, const char *value)
{
    char *text = NULL;
    size_t text_size = 0;
    ini *again = NULL;
    CHECK(ini_write(&text, &text_size, file, NULL) == 0);
    CHECK(ini_parse(&again, text, text_size, "again", NULL) == 0);
    const char *found = ini_get(again, "fuzz", "sub", "key");
    CHECK(found && strcmp(found, value) == 0);
    ini_free(again);
    free(text);
}

/* Setting keys to the value that they have changes no value. */
static void check_set_to_own_value(ini *file)
{
    ini_entry entry;
    size_t cursor = 0;
    for (size_t n = 0; n < 64 && ini_next(&entry, &cursor, file); n++) {
        if (!entry.key)
            continue;
        char *value = strdup(ini_get(file, entry.section, entry.sub, entry.key));
        char *section = strdup(entry.section);
        char *sub = entry.sub ? strdup(entry.sub) : NULL;
        char *key = strdup(entry.key);
        CHECK(ini_set(file, section, sub, key, value, NULL) == 0);
        CHECK(strcmp(ini_get(file, section, sub, key), value) == 0);
        free(value);
        free(section);
        free(sub);
        free(key);
    }
}

/* Uses the input as a value: what is accepted must come back. */
static void check_as_value(ini *file, const uint8_t *data, size_t size)
{
    char *value = malloc(size + 1);
    CHECK(value);
    memcpy(value, data, size);
    value[size] = 0;
    if (ini_set(file, "fuzz", "sub", "key", value, NULL) == 0)
        check_value_after_reread(file, value);
    free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ini *file = NULL;
    if (ini_parse(&file, (const char *)data, size, "input", NULL) == 0) {
        check_unchanged(file, data, size);

        check_set_to_own_value(file);
        check_as_value(file, data, size);
        CHECK(ini_remove_section(file, "fuzz", "sub") >= 1 || !ini_has_section(file, "fuzz", "sub"));
    }
    ini_free(file);

    file = NULL;
    CHECK(ini_parse(&file, "", 0, "empty", NULL) == 0);
    check_as_value(file, data, size);
    ini_free(file);
    return 0;
}

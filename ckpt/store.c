#include "feature.h"

#include "fail.h"
#include "ini.h"
#include "random.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STORE_VERSION   1
#define STORE_ID_SIZE   33 /* 128 random bits in hexadecimal */
#define STORE_NOTE_SIZE 1024
#define STORE_DIR       ".ckpt"
#define CONFIG_NAME     "config.ini"

/* The first text of config.ini; %s is the id of the store. */
static const char CONFIG_TEXT[] =
    "# A store of `ckpt`. Lines that begin with # are comments.\n"
    "\n"
    "[store]\n"
    "version = %d\n"
    "id = %s\n"
    "# The most that this folder may take, as 4G; empty: no limit. A save for which there is no room lets the policy\n"
    "# below make it, if that is enough, or is refused.\n"
    "quota =\n"
    "# Features that a program must know to open this store at all, to write to it, and those that do no harm.\n"
    "incompatible =\n"
    "read-only =\n"
    "compatible =\n"
    "\n"
    "[retention]\n"
    "# What `ckpt prune` keeps; nothing else removes a checkpoint by itself. Rules, separated by commas:\n"
    "#   last N                the N newest\n"
    "#   best N                the N best by the value that `best` names below\n"
    "#   best N by KEY min     the same by another value; or max\n"
    "#   every N steps         the first one at or after each multiple of N steps; or epochs, by the value `epoch`\n"
    "#   within 7d             those of the last 7 days; h and w too\n"
    "#   tagged                those with a tag\n"
    "# The newest good checkpoint stays whatever the rules say: before any is removed, its files are decoded and "
    "compared\n"
    "# with their SHA-256. This default fits a disk of 5 GB.\n"
    "keep = last 5, best 2, every 10000 steps, tagged\n"
    "# Which one is best: KEY of `ckpt save --meta KEY=VALUE`, then `max` or `min`.\n"
    "best = val_acc max\n";

/* ---- Paths ------------------------------------------------------------------------------------------------------ */

/* The folders of a store and where their paths stand in the struct. */
static const struct {
    const char *name;
    size_t member;
} FOLDERS[] = {
    {"packs", offsetof(ckpt_store, packs_dir)},   {"snapshots", offsetof(ckpt_store, snapshots_dir)},
    {"tags", offsetof(ckpt_store, tags_dir)},     {"intents", offsetof(ckpt_store, intents_dir)},
    {"tmp", offsetof(ckpt_store, tmp_dir)},       {"cache", offsetof(ckpt_store, cache_dir)},
    {"parity", offsetof(ckpt_store, parity_dir)}, {"damaged", offsetof(ckpt_store, damaged_dir)},
};
#define FOLDER_COUNT      (sizeof FOLDERS / sizeof FOLDERS[0])
#define FOLDER_MADE_COUNT (FOLDER_COUNT - 2) /* the others come when they are needed */

static int paths_fill(ckpt_store *store, const char *path, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(strlen(path) >= sizeof store->path, err, CKPT_EUSAGE, "%s: the path is too long", path);
    memcpy(store->path, path, strlen(path) + 1);
    for (size_t i = 0; i < FOLDER_COUNT; i++)
        TRY(path_join((char *)store + FOLDERS[i].member, path, FOLDERS[i].name, err));
    TRY(path_join(store->config_path, path, CONFIG_NAME, err));
out:
    return rc;
}

static int folders_make(const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < FOLDER_MADE_COUNT; i++)
        TRY(dir_make((const char *)store + FOLDERS[i].member, err));
out:
    return rc;
}

/* *kind is S_IFDIR, S_IFREG, ... or 0 when nothing is there. */
static int path_kind(mode_t *kind, const char *path, ckpt_error *err)
{
    struct stat st;

    *kind = 0;
    if (stat(path, &st) == 0)
        *kind = st.st_mode & S_IFMT;
    else if (errno != ENOENT && errno != ENOTDIR)
        return error_errno(err, errno, "look at %s", path);
    return 0;
}

/* ---- Configuration ---------------------------------------------------------------------------------------------- */

int store_config_read(ini **out, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL;
    size_t size;

    TRY(error_as_damage(file_read_all(&text, &size, store->config_path, INI_SIZE_MAX, err), err));
    TRY(ini_parse(out, text, size, store->config_path, err));
out:
    free(text);
    return rc;
}

int store_config_get(char **value, const ckpt_store *store, const char *section, const char *key, ckpt_error *err)
{
    int rc = 0;
    ini *config = NULL;
    const char *found;

    *value = NULL;
    TRY(store_config_read(&config, store, err));
    found = ini_get(config, section, NULL, key);
    if (found) {
        *value = strdup(found);
        FAIL_IF_NULL(*value, err);
    }
out:
    ini_free(config);
    return rc;
}

static int version_check(const ini *config, const char *path, ckpt_error *err)
{
    int rc = 0;
    const char *const text = ini_get(config, "store", NULL, "version");
    unsigned long version;

    FAIL_IF(!text, err, CKPT_EDATA, "%s has no [store] version: its folder is not a store", path);
    errno = 0;
    version = strtoul(text, NULL, 10);
    FAIL_IF(errno || *text == '0' || !*text || text[strspn(text, "0123456789")], err, CKPT_EDATA,
            "%s: `version = %s` is not a version", path, text);
    if (version > STORE_VERSION) {
        error_set(err, CKPT_EVERSION, "the store has format %lu, this program knows %d", version, STORE_VERSION);
        error_hint(err, "use a newer ckpt");
        rc = CKPT_EVERSION;
    }
out:
    return rc;
}

int store_config_check(const ini *config, const char *path, ckpt_error *err)
{
    int rc = 0, size = 0;

    TRY(version_check(config, path, err));
    const char *const unknown = feature_unknown(&size, ini_get(config, "store", NULL, "incompatible"));
    if (unknown) {
        rc = error_set(err, CKPT_EVERSION, "the store uses `%.*s`, which this program does not know", size, unknown);
        error_hint(err, "use a newer ckpt");
    }
out:
    return rc;
}

/* May this program open the store, and may it write to it? */
static int config_check(ckpt_store *store, ckpt_error *err)
{
    int rc = 0, size = 0;
    ini *config = NULL;

    TRY(store_config_read(&config, store, err));
    TRY(store_config_check(config, store->config_path, err));
    if (feature_unknown(&size, ini_get(config, "store", NULL, "read-only")))
        store->read_only = true;
    if (access(store->path, W_OK) && errno == EROFS)
        store->read_only = true;
out:
    ini_free(config);
    return rc;
}

/* ---- Creating --------------------------------------------------------------------------------------------------- */

int store_config_new(char **out, ckpt_error *err)
{
    int rc = 0;
    uint64_t high, low;
    char id[STORE_ID_SIZE];
    const size_t size = sizeof CONFIG_TEXT + sizeof id + 16;
    char *const text = malloc(size);

    FAIL_IF_NULL(text, err);
    TRY(random_u64(&high, err));
    TRY(random_u64(&low, err));
    snprintf(id, sizeof id, "%016" PRIx64 "%016" PRIx64, high, low);
    snprintf(text, size, CONFIG_TEXT, STORE_VERSION, id);
    *out = text;
out:
    if (rc)
        free(text);
    return rc;
}

static int config_write(const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL;
    file_tmp tmp = {.fd = -1};
    file_commit_plan plan = {0};

    TRY(store_config_new(&text, err));
    TRY(file_tmp_open(&tmp, store->tmp_dir, CONFIG_NAME, err));
    TRY(file_tmp_write(&tmp, text, strlen(text), err));
    /* Without `replace`: of two that create the store at once, the first one's id stays. */
    TRY(file_commit_add(&plan, &tmp, store->config_path, false, err));
    TRY(file_commit(&plan, err));
out:
    file_tmp_discard(&tmp);
    file_commit_discard(&plan);
    free(text);
    return rc;
}

int ckpt_store_init(bool *existed, const char *dir, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    mode_t kind;
    ckpt_store *store = calloc(1, sizeof *store); /* its paths are too large for small stacks */

    FAIL_IF_NULL(store, err);
    if (strcmp(path_base(dir), STORE_DIR) == 0)
        TRY(paths_fill(store, dir, err));
    else {
        TRY(path_join(path, dir, STORE_DIR, err));
        TRY(paths_fill(store, path, err));
    }
    TRY(path_kind(&kind, store->config_path, err));
    if (existed)
        *existed = kind != 0;
    if (kind) {
        TRY(config_check(store, err));
        goto out;
    }
    TRY(dir_make_all(store->path, err));
    TRY(folders_make(store, err));
    /* The configuration last: a store exists when it does, and what was cut short before is made again. */
    TRY(config_write(store, err));
out:
    free(store);
    return rc;
}

/* ---- Finding and opening ---------------------------------------------------------------------------------------- */

static int store_missing(ckpt_error *err, const char *where)
{
    error_set(err, CKPT_ENOSTORE, "no store %s", where);
    error_hint(err, "`ckpt init` makes one here, `-s PATH` names another");
    return CKPT_ENOSTORE;
}

/* Is there a .ckpt folder in `dir`? `out` is then its path. One whose creation was cut short is an error, not a reason
 * to go on and use some other store. */
static int store_in(bool *found, char out[FILE_PATH_MAX], const char *dir, ckpt_error *err)
{
    int rc = 0;
    mode_t kind;
    char config[FILE_PATH_MAX];

    TRY(path_join(out, dir, STORE_DIR, err));
    TRY(path_kind(&kind, out, err));
    *found = kind == S_IFDIR;
    if (!*found)
        goto out;
    TRY(path_join(config, out, CONFIG_NAME, err));
    TRY(path_kind(&kind, config, err));
    if (kind == 0) {
        rc = error_set(err, CKPT_ENOSTORE, "the store %s has no %s: its creation was cut short", out, CONFIG_NAME);
        error_hint(err, "`ckpt init %s` completes it", dir);
    }
out:
    return rc;
}

/* `path` is a store or the folder that holds one. */
static int store_find_at(char out[FILE_PATH_MAX], const char *path, ckpt_error *err)
{
    int rc = 0;
    bool found;
    mode_t kind;
    char config[FILE_PATH_MAX];

    TRY(store_in(&found, out, path, err));
    if (found)
        goto out;
    TRY(path_join(config, path, CONFIG_NAME, err));
    TRY(path_kind(&kind, config, err));
    if (kind == 0) {
        rc = error_set(err, CKPT_ENOSTORE, "no store at %s", path);
        error_hint(err, "`ckpt init %s` makes one there", path);
        goto out;
    }
    FAIL_IF(strlen(path) >= FILE_PATH_MAX, err, CKPT_EUSAGE, "%s: the path is too long", path);
    memcpy(out, path, strlen(path) + 1);
out:
    return rc;
}

static int store_find_upwards(char out[FILE_PATH_MAX], ckpt_error *err)
{
    int rc = 0;
    bool found = false;
    char dir[FILE_PATH_MAX];

    if (!getcwd(dir, sizeof dir)) {
        rc = error_errno(err, errno, "find the current folder");
        goto out;
    }
    for (;;) {
        TRY(store_in(&found, out, dir, err));
        char *const slash = strrchr(dir, '/');
        if (found || !slash || dir[1] == 0)
            break;
        slash[slash == dir ? 1 : 0] = 0; /* "/a" -> "/" */
    }
    if (!found)
        rc = store_missing(err, "here or in any folder above");
out:
    return rc;
}

/* Makes the path absolute, so that it stays right when the caller changes its folder. */
static int path_absolute(char out[FILE_PATH_MAX], ckpt_error *err)
{
    char *const real = realpath(out, NULL);
    int rc = 0;

    if (!real) {
        rc = error_errno(err, errno, "find %s", out);
        goto out;
    }
    FAIL_IF(strlen(real) >= FILE_PATH_MAX, err, CKPT_EUSAGE, "%s: the path is too long", out);
    memcpy(out, real, strlen(real) + 1);
out:
    free(real);
    return rc;
}

static int store_find(char out[FILE_PATH_MAX], const char *path, ckpt_error *err)
{
    int rc = 0;
    const char *const named = path ? path : getenv("CKPT_STORE");

    if (named && *named) {
        TRY(store_find_at(out, named, err));
        TRY(path_absolute(out, err));
    } else
        TRY(store_find_upwards(out, err));
out:
    return rc;
}

int store_options(void *own, size_t own_size, const void *given, ckpt_error *err)
{
    size_t size;

    if (!given)
        return 0;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size)
        return error_set(err, CKPT_EUSAGE, "the member `size` of an options struct is not set");
    memcpy(own, given, size < own_size ? size : own_size);
    memcpy(own, &own_size, sizeof own_size);
    return 0;
}

int ckpt_store_open(ckpt_store **out, const char *path, const ckpt_open_options *options, ckpt_error *err)
{
    int rc = 0;
    char found[FILE_PATH_MAX];
    ckpt_open_options own = {.size = sizeof own};
    ckpt_store *store = calloc(1, sizeof *store);

    *out = NULL;
    FAIL_IF_NULL(store, err);
    TRY(store_options(&own, sizeof own, options, err));
    TRY(store_find(found, path, err));
    TRY(paths_fill(store, found, err));
    TRY(config_check(store, err));
    store->threads = own.threads;
    store->progress = own.progress;
    store->note = own.note;
    store->warning = own.warning ? own.warning : own.note;
    store->payload = own.payload;
    TRY(pack_set_new(&store->packs, store->packs_dir, err));
    *out = store;
    store = NULL;
out:
    if (rc && err && !err->where[0])
        error_where(err, store && store->path[0] ? store->path : path ? path : "");
    ckpt_store_close(store);
    return rc;
}

void ckpt_store_close(ckpt_store *store)
{
    if (!store)
        return;
    pool_free(store->pool);
    pack_set_free(store->packs);
    free(store);
}

const char *ckpt_store_path(const ckpt_store *store)
{
    return store->path;
}

/* ---- For the other modules -------------------------------------------------------------------------------------- */

int store_pool(pool **out, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;

    if (!store->pool) {
        unsigned wanted = store->threads;
        if (wanted == 0)
            TRY(pool_threads_default(&wanted, err));
        TRY(pool_new(&store->pool, wanted < STORE_WORKERS_MAX ? wanted : STORE_WORKERS_MAX, err));
    }
    *out = store->pool;
out:
    return rc;
}

void store_packs_borrow(ckpt_store *store)
{
    store->pack_borrowers++;
}

void store_packs_return(ckpt_store *store)
{
    assert(store->pack_borrowers > 0);
    if (--store->pack_borrowers == 0)
        pack_set_trim(store->packs);
}

int store_writable(const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    mode_t kind;

    if (access(store->path, W_OK)) {
        rc = error_errno(err, errno, "write to the store %s", store->path);
        goto out;
    }
    /* Who removes a store while it is open does not see the folders that a save makes again, and nobody finds what is
     * in them. */
    TRY(path_kind(&kind, store->config_path, err));
    if (kind == 0) {
        rc = error_set(err, CKPT_ENOSTORE, "%s is no store any more: its %s is gone", store->path, CONFIG_NAME);
        error_hint(err, "`ckpt init %s` makes it one again, with all that is left", store->path);
        goto out;
    }
    if (store->read_only) {
        rc = error_set(err, CKPT_EVERSION, "the store uses features that this program can read but not write");
        error_hint(err, "use a newer ckpt; `grep read-only %s` names the features", store->config_path);
        goto out;
    }
    /* Copies made by other programs may have lost empty folders. */
    TRY(folders_make(store, err));
out:
    return rc;
}

__attribute__((format(printf, 3, 0))) static void tell(const ckpt_store *store, ckpt_note_fn listener,
                                                       const char *format, va_list args)
{
    char line[STORE_NOTE_SIZE];

    if (!listener)
        return;
    vsnprintf(line, sizeof line, format, args);
    listener(store->payload, line);
}

void store_note(const ckpt_store *store, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(store, store->note, format, args);
    va_end(args);
}

void store_warn(const ckpt_store *store, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(store, store->warning, format, args);
    va_end(args);
}

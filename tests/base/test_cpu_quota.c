#include "cpu_quota.h"

#include "file.h"
#include "temp_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Each test builds the two trees that the kernel would show: the list of groups, and what is mounted. */
static char dir[TEMP_PATH_MAX];

static int setup(void **state)
{
    (void)state;
    return temp_dir_make(dir);
}

static int teardown(void **state)
{
    (void)state;
    return temp_dir_remove(dir);
}

static void put(const char *name, const char *text)
{
    char path[FILE_PATH_MAX], parent[FILE_PATH_MAX];
    assert_int_equal(path_join(path, dir, name, NULL), 0);
    assert_int_equal(path_parent(parent, path, NULL), 0);
    assert_int_equal(dir_make_all(parent, NULL), 0);
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static unsigned quota(void)
{
    char own[FILE_PATH_MAX], root[FILE_PATH_MAX];
    assert_int_equal(path_join(own, dir, "own", NULL), 0);
    assert_int_equal(path_join(root, dir, "cgroup", NULL), 0);
    return cpu_quota(own, root);
}

static void version_2_is_rounded_up(void **state)
{
    (void)state;
    put("own", "0::/user/job\n");
    put("cgroup/user/job/cpu.max", "150000 100000\n");
    assert_int_equal(quota(), 2);
    put("cgroup/user/job/cpu.max", "200000 100000\n");
    assert_int_equal(quota(), 2);
    put("cgroup/user/job/cpu.max", "1000 100000\n");
    assert_int_equal(quota(), 1);
}

static void version_2_without_limit_gives_none(void **state)
{
    (void)state;
    put("own", "0::/job\n");
    put("cgroup/job/cpu.max", "max 100000\n");
    assert_int_equal(quota(), 0);
}

static void version_2_takes_the_smallest_limit_above(void **state)
{
    (void)state;
    put("own", "0::/user/job\n");
    put("cgroup/user/job/cpu.max", "800000 100000\n");
    put("cgroup/user/cpu.max", "300000 100000\n");
    put("cgroup/cpu.max", "max 100000\n");
    assert_int_equal(quota(), 3);
}

static void version_1_reads_quota_and_period(void **state)
{
    (void)state;
    put("own", "5:memory:/job\n4:cpuacct,cpu:/job\n3:cpuset:/job\n");
    put("cgroup/cpu/job/cpu.cfs_quota_us", "250000\n");
    put("cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota(), 3);
}

static void version_1_without_limit_gives_none(void **state)
{
    (void)state;
    put("own", "4:cpu:/job\n");
    put("cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    put("cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota(), 0);
}

static void a_container_that_sees_the_path_of_its_host_finds_its_own_group_at_the_root(void **state)
{
    (void)state;
    put("own", "4:cpu,cpuacct:/docker/0123456789ab\n");
    put("cgroup/cpu/cpu.cfs_quota_us", "400000\n");
    put("cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota(), 4);
}

static void a_group_outside_of_what_is_mounted_is_looked_for_at_the_root(void **state)
{
    (void)state;
    put("own", "0::/../other\n");
    put("other/cpu.max", "100000 100000\n");
    put("cgroup/cpu.max", "500000 100000\n");
    assert_int_equal(quota(), 5);
}

static void the_smaller_of_both_versions_counts(void **state)
{
    (void)state;
    put("own", "4:cpu:/job\n0::/job\n");
    put("cgroup/cpu/job/cpu.cfs_quota_us", "600000\n");
    put("cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    put("cgroup/job/cpu.max", "700000 100000\n");
    assert_int_equal(quota(), 6);
}

static void nonsense_counts_as_no_limit(void **state)
{
    (void)state;
    static const char *const NONSENSE[] = {
        "", "\n", "-5 100000\n", "5\n", "100000 0\n", "0 100000\n", "99999999999999999999999 1\n", "100000000000 1\n",
    };
    put("own", "0::/job\n");
    for (size_t i = 0; i < sizeof NONSENSE / sizeof NONSENSE[0]; i++) {
        put("cgroup/job/cpu.max", NONSENSE[i]);
        assert_int_equal(quota(), 0);
    }
    put("own", "nonsense\n:\n::\n0:\n0::x\n");
    assert_int_equal(quota(), 0);
}

static void without_control_groups_there_is_no_limit(void **state)
{
    (void)state;
    assert_int_equal(quota(), 0);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(version_2_is_rounded_up),
        IN_DIR(version_2_without_limit_gives_none),
        IN_DIR(version_2_takes_the_smallest_limit_above),
        IN_DIR(version_1_reads_quota_and_period),
        IN_DIR(version_1_without_limit_gives_none),
        IN_DIR(a_container_that_sees_the_path_of_its_host_finds_its_own_group_at_the_root),
        IN_DIR(a_group_outside_of_what_is_mounted_is_looked_for_at_the_root),
        IN_DIR(the_smaller_of_both_versions_counts),
        IN_DIR(nonsense_counts_as_no_limit),
        IN_DIR(without_control_groups_there_is_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

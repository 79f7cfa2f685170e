#include "metric_history.h"

#include "file.h"

#include <jansson.h>
#include <stdlib.h>

void metric_history_take(metric *metrics, size_t count, const char *folder)
{
    char path[FILE_PATH_MAX], *text = NULL;
    size_t size = 0;
    json_t *object = NULL;

    if (path_join(path, folder, "trainer_state.json", NULL) ||
        file_read_all(&text, &size, path, METRIC_HISTORY_BYTES_MAX, NULL))
        return;
    object = json_loadb(text, size, 0, NULL); /* which goes down 2048 levels at most */
    const json_t *const history = json_object_get(object, "log_history");
    for (size_t i = 0; i < count; i++)
        for (size_t k = json_array_size(history); metrics[i].plain && k-- > 0;)
            if (metric_line_take_member(&metrics[i], json_array_get(history, k)))
                break;
    json_decref(object);
    free(text);
}

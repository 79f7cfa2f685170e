/* File locks: whether a process still works on a file, told by a lock that the kernel drops with its holder. */
#ifndef BASE_FILE_LOCK_H
#define BASE_FILE_LOCK_H

typedef enum file_lock_answer {
    FILE_LOCK_FREE,
    FILE_LOCK_HELD,
    FILE_LOCK_UNSUPPORTED /* nothing can be said: a network file system, or one without locks */
} file_lock_answer;

/* Takes an OFD lock on the whole file, open for writing, until fd and its duplicates are closed; does not wait. */
file_lock_answer file_lock_take(int fd);
/* Only asks; a descriptor for reading will do. */
file_lock_answer file_lock_look(int fd);

#endif

#!/usr/bin/env python3
"""House rules that a compiler does not check: see CONTRIBUTING.md.

check_source.py [ROOT]       prints every breach as FILE:LINE: what; ends with 1 when there is one
check_source.py --self-test  shows that each rule can fail
"""
import os
import re
import sys
import tempfile
from pathlib import Path

LINES_MAX = 600
LINES_MAX_OF = {"tools/python/ckpt.py": 910}  # one file by design: people copy it
COLUMNS_MAX = 120

# Which folders a folder's own headers and sources may include from. Program and tests see libraries by their public
# headers: those are checked as <ckpt/NAME.h>.
ARROWS = {
    "base": {"base"},
    "ckpt": {"ckpt", "base"},
    "core": {"core", "base"},
    "core/reference": {"core/reference", "core", "base"},
    "core/cpu": {"core/cpu", "core", "base"},
    "tools/run": {"tools/run", "base"},
    "tools": {"tools", "tools/run", "base"},
    "tests/base": {"tests/base", "tests", "base"},
    "tests/ckpt": {"tests/ckpt", "tests", "ckpt", "base"},
    "tests/core": {"tests/core", "tests", "core", "core/reference", "core/cpu", "base"},
    "tests/crash": {"tests/crash", "tests", "ckpt", "base"},
    "tests/fuzz": {"tests/fuzz", "tests", "ckpt", "core", "tools/run", "base"},
    "tests/run": {"tests/run", "tests", "tools/run", "base"},
    "tests/tools": {"tests/tools", "tests", "tools", "base"},
    "tests": {"tests", "base"},
}
# A folder not named here may include every public header.
PUBLIC_OF = {"base": {"error.h"}, "ckpt": {"error.h", "store.h", "export.h", "stats.h"}, "tools/run": {"error.h", "store.h"}}
LIBRARIES = {"base", "ckpt", "core", "tools/run"}
SHIMS = {"oneapi/": "core/cpu/onednn_api.h"}  # headers that one file alone includes

BANNED_EVERYWHERE = (
    "strcpy strcat sprintf vsprintf atoi atol atof strtok gets system popen alloca sscanf tmpnam mktemp".split())
BANNED_IN_LIBRARIES = "printf puts putchar perror exit _exit quick_exit".split()
RENAMES = "rename renameat renameat2 link linkat symlink symlinkat".split()
RENAMES_ALLOWED = {"base/file_commit.c": set(RENAMES), "base/lease_record.c": {"link"}}

# Spelled so that this file does not break its own rule.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "TB" + "D")) + r")\b|"
                        + r"not (yet )?imple" + r"mented|place" + r"holder", re.IGNORECASE)
# How the work was organised is nothing that a reader of the source needs.
ORGANISED = re.compile(r"\b(" + "|".join(("the iss" + "ue's", "this iss" + "ue", r"iss" + r"ue #?\d", "first b" + "ar of",
                                          "mile" + "stone", "review" + "er", "acceptance crit" + "eri", "design's a" + "im",
                                          "the project's measure" + "ments")) + r")", re.IGNORECASE)
MACHINE_PATH = re.compile(r"(?<![\w.$}/])/(work|home|root|Users)/\w")

TEXT_SUFFIXES = {".c", ".h", ".py", ".sh", ".md", ".txt", ".cmake", ".map", ".in", ".json", ".ini", ""}
CODE_SUFFIXES = {".c", ".h", ".py", ".sh"}
SKIPPED_FOLDERS = {".git", "__pycache__", "golden", "seeds"}
SKIPPED_TEXT = {"LICENSE"}
# Files that each folder may have one of.
COMMON_NAMES = {"CMakeLists.txt", "README.md", "cmd", "setup", "__init__.py"}


def is_build_folder(path):
    return path.name == "build" or path.name.startswith("build-") or (path / "CMakeCache.txt").exists()


def files_below(root):
    """Paths relative to root of all files that belong to the source, sorted."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS and not is_build_folder(Path(folder, f)))
        found += [Path(folder, name).relative_to(root) for name in names]
    return sorted(found)


def without_comments(text, keep_strings=False):
    """C text with comments, and unless asked the inside of strings, blanked; lines stay where they are."""
    def blank(match):
        token = match.group(0)
        if token[0] in "\"'":
            return token if keep_strings else token[0] + token[-1]
        return "\n" * token.count("\n") or " "
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def folder_of(path):
    """The folder whose arrows hold for a file: base/include/ckpt/error.h belongs to base."""
    parts = path.parts[:-1]
    for depth in range(len(parts), 0, -1):
        if "/".join(parts[:depth]) in ARROWS:
            return "/".join(parts[:depth])
    return None


class Check:
    def __init__(self, root):
        self.root = Path(root)
        self.files = files_below(self.root)
        self.faults = []

    def fault(self, path, line, what):
        self.faults.append(f"{path}:{line}: {what}")

    def run(self):
        self.names_are_unique()
        for path in self.files:
            if path.suffix not in TEXT_SUFFIXES or path.name in SKIPPED_TEXT:
                continue
            try:
                text = (self.root / path).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                if path.suffix in CODE_SUFFIXES:
                    self.fault(path, 1, "is not UTF-8")
                continue
            self.text_is_clean(path, text)
            lines_max = LINES_MAX_OF.get(path.as_posix(), LINES_MAX)
            if path.suffix in CODE_SUFFIXES and text.count("\n") > lines_max:
                self.fault(path, lines_max, f"has more than {lines_max} lines: it holds two nouns")
            if path.suffix in {".c", ".h"}:
                self.functions_are_allowed(path, without_comments(text))
                self.includes_follow_arrows(path, without_comments(text, keep_strings=True))
            if path.suffix == ".h":
                self.header_has_guard(path, text)
            if path.suffix == ".md":
                self.links_lead_somewhere(path, text)
        self.errors_are_documented()
        return self.faults

    def names_are_unique(self):
        first = {}
        for path in self.files:
            if path.suffix not in CODE_SUFFIXES or path.name in COMMON_NAMES:
                continue
            if path.name in first:
                self.fault(path, 1, f"has the name of {first[path.name]}")
            first.setdefault(path.name, path)

    def text_is_clean(self, path, text):
        if text and not text.endswith("\n"):
            self.fault(path, text.count("\n") + 1, "last line has no end")
        for number, line in enumerate(text.split("\n"), 1):
            if "\t" in line and path.suffix != "":
                self.fault(path, number, "tab")
            if line != line.rstrip():
                self.fault(path, number, "blank at the end of a line")
            if path.suffix in {".c", ".h"} and len(line) > COLUMNS_MAX:
                self.fault(path, number, f"more than {COLUMNS_MAX} columns")
            if UNFINISHED.search(line):
                self.fault(path, number, "word of unfinished work")
            if ORGANISED.search(line):
                self.fault(path, number, "word on how the work was organised")
            if MACHINE_PATH.search(line):
                self.fault(path, number, "path of one machine")

    def functions_are_allowed(self, path, code):
        folder = "tools/run" if path.parts[:2] == ("tools", "run") else path.parts[0]
        banned = set(BANNED_EVERYWHERE)
        if folder in LIBRARIES:
            banned |= set(BANNED_IN_LIBRARIES)
        if folder in LIBRARIES | {"tools"}:
            banned |= set(RENAMES) - RENAMES_ALLOWED.get(path.as_posix(), set())
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(sorted(banned)) + r")\s*\(")
        for number, line in enumerate(code.split("\n"), 1):
            for match in pattern.finditer(line):
                self.fault(path, number, f"{match.group(1)}() is banned")
            if folder in LIBRARIES and re.search(r"\b(fprintf|fputs|fputc|fwrite|vfprintf)\b.*\b(stdout|stderr)\b", line):
                self.fault(path, number, "a library prints")

    def includes_follow_arrows(self, path, code):
        folder = folder_of(path)
        if folder is None:
            return
        homes = {p.name: folder_of(p) for p in self.files if p.suffix == ".h"}
        for number, line in enumerate(code.split("\n"), 1):
            match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
            if not match:
                continue
            quote, name = match.groups()
            if quote == "<":
                allowed = PUBLIC_OF.get(folder)
                for prefix, shim in SHIMS.items():
                    if name.startswith(prefix) and path.as_posix() != shim:
                        self.fault(path, number, f"only {shim} may include <{name}>")
                if name.startswith("ckpt/") and allowed is not None and name[len("ckpt/"):] not in allowed:
                    self.fault(path, number, f"{folder} may not include <{name}>")
            elif "/" in name:
                self.fault(path, number, f'"{name}": include by file name alone')
            elif name not in homes:
                self.fault(path, number, f'"{name}" is in no folder of this tree')
            elif homes[name] not in ARROWS[folder]:
                self.fault(path, number, f'{folder} may not include "{name}" of {homes[name]}')

    def header_has_guard(self, path, text):
        stem = re.sub(r"\W", "_", path.name).upper()
        code = without_comments(text).lstrip()
        match = re.match(r"#ifndef (\w+)\n#define (\w+)\n", code)
        if not match or match.group(1) != match.group(2) or not match.group(1).endswith(stem):
            self.fault(path, 1, f"has no include guard that ends in {stem}")

    def links_lead_somewhere(self, path, text):
        for number, line in enumerate(text.split("\n"), 1):
            for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", line):
                if not (self.root / path.parent / target).exists():
                    self.fault(path, number, f"link to {target}, which does not exist")

    def errors_are_documented(self):
        header, table = (self.root / name for name in ("base/include/ckpt/error.h", "docs/errors.md"))
        if not header.exists():
            return
        codes = re.findall(r"^    (CKPT_\w+) = (\d+)", header.read_text(encoding="utf-8"), flags=re.M)
        rows = table.read_text(encoding="utf-8") if table.exists() else ""
        for name, code in codes:
            if f"| {int(code) // 10} | {code} | `{name}` |" not in rows:
                self.fault("docs/errors.md", 1, f"has no row for {name}, code {code}")


# Each row: the rule's words in the message, and a tree that breaks it.
SELF_TESTS = [
    ("strcpy() is banned", {"base/a.c": "void f(void)\n{\n    strcpy(a, b);\n}\n"}),
    ("printf() is banned", {"ckpt/a.c": 'void f(void)\n{\n    printf("x");\n}\n'}),
    ("exit() is banned", {"base/a.c": "void f(void)\n{\n    exit(1);\n}\n"}),
    ("a library prints", {"base/a.c": 'void f(void)\n{\n    fprintf(stderr, "x");\n}\n'}),
    ("rename() is banned", {"ckpt/a.c": "void f(void)\n{\n    rename(a, b);\n}\n"}),
    ("rename() is banned", {"base/lease_record.c": "void f(void)\n{\n    rename(a, b);\n}\n"}),
    ("link() is banned", {"base/file.c": "void f(void)\n{\n    link(a, b);\n}\n"}),
    ("more than 600 lines", {"base/a.c": "int x;\n" * 601}),
    ("more than 120 columns", {"base/a.c": "int " + "x" * 120 + ";\n"}),
    ("has the name of", {"base/a.c": "int x;\n", "ckpt/a.c": "int y;\n"}),
    ("base may not include \"pack.h\" of ckpt",
     {"base/a.c": '#include "pack.h"\n', "ckpt/pack.h": "#ifndef CKPT_PACK_H\n#define CKPT_PACK_H\n#endif\n"}),
    ("tools may not include \"pack.h\" of ckpt",
     {"tools/a.c": '#include "pack.h"\n', "ckpt/pack.h": "#ifndef CKPT_PACK_H\n#define CKPT_PACK_H\n#endif\n"}),
    ("tools/run may not include \"session.h\" of tools",
     {"tools/run/a.c": '#include "session.h"\n',
      "tools/session.h": "#ifndef TOOLS_SESSION_H\n#define TOOLS_SESSION_H\n#endif\n"}),
    ("tools/run may not include <ckpt/train.h>", {"tools/run/a.c": "#include <ckpt/train.h>\n"}),
    ("base may not include <ckpt/store.h>", {"base/a.c": "#include <ckpt/store.h>\n"}),
    ("ckpt may not include <ckpt/train.h>", {"ckpt/a.c": "#include <ckpt/train.h>\n"}),
    ("core may not include \"pack.h\" of ckpt",
     {"core/a.c": '#include "pack.h"\n', "ckpt/pack.h": "#ifndef CKPT_PACK_H\n#define CKPT_PACK_H\n#endif\n"}),
    ("only core/cpu/onednn_api.h may include", {"core/cpu/a.c": "#include <oneapi/dnnl/dnnl.h>\n"}),
    ("include by file name alone", {"ckpt/a.c": '#include "../base/a.h"\n'}),
    ("is in no folder of this tree", {"ckpt/a.c": '#include "b.h"\n'}),
    ("no include guard", {"base/a.h": "int x;\n"}),
    ("no include guard", {"base/a.h": "#ifndef BASE_B_H\n#define BASE_B_H\n#endif\n"}),
    ("tab", {"base/a.c": "int\tx;\n"}),
    ("blank at the end", {"base/a.c": "int x; \n"}),
    ("last line has no end", {"base/a.c": "int x;"}),
    ("word of unfinished work", {"base/a.c": "/* TO" "DO: later */\n"}),
    ("how the work was organised", {"tools/a.h": "/* `bar` is the iss" "ue's aim */\n"}),
    ("path of one machine", {"docs/a.md": "see /ho" "me/me/notes\n"}),
    ("which does not exist", {"README.md": "see [format](docs/format.md)\n"}),
    ("no row for CKPT_EDATA", {"base/include/ckpt/error.h":
                               "#ifndef CKPT_ERROR_H\n#define CKPT_ERROR_H\nenum {\n    CKPT_EDATA = 30,\n};\n#endif\n",
                               "docs/errors.md": "| 3 | 31 | `CKPT_EDATA` | wrong number |\n"}),
    ("is not UTF-8", {"base/a.c": b"/* \xff */\n"}),
]
CLEAN_TREE = {
    "base/file_commit.c": '/* strcpy( is only named here */\nint f(void)\n{\n    return rename("system(", "b");\n}\n',
    "base/lease_record.c": "int f(void)\n{\n    return link(a, b);\n}\n",
    "base/file.h": "/* File. */\n#ifndef BASE_FILE_H\n#define BASE_FILE_H\n#endif\n",
    "ckpt/a.c": '#include "file.h"\n#include <ckpt/store.h>\n\nint x = sizeof(snprintf(p, 1, "%d", 1));\n',
    "tools/main.c": '#include "file.h"\n\nint main(void)\n{\n    printf("x");\n}\n',
}


def breaches_of(tree):
    with tempfile.TemporaryDirectory() as root:
        for name, text in tree.items():
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Check(root).run()


def self_test():
    failed = [f"a clean tree: {fault}" for fault in breaches_of(CLEAN_TREE)]
    for words, tree in SELF_TESTS:
        if not any(words in fault for fault in breaches_of(tree)):
            failed.append(f"not found: {words}")
    for line in failed:
        print(line)
    print(f"{len(SELF_TESTS) + 1} rules tried, {len(failed)} failed")
    return 1 if failed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    check = Check(root)
    faults = check.run()
    for fault in faults:
        print(fault)
    print(f"{len(check.files)} files checked, {len(faults)} breaches of house rules")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

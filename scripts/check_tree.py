#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of the tree that no compiler checks: layers, includes, lengths, coroutine safety, forgotten tests,
links between pages. Standard library only.

usage: check_tree.py [ROOT]            prints one line per broken rule, exits 1 if there is any
       check_tree.py --rooms [ROOT]    prints the lines of each room, product and tests
"""
import os
import re
import subprocess
import sys

from check_links import check_links

LAYERS = ["rendezvous", "worker_sdk", "agent", "launcher"]  # each may include those before it, never after
MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 450
MAX_CLASS_LINES = 450  # its body and its functions
# A reader finds a function in the source of the header that declares it. These sources have no header of their name, and why.
WITHOUT_HEADER = {
    "worker_sdk/muster_train/train_cifar10.cpp": "a program",
    "worker_sdk/nn/cpu/map_kernels_avx2.cpp": "map_kernels.hpp and row_kernels.hpp for an instruction set",
    "worker_sdk/nn/cpu/map_kernels_avx512.cpp": "map_kernels.hpp and row_kernels.hpp for an instruction set",
    "worker_sdk/nn/cpu/map_kernels_base.cpp": "map_kernels.hpp and row_kernels.hpp for an instruction set",
    "worker_sdk/nn/gpu/cuda/kernels.cu": "what NVRTC compiles, found by its names",
    "worker_sdk/nn/gpu/cuda/plugin.cpp": "the entry of a shared object",
    "worker_sdk/abi": "the C interface by topic, declared in include/muster/abi",
    "worker_sdk/examples": "programs",
    "launcher/main.cpp": "a program",
    "worker_sdk/comm/gloo/plugin.cpp": "the entry of a shared object",
    "worker_sdk/comm/mpi/plugin.cpp": "the entry of a shared object",
    "worker_sdk/comm/nccl/plugin.cpp": "the entry of a shared object",
    "launcher/nodes/direct_node.cpp": "is to become a node like the others",
    "launcher/nodes/started_nodes.cpp": "one of two ways to run a job's nodes, declared together",
    "rendezvous/core/coordinator_requests.cpp": "a part of Coordinator",
    "rendezvous/core/coordinator_rounds.cpp": "a part of Coordinator",
    "worker_sdk/comm/message/collectives.cpp": "a part of MessageGroup",
    "worker_sdk/comm/message/reductions.cpp": "a part of MessageGroup",
    "worker_sdk/comm/message/ring.cpp": "a part of MessageGroup",
    "worker_sdk/comm/message/sends_and_receives.cpp": "a part of MessageGroup",
    "worker_sdk/comm/message/tree.cpp": "a part of MessageGroup",
    "worker_sdk/comm/nccl/watchdog.cpp": "a part of nccl::Group",
    "worker_sdk/comm/shm/collectives.cpp": "a part of ShmBackend",
    "worker_sdk/comm/shm/reductions.cpp": "a part of ShmBackend",
    "worker_sdk/comm/reduce_kernels_avx2.cpp": "reduce_kernels.hpp for an instruction set",
    "worker_sdk/comm/reduce_kernels_avx512.cpp": "reduce_kernels.hpp for an instruction set",
    "worker_sdk/comm/reduce_kernels_base.cpp": "reduce_kernels.hpp for an instruction set",
}
# In these rooms a class stands in one source and has at most MAX_CLASS_LINES, but for these, and why.
CLASS_ROOMS = ("launcher/", "agent/", "rendezvous/", "worker_sdk/comm/", "worker_sdk/muster_train/", "worker_sdk/nn/", "worker_sdk/parallel/")
LARGE_CLASSES = {
    "muster::rendezvous::Coordinator": "one state machine: its requests, its rounds and the rest stand in a source each",
    "muster::launcher::NodeFleet": "one source holds what leads to the nodes, their links and the time; its header tells the events",
    "muster::agent::WorkerOutput": "one object holds all streams of a node; routes, pumps, writers and filters are classes of their own",
    "muster::message::MessageGroup": "one source for each algorithm, over the same messages",
    "muster::shm::ShmBackend": "calls that move data, and calls that combine it, over the same memory",
    "muster::nccl::Group": "the calling thread's part, and the watchdog thread's",
}
# One of these costs seconds of compile time; a file that reaches two is over the budget.
HEAVY = {"Asio": r"boost/asio", "CLI11": r"CLI/", "json.hpp": r"nlohmann/json\.hpp", "Boost.Process": r"boost/process"}
STANDARD_HEADER = re.compile(r"<([a-z_0-9]+|stddef\.h|stdint\.h)>$")
POSIX_IN_CORE = {"<signal.h>", "<string.h>", "<strings.h>", "<unistd.h>"}  # names of signals, environ; no input or output
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(<[^>]+>|"[^"]+")', re.M)
LICENCE = "SPDX-License-Identifier: Apache-2.0"
CPP = (".cpp", ".hpp", ".h", ".c", ".cu", ".cuh")
CATCH2 = ("tests/support/catch.hpp", "tests/support/test_main.cpp")  # where it is known whether this is Catch2 2 or 3


def tracked_paths(root):
    """The path of every file that git tracks or would track."""
    listing = ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"]
    return [path for path in subprocess.run(listing, check=True, capture_output=True, text=True).stdout.splitlines()
            if os.path.exists(os.path.join(root, path))]


def tracked_files(root):
    """Text of each of them, by its path."""
    files = {}
    for path in tracked_paths(root):
        try:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                files[path] = file.read()
        except UnicodeDecodeError:
            continue  # a binary file
    return files


def without_comments_and_strings(text):
    """The same text with comments and literals blanked, every line where it was."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.S)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def resolve(include, path, files):
    """The file of ours that an include line of `path` names, or None."""
    name = include.strip('<>"')
    candidates = [name, os.path.normpath(os.path.join(os.path.dirname(path), name)), "worker_sdk/include/" + name]
    return next((candidate for candidate in candidates if candidate in files), None)


def include_graph(files):
    return {path: [(i, resolve(i, path, files)) for i in INCLUDE.findall(text)]
            for path, text in files.items() if path.endswith(CPP)}


def room(path):
    """The folder of a file; a file that lies directly in a layer is a room of its own, with its header."""
    folder = os.path.dirname(path)
    return os.path.splitext(path)[0] if folder in LAYERS else folder


def whole_room(path):
    """The room with all folders below it: launcher/start for launcher/start/core."""
    return "/".join(room(path).split("/")[:2])


def check_layers(graph):
    """Arrows between the four layers run one way, and the rooms below them form no cycle: neither folder by folder nor
    when the folders below a room count as the room."""
    folders, wholes = {}, {}
    for path, includes in graph.items():
        layer = path.split("/")[0]
        for _, target in includes:
            if target is None or layer not in LAYERS:
                continue
            target_layer = target.split("/")[0]
            if target_layer not in LAYERS or LAYERS.index(target_layer) > LAYERS.index(layer):
                yield f"{path}: includes {target}: '{layer}' must not know '{target_layer}'"
            for edges, place in ((folders, room), (wholes, whole_room)):
                if place(target) != place(path):
                    edges.setdefault(place(path), {}).setdefault(place(target), path)
    yield from dict.fromkeys([*find_cycles(folders), *find_cycles(wholes)])


def find_cycles(edges):
    done = set()

    def visit(folder, trail):
        if folder in trail:
            cycle = trail[trail.index(folder):] + [folder]
            yield f"{edges[cycle[0]][cycle[1]]}: closes a cycle: {' -> '.join(cycle)}"
        elif folder not in done:
            for target in sorted(edges.get(folder, {})):
                yield from visit(target, trail + [folder])
            done.add(folder)

    for folder in sorted(edges):
        yield from visit(folder, [])


def check_third_party(graph, files):
    """Cores use the standard library (and JSON in sources and *_json.hpp) and read no clock; public SDK headers need nothing installed."""
    for path, includes in graph.items():
        core, public = "/core/" in path and not path.startswith("tests/"), path.startswith("worker_sdk/include/")
        if not core and not public:
            continue
        for include, target in includes:
            allowed = target is not None or STANDARD_HEADER.match(include) or (
                core and (include in POSIX_IN_CORE or (path.endswith((".cpp", "_json.hpp")) and "nlohmann/json" in include
                                                       and not path.startswith("rendezvous/"))))
            if not allowed:
                yield f"{path}: includes {include}: a {'core' if core else 'public header'} uses the standard library only"
        code = without_comments_and_strings(files[path]) if core else ""
        if re.search(r"_clock::now\b", code):
            yield f"{path}: reads a clock: a core gets the time as an argument"
        if re.search(r"\blog(_debug|_info|_warning|_error)?\((?!\))", code) and "log/log.hpp" in files[path]:
            yield f"{path}: logs: a core returns what should be said"


def check_heavy(graph):
    """A translation unit reaches at most one of the headers that cost seconds."""
    for path in graph:
        if not path.endswith((".cpp", ".cu")):
            continue
        reached, queue, seen = set(), [path], set()
        while queue:
            current = queue.pop()
            for include, target in graph.get(current, []):
                reached |= {name for name, pattern in HEAVY.items() if re.match('[<"]' + pattern, include)}
                if target is not None and target not in seen:
                    seen.add(target)
                    queue.append(target)
        if len(reached) > 1:
            yield f"{path}: compiles {' and '.join(sorted(reached))}: split it, one heavy header per file"


def awaited_expression(code, start):
    """The rest of the full expression after a co_await: up to its ';' or the ')' that encloses it."""
    depth = 0
    for end in range(start, len(code)):
        depth += (code[end] in "([{") - (code[end] in ")]}")
        if depth < 0 or (depth == 0 and code[end] == ";"):
            return code[start:end]
    return code[start:]


def check_coroutines(files):
    """g++ 12 destroys braced temporaries and closures twice inside co_await; a detached coroutine loses its error."""
    for path, text in files.items():
        if not path.endswith(CPP):
            continue
        code = without_comments_and_strings(text)
        for match in re.finditer(r"\bco_await\b", code):
            expression = awaited_expression(code, match.end())
            expression = re.sub(r"\[\s*\]\s*(\([^()]*\))?[^{};]*\{[^{}]*\}", "", expression)  # captures nothing: fine
            line = code.count("\n", 0, match.start()) + 1
            if "{" in expression:
                yield f"{path}:{line}: co_await with a braced temporary or a lambda: name it on the line above"
        for match in re.finditer(r"\bdetached\b", code):
            if "asio" in text.lower():
                yield f"{path}:{code.count(chr(10), 0, match.start()) + 1}: detached: pass a completion handler"


def check_text(files):
    """Lengths, trailing blanks, licence lines and forgotten notes."""
    for path, text in files.items():
        lines = text.split("\n")
        if path.endswith(CPP + (".py", ".sh")) and len(lines) - 1 > MAX_FILE_LINES:
            yield f"{path}: {len(lines) - 1} lines, at most {MAX_FILE_LINES}"
        if path.endswith(CPP) and lines[0] not in ("// " + LICENCE, f"/* {LICENCE} */"):
            yield f"{path}:1: the first line must be the SPDX line"
        for number, line in enumerate(lines, 1):
            if line != line.rstrip() and not path.endswith((".patch", ".diff")):
                yield f"{path}:{number}: trailing white space"
            if "TODO" + "(now)" in line:
                yield f"{path}:{number}: an open note: do it or make it an issue"


def check_tests(files):
    """Every C++ file of tests is compiled: a CMakeLists.txt names it, by its path from there."""
    named = set()
    for path, text in files.items():
        if os.path.basename(path) == "CMakeLists.txt":
            for name in re.findall(r"[\w./-]+\.cpp\b", re.sub(r"#[^\n]*", "", text)):
                named.add(os.path.normpath(os.path.join(os.path.dirname(path), name)))
    for path in sorted(files):
        if path.startswith("tests/") and path.endswith("_test.cpp") and path not in named:
            yield f"{path}: no CMakeLists.txt names it, so its tests never run: add it to the SOURCES of a test"


def check_catch2(files):
    """Names that Catch2 2 and 3 have in different places, or for different things (Contains), come from one header."""
    for path, text in files.items():
        if not path.endswith(CPP) or not path.startswith("tests/") or path in CATCH2:
            continue
        code = without_comments_and_strings(text)
        for match in [*re.finditer(r"\bCatch::", code), *re.finditer(r"#[ \t]*include[ \t]*<catch2/", code)]:
            yield f"{path}:{code.count(chr(10), 0, match.start()) + 1}: names Catch2's own: use what {CATCH2[0]} gives, or add it there"


class Tag:
    """A function, declaration or class that universal-ctags finds in a file of the product."""

    def __init__(self, line):
        self.name, self.path, _, self.kind, *fields = line.split("\t")
        fields = dict(field.split(":", 1) for field in fields if ":" in field)
        self.begin, self.end = int(fields["line"]), int(fields.get("end", fields["line"]))
        self.lines = self.end - self.begin + 1
        self.outer = fields.get("class") or fields.get("struct") or ""  # the class that it is a part of
        self.scope = self.outer or fields.get("namespace") or ""

    def __contains__(self, other):
        return self.path == other.path and self.begin <= other.begin and other.end <= self.end


def tags_of(root, files):
    sources = [path for path in files if path.endswith(CPP) and path.split("/")[0] in LAYERS]
    command = ["ctags", "-L", "-", "-f", "-", "--excmd=number", "--fields=+ne", "--kinds-C=f", "--kinds-C++=fpcs",
               "--langmap=C++:+.cu.cuh"]
    output = subprocess.run(command, cwd=root, input="\n".join(sources), capture_output=True, text=True, check=True).stdout
    return [Tag(line) for line in output.splitlines()]


def check_function_length(tags):
    """Functions fit a screen."""
    for tag in tags:
        if tag.kind == "f" and tag.lines > MAX_FUNCTION_LINES:
            yield f"{tag.path}:{tag.begin}: {tag.name} has {tag.lines} lines, at most {MAX_FUNCTION_LINES}"


def is_listed(path, exceptions):
    return any(path == exception or path.startswith(exception + "/") for exception in exceptions)


def check_headers(files, tags):
    """A source has a header of its own name, and defines what no other header declares."""
    declared = {}
    for tag in tags:
        if tag.kind == "p" and not tag.outer:
            declared.setdefault((tag.scope, tag.name), set()).add(os.path.splitext(tag.path)[0])
    for path in files:
        stem, kind = os.path.splitext(path)
        if kind not in (".cpp", ".c", ".cu") or path.split("/")[0] not in LAYERS or is_listed(path, WITHOUT_HEADER):
            continue
        if not any(stem + ending in files for ending in (".hpp", ".h", ".cuh")):
            yield f"{path}: has no header of its own name: give it one, or move what it holds to the source of the header that declares it"
    for tag in tags:
        stem, headers = os.path.splitext(tag.path)[0], declared.get((tag.scope, tag.name), set())
        if tag.kind == "f" and not tag.outer and tag.path.endswith(".cpp") and headers and stem not in headers \
                and not is_listed(tag.path, WITHOUT_HEADER):
            yield f"{tag.path}:{tag.begin}: {tag.name} is declared in {min(headers)}.hpp: it belongs into the source of that name"


def check_classes(tags):
    """A class stands in one source and can be read whole."""
    in_rooms = [tag for tag in tags if tag.path.startswith(CLASS_ROOMS)]
    for one in in_rooms:
        if one.kind not in ("c", "s") or one.outer:
            continue
        name = f"{one.scope}::{one.name}" if one.scope else one.name
        functions = [tag for tag in in_rooms if tag.kind == "f" and (tag.scope + "::").startswith(name + "::") and tag not in one]
        sources = {tag.path for tag in functions if tag.path.endswith(".cpp")}
        lines = one.lines + sum(tag.lines for tag in functions)
        if name in LARGE_CLASSES:
            continue
        if len(sources) > 1:
            yield f"{one.path}:{one.begin}: {one.name} stands in {', '.join(sorted(sources))}: let it stand in one, or split it"
        if lines > MAX_CLASS_LINES:
            yield f"{one.path}:{one.begin}: {one.name} has {lines} lines, at most {MAX_CLASS_LINES}"


def check(root):
    files = tracked_files(root)
    graph = include_graph(files)
    tags = tags_of(root, files)
    return [*check_layers(graph), *check_third_party(graph, files), *check_heavy(graph), *check_coroutines(files),
            *check_text(files), *check_tests(files), *check_catch2(files), *check_function_length(tags), *check_headers(files, tags),
            *check_classes(tags), *check_links(tracked_paths(root), files)]


def print_rooms(root):
    """Lines of C, C++ and CUDA, and of Python for tests, by the two upper folders; a file directly in a layer counts as "(files)"."""
    files = tracked_files(root)
    for name, tops, kinds in (("product", LAYERS, CPP), ("tests", ["tests"], CPP + (".py",))):
        rooms = {}
        for path, text in files.items():
            parts = path.split("/")
            if parts[0] in tops and path.endswith(kinds):
                room = "/".join(parts[:2]) if len(parts) > 2 else parts[0] + "/(files)"
                rooms[room] = rooms.get(room, 0) + text.count("\n")
        for room in sorted(rooms):
            print(f"{rooms[room]:7} {room}")
        print(f"{sum(rooms.values()):7} {name} in all")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rooms"]:
        print_rooms(sys.argv[2] if len(sys.argv) > 2 else ".")
        sys.exit(0)
    problems = check(sys.argv[1] if len(sys.argv) > 1 else ".")
    print("\n".join(problems) or "check_tree: no broken rule")
    sys.exit(1 if problems else 0)

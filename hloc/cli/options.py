"""The options of `hloc`, one row each; parser, help, suggestions and docs are derived from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloc.cli.option_values import (
    EMIT_KINDS,
    ListOf,
    OneOf,
    byte_count,
    count,
    drawing,
    emit_kinds,
    input_spec,
    mesh_axes,
    names,
    one,
    page_file,
    pipeline,
    processors,
    regex,
    tolerance,
)
from hloc.formats.sniff import FORMATS
from hloc.lazy_dataclass import dataclass
from hloc.limits import read_limits
from hloc.options import DEFAULT_LINK, GROUPINGS, LINKS, SIMULATORS

STYLES = ("default", "short", "canonical")
TUPLE_STYLES = ("full", "compact")
COLOR = ("auto", "always", "never")
CHANGE_FORMS = ("summary", "diff", "side", "text", "json")
BACKENDS = ("native", "interp")
TIME_FORMS = ("text", "json", "trace")
REMARK_KINDS = ("passed", "missed", "analysis")
IGNORABLE = ("layouts", "header", "names", "metadata", "none")
UNHASHED = ("layouts", "header", "names", "metadata", "shapes", "constants", "none")

# Commands that take the options below; "" is the compiler form `hloc FILE`.
COMPILE = ("", "run")
PASSES = (*COMPILE, "bisect")
GIVEN = (*PASSES, "bench", "isolate", "nan")
COMPARING = (*COMPILE, "isolate")
TIMED = (*COMPILE, "bench")
OPTIMISING = (*PASSES, "bench", "roofline")
PLUGGED = (*OPTIMISING, "passes", "rules", "explain")
READ = (
    "",
    "run",
    "parse",
    "verify",
    "convert",
    "diff",
    "hash",
    "stats",
    "bench",
    "extract",
    "flatten",
    "bisect",
    "isolate",
    "nan",
    "reduce",
    "explain-sharding",
    "partition",
)
DRAWING = ("graph", "roofline")
WRITING = (
    "",
    "parse",
    "convert",
    "extract",
    "flatten",
    "bisect",
    "nan",
    "reduce",
    "learn",
    "partition",
    *DRAWING,
)
TEXTUAL = ("", "parse", "convert", "extract", "flatten", "partition")
ABOUT = ("targets", "doctor", "cache", "completion", "lsp")
ALL = (*READ, *DRAWING, "check", "fmt", "explain", "passes", "ops", "rules", "learn", "web",
       *ABOUT)  # fmt: skip
SHARDING = ("explain-sharding",)
REPORTING = (*COMPILE, "verify", "diff", "hash", "stats", "bisect", "isolate", "nan",
             "bench", *SHARDING, "passes", "rules",
             "ops", "targets", "doctor", "cache")  # fmt: skip
HEADER_LANGUAGES = ("c", "c++")


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        flags: spellings, of which the first is shown: `-o`, `--output`.
        group: heading in the help.
        commands: the subcommands that take it.
        metavar: name of its value, "" for a switch.
        implied: value of `--option` without `=`; None if a value must be given.
        convert: reads the text of the value; its ValueError says what was expected.
        repeated: may be given several times and collects a list.
        target: attribute of the namespace; "" derives it from the longest flag.
    """

    flags: tuple[str, ...]
    group: str
    commands: tuple[str, ...]
    help: str
    metavar: str = ""
    implied: str | None = None
    convert: Callable[[str], Any] = str
    default: Any = None
    repeated: bool = False
    target: str = ""

    @property
    def dest(self) -> str:
        return self.target or max(self.flags, key=len).lstrip("-").replace("-", "_")

    @property
    def spelling(self) -> str:
        """The spelling in the help: `--random[=SEED]`, `-o FILE`, `-O0..-O3`."""
        flags = ", ".join(self.flags)
        if not self.metavar:
            return flags
        if self.implied is not None:
            return f"{flags}[={self.metavar}]" if self.flags[-1].startswith("--") else self.metavar
        return (
            f"{flags}={self.metavar}"
            if self.flags[-1].startswith("--")
            else f"{flags} {self.metavar}"
        )


OPTIONS: tuple[Option, ...] = (
    # ---- optimise
    Option(("-O",), "Optimise", OPTIMISING, "optimisation level (default 2)", "-O0..-O3", "2",
           OneOf(tuple("0123")), "2", target="opt_level"),
    Option(("--passes",), "Optimise", OPTIMISING, "run these passes instead of those of the "
           "level, with options in braces and groups that are repeated until nothing changes: "
           "`cse,fusion{max-operands=8},fixpoint(cse,dce)`; `fix(...)` for short", "PIPELINE",
           convert=pipeline),
    Option(("--disable-pass",), "Optimise", OPTIMISING, "skip the named passes",
           "NAME[,NAME]", convert=names, default=(), repeated=True),
    Option(("--disable-rule",), "Optimise", OPTIMISING, "disable the named rewrite rules",
           "NAME[,NAME]", convert=names, default=(), repeated=True),
    Option(("--fast-math",), "Optimise", OPTIMISING, "allow rewrite rules that are not exact, "
           "as marked by `hloc rules`; implies --flush-subnormals"),
    Option(("--flush-subnormals",), "Optimise", (*COMPILE, "roofline"), "flush subnormal f32 and "
           "f64 values to zero, on x86-64 and AArch64"),
    Option(("--use-library",), "Optimise", COMPILE, "use installed libraries instead of built-in "
           "kernels where possible: blas on the CPU, others by target (see `hloc targets`)",
           "NAME[,NAME]", convert=names, default=(), repeated=True),
    Option(("--autotune",), "Optimise", COMPILE, "measure equivalent kernels (of matrix "
           "products, on the CPU of loops too) on this machine, use the fastest, and cache the "
           "choice; on the CPU, print what was measured"),
    Option(("--opt-bisect-limit",), "Optimise", COMPILE, "stop rewriting after N rewrites, and "
           "print the last one", "N", convert=count(0)),
    Option(("--memory-limit",), "Optimise", COMPILE, "rematerialise until peak memory fits in N "
           "bytes, and refuse to run a module that still exceeds them; K, M, G are powers of 1024",
           "N", convert=byte_count, default=0),
    Option(("--plugin",), "Optimise", PLUGGED, "load passes and rules from a Python file",
           "FILE.py", default=(), repeated=True, convert=one),
    # ---- output
    Option(("--emit",), "Output", ("",), f"what to print: {', '.join(EMIT_KINDS)}, "
           "or a stage of another backend; hlo without --run", "KIND[,KIND]", convert=emit_kinds,
           default=()),
    Option(("-o",), "Output", WRITING, "write to FILE instead of "
           "stdout; several kinds are written to FILE.hlo, FILE.ll ...", "FILE",
           target="output_file"),
    Option(("-c",), "Output", ("",), "write an object file and a C header: FILE.o and FILE.h "
           "for `-o FILE`", target="compile_only"),
    Option(("-shared", "--shared"), "Output", ("",), "write a shared library and a C header: "
           "FILE.so (.dylib, .wasm) and FILE.h for `-o FILE`; needs a linker"),
    Option(("--header-lang",), "Output", ("",), "languages of the header: c, or c,c++ to also "
           "write a class in FILE.hpp", "LANG[,LANG]",
           convert=ListOf(HEADER_LANGUAGES), default=()),
    Option(("--symbol-prefix",), "Output", ("",), "prefix for exported symbols, in place of the "
           "module name", "NAME", default=""),
    Option(("--static-temp",), "Output", ("",), "put temporary memory into the object; calls are "
           "then limited to one thread at a time"),
    Option(("--target",), "Output", COMPILE, "compile for this machine: an LLVM triple, its "
           "first part, or the name of a backend; `hloc targets` lists them", "TARGET",
           default=""),
    Option(("--mcpu",), "Output", COMPILE, "compile for this processor: a name from `hloc "
           "targets`, or native; several x86-64 levels, `v2,v3,v4`, give one object that selects "
           "at run time", "NAME[,NAME]", convert=processors, default=""),
    Option(("--mattr",), "Output", COMPILE, "enable or disable features of the processor",
           "+NAME,-NAME", default=""),
    Option(("--style",), "Output", TEXTUAL, "style of "
           "HLO text, as in XLA's print options: default, short, canonical", "STYLE",
           convert=OneOf(STYLES), default="default"),
    Option(("--tuple-style",), "Output", TEXTUAL,
           "elements of tuples in HLO text: full, an instruction each; compact, `p#0` where one is "
           "used, as XLA prints them since July 2026 (docs/text-versions.md)", "STYLE",
           convert=OneOf(TUPLE_STYLES), default="full"),
    Option(("--format",), "Output", REPORTING, "output format: text, or json: all reports that "
           "are asked for as one document on stdout (docs/json.md)",
           "FORMAT", convert=OneOf(("text", "json")), default="text"),
    Option(("--to",), "Output", ("convert",), f"output format: {', '.join(FORMATS)} (default: by "
           "file extension)", "FORMAT", convert=OneOf(FORMATS)),
    # ---- learn
    Option(("--script",), "Learn", ("learn",), "run the lesson's commands in hlo-repl"),
    Option(("--format",), "Learn",
           ("learn",), "output format of `learn check`: text, json or junit",
           "FORMAT", convert=OneOf(("text", "json", "junit")), default="text"),
    # ---- measure
    Option(("--by",), "Measure", ("stats",), f"group the counts by {', '.join(GROUPINGS)}", "WHAT",
           convert=OneOf(GROUPINGS)),
    # ---- extract
    Option(("--height",), "Extract", ("extract",), "include N levels of operands; the rest become "
           "parameters", "N", convert=count(0)),
    # ---- flatten
    Option(("--trips",), "Flatten", ("flatten",), "rounds of each loop whose number of rounds "
           "depends on data (default 5)", "N", convert=count(0), default=5),
    Option(("--most-trips",), "Flatten", ("flatten",), "rounds at most of each other loop", "N",
           convert=count(0)),
    Option(("--branch",), "Flatten", ("flatten",), "take branch N of each conditional, the last "
           "if there are fewer; branch 0 of a `pred[]` is the one for true", "N",
           convert=count(0)),
    # ---- draw
    Option(("--format",), "Draw", ("graph",), "html, svg, dot, or model-explorer: JSON that Model "
           "Explorer opens (default: by the ending of the file, .json for the latter)", "FORMAT",
           convert=OneOf(("html", "svg", "dot", "model-explorer")), default=""),
    Option(("-r", "--radius"), "Draw", ("graph",), "distance from %NAME along operands and users "
           "(default 2)", "N", convert=count(0)),
    Option(("--until",), "Draw", ("graph",), "stop at this instruction", "%NAME",
           default=(), repeated=True, convert=one),
    Option(("--paths",), "Draw",
           ("graph",), "draw all paths between two instructions: FILE %A %B --paths"),
    Option(("--backward",), "Draw", ("graph",), "draw everything that %NAME depends on"),
    Option(("--forward",), "Draw", ("graph",), "draw everything that depends on %NAME"),
    Option(("--diff",), "Draw", ("graph",), "highlight differences from an earlier module",
           "BEFORE"),
    Option(("--boxes",), "Draw",
           ("graph",), "expand groups until N boxes are visible (default 150)",
           "N", convert=count(0)),
    Option(("--run",), "Draw", ("roofline",), "time each kernel on this machine instead of "
           "using the cost model"),
    # ---- compare
    Option(("--stat",), "Compare", ("diff",), "print counts only"),
    Option(("--expand",), "Compare", ("diff",), "show every changed row, also repeated changes"),
    Option(("--html",), "Compare", ("diff",), "write the differences as a page",
           "FILE.html", convert=page_file),
    Option(("--context",), "Compare", ("diff",), "unchanged rows around each change (default 2)",
           "N", convert=count(0), default=2),
    Option(("--ignore",), "Compare", ("diff",), "differences to ignore: layouts, header, names, "
           "metadata, or none (default names,metadata)", "WHAT[,WHAT]",
           convert=ListOf(IGNORABLE), default=("names", "metadata")),
    Option(("--ignore",), "Compare", ("hash",), "what does not count: layouts, header, names, "
           "metadata, shapes (sizes of dimensions), constants (their values), or none (default "
           "names,metadata)", "WHAT[,WHAT]",
           convert=ListOf(UNHASHED), default=("names", "metadata")),
    # ---- format
    Option(("--check",), "Format", ("fmt",), "write nothing; exit with 1 if a file would change"),
    Option(("--diff",), "Format", ("fmt",), "write nothing; print the changes"),
    # ---- check files
    Option(("--update",), "Check files", ("check",), "write the check lines of what the RUN lines "
           "print now"),
    # ---- inspect
    Option(("--print-changed",), "Inspect", COMPILE, "after each pass that changed the "
           "module print one line (summary), the changes and their rules (diff), the same in two "
           "columns (side), a text diff (text), or a line of JSON",
           "summary|diff|side|text|json", "diff", OneOf(CHANGE_FORMS)),
    Option(("--print-after",), "Inspect", COMPILE, "print the module after these passes; "
           "`*` matches any characters", "PASS[,PASS]", convert=names, default=(), repeated=True),
    Option(("--trace-rewrites",), "Inspect", COMPILE, "print every rewrite, or those of the named "
           "passes and rules: number, rule, instruction, lines before and after", "NAME[,NAME]", "",
           names),
    Option(("--remarks",), "Inspect", COMPILE, "print optimisation remarks: transformations made "
           "(passed) or not made (missed), and findings (analysis)", "passed,missed,analysis",
           "passed,missed,analysis", ListOf(REMARK_KINDS)),
    Option(("--memory",), "Inspect", COMPILE, "print buffer sizes, the peak, and what is live at "
           "the peak; =FILE.svg also draws the live ranges",
           "FILE.svg", "", drawing),
    Option(("--dump-dir",), "Inspect", COMPILE, "write the module after every pass that "
           "changed it, a manifest.json, and an index.html to step through them", "DIR"),
    Option(("--resume-from",), "Inspect", COMPILE, "take a step of --dump-dir (07-cse.hlo, 07-cse "
           "or 7) in place of FILE, and run the passes that followed it", "DIR/STEP"),
    Option(("--time-passes",), "Inspect", COMPILE, "print the time of each pass and stage and "
           "its effect on instructions, operations and bytes; json and trace (for Perfetto) go to "
           "stdout, in place of the module", "text|json|trace", "text", OneOf(TIME_FORMS)),
    # ---- devices
    Option(("--links",), "Devices", SHARDING, "links of the model: one for all mesh axes or by "
           f"axis (x=nvlink,y=25GB/5us): {', '.join(LINKS)}, or BANDWIDTH/LATENCY; FILE.toml has "
           f"a line for each axis (default {DEFAULT_LINK})", "LINKS", default=DEFAULT_LINK),
    Option(("--chip",), "Devices", SHARDING, "what each device computes on in the model: a GPU "
           "(H100, A100-80GB, sm_90, gfx942), or host to measure this machine (default H100)",
           "NAME", default="H100"),
    Option(("--devices",), "Devices", COMPILE, "run on N devices that work together: a thread "
           "each; arguments are cut and results joined by the module's shardings", "N",
           convert=count(1), default=0),
    Option(("--mesh",), "Devices", (*COMPILE, *SHARDING, "partition"), "sizes and names of the "
           "mesh axes, major first (default: as the module says); a run takes as many devices",
           "x=4,y=2",
           convert=mesh_axes, default=()),
    Option(("--per-device",), "Devices", COMPILE, "inputs and outputs are those of each device, "
           "stacked along a first dimension"),
    Option(("--engine",), "Devices", COMPILE, "what exchanges data between devices: threads of "
           "this process, MPI (default where mpiexec or srun started the command), or NCCL (always "
           "with a GPU target)", "local|mpi|nccl", convert=OneOf(("local", "mpi", "nccl")),
           default=""),
    Option(("--fast-collectives",), "Devices", COMPILE, "let MPI or NCCL sum in an order of its "
           "own; the last bits of sums then depend on the number of devices"),
    Option(("--collective-timeout",), "Devices", COMPILE, "end the job if a device waits longer "
           "than this for others in one collective over MPI (default 0: wait on)", "SECONDS",
           convert=count(0), default=0),
    Option(("--devices",), "Devices", SHARDING, "plan for N devices: an annotated module is "
           "partitioned for a mesh of other sizes, the first axis growing unless --mesh says",
           "N", convert=count(2), default=0),
    Option(("--html",), "Devices", SHARDING, "write a page with the mesh in colours", "FILE.html",
           convert=page_file),
    Option(("--module",), "Inspect", ("doctor",), "tell in detail of the modules of a dump whose "
           "name contains NAME (default: of the largest)", "NAME", default=""),
    Option(("--html",), "Inspect", ("doctor",), "write the report of a dump as a page, with the "
           "diff of each pass", "FILE.html", convert=page_file),
    Option(("--proof",), "Inspect", ("rules",), "print how each rule is proven, in place of its "
           "law (docs/proofs.md)"),
    # ---- check
    Option(("--prove",), "Check", ("verify",), "prove that two modules give equal results for all "
           "inputs, or print inputs for which they do not; needs Z3 (docs/proofs.md); `unknown` "
           "after SECONDS (default 60)", "SECONDS", "60", count(1)),
    Option(("--verify-each",), "Check", COMPILE, "verify the module after every pass"),
    Option(("--check-each",), "Check", COMPILE, "run the module before and after every pass on "
           "random inputs and special values, and compare the results"),
    Option(("--compare-each",), "Check", COMPILE, "run each instruction of the optimised module "
           "alone, as machine code and in the reference evaluator, on the same operands, and name "
           "the first whose results differ (with --run)"),
    Option(("--repro-dir",), "Check",
           COMPILE, "folder for reproducers of failing passes (default: a "
           "temporary folder)", "DIR"),
    Option(("--repro-dir",), "Find bugs", ("isolate",), "write each piece that diverges, its "
           "inputs and its true results to this folder", "DIR"),
    Option(("--html",), "Find bugs", ("isolate",), "write the report as a page, with the text of "
           "each piece that diverges", "FILE.html", convert=page_file),
    Option(("--repro",), "Check", ("",), "take options from the file's `// hloc-repro:` line, as "
           "always for FILE.repro.hlo"),
    Option(("--no-verify",), "Check", ("parse", "convert"), "check only the syntax, not shapes and "
           "attributes"),
    # ---- run
    Option(("--run",), "Run", ("",), "run the compiled module, as `hloc run FILE` does"),
    Option(("--simulate",), "Run", COMPILE, "run GPU code without a GPU: in the PTX interpreter, "
           "which checks every access (ptx, the default), or as native code, which is faster and "
           "checks less (host)", "ptx|host", "ptx", OneOf(SIMULATORS)),
    Option(("--profile",), "Run", TIMED, "print the cost of each kernel: its time alone, on a "
           "GPU also the share of the peaks; with --simulate=ptx instructions, accesses and "
           "conflicts"),
    Option(("--random",), "Run", GIVEN, "use random inputs from SEED (default 0), with integer "
           "indices in range", "SEED", "0", count(0)),
    Option(("--input",), "Run", GIVEN, "give one parameter a value: x=3.5, x=[1,2,3], x=@x.npy, "
           "x=@all.npz:w, zeros, ones, iota, normal(0,1), uniform(-1,1), ints(0,100), special, "
           "random, like-index(%gather)", "NAME=SPEC", convert=input_spec, default=(),
           repeated=True),
    Option(("--inputs",), "Run", GIVEN, "read inputs arg0, arg1 ... or arr_0, arr_1 ... or by "
           "parameter name (tuples flattened)", "FILE.npz"),
    Option(("--output",), "Run", COMPILE, "write results out0, out1 ...", "FILE.npz"),
    Option(("--print-output",), "Run", COMPILE, "print N elements of each result (0: none)",
           "N", "1000", count(0)),
    Option(("--compare-with",), "Run", COMPILE, "compare with the reference evaluator (interp), "
           "the module compiled at -O0, XLA (xla, needs jaxlib), the result in an HloSnapshot "
           "(the default for one), or stored results", "interp|O0|xla|snapshot|FILE.npz"),
    Option(("--rtol",), "Run", COMPARING, "relative tolerance (default: by element type)",
           "X", convert=tolerance),
    Option(("--atol",), "Run", COMPARING, "absolute tolerance (default: by element type)",
           "X", convert=tolerance),
    Option(("--backend",), "Run", COMPILE, "what runs the module: its machine code (native, the "
           "default), or the reference evaluator, without passes (interp)", "native|interp",
           convert=OneOf(BACKENDS), default="native"),
    Option(("--repeat",), "Run", COMPILE, "time N runs (default: up to 200, for at most 0.3 s)",
           "N", convert=count(1)),
    Option(("--threads",), "Run", TIMED, "run large kernels on up to N threads (default 0: "
           "HLOC_NUM_THREADS, or all cores); also limits the processes that compile a large "
           "module, unless HLOC_COMPILE_PROCESSES is set", "N",
           convert=count(0), default=0),
    Option(("--fill-constants",), "Run", COMPILE, "how to treat constants elided as "
           "`constant({...})`: refuse the module (error) or use zeros", "error|zeros",
           convert=OneOf(("error", "zeros")), default="error"),
    Option(("--against",), "Run", ("bench",), "time the module compiled by XLA too, in turn, on as "
           "many cores as --threads says (needs jaxlib)", "xla", convert=OneOf(("xla",)),
           default=""),
    Option(("--counters",), "Run", ("bench",), "count cycles, instructions and misses of hloc's "
           "runs, where the machine shows them (Linux)"),
    Option(("--simulate-threads",), "Run", ("bench",), "simulate the program on up to N cores, by "
           "the cost model and the way in which threads share kernels", "N", convert=count(1),
           default=0),
    Option(("--repeat",), "Run", ("bench",), "take N stretches of runs (default 12)", "N",
           convert=count(1), default=0),
    # ---- find bugs
    Option(("--test",), "Find bugs", ("bisect", "reduce"), "command that exits with 0 if the "
           "module in "
           "file {} shows the fault", "'COMMAND {}'"),
    Option(("--against",), "Find bugs", ("bisect",), "find the pass of XLA that is wrong, in place "
           "of one of hloc's (needs jaxlib)", "xla", convert=OneOf(("xla",)), default=""),
    Option(("--compiled",), "Find bugs", ("bisect",), "compare compiled code with the evaluator, "
           "instead of the optimised module in the evaluator"),
    Option(("--no-reduce",), "Find bugs", ("bisect",), "do not reduce the failing module"),
    Option(("--time-limit",), "Find bugs", ("bisect", "reduce"), "stop reducing after SECONDS "
           "(default 120)", "SECONDS", convert=count(1), default=120),
    Option(("--test-timeout",), "Find bugs", ("bisect", "reduce"), "treat a test that takes "
           "longer as "
           "passing (default 30)", "SECONDS", convert=count(1), default=30),
    Option(("--against",), "Find bugs", ("isolate",), "what computes each piece too: hloc -O2 only "
           "(interp, the default), also hloc -O0 (O0), XLA and hloc -O2 (xla, needs jaxlib), or "
           "the instruction of that name in another module", "interp|O0|xla|FILE",
           default="interp"),
    Option(("--level",), "Find bugs", ("isolate",), "what a piece is: an instruction, those in "
           "fusions and calls too (the default), or one of the entry computation as it stands",
           "instruction|computation", convert=OneOf(("instruction", "computation")),
           default="instruction"),
    Option(("--filter",), "Find bugs", ("isolate",), "compare only instructions whose name, opcode "
           "or operation name this regular expression matches", "REGEX", convert=regex, default=""),
    Option(("--height",), "Find bugs", ("isolate",), "also run each instruction together with up "
           "to N levels of operands (default 1): some faults need two instructions", "N",
           convert=count(0), default=1),
    # ---- cache
    Option(("--clear",), "Cache", ("cache",), "remove all files"),
    Option(("--trim",), "Cache", ("cache",), "remove the least recently used files until "
           "at most N bytes are left (default 512M)", "N", "512M", byte_count),
    Option(("--path",), "Cache", ("cache",), "print only the path of the folder"),
    Option(("--fill",), "Cache", ("cache",), "compile the routines that programs share "
           "into the cache, or into the installed package", "cache|package", "cache",
           OneOf(("cache", "package"))),
    # ---- web
    Option(("--port",), "Web", ("web",), "listen on this port (default 0: a free one)", "N",
           convert=count(0), default=0),
    Option(("--no-browser",), "Web", ("web",), "print the address, and open no browser"),
    Option(("--classroom",), "Web", ("web",), "serve many students, who join with a link; what "
           "they do runs in confined processes (Linux)"),
    Option(("--host",), "Web", ("web",), "with --classroom: listen on this address of the machine "
           "(default 127.0.0.1; 0.0.0.0 for all)", "ADDR", default=""),
    Option(("--students",), "Web", ("web",), "with --classroom: how many may be there at the same "
           "time (default 40)", "N", convert=count(1), default=0),
    # ---- general
    Option(("--color",), "General", ALL, "coloured messages: auto, always, never", "WHEN", "always",
           OneOf(COLOR), "auto"),
    Option(("--limit",), "General", ALL, "change limits, such as run-seconds=60,input-bytes=4G "
           "(below); K, M, G are powers of 1024", "NAME=N[,NAME=N]", convert=read_limits,
           default={}),
    Option(("-q", "--quiet"), "General", ALL, "print only the output and errors"),
    Option(("-h", "--help"), "General", ALL, "show this help"),
    Option(("--version",), "General", ALL, "show the version"),
)  # fmt: skip


def options_of(command: str) -> tuple[Option, ...]:
    """Return the options that `command` takes."""
    return tuple(option for option in OPTIONS if command in option.commands)

"""The options of `hloc`, one row each; parser, help, suggestions and docs derive from the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hloc.cli.option_values import (
    EMIT_KINDS,
    byte_count,
    count,
    drawing,
    emit_kinds,
    list_of,
    names,
    one,
    one_of,
    pipeline,
    processors,
    tolerance,
)
from hloc.formats.sniff import FORMATS
from hloc.options import SIMULATORS

STYLES = ("default", "short", "canonical")
COLOR = ("auto", "always", "never")
CHANGE_FORMS = ("summary", "diff", "side", "text", "json")
REMARK_KINDS = ("passed", "missed", "analysis")
GROUPINGS = ("opcode", "dtype", "scope", "computation")
IGNORABLE = ("layouts", "header", "names", "metadata", "none")

# Commands that take the options below; "" is the compiler form `hloc FILE`.
COMPILE = ("", "run")
PASSES = (*COMPILE, "bisect")
OPTIMISING = (*PASSES, "roofline")
PLUGGED = (*OPTIMISING, "passes", "rules", "explain")
READ = ("", "run", "parse", "verify", "convert", "diff", "stats", "extract", "bisect", "reduce")
DRAWING = ("graph", "roofline")
WRITING = ("", "parse", "convert", "extract", "bisect", "reduce", "learn", *DRAWING)
ABOUT = ("targets", "doctor", "cache")
ALL = (*READ, *DRAWING, "fmt", "explain", "passes", "ops", "rules", "learn", *ABOUT)
HEADER_LANGUAGES = ("c", "c++")


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        flags: spellings, the first is shown: `-o`, `--output`.
        group: heading in the help.
        commands: the subcommands that take it.
        metavar: name of its value, "" for a switch.
        implied: value of `--option` without `=`; None if a value must be given.
        convert: reads the text of the value, raising ValueError with what was expected.
        repeated: may be given several times and collects a list.
        target: attribute of the namespace, "" derives it from the longest flag.
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
        """How the help shows it: `--random[=SEED]`, `-o FILE`, `-O0..-O3`."""
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
    Option(("-O",), "Optimise", OPTIMISING, "optimisation level, 2 if not given", "-O0..-O3", "2",
           one_of("0123"), "2", target="opt_level"),
    Option(("--passes",), "Optimise", OPTIMISING, "run this pipeline instead of the level's own: "
           "names with options, `cse,fusion{max-operands=8}`", "PIPELINE", convert=pipeline),
    Option(("--disable-pass",), "Optimise", OPTIMISING, "leave out passes by name",
           "NAME[,NAME]", convert=names, default=(), repeated=True),
    Option(("--disable-rule",), "Optimise", OPTIMISING, "switch off rewrite rules by name",
           "NAME[,NAME]", convert=names, default=(), repeated=True),
    Option(("--fast-math",), "Optimise", OPTIMISING, "let rules fire that are not exact: "
           "`hloc rules` says which and why; turns on --flush-subnormals"),
    Option(("--flush-subnormals",), "Optimise", (*COMPILE, "roofline"), "subnormal numbers in f32 "
           "and f64 arithmetic count as zero, on x86-64 and AArch64: faster where there are many"),
    Option(("--use-library",), "Optimise", COMPILE, "let routines of installed libraries take the "
           "place of hloc's own kernels where they fit: blas on the cpu; what other targets call, "
           "they say", "NAME[,NAME]", convert=names, default=(), repeated=True),
    Option(("--autotune",), "Optimise", COMPILE, "measure the kernels that hloc has for each "
           "matrix product on the GPU of this machine, take the fastest, and remember it"),
    Option(("--opt-bisect-limit",), "Optimise", COMPILE, "do only the first N rewrites of the "
           "pipeline, and say which was the last", "N", convert=count(0)),
    Option(("--memory-limit",), "Optimise", COMPILE, "compute arrays again instead of keeping them "
           "until the module needs no more than N bytes, and refuse to run one that does; "
           "K, M, G for powers of 1024", "N", convert=byte_count, default=0),
    Option(("--plugin",), "Optimise", PLUGGED, "load passes and rules from a Python file first",
           "FILE.py", default=(), repeated=True, convert=one),
    # ---- output
    Option(("--emit",), "Output", ("",), f"what to print: {', '.join(EMIT_KINDS)}, "
           "or a stage of another backend; hlo without --run", "KIND[,KIND]", convert=emit_kinds,
           default=()),
    Option(("-o",), "Output", WRITING, "write to FILE instead of "
           "stdout; with several kinds FILE.hlo, FILE.ll ...", "FILE", target="output_file"),
    Option(("-c",), "Output", ("",), "write an object and a C header to link into a program: "
           "FILE.o and FILE.h for `-o FILE`", target="compile_only"),
    Option(("-shared", "--shared"), "Output", ("",), "write a shared library and a C header: "
           "FILE.so (.dylib, .wasm) and FILE.h for `-o FILE`; needs a linker"),
    Option(("--header-lang",), "Output", ("",), "languages of the header: c, or c,c++ for a class "
           "in FILE.hpp as well", "LANG[,LANG]", convert=list_of(HEADER_LANGUAGES), default=()),
    Option(("--symbol-prefix",), "Output", ("",), "begin names in object and header with this, "
           "not with the name of the module", "NAME", default=""),
    Option(("--static-temp",), "Output", ("",), "put working memory into the object; one thread "
           "at a time may call then"),
    Option(("--target",), "Output", COMPILE, "make code for this machine, an LLVM triple or the "
           "first part of one, or with another backend; `hloc targets` lists them", "TARGET",
           default=""),
    Option(("--mcpu",), "Output", COMPILE, "make code for this processor: a name from `hloc "
           "targets`, or native; several levels of x86-64, `v2,v3,v4`, for one object that chooses "
           "when it is called", "NAME[,NAME]", convert=processors, default=""),
    Option(("--mattr",), "Output", COMPILE, "features that the processor has or lacks",
           "+NAME,-NAME", default=""),
    Option(("--style",), "Output", ("", "parse", "convert", "extract"), "spelling of HLO text, as "
           "XLA's print options: default, short, canonical", "STYLE", convert=one_of(STYLES),
           default="default"),
    Option(("--format",), "Output", ("stats", "diff"), "how to print: text or json", "FORMAT",
           convert=one_of(("text", "json")), default="text"),
    Option(("--to",), "Output", ("convert",), f"format to write: {', '.join(FORMATS)}; without it "
           "the ending of the file decides", "FORMAT", convert=one_of(FORMATS)),
    # ---- learn
    Option(("--script",), "Learn", ("learn",), "run the commands of the lesson in hlo-repl"),
    Option(("--format",), "Learn", ("learn",), "how `learn check` prints: text, json or junit",
           "FORMAT", convert=one_of(("text", "json", "junit")), default="text"),
    # ---- measure
    Option(("--by",), "Measure", ("stats",), f"one table: by {', '.join(GROUPINGS)}", "WHAT",
           convert=one_of(GROUPINGS)),
    # ---- extract
    Option(("--height",), "Extract", ("extract",), "take N levels of operands; what lies beyond "
           "becomes a parameter", "N", convert=count(0)),
    # ---- draw
    Option(("-r", "--radius"), "Draw", ("graph",), "steps along operands and users from %NAME, 2 "
           "if not given", "N", convert=count(0)),
    Option(("--until",), "Draw", ("graph",), "draw nothing beyond this instruction", "%NAME",
           default=(), repeated=True, convert=one),
    Option(("--paths",), "Draw", ("graph",), "draw all that lies between two: FILE %A %B --paths"),
    Option(("--backward",), "Draw", ("graph",), "draw all that %NAME needs"),
    Option(("--forward",), "Draw", ("graph",), "draw all that needs %NAME"),
    Option(("--diff",), "Draw", ("graph",), "mark what is different from an earlier module",
           "BEFORE"),
    Option(("--boxes",), "Draw", ("graph",), "open boxes until so many are seen, 150 if not given",
           "N", convert=count(0)),
    Option(("--run",), "Draw", ("roofline",), "time each kernel on this machine; without it the "
           "chart shows what the cost model expects"),
    # ---- compare
    Option(("--stat",), "Compare", ("diff",), "print counts only"),
    Option(("--context",), "Compare", ("diff",), "unchanged rows around changed ones, 2 if not "
           "given", "N", convert=count(0), default=2),
    Option(("--ignore",), "Compare", ("diff",), "what is no difference: layouts, header, names, "
           "metadata, or none; names,metadata if not given", "WHAT[,WHAT]",
           convert=list_of(IGNORABLE), default=("names", "metadata")),
    # ---- format
    Option(("--check",), "Format", ("fmt",), "write nothing; exit 1 if a file would change"),
    Option(("--diff",), "Format", ("fmt",), "write nothing; print what would change"),
    # ---- look inside
    Option(("--print-changed",), "Look inside", COMPILE, "after each pass that changed something "
           "print one line (summary), what changed with the rule that did it (diff), the same in "
           "two columns (side), changed lines of text (text), or a line of JSON",
           "summary|diff|side|text|json", "diff", one_of(CHANGE_FORMS)),
    Option(("--print-after",), "Look inside", COMPILE, "print the module after these passes; "
           "`*` stands for any letters", "PASS[,PASS]", convert=names, default=(), repeated=True),
    Option(("--trace-rewrites",), "Look inside", COMPILE, "print every rewrite, or those of a pass "
           "or rule: number, rule, instruction, lines before and after", "NAME[,NAME]", "",
           names),
    Option(("--remarks",), "Look inside", COMPILE, "print what passes say of their work: what they "
           "did (passed), left (missed), found (analysis)", "passed,missed,analysis",
           "passed,missed,analysis", list_of(REMARK_KINDS)),
    Option(("--memory",), "Look inside", COMPILE, "print what arrays take in memory, the worst "
           "moment and what is alive then; with =FILE.svg also draw the live ranges",
           "FILE.svg", "", drawing),
    Option(("--dump-dir",), "Look inside", COMPILE, "write the module after every pass that "
           "changed it, manifest.json, and index.html to step through them", "DIR"),
    Option(("--time-passes",), "Look inside", COMPILE, "print what each pass and stage took and "
           "did to instructions, operations and bytes"),
    # ---- trust
    Option(("--verify-each",), "Trust", COMPILE, "verify the module after every pass"),
    Option(("--check-each",), "Trust", COMPILE, "run the module before and after every pass, on "
           "random inputs and on special values, and compare"),
    Option(("--repro-dir",), "Trust", COMPILE, "where to write the module and options that let a "
           "failing pass fail again; a temporary folder if not given", "DIR"),
    Option(("--repro",), "Trust", ("",), "take the options from the `// hloc-repro:` line of the "
           "file, as is always done for FILE.repro.hlo"),
    Option(("--no-verify",), "Trust", ("parse", "convert"), "check the syntax only, not shapes and "
           "attributes"),
    # ---- run
    Option(("--run",), "Run", ("",), "run the compiled module; `hloc run FILE` is the same"),
    Option(("--simulate",), "Run", COMPILE, "run code for a GPU without one: in the interpreter of "
           "PTX, which checks every access (ptx, as without a word), or as code of this machine, "
           "which is faster and checks less (host)", "ptx|host", "ptx", one_of(SIMULATORS)),
    Option(("--profile",), "Run", COMPILE, "print what each kernel of a program for a GPU costs: "
           "time and share of the peaks; with --simulate=ptx instructions, accesses, conflicts"),
    Option(("--random",), "Run", PASSES, "random inputs from SEED, 0 if not given; integers used "
           "as indices are in range", "SEED", "0", count(0)),
    Option(("--inputs",), "Run", PASSES, "inputs arg0, arg1 ... (tuples flattened)", "FILE.npz"),
    Option(("--output",), "Run", COMPILE, "store the results as out0, out1 ...", "FILE.npz"),
    Option(("--print-output",), "Run", COMPILE, "print N elements of each result, 0 for none",
           "N", "1000", count(0)),
    Option(("--compare-with",), "Run", COMPILE, "compare with the reference evaluator (interp), "
           "with the module compiled at -O0, with the result in an HloSnapshot (as it is without "
           "this option), or with stored results", "interp|O0|snapshot|FILE.npz"),
    Option(("--rtol",), "Run", COMPILE, "relative bound instead of the one per element type",
           "X", convert=tolerance),
    Option(("--atol",), "Run", COMPILE, "absolute bound instead of the one per element type",
           "X", convert=tolerance),
    Option(("--repeat",), "Run", COMPILE, "time N runs; without it up to 200, or 0.3 s",
           "N", convert=count(1)),
    Option(("--threads",), "Run", COMPILE, "run large kernels on up to N threads; 0 stands for "
           "HLOC_NUM_THREADS, or all cores if that is not set, as without the option; also how "
           "many processes may compile a large module, unless HLOC_COMPILE_PROCESSES says so", "N",
           convert=count(0), default=0),
    Option(("--fill-constants",), "Run", COMPILE, "what stands for `constant({...})`, which a dump "
           "left out: error refuses, zeros fills", "error|zeros",
           convert=one_of(("error", "zeros")), default="error"),
    # ---- hunt
    Option(("--test",), "Hunt", ("bisect", "reduce"), "a command that exits with 0 if the module "
           "in file {} shows the fault", "'COMMAND {}'"),
    Option(("--compiled",), "Hunt", ("bisect",), "compare compiled code with the evaluator, not "
           "the optimised module in the evaluator"),
    Option(("--no-reduce",), "Hunt", ("bisect",), "do not shrink the module that shows the fault"),
    Option(("--time-limit",), "Hunt", ("bisect", "reduce"), "end shrinking after so many seconds, "
           "120 if not given", "SECONDS", convert=count(1), default=120),
    Option(("--test-timeout",), "Hunt", ("bisect", "reduce"), "a test that runs longer shows no "
           "fault, 30 s if not given", "SECONDS", convert=count(1), default=30),
    # ---- look after
    Option(("--clear",), "Look after", ("cache",), "remove all files"),
    Option(("--trim",), "Look after", ("cache",), "remove the files that were not used for "
           "longest until at most N bytes are left, 512M if not given", "N", "512M", byte_count),
    Option(("--path",), "Look after", ("cache",), "print the path of the folder only"),
    Option(("--fill",), "Look after", ("cache",), "compile the routines that programs share for "
           "this machine: into the cache, or into the installed package", "cache|package", "cache",
           one_of(("cache", "package"))),
    # ---- talk
    Option(("--color",), "Talk", ALL, "colour of messages: auto, always, never", "WHEN", "always",
           one_of(COLOR), "auto"),
    Option(("-q", "--quiet"), "Talk", ALL, "only the product and errors"),
    Option(("-h", "--help"), "Talk", ALL, "show this help"),
    Option(("--version",), "Talk", ALL, "show the version"),
)  # fmt: skip


def options_of(command: str) -> tuple[Option, ...]:
    """Return the options that `command` takes."""
    return tuple(option for option in OPTIONS if command in option.commands)

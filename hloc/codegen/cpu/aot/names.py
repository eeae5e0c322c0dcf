"""C identifiers and comments that are safe for any name of a module or parameter."""

from __future__ import annotations

import hashlib
import re

from hloc.errors import HloError

_LONGEST = 60

_WORDS = """
    NULL abort abs acos acosh alignas alignof and and_eq asin asinh asm atan atan2 atanh atexit
    atof atoi atomic auto bitand bitor bool break bsearch calloc case catch cbrt ceil char
    char16_t char32_t char8_t class co_await co_return co_yield compl concept const const_cast
    consteval constexpr constinit continue copysign cos cosh decltype default delete div do
    double dynamic_cast else enum erf erfc errno exit exp exp2 explicit expm1 export extern fabs
    false fclose fdim float floor fma fmax fmin fmod fopen for fprintf fputs fread free frexp
    friend fwrite gamma getc getenv gets goto hypot i386 if index inline int isnan j0 j1 jn labs
    ldexp ldiv lgamma linux log log10 log1p log2 logb long lrint lround main malloc memchr
    memcmp memcpy memmove memset modf mutable namespace nan new noexcept not not_eq nullptr
    operator or or_eq pow printf private protected public putc puts qsort raise rand read
    realloc register reinterpret_cast remainder remove rename requires restrict return rewind
    rindex rint round scalbn scanf select setjmp short signal signed sin sinh sizeof sleep sort
    sprintf sqrt srand static static_assert static_cast std stderr stdin stdout strcat strchr
    strcmp strcpy strlen strncpy struct switch system tan tanh template tgamma this thread_local
    throw time true trunc try typedef typeid typename typeof ungetc union unix unsigned using
    virtual void volatile wchar_t while write xor xor_eq y0 y1 yn
"""
_RESERVED = frozenset(_WORDS.split())
"""Keywords of C and C++ and names of their libraries, which a function must not have."""

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def prefix_of(module_name: str) -> str:
    """Return a C identifier for the functions of a module: `jit_f` unchanged, `my-net.v2` escaped.

    Names that are changed much or are long end in a digest, so that two modules do not collide.
    """
    name = re.sub(r"[^A-Za-z0-9]+", "_", module_name).strip("_")
    if not name:
        name = "model"
    if not name[0].isalpha():
        name = f"m_{name}"
    if len(name) > _LONGEST:
        digest = hashlib.sha256(module_name.encode("utf-8", "surrogateescape")).hexdigest()
        name = f"{name[:_LONGEST].rstrip('_')}_{digest[:8]}"
    return f"hlo_{name}" if name in _RESERVED else name


def checked_prefix(prefix: str) -> str:
    """Return `prefix` if it is valid in C and C++.

    Raises:
        HloError: it is not.
    """
    if not _IDENTIFIER.fullmatch(prefix) or "__" in prefix or len(prefix) > 4 * _LONGEST:
        raise HloError(
            f"a symbol prefix is a letter, then letters, digits and single underscores, "
            f"not {prefix!r}"
        )
    if prefix in _RESERVED:
        raise HloError(
            f"the symbol prefix {prefix!r} is a reserved name of C, C++ or their libraries"
        )
    return prefix


def comment(text: str) -> str:
    """Return `text` fit for a comment: one line of ASCII that cannot end or continue it."""
    plain = text.encode("ascii", "backslashreplace").decode("ascii")
    plain = "".join(c if c.isprintable() else " " for c in plain)
    plain = plain.replace("\\", "|").replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
    return plain if len(plain) <= 300 else f"{plain[:300]}..."

"""`hloc explain-sharding FILE`: why each collective is needed, and what it costs."""

from __future__ import annotations

from argparse import Namespace

from hloc.cli.talk import Talk
from hloc.errors import printable
from hloc.output_file import write_form
from hloc.pictures.sharding_page import sharding_page
from hloc.report.exits import Exit
from hloc.report.json_report import json_report
from hloc.report.sharding.sharding_plan import Machine, explain_sharding
from hloc.report.sharding.sharding_text import sharding_data, sharding_lines
from hloc.report.source_input import need_files, read_module, shown_name


def explain_sharding_file(arguments: Namespace, talk: Talk) -> int:
    """`hloc explain-sharding FILE [--links=...] [--mesh=...] [--html=FILE.html]`."""
    a = arguments
    (file,) = need_files(a.files, exactly=1)
    name = shown_name(file)
    found = explain_sharding(read_module(file), Machine(a.links, a.chip, a.mesh, a.devices))
    if a.html:
        write_form(a.html, sharding_page(found, name))
        talk.say(f"{name}: {found.mesh_text}, in {printable(a.html)}")
    if a.format == "json":
        talk.product(json_report("explain-sharding", sharding_data(found, name)))
    elif not a.html:
        talk.page("\n".join(sharding_lines(found, name, talk.product_paint)))
    return Exit.OK

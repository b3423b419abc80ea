"""The same document as one HTML file: no script, no address but its own, made to be printed."""

import base64
import hashlib
import html
from typing import Final

from markdown_it import MarkdownIt

from app.domain.report import Report
from app.printed.markdown import markdown, plain

STYLE: Final = """
body { font: 10pt/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #111; }
body { overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; margin: .5em 0 1.5em; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #bbb; padding: .25em .5em; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
thead { display: table-header-group; }
tr { break-inside: avoid; }
h2 { break-after: avoid; border-top: 2px solid #111; padding-top: .5em; }
pre { white-space: pre-wrap; border: 1px solid #bbb; padding: .5em; }
.scroll { overflow-x: auto; }
@page { margin: 15mm; }
@media print { .scroll { overflow: visible; } body { font-size: 8pt; max-width: none; margin: 0; } }
"""
_SCROLLS: Final = '<div class="scroll" tabindex="0"><table>'
"""A wide table scrolls by itself, by keyboard too; no text can hold a tag of its own."""
POLICY: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
)
"""For whoever serves it: nothing is loaded, and only this style applies."""


def printable(report: Report) -> str:
    """The whole file."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown(report))
    body = body.replace("<table>", _SCROLLS).replace("</table>", "</table></div>")
    title = html.escape(plain(report.name))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
        f"<style>{STYLE}</style></head><body><main>\n{body}</main></body></html>\n"
    )

# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pages to look at in a browser: each is one file that needs no network, and can ask for nothing.

A page is NAME.html, a body without scripts, NAME.js, and what all pages share: page.css and page.js. Its data stand in
it as JSON, which the scripts read by ``pageData()``.
"""

import html
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

# Nothing is allowed but what stands in the file: the browser itself refuses every request
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
)


def render(name: str, title: str, data: dict[str, Any]) -> str:
    """Returns a page as HTML.

    Args:
        name: Which one: `attention` or `trace`.
        title: What the browser shows above it.
        data: What it shows, as JSON can hold it. Texts may hold anything: no text can end the script it stands in.
    """

    def read(file: str) -> str:
        return (HERE / file).read_text(encoding="utf-8")

    # In JSON "<" stands only inside strings, where \u003c is the same character
    values = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>
{read("page.css")}</style>
</head>
<body>
{read(f"{name}.html")}<script type="application/json" id="data">{values}</script>
<script>
{read("page.js")}
{read(f"{name}.js")}</script>
</body>
</html>
"""

"""The page: everything in one file that needs no other, and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from hera_fast._version import __version__
from hera_fast.atomic import replacing
from hera_fast.experiments.records import Record, load_records
from hera_fast.report.comparison_section import comparison_section
from hera_fast.report.counts_section import counts_section
from hera_fast.report.curve_section import curve_section
from hera_fast.report.doubtful_section import doubtful_section
from hera_fast.report.html import Html, tag
from hera_fast.report.parts import notes_part
from hera_fast.report.provenance import provenance_section
from hera_fast.report.summary import record_id, summary_section

__all__ = ["make_page", "write_report"]

_SECTIONS: dict[str, Callable[[Record], Sequence[Any]]] = {
    "ablation": comparison_section,
    "comparison": comparison_section,
    "curves": curve_section,
    "disambiguation": doubtful_section,
    "win-tie-loss": counts_section,
}
# What a part of a record that is not as described raises.
_MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)


def write_report(
    run_dir: str | os.PathLike[str], path: str | os.PathLike[str] | None = None
) -> Path:
    """Write the report of a run directory.

    Parameters
    ----------
    run_dir : str or path
        Where records are.
    path : str or path, or None, default=None
        The file to write. None stands for ``report.html`` in `run_dir`.

    Returns
    -------
    path : Path
        The file.

    Raises
    ------
    FileNotFoundError
        If there are no records.
    ValueError
        If a record cannot be shown. The message names it.

    Examples
    --------
    >>> import tempfile
    >>> from hera_fast.experiments.records import Record, save_record
    >>> from hera_fast.report import write_report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save_record(folder, Record("mine", "curves", "A figure", {"panels": []}))
    ...     write_report(folder).name
    'report.html'
    """
    records = load_records(run_dir)
    target = Path(run_dir, "report.html") if path is None else Path(path)
    page = make_page(records)
    with replacing(target, "report") as file:
        file.write(page.encode())
    return target


def make_page(records: Sequence[Record]) -> str:
    """Make the page that shows records. The same records make the same page.

    Parameters
    ----------
    records : sequence of Record
        At least one.

    Returns
    -------
    page : str
        HTML.

    Raises
    ------
    ValueError
        If a record cannot be shown. The message names it.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report import make_page
    >>> make_page([Record("mine", "curves", "A figure", {"panels": []})])[:15]
    '<!DOCTYPE html>'
    """
    sections: list[tuple[str, str, Sequence[Any]]] = [
        *((record_id(record), record.title, _section(record)) for record in records),
        ("made", "How this was made", _checked(records, provenance_section)),
    ]
    # Only now: what is wrong about a record is best told by its own section.
    sections.insert(0, ("summary", "Summary", _checked(records, summary_section)))
    title = "hera-fast report"
    body = tag(
        "body",
        tag("a", "Skip to the results", href="#content", class_="skip"),
        tag(
            "header",
            tag("h1", title),
            tag("p", _subtitle(records), class_="subtitle"),
            tag("button", "Dark colours", type="button", id="theme", aria_pressed="false"),
        ),
        tag(
            "nav",
            tag("h2", "Contents", class_="visually-hidden"),
            tag("ul", [tag("li", tag("a", t, href=f"#{i}")) for i, t, _ in sections]),
            aria_label="Contents",
        ),
        tag(
            "main",
            [
                tag("section", tag("h2", t, id=f"{i}-h"), content, id=i, aria_labelledby=f"{i}-h")
                for i, t, content in sections
            ],
            id="content",
            tabindex="-1",
        ),
        tag("footer", tag("p", f"Made by hera-fast {__version__}.")),
        tag("p", id="status", role="status", class_="visually-hidden"),
        tag("script", _resource("page.js")),
    )
    return f"<!DOCTYPE html>\n{tag('html', _head(title), body, lang='en')}\n"


def _head(title: str) -> Html:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"hera-fast {__version__}"),
        tag("title", title),
        # Without one, browsers ask the server for an icon.
        tag("link", rel="icon", href="data:,"),
        tag("style", _resource("page.css")),
    )


@cache
def _resource(name: str) -> Html:
    return Html(files("hera_fast.report").joinpath(name).read_text(encoding="utf-8"))


def _policy() -> str:
    """Forbid everything but styles, embedded pictures and the script of the page itself."""
    digest = hashlib.sha256(_resource("page.js").encode()).digest()
    return (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; script-src 'sha256-{base64.b64encode(digest).decode()}'"
    )


def _subtitle(records: Sequence[Record]) -> str:
    dates = sorted(
        str(record.about["created"])[:10] for record in records if record.about.get("created")
    )
    if not dates:
        return "Partial-label learning: results of a run."
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return f"Partial-label learning: results of a run, {span}."


def _section(record: Record) -> list[Any]:
    try:
        return [*_SECTIONS[record.kind](record), notes_part(record.notes)]
    except _MALFORMED as error:
        raise _malformed(record, error) from error


def _checked(
    records: Sequence[Record], make: Callable[[Sequence[Record]], Sequence[Any]]
) -> Sequence[Any]:
    """Make a section of all records; if that fails, find out which one is to blame."""
    try:
        return make(records)
    except _MALFORMED:
        for record in records:
            try:
                make([record])
            except _MALFORMED as error:
                raise _malformed(record, error) from error
        raise


def _malformed(record: Record, error: Exception) -> ValueError:
    reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return ValueError(f"the record {record.name!r} cannot be shown: {reason}. Make it again")

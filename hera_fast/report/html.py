"""Markup whose text is escaped: what comes from data cannot become an element."""

from __future__ import annotations

import html
import re
from typing import Any

__all__ = ["Html", "clean", "escape", "tag"]

# Elements without content, and without an end.
_VOID = ("br", "col", "hr", "link", "meta")
# What HTML or XML has no place for: controls but tab and line feed, halves of surrogate pairs,
# and code points that are no characters.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)


class Html(str):
    """Markup, which :func:`tag` takes as it is; every other text it escapes.

    Examples
    --------
    >>> from hera_fast.report.html import Html, tag
    >>> tag("p", Html("<br>"), "<br>")
    '<p><br>&lt;br&gt;</p>'
    """

    __slots__ = ()


def clean(text: Any) -> str:
    r"""Replace characters that a page cannot hold.

    Parameters
    ----------
    text : object
        From data, for example.

    Returns
    -------
    text : str

    Examples
    --------
    >>> from hera_fast.report.html import clean
    >>> clean("a\r\nb\0")
    'a\nb�'
    """
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", str(text).replace("\r\n", "\n"))


def escape(*children: Any) -> Html:
    """Turn children of an element into markup.

    Parameters
    ----------
    *children : object
        :class:`Html` stays as it is. Lists and tuples stand for what they hold, None for nothing.
        All else is text.

    Returns
    -------
    markup : Html

    Examples
    --------
    >>> from hera_fast.report.html import Html, escape
    >>> escape("a < b", None, [Html("<hr>"), 1])
    'a &lt; b<hr>1'
    """
    parts = []
    for child in children:
        if isinstance(child, Html):
            parts.append(str(child))
        elif isinstance(child, (list, tuple)):
            parts.append(str(escape(*child)))
        elif child is not None:
            parts.append(html.escape(clean(child)))
    return Html("".join(parts))


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """Make an element.

    Parameters
    ----------
    name : str
        Such as ``"p"``.
    *children : object
        As for :func:`escape`.
    **attributes : object
        An underscore stands for a dash, and one at the end is dropped: ``class_``,
        ``aria_label``. True makes an attribute without a value, None and False make none.

    Returns
    -------
    markup : Html

    Examples
    --------
    >>> from hera_fast.report.html import tag
    >>> tag("a", 'the "label" <b>', href="#b", class_="link", hidden=False)
    '<a href="#b" class="link">the &quot;label&quot; &lt;b&gt;</a>'
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{html.escape(clean(value))}"')
    start = f"<{' '.join(parts)}>"
    return Html(start if name in _VOID else f"{start}{escape(*children)}</{name}>")

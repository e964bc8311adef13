"""Colours that can be told apart, and one for each method."""

from __future__ import annotations

import itertools

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from hera_fast.plotting.colors import COLORS, method_styles, neutral_color


def luminance(color):
    """As the guidelines for accessible web pages define it."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("ground", ["#ffffff", "#16181d"])
def test_colors_are_seen_on_light_and_dark_ground(color, ground):
    low, high = sorted([luminance(color), luminance(ground)])
    assert (high + 0.05) / (low + 0.05) > 2


def test_colors_differ():
    for one, other in itertools.combinations(COLORS, 2):
        assert np.abs(np.subtract(to_rgb(one), to_rgb(other))).max() > 0.2


def test_styles_are_fixed_by_the_place_of_a_name():
    names = [f"method {i}" for i in range(42)]
    styles = method_styles(names)
    assert list(styles) == names
    assert len({(style.color, style.marker) for style in styles.values()}) == 42
    assert [style.color for style in styles.values()][:6] == list(COLORS)
    assert method_styles(["a", "b", "a"]) == method_styles(iter(["a", "b"]))
    assert method_styles([f"{i}" for i in range(100)])["99"].linestyle


def test_neutral_color_is_that_of_texts():
    with matplotlib.rc_context({"text.color": "C3"}):
        assert neutral_color() == "C3"

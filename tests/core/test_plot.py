"""Plots as SVG: what is drawn where, and what is left out."""

from __future__ import annotations

import math
from xml.etree import ElementTree

from bottega.core.plot import Plot, PlotSeries, smoothed, spark

TWO = [(1.0, 1.0), (2.0, 3.0)]


def test_smoothing_keeps_a_constant_and_the_ends() -> None:
    assert smoothed([2.0] * 7, 3) == [2.0] * 7
    assert smoothed([0.0, 3.0, 6.0], 1) == [1.5, 3.0, 4.5]
    assert spark([0.0, 1.0], 10) == "▁█"


def test_areas_lie_on_each_other_and_a_step_without_a_figure_counts_as_nothing() -> None:
    drawn = ElementTree.fromstring(
        Plot("p", [PlotSeries("a", TWO, "area"), PlotSeries("b", TWO[1:], "area")], low=0, high=6).svg()
    )
    below, above = (each.get("points", "").split() for each in drawn.iter("polygon"))
    assert above[0] == below[0] and above[-2:] == below[1::-1], "the second begins where the first ends"


def test_dots_have_their_interval_their_label_and_a_shape_of_their_own() -> None:
    band = [(1.0, 0.5, 2.0), (2.0, 2.0, 4.0)]
    text = Plot("p", [PlotSeries("", TWO, "dots", band, ["one", "<two>"], ["plain", "good"])]).svg()
    assert text.count("<circle") == 1 and text.count("<polygon") == 1 and text.count('class="span') == 2
    assert "&lt;two&gt;" in text


def test_what_cannot_be_drawn_is_left_out() -> None:
    assert Plot("p", [PlotSeries("a", [])]).svg() == "" == Plot("p", [PlotSeries("a", [(1.0, math.nan)])]).svg()
    assert Plot("p", [PlotSeries("a", [(1.0, 0.0)])], log_y=True).empty
    assert "nan" not in Plot("p", [PlotSeries("a", [(0.0, 1.0), (10.0, 2.0)])], log_x=True).svg(), "no logarithm of nothing"
    assert Plot("p", [PlotSeries("a", [(1.0, math.nan), *TWO])], "step").curves() == [("a", "1", "3", "▁█")]


def test_a_page_may_hold_many() -> None:
    text = Plot("<b>", [PlotSeries("$\\frac{", TWO), PlotSeries("b", TWO, "level")], "x").svg()
    ElementTree.fromstring(text)
    assert " id=" not in text and " style=" not in text and "<b>" not in text

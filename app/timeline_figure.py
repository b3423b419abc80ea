"""A run's timeline as a figure: panels above each other on one clock."""

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.domain.timeline import Track

PANEL_PX = 130
POINTS_MAX = 2000
"""A longer track is thinned to every n-th sample for the drawing; its numbers are in the API."""


def timeline_figure(tracks: Sequence[Track]) -> go.Figure:
    """One panel for each group of tracks with a unit of its own, in the order in which they come."""
    panels = list(dict.fromkeys(track.panel for track in tracks))
    rows = max(len(panels), 1)
    figure = make_subplots(rows=rows, cols=1, shared_xaxes=True, subplot_titles=panels, vertical_spacing=0.35 / rows)
    slots: dict[str, int] = {}
    for track in tracks:
        slot = slots[track.panel] = slots.get(track.panel, -1) + 1
        figure.add_trace(_line(track, slot), row=panels.index(track.panel) + 1, col=1)
    for panel in panels:
        unit = next(track.unit for track in tracks if track.panel == panel)
        figure.update_yaxes(title_text=unit, rangemode="tozero", row=panels.index(panel) + 1, col=1)
    figure.update_xaxes(title_text="seconds since the replay began", row=rows, col=1)
    meta = {"name": "timeline", "caption": "The run on one clock.", "horizontal": False, "headers": []}
    return figure.update_layout(
        template="none", meta=meta, height=140 + PANEL_PX * rows, hovermode="x", legend={"orientation": "h"}
    )


def _line(track: Track, slot: int) -> go.Scatter:
    step = -(-len(track.at_s) // POINTS_MAX) or 1
    name = track.name if track.device is None else f"{track.name} ({track.device[-8:]})"
    return go.Scatter(
        x=track.at_s[::step],
        y=track.values[::step],
        mode="lines",
        line={"shape": "hv"},
        name=name,
        meta={"arm": name, "slot": slot, "panel": track.panel},
    )
